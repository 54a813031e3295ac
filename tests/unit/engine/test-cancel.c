/* SPDX-License-Identifier: MIT */
/*
 * Cancelling requests that wait for the disk: the I/O workers are held at a gate, so that each
 * request is in the state that the test needs.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "engine/disk/disk.h"
#include "gate.h"
#include "rig.h"
#include "util/test.h"

static struct answer A, B, C;
static struct erig rig;

/* --- the gate --- */

static struct {
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool closed, held; /* held: a worker stands before it */
        unsigned n_reads;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static void gate_go_through(void) {
        pthread_mutex_lock(&gate.lock);
        gate.held = gate.closed;
        pthread_cond_broadcast(&gate.cond);
        while (gate.closed)
                pthread_cond_wait(&gate.cond, &gate.lock);
        pthread_mutex_unlock(&gate.lock);
}

static void gate_set(bool closed) {
        pthread_mutex_lock(&gate.lock);
        gate.closed = closed;
        gate.held = false;
        gate.n_reads = 0;
        pthread_cond_broadcast(&gate.cond);
        pthread_mutex_unlock(&gate.lock);
}

/* Until a worker stands before it. */
static void gate_wait(void) {
        gate_await(&gate.lock, &gate.cond, &gate.held);
}

int __real_write_link(struct engine *engine, struct write_job *job, struct err *e);
int __wrap_write_link(struct engine *engine, struct write_job *job, struct err *e);
int __wrap_write_link(struct engine *engine, struct write_job *job, struct err *e) {
        gate_go_through();
        return __real_write_link(engine, job, e);
}

int __real_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e) {
        gate_go_through();
        return __real_spill_load_new(ret, spill, items, n, e);
}

int __real_spill_load_read(struct spill_load *load, size_t first, size_t n, struct err *e);
int __wrap_spill_load_read(struct spill_load *load, size_t first, size_t n, struct err *e);
int __wrap_spill_load_read(struct spill_load *load, size_t first, size_t n, struct err *e) {
        pthread_mutex_lock(&gate.lock);
        gate.n_reads++;
        pthread_mutex_unlock(&gate.lock);
        return __real_spill_load_read(load, first, n, e);
}

/* A failed test must not leave workers behind that can't end. */
static int teardown(void **state) {
        gate_set(false);
        if (rig.en)
                erig_close(&rig);
        return 0;
}

/* --- tests --- */

/* A conversation with some blocks of memory. */
static uint64_t begin(uint64_t pool) {
        struct engine_options o = erig_options(pool);
        struct engine_request q;
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&rig, &o);
        c = erig_new(&rig, NULL, NULL);
        q = erig_say_request(c, "Tell me of the river, the green house, and the birds.", 40);
        q.ignore_eos = true;
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_DONE);
        return c;
}

/* Cancel of a conversation reaches a request that waits until an eviction is over. */
static void test_waiting_for_eviction(void **state) {
        struct engine_request other, say, get;
        uint64_t c;

        erig_need_model();
        c = begin(erig_pool(6));
        gate_set(true);
        other = erig_say_request(erig_new(&rig, NULL, NULL),
                "The other one needs the memory of the first one for a text that is long enough, "
                "which tells of winter and of music, of apples and of stones, and of the night.",
                80);
        other.ignore_eos = true;
        erig_send(&rig, &other, &A);
        gate_wait();
        say = erig_say_request(c, "Go on.", 4);
        erig_send(&rig, &say, &B);
        /* Requests find their conversations by way of several workers, so the first ones may have
         * come before it. */
        for (int i = 0; i < 50; i++)
                assert_int_equal(erig_simple(&rig, ENGINE_CANCEL, c, &C), ENGINE_EMPTY);
        assert_false(B.final);
        gate_set(false);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CANCELLED);
        erig_wait(&rig, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        get = (struct engine_request){.verb = ENGINE_GET, .conv_id = c};
        assert_int_equal(erig_do(&rig, &get, &C), ENGINE_CONV);
        assert_int_equal(C.conv.revision, 2);
        erig_say(&rig, c, "Go on.", 4, &B);
}

/* Cancelled before a worker has read anything: nothing is read. */
static void test_reading(void **state) {
        struct engine_request say;
        unsigned n_reads;
        uint64_t c;

        erig_need_model();
        c = begin(64 << 20);
        assert_int_equal(erig_simple(&rig, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        gate_set(true);
        say = erig_say_request(c, "Go on.", 4);
        erig_send(&rig, &say, &B);
        gate_wait();
        engine_cancel(rig.en, say.handle);
        /* Each answer is a turn of the engine thread; in the second it has looked for itself. */
        for (int i = 0; i < 3; i++)
                erig_stat(&rig, "steps");
        assert_false(B.final);
        gate_set(false);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CANCELLED);
        pthread_mutex_lock(&gate.lock);
        n_reads = gate.n_reads;
        pthread_mutex_unlock(&gate.lock);
        assert_int_equal(n_reads, 0);
        /* The memory is still there. */
        erig_say(&rig, c, "Go on.", 4, &B);
        assert_true(B.n_disk > 32);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_waiting_for_eviction, teardown),
                cmocka_unit_test_teardown(test_reading, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
