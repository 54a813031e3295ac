/* SPDX-License-Identifier: MIT */
/*
 * Cancelling requests that wait for the disk: the I/O workers are held at a gate, so that each
 * request is in the state that the test needs.
 */
#include <stdatomic.h>
#include <string.h>

#include "util/gate.h"
#include "rig.h"
#include "spill/spill.h"
#include "util/test.h"

static struct answer A, B, C;
static struct erig rig;

static struct gate gate = GATE_INIT; /* before a worker links or reads */
static atomic_uint n_reads;

struct write_job;
int __real_write_link(struct engine *engine, struct write_job *job, struct err *e);
int __wrap_write_link(struct engine *engine, struct write_job *job, struct err *e);
int __wrap_write_link(struct engine *engine, struct write_job *job, struct err *e) {
        gate_pass(&gate);
        return __real_write_link(engine, job, e);
}

int __real_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e);
int __wrap_spill_load_new(struct spill_load **ret, struct spill *spill, struct spill_item *items,
        size_t n, struct err *e) {
        gate_pass(&gate);
        return __real_spill_load_new(ret, spill, items, n, e);
}

int __real_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e);
int __wrap_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e);
int __wrap_spill_load_read(
        struct spill_load *load, const struct spill_range *ranges, struct err *e) {
        atomic_fetch_add(&n_reads, 1);
        return __real_spill_load_read(load, ranges, e);
}

/* A failed test must not leave workers behind that can't end. */
static int teardown(void **state) {
        gate_open(&gate);
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
        q = erig_long_request(c, "Tell me of the river, the green house, and the birds.", 40);
        assert_int_equal(erig_do(&rig, &q, &A), ENGINE_DONE);
        return c;
}

/* Cancel of a conversation reaches a request that waits until an eviction is over. */
static void test_waiting_for_eviction(void **state) {
        struct engine_request other, say, get;
        uint64_t c;

        c = begin(erig_pool(6));
        gate_close(&gate, 0);
        other = erig_long_request(erig_new(&rig, NULL, NULL),
                "The other one needs the memory of the first one for a text that is long enough, "
                "which tells of winter and of music, of apples and of stones, and of the night.",
                80);
        erig_send(&rig, &other, &A);
        while (A.n_tokens < 60) /* or its events would be what it waits for */
                erig_step(&rig);
        gate_wait(&gate);
        say = erig_say_request(c, "Go on.", 4);
        erig_send(&rig, &say, &B);
        /* Requests find their conversations by way of several workers, so the first ones may have
         * come before it. */
        for (int i = 0; i < 50; i++)
                assert_int_equal(erig_simple(&rig, ENGINE_CANCEL, c, &C), ENGINE_EMPTY);
        assert_false(B.final);
        gate_open(&gate);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CANCELLED);
        erig_wait(&rig, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        get = (struct engine_request){.verb = ENGINE_GET, .conv_id = c};
        assert_int_equal(erig_do(&rig, &get, &C), ENGINE_CONV);
        assert_int_equal(C.conv.revision, 3);
        erig_say(&rig, c, "Go on.", 4, &B);
}

/* Cancelled before a worker has read anything: nothing is read. */
static void test_reading(void **state) {
        struct engine_request say;
        uint64_t c;

        c = begin(64 << 20);
        assert_int_equal(erig_simple(&rig, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        gate_close(&gate, 0);
        atomic_store(&n_reads, 0);
        say = erig_say_request(c, "Go on.", 4);
        erig_send(&rig, &say, &B);
        gate_wait(&gate);
        engine_cancel(rig.en, say.handle);
        /* Each answer is a turn of the engine thread; in the second it has looked for itself. */
        for (int i = 0; i < 3; i++)
                erig_stat(&rig, "steps");
        assert_false(B.final);
        gate_open(&gate);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CANCELLED);
        assert_int_equal(atomic_load(&n_reads), 0);
        /* The memory is still there. */
        erig_say(&rig, c, "Go on.", 4, &B);
        assert_true(B.n_disk > 32);
        assert_int_equal(erig_simple(&rig, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        erig_check_empty(&rig);
}

/* Cancelled with some of the blocks that it is to be read into, while another conversation is being
 * evicted for the rest: it ends at once, and these blocks are free again. */
static void test_waiting_for_room(void **state) {
        enum { BLOCKS = 6, OTHER = 4, BLOCK = 32 };
        struct engine_request say;
        uint64_t c, other;

        c = begin(erig_pool(BLOCKS));
        erig_append_tokens(&rig, c, 600, BLOCK);
        assert_true(erig_stat(&rig, "pool_blocks") > BLOCKS - OTHER);
        assert_int_equal(erig_simple(&rig, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        other = erig_new(&rig, NULL, NULL);
        erig_append_tokens(&rig, other, 300, OTHER * BLOCK - 10);
        assert_int_equal(erig_stat(&rig, "pool_blocks"), OTHER);
        gate_close(&gate, 0);
        say = erig_say_request(c, "Go on.", 4);
        erig_send(&rig, &say, &B);
        gate_wait(&gate);
        assert_int_equal(erig_stat(&rig, "pool_blocks"), BLOCKS);
        engine_cancel(rig.en, say.handle);
        erig_wait(&rig, &B);
        assert_int_equal(B.kind, ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_CANCELLED);
        assert_int_equal(erig_stat(&rig, "pool_blocks"), OTHER);
        gate_open(&gate);
        erig_say(&rig, c, "Go on.", 4, &B);
        assert_true(B.n_disk > BLOCK);
        assert_int_equal(erig_simple(&rig, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        assert_int_equal(erig_simple(&rig, ENGINE_CLOSE, other, NULL), ENGINE_EMPTY);
        erig_check_empty(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_waiting_for_eviction, teardown),
                cmocka_unit_test_teardown(test_reading, teardown),
                cmocka_unit_test_teardown(test_waiting_for_room, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
