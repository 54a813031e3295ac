/* SPDX-License-Identifier: MIT */
/*
 * The counts of where a prompt's tokens came from, if another conversation overtakes the request
 * that computes them: tokens that the request found at the beginning stay counted as found, tokens
 * that it computed itself as computed, and only those that it took over later as shared. The same
 * holds if the request was parked in between.
 *
 * The engine is held inside the forward calls, so that a step ends when the test wants it to.
 */
#include <pthread.h>
#include <time.h>

#include "model/model.h"
#include "util/gate.h"
#include "rig.h"
#include "util/test.h"

enum { BLOCK = 32, HISTORY = BLOCK + 9, INPUT = 120, PROMPT = HISTORY + INPUT, WHOLE = 5 * BLOCK };

static struct answer A, B, C, X;

static struct gate gate = GATE_INIT; /* before each step */

int __real_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        gate_pass(&gate);
        return __real_model_forward(w, batch, n, wait);
}

/* A failed test must not leave an engine behind that can't end. */
static int teardown(void **state) {
        gate_open(&gate);
        return 0;
}

/* --- what is said --- */

static struct engine_request tokens_request(uint64_t c, uint32_t from, uint32_t n, uint32_t max) {
        static int32_t tokens[PROMPT];

        for (int32_t i = 0; i < PROMPT; i++)
                tokens[i] = 300 + i;
        return (struct engine_request){.verb = ENGINE_CONTINUE,
                .conv_id = c,
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens + from,
                .n_tokens = n,
                .max_tokens = max,
                .want_logprobs = true,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE}};
}

static void begin(struct erig *r, uint32_t max_active, uint32_t batch_tokens) {
        struct engine_options o = erig_options(64 << 20);

        o.spill_delay_ms = UINT32_MAX;
        o.max_active = max_active;
        o.batch_tokens = batch_tokens;
        erig_open(r, &o);
        assert_int_equal(erig_stat(r, "block_tokens"), BLOCK);
}

/* A conversation whose first HISTORY tokens are in RAM. */
static uint64_t with_history(struct erig *r) {
        uint64_t c = erig_new(r, NULL, NULL);
        struct engine_request q = tokens_request(c, 0, HISTORY, 0);

        assert_int_equal(erig_do(r, &q, &X), ENGINE_DONE);
        return c;
}

static uint64_t fork_of(struct erig *r, uint64_t c) {
        assert_int_equal(erig_simple(r, ENGINE_FORK, c, &X), ENGINE_CONV);
        return X.conv.id;
}

/* Send it, and pause it in its first step. */
static void send_and_pause(struct erig *r, struct engine_request *q, struct answer *a) {
        gate_step(&gate);
        erig_send(r, q, a);
        gate_wait(&gate);
        engine_pause(r->en, q->handle, true);
}

static void check(const struct answer *a, uint32_t ram, uint32_t shared, uint32_t computed) {
        assert_int_equal(a->kind, ENGINE_DONE);
        assert_int_equal(a->n_prompt, PROMPT);
        assert_int_equal(a->done_ram, ram);
        assert_int_equal(a->done_disk, 0);
        assert_int_equal(a->done_shared, shared);
        assert_int_equal(a->done_computed, computed);
}

/* The figures of the whole engine are the sums of those of @a and @b. */
static void check_stats(struct erig *r, const struct answer *a, const struct answer *b) {
        static const char *const names[] = {
                "tokens_reused_ram", "tokens_reused_disk", "tokens_reused_shared"};
        uint64_t now[3];

        erig_stats(r, names, now, 3);
        assert_int_equal(now[0], a->done_ram + b->done_ram);
        assert_int_equal(now[1], a->done_disk + b->done_disk);
        assert_int_equal(now[2], a->done_shared + b->done_shared);
}

/* --- tests --- */

/* Overtaken while it is paused, and in its place (@max_active 2) or parked (1). Its first step ends
 * in the block where its history does, or behind it. */
static void overtaken(uint32_t max_active, uint32_t batch_tokens) {
        uint32_t reached = HISTORY + batch_tokens, end = (PROMPT - 1) / BLOCK * BLOCK;
        struct engine_request q, other;
        struct erig r;
        uint64_t c, d;

        begin(&r, max_active, batch_tokens);
        c = with_history(&r);
        d = fork_of(&r, c);
        q = tokens_request(c, HISTORY, INPUT, 4);
        send_and_pause(&r, &q, &A);
        gate_open(&gate);
        other = tokens_request(d, HISTORY, INPUT, 4);
        assert_int_equal(erig_do(&r, &other, &B), ENGINE_DONE);
        assert_false(A.final);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &A);
        check(&A, HISTORY, end - reached, PROMPT - HISTORY - (end - reached));
        answer_same(&A, &B);
        check_stats(&r, &A, &B);
        erig_close(&r);
}

/* A prompt of whole blocks: its last token is computed whatever others have, or nothing would come
 * of it. */
static void test_whole_blocks(void **state) {
        struct engine_request q, other;
        struct erig r;
        uint64_t c, d;

        erig_need_model();
        begin(&r, 2, BLOCK);
        c = with_history(&r);
        d = fork_of(&r, c);
        q = tokens_request(c, HISTORY, WHOLE - HISTORY, 4);
        send_and_pause(&r, &q, &A);
        gate_open(&gate);
        other = tokens_request(d, HISTORY, WHOLE - HISTORY, 4);
        assert_int_equal(erig_do(&r, &other, &B), ENGINE_DONE);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_int_equal(A.n_generated, 4);
        answer_same(&A, &B);
        erig_close(&r);
}

static void test_overtaken(void **state) {
        overtaken(2, 8);
        overtaken(2, BLOCK);
}

static void test_parked(void **state) {
        overtaken(1, 8);
        overtaken(1, BLOCK);
}

/* Parked, back while the other one is still computing, and then at its side. */
static void test_parked_beside(void **state) {
        uint32_t reached = HISTORY + BLOCK, end = (PROMPT - 1) / BLOCK * BLOCK;
        struct engine_request q, other, third;
        struct erig r;
        uint64_t c, d, e;

        begin(&r, 2, BLOCK);
        c = with_history(&r);
        d = fork_of(&r, c);
        e = erig_new(&r, NULL, NULL);
        q = tokens_request(c, HISTORY, INPUT, 4);
        q.background = true; /* the other one goes on before it */
        send_and_pause(&r, &q, &A);
        other = tokens_request(d, HISTORY, INPUT, 4);
        erig_send(&r, &other, &B);
        engine_pause(r.en, other.handle, true);
        third = tokens_request(e, PROMPT - 4, 4, 200);
        erig_send(&r, &third, &C);
        engine_pause(r.en, third.handle, true);
        gate_step(&gate);
        erig_wait_stat(&r, "requests_queued", 2);
        engine_pause(r.en, other.handle, false);
        gate_wait(&gate);
        engine_pause(r.en, third.handle, false); /* takes the place of the first one */
        gate_step(&gate);
        gate_wait(&gate);
        engine_pause(r.en, third.handle, true); /* and gives it back */
        engine_pause(r.en, q.handle, false);
        gate_open(&gate);
        erig_wait(&r, &B);
        erig_wait(&r, &A);
        check(&A, HISTORY, end - reached, PROMPT - HISTORY - (end - reached));
        answer_same(&A, &B);
        check_stats(&r, &A, &B);
        engine_cancel(r.en, third.handle);
        erig_wait(&r, &C);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_blocks),
                cmocka_unit_test_teardown(test_overtaken, teardown),
                cmocka_unit_test_teardown(test_parked, teardown),
                cmocka_unit_test_teardown(test_parked_beside, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
