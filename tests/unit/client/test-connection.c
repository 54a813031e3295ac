/* SPDX-License-Identifier: MIT */
/* Traffic through libconfab: requests as they are sent, answers as the callbacks get them. */
#include "connection-fixture.h"
#include <math.h>

/* ---- answers ---- */

static void test_continue(void **state) {
        struct confab_request r = request_of(CONFAB_CONTINUE);
        struct seen seen = {0};
        struct fixture f;
        uint64_t id;

        setup(&f);
        r.conversation = "alice";
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = "hi";
        r.text_size = 2;
        id = submit(&f, &r, &seen);
        assert_int_equal(confab_get_n_pending(f.c), 1);
        peer_send_accepted(&f.peer, id);
        peer_send_progress(&f.peer, id, 5, 10);
        peer_send_delta(&f.peer, id, "h\xc3\xa9");
        peer_send_delta(&f.peer, id, "");
        peer_send_delta(&f.peer, id, "llo");
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 6);
        assert_int_equal(seen.kinds[0], CONFAB_EVENT_ACCEPTED);
        assert_int_equal(seen.kinds[1], CONFAB_EVENT_PROGRESS);
        assert_int_equal(seen.kinds[5], CONFAB_EVENT_DONE);
        assert_string_equal(seen.text, "h\xc3\xa9llo");
        assert_int_equal(seen.n_final, 1);
        assert_int_equal(confab_get_n_pending(f.c), 0);
        /* what comes too late is ignored */
        peer_send_delta(&f.peer, id, "more");
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 6);
        teardown(&f);
}

static void check_full_delta(const struct confab_event *event) {
        const struct confab_token *t;

        if (event->kind != CONFAB_EVENT_DELTA)
                return;
        assert_int_equal(event->delta->n_tokens, 2);
        t = event->delta->tokens;
        assert_int_equal(t[0].token, 7);
        assert_true(t[0].has_logprob);
        assert_true(t[0].logprob == 0x1.fffffep-3f * -1.0f);
        assert_int_equal(t[0].n_top, 2);
        assert_int_equal(t[0].top[1].token, -1);
        assert_true(isinf(t[0].top[1].logprob));
        assert_int_equal(t[0].top[1].text.size, 2);
        assert_memory_equal(t[0].top[1].text.data, "\xff\0", 2);
        assert_int_equal(t[0].text.size, 3);
        assert_memory_equal(t[0].text.data, "\0\xe2\x82", 3);
        assert_false(t[1].has_logprob);
        assert_int_equal(t[1].text.size, 0);
        assert_int_equal(t[1].n_top, 0);
}

static void test_logprobs(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Delta delta = CONFAB__V1__DELTA__INIT;
        Confab__V1__DeltaToken a = CONFAB__V1__DELTA_TOKEN__INIT, b = a, *tokens[] = {&a, &b};
        Confab__V1__TokenLogprob x = CONFAB__V1__TOKEN_LOGPROB__INIT, y = x, *top[] = {&x, &y};
        struct confab_request r = request_of(CONFAB_CONTINUE);
        struct seen seen = {.check = check_full_delta};
        struct fixture f;

        setup(&f);
        r.conversation_id = 3;
        event.has_request = true;
        event.request = submit(&f, &r, &seen);
        event.kind_case = CONFAB__V1__EVENT__KIND_DELTA;
        event.delta = &delta;
        delta.n_tokens = 2;
        delta.tokens = tokens;
        a.has_token = a.has_logprob = true;
        a.token = 7;
        a.logprob = -0x1.fffffep-3f;
        a.has_text = true;
        a.text = (ProtobufCBinaryData){3, proto_borrow("\0\xe2\x82")};
        a.n_top = 2;
        a.top = top;
        y.has_token = y.has_logprob = y.has_text = true;
        y.token = -1;
        y.logprob = -INFINITY;
        y.text = (ProtobufCBinaryData){2, proto_borrow("\xff\0")};
        peer_send(&f.peer, &event);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 1);
        teardown(&f);
}

static void check_conversation(const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;

        assert_int_equal(event->kind, CONFAB_EVENT_CONVERSATION);
        assert_int_equal(c->id, 3);
        assert_string_equal(c->name, "");
        assert_int_equal(c->n_turn_list, 1);
        assert_int_equal(c->turns[0].role, CONFAB_ROLE_USER);
        assert_memory_equal(c->turns[0].text.data, "hi", 2);
        assert_int_equal(c->n_token_list, 3);
        assert_int_equal(c->tokens[2], 30);
        assert_int_equal(c->sampling.has, CONFAB_HAS_TOP_K | CONFAB_HAS_SEED);
        assert_int_equal(c->sampling.top_k, 40);
        assert_true(c->sampling.seed == UINT64_MAX);
        assert_int_equal(c->sampling.n_biases, 1);
        assert_int_equal(c->sampling.biases[0].token, 9);
}

static void test_get(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turn = CONFAB__V1__TURN__INIT, *turns[] = {&turn};
        Confab__V1__Sampling sampling = CONFAB__V1__SAMPLING__INIT;
        Confab__V1__LogitBias bias = CONFAB__V1__LOGIT_BIAS__INIT, *biases[] = {&bias};
        int32_t tokens[] = {10, 20, 30};
        struct confab_request r = request_of(CONFAB_GET);
        struct seen seen = {.check = check_conversation};
        struct fixture f;

        setup(&f);
        r.conversation_id = 3;
        event.has_request = true;
        event.request = submit(&f, &r, &seen);
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        c.has_id = true;
        c.id = 3;
        c.turn_list = turns;
        c.n_turn_list = 1;
        turn.has_role = turn.has_text = true;
        turn.role = CONFAB__V1__ROLE__ROLE_USER;
        turn.text = (ProtobufCBinaryData){2, proto_borrow("hi")};
        c.token_list = tokens;
        c.n_token_list = 3;
        c.sampling = &sampling;
        sampling.has_top_k = sampling.has_seed = true;
        sampling.top_k = 40;
        sampling.seed = UINT64_MAX;
        sampling.logit_bias = biases;
        sampling.n_logit_bias = 1;
        bias.has_token = true;
        bias.token = 9;
        peer_send(&f.peer, &event);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n_final, 1);
        teardown(&f);
}

static void test_many_in_flight(void **state) {
        struct confab_request r = request_of(CONFAB_CLOSE);
        struct seen seen[20] = {0};
        uint64_t ids[20];
        struct fixture f;

        setup(&f);
        for (size_t i = 0; i < 20; i++) {
                r.conversation_id = i + 1;
                assert_int_equal(confab_submit(f.c, &r, see, &seen[i], &ids[i], NULL), 0);
        }
        assert_int_equal(confab_process(f.c, NULL), 0);
        for (size_t i = 0; i < 20; i++)
                assert_int_equal(peer_expect(&f.peer, CONFAB__V1__REQUEST__VERB_CLOSE), ids[i]);
        for (size_t i = 20; i-- > 0;) /* backwards */
                if (i % 2)
                        peer_send_empty(&f.peer, ids[i]);
                else
                        peer_send_error(&f.peer, ids[i], "busy", "wait", true);
        assert_int_equal(confab_process(f.c, NULL), 0);
        for (size_t i = 0; i < 20; i++) {
                assert_int_equal(seen[i].n, 1);
                assert_int_equal(seen[i].request, ids[i]);
                assert_int_equal(seen[i].kinds[0], i % 2 ? CONFAB_EVENT_EMPTY : CONFAB_EVENT_ERROR);
                assert_true(i % 2 ||
                            (seen[i].error.retry && confab_error_is(&seen[i].error, CONFAB_BUSY)));
        }
        teardown(&f);
}

/* The answers come in single bytes. */
static void test_trickle(void **state) {
        struct confab_request r = request_of(CONFAB_EVICT);
        struct seen seen = {0};
        struct fixture f;
        struct peer relay;
        uint8_t byte;
        int sv[2];

        setup(&f);
        r.conversation_id = 1;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        peer_init(&relay, sv[0]);
        peer_send_conversation(&relay, submit(&f, &r, &seen), 1, "slow");
        peer_deinit(&relay);
        while (recv(sv[1], &byte, 1, 0) == 1) {
                assert_int_equal(seen.n, 0);
                peer_send_bytes(&f.peer, &byte, 1);
                assert_int_equal(confab_process(f.c, NULL), 0);
        }
        assert_int_equal(seen.n, 1);
        close(sv[1]);
        teardown(&f);
}

static void submit_again(void *userdata, const struct confab_event *event) {
        struct seen *s = userdata;
        struct confab_request r = request_of(CONFAB_STATS);
        struct confab_error e;

        see(s, event);
        assert_int_equal(confab_submit(s->f->c, &r, NULL, NULL, NULL, &e), 0);
        assert_int_equal(confab_process(s->f->c, &e), -1); /* not from here */
        assert_true(confab_error_is(&e, CONFAB_STATE));
}

static void test_submit_from_callback(void **state) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct fixture f;
        struct seen seen = {.f = &f};
        uint64_t id;

        setup(&f);
        assert_int_equal(confab_submit(f.c, &r, submit_again, &seen, &id, NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(peer_expect(&f.peer, CONFAB__V1__REQUEST__VERB_STATS), id);
        peer_send_error(&f.peer, id, "limit", "too many", false);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 1);
        assert_int_equal(peer_expect(&f.peer, CONFAB__V1__REQUEST__VERB_STATS), id + 1);
        teardown(&f);
}

static void test_call(void **state) {
        struct confab_request r = request_of(CONFAB_FORK);
        struct seen seen = {0};
        struct confab_error e = {0};
        struct fixture f;

        setup_bare(&f);
        r.conversation = "x";
        /* the answers wait already: Hello is request 1, then they count up */
        peer_send_hello(&f.peer, 1, 1, 1000);
        peer_send_conversation(&f.peer, 2, 8, "y");
        assert_int_equal(confab_call(f.c, &r, see, &seen, &e), 0);
        assert_int_equal(seen.kinds[0], CONFAB_EVENT_CONVERSATION);
        peer_send_error(&f.peer, 3, "conflict", "it changed", false);
        assert_int_equal(confab_call(f.c, &r, NULL, NULL, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_CONFLICT));
        assert_string_equal(e.message, "it changed");
        assert_int_equal(confab_wait(f.c, 0, &e), 1);
        teardown(&f);
}

/* ---- requests ---- */

static void check_continue(const Confab__V1__Continue *c) {
        assert_int_equal(c->conversation->id, 12);
        assert_null(c->conversation->name);
        assert_int_equal(c->input_case, CONFAB__V1__CONTINUE__INPUT_RAW);
        assert_int_equal(c->raw.len, 3);
        assert_memory_equal(c->raw.data, "a\0\xff", 3);
        assert_int_equal(c->n_stop, 2);
        assert_string_equal(c->stop[1], "two");
        assert_true(c->has_max_tokens && c->max_tokens == 0);
        assert_true(c->logprobs == 4 && c->want_logprobs && c->detach && c->ignore_eos);
        assert_true(c->has_expect_revision && c->expect_revision == 0);
        assert_false(c->has_background || c->has_role || c->has_wait);
        assert_true(c->sampling->has_temperature && c->sampling->temperature == 0.5f);
        assert_true(c->sampling->has_seed && c->sampling->seed == 1);
        assert_false(c->sampling->has_top_k || c->sampling->has_top_p);
        assert_int_equal(c->sampling->n_logit_bias, 2);
        assert_int_equal(c->sampling->logit_bias[1]->token, 8);
        assert_true(isinf(c->sampling->logit_bias[1]->bias));
}

static void test_continue_request(void **state) {
        static const char *const stops[] = {"one", "two"};
        static const struct confab_bias biases[] = {{7, 1.0f}, {8, -INFINITY}};
        struct confab_sampling sampling = {
                .has = CONFAB_HAS_TEMPERATURE | CONFAB_HAS_SEED,
                .temperature = 0.5f,
                .top_k = 99,
                .seed = 1,
                .biases = biases,
                .n_biases = 2,
        };
        struct confab_request r = request_of(CONFAB_CONTINUE);
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        r.conversation_id = 12;
        r.conversation = "ignored";
        r.input = CONFAB_INPUT_RAW;
        r.text = "a\0\xff";
        r.text_size = 3;
        r.stops = stops;
        r.n_stops = 2;
        r.has_max_tokens = r.detach = r.ignore_eos = r.has_expect_revision = true;
        r.n_logprobs = 4;
        r.sampling = &sampling;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_CONTINUE);
        check_continue(m->request->continue_);
        proto_message_free(m);
        teardown(&f);
}

static void test_each_verb(void **state) {
        struct fixture f;

        setup(&f);
        for (enum confab_verb v = CONFAB_OPEN; v <= CONFAB_STATS; v++) {
                struct confab_request r = request_of(v);
                struct seen seen = {0};
                struct proto_message *m;

                r.conversation = "c";
                assert_int_equal(confab_submit(f.c, &r, see, &seen, NULL, NULL), 0);
                assert_int_equal(confab_process(f.c, NULL), 0);
                m = peer_next(&f.peer);
                /* both enums are in the order of the protocol, which begins with Hello */
                assert_int_equal(m->request->verb_case,
                        (int)v + CONFAB__V1__REQUEST__VERB_OPEN - (int)CONFAB_OPEN);
                peer_send_error(&f.peer, m->request->id, "state", "no", false);
                proto_message_free(m);
                assert_int_equal(confab_process(f.c, NULL), 0);
                assert_int_equal(seen.n_final, 1);
        }
        teardown(&f);
}

static void test_continue_from(void **state) {
        struct confab_request r = request_of(CONFAB_CONTINUE);
        struct confab_error e = {0};
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        r.conversation = "c";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        r.has_at_turn = true;
        r.at_turn = 0;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        r.has_at_position = true;
        r.at_position = 77;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_INVALID));
        r.has_at_turn = false;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->continue_->from_case, CONFAB__V1__CONTINUE__FROM__NOT_SET);
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->continue_->from_case, CONFAB__V1__CONTINUE__FROM_AT_TURN);
        assert_int_equal(m->request->continue_->at_turn, 0);
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->continue_->from_case, CONFAB__V1__CONTINUE__FROM_AT_POSITION);
        assert_int_equal(m->request->continue_->at_position, 77);
        proto_message_free(m);
        teardown(&f);
}

static void test_rewind_and_cancel(void **state) {
        struct confab_request r = request_of(CONFAB_REWIND);
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        r.conversation = "c";
        r.drop_turns = 2;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        r.has_at_turn = true;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(confab_cancel(f.c, 2, NULL), 0);
        assert_int_equal(confab_cancel(f.c, 0, NULL), -1);
        assert_int_equal(confab_process(f.c, NULL), 0);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->rewind->to_case, CONFAB__V1__REWIND__TO_TURNS);
        assert_int_equal(m->request->rewind->turns, 2);
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->rewind->to_case, CONFAB__V1__REWIND__TO_AT_TURN);
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->cancel->request, 2);
        assert_null(m->request->cancel->conversation);
        proto_message_free(m);
        teardown(&f);
}

static void refuse(struct fixture *f, const struct confab_request *r, const char *code) {
        struct confab_error e = {0};
        uint64_t id = 99;

        assert_int_equal(confab_submit(f->c, r, NULL, NULL, &id, &e), -1);
        assert_string_equal(e.code, code);
        assert_int_equal(id, 99);
        assert_int_equal(confab_get_n_pending(f->c), 0);
        assert_int_equal(confab_get_events(f->c), POLLIN); /* nothing of it was queued */
}

static void test_refused_requests(void **state) {
        static const char *const bad_stop[] = {"\xff"};
        struct {
                struct confab_request r;
                uint64_t newer;
        } future = {request_of(CONFAB_STATS), 1};
        struct confab_request r = request_of(CONFAB_CONTINUE);
        struct fixture f;

        setup(&f);
        refuse(&f, &r, CONFAB_INVALID); /* no conversation */
        r.conversation = "\xc3";
        refuse(&f, &r, CONFAB_INVALID);
        r.conversation = "c";
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = "a\0b";
        r.text_size = 3;
        refuse(&f, &r, CONFAB_INVALID);
        r.text = "a\xff";
        r.text_size = 2;
        refuse(&f, &r, CONFAB_INVALID);
        r.text_size = 1;
        r.stops = bad_stop;
        r.n_stops = 1;
        refuse(&f, &r, CONFAB_INVALID);
        r = request_of(0);
        refuse(&f, &r, CONFAB_INVALID);
        r = request_of(CONFAB_STATS + 1);
        refuse(&f, &r, CONFAB_INVALID);
        r = request_of(CONFAB_STATS);
        r.size = 4;
        refuse(&f, &r, CONFAB_INVALID);
        future.r.size = sizeof(future);
        refuse(&f, &future.r, CONFAB_UNSUPPORTED);
        future.newer = 0;
        assert_int_equal(confab_submit(f.c, &future.r, NULL, NULL, NULL, NULL), 0);
        teardown(&f);
}

static void test_daemon_takes_little(void **state) {
        struct confab_request r = request_of(CONFAB_TOKENIZE);
        static char text[2000];
        struct fixture f;

        setup_bare(&f);
        peer_send_hello(&f.peer, 1, 1, 1000);
        assert_int_equal(confab_process(f.c, NULL), 0);
        memset(text, 'x', sizeof(text));
        r.text = text;
        r.text_size = sizeof(text);
        refuse(&f, &r, CONFAB_LIMIT);
        r.text_size = 900;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        teardown(&f);
}

static void test_names(void **state) {
        assert_string_equal(confab_residency_name(CONFAB_COLD), "cold");
        assert_string_equal(confab_finish_name(CONFAB_FINISH_CONTEXT), "context");
        assert_string_equal(confab_role_name(CONFAB_ROLE_ASSISTANT), "assistant");
        assert_string_equal(confab_role_name(-1), "unknown");
        assert_string_equal(confab_finish_name(99), "unknown");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_continue),
                cmocka_unit_test(test_logprobs),
                cmocka_unit_test(test_get),
                cmocka_unit_test(test_many_in_flight),
                cmocka_unit_test(test_trickle),
                cmocka_unit_test(test_submit_from_callback),
                cmocka_unit_test(test_call),
                cmocka_unit_test(test_continue_request),
                cmocka_unit_test(test_each_verb),
                cmocka_unit_test(test_continue_from),
                cmocka_unit_test(test_rewind_and_cancel),
                cmocka_unit_test(test_refused_requests),
                cmocka_unit_test(test_daemon_takes_little),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
