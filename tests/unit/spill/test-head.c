/* SPDX-License-Identifier: MIT */
/* Records larger than a window: what comes with the header, and what is asked for when it is known. */
#include <unistd.h>

#include "spill/shared.h"
#include "unit/spill/resident.h"
#include "unit/spill/store.h"

enum { RAW = 1 << 20, HALF = RAW / 2, N = 6 };

static const uint64_t ends[2] = {HALF, RAW};
static uint8_t raw[RAW], back[N][RAW], empty[RAW];
static enum { CACHED, DIRECT, THROUGH } way;

struct world {
        struct store t;
        struct spill_item items[N];
        enum kind kind[2]; /* of all records */
};

static void fill_block(const struct world *w, size_t i) {
        for (size_t k = 0; k < 2; k++)
                fill(raw + k * HALF, HALF, w->kind[k], i * 2 + k);
}

/* Records whose halves are like this, as they are read later on. */
static void put(struct world *w, enum kind first, enum kind second) {
        *w = (struct world){.kind = {first, second}};
        store_make(&w->t);
        w->t.options.max_raw_size = RAW;
        w->t.options.no_direct = way == THROUGH;
        store_divide(&w->t.options, (struct spill_layout){.section_ends = ends, .n_sections = 2});
        store_start(&w->t);
        assert_true(w->t.s->window_size < RAW);
        for (size_t i = 0; i < N; i++) {
                struct spill_meta m = meta_of((uint32_t)i);

                fill_block(w, i);
                assert_int_equal(store_write(w->t.s, 1, &m, raw, RAW, &w->items[i].ref, NULL), 0);
                w->items[i].meta = m;
                w->items[i].dst = back[i];
        }
        if (way != CACHED)
                spill_settle(w->t.s, 1);
        memset(empty, 0x55, RAW);
        memset(back, 0x55, sizeof(back));
}

static void expect_halves(const struct world *w, bool first, bool second) {
        for (size_t i = 0; i < N; i++) {
                fill_block(w, i);
                assert_memory_equal(back[i], first ? raw : empty, HALF);
                assert_memory_equal(back[i] + HALF, (second ? raw : empty) + HALF, HALF);
        }
}

/* Reads that all records take; @most of each one. */
static void read_all(enum kind first, enum kind second, size_t most) {
        struct spill_stats st;
        struct world w;

        put(&w, first, second);
        assert_int_equal(spill_read_batch(w.t.s, w.items, N, NULL), 0);
        expect_halves(&w, true, true);
        st = store_stats(&w.t);
        assert_true(st.n_preads <= most * N);
        if (way == DIRECT && has_direct(store_path(&w.t, 1)) && resident_can_drop(w.t.dir))
                assert_int_equal(st.n_direct, st.n_preads);
        else
                assert_int_equal(st.n_direct, 0);
        store_remove(&w.t);
}

/* The header is not worth a read of its own. */
static void test_first_half_comes_along(void **state) {
        read_all(RANDOM, RANDOM, 2);
        read_all(FLOATS, FLOATS, 2);
}

/* Halves that shrink differently: the first one is smaller or larger than an equal share. */
static void test_unequal_halves(void **state) {
        read_all(ZERO, RANDOM, 2);
        read_all(RANDOM, ZERO, 3);
        read_all(FLOATS, RANDOM, 2);
        read_all(RANDOM, FLOATS, 3);
        read_all(ZERO, ZERO, 1);
}

/* Nothing but what is wanted reaches its place. */
static void some(enum kind first, enum kind second) {
        struct spill_load *l = NULL;
        struct world w;

        put(&w, first, second);
        assert_int_equal(spill_load_new(&l, w.t.s, w.items, N, NULL), 0);
        assert_int_equal(store_read(l, 0, 1, NULL), 0);
        expect_halves(&w, true, false);
        assert_int_equal(store_read(l, 1, 1, NULL), 0);
        expect_halves(&w, true, true);
        spill_load_free(l);
        l = NULL;
        memset(back, 0x55, sizeof(back));
        assert_int_equal(spill_load_new(&l, w.t.s, w.items, N, NULL), 0);
        assert_int_equal(store_read(l, 1, 1, NULL), 0);
        expect_halves(&w, false, true);
        spill_load_free(l);
        store_remove(&w.t);
}

static void test_some_sections(void **state) {
        some(RANDOM, RANDOM);
        some(FLOATS, FLOATS);
        some(RANDOM, ZERO);
        some(ZERO, RANDOM);
}

/* Damage in the half that came along with the header, and in the other one. */
static void damage(size_t at) {
        struct world w;
        uint8_t byte;
        int fd;

        put(&w, RANDOM, RANDOM);
        fd = open(store_path(&w.t, 1), O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &byte, 1, (off_t)(w.items[2].ref.offset + at)), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)(w.items[2].ref.offset + at)), 1);
        assert_int_equal(fsync(fd), 0);
        close(fd);
        assert_int_equal(spill_read_batch(w.t.s, w.items, N, NULL), -ERR_CORRUPT);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(w.items[i].r, i == 2 ? -ERR_CORRUPT : 0);
                fill_block(&w, i);
                if (i != 2)
                        assert_memory_equal(back[i], raw, RAW);
        }
        assert_int_equal(store_stats(&w.t).n_corrupt, 1);
        store_remove(&w.t);
}

static void test_damage(void **state) {
        damage(8);
        damage(HALF / 2);
        damage(HALF + HALF / 2);
}

int main(void) {
        int n_failed = 0;
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_half_comes_along),
                cmocka_unit_test(test_unequal_halves),
                cmocka_unit_test(test_some_sections),
                cmocka_unit_test(test_damage),
        };

        for (way = CACHED; way <= THROUGH; way++)
                n_failed += cmocka_run_group_tests(tests, NULL, NULL);
        return n_failed;
}
