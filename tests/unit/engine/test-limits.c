/* SPDX-License-Identifier: MIT */
/* Limits: what cannot fit is refused with figures, and what waits gets its turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "inside.h"
#include "rig.h"
#include "util/test.h"

enum { N_MANY = 32 };
static struct answer A, B, many[N_MANY];

static void test_too_small(void **state) {
        struct engine_options o = erig_options(0);
        struct engine_request q;
        struct engine *en = NULL;
        struct err e;
        struct erig r;
        uint64_t c;
        char folder[80], *huge;

        o.pool_size = erig_pool(5);
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = erig_say_request(c, erig_words(400, 1), 8);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        assert_non_null(strpbrk(A.err.msg, "0123456789"));
        /* Nor does a text that is larger than what all requests together may bring along. */
        huge = malloc(4 << 20);
        assert_non_null(huge);
        memset(huge, 'a', (4 << 20) - 1);
        huge[(4 << 20) - 1] = 0;
        q = (struct engine_request){.verb = ENGINE_OPEN, .system = huge};
        erig_send(&r, &q, &A);
        assert_true(A.refused);
        assert_int_equal(A.err.code, ERR_TOO_LARGE);
        free(huge);
        /* The conversation is as it was. */
        erig_say(&r, c, erig_words(3, 1), 8, &A);
        erig_alone(erig_say_request(0, erig_words(3, 1), 8), &B);
        answer_same(&A, &B);

        /* Nor does an engine, in a folder of its own beside. */
        snprintf(folder, sizeof(folder), "%s/other", r.dir);
        o.pool_size = 1000;
        o.model_path = erig_model();
        o.state_dir = folder;
        assert_int_equal(engine_open(&en, &o, &e), -ERR_LIMIT);
        assert_null(en);
        assert_non_null(strstr(e.msg, "1000"));
        erig_close(&r);
}

static void test_quotas(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[4];
        struct erig r;
        uint64_t c[4];

        o.max_queued = 3;
        o.max_requests_per_owner = 2;
        erig_open(&r, &o);
        for (int i = 0; i < 4; i++) {
                q[i] = (struct engine_request){.verb = ENGINE_OPEN, .owner = i == 3 ? 9 : 8};
                erig_do(&r, &q[i], &many[i]);
                c[i] = many[i].conv.id;
        }
        for (int i = 0; i < 4; i++) {
                q[i] = erig_long_request(c[i], "Hello there.", 40);
                q[i].owner = i == 3 ? 9 : 8;
                erig_send(&r, &q[i], &many[i]);
                assert_int_equal(many[i].refused, i == 2);
        }
        assert_int_equal(many[2].err.code, ERR_LIMIT);
        q[2].owner = 10;
        erig_send(&r, &q[2], &A);
        assert_true(A.refused);
        assert_int_equal(A.err.code, ERR_LIMIT);
        for (int i = 0; i < 4; i++)
                erig_wait(&r, &many[i]);
        q[2].owner = 8;
        assert_int_equal(erig_do(&r, &q[2], &A), ENGINE_DONE);
        erig_close(&r);
}

/* Two users who take all they may leave places for others, one each, and the last for root. */
static void test_places_are_shared(void **state) {
        static const struct {
                uint64_t owner, n;
        } users[] = {{8, 14}, {9, 14}, {10, 1}, {11, 1}, {12, 1}, {13, 0}, {0, 1}};
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[N_MANY];
        size_t n = 0;
        struct erig r;

        o.max_queued = 32;
        o.max_requests_per_owner = 14;
        erig_open(&r, &o);
        for (size_t u = 0; u < ARRAY_SIZE(users); u++) {
                struct engine_request open = {.verb = ENGINE_OPEN, .owner = users[u].owner};

                for (uint32_t i = 0; i < users[u].n; i++, n++) {
                        erig_do(&r, &open, &A);
                        q[n] = erig_long_request(A.conv.id, "Hello there.", 400);
                        q[n].owner = users[u].owner;
                }
        }
        assert_int_equal(n, N_MANY);
        n = 0;
        for (size_t u = 0; u < ARRAY_SIZE(users); u++) {
                struct engine_request more = {
                        .verb = ENGINE_GET, .conv_id = 1, .owner = users[u].owner};

                for (uint32_t i = 0; i < users[u].n; i++, n++) {
                        erig_send(&r, &q[n], &many[n]);
                        assert_false(many[n].refused);
                }
                erig_send(&r, &more, &A);
                assert_true(A.refused);
                assert_int_equal(A.err.code, ERR_LIMIT);
        }
        for (size_t i = 0; i < n; i++)
                engine_cancel(r.en, q[i].handle);
        for (size_t i = 0; i < n; i++)
                erig_wait(&r, &many[i]);
        erig_close(&r);
}

/* Opened and forked at the same time: never one more than the quota. */
static void test_conversation_quota(void **state) {
        enum { N = 24 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[N];
        struct erig r;

        o.max_conversations_per_owner = 7;
        for (int round = 0; round < ERIG_ROUNDS(4, 1); round++) {
                uint64_t first;
                int n = 0;

                erig_open(&r, &o);
                first = erig_new(&r, NULL, NULL);
                for (int i = 0; i < N; i++)
                        q[i] = (struct engine_request){.verb = i % 2 ? ENGINE_OPEN : ENGINE_FORK,
                                .conv_id = first,
                                .at_turn = ENGINE_UNSET,
                                .at_position = ENGINE_UNSET};
                erig_do_all(&r, q, many, N);
                for (int i = 0; i < N; i++)
                        if (many[i].kind == ENGINE_CONV)
                                n++;
                        else
                                assert_int_equal(many[i].err.code, ERR_LIMIT);
                assert_int_equal(n, 6);
                erig_close(&r);
        }
}

/* Requests wait in a queue while the memory of their conversations fills the pool. */
static void test_queue_in_tiny_pool(void **state) {
        enum { N = ERIG_ROUNDS(10, 6) };
        struct engine_options o = erig_options(0);
        struct engine_request q[2 * N];
        struct erig r;
        uint64_t c[N];

        o.pool_size = erig_pool(7);
        o.max_active = 3;
        o.batch_tokens = 24;
        o.n_threads = 2;
        erig_open(&r, &o);
        for (unsigned i = 0; i < N; i++) {
                c[i] = erig_new(&r, NULL, NULL);
                erig_say(&r, c[i], erig_words(4, i), 6, &A);
        }
        for (unsigned i = 0; i < N; i++) {
                q[i] = erig_say_request(c[i], erig_words(30, i), 30);
                q[N + i] = erig_request(ENGINE_FORK, c[i]);
        }
        erig_do_all(&r, q, many, 2 * N);
        for (unsigned i = 0; i < 2 * N; i++) {
                assert_int_equal(many[i].kind, i < N ? ENGINE_DONE : ENGINE_CONV);
                if (i >= N)
                        assert_int_equal(
                                erig_simple(&r, ENGINE_CLOSE, many[i].conv.id, &A), ENGINE_EMPTY);
        }
        erig_check_budget(&r);
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c[i], &A), ENGINE_EMPTY);
        erig_check_empty(&r);
        erig_close(&r);
}

static bool all_accepted(const struct answer *a, int n) {
        for (int i = 0; i < n; i++)
                if (!a[i].accepted)
                        return false;
        return true;
}

/* With fewer tokens per step than requests, each gets its turn: none has a hundred tokens more
 * before every one has one more. */
static void test_narrow_batch(void **state) {
        enum { N = 5, LENGTH = 1200 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[N];
        struct erig r;

        for (uint32_t width = 1; width < ERIG_ROUNDS(4, 2); width++) {
                size_t from[N];

                o.batch_tokens = width;
                erig_open(&r, &o);
                for (int i = 0; i < N; i++)
                        q[i] = erig_long_request(
                                erig_new(&r, NULL, NULL), erig_words(3, (unsigned)i), LENGTH);
                for (int i = 0; i < N; i++)
                        erig_send(&r, &q[i], &many[i]);
                while (!all_accepted(many, N))
                        erig_step(&r);
                for (int i = 0; i < N; i++)
                        from[i] = many[i].n_tokens;
                for (int i = 0; i < N; i++)
                        while (many[i].n_tokens == from[i])
                                erig_step(&r);
                for (int i = 0; i < N; i++)
                        assert_true(many[i].n_tokens <= from[i] + 100);
                for (int i = 0; i < N; i++)
                        engine_cancel(r.en, q[i].handle);
                for (int i = 0; i < N; i++)
                        erig_wait(&r, &many[i]);
                q[0].max_tokens = (uint32_t)many[0].n_tokens;
                erig_alone(q[0], &A);
                answer_same(&A, &many[0]);
                erig_close(&r);
        }
}

/* The tokens of a request are a part of what requests share: more than that never fit, and those
 * that fit are there while the request lasts. */
static void test_tokens_are_charged(void **state) {
        enum { N = 1000 };
        static int32_t tokens[1 << 20];
        struct engine_options o = erig_options(0);
        struct engine_request first = erig_long_request(0, "Tell me a story.", 500), q;
        uint64_t before;
        struct erig r;

        o.pool_size = erig_pool(60);
        o.max_active = 1;
        erig_open(&r, &o);
        q = (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = erig_new(&r, NULL, NULL),
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = sizeof(tokens) / sizeof(tokens[0])};
        erig_send(&r, &q, &A);
        assert_true(A.refused);
        assert_int_equal(A.err.code, ERR_TOO_LARGE);
        assert_non_null(strpbrk(A.err.msg, "0123456789"));
        first.conv_id = erig_new(&r, NULL, NULL);
        erig_send(&r, &first, &B);
        while (B.n_tokens < 1)
                erig_step(&r);
        before = erig_stat(&r, "ledger_requests_used");
        q.n_tokens = N;
        for (int i = 0; i < N; i++)
                tokens[i] = 20;
        erig_send(&r, &q, &A);
        assert_true(erig_stat(&r, "ledger_requests_used") >= before + N * sizeof(int32_t));
        engine_cancel(r.en, first.handle);
        erig_wait(&r, &B);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        erig_close(&r);
}

/* What loading a conversation took is given back before the request goes on: it holds no more than
 * one for a conversation that is in RAM. */
static void test_loading_is_given_back(void **state) {
        enum { N = 1500 };
        static int32_t tokens[N];
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint64_t c, used[2];
        struct erig r;

        erig_need_model();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        for (int i = 0; i < N; i++)
                tokens[i] = 20;
        q = (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = c,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = N};
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        for (int i = 0; i < 2;) {
                uint64_t queued = 0;

                if (i == 0)
                        erig_restart(&r, true);
                q = erig_long_request(c, "Tell me a story.", 50);
                erig_send(&r, &q, &A);
                engine_pause(r.en, q.handle, true);
                while (queued == 0 && erig_stat(&r, "requests_active") == 0)
                        queued = erig_stat(&r, "requests_queued");
                used[i] = erig_stat(&r, "ledger_requests_used");
                engine_cancel(r.en, q.handle);
                erig_wait(&r, &A);
                i += queued > 0; /* else it was quicker than the pause */
        }
        assert_int_equal(used[0], used[1]);
        erig_close(&r);
}

/* What is refused because others hold the memory may come again; what never fits may not. */
static void test_full_or_too_large(void **state) {
        struct engine_options o = erig_options(64 << 20);
        static char text[6 << 20];
        struct engine_request q = {.verb = ENGINE_TOKENIZE, .text = text, .text_size = 100000};
        struct engine_model_info model;
        struct erig r;
        size_t held;

        memset(text, 'a', sizeof(text));
        erig_open(&r, &o);
        held = inside_requests_hold(r.en, 90000);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        /* Small ones still go. */
        q.text_size = 100;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_TOKENS);
        inside_requests_give(r.en, held);
        q.text_size = 100000;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_TOKENS);
        q.text_size = sizeof(text);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_TOO_LARGE);
        /* Its answer alone is too large. */
        q.text_size = 2 << 20;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_TOO_LARGE);
        /* So many alternatives that not even one token can be told. */
        erig_close(&r);
        o.pool_size = erig_pool(60);
        erig_open(&r, &o);
        q = erig_say_request(erig_new(&r, NULL, NULL), "Hello.", 4);
        q.n_logprobs = ENGINE_MAX_LOGPROBS;
        inside_describe_model(r.en, &model);
        if (inside_requests_budget(r.en) < (size_t)model.n_vocab * 84) {
                erig_send(&r, &q, &A);
                assert_true(A.refused);
                assert_int_equal(A.err.code, ERR_TOO_LARGE);
        }
        erig_close(&r);
}

/* A reply that has begun goes on when others hold all that requests share: it has a credit. */
static void test_reply_without_room(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_long_request(0, "Tell me a story.", 300);
        struct erig r;
        uint64_t before;
        size_t held;

        q.n_logprobs = 5;
        erig_alone(q, &B);
        erig_open(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        before = erig_stat(&r, "ledger_requests_used");
        erig_send(&r, &q, &A);
        while (A.n_tokens < 2)
                erig_step(&r);
        held = inside_requests_hold(r.en, 0);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        answer_same(&A, &B);
        inside_requests_give(r.en, held);
        /* Nothing is left but the owner's meter. */
        assert_in_range(erig_stat(&r, "ledger_requests_used"), before, before + 4096);
        erig_close(&r);
}

/* A reply that grows beyond what was set aside for its text ends where it is, and is kept. */
static void test_reply_ends_without_room(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_long_request(0, "Tell me a story.", 1900), get;
        struct erig r;
        size_t held;

        erig_open(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        erig_send(&r, &q, &A);
        while (A.n_tokens < 2)
                erig_step(&r);
        held = inside_requests_hold(r.en, 0);
        erig_wait(&r, &A);
        inside_requests_give(r.en, held);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_LENGTH);
        get = (struct engine_request){.verb = ENGINE_GET, .conv_id = q.conv_id, .want_turns = true};
        assert_int_equal(erig_do(&r, &get, &B), ENGINE_CONV);
        assert_int_equal(B.n_turns, 2);
        assert_int_equal(B.turns[1].text_size, strlen(A.text));
        assert_memory_equal(B.turns[1].text, A.text, strlen(A.text));
        erig_say(&r, q.conv_id, "And then?", 4, &A);
        erig_close(&r);
}

static void test_bad_requests(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        /* A size without text, an unknown kind of input, a owner that stands for all. */
        q = (struct engine_request){.verb = ENGINE_TOKENIZE, .text_size = 100000};
        erig_do(&r, &q, &A);
        assert_int_equal(A.err.code, ERR_INVALID);
        q = erig_say_request(c, "x", 1);
        q.input = (enum engine_input)77;
        erig_do(&r, &q, &A);
        assert_int_equal(A.err.code, ERR_INVALID);
        q = (struct engine_request){.verb = ENGINE_GET, .conv_id = c, .owner = UINT32_MAX};
        erig_do(&r, &q, &A);
        assert_int_equal(A.err.code, ERR_INVALID);
        q = (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = c,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = (const int32_t[]){1, 2, 99999999},
                .n_tokens = 3,
                .max_tokens = 1};
        erig_do(&r, &q, &A);
        assert_int_equal(A.err.code, ERR_INVALID);
        q = erig_say_request(c, "", 0);
        q.input = ENGINE_INPUT_NONE;
        erig_do(&r, &q, &A);
        assert_int_equal(A.err.code, ERR_INVALID);
        erig_simple(&r, ENGINE_CLOSE, c, &A);
        erig_check_empty(&r);
        assert_int_equal(erig_stat(&r, "requests_active"), 0);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_too_small),
                cmocka_unit_test(test_quotas),
                cmocka_unit_test(test_places_are_shared),
                cmocka_unit_test(test_conversation_quota),
                cmocka_unit_test(test_queue_in_tiny_pool),
                cmocka_unit_test(test_narrow_batch),
                cmocka_unit_test(test_tokens_are_charged),
                cmocka_unit_test(test_loading_is_given_back),
                cmocka_unit_test(test_full_or_too_large),
                cmocka_unit_test(test_reply_without_room),
                cmocka_unit_test(test_reply_ends_without_room),
                cmocka_unit_test(test_bad_requests),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
