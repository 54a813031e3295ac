/* SPDX-License-Identifier: MIT */
/* What each limit refuses, and that a refusal leaves files and accounts as they were. */
#include <unistd.h>

#include "unit/spill/store.h"

enum { SIZE = 40960 }; /* of a block on disk, at most */

static uint8_t raw[BLOCK], back[BLOCK];
static uint64_t now_usec;

static uint64_t fake_clock(void) {
        return now_usec;
}

static int setup(void **state) {
        struct store *t = malloc(sizeof(*t));

        assert_non_null(t);
        store_make(t);
        now_usec = (uint64_t)86400 * 1000000 * 20000 + 5;
        t->options.realtime_usec = fake_clock;
        *state = t;
        return 0;
}

static int teardown(void **state) {
        store_remove(*state);
        free(*state);
        return 0;
}

static struct spill_ref last;

/* Write a block that gains nothing. The reason of a refusal, or NOT. */
static enum spill_refusal put_kind(struct store *t, uint64_t key, uint32_t owner, enum kind kind) {
        struct spill_block b = {
                .file_key = key, .owner = owner, .meta = meta_of(1), .raw = raw, .raw_size = BLOCK};
        struct spill_stats before = store_stats(t), after;
        enum spill_refusal why = SPILL_N_REFUSALS;
        struct err e;
        int r;

        fill(raw, BLOCK, kind, 1);
        r = spill_write(t->s, &b, &last, &why, &e);
        after = store_stats(t);
        assert_int_equal(r, why == SPILL_REFUSED_NOT ? 0 : -ERR_LIMIT);
        if (r == 0) {
                assert_int_equal(last.owner, owner);
                assert_int_equal(after.disk_size, before.disk_size + last.stored_size);
                assert_int_equal(after.n_refused, before.n_refused);
                return why;
        }
        assert_int_equal(after.disk_size, before.disk_size);
        assert_int_equal(after.n_files, before.n_files);
        assert_int_equal(after.n_owners, before.n_owners);
        assert_int_equal(after.n_refused, before.n_refused + 1);
        assert_int_equal(after.n_refused_by[why], before.n_refused_by[why] + 1);
        assert_int_equal(after.written_today, before.written_today);
        return why;
}

static enum spill_refusal put(struct store *t, uint64_t key, uint32_t owner) {
        return put_kind(t, key, owner, RANDOM);
}

static void test_total(void **state) {
        struct store *t = *state;
        struct spill_ref a;

        t->options.max_disk_size = 3 * SIZE;
        store_start(t);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_NOT);
        a = last;
        assert_int_equal(put(t, 2, 2), SPILL_REFUSED_NOT);
        assert_int_equal(put(t, 3, 3), SPILL_REFUSED_NOT);
        assert_int_equal(put(t, 4, 4), SPILL_REFUSED_TOTAL);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_TOTAL);
        assert_int_equal(store_stats(t).n_owners, 3);
        assert_int_equal(spill_release(t->s, &a, NULL), 0);
        assert_int_equal(put(t, 4, 4), SPILL_REFUSED_NOT);
        /* By its largest size, known before it is encoded. */
        assert_int_equal(spill_release(t->s, &last, NULL), 0);
        assert_int_equal(put_kind(t, 4, 4, ZERO), SPILL_REFUSED_NOT);
        assert_int_equal(last.stored_size, 4096);
        assert_int_equal(put_kind(t, 4, 4, ZERO), SPILL_REFUSED_TOTAL);
}

static void test_owner(void **state) {
        struct store *t = *state;
        struct spill_block b = {
                .file_key = 1, .owner = 8, .meta = meta_of(1), .raw = raw, .raw_size = BLOCK};
        struct spill_ref a, c;
        enum spill_refusal why;
        struct err e;

        t->options.max_disk_size_per_owner = 2 * SIZE;
        t->options.max_disk_size = 4 * SIZE;
        store_start(t);
        assert_int_equal(spill_owner_size(t->s, 7), 0);
        assert_int_equal(put(t, 1, 7), SPILL_REFUSED_NOT);
        a = last;
        assert_int_equal(put(t, 2, 7), SPILL_REFUSED_NOT);
        assert_int_equal(spill_owner_size(t->s, 7), 2 * SIZE);
        assert_int_equal(put(t, 3, 7), SPILL_REFUSED_OWNER);
        assert_int_equal(put(t, 4, 8), SPILL_REFUSED_NOT);
        c = last;
        assert_int_equal(put(t, 4, 8), SPILL_REFUSED_NOT);
        /* The owner's before the total: making room elsewhere would not help. */
        assert_int_equal(put(t, 4, 8), SPILL_REFUSED_OWNER);
        assert_int_equal(put(t, 5, 9), SPILL_REFUSED_TOTAL);
        assert_int_equal(spill_release(t->s, &a, NULL), 0);
        assert_int_equal(spill_owner_size(t->s, 7), SIZE);
        assert_int_equal(spill_owner_size(t->s, 8), 2 * SIZE);
        assert_int_equal(put(t, 6, 7), SPILL_REFUSED_NOT);
        /* A file has one owner. */
        b.file_key = 6;
        why = SPILL_N_REFUSALS;
        assert_int_equal(spill_write(t->s, &b, &last, &why, &e), -ERR_INVALID);
        assert_int_equal(why, SPILL_REFUSED_NOT);
        assert_non_null(strstr(e.msg, "belongs to user 7"));
        /* All that remains after a restart is charged again. */
        a = last;
        t->s = spill_free(t->s);
        store_open(t);
        assert_int_equal(spill_adopt(t->s, &a, NULL), 0);
        assert_int_equal(spill_adopt(t->s, &c, NULL), 0);
        assert_int_equal(spill_owner_size(t->s, 7), SIZE);
        assert_int_equal(spill_owner_size(t->s, 8), SIZE);
        c.offset += SIZE;
        c.owner = 7;
        assert_int_equal(spill_adopt(t->s, &c, &e), -ERR_CORRUPT);
        assert_non_null(strstr(e.msg, "belongs to user"));
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
        assert_int_equal(spill_release(t->s, &a, NULL), 0);
        assert_int_equal(spill_owner_size(t->s, 7), 0);
        assert_int_equal(store_stats(t).n_owners, 1);
}

static void test_floor(void **state) {
        struct store *t = *state;

        t->options.min_free_size = (uint64_t)1 << 60;
        store_start(t);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_FLOOR);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_FLOOR);
        assert_int_equal(store_stats(t).n_refused_by[SPILL_REFUSED_FLOOR], 2);
}

static void test_day(void **state) {
        struct store *t = *state;
        struct spill_stats st;
        struct spill_ref a;

        t->options.max_written_per_day = 3 * SIZE;
        t->options.day = 20000;
        t->options.written_today = SIZE;
        store_start(t);
        st = store_stats(t);
        assert_int_equal(st.day, 20000);
        assert_int_equal(st.written_today, SIZE);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_NOT);
        a = last;
        assert_int_equal(put(t, 2, 2), SPILL_REFUSED_NOT);
        assert_int_equal(put(t, 3, 3), SPILL_REFUSED_DAY);
        /* What was written is not unwritten by a release. */
        assert_int_equal(spill_release(t->s, &a, NULL), 0);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_DAY);
        assert_int_equal(store_stats(t).written_today, 3 * SIZE);
        now_usec += (uint64_t)86400 * 1000000 - 10;
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_DAY);
        now_usec += 5; /* the next day's first microsecond */
        st = store_stats(t);
        assert_int_equal(st.day, 20001);
        assert_int_equal(st.written_today, 0);
        assert_int_equal(put_kind(t, 1, 1, ZERO), SPILL_REFUSED_NOT);
        assert_int_equal(store_stats(t).written_today, 4096);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_NOT);
        /* 2 * SIZE - 4096 are left, and a block may take SIZE. */
        assert_int_equal(put_kind(t, 1, 1, ZERO), SPILL_REFUSED_NOT);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_NOT);
        assert_int_equal(put_kind(t, 1, 1, ZERO), SPILL_REFUSED_DAY);
        /* The clock is set back: another day all the same. */
        now_usec -= (uint64_t)86400 * 1000000 * 3000;
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_NOT);
        assert_int_equal(store_stats(t).day, 17001);
}

/* What the register remembers is of another day: it does not count. */
static void test_day_of_long_ago(void **state) {
        struct store *t = *state;

        t->options.max_written_per_day = SIZE;
        t->options.day = 19990;
        t->options.written_today = UINT64_MAX;
        store_start(t);
        assert_int_equal(store_stats(t).written_today, 0);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_NOT);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_DAY);
        t->s = spill_free(t->s);
        /* Of today, and more than is allowed by now. */
        t->options.day = 20000;
        store_start(t);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_DAY);
}

/* Limits that were lowered under what is there: nothing goes, and nothing comes. */
static void test_lowered(void **state) {
        struct store *t = *state;
        struct spill_ref ref[3];
        struct spill_meta m = meta_of(1);

        store_start(t);
        for (uint32_t i = 0; i < 3; i++) {
                assert_int_equal(put(t, 1, 1), SPILL_REFUSED_NOT);
                ref[i] = last;
        }
        t->s = spill_free(t->s);
        t->options.max_disk_size = 2 * SIZE;
        t->options.max_disk_size_per_owner = SIZE;
        store_open(t);
        for (uint32_t i = 0; i < 3; i++)
                assert_int_equal(spill_adopt(t->s, &ref[i], NULL), 0);
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_OWNER);
        assert_int_equal(put(t, 2, 2), SPILL_REFUSED_TOTAL);
        fill(raw, BLOCK, RANDOM, 1);
        assert_int_equal(spill_read(t->s, &ref[2], &m, back, BLOCK, NULL), 0);
        assert_memory_equal(raw, back, BLOCK);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(spill_release(t->s, &ref[i], NULL), 0);
        assert_int_equal(put(t, 2, 2), SPILL_REFUSED_NOT);
        assert_int_equal(put(t, 1, 1), SPILL_REFUSED_OWNER);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                T(test_total),
                T(test_owner),
                T(test_floor),
                T(test_day),
                T(test_day_of_long_ago),
                T(test_lowered),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
