/* SPDX-License-Identifier: MIT */
/* Tools, calls and reasoning in say and show, against a daemon played by this test. */
#include "cli-fixture.h"
#include "util/terminal.h"

#define KIND(name) CONFAB__V1__PART_KIND__PART_##name

static void send_part(struct fixture *f, uint64_t id, uint32_t index, Confab__V1__PartKind kind,
        const char *text, const char *call_id, const char *name, bool ends, const char *broken) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;
        Confab__V1__Part part = CONFAB__V1__PART__INIT, *parts[] = {&part};

        part.has_index = part.has_kind = part.has_ends = true;
        part.index = index;
        part.kind = kind;
        part.text = proto_borrow(text);
        part.call_id = proto_borrow(call_id);
        part.name = proto_borrow(name);
        part.ends = ends;
        part.broken = proto_borrow(broken);
        delta.parts = parts;
        delta.n_parts = 1;
        ev.has_request = true;
        ev.request = id;
        ev.kind_case = CONFAB__V1__EVENT__KIND_DELTA;
        ev.delta = &delta;
        peer_send(&f->peer, &ev);
}

static void send_done(struct fixture *f, uint64_t id, uint32_t n_calls) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Done done = CONFAB__V1__DONE__INIT;

        done.has_finish = done.has_n_calls = true;
        done.finish = CONFAB__V1__FINISH_REASON__FINISH_STOP;
        done.n_calls = n_calls;
        ev.has_request = true;
        ev.request = id;
        ev.kind_case = CONFAB__V1__EVENT__KIND_DONE;
        ev.done = &done;
        peer_send(&f->peer, &ev);
}

static void reply(struct fixture *f, uint64_t id) {
        peer_send_accepted(&f->peer, id);
        send_part(f, id, 0, KIND(REASONING), "hm, ", NULL, NULL, false, NULL);
        send_part(f, id, 0, KIND(REASONING), "so", NULL, NULL, true, NULL);
        send_part(f, id, 1, KIND(TEXT), "Let me ", NULL, NULL, false, NULL);
        send_part(f, id, 1, KIND(TEXT), "see.", NULL, NULL, true, NULL);
        send_part(f, id, 2, KIND(CALL), "{\"x\":", "ab\ncd", "f", false, NULL);
        send_part(f, id, 2, KIND(CALL), " 1}", NULL, NULL, true, NULL);
        send_done(f, id, 1);
}

static void check(const char *option, const char *out, const char *err) {
        struct fixture f;

        BEGIN(&f, "say", "a", "hello", option ? option : "--wait");
        reply(&f, expect(&f, REQ(CONTINUE)));
        finish(&f, 7, out, err);
        teardown(&f);
}

/* A pipe gets the text alone; a call is a line on standard error, harmless, and the status tells. */
static void test_where_parts_go(void **state) {
        static const char call[] = "f({\"x\": 1}) [ab^Jcd]\n";

        check(NULL, "Let me see.\n", "hm, so\n");
        check(NULL, "Let me see.\n", call);
        check("--reasoning=show", "Let me see.\n", "hm, so\nf(");
        check("--reasoning=hide", "Let me see.\n", call);
        check("--reasoning=only", "hm, so\n", call);
}

/* On a terminal of its own, whose other end is f->out; it changes no byte. */
static void start_on_terminal(struct fixture *f, const char *const *args) {
        const struct winsize size = {.ws_row = 24, .ws_col = 80};
        struct termios raw = {0};

        setup(f);
        cfmakeraw(&raw);
        raw.c_cflag |= CS8;
        f->pid = forkpty(&f->out, NULL, &raw, &size);
        assert_true(f->pid >= 0);
        if (f->pid == 0)
                child(f, args, 0, 1, 2);
        greet(f);
}

/* The program's end of the terminal is closed when it has ended. */
static void finish_on_terminal(struct fixture *f, const char *expected) {
        int w;

        f->text = read_all(f->out);
        assert_int_equal(waitpid(f->pid, &w, 0), f->pid);
        assert_true(WIFEXITED(w));
        assert_int_equal(WEXITSTATUS(w), 0);
        if (!strstr(f->text, expected))
                print_message("on the terminal: %s\n", f->text);
        assert_non_null(strstr(f->text, expected));
        teardown(f);
}

static void think_and_say(struct fixture *f, uint64_t id) {
        peer_send_accepted(&f->peer, id);
        send_part(f, id, 0, KIND(REASONING), "hm, so", NULL, NULL, true, NULL);
        send_part(f, id, 1, KIND(TEXT), "Yes.", NULL, NULL, true, NULL);
        send_done(f, id, 0);
}

/* Reasoning is dimmed there, and what is said is not; in chat, too, which writes Markdown. */
static void test_dimmed(void **state) {
        struct fixture f;

        test_need_terminal();
        start_on_terminal(&f, (const char *const[]){"say", "a", "hello", NULL});
        think_and_say(&f, expect(&f, REQ(CONTINUE)));
        finish_on_terminal(&f, "\033[2mhm, so\033[22m\nYes.\n");

        start_on_terminal(&f, (const char *const[]){"chat", "--no-history", "a", NULL});
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "a");
        assert_int_equal(write(f.out, "hello\r/quit\r", 12), 12);
        think_and_say(&f, expect(&f, REQ(CONTINUE)));
        finish_on_terminal(&f, "\033[0;2mhm, so\033[0m\r\nYes.\r\n");
}

static void test_hidden_reasoning(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "say", "a", "hello", "--reasoning", "hide");
        id = expect(&f, REQ(CONTINUE));
        peer_send_accepted(&f.peer, id);
        send_part(&f, id, 0, KIND(REASONING), "hm", NULL, NULL, true, NULL);
        send_part(&f, id, 1, KIND(TEXT), "Yes.\n", NULL, NULL, true, NULL);
        send_done(&f, id, 0);
        finish(&f, 0, "Yes.\n", NULL);
        teardown(&f);
        setup(&f);
        START(&f, "say", "a", "hello", "--reasoning", "loud");
        finish(&f, 2, "", "--reasoning takes show, hide or only, not 'loud'");
        teardown(&f);
}

static void test_broken_call(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "say", "a", "hello");
        id = expect(&f, REQ(CONTINUE));
        peer_send_accepted(&f.peer, id);
        send_part(&f, id, 0, KIND(CALL), "{\"x", "i", "f", true, "the reply ends in the call");
        send_done(&f, id, 0);
        finish(&f, 0, "", "confab: a call in the reply is broken: the reply ends in the call\n");
        teardown(&f);
}

static void test_json(void **state) {
        struct fixture f;

        BEGIN(&f, "--json", "say", "a", "hello");
        reply(&f, expect(&f, REQ(CONTINUE)));
        finish(&f, 7, NULL, NULL);
        assert_non_null(strstr(f.text, "\n{\"event\":\"delta\",\"text\":\"\",\"parts\":[{\"index\":"
                                       "0,\"kind\":\"reasoning\","
                                       "\"text\":\"so\",\"ends\":true}],\"tokens\":[]}\n"));
        assert_non_null(strstr(f.text, "\"text\":\"Let me \",\"parts\":[{\"index\":1,"));
        assert_non_null(
                strstr(f.text, "\"kind\":\"call\",\"call_id\":\"ab\\ncd\",\"name\":\"f\","));
        assert_non_null(strstr(f.text, "\"n_calls\":1,"));
        teardown(&f);
}

static char *write_file(const char *text) {
        static char path[64];
        int fd;

        strcpy(path, "/tmp/test-cli-parts-XXXXXX");
        fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
        return path;
}

static void test_requests(void **state) {
        static const char defs[] = "[{\"name\": \"f\"}]\n";
        const Confab__V1__Continue *c;
        struct proto_message *m;
        struct fixture f;
        char *path = write_file(defs);

        BEGIN(&f, "say", "a", "hello", "--tools", path);
        m = peer_next(&f.peer);
        c = m->request->continue_;
        assert_int_equal(c->input_case, CONFAB__V1__CONTINUE__INPUT_MESSAGE);
        assert_string_equal(c->tools, defs);
        assert_true(c->want_parts);
        send_done(&f, m->request->id, 0);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        teardown(&f);
        BEGIN(&f, "open", "a", "--tools", path);
        m = peer_next(&f.peer);
        assert_string_equal(m->request->open->tools, defs);
        peer_send_conversation(&f.peer, m->request->id, 5, "a");
        proto_message_free(m);
        finish(&f, 0, "a\n", NULL);
        teardown(&f);
        unlink(path);
        path = write_file("[{\"call_id\": \"c\", \"name\": \"g\", \"content\": {\"n\": [1, 2]}},\n"
                          " {\"tool_call_id\": \"d\", \"content\": \"\\u00e9\"}]");
        BEGIN(&f, "say", "a", "--result", "i=a=b", "--result=j=", "--results", path);
        m = peer_next(&f.peer);
        c = m->request->continue_;
        assert_int_equal(c->input_case, CONFAB__V1__CONTINUE__INPUT_RESULTS);
        assert_int_equal(c->results->n_results, 4);
        assert_string_equal(c->results->results[0]->call_id, "i");
        assert_string_equal(c->results->results[0]->text, "a=b");
        assert_null(c->results->results[0]->name);
        assert_string_equal(c->results->results[1]->text, "");
        assert_string_equal(c->results->results[2]->name, "g");
        assert_string_equal(c->results->results[2]->text, "{\"n\": [1, 2]}");
        assert_string_equal(c->results->results[3]->call_id, "d");
        assert_string_equal(c->results->results[3]->text, "\xc3\xa9");
        send_done(&f, m->request->id, 0);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        teardown(&f);
        unlink(path);
}

static void refuse(int status, const char *why, const char *const *args) {
        struct fixture f;

        setup(&f);
        start(&f, args);
        finish(&f, status, NULL, why);
        teardown(&f);
}
#define REFUSE(status, why, ...)                                                                   \
        refuse(status, why, (const char *const[]){"say", __VA_ARGS__, NULL})

static void test_wrong_usage(void **state) {
        char *path = write_file("[\n {\"call_id\": \"c\"}]");

        REFUSE(2, "--result takes ID=STRING, not 'x'", "a", "--result", "x");
        REFUSE(2, "go without a text", "a", "hello", "--result", "x=1");
        REFUSE(2, "go without a text", "a", "--no-input", "--result", "x=1");
        REFUSE(2, "name a file", "a", "hello", "--tools", "-");
        REFUSE(1, "/nowhere", "a", "hello", "--tools", "/nowhere");
        REFUSE(1, "line 2, column 17: a result has call_id and content", "a", "--results", path);
        unlink(path);
}

/* show: results and parts, not their JSON and marks. */
static void test_show(void **state) {
        Confab__V1__ToolResult result = CONFAB__V1__TOOL_RESULT__INIT, *results[] = {&result};
        Confab__V1__Part a = CONFAB__V1__PART__INIT, b = CONFAB__V1__PART__INIT,
                         *parts[] = {&a, &b};
        Confab__V1__Turn said = CONFAB__V1__TURN__INIT, tool = CONFAB__V1__TURN__INIT,
                         *turns[] = {&said, &tool};
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        struct proto_message *m;
        struct fixture f;

        said.has_role = tool.has_role = true;
        said.role = CONFAB__V1__ROLE__ROLE_ASSISTANT;
        tool.role = CONFAB__V1__ROLE__ROLE_TOOL;
        a.kind = KIND(REASONING);
        a.text = proto_borrow("hm");
        b.kind = KIND(CALL);
        b.text = proto_borrow("{}");
        b.name = proto_borrow("f");
        b.call_id = proto_borrow("i1");
        a.has_kind = b.has_kind = true;
        said.parts = parts;
        said.n_parts = 2;
        result.call_id = proto_borrow("i1");
        result.name = proto_borrow("f");
        result.text = proto_borrow("42");
        tool.results = results;
        tool.n_results = 1;
        c.name = proto_borrow("a");
        c.tools = proto_borrow("[1]");
        c.turn_list = turns;
        c.n_turn_list = 2;
        ev.has_request = true;
        ev.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        ev.conversation = &c;
        for (int json = 0; json < 2; json++) {
                if (json)
                        BEGIN(&f, "--json", "show", "a");
                else
                        BEGIN(&f, "show", "a");
                m = peer_next(&f.peer);
                assert_true(m->request->get->turns && m->request->get->parts);
                ev.request = m->request->id;
                peer_send(&f.peer, &ev);
                proto_message_free(m);
                finish(&f, 0, NULL, NULL);
                if (json) {
                        assert_non_null(strstr(f.text, "\"tools\":\"[1]\""));
                        assert_non_null(strstr(f.text, "\"results\":[{\"call_id\":\"i1\","
                                                       "\"name\":\"f\",\"content\":\"42\"}]"));
                        assert_non_null(strstr(f.text, "\"kind\":\"reasoning\",\"text\":\"hm\""));
                } else {
                        assert_non_null(strstr(f.text, "tools: [1]\n"));
                        assert_non_null(strstr(f.text, "[0] assistant\n(reasoning)\nhm\n"
                                                       "(end of reasoning)\nf({}) [i1]\n"));
                        assert_non_null(strstr(f.text, "[1] tool\nf [i1]: 42\n"));
                }
                teardown(&f);
        }
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_where_parts_go),
                cmocka_unit_test(test_dimmed),
                cmocka_unit_test(test_hidden_reasoning),
                cmocka_unit_test(test_broken_call),
                cmocka_unit_test(test_json),
                cmocka_unit_test(test_requests),
                cmocka_unit_test(test_wrong_usage),
                cmocka_unit_test(test_show),
        };

        if (argc < 2)
                return 1;
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
