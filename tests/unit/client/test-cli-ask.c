/* SPDX-License-Identifier: MIT */
/* ask, say --ephemeral, --role and --best-of, attach, wait, and open --from, against a daemon played by this test. */
#include "cli-fixture.h"

/* The next request, a Fork or an Open, makes a throw-away conversation: its id is @id. */
static void expect_made(struct fixture *f, Confab__V1__Request__VerbCase verb, uint64_t id) {
        struct proto_message *m = peer_next(&f->peer);
        const Confab__V1__About *about;

        assert_int_equal(m->request->verb_case, verb);
        about = verb == REQ(FORK) ? m->request->fork->about : m->request->open->about;
        assert_true(about && about->has_expires_after && about->expires_after == 120);
        assert_string_equal(about->title, "");
        assert_non_null(about->tags);
        assert_int_equal(about->tags->n_tags, 0);
        peer_send_conversation(&f->peer, m->request->id, id, "chat-9");
        proto_message_free(m);
}

/* The next request is a Continue of conversation @id that says @text; its own id is returned. */
static uint64_t expect_said(struct fixture *f, uint64_t id, const char *text) {
        struct proto_message *m = peer_next(&f->peer);
        uint64_t request = m->request->id;

        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->conversation->id, id);
        assert_string_equal(m->request->continue_->message, text);
        proto_message_free(m);
        return request;
}

static void expect_closed(struct fixture *f, uint64_t id) {
        struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(CLOSE));
        assert_int_equal(m->request->close->conversation->id, id);
        peer_send_empty(&f->peer, m->request->id);
        proto_message_free(m);
}

static void reply(struct fixture *f, uint64_t id, const char *text) {
        peer_send_accepted(&f->peer, id);
        peer_send_delta(&f->peer, id, text);
        peer_send_done(&f->peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
}

/* ---- ask ---- */

static void test_ask(void **state) {
        struct fixture f;

        BEGIN(&f, "ask", "alice", "-n", "what?");
        expect_made(&f, REQ(FORK), 9);
        reply(&f, expect_said(&f, 9, "what?"), "this");
        expect_closed(&f, 9);
        finish(&f, 0, "this\n", NULL);
        START(&f, "ask", "-n", "--system", "Be brief.", "what?");
        greet(&f);
        expect_made(&f, REQ(OPEN), 10);
        reply(&f, expect_said(&f, 10, "what?"), "that");
        expect_closed(&f, 10);
        finish(&f, 0, "that\n", NULL);
        start_given(&f, (const char *const[]){"ask", "alice", "-", NULL}, "from a pipe\n");
        greet(&f);
        expect_made(&f, REQ(FORK), 11);
        reply(&f, expect_said(&f, 11, "from a pipe"), "so");
        expect_closed(&f, 11);
        finish(&f, 0, "so\n", NULL);
        teardown(&f);
}

static void test_ask_fails(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "ask", "alice", "-n", "what?");
        peer_send_error(&f.peer, expect(&f, REQ(FORK)), "not_found", "no conversation", false);
        finish(&f, 3, "", "no conversation");
        START(&f, "ask", "alice", "-n", "what?");
        greet(&f);
        expect_made(&f, REQ(FORK), 9);
        id = expect_said(&f, 9, "what?");
        peer_send_error(&f.peer, id, "context_length_exceeded", "too long", false);
        expect_closed(&f, 9); /* all the same */
        finish(&f, 5, "", "confab: too long\n");
        START(&f, "ask", "alice", "what?", "--system", "x");
        finish(&f, 2, "", "leave out --system");
        teardown(&f);
}

static void test_ask_interrupted(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "ask", "alice", "-n", "what?");
        expect_made(&f, REQ(FORK), 9);
        id = expect_said(&f, 9, "what?");
        peer_send_accepted(&f.peer, id);
        kill(f.pid, SIGINT);
        peer_expect(&f.peer, REQ(CANCEL));
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        expect_closed(&f, 9);
        finish(&f, 130, "", NULL);
        teardown(&f);
}

/* A cut reply of a conversation that is gone: the advice is another one. */
static void test_ask_cut(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "ask", "alice", "-n", "what?");
        expect_made(&f, REQ(FORK), 9);
        id = expect_said(&f, 9, "what?");
        peer_send_accepted(&f.peer, id);
        peer_send_delta(&f.peer, id, "th");
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
        expect_closed(&f, 9);
        finish(&f, 0, "th\n", "--max-tokens allows more\n");
        teardown(&f);
}

/* What Get says of a conversation. */
static void send_look(struct fixture *f, uint64_t id, bool busy, bool generating, bool unanswered) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        c.has_id = c.has_revision = c.has_busy = c.has_generating = c.has_unanswered = true;
        c.id = 3;
        c.name = proto_borrow("a");
        c.revision = 5;
        c.busy = busy;
        c.generating = generating;
        c.unanswered = unanswered;
        peer_send(&f->peer, &event);
}

/* With --wait the fork has the reply that is being written. */
static void test_ask_waits(void **state) {
        struct fixture f;

        BEGIN(&f, "ask", "alice", "-n", "--wait", "what?");
        send_look(&f, expect(&f, REQ(GET)), true, true, false);
        reply(&f, expect(&f, REQ(ATTACH)), "another's reply");
        send_look(&f, expect(&f, REQ(GET)), true, false, false);
        peer_send_error(&f.peer, expect(&f, REQ(ATTACH)), "state", "no reply", false);
        send_look(&f, expect(&f, REQ(GET)), false, false, false);
        expect_made(&f, REQ(FORK), 9);
        reply(&f, expect_said(&f, 9, "what?"), "this");
        expect_closed(&f, 9);
        finish(&f, 0, "this\n", NULL);
        teardown(&f);
}

/* ---- say ---- */

static void test_say_ephemeral(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "alice", "-n", "--ephemeral", "what?");
        expect_made(&f, REQ(FORK), 9);
        reply(&f, expect_said(&f, 9, "what?"), "this");
        expect_closed(&f, 9);
        finish(&f, 0, "this\n", NULL);
        START(&f, "say", "alice", "-n", "--ephemeral", "--detach", "what?");
        finish(&f, 2, "", "--detach goes without");
        teardown(&f);
}

static void check_role(const char *role, Confab__V1__Role expected, bool generates) {
        const Confab__V1__Continue *c;
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "say", "alice", "-n", "--role", role, "words");
        m = peer_next(&f.peer);
        c = m->request->continue_;
        assert_true(c->has_role && c->role == expected);
        assert_true(generates ? !c->has_max_tokens : c->has_max_tokens && c->max_tokens == 0);
        reply(&f, m->request->id, "");
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

static void test_say_role(void **state) {
        struct fixture f;

        check_role("user", CONFAB__V1__ROLE__ROLE_USER, true);
        check_role("system", CONFAB__V1__ROLE__ROLE_SYSTEM, false);
        check_role("assistant", CONFAB__V1__ROLE__ROLE_ASSISTANT, false);
        setup(&f);
        START(&f, "say", "alice", "--role", "tool", "words");
        finish(&f, 2, "", "--role takes user, system or assistant, not 'tool'");
        START(&f, "say", "alice", "--role", "user", "--raw", "words");
        finish(&f, 2, "", "--role is for messages");
        teardown(&f);
}

/* A reply of two tokens with these log-probabilities. */
static void reply_likely(struct fixture *f, uint64_t id, float a, float b) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;
        Confab__V1__DeltaToken token[2], *tokens[] = {&token[0], &token[1]};

        for (int i = 0; i < 2; i++) {
                confab__v1__delta_token__init(&token[i]);
                token[i].has_token = token[i].has_logprob = true;
                token[i].logprob = i ? b : a;
        }
        delta.tokens = tokens;
        delta.n_tokens = 2;
        delta.text = proto_borrow("x");
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_DELTA;
        event.delta = &delta;
        peer_send_accepted(&f->peer, id);
        peer_send(&f->peer, &event);
        peer_send_done(&f->peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
}

/* A candidate: its Continue wants log-probabilities and has the @seed. */
static uint64_t expect_candidate(struct fixture *f, uint64_t fork, uint64_t seed) {
        struct proto_message *m = peer_next(&f->peer);
        const Confab__V1__Continue *c = m->request->continue_;
        uint64_t id = m->request->id;

        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(c->conversation->id, fork);
        assert_true(c->want_logprobs && c->sampling->has_seed);
        assert_int_equal(c->sampling->seed, seed);
        assert_false(c->has_expect_revision);
        proto_message_free(m);
        return id;
}

static void test_best_of(void **state) {
        static const float likely[3][2] = {{-1, -1}, {-0.5f, -0.7f}, {-0.1f, -3}};
        const Confab__V1__Continue *c;
        struct proto_message *m;
        struct fixture f;
        uint64_t forks[3];

        BEGIN(&f, "say", "alice", "-n", "--best-of", "3", "--seed", "41", "what?");
        peer_send_conversation(&f.peer, expect(&f, REQ(GET)), 3, "alice");
        expect_made(&f, REQ(FORK), 8); /* the base */
        for (int i = 0; i < 3; i++)
                forks[i] = peer_expect(&f.peer, REQ(FORK));
        for (uint64_t i = 0; i < 3; i++) {
                peer_send_conversation(&f.peer, forks[i], 20 + i, "chat");
                reply_likely(&f, expect_candidate(&f, 20 + i, 41 + i), likely[i][0], likely[i][1]);
                expect_closed(&f, 20 + i);
        }
        expect_closed(&f, 8);
        m = peer_next(&f.peer); /* the same again, as alice's own */
        c = m->request->continue_;
        assert_int_equal(c->conversation->id, 3);
        assert_int_equal(c->sampling->seed, 42);
        assert_true(c->has_expect_revision && c->expect_revision == 5);
        reply(&f, m->request->id, "the best");
        proto_message_free(m);
        finish(&f, 0, "the best\n", NULL);
        teardown(&f);
}

static void test_best_of_busy(void **state) {
        struct fixture f;

        BEGIN(&f, "say", "alice", "-n", "--best-of", "3", "what?");
        send_look(&f, expect(&f, REQ(GET)), true, true, false);
        finish(&f, 4, "", "--wait waits for its end");
        START(&f, "say", "alice", "-n", "--best-of", "3", "--expect-revision", "4", "what?");
        greet(&f);
        send_look(&f, expect(&f, REQ(GET)), false, false, false);
        finish(&f, 4, "", "is at revision 5, not at 4");
        /* all fail: nothing is said */
        START(&f, "say", "alice", "-n", "--best-of", "1", "what?");
        greet(&f);
        send_look(&f, expect(&f, REQ(GET)), false, false, false);
        expect_made(&f, REQ(FORK), 8);
        expect_made(&f, REQ(FORK), 9);
        peer_send_error(&f.peer, expect_said(&f, 9, "what?"), "invalid", "no good", false);
        expect_closed(&f, 9);
        expect_closed(&f, 8);
        finish(&f, 1, "", "no good");
        teardown(&f);
}

static void test_best_of_usage(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "say", "a", "-n", "b", "--best-of", "2", "--temperature", "0");
        finish(&f, 2, "", "all replies are the same");
        START(&f, "say", "a", "-n", "b", "--best-of", "0");
        finish(&f, 2, "", "--best-of: '0' is not a number from 1 to 64");
        START(&f, "say", "a", "-n", "b", "--best-of", "2", "--max-tokens", "0");
        finish(&f, 2, "", "nothing to choose");
        START(&f, "say", "a", "-n", "b", "--best-of", "2", "--ephemeral");
        finish(&f, 2, "", "exclude each other");
        teardown(&f);
}

/* ---- attach, wait ---- */

static void test_attach(void **state) {
        struct fixture f;
        uint64_t id;

        BEGIN(&f, "attach", "alice");
        reply(&f, expect(&f, REQ(ATTACH)), "so far");
        finish(&f, 0, "so far\n", NULL);
        START(&f, "attach", "alice");
        greet(&f);
        id = expect(&f, REQ(ATTACH));
        peer_send_accepted(&f.peer, id);
        kill(f.pid, SIGINT);
        peer_expect(&f.peer, REQ(CANCEL)); /* of the Attach: the reply goes on */
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        finish(&f, 130, "", NULL);
        START(&f, "attach", "alice");
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(ATTACH)), "state", "there is none", false);
        finish(&f, 1, "", "there is none");
        teardown(&f);
}

static void test_wait(void **state) {
        struct fixture f;
        uint64_t a, b;

        BEGIN(&f, "wait", "a", "b");
        a = expect(&f, REQ(ATTACH));
        b = expect(&f, REQ(ATTACH));
        reply(&f, a, "said");
        send_look(&f, expect(&f, REQ(GET)), true, true, false); /* somebody waited to go on */
        reply(&f, expect(&f, REQ(ATTACH)), "said as well");
        send_look(&f, expect(&f, REQ(GET)), false, false, false);
        peer_send_error(&f.peer, b, "state", "no reply", false); /* it is empty */
        send_look(&f, expect(&f, REQ(GET)), false, false, false);
        finish(&f, 0, "", NULL);
        START(&f, "wait", "--json", "a", "b", "c");
        greet(&f);
        a = expect(&f, REQ(ATTACH));
        b = expect(&f, REQ(ATTACH));
        peer_send_error(
                &f.peer, expect(&f, REQ(ATTACH)), "not_found", "no conversation 'c'", false);
        peer_send_error(&f.peer, b, "state", "no reply", false);
        send_look(&f, expect(&f, REQ(GET)), false, false, true);
        peer_send_done(&f.peer, a, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        send_look(&f, expect(&f, REQ(GET)), false, false, false);
        finish(&f, 1,
                "{\"name\":\"a\",\"conversation\":3,\"finish\":\"stop\",\"n_generated\":7,"
                "\"n_calls\":0,\"unanswered\":false}\n"
                "{\"name\":\"b\",\"conversation\":3,\"finish\":null,\"n_generated\":0,"
                "\"n_calls\":0,\"unanswered\":true}\n"
                "{\"name\":\"c\",\"error\":{\"event\":\"error\",\"code\":\"not_found\","
                "\"message\":\"no conversation 'c'\",\"retry\":false}}\n",
                "b: what was said last has no reply");
        teardown(&f);
}

static void test_wait_ends(void **state) {
        struct fixture f;
        uint64_t a;

        BEGIN(&f, "wait", "a");
        a = expect(&f, REQ(ATTACH));
        peer_send_done(&f.peer, a, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        send_look(&f, expect(&f, REQ(GET)), false, false, false);
        finish(&f, 1, "", "a: the reply was cancelled");
        START(&f, "wait", "a");
        greet(&f);
        expect(&f, REQ(ATTACH));
        peer_deinit(&f.peer); /* the daemon is gone */
        f.peer.fd = -1;
        finish(&f, 1, "", "a: ");
        START(&f, "wait", "c");
        greet(&f);
        peer_send_error(
                &f.peer, expect(&f, REQ(ATTACH)), "not_found", "no conversation 'c'", false);
        finish(&f, 3, "", "confab: no conversation 'c'\n"); /* named once */
        START(&f, "wait", "a", "#0");
        finish(&f, 2, "", "no conversation number 0");
        teardown(&f);
}

/* ---- open --from ---- */

static void test_open_from(void **state) {
        static const char text[] = "[{\"role\":\"user\",\"content\":\"a\"},"
                                   "{\"role\":\"assistant\",\"content\":\"b\"}]";
        const Confab__V1__Continue *c;
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        start_given(&f, (const char *const[]){"open", "x", "--from", "-", NULL}, text);
        greet(&f);
        expect_made(&f, REQ(OPEN), 9);
        m = peer_next(&f.peer);
        c = m->request->continue_;
        assert_int_equal(c->conversation->id, 9);
        assert_int_equal(c->input_case, CONFAB__V1__CONTINUE__INPUT_MESSAGES);
        assert_int_equal(c->messages->n_messages, 2);
        assert_int_equal(c->messages->messages[1]->role, CONFAB__V1__ROLE__ROLE_ASSISTANT);
        assert_true(c->has_max_tokens && c->max_tokens == 0);
        reply(&f, m->request->id, "");
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(UPDATE)); /* it is kept for good */
        assert_true(m->request->update->about->has_expires_after);
        assert_int_equal(m->request->update->about->expires_after, 0);
        peer_send_conversation(&f.peer, m->request->id, 9, "x");
        proto_message_free(m);
        finish(&f, 0, "x\n", NULL);
        teardown(&f);
}

static void test_open_from_fails(void **state) {
        static const char with_system[] = "[{\"role\":\"system\",\"content\":\"a\"}]";
        struct fixture f;

        setup(&f);
        start_given(&f, (const char *const[]){"open", "--from", "-", NULL}, with_system);
        greet(&f);
        expect_made(&f, REQ(OPEN), 9);
        peer_send_error(&f.peer, expect(&f, REQ(CONTINUE)), "state", "not possible", false);
        expect_closed(&f, 9);
        finish(&f, 1, "", "not possible");
        start_given(&f, (const char *const[]){"open", "--from", "-", "--system", "s", NULL},
                with_system);
        finish(&f, 2, "", "leave out --system");
        start_given(
                &f, (const char *const[]){"open", "--from", "-", NULL}, "[{\"role\":\"user\"}]");
        finish(&f, 1, "", "standard input: [0].content: it is missing");
        start_given(&f, (const char *const[]){"open", "--from", "-", NULL}, "cEXP\1");
        finish(&f, 1, "", "'confab import' takes it");
        START(&f, "open", "--from", "/does/not/exist");
        finish(&f, 1, "", "cannot read '/does/not/exist'");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ask),
                cmocka_unit_test(test_ask_fails),
                cmocka_unit_test(test_ask_interrupted),
                cmocka_unit_test(test_ask_cut),
                cmocka_unit_test(test_ask_waits),
                cmocka_unit_test(test_say_ephemeral),
                cmocka_unit_test(test_say_role),
                cmocka_unit_test(test_best_of),
                cmocka_unit_test(test_best_of_busy),
                cmocka_unit_test(test_best_of_usage),
                cmocka_unit_test(test_attach),
                cmocka_unit_test(test_wait),
                cmocka_unit_test(test_wait_ends),
                cmocka_unit_test(test_open_from),
                cmocka_unit_test(test_open_from_fails),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-ask PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
