/* SPDX-License-Identifier: MIT */
#include "store-fixture.h"

#define PAGE 4096 /* what every record here takes */

static void expect_links(struct fixture *f, uint64_t id, size_t n) {
        struct store_gone links = {};

        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        assert_int_equal(links.n, n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(links.records[i].index, i);
        store_gone_deinit(&links);
}

/* Reclaim, and check what came back against the register. */
static void reclaim(struct fixture *f, uint32_t uid, uint64_t pages, uint64_t keep,
        size_t want_pages, size_t want_cuts) {
        struct store_reclaimed got = {};
        int64_t before = fixture_count(f, "SELECT count(*) FROM record");

        assert_int_equal(store_reclaim(f->s, uid, pages * PAGE, keep, &got, &f->e), 0);
        assert_int_equal(got.bytes, want_pages * PAGE);
        assert_int_equal(got.n_cuts, want_cuts);
        assert_int_equal(
                fixture_count(f, "SELECT count(*) FROM record"), before - (int64_t)got.gone.n);
        for (size_t i = 0; i < got.n_cuts; i++) {
                expect_links(f, got.cuts[i].conv, got.cuts[i].from_index);
                assert_true(got.cuts[i].conv != keep);
                assert_true(i == 0 || got.cuts[i].conv > got.cuts[i - 1].conv);
        }
        store_reclaimed_deinit(&got);
        fixture_expect_sound(f);
}

static void set_used(struct fixture *f, uint64_t id, int when) {
        char sql[96];

        snprintf(sql, sizeof(sql), "UPDATE conversation SET updated_usec = %d WHERE id = %d", when,
                (int)id);
        fixture_sql(f, sql);
}

static uint64_t make(struct fixture *f, uint32_t uid, uint32_t stream, uint32_t n, int when) {
        int32_t tokens[640];
        uint64_t id;

        fixture_tokens(tokens, 32 * n, stream);
        id = fixture_history(f, uid, "", tokens, 32 * n, n, false);
        set_used(f, id, when);
        return id;
}

static uint64_t fork_of(struct fixture *f, uint64_t id, uint32_t n_turns, int when) {
        struct store_conv child = {};

        assert_int_equal(store_conv_fork(f->s, id, n_turns, NULL, 32, NULL, &child, &f->e), 0);
        set_used(f, child.id, when);
        return child.id;
}

static void test_oldest_first_from_the_tail(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, 1, 1, 10, 30), b = make(f, 1, 2, 10, 10), c = make(f, 1, 3, 10, 20);

        reclaim(f, STORE_UID_ANY, 0, 0, 0, 0);
        reclaim(f, STORE_UID_ANY, 3, 0, 3, 1);
        expect_links(f, b, 7);
        reclaim(f, STORE_UID_ANY, 10, 0, 10, 2);
        expect_links(f, b, 0);
        expect_links(f, c, 7);
        expect_links(f, a, 10);
        reclaim(f, STORE_UID_ANY, 1, c, 1, 1);
        expect_links(f, a, 9);
        reclaim(f, STORE_UID_ANY, 1000, c, 9, 1);
        reclaim(f, STORE_UID_ANY, 1000, 0, 7, 1);
        reclaim(f, STORE_UID_ANY, 1000, 0, 0, 0);
}

static void test_a_byte_is_a_page(void **state) {
        struct fixture *f = *state;
        struct store_reclaimed got = {};

        make(f, 1, 1, 4, 1);
        assert_int_equal(store_reclaim(f->s, 1, 1, 0, &got, &f->e), 0);
        assert_int_equal(got.bytes, PAGE);
        assert_int_equal(got.gone.records[0].index, 3);
        store_reclaimed_deinit(&got);
        store_reclaimed_deinit(NULL);
}

static void test_shared_roots_last(void **state) {
        struct fixture *f = *state;
        /* 10 blocks, 320 tokens in turns of 50; forks share 5 blocks (of which the last in part).
         */
        uint64_t a = make(f, 1, 1, 10, 1), b = fork_of(f, a, 3, 2), c = fork_of(f, a, 3, 3);
        uint64_t d = make(f, 1, 2, 4, 9);

        /* Its own tail, then the most recent one's, before what is shared. */
        reclaim(f, STORE_UID_ANY, 7, 0, 7, 2);
        expect_links(f, a, 5);
        expect_links(f, b, 5);
        expect_links(f, d, 2);
        /* Then from all three at once, from the tail. */
        reclaim(f, STORE_UID_ANY, 4, 0, 4, 4);
        expect_links(f, a, 3);
        expect_links(f, b, 3);
        expect_links(f, c, 3);
        expect_links(f, d, 0);
        /* Not what the one to be kept has. */
        reclaim(f, STORE_UID_ANY, 100, b, 0, 0);
        reclaim(f, STORE_UID_ANY, 100, 0, 3, 3);
}

static void test_fewest_users_first(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, 1, 1, 10, 1), b, id = 0;

        for (int i = 0; i < 20; i++)
                id = fork_of(f, a, 1, 2 + i);
        b = make(f, 1, 2, 4, 50);
        fork_of(f, b, 2, 51); /* all 4 blocks */
        /* 8 of a's own, then the four that two share, then those of 21. */
        reclaim(f, STORE_UID_ANY, 12, 0, 12, 3);
        expect_links(f, a, 2);
        expect_links(f, id, 2);
        expect_links(f, b, 0);
        reclaim(f, STORE_UID_ANY, 1, 0, 1, 21);
        expect_links(f, id, 1);
}

static void test_published_after_shared(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, 1, 1, 10, 1), b = make(f, 1, 2, 6, 2), c, d;

        c = fork_of(f, b, 2, 3);
        d = fork_of(f, a, 2, 4); /* of blocks that a publishes: 4, of which the last in part */
        assert_int_equal(store_conv_publish(f->s, a, 64, &f->e), 0);
        set_used(f, a, 1);
        reclaim(f, STORE_UID_ANY, 6 + 2 + 4 + 2, 0, 6 + 2 + 4 + 2, 4);
        expect_links(f, a, 2);
        expect_links(f, d, 2);
        expect_links(f, c, 0);
        reclaim(f, STORE_UID_ANY, 1, 0, 1, 2);
        expect_links(f, a, 1);
}

static void test_per_uid(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, 1, 1, 5, 9), b = make(f, 2, 2, 5, 1);

        reclaim(f, 1, 2, 0, 2, 1);
        expect_links(f, a, 3);
        expect_links(f, b, 5);
        reclaim(f, 1, 100, a, 0, 0);
        reclaim(f, 1, 100, 0, 3, 1);
        reclaim(f, 3, 100, 0, 0, 0);
        expect_links(f, b, 5);
}

/* Another uid goes on from a published prefix whose publisher then closes his conversation. */
static void test_paid_for_but_not_used(void **state) {
        struct fixture *f = *state;
        struct fingerprint model = {11, 12};
        uint64_t a = make(f, 1, 1, 5, 9), b;
        struct store_gone links = {}, gone = {};
        int32_t tokens[160];

        fixture_tokens(tokens, 160, 1);
        b = fixture_history(f, 2, "b", tokens, 160, 0, false);
        assert_int_equal(store_links(f->s, a, &links, &f->e), 0);
        assert_int_equal(store_link(f->s, b, &model, links.records, 4, NULL, 0, &gone, &f->e), 0);
        store_gone_deinit(&links);
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), 0);
        assert_int_equal(gone.n, 1);
        store_gone_deinit(&gone);
        /* It is not 2's to give, nor does 2 gain from it. */
        expect_links(f, b, 4);
        reclaim(f, 1, 1, b, 0, 0);
        reclaim(f, 1, 1, 0, 1, 1);
        expect_links(f, b, 3);
        reclaim(f, 1, 100, 0, 3, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_oldest_first_from_the_tail),
                store_test(test_a_byte_is_a_page),
                store_test(test_shared_roots_last),
                store_test(test_fewest_users_first),
                store_test(test_published_after_shared),
                store_test(test_per_uid),
                store_test(test_paid_for_but_not_used),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
