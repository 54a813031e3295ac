/* SPDX-License-Identifier: MIT */
/* Every allocation of the agent of ACP fails once, in a session with a call of each method:
 * every request is answered exactly once, unless the agent says that it cannot write, and nothing leaks. */
#include "client/acp/agent.h"
#include "fault/loop.h"
#include "script.h"
#include "util/fds.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ALLOCATIONS 10000
#define N_REQUESTS 9

static const char lines[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}"
        "}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/new\",\"params\":{\"cwd\":\"/p\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/"
        "load\",\"params\":{\"sessionId\":\"12\",\"cwd\":\"/"
        "p\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/list\",\"params\":{\"cwd\":\"/p\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"session/"
        "fork\",\"params\":{\"sessionId\":\"12\",\"cwd\":\"/"
        "p\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"session/"
        "prompt\",\"params\":{\"sessionId\":\"12\",\"prompt\":"
        "[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":\"resource_link\",\"uri\":\"u\"}]}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/"
        "delete\",\"params\":{\"sessionId\":\"13\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"session/nosuch\"}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"session/"
        "prompt\",\"params\":{\"sessionId\":\"12\",\"prompt\":"
        "[{\"type\":\"text\",\"text\":\"cancelled\"}]}}\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"14\"}}\n";

static struct buf script; /* what the daemon says */

static void say_reply(uint64_t id) {
        Confab__V1__Accepted accepted = CONFAB__V1__ACCEPTED__INIT;
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;
        Confab__V1__Done done = CONFAB__V1__DONE__INIT;
        Confab__V1__Part text = CONFAB__V1__PART__INIT, call = CONFAB__V1__PART__INIT;
        Confab__V1__Part *parts[] = {&text, &call};

        text.has_kind = call.has_kind = call.has_ends = call.ends = true;
        text.kind = CONFAB__V1__PART_KIND__PART_TEXT;
        text.text = proto_borrow("Yes");
        call.kind = CONFAB__V1__PART_KIND__PART_CALL;
        call.call_id = proto_borrow("c1");
        call.name = proto_borrow("weather");
        call.text = proto_borrow("{\"city\":\"Oslo\"}");
        delta.parts = parts;
        delta.n_parts = 2;
        script_say(&script, id, CONFAB__V1__EVENT__KIND_ACCEPTED, &accepted);
        script_say(&script, id, CONFAB__V1__EVENT__KIND_DELTA, &delta);
        script_say(&script, id, CONFAB__V1__EVENT__KIND_DONE, &done);
}

/* The ids are those that the agent's requests have if none fails: libconfab's Hello is 1, the model 2. Where one
 * fails, later ones get answers of another kind or none, and the end of the connection ends them. */
static void write_script(void) {
        Confab__V1__Hello hello = CONFAB__V1__HELLO__INIT;
        Confab__V1__ModelInfoResult model = CONFAB__V1__MODEL_INFO_RESULT__INIT;
        Confab__V1__Turn turn = CONFAB__V1__TURN__INIT, *turns[] = {&turn};
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT, *items[] = {&c};
        Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__About about = CONFAB__V1__ABOUT__INIT;
        Confab__V1__Empty empty = CONFAB__V1__EMPTY__INIT;

        hello.has_version = true;
        hello.version = PROTO_VERSION;
        script_say(&script, 1, CONFAB__V1__EVENT__KIND_HELLO, &hello);
        model.has_context = true;
        model.context = 1000;
        script_say(&script, 2, CONFAB__V1__EVENT__KIND_MODEL_INFO, &model);
        c.has_id = c.has_n_turns = true;
        c.id = 12;
        c.n_turns = 1;
        script_say(&script, 3, CONFAB__V1__EVENT__KIND_CONVERSATION, &c); /* new */
        turn.has_role = turn.has_text = true;
        turn.role = CONFAB__V1__ROLE__ROLE_USER;
        turn.text.data = (uint8_t *)proto_borrow("hi");
        turn.text.len = 2;
        c.turn_list = turns;
        c.n_turn_list = 1;
        script_say(&script, 4, CONFAB__V1__EVENT__KIND_CONVERSATION, &c); /* load */
        c.n_turn_list = 0;
        about.metadata = proto_borrow("{\"x\":[1],\"cwd\":\"/p\"}");
        c.about = &about;
        list.conversations = items;
        list.n_conversations = 1;
        script_say(&script, 5, CONFAB__V1__EVENT__KIND_CONVERSATIONS, &list); /* list */
        script_say(&script, 6, CONFAB__V1__EVENT__KIND_CONVERSATION, &c);     /* fork, looks */
        about.has_expires_after = true;
        about.expires_after = 7;
        script_say(&script, 7, CONFAB__V1__EVENT__KIND_CONVERSATION, &c); /* prompt, looks */
        script_say(&script, 8, CONFAB__V1__EVENT__KIND_EMPTY, &empty);    /* delete */
        script_say(&script, 9, CONFAB__V1__EVENT__KIND_CONVERSATION, &c); /* fork */
        about.title = proto_borrow("hi");
        script_say(&script, 10, CONFAB__V1__EVENT__KIND_CONVERSATION, &c); /* prompt, notes */
        say_reply(11);
}

/* ---- the session ---- */

static int connect_script(void *userdata, struct confab **ret, struct confab_error *e) {
        unsigned *n_connections = userdata;
        int sv[2];

        if ((*n_connections)++ > 0) {
                *e = (struct confab_error){
                        .code = CONFAB_NO_DAEMON, .message = "it is gone", .retry = true};
                return -1;
        }
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        assert_int_equal(send(sv[1], script.data, script.size, 0), script.size);
        shutdown(sv[1], SHUT_WR);
        if (confab_new_from_fd(ret, sv[0], e) < 0) {
                close(sv[1]);
                return -1;
        }
        close(sv[1]);
        return 0;
}

static void ignore(void *userdata, const char *words) {
}

static unsigned count(const char *said, const char *words) {
        unsigned n = 0;

        for (; (said = strstr(said, words)); said++)
                n++;
        return n;
}

/* What was said is complete, or an error tells that it is not. */
static void check_answers(const struct acp_agent *agent, const char *said) {
        for (int id = 1; id <= N_REQUESTS; id++) {
                char words[16];

                snprintf(words, sizeof(words), "\"id\":%d,", id);
                assert_true(count(said, words) <= 1);
                if (!agent->out.error && count(said, words) != 1)
                        /* a line that could not be read into memory is answered without its id */
                        assert_int_equal(count(said, "\"id\":null,\"error\""), 1);
        }
        assert_true(count(said, "\"id\":null,\"error\"") <= 1);
        if (!agent->out.error) /* a list is whole, or an error */
                assert_int_equal(count(said, "\"sessions\":[]"), 0);
}

/* 0: all went well; -1: something failed, as it should. */
static int session(void) {
        unsigned n_connections = 0;
        const struct acp_options options = {
                .connect = connect_script, .complain = ignore, .userdata = &n_connections};
        struct acp_agent agent;
        const char *said;
        int r;

        acp_agent_init(&agent, &options);
        r = acp_agent_feed(&agent, lines, strlen(lines), true);
        if (r < 0) {
                assert_int_equal(r, -ERR_NOMEM);
                acp_agent_deinit(&agent);
                return -1;
        }
        acp_agent_go_on(&agent);
        for (int i = 0; i < 20 && agent.n_calls > 0; i++) { /* the script ends with a hang-up */
                if (agent.confab)
                        acp_agent_process(&agent);
                acp_agent_go_on(&agent);
        }
        assert_int_equal(agent.n_calls, 0);
        said = agent.out.buf.size ? (const char *)agent.out.buf.data : "";
        check_answers(&agent, said);
        /* the method that there is not, and the prompt behind the one that took the script's last reply */
        r = !agent.out.error && count(said, "\"error\"") == 2 && count(said, "tool_call") == 1 ? 0
                                                                                               : -1;
        acp_agent_deinit(&agent);
        return r;
}

static void test_session(void **state) {
        struct fault_loop loop = {.at_least = 201, .at_most = MAX_ALLOCATIONS};
        size_t n_fds;

        write_script();
        n_fds = test_count_fds();
        assert_int_equal(session(), 0);
        while (fault_loop_next(&loop)) {
                int r;

                fault_loop_arm(&loop);
                r = session();
                fault_loop_disarm(&loop);
                assert_int_equal(test_count_fds(), n_fds);
                /* a failed allocation may have been harmless: the agent goes on without what it noted */
                assert_true(loop.hit || r == 0);
        }
        buf_deinit(&script);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_session)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
