/* SPDX-License-Identifier: MIT */
/*
 * Steps of a user who is alone are brief while another user's request is at a worker, and for some steps after that
 * (run/batch.c, rule 7). Every step and the worker's job stand before gates, so it is known which step is built when.
 */
#include <pthread.h>
#include <string.h>

#include "engine/io/io.h"
#include "engine/run/cost.h"
#include "model/model.h"
#include "rig.h"
#include "store/store.h"
#include "util/gate.h"
#include "util/test.h"

enum { UID_A = 1001, UID_B = 1002, WHOLE = 256, AFTER = 4, PROMPT = 1200, MOST = 64 };

static struct answer A, B;
static struct erig rig;
static struct gate step_gate = GATE_INIT;  /* before each step */
static struct gate store_gate = GATE_INIT; /* before a worker makes a conversation of w.held */

static struct {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        size_t sizes[MOST], n; /* of the steps that were built */
        uint64_t held;
        bool has_worker, over; /* it has the job; it has given it back */
        pthread_t worker;
        double ratio; /* of the cost of steps, see cost_ratio() */
} w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

int __real_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        pthread_mutex_lock(&w.lock);
        if (w.n < MOST)
                w.sizes[w.n++] = n;
        pthread_mutex_unlock(&w.lock);
        gate_pass(&step_gate);
        return __real_model_forward(work, batch, n, wait);
}

int __real_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
int __wrap_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
int __wrap_store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e) {
        bool held;

        pthread_mutex_lock(&w.lock);
        held = c->owner == w.held;
        if (held) {
                w.worker = pthread_self();
                w.has_worker = true;
        }
        pthread_mutex_unlock(&w.lock);
        if (held)
                gate_pass(&store_gate);
        return __real_store_conv_create(s, c, turns, n_turns, tokens, n_tokens, e);
}

/* What steps cost is not the machine's to say. */
double __wrap_cost_ratio(const struct cost *c, double most);
double __wrap_cost_ratio(const struct cost *c, double most) {
        double ratio;

        pthread_mutex_lock(&w.lock);
        ratio = w.ratio;
        pthread_mutex_unlock(&w.lock);
        return ratio < most ? ratio : most;
}

/* A worker rings when the engine thread may take its job back. */
void __real_bell_ring(struct bell *b);
void __wrap_bell_ring(struct bell *b);
void __wrap_bell_ring(struct bell *b) {
        pthread_mutex_lock(&w.lock);
        if (w.has_worker && pthread_equal(w.worker, pthread_self())) {
                w.over = true;
                pthread_cond_broadcast(&w.cond);
        }
        pthread_mutex_unlock(&w.lock);
        __real_bell_ring(b);
}

static uint64_t open_for(uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};

        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_CONV);
        return A.conv.id;
}

static struct engine_request prompt_of(
        uint64_t owner, uint64_t conv, const int32_t *tokens, uint32_t n) {
        struct engine_request q = erig_request(ENGINE_CONTINUE, conv);

        q.owner = owner;
        q.input = ENGINE_INPUT_TOKENS;
        q.tokens = tokens;
        q.n_tokens = n;
        q.max_tokens = 0;
        return q;
}

/* A's prompt of PROMPT tokens: its first step, a whole one, stands before the gate. Returns the request's handle. */
static uint64_t begin(int32_t *tokens, double ratio) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;

        /* Before this test's engine is there: its worker may have the thread number of the last
         * test's, and would ring for that one. */
        pthread_mutex_lock(&w.lock);
        memset(w.sizes, 0, sizeof(w.sizes));
        w.n = w.held = 0;
        w.has_worker = w.over = false;
        w.ratio = ratio;
        pthread_mutex_unlock(&w.lock);
        o.batch_tokens = WHOLE;
        erig_open(&rig, &o);
        for (size_t i = 0; i < PROMPT; i++)
                tokens[i] = (int32_t)(300 + i);
        q = prompt_of(UID_A, open_for(UID_A), tokens, PROMPT);
        gate_close(&step_gate, 0);
        erig_send(&rig, &q, &A);
        gate_wait(&step_gate);
        return q.handle;
}

/* The next step is built, and stands before the gate. */
static void step(void) {
        gate_step(&step_gate);
        gate_wait(&step_gate);
}

static void send_open(uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner};

        pthread_mutex_lock(&w.lock);
        w.held = owner;
        pthread_mutex_unlock(&w.lock);
        gate_close(&store_gate, 0);
        erig_send(&rig, &q, &B);
}

static void give_back(void) {
        gate_open(&store_gate);
        gate_await(&w.lock, &w.cond, &w.over);
}

static void check_sizes(const size_t *expected, size_t n) {
        size_t sizes[MOST], n_steps;

        pthread_mutex_lock(
                &w.lock); /* not while something is asserted: the engine needs it to end */
        n_steps = w.n;
        memcpy(sizes, w.sizes, sizeof(sizes));
        pthread_mutex_unlock(&w.lock);
        assert_true(n_steps >= n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(sizes[i], expected[i]);
}

static void end(void) {
        gate_open(&step_gate);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_CONV);
        erig_wait(&rig, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        erig_close(&rig);
}

/* Steps have @brief tokens if reading the weights takes as long as the arithmetic of @ratio tokens. */
static void check_brief(double ratio, size_t brief) {
        const size_t expected[] = {WHOLE, brief, brief, brief, brief, brief, brief, brief, WHOLE};
        int32_t tokens[PROMPT];

        begin(tokens, ratio);
        send_open(UID_B);
        step(); /* built when the job is with a worker */
        gate_wait(&store_gate);
        step();
        step();
        give_back();
        for (int i = 0; i < AFTER; i++)
                step();
        step();
        check_sizes(expected, sizeof(expected) / sizeof(*expected));
        end();
}

static void test_brief(void **state) {
        erig_need_model();
        check_brief(5, 20);
        check_brief(0, 8); /* not known, or next to nothing */
        check_brief(1, 8);
        check_brief(100, WHOLE / 8);
}

/* Of a user's own requests nobody else waits for one. */
static void test_own(void **state) {
        static const size_t expected[] = {WHOLE, WHOLE, WHOLE};
        int32_t tokens[PROMPT];

        erig_need_model();
        begin(tokens, 0);
        send_open(UID_A);
        step();
        gate_wait(&store_gate);
        step();
        check_sizes(expected, sizeof(expected) / sizeof(*expected));
        give_back();
        end();
}

/* Nobody else waits for the one whose request it was: when A stands aside, B's prompt has a whole step. */
static void test_awaited(void **state) {
        static const size_t expected[] = {WHOLE, 20, 40};
        int32_t tokens[PROMPT];
        struct engine_request q;
        uint64_t handle;

        erig_need_model();
        handle = begin(tokens, 5);
        send_open(UID_B);
        step();
        gate_wait(&store_gate);
        give_back();
        engine_pause(rig.en, handle, true);
        gate_step(&step_gate);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_CONV);
        q = prompt_of(UID_B, B.conv.id, tokens, 40);
        erig_send(&rig, &q, &B);
        gate_wait(&step_gate);
        check_sizes(expected, sizeof(expected) / sizeof(*expected));
        gate_open(&step_gate);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        engine_pause(rig.en, handle, false);
        erig_wait(&rig, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        erig_close(&rig);
}

/* A failed test must not leave an engine behind. */
static int teardown(void **state) {
        gate_open(&step_gate);
        gate_open(&store_gate);
        if (rig.en)
                erig_close(&rig);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_brief, teardown),
                cmocka_unit_test_teardown(test_own, teardown),
                cmocka_unit_test_teardown(test_awaited, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
