/* SPDX-License-Identifier: MIT */
/* Replies that ended at a limit, and the commands of chat. */
#include "cli-fixture.h"

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

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_more),
                cmocka_unit_test(test_rewind),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-chat PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
