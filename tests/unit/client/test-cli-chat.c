/* SPDX-License-Identifier: MIT */
/* Replies that ended at a limit, and the commands of chat, from a pipe. */
#include "cli-fixture.h"
#include "base/file.h"
#include <sys/stat.h>

static void reply(struct fixture *f, uint64_t id, Confab__V1__FinishReason finish) {
        peer_send_accepted(&f->peer, id);
        peer_send_delta(&f->peer, id, "so far");
        peer_send_done(&f->peer, id, finish);
}

/* A reply that was cut is told, and how to go on; the status stays. */
static void test_limit(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "a", "b");
        reply(&f, expect(&f, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        finish(&f, 0, "so far\n",
                "confab: the reply ended at 7 tokens, the longest that was allowed; 'confab say "
                "NAME --no-input' goes on\n");
        START(&f, "say", "--json", "a", "b");
        greet(&f);
        reply(&f, expect(&f, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        finish(&f, 0, NULL, "the reply ended at 7 tokens");
        assert_non_null(strstr(f.text, "\"event\":\"done\",\"finish\":\"length\""));
        START(&f, "say", "a", "b");
        greet(&f);
        reply(&f, expect(&f, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_CONTEXT);
        finish(&f, 0, "so far\n", "the context is full");
        teardown(&f);
}

static void begin_chat(struct fixture *f, const char *input) {
        setup(f);
        START(f, "chat", "bob");
        give_input(f, input);
        greet(f);
        peer_send_conversation(&f->peer, expect(f, REQ(GET)), 3, "bob");
}

static void test_more(void **state) {
        struct proto_message *m;
        struct fixture f;

        begin_chat(&f, "hello\n/more\n");
        reply(&f, expect(&f, REQ(CONTINUE)), CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->input_case, CONFAB__V1__CONTINUE__INPUT_NOTHING);
        assert_int_equal(m->request->continue_->conversation->id, 3);
        reply(&f, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "so far\nso far\n",
                "the reply ended at 7 tokens, the longest that was allowed; /more goes on\n");
        teardown(&f);
}

/* A line of white space is no message, on a terminal a space too many before Enter. */
static void test_blank(void **state) {
        struct fixture f;

        begin_chat(&f, "\n \n\t \r\n");
        assert_null(peer_next(&f.peer)); /* it has left without another request */
        finish(&f, 0, "", "");
        teardown(&f);
}

/* A number of turns that is none takes nothing back: 2^32 + 2 was taken for 2 once. */
static void test_rewind(void **state) {
        static const char *const bad[] = {"4294967298", "0", "-1", "+2", "2x", "0x2", "2 2"};
        struct proto_message *m;
        struct fixture f;
        char line[64];

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                snprintf(line, sizeof(line), "/rewind %s\n", bad[i]);
                begin_chat(&f, line);
                assert_null(peer_next(&f.peer)); /* it has left without another request */
                finish(&f, 2, "", "/rewind takes a number of turns");
                teardown(&f);
        }
        begin_chat(&f, "/rewind\n/rewind 4294967295\n");
        m = peer_next(&f.peer);
        assert_int_equal(m->request->rewind->turns, 2);
        peer_send_conversation(&f.peer, m->request->id, 3, "bob");
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->rewind->turns, UINT32_MAX);
        peer_send_conversation(&f.peer, m->request->id, 3, "bob");
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

/* The next request, which is of @verb; to be freed. */
static struct proto_message *next(struct fixture *f, Confab__V1__Request__VerbCase verb) {
        struct proto_message *m = peer_next(&f->peer);

        assert_int_equal(m->request->verb_case, verb);
        return m;
}

/* Markdown is made readable on terminals alone: a pipe gets each byte. Two slashes are one, in a message. */
static void test_messages(void **state) {
        static const char text[] = "# *a* \x1b[2J `b`\n```\nc\n```";
        struct proto_message *m;
        struct fixture f;

        begin_chat(&f, "//tmp is full\n");
        m = next(&f, REQ(CONTINUE));
        assert_string_equal(m->request->continue_->message, "/tmp is full");
        peer_send_accepted(&f.peer, m->request->id);
        peer_send_delta(&f.peer, m->request->id, text);
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "# *a* \x1b[2J `b`\n```\nc\n```\n", NULL);
        teardown(&f);
}

/* What was meant is suggested, where something is near; nothing is asked of the daemon. */
static void test_unknown(void **state) {
        static const char *const lines[][2] = {
                {"/rewnd\n",
                        "unknown command '/rewnd'; did you mean '/rewind'? (/help lists them)\n"},
                {"/regen\n", "unknown command '/regen'; did you mean '/regenerate'?"},
                {"/xyzzy 1\n", "unknown command '/xyzzy' (/help lists them)\n"},
                {"/\n", "unknown command '/' (/help lists them)\n"},
                {"/more now\n", "/more takes nothing; /help more tells more\n"},
                {"/edit\n", "/edit takes what is to be said instead\n"},
                {"/switch\n", "/switch takes the name or number of a conversation, not ''\n"},
                {"/save\n", "/save takes a file\n"},
                {"/set temperature\n", "/set takes KEY=VALUE, not 'temperature'\n"},
                {"/set colour=red\n", "/set knows no 'colour'; /help set lists what it knows\n"},
                {"/set max-tokens=0\n", "/set max-tokens: '0' is not a number from 1 to"},
                {"/help nothing\n", "unknown command '/nothing' (/help lists them)\n"},
        };
        struct fixture f;

        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
                begin_chat(&f, lines[i][0]);
                assert_null(peer_next(&f.peer));
                finish(&f, 2, "", lines[i][1]);
                teardown(&f);
        }
        begin_chat(&f, "/help\n/help save\n/help /more\n");
        assert_null(peer_next(&f.peer));
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "/switch NAME       go on in another conversation\n"));
        assert_non_null(strstr(f.text, "\nWith -f a file that is there already is replaced.\n"));
        teardown(&f);
}

/* A setting of sampling changes that one alone; what the command line said does not hold any more. */
static void test_set(void **state) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        START(&f, "chat", "bob", "--temperature", "1.5");
        give_input(&f, "/set temperature=0.5\nhello\n/set title=A title\n/set tags=a, b ,,c\n"
                       "/set max-tokens=9\nhello\n/set top-p=2\n");
        greet(&f);
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "bob");
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "bob");
        m = next(&f, REQ(UPDATE));
        assert_true(m->request->update->reset_sampling);
        assert_true(m->request->update->sampling->has_temperature);
        assert_true(m->request->update->sampling->temperature == 0.5f);
        assert_false(m->request->update->sampling->has_top_k);
        peer_send_conversation(&f.peer, m->request->id, 3, "bob");
        proto_message_free(m);
        m = next(&f, REQ(CONTINUE));
        assert_false(m->request->continue_->sampling &&
                     m->request->continue_->sampling->has_temperature);
        assert_false(m->request->continue_->has_max_tokens);
        reply(&f, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        m = next(&f, REQ(UPDATE));
        assert_string_equal(m->request->update->about->title, "A title");
        assert_null(m->request->update->sampling);
        peer_send_conversation(&f.peer, m->request->id, 3, "bob");
        proto_message_free(m);
        m = next(&f, REQ(UPDATE));
        assert_int_equal(m->request->update->about->tags->n_tags, 3);
        assert_string_equal(m->request->update->about->tags->tags[1], "b");
        peer_send_conversation(&f.peer, m->request->id, 3, "bob");
        proto_message_free(m);
        m = next(&f, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->max_tokens, 9);
        reply(&f, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "bob");
        assert_null(peer_next(&f.peer));
        finish(&f, 2, NULL, "/set top-p: '2' is not a number from 0 to 1\n");
        teardown(&f);
}

/* Before anything was said a system message takes the place of the one there is, later it follows. */
static void test_system(void **state) {
        static const Confab__V1__Role both[] = {
                CONFAB__V1__ROLE__ROLE_SYSTEM, CONFAB__V1__ROLE__ROLE_USER};
        struct proto_message *m;

        for (size_t n = 0; n <= 2; n++) {
                struct fixture f;

                begin_chat(&f, "/system Be brief.\n");
                peer_send_turns(&f.peer, expect(&f, REQ(GET)), 5, both, n);
                m = next(&f, REQ(CONTINUE));
                assert_string_equal(m->request->continue_->message, "Be brief.");
                assert_int_equal(m->request->continue_->role, CONFAB__V1__ROLE__ROLE_SYSTEM);
                assert_true(m->request->continue_->has_max_tokens);
                assert_int_equal(m->request->continue_->max_tokens, 0);
                /* What others say meanwhile is not dropped. */
                assert_true(m->request->continue_->has_expect_revision);
                assert_int_equal(m->request->continue_->from_case,
                        n == 1 ? CONFAB__V1__CONTINUE__FROM_AT_TURN
                               : CONFAB__V1__CONTINUE__FROM__NOT_SET);
                peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
                proto_message_free(m);
                finish(&f, 0, "", NULL);
                teardown(&f);
        }
}

/* A file that is there is kept, unless -f says otherwise; nobody else may read it. */
static void test_save(void **state) {
        static const char *const texts[] = {"one\ntwo\n", "reply"};
        static const char expected[] = "# bob\n\n## user\n\none\ntwo\n\n## assistant\n\nreply\n";
        char dir[] = "/tmp/confab-test-XXXXXX", path[64], line[128];

        assert_non_null(mkdtemp(dir));
        for (int round = 0; round < 4; round++) {
                _cleanup_(freep) char *text = NULL;
                bool json = round == 3;
                struct fixture f;
                struct stat st;
                struct err e;
                size_t size;

                snprintf(path, sizeof(path), "%s/x.%s", dir, json ? "json" : "md");
                snprintf(line, sizeof(line), "/save %s%s\n", round == 2 ? "-f " : "", path);
                begin_chat(&f, line);
                peer_send_texts(&f.peer, expect(&f, REQ(GET)), texts, 2);
                finish(&f, round == 1, "", round == 1 ? "/save -f FILE replaces it" : NULL);
                assert_int_equal(file_read_all(path, 4096, &text, &size, &e), 0);
                assert_int_equal(stat(path, &st), 0);
                assert_int_equal(st.st_mode & 0777, 0600);
                if (json)
                        assert_non_null(
                                strstr(text, "\"role\":\"user\",\"text\":\"one\\ntwo\\n\""));
                else
                        assert_string_equal(text, expected);
                teardown(&f);
                if (round >= 2)
                        unlink(path);
                else if (round == 1) { /* what -f replaces is not what is written */
                        int fd = open(path, O_WRONLY | O_TRUNC);

                        assert_int_equal(write(fd, "old", 3), 3);
                        close(fd);
                }
        }
        assert_int_equal(rmdir(dir), 0);
}

static void test_switch(void **state) {
        struct proto_message *m;
        struct fixture f;

        begin_chat(&f, "/switch 7\nhello\n");
        m = next(&f, REQ(GET));
        assert_int_equal(m->request->get->conversation->id, 7);
        peer_send_conversation(&f.peer, m->request->id, 7, "alice");
        proto_message_free(m);
        m = next(&f, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->conversation->id, 7);
        reply(&f, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "so far\n", NULL);
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_more),
                cmocka_unit_test(test_blank),
                cmocka_unit_test(test_rewind),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_set),
                cmocka_unit_test(test_system),
                cmocka_unit_test(test_save),
                cmocka_unit_test(test_switch),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-chat PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
