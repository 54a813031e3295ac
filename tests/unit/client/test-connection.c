/* SPDX-License-Identifier: MIT */
/* libconfab against a peer at the other end of a socket pair, in one thread: nothing in the library
 * waits unless asked to. */
#include "client/confab.h"
#include "peer.h"
#include "base/util.h"
#include "util/test.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

struct fixture {
        struct confab *c;
        struct peer peer;
};

static void setup_bare(struct fixture *f) {
        struct confab_error e;
        int sv[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        peer_init(&f->peer, sv[1]);
        assert_int_equal(confab_new_from_fd(&f->c, sv[0], &e), 0);
        assert_int_equal(confab_get_fd(f->c), sv[0]);
}

/* Greeted on both sides. */
static void setup(struct fixture *f) {
        setup_bare(f);
        assert_int_equal(confab_get_events(f->c), POLLIN | POLLOUT);
        assert_null(confab_get_server(f->c));
        assert_int_equal(confab_process(f->c, NULL), 0);
        assert_int_equal(confab_get_events(f->c), POLLIN);
        peer_hello(&f->peer);
        assert_int_equal(confab_process(f->c, NULL), 0);
        assert_string_equal(confab_get_server(f->c), "peer 1");
}

static void teardown(struct fixture *f) {
        assert_null(confab_free(f->c));
        peer_deinit(&f->peer);
}

/* What a callback has seen. */
struct seen {
        struct fixture *f;
        unsigned n, n_final;
        enum confab_event_kind kinds[16];
        struct confab_error error;
        uint64_t request;
        char text[64];
        void (*check)(const struct confab_event *event);
};

static void see(void *userdata, const struct confab_event *event) {
        struct seen *s = userdata;

        assert_true(s->n < ARRAY_SIZE(s->kinds));
        assert_int_equal(s->n_final, 0); /* nothing after the final one */
        s->kinds[s->n++] = event->kind;
        s->request = event->request;
        s->n_final += event->final;
        if (event->kind == CONFAB_EVENT_ERROR)
                s->error = *event->error;
        if (event->kind == CONFAB_EVENT_DELTA)
                strncat(s->text, event->delta->text, sizeof(s->text) - strlen(s->text) - 1);
        if (s->check)
                s->check(event);
}

static struct confab_request request_of(enum confab_verb verb) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = verb;
        return r;
}

/* Submit @r, take it at the other end; its id. */
static uint64_t submit(struct fixture *f, const struct confab_request *r, struct seen *seen) {
        struct proto_message *m;
        struct confab_error e;
        uint64_t id = 0;

        assert_int_equal(confab_submit(f->c, r, see, seen, &id, &e), 0);
        assert_int_equal(confab_process(f->c, &e), 0);
        m = peer_next(&f->peer);
        assert_int_equal(m->request->id, id);
        proto_message_free(m);
        return id;
}

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
        assert_false(t[1].has_logprob);
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
        assert_false(c->has_background || c->has_role);
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

/* ---- daemons that misbehave ---- */

/* One request is in flight; after what the peer has done, it and the connection end with @code. */
static void check_end(struct fixture *f, struct seen *seen, const char *code) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct confab_error e = {0};
        int r1;

        do /* the end of the stream may take a second look */
                r1 = confab_wait(f->c, 0, &e);
        while (r1 == 0);
        assert_int_equal(r1, -1);
        assert_string_equal(e.code, code);
        assert_int_equal(seen->n, 1);
        assert_int_equal(seen->kinds[0], CONFAB_EVENT_ERROR);
        assert_string_equal(seen->error.code, code);
        assert_int_equal(confab_get_n_pending(f->c), 0);
        /* and it stays over, for the same reason */
        assert_int_equal(confab_process(f->c, &e), -1);
        assert_string_equal(e.code, code);
        assert_int_equal(confab_submit(f->c, &r, see, seen, NULL, &e), -1);
        assert_string_equal(e.code, code);
        assert_int_equal(confab_call(f->c, &r, see, seen, &e), -1);
        assert_int_equal(seen->n, 1);
        teardown(f);
}

static uint64_t setup_waiting(struct fixture *f, struct seen *seen) {
        struct confab_request r = request_of(CONFAB_STATS);

        setup(f);
        return submit(f, &r, seen);
}

static void test_hang_up(void **state) {
        struct seen seen = {0};
        struct fixture f;

        setup_waiting(&f, &seen);
        peer_deinit(&f.peer);
        check_end(&f, &seen, CONFAB_DISCONNECTED);
}

static void test_hang_up_in_frame(void **state) {
        struct seen seen = {0};
        struct fixture f;

        setup_waiting(&f, &seen);
        peer_send_bytes(&f.peer, "\x20\x08\x02", 3);
        peer_deinit(&f.peer);
        check_end(&f, &seen, CONFAB_DISCONNECTED);
        assert_non_null(strstr(seen.error.message, "middle"));
}

static void test_bad_frames(void **state) {
        static const struct {
                const char *bytes;
                size_t n;
        } bad[] = {
                {"\xff\xff\xff\xff\x0f", 5},                 /* 4 GiB */
                {"\x80\x00", 2},                             /* malformed length */
                {"\x00", 1},                                 /* empty */
                {"\x02\x08\x80", 3},                         /* malformed message */
                {"\x08\x08\x09\x1a\x04\x0a\x02\xff\xfe", 9}, /* not UTF-8, and of nobody */
                {"GET / HTTP/1.1\r\n\r\n________________________________________________________"
                 "______",
                        80},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct seen seen = {0};
                struct fixture f;

                setup_waiting(&f, &seen);
                peer_send_bytes(&f.peer, bad[i].bytes, bad[i].n);
                check_end(&f, &seen, CONFAB_PROTOCOL);
        }
}

/* The frame is sound and says whose it is: others go on. */
static void test_bad_string(void **state) {
        struct seen seen = {0}, other = {0};
        struct confab_request r = request_of(CONFAB_STATS);
        struct fixture f;

        assert_int_equal(setup_waiting(&f, &seen), 2);
        assert_int_equal(submit(&f, &r, &other), 3);
        peer_send_bytes(&f.peer, "\x08\x08\x02\x1a\x04\x0a\x02\xff\xfe", 9);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n_final, 1);
        assert_true(confab_error_is(&seen.error, CONFAB_PROTOCOL));
        assert_int_equal(other.n, 0);
        assert_int_equal(confab_get_n_pending(f.c), 1);
        teardown(&f);
}

static void test_wrong_answer(void **state) {
        struct seen seen = {0};
        struct fixture f;
        uint64_t id;

        id = setup_waiting(&f, &seen);
        peer_send_done(&f.peer, id, 0); /* Stats is not answered by Done */
        check_end(&f, &seen, CONFAB_PROTOCOL);
}

static void test_unknown_events(void **state) {
        static const uint8_t newer[] = {0x06, 0x08, 0x02, 0xaa, 0x06, 0x01, 'x'};
        static const uint8_t no_kind[] = {0x02, 0x08, 0x02};
        struct seen seen = {0};
        struct fixture f;

        assert_int_equal(setup_waiting(&f, &seen), 2);
        peer_send_bytes(&f.peer, newer, sizeof(newer)); /* field 101 */
        peer_send_bytes(&f.peer, no_kind, sizeof(no_kind));
        peer_send_empty(&f.peer, 1234);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 0);
        peer_send_error(&f.peer, 2, "", "", false);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 1);
        assert_string_equal(seen.error.code, "unknown");
        assert_true(seen.error.message[0] != 0);
        teardown(&f);
}

static void test_last_words(void **state) {
        struct seen seen = {0};
        struct fixture f;

        setup_waiting(&f, &seen);
        peer_send_error(&f.peer, 0, "shutdown", "the daemon is stopping", true);
        peer_deinit(&f.peer);
        check_end(&f, &seen, CONFAB_SHUTDOWN);
}

/* The daemon closes while a request is on its way out: what it said before is the reason. */
static void test_last_words_after_epipe(void **state) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct seen seen = {0};
        struct fixture f;

        setup(&f);
        peer_send_error(&f.peer, 0, "limit", "too many connections", true);
        peer_deinit(&f.peer);
        assert_int_equal(confab_submit(f.c, &r, see, &seen, NULL, NULL), 0);
        check_end(&f, &seen, CONFAB_LIMIT);
}

static void test_stops_listening(void **state) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct seen seen = {0};
        struct fixture f;

        setup(&f);
        assert_int_equal(shutdown(f.peer.fd, SHUT_RD), 0);
        assert_int_equal(confab_submit(f.c, &r, see, &seen, NULL, NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), -1);
        assert_int_equal(seen.n, 1);
        assert_true(confab_error_is(&seen.error, CONFAB_DISCONNECTED));
        teardown(&f);
}

static void test_versions(void **state) {
        struct confab_error e = {0};
        struct fixture f;

        setup_bare(&f);
        peer_send_hello(&f.peer, 1, 2, 1000);
        assert_int_equal(confab_process(f.c, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_UNSUPPORTED));
        teardown(&f);

        setup_bare(&f);
        peer_send_error(&f.peer, 1, "unsupported", "speak version 7", false);
        assert_int_equal(confab_process(f.c, &e), -1);
        assert_string_equal(e.message, "speak version 7");
        teardown(&f);

        setup_bare(&f);
        peer_send_empty(&f.peer, 2); /* no greeting */
        assert_int_equal(confab_process(f.c, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_PROTOCOL));
        teardown(&f);
}

static void test_connect_errors(void **state) {
        struct confab_error e = {0};
        struct confab *c = NULL;
        char path[200];

        assert_int_equal(confab_connect(&c, "/nonexistent/confab.sock", &e), -1);
        assert_true(confab_error_is(&e, CONFAB_NO_DAEMON));
        assert_int_equal(confab_connect(&c, "", &e), -1);
        assert_true(confab_error_is(&e, CONFAB_INVALID));
        memset(path, 'x', sizeof(path));
        path[sizeof(path) - 1] = 0;
        assert_int_equal(confab_connect(&c, path, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_INVALID));
        assert_null(c);
        assert_null(confab_free(NULL));
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
                cmocka_unit_test(test_rewind_and_cancel),
                cmocka_unit_test(test_refused_requests),
                cmocka_unit_test(test_daemon_takes_little),
                cmocka_unit_test(test_hang_up),
                cmocka_unit_test(test_hang_up_in_frame),
                cmocka_unit_test(test_bad_frames),
                cmocka_unit_test(test_bad_string),
                cmocka_unit_test(test_wrong_answer),
                cmocka_unit_test(test_unknown_events),
                cmocka_unit_test(test_last_words),
                cmocka_unit_test(test_last_words_after_epipe),
                cmocka_unit_test(test_stops_listening),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_connect_errors),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
