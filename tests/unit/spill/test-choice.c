/* SPDX-License-Identifier: MIT */
/* Which codec is chosen: by figures alone, and what a store does with figures of its own. */
#include <unistd.h>

#include "base/clock.h"
#include "codec-data.h"
#include "spill/files.h"
#include "store.h"

#define GB UINT64_C(1000000000)

enum { TOKENS = 32, LARGE = 1 << 20, N = 20 };

/* --- the policy --- */

static struct spill_figures figures(double disk, double decode) {
        return (struct spill_figures){.disk_speed = (uint64_t)(disk * 1e9),
                .decode_speed = (uint64_t)(decode * 1e9),
                .copy_speed = 8 * GB,
                .ratio = 1180};
}

static unsigned chosen(double disk, double decode, unsigned n_threads, unsigned now) {
        struct spill_figures f = figures(disk, decode);
        struct spill_choice c;

        spill_choose(&f, n_threads, SPILL_REFUSED_NOT, now, &c);
        return c.codec;
}

static void test_soonest(void **state) {
        static const struct {
                double disk, decode;
                unsigned n_threads, want;
        } cases[] = {
                /* disks and processors that were measured: docs/spill.md */
                {1.9, 2.31, 1, SPILL_CODEC_KV},
                {3.7, 1.45, 1, SPILL_CODEC_RAW},
                {3.7, 1.45, 2, SPILL_CODEC_RAW},
                {3.7, 2.2, 2, SPILL_CODEC_KV},
                {2.4, 2.45, 1, SPILL_CODEC_RAW}, /* as reading and decoding do not overlap wholly */
                {2.6, 1.95, 2, SPILL_CODEC_KV},
                {2.6, 1.95, 1, SPILL_CODEC_RAW},
                {0.2, 0.4, 1, SPILL_CODEC_KV},
                {12, 3, 2, SPILL_CODEC_RAW},
                {12, 3, 8, SPILL_CODEC_KV},
                /* Copying is as slow as decoding: less is read. */
                {1000, 8, 1, SPILL_CODEC_KV},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (chosen(cases[i].disk, cases[i].decode, cases[i].n_threads, SPILL_CODEC_AUTO) !=
                        cases[i].want)
                        fail_msg("case %zu", i);
}

static void test_times(void **state) {
        struct spill_figures f = figures(2, 1);
        struct spill_choice c;

        spill_choose(&f, 2, SPILL_REFUSED_NOT, SPILL_CODEC_AUTO, &c);
        /* Two threads decode 2 GB/s; an eighth of the disk's time is not hidden behind that. */
        assert_in_range(c.kv_usec, 552965, 552967);
        /* The disk's, and an eighth of copying 16 GB/s. */
        assert_in_range(c.raw_usec, 507811, 507813);
        assert_int_equal(c.codec, SPILL_CODEC_RAW);
        assert_false(c.is_guess);
        f.decode_speed = f.copy_speed;
        f.ratio = 1000;
        spill_choose(&f, 2, SPILL_REFUSED_NOT, SPILL_CODEC_AUTO, &c);
        assert_int_equal(c.kv_usec, c.raw_usec);
        assert_int_equal(c.codec, SPILL_CODEC_KV); /* of equals the smaller */
        f.disk_speed = 0;
        spill_choose(&f, 2, SPILL_REFUSED_NOT, SPILL_CODEC_AUTO, &c);
        assert_true(c.is_guess);
        f = (struct spill_figures){0};
        spill_choose(&f, 0, SPILL_REFUSED_NOT, SPILL_CODEC_AUTO, &c);
        assert_true(c.kv_usec > 0 && c.raw_usec > 0);
}

/* A choice holds until the other one is better by a twentieth. */
static void test_holds(void **state) {
        /* Raw takes 1 / disk and 1/64 of a unit, KV 1/2 and 1/9.44 / disk: they are equal at 1.846. */
        assert_int_equal(chosen(1.9, 2, 1, SPILL_CODEC_AUTO), SPILL_CODEC_RAW);
        assert_int_equal(chosen(1.95, 2, 1, SPILL_CODEC_KV), SPILL_CODEC_KV);
        assert_int_equal(chosen(1.965, 2, 1, SPILL_CODEC_KV), SPILL_CODEC_RAW);
        assert_int_equal(chosen(1.75, 2, 1, SPILL_CODEC_RAW), SPILL_CODEC_RAW);
        assert_int_equal(chosen(1.73, 2, 1, SPILL_CODEC_RAW), SPILL_CODEC_KV);
        assert_int_equal(chosen(1.8, 2, 1, SPILL_CODEC_AUTO), SPILL_CODEC_KV);
}

static void test_scarce(void **state) {
        struct spill_figures f = figures(50, 1);
        struct spill_choice c;

        spill_choose(&f, 1, SPILL_REFUSED_FLOOR, SPILL_CODEC_RAW, &c);
        assert_int_equal(c.codec, SPILL_CODEC_KV);
        assert_int_equal(c.scarce, SPILL_REFUSED_FLOOR);
        assert_false(spill_is_scarce(UINT64_MAX, 0, true)); /* no limit */
        assert_false(spill_is_scarce(799, 1072, false));
        assert_true(spill_is_scarce(804, 1072, false));
        assert_true(spill_is_scarce(670, 1072, true));
        assert_false(spill_is_scarce(669, 1072, true));
        assert_true(spill_is_scarce(5000, 1072, false));
}

/* --- a store --- */

/* Four layers' keys and values of 16 heads of 64, in sections of two layers. */
static struct spill_array arrays[8];
static const uint64_t ends[2] = {LARGE / 2, LARGE};
static uint8_t raw[N][LARGE], back[N][LARGE];
static struct spill_item items[N];

static int setup(void **state) {
        struct store *t = malloc(sizeof(*t));

        assert_non_null(t);
        store_make(t);
        for (size_t i = 0; i < 8; i++)
                arrays[i] = (struct spill_array){
                        SPILL_F16, (uint32_t)i / 4, i * LARGE / 8, 32, 64, TOKENS, i % 2 == 0};
        t->options.max_raw_size = LARGE;
        t->options.codec = SPILL_CODEC_AUTO;
        t->options.last_codec = SPILL_CODEC_AUTO;
        t->options.n_threads = 1;
        store_divide(&t->options, (struct spill_layout){arrays, 8, ends, 2});
        *state = t;
        return 0;
}

static int teardown(void **state) {
        store_remove(*state);
        free(*state);
        return 0;
}

/* Start anew, with figures that stay. */
static void start(struct store *t, double disk, double decode) {
        t->s = spill_free(t->s);
        t->options.frozen = true;
        t->options.figures = figures(disk, decode);
        store_open(t);
        for (size_t i = 0; i < N; i++)
                if (items[i].ref.raw_size > 0)
                        assert_int_equal(spill_adopt(t->s, &items[i].ref, NULL), 0);
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
}

/* Write block @i of the file of @owner; the bytes that it takes. */
static uint64_t put_as(struct store *t, size_t i, enum data data, uint64_t owner) {
        struct spill_block b = {.file_key = 1 + owner,
                .owner = owner,
                .meta = meta_of((uint32_t)i),
                .raw = raw[i],
                .raw_size = LARGE};
        uint64_t seed = i + 1;

        fill(raw[i], LARGE, data == DATA_RANDOM ? RANDOM : ZERO, seed);
        for (size_t k = 0; k < 8 && data != DATA_RANDOM && data != DATA_ZERO; k++)
                fill_array(&arrays[k], data, &seed, raw[i]);
        items[i] = (struct spill_item){.meta = b.meta, .dst = back[i]};
        assert_int_equal(spill_write(t->s, &b, &items[i].ref, NULL, NULL), 0);
        return items[i].ref.stored_size;
}

static uint64_t put(struct store *t, size_t i, enum data data) {
        return put_as(t, i, data, 0);
}

static void read_back(struct store *t, size_t n) {
        struct err e;

        memset(back, 0x55, sizeof(back));
        if (spill_read_batch(t->s, items, n, &e) != 0)
                fail_msg("%s", e.msg);
        for (size_t i = 0; i < n; i++)
                assert_memory_equal(back[i], raw[i], LARGE);
}

static void forget(void) {
        memset(items, 0, sizeof(items));
}

/* One file with records of all sorts: whatever was chosen when. */
static void test_mixture(void **state) {
        struct store *t = *state;
        size_t i = 0;

        forget();
        for (int round = 0; round < 3; round++) {
                start(t, 0.5, 2);
                assert_in_range(put(t, i++, DATA_LIKE), LARGE / 2, LARGE * 9 / 10);
                assert_true(put(t, i++, DATA_RANDOM) > LARGE);
                start(t, 50, 2);
                assert_true(put(t, i++, DATA_LIKE) > LARGE);
                assert_true(put(t, i++, DATA_LIKE) > LARGE);
                /* Two thirds of it are zeros. */
                assert_true(put(t, i++, DATA_TAIL) < LARGE * 3 / 4);
                assert_in_range(put(t, i++, DATA_ZERO), 4096, LARGE / 16);
        }
        read_back(t, i);
        t->options.codec = SPILL_CODEC_RAW;
        start(t, 0.5, 2);
        assert_true(put(t, i++, DATA_ZERO) > LARGE); /* as it is set */
        read_back(t, i);
}

static unsigned choice(struct store *t, struct spill_choice *ret) {
        struct spill_choice c;

        spill_choice(t->s, ret ? ret : &c);
        return ret ? ret->codec : c.codec;
}

static void test_remembered(void **state) {
        struct store *t = *state;
        struct spill_choice c;

        forget();
        start(t, 1.95, 2);
        assert_int_equal(choice(t, &c), SPILL_CODEC_RAW);
        assert_in_range(c.figures.disk_speed, 1949999990, 1950000010);
        t->options.last_codec = SPILL_CODEC_KV;
        start(t, 1.95, 2);
        assert_int_equal(choice(t, NULL), SPILL_CODEC_KV);
        start(t, 2.3, 2);
        assert_int_equal(choice(t, NULL), SPILL_CODEC_RAW);
        /* Without any figure of the disk, raw was a guess. */
        t->options.last_codec = SPILL_CODEC_RAW;
        t->options.frozen = true;
        t->options.figures = (struct spill_figures){.decode_speed = 36 * GB / 10, .ratio = 1180};
        t->s = spill_free(t->s);
        store_open(t);
        assert_int_equal(choice(t, &c), SPILL_CODEC_KV);
        assert_true(c.is_guess);
        t->options.codec = SPILL_CODEC_LZ4;
        start(t, 1.95, 2);
        assert_int_equal(choice(t, &c), SPILL_CODEC_LZ4);
        assert_true(c.is_set);
}

static void test_limits(void **state) {
        struct store *t = *state;
        struct spill_choice c;

        forget();
        t->options.max_disk_size = 8 * (LARGE + 65536);
        t->options.max_disk_size_per_owner = 6 * LARGE;
        start(t, 50, 2);
        for (size_t i = 0; i < 4; i++)
                assert_true(put_as(t, i, DATA_LIKE, 1) > LARGE);
        /* With this one three quarters of the owner's limit are used: it, and nobody else's. */
        assert_true(put_as(t, 4, DATA_LIKE, 1) < LARGE);
        assert_int_equal(choice(t, &c), SPILL_CODEC_RAW);
        assert_int_equal(c.scarce, SPILL_REFUSED_NOT);
        assert_true(put_as(t, 5, DATA_LIKE, 2) > LARGE);
        assert_true(put_as(t, 6, DATA_LIKE, 3) < LARGE);
        assert_int_equal(choice(t, &c), SPILL_CODEC_KV);
        assert_int_equal(c.scarce, SPILL_REFUSED_TOTAL);
        /* More than 3/8 are free again: what came of the limit is forgotten. */
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(choice(t, NULL), SPILL_CODEC_KV);
                assert_int_equal(spill_release(t->s, &items[i].ref, NULL), 0);
                items[i].ref.raw_size = 0;
        }
        assert_int_equal(choice(t, NULL), SPILL_CODEC_RAW);
}

static void test_day(void **state) {
        struct store *t = *state;
        struct spill_choice c;

        forget();
        t->options.max_written_per_day = 4 * (LARGE + 65536);
        start(t, 50, 2);
        for (size_t i = 0; i < 3; i++)
                assert_true(put(t, i, DATA_LIKE) > LARGE);
        assert_int_equal(choice(t, &c), SPILL_CODEC_RAW); /* not yet three quarters */
        t->options.max_written_per_day = 4 * LARGE;
        t->options.written_today = 3 * LARGE;
        t->options.day = clock_realtime_usec() / 86400 / 1000000;
        start(t, 50, 2);
        choice(t, &c);
        assert_int_equal(c.codec, SPILL_CODEC_KV);
        assert_int_equal(c.scarce, SPILL_REFUSED_DAY);
}

/* --- measuring --- */

static void test_measured(void **state) {
        struct store *t = *state;
        struct spill_choice c;
        bool direct;

        forget();
        store_start(t);
        choice(t, &c);
        assert_true(c.figures.decode_speed > 0 && c.figures.copy_speed > 0);
        assert_true(c.figures.encode_speed > 0);
        assert_true(c.is_guess && c.figures.ratio == 0);
        assert_true(spill_probe_due(t->s) == UINT64_MAX); /* of what? */
        t->s = spill_free(t->s);
        t->options.codec = SPILL_CODEC_RAW;
        store_start(t);
        for (size_t i = 0; i < N; i++)
                put(t, i, DATA_LIKE);
        spill_settle(t->s, 1);
        t->s = spill_free(t->s);
        t->options.codec = SPILL_CODEC_AUTO;
        store_open(t);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(spill_adopt(t->s, &items[i].ref, NULL), 0);
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
        assert_true(spill_probe_due(t->s) <= clock_monotonic_usec());
        spill_probe(t->s);
        assert_true(spill_probe_due(t->s) > clock_monotonic_usec() + 500000000); /* so soon */
        read_back(t, N);
        direct = store_stats(t).n_direct > 0;
        choice(t, &c);
        if (direct) {
                assert_true(c.figures.disk_speed > 0);
                assert_false(c.is_guess);
        }
        put(t, 0, DATA_RANDOM);
        assert_in_range(choice(t, NULL), SPILL_CODEC_RAW, SPILL_CODEC_KV);
}

/* What a stretch of reading says of the disk. */
static void test_stretch(void **state) {
        struct store *t = *state;
        struct spill_choice c;

        forget();
        store_start(t);
        t->s->stats.disk_size = 1 << 30;
        t->s->measures.t_probe = clock_monotonic_usec();
        /* Decoding was the limit: nothing is known, and the disk should be measured. */
        spill_measure_begin(t->s);
        spill_measure_end(t->s, 4 << 20, 10, 1000, false);
        choice(t, &c);
        assert_int_equal(c.figures.disk_speed, 0);
        assert_true(t->s->measures.is_hidden);
        assert_true(spill_probe_due(t->s) > clock_monotonic_usec() + 500000000);
        t->s->measures.t_probe = t->s->measures.t_wanted = 0;
        assert_true(spill_probe_due(t->s) <= clock_monotonic_usec());
        /* Small, or partly from the page cache. */
        spill_measure_begin(t->s);
        spill_measure_end(t->s, 1 << 20, 1000, 1000, false);
        spill_measure_begin(t->s);
        spill_measure_end(t->s, 4 << 20, 1000, 1000, true);
        choice(t, &c);
        assert_int_equal(c.figures.disk_speed, 0);
        /* Two threads: their bytes together, from the first's begin to the last's end. */
        spill_measure_begin(t->s);
        spill_measure_begin(t->s);
        spill_measure_end(t->s, 2 << 20, 1000, 1000, false);
        choice(t, &c);
        assert_int_equal(c.figures.disk_speed, 0);
        t->s->measures.t_begin -= 1000000;
        spill_measure_end(t->s, 2 << 20, 1000, 1000, false);
        choice(t, &c);
        assert_in_range(c.figures.disk_speed, 2 << 20, 4 << 20);
        assert_false(t->s->measures.is_hidden);
        /* Decoding was the limit: the figure rises by it, but does not fall. */
        spill_measure_begin(t->s);
        t->s->measures.t_begin -= 10000000;
        spill_measure_end(t->s, 4 << 20, 0, 1000, false);
        choice(t, &c);
        assert_in_range(c.figures.disk_speed, 2 << 20, 4 << 20);
        spill_measure_begin(t->s);
        t->s->measures.t_begin -= 1000;
        spill_measure_end(t->s, 64 << 20, 0, 1000, false);
        choice(t, &c);
        assert_true(c.figures.disk_speed > 32 << 20);
}

/* A disk that is busy with what was written would be measured as one that is slow. */
static void test_quiet(void **state) {
        struct store *t = *state;
        struct spill_measures *m;
        uint64_t t0, due;

        forget();
        store_start(t);
        m = &t->s->measures;
        t->s->stats.disk_size = 1 << 30;
        assert_true(spill_probe_due(t->s) <= clock_monotonic_usec());
        t0 = clock_monotonic_usec();
        put(t, 0, DATA_LIKE);
        due = spill_probe_due(t->s);
        assert_true(due > t0 + 1000000 && due < clock_monotonic_usec() + 10000000);
        m->t_written = t0 - 5000000; /* long ago */
        assert_true(spill_probe_due(t->s) <= clock_monotonic_usec());
        spill_settle(t->s, 1);
        assert_true(m->t_written >= t0);
        /* It is written all the time: then sometime. */
        m->t_wanted = t0 - 100000000;
        assert_true(spill_probe_due(t->s) <= clock_monotonic_usec());
        /* Ten minutes after the last one, and quiet. */
        m->t_wanted = 0;
        m->t_probe = t0;
        assert_in_range(spill_probe_due(t->s), t0 + 600000000, t0 + 600000000);
        m->t_probe = t0 - 601000000;
        m->t_wanted = 0;
        due = spill_probe_due(t->s);
        assert_true(due > t0 + 1000000 && due < clock_monotonic_usec() + 10000000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_soonest),
                cmocka_unit_test(test_times),
                cmocka_unit_test(test_holds),
                cmocka_unit_test(test_scarce),
                cmocka_unit_test_setup_teardown(test_mixture, setup, teardown),
                cmocka_unit_test_setup_teardown(test_remembered, setup, teardown),
                cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
                cmocka_unit_test_setup_teardown(test_day, setup, teardown),
                cmocka_unit_test_setup_teardown(test_measured, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stretch, setup, teardown),
                cmocka_unit_test_setup_teardown(test_quiet, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
