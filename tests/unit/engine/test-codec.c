/* SPDX-License-Identifier: MIT */
/*
 * The codec of spilled memory is chosen by what was measured, and remembered: a disk that is said to be
 * slow gives KV, a fast one raw; and memory that was written by several choices comes back the same.
 */
#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "base/util.h"
#include "rig.h"
#include "spill/spill.h"
#include "store/store.h"
#include "util/cpus.h"
#include "util/test.h"

static struct answer A, expected[4];
/* What is said the @i-th time: some blocks, since a tail is mostly zeros. */
static const char *text(size_t i) {
        return erig_words(150, (unsigned)i);
}

static struct engine_options options(void) {
        struct engine_options o = erig_options(64 << 20);

        o.spill_codec = UINT32_MAX;
        o.spill_delay_ms = UINT32_MAX;
        return o;
}

static void answers(void) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        for (size_t i = 0; i < 4; i++)
                erig_say(&r, c, text(i), 12, &expected[i]);
        erig_close(&r);
}

static struct store *stopped_register(const struct erig *r) {
        struct store *s = NULL;
        char path[128];
        struct err e;

        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        if (store_open_existing(&s, path, &e) < 0)
                fail_msg("%s", e.msg);
        return s;
}

/* Start again, with a disk that is said to read so many bytes per second, and no choice so far. */
static void start_on(struct erig *r, int64_t disk) {
        const struct store_meter meters[] = {{"spill_disk_speed", disk}, {"spill_codec", 0}};
        struct store *s;

        erig_stop(r, true);
        s = stopped_register(r);
        assert_int_equal(store_meter_set(s, meters, 2, NULL), 0);
        store_free(s);
        erig_start(r);
}

static int64_t remembered(struct erig *r, const char *name) {
        struct store *s = erig_register(r);
        int64_t v = -1;

        assert_int_equal(store_meter_get(s, name, &v, NULL), 0);
        store_free(s);
        return v;
}

/* Says text @i, evicts, and returns the bytes on disk for a raw byte, in percent. */
static uint64_t say_and_evict(struct erig *r, uint64_t c, size_t i) {
        uint64_t raw = erig_stat(r, "spill_raw_in_bytes"),
                 stored = erig_stat(r, "bytes_spill_written");

        erig_say(r, c, text(i), 12, &A);
        answer_same(&A, &expected[i]);
        assert_true(i == 0 || A.n_disk > 0);
        assert_int_equal(erig_simple(r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        raw = erig_stat(r, "spill_raw_in_bytes") - raw;
        assert_true(raw > 0);
        return (erig_stat(r, "bytes_spill_written") - stored) * 100 / raw;
}

static void test_by_disk(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        answers();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_stat(&r, "spill_codec_why"), ENGINE_CODEC_GUESS);
        assert_true(erig_stat(&r, "spill_decode_speed") > 0);
        assert_true(erig_stat(&r, "spill_copy_speed") > 0);

        start_on(&r, 1000000);
        assert_int_equal(erig_stat(&r, "spill_codec"), ENGINE_CODEC_KV);
        assert_int_equal(erig_stat(&r, "spill_codec_why"), ENGINE_CODEC_TIME);
        assert_in_range(erig_stat(&r, "spill_disk_speed"), 999000, 1001000);
        assert_true(erig_stat(&r, "spill_kv_usec") < erig_stat(&r, "spill_raw_usec"));
        assert_in_range(say_and_evict(&r, c, 0), 20, 88);
        assert_int_equal(remembered(&r, "spill_codec"), 1 + ENGINE_CODEC_KV);
        assert_in_range(remembered(&r, "spill_ratio"), 1050, 5000);

        start_on(&r, INT64_C(1000000000000));
        assert_int_equal(erig_stat(&r, "spill_codec"), ENGINE_CODEC_RAW);
        assert_int_equal(erig_stat(&r, "spill_codec_why"), ENGINE_CODEC_TIME);
        assert_true(erig_stat(&r, "spill_kv_usec") > erig_stat(&r, "spill_raw_usec"));
        /* Whole blocks take a little more than they are; the tail has zeros. */
        assert_in_range(say_and_evict(&r, c, 1), 90, 110);
        assert_int_equal(remembered(&r, "spill_codec"), 1 + ENGINE_CODEC_RAW);
        assert_in_range(
                remembered(&r, "spill_disk_speed"), INT64_C(990000000000), INT64_C(1010000000000));

        /* Nothing was measured meanwhile: this disk is too small for that. */
        erig_restart(&r, true);
        assert_int_equal(erig_stat(&r, "spill_codec"), ENGINE_CODEC_RAW);
        start_on(&r, 1000000);
        assert_in_range(say_and_evict(&r, c, 2), 20, 88);
        erig_say(&r, c, text(3), 12, &A);
        answer_same(&A, &expected[3]);
        assert_int_equal(A.n_computed + A.n_disk, A.n_prompt);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        assert_int_equal(erig_stat(&r, "spill_corrupt"), 0);
        erig_close(&r);
}

/* How many threads decode at the same time, as the choice has it: of a disk that costs nothing. */
static double n_decoding(void) {
        static const char *const names[] = {"spill_kv_usec", "spill_decode_speed"};
        struct engine_options o = options();
        uint64_t values[2];
        struct erig r;

        erig_open(&r, &o);
        start_on(&r, INT64_C(1000000000000));
        erig_stats(&r, names, values, 2);
        assert_true(values[0] > 0 && values[1] > 0);
        erig_close(&r);
        return 1e15 / (double)values[0] / (double)values[1];
}

/* One processor has two workers, but does not decode twice as fast. */
static void test_one_processor(void **state) {
        unsigned cpus = MIN(machine_cpus(NULL), 4u); /* of four workers at most */
        cpu_set_t was;

        assert_in_range((unsigned)(n_decoding() * 1000 + 0.5), cpus * 995, cpus * 1005);
        test_limit_cpus(1, &was);
        assert_in_range((unsigned)(n_decoding() * 1000 + 0.5), 995, 1005);
        test_restore_cpus(&was);
}

/* Where bytes are scarce they decide. */
static void test_full(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        o.disk_limit = 1 << 20;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        start_on(&r, INT64_C(1000000000000));
        assert_int_equal(erig_stat(&r, "spill_codec"), ENGINE_CODEC_RAW);
        for (unsigned i = 0; i < 12 && erig_stat(&r, "spill_disk_bytes") < (3 << 18); i++) {
                erig_append_raw(&r, c, erig_words(60, i));
                erig_simple(&r, ENGINE_EVICT, c, NULL);
        }
        assert_true(erig_stat(&r, "spill_disk_bytes") >= (3 << 18));
        assert_int_equal(erig_stat(&r, "spill_codec"), ENGINE_CODEC_KV);
        assert_int_equal(erig_stat(&r, "spill_codec_why"), ENGINE_CODEC_TOTAL);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        assert_int_equal(erig_stat(&r, "spill_disk_bytes"), 0);
        assert_int_equal(erig_stat(&r, "spill_codec"), ENGINE_CODEC_RAW);
        erig_close(&r);
}

static void test_set(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c;

        o.spill_codec = ENGINE_CODEC_RAW;
        answers();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        start_on(&r, 1000000);
        assert_int_equal(erig_stat(&r, "spill_codec"), ENGINE_CODEC_RAW);
        assert_int_equal(erig_stat(&r, "spill_codec_why"), ENGINE_CODEC_SET);
        assert_true(say_and_evict(&r, c, 0) >= 100);
        assert_int_equal(remembered(&r, "spill_codec"), 0);
        erig_close(&r);
}

/* A cap on instruction sets is one on those that pack, too; without one it is gone. */
static void test_capped(void **state) {
        const struct {
                uint32_t isa;
                enum spill_isa most;
        } caps[] = {{ENGINE_ISA_GENERIC, SPILL_ISA_GENERIC}, {ENGINE_ISA_AVX_VNNI, SPILL_ISA_AVX2},
                {UINT32_MAX, SPILL_ISA_AVX512}};
        const int best = spill_cap_isa(SPILL_ISA_BEST);
        struct engine_options o = options();
        struct erig r;

        for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
                o.max_isa = caps[i].isa;
                erig_open(&r, &o);
                assert_int_equal(spill_isa(), MIN(best, (int)caps[i].most));
                erig_close(&r);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_by_disk),
                cmocka_unit_test(test_one_processor),
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_set),
                cmocka_unit_test(test_capped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
