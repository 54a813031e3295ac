/* SPDX-License-Identifier: MIT */
/*
 * What is done between the layers of a step (run/step.c, rule 3; main_take_early()): who only looks is answered, but not
 * before what the same user sent, or a worker did for him, earlier; and rows of conversations are read. Every layer of the step stands before a gate, so nothing else can have
 * answered; and who looks when is known.
 */
#include <pthread.h>
#include <string.h>

#include "engine/io/io.h"
#include "inside.h"
#include "model/model.h"
#include "rig.h"
#include "util/gate.h"
#include "util/test.h"

enum { UID_A = 1001, UID_B = 1002, PROMPT = 600 };

static struct answer A, B, C;
static struct erig rig;
static struct gate layer_gate = GATE_INIT; /* before each layer of a step of A's prompt */

static struct {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        uint32_t layer;   /* that stands before the gate */
        uint64_t watched; /* whose jobs are watched, or 0; each until it is over */
        unsigned n_begun; /* of these */
        bool over;        /* the last one was run and given back */
        void (*run)(struct engine *engine, struct job *j);
        bool has_worker;
        pthread_t worker; /* that runs it */
        uint64_t later;   /* the clock goes ahead by so much */
} w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

/* --- layers --- */

static int layer_passes(void *arg, uint32_t layer) {
        const struct model_wait *wait = arg;

        pthread_mutex_lock(&w.lock);
        w.layer = layer;
        pthread_mutex_unlock(&w.lock);
        gate_pass(&layer_gate);
        return wait->layer(wait->arg, layer);
}

int __real_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        struct model_wait each = {.layer = layer_passes, .arg = (void *)(uintptr_t)wait};

        return __real_model_forward(work, batch, n, wait ? &each : NULL);
}

/* --- jobs --- */

static void noted_run(struct engine *engine, struct job *j) {
        void (*run)(struct engine *, struct job *);

        pthread_mutex_lock(&w.lock);
        run = w.run;
        w.worker = pthread_self();
        w.has_worker = true;
        pthread_mutex_unlock(&w.lock);
        run(engine, j);
}

void __real_io_submit(struct engine *engine, struct job *j);
void __wrap_io_submit(struct engine *engine, struct job *j);
void __wrap_io_submit(struct engine *engine, struct job *j) {
        pthread_mutex_lock(&w.lock);
        if (w.watched != 0 && j->owner == w.watched) {
                w.n_begun++;
                w.over = w.has_worker = false;
                w.run = j->run;
                j->run = noted_run;
        }
        pthread_mutex_unlock(&w.lock);
        __real_io_submit(engine, j);
}

/* A worker rings when the engine thread may take its job back. */
void __real_bell_ring(struct bell *b);
void __wrap_bell_ring(struct bell *b);
void __wrap_bell_ring(struct bell *b) {
        pthread_mutex_lock(&w.lock);
        if (w.has_worker && pthread_equal(w.worker, pthread_self())) {
                w.over = true;
                w.has_worker = false;
                pthread_cond_broadcast(&w.cond);
        }
        pthread_mutex_unlock(&w.lock);
        __real_bell_ring(b);
}

uint64_t __real_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void);
uint64_t __wrap_clock_monotonic_usec(void) {
        uint64_t later;

        pthread_mutex_lock(&w.lock);
        later = w.later;
        pthread_mutex_unlock(&w.lock);
        return __real_clock_monotonic_usec() + later;
}

static void watch(uint64_t owner) {
        pthread_mutex_lock(&w.lock);
        w.watched = owner;
        pthread_mutex_unlock(&w.lock);
}

static unsigned n_begun(void) {
        unsigned n;

        pthread_mutex_lock(&w.lock);
        n = w.n_begun;
        pthread_mutex_unlock(&w.lock);
        return n;
}

/* --- the test --- */

static uint32_t layer(void) {
        uint32_t i;

        pthread_mutex_lock(&w.lock);
        i = w.layer;
        pthread_mutex_unlock(&w.lock);
        return i;
}

/* The layer before the gate passes; the next one is there. */
static void step_layer(void) {
        gate_step(&layer_gate);
        gate_wait(&layer_gate);
}

/* A whole step lies before us. */
static void to_first_layer(void) {
        do
                step_layer();
        while (layer() > 0);
}

static uint32_t n_layer(void) {
        struct engine_model_info info;

        inside_describe_model(rig.en, &info);
        return info.n_layer;
}

static void to_last_layer(void) {
        while (layer() + 1 < n_layer())
                step_layer();
}

/* A conversation of B, and A's long prompt, whose first layer stands before the gate. From the prompt on jobs of @watched
 * are watched. */
static uint64_t begin(uint64_t watched) {
        static int32_t tokens[PROMPT];
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = UID_B, .name = "seen"};
        struct engine_options o = erig_options(64 << 20);
        uint64_t id;

        pthread_mutex_lock(&w.lock);
        w.layer = w.n_begun = 0;
        w.watched = w.later = 0;
        w.has_worker = w.over = false;
        pthread_mutex_unlock(&w.lock);
        o.batch_tokens = 32;
        erig_open(&rig, &o);
        assert_true(n_layer() >= 4);
        assert_int_equal(erig_do(&rig, &q, &B), ENGINE_CONV);
        id = B.conv.id;
        q = (struct engine_request){.verb = ENGINE_OPEN, .owner = UID_A};
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_CONV);
        for (size_t i = 0; i < PROMPT; i++)
                tokens[i] = (int32_t)(300 + i);
        q = erig_request(ENGINE_CONTINUE, A.conv.id);
        q.owner = UID_A;
        q.input = ENGINE_INPUT_TOKENS;
        q.tokens = tokens;
        q.n_tokens = PROMPT;
        q.max_tokens = 0;
        gate_close(&layer_gate, 0);
        watch(watched);
        erig_send(&rig, &q, &A);
        gate_wait(&layer_gate);
        return id;
}

/* Everything goes on to its end. */
static void let_go(void) {
        watch(0);
        gate_open(&layer_gate);
        while (rig.n_open > 0)
                erig_step(&rig);
        assert_int_equal(A.kind, ENGINE_DONE);
}

static void end(void) {
        let_go();
        erig_close(&rig);
}

/* It is answered before the step has come to its last layer. */
static void check_look(struct engine_request *q, enum engine_event_kind kind) {
        unsigned before = n_begun();

        q->owner = UID_B;
        to_first_layer();
        erig_send(&rig, q, &B);
        step_layer();
        if (n_begun() > before) {
                gate_await(&w.lock, &w.cond, &w.over);
                step_layer();
        }
        assert_int_equal(layer(), n_begun() > before ? 2 : 1);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, kind);
}

static void test_looks(void **state) {
        static const struct engine_message hello = {
                .role = ENGINE_USER, .text = "Hello", .text_size = 5};
        struct engine_request q;
        uint64_t id;

        erig_need_model();
        id = begin(UID_B);
        q = (struct engine_request){.verb = ENGINE_MODEL_INFO};
        check_look(&q, ENGINE_INFO);
        q = (struct engine_request){.verb = ENGINE_TOKENIZE, .text = "Hello", .text_size = 5};
        check_look(&q, ENGINE_TOKENS);
        q = (struct engine_request){.verb = ENGINE_LIST};
        check_look(&q, ENGINE_CONVS);
        q = (struct engine_request){.verb = ENGINE_GET, .conv_id = id, .want_turns = true};
        check_look(&q, ENGINE_CONV);
        assert_string_equal(B.name, "seen");
        q = (struct engine_request){.verb = ENGINE_FIND, .messages = &hello, .n_messages = 1};
        check_look(&q, ENGINE_FOUND);
        q = (struct engine_request){.verb = ENGINE_TENANT, .tenant = "team"};
        check_look(&q, ENGINE_OWNER);
        q = (struct engine_request){.verb = ENGINE_USAGE};
        check_look(&q, ENGINE_USED);
        q = (struct engine_request){.verb = ENGINE_STATS};
        check_look(&q, ENGINE_STATS_RESULT);
        q = (struct engine_request){.verb = ENGINE_USERS};
        check_look(&q, ENGINE_USERS_RESULT);
        /* What cannot be answered is refused as soon. */
        q = (struct engine_request){.verb = ENGINE_GET, .conv_id = id + 1000};
        check_look(&q, ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_NOT_FOUND);
        end();
}

/* A request that changes something waits for the end of the step, and those that look and come after it do, too. */
static void test_behind_request(void **state) {
        struct engine_request open = {.verb = ENGINE_OPEN, .owner = UID_B};
        struct engine_request list = {.verb = ENGINE_LIST, .owner = UID_B};

        erig_need_model();
        begin(UID_B);
        to_first_layer();
        erig_send(&rig, &open, &B);
        erig_send(&rig, &list, &C);
        to_last_layer();
        assert_int_equal(n_begun(), 0);
        end();
        assert_int_equal(B.kind, ENGINE_CONV);
        assert_int_equal(C.kind, ENGINE_CONVS);
}

/* The row of a conversation is read meanwhile. What follows from it waits for the end of the step. */
static void test_named(void **state) {
        struct engine_request q = {.verb = ENGINE_UPDATE, .owner = UID_B};

        erig_need_model();
        q.conv_id = begin(UID_B);
        q.name = "changed";
        to_first_layer();
        erig_send(&rig, &q, &B);
        step_layer();
        assert_int_equal(n_begun(), 1);
        gate_await(&w.lock, &w.cond, &w.over);
        to_last_layer();
        assert_int_equal(n_begun(), 1);
        end();
        assert_int_equal(B.kind, ENGINE_CONV);
        assert_string_equal(B.name, "changed");
}

/* What a worker has done for a user is known before he looks. */
static void test_behind_job(void **state) {
        struct engine_request open = {.verb = ENGINE_OPEN, .owner = UID_B};
        struct engine_request list = {.verb = ENGINE_LIST, .owner = UID_B};

        erig_need_model();
        begin(UID_B);
        to_last_layer();
        erig_send(&rig, &open, &B);
        to_first_layer(); /* between the steps it is given to a worker */
        assert_int_equal(n_begun(), 1);
        gate_await(&w.lock, &w.cond, &w.over);
        erig_send(&rig, &list, &C);
        step_layer();
        assert_int_equal(n_begun(), 2);
        gate_await(&w.lock, &w.cond, &w.over);
        to_last_layer();
        erig_take_all(&rig);
        assert_false(B.final);
        assert_false(C.final);
        end();
        assert_int_equal(B.kind, ENGINE_CONV);
        assert_int_equal(C.kind, ENGINE_CONVS);
}

/* How long a commit takes has nothing to do with the step that is computed meanwhile. */
static void test_commit_time(void **state) {
        const uint64_t hour = (uint64_t)3600 * 1000000;
        struct engine_request q = {.verb = ENGINE_STATS, .owner = UID_A, .want_meters = true};
        const struct histogram *commits = &B.meters.own.latencies[ENGINE_LATENCY_COMMIT];

        erig_need_model();
        begin(UID_A);
        gate_await(
                &w.lock, &w.cond, &w.over); /* the last job before the step: the input's commit */
        pthread_mutex_lock(&w.lock);
        w.later = hour;
        pthread_mutex_unlock(&w.lock);
        let_go();
        assert_int_equal(erig_do(&rig, &q, &B), ENGINE_STATS_RESULT);
        assert_int_equal(histogram_count(commits), 1);
        assert_true(commits->sum_usec < hour);
        erig_close(&rig);
}

/* A failed test must not leave an engine behind. */
static int teardown(void **state) {
        gate_open(&layer_gate);
        if (rig.en)
                erig_close(&rig);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_looks, teardown),
                cmocka_unit_test_teardown(test_behind_request, teardown),
                cmocka_unit_test_teardown(test_named, teardown),
                cmocka_unit_test_teardown(test_behind_job, teardown),
                cmocka_unit_test_teardown(test_commit_time, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
