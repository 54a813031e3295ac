/* SPDX-License-Identifier: MIT */
/* Blocks of several classes in one store and in one load: each is divided as its class is. */
#include "store.h"

enum { N = 27, LARGE = 1 << 20, N_CLASSES = 3 };

static const uint64_t ends_all[] = {9000, 20000, BLOCK}, ends_window[] = {12288},
                      ends_state[] = {64, 300000, 300004, 900000, LARGE};
static const struct spill_array arrays_all[] = {
        {SPILL_F16, 0, 0, 2, 64, 32, true}, {SPILL_F16, 2, 20480, 2, 64, 32, false}};
static const struct spill_array arrays_window[] = {{SPILL_I8, 0, 0, 4, 32, 32, true}};
static const struct spill_array arrays_state[] = {
        {SPILL_F32, 1, 64, 16, 64, 64, false}, {SPILL_F32, 4, 900000, 1, 4096, 4, true}};
static const struct spill_layout layouts[N_CLASSES] = {
        {arrays_all, ARRAY_SIZE(arrays_all), ends_all, ARRAY_SIZE(ends_all)},
        {arrays_window, ARRAY_SIZE(arrays_window), ends_window, ARRAY_SIZE(ends_window)},
        {arrays_state, ARRAY_SIZE(arrays_state), ends_state, ARRAY_SIZE(ends_state)},
};
static const size_t sizes[N_CLASSES] = {BLOCK, 12288, LARGE};

static bool direct;
static uint8_t *raw, *back[N];

struct world {
        struct store t;
        struct spill_item items[N];
};

static void fill_block(size_t i) {
        fill(raw, sizes[meta_of((uint32_t)i).class_id], (enum kind)(i / 3 % N_KINDS), i);
}

static void take(struct world *w, size_t i) {
        w->items[i] = (struct spill_item){
                .ref = w->items[i].ref, .meta = meta_of((uint32_t)i), .dst = back[i], .r = 77};
        memset(back[i], 0x55, LARGE);
}

static int setup(void **state) {
        struct world *w = calloc(1, sizeof(*w));

        assert_non_null(w);
        store_make(&w->t);
        w->t.options.max_raw_size = LARGE;
        w->t.options.codec = SPILL_CODEC_KV;
        memcpy(w->t.options.layouts, layouts, sizeof(layouts));
        store_start(&w->t);
        for (size_t i = 0; i < N; i++) {
                struct spill_meta m = meta_of((uint32_t)i);

                fill_block(i);
                assert_int_equal(store_write(w->t.s, i / 10, &m, raw, sizes[m.class_id],
                                         &w->items[i].ref, NULL),
                        0);
                assert_true(
                        w->items[i].ref.stored_size <= spill_stored_max(w->t.s, sizes[m.class_id]));
                take(w, i);
        }
        for (uint64_t key = 0; key < 3 && direct; key++)
                spill_settle(w->t.s, key);
        *state = w;
        return 0;
}

static int teardown(void **state) {
        struct world *w = *state;

        store_remove(&w->t);
        free(w);
        return 0;
}

static void expect_sections(size_t i, size_t first, size_t n) {
        const struct spill_layout *l = &layouts[meta_of((uint32_t)i).class_id];
        size_t start = first > 0 ? (size_t)l->section_ends[first - 1] : 0;

        fill_block(i);
        if (n > 0)
                assert_memory_equal(raw + start, back[i] + start,
                        (size_t)l->section_ends[first + n - 1] - start);
}

static void test_one_batch(void **state) {
        struct world *w = *state;

        assert_int_equal(spill_read_batch(w->t.s, w->items, N, NULL), 0);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(w->items[i].r, 0);
                expect_sections(i, 0, layouts[i % 3].n_sections);
                /* And nothing behind it. */
                if (sizes[i % 3] < LARGE)
                        assert_int_equal(back[i][sizes[i % 3]], 0x55);
        }
        assert_int_equal(store_stats(&w->t).n_reads, N);
}

/* Sections of the classes in an order of their own, as layers need them. */
static void test_sections_by_class(void **state) {
        static const struct spill_range steps[][SPILL_MAX_CLASSES] = {
                {{0, 1}, {0, 0}, {1, 2}},
                {{0, 0}, {0, 1}, {0, 0}},
                {{1, 2}, {0, 1}, {0, 2}},
                {{0, 0}, {0, 0}, {5, 0}},
                {{0, 3}, {0, 0}, {2, 3}},
        };
        struct world *w = *state;
        struct spill_load *l = NULL;

        assert_int_equal(spill_load_new(&l, w->t.s, w->items, N, NULL), 0);
        for (size_t k = 0; k < ARRAY_SIZE(steps); k++) {
                assert_int_equal(spill_load_read(l, steps[k], NULL), 0);
                for (size_t i = 0; i < N; i++) {
                        assert_int_equal(w->items[i].r, 0);
                        expect_sections(i, steps[k][i % 3].first, steps[k][i % 3].n);
                        if (k == 0)
                                assert_int_equal(back[i][i % 3 == 0   ? 9000
                                                         : i % 3 == 1 ? 0
                                                                      : LARGE - 1],
                                        0x55);
                }
        }
        assert_int_equal(store_stats(&w->t).n_reads, N);
        assert_int_equal(
                spill_load_read(l, (struct spill_range[SPILL_MAX_CLASSES]){{0, 3}, {0, 2}}, NULL),
                -ERR_INVALID);
        assert_int_equal(
                spill_load_read(l, (struct spill_range[SPILL_MAX_CLASSES]){[3] = {0, 1}}, NULL),
                -ERR_INVALID);
        spill_load_free(l);
}

static void test_wrong_class(void **state) {
        struct world *w = *state;
        struct spill_meta m = meta_of(0);
        struct spill_ref ref;
        struct err e;

        assert_int_equal(store_write(w->t.s, 9, &m, raw, sizes[1], &ref, NULL), -ERR_INVALID);
        m.class_id = 3;
        assert_int_equal(store_write(w->t.s, 9, &m, raw, sizes[0], &ref, NULL), -ERR_INVALID);
        m.class_id = UINT32_MAX;
        assert_int_equal(store_write(w->t.s, 9, &m, raw, sizes[0], &ref, NULL), -ERR_INVALID);
        /* A record is read as what it is, or not at all. */
        w->items[0].meta.class_id = 1;
        w->items[1].meta.class_id = 7;
        w->items[2].meta.class_id = 0;
        assert_int_equal(spill_read_batch(w->t.s, w->items, N, NULL), -ERR_NOT_FOUND);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(w->items[i].r, i < 3 ? -ERR_NOT_FOUND : 0);
        /* Also if another class has blocks of the same size. */
        w->t.s = spill_free(w->t.s);
        w->t.options.layouts[3] = layouts[0];
        store_open(&w->t);
        assert_int_equal(spill_adopt(w->t.s, &w->items[0].ref, NULL), 0);
        take(w, 0);
        w->items[0].meta.class_id = 3;
        assert_int_equal(spill_read_batch(w->t.s, w->items, 1, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "of class 0"));
}

/* What a store of one class wrote is read by one of several. */
static void test_more_classes(void **state) {
        struct world *w = *state;

        w->t.s = spill_free(w->t.s);
        memset(&w->t.options.layouts[1], 0, 3 * sizeof(struct spill_layout));
        w->t.options.max_raw_size = BLOCK;
        store_open(&w->t);
        /* The records of the others keep their place. */
        for (size_t i = 0; i < N; i++)
                assert_int_equal(spill_adopt(w->t.s, &w->items[i].ref, NULL), 0);
        assert_int_equal(spill_sweep(w->t.s, NULL, NULL), 0);
        assert_int_equal(spill_read_batch(w->t.s, w->items, 1, NULL), 0);
        expect_sections(0, 0, 3);
        assert_int_equal(spill_read_batch(w->t.s, w->items + 1, 1, NULL), -ERR_NOT_FOUND);
        fill_block(3);
        assert_int_equal(
                store_write(w->t.s, 5, &w->items[3].meta, raw, BLOCK, &w->items[3].ref, NULL), 0);
        w->t.s = spill_free(w->t.s);
        w->t.options.max_raw_size = LARGE;
        memcpy(w->t.options.layouts, layouts, sizeof(layouts));
        store_open(&w->t);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(spill_adopt(w->t.s, &w->items[i].ref, NULL), 0);
                take(w, i);
        }
        assert_int_equal(spill_read_batch(w->t.s, w->items, N, NULL), 0);
        for (size_t i = 0; i < N; i++)
                expect_sections(i, 0, layouts[i % 3].n_sections);
}

/* A damaged block of one class spoils none of another. */
static void test_damage(void **state) {
        struct world *w = *state;
        uint8_t byte;
        int fd = open(store_path(&w->t, 0), O_RDWR);
        off_t at = (off_t)w->items[5].ref.offset + 400;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        assert_int_equal(spill_read_batch(w->t.s, w->items, N, NULL), -ERR_CORRUPT);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(w->items[i].r, i == 5 ? -ERR_CORRUPT : 0);
}

static void test_bad_layouts(void **state) {
        struct world *w = *state;
        struct spill_options o = w->t.options;
        size_t small, large;
        struct err e;

        o.max_raw_size = LARGE - 1;
        assert_int_equal(spill_scratch_size_for(&o, &small, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "class 2"));
        o = w->t.options;
        assert_int_equal(spill_scratch_size_for(&o, &large, NULL), 0);
        memset(&o.layouts[2], 0, sizeof(o.layouts[2]));
        o.max_raw_size = BLOCK;
        assert_int_equal(spill_scratch_size_for(&o, &small, NULL), 0);
        assert_true(small < large);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        int n_failed = 0;
        const struct CMUnitTest tests[] = {
                T(test_one_batch),
                T(test_sections_by_class),
                T(test_wrong_class),
                T(test_more_classes),
                T(test_damage),
                T(test_bad_layouts),
        };

        raw = malloc(LARGE);
        assert_non_null(raw);
        for (size_t i = 0; i < N; i++) {
                back[i] = malloc(LARGE);
                assert_non_null(back[i]);
        }
        n_failed = cmocka_run_group_tests(tests, NULL, NULL);
        direct = true;
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
        for (size_t i = 0; i < N; i++)
                free(back[i]);
        free(raw);
        return n_failed;
}
