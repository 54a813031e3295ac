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
static void reclaim(struct fixture *f, uint64_t owner, uint64_t pages, uint64_t keep,
        size_t want_pages, size_t want_cuts) {
        struct store_reclaimed got = {};
        int64_t before = fixture_count(f, "SELECT count(*) FROM record");

        assert_int_equal(store_reclaim(f->s, owner, pages * PAGE, keep, &got, &f->e), 0);
        assert_int_equal(got.bytes, want_pages * PAGE);
        assert_int_equal(got.n_cuts, want_cuts);
        assert_int_equal(
                fixture_count(f, "SELECT count(*) FROM record"), before - (int64_t)got.gone.n);
        for (size_t i = 0; i < got.n_cuts; i++) {
                expect_links(f, got.cuts[i].conv, got.cuts[i].from);
                assert_int_equal(got.cuts[i].to, UINT32_MAX);
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

static uint64_t make(struct fixture *f, uint64_t owner, uint32_t stream, uint32_t n, int when) {
        int32_t tokens[640];
        uint64_t id;

        fixture_tokens(tokens, 32 * n, stream);
        id = fixture_history(f, owner, "", tokens, 32 * n, n, false);
        set_used(f, id, when);
        return id;
}

static uint64_t fork_of(struct fixture *f, uint64_t id, uint32_t n_turns, int when) {
        struct store_conv child = {};

        assert_int_equal(store_conv_fork(f->s, id, n_turns, NULL, NULL, &child, &f->e), 0);
        set_used(f, child.id, when);
        return child.id;
}

static void test_oldest_first_from_the_tail(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, 1, 1, 10, 30), b = make(f, 1, 2, 10, 10), c = make(f, 1, 3, 10, 20);

        reclaim(f, OWNER_ANY, 0, 0, 0, 0);
        reclaim(f, OWNER_ANY, 3, 0, 3, 1);
        expect_links(f, b, 7);
        reclaim(f, OWNER_ANY, 10, 0, 10, 2);
        expect_links(f, b, 0);
        expect_links(f, c, 7);
        expect_links(f, a, 10);
        reclaim(f, OWNER_ANY, 1, c, 1, 1);
        expect_links(f, a, 9);
        reclaim(f, OWNER_ANY, 1000, c, 9, 1);
        reclaim(f, OWNER_ANY, 1000, 0, 7, 1);
        reclaim(f, OWNER_ANY, 1000, 0, 0, 0);
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
        reclaim(f, OWNER_ANY, 7, 0, 7, 2);
        expect_links(f, a, 5);
        expect_links(f, b, 5);
        expect_links(f, d, 2);
        /* Then from all three at once, from the tail. */
        reclaim(f, OWNER_ANY, 4, 0, 4, 4);
        expect_links(f, a, 3);
        expect_links(f, b, 3);
        expect_links(f, c, 3);
        expect_links(f, d, 0);
        /* Not what the one to be kept has. */
        reclaim(f, OWNER_ANY, 100, b, 0, 0);
        reclaim(f, OWNER_ANY, 100, 0, 3, 3);
}

static void test_fewest_users_first(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, 1, 1, 10, 1), b, id = 0;

        for (int i = 0; i < 20; i++)
                id = fork_of(f, a, 1, 2 + i);
        b = make(f, 1, 2, 4, 50);
        fork_of(f, b, 2, 51); /* all 4 blocks */
        /* 8 of a's own, then the four that two share, then those of 21. */
        reclaim(f, OWNER_ANY, 12, 0, 12, 3);
        expect_links(f, a, 2);
        expect_links(f, id, 2);
        expect_links(f, b, 0);
        reclaim(f, OWNER_ANY, 1, 0, 1, 21);
        expect_links(f, id, 1);
}

static void test_published_after_shared(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, 1, 1, 10, 1), b = make(f, 1, 2, 6, 2), c, d;

        c = fork_of(f, b, 2, 3);
        d = fork_of(f, a, 2, 4); /* of blocks that a publishes: 4, of which the last in part */
        assert_int_equal(store_conv_publish(f->s, a, 64, &f->e), 0);
        set_used(f, a, 1);
        reclaim(f, OWNER_ANY, 6 + 2 + 4 + 2, 0, 6 + 2 + 4 + 2, 4);
        expect_links(f, a, 2);
        expect_links(f, d, 2);
        expect_links(f, c, 0);
        reclaim(f, OWNER_ANY, 1, 0, 1, 2);
        expect_links(f, a, 1);
}

static void test_per_owner(void **state) {
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

/* Another owner goes on from a published prefix whose publisher then closes his conversation. */
static void test_paid_for_but_not_used(void **state) {
        struct fixture *f = *state;
        struct fingerprint model = {11, 12};
        uint64_t a = make(f, 1, 1, 5, 9), b;
        struct store_gone links = {}, gone = {};
        int32_t tokens[160];

        fixture_tokens(tokens, 160, 1);
        b = fixture_history(f, 2, "b", tokens, 160, 0, false);
        assert_int_equal(store_links(f->s, a, &links, &f->e), 0);
        assert_int_equal(store_link(f->s, b, &model, &fixture_shape, links.records, 4, NULL, 0,
                                 &gone, &f->e),
                0);
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

/* The cells of @id are just these, by class and index. */
static void expect_cells(struct fixture *f, uint64_t id, const struct store_cell *cells, size_t n) {
        struct store_gone links = {};

        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        assert_int_equal(links.n, n);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(links.records[i].block_class, cells[i].block_class);
                assert_int_equal(links.records[i].index, cells[i].index);
        }
        store_gone_deinit(&links);
}

/* Reclaim @pages; the conversation then has just the cells after that. */
static void reclaim_to(struct fixture *f, uint64_t pages, uint64_t want_pages, uint64_t id,
        const struct store_cell *cells, size_t n) {
        struct store_reclaimed got = {};

        assert_int_equal(store_reclaim(f->s, OWNER_ANY, pages * PAGE, 0, &got, &f->e), 0);
        assert_int_equal(got.bytes, want_pages * PAGE);
        store_reclaimed_deinit(&got);
        expect_cells(f, id, cells, n);
        fixture_expect_sound(f);
}

/* What only earlier positions need goes before what the end needs, the earliest first. With the last
 * state all goes, or all behind a checkpoint, if there is one. */
static void test_checkpoints_go_first(void **state) {
        static const struct store_shape shape = {.block_tokens = 32, .classes = 5};
        static const struct store_cell cells[] = {
                {0, 0}, {0, 1}, {0, 2}, {0, 3}, {2, 31}, {2, 69}, {2, 99}};
        static const struct store_cell without_first[] = {
                {0, 0}, {0, 1}, {0, 2}, {0, 3}, {2, 69}, {2, 99}};
        static const struct store_cell at_end[] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {2, 99}};
        struct fixture *f = *state;
        int32_t a[100];
        uint64_t id;

        fixture_tokens(a, 100, 1);
        id = fixture_history(f, 1, "a", a, 100, 0, false);
        fixture_link_cells(f, id, &shape, a, 100, cells, 7);
        reclaim_to(f, 1, 1, id, without_first, 6);
        reclaim_to(f, 1, 1, id, at_end, 5);
        reclaim_to(f, 1, 5, id, NULL, 0);
        /* A damaged end leaves the checkpoint, and what is behind it to be used again. */
        fixture_link_cells(f, id, &shape, a, 100, cells, 7);
        {
                struct store_reclaimed got = {};
                struct store_gone links = {};

                assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
                assert_int_equal(store_forget_record(f->s, links.records[6].id, &got, &f->e), 0);
                assert_int_equal(got.gone.n, 1);
                assert_int_equal(got.n_cuts, 1);
                assert_int_equal(got.cuts[0].block_class, STORE_CLASS_STATE);
                assert_int_equal(got.cuts[0].from, 99);
                assert_int_equal(got.cuts[0].to, 100);
                store_reclaimed_deinit(&got);
                expect_cells(f, id, cells, 6);
                /* Of attention over everything, all behind it. */
                assert_int_equal(store_forget_record(f->s, links.records[2].id, &got, &f->e), 0);
                assert_int_equal(got.gone.n, 3);
                assert_int_equal(got.n_cuts, 2);
                assert_int_equal(got.cuts[1].from, 64);
                store_reclaimed_deinit(&got);
                store_gone_deinit(&links);
        }
        reclaim_to(f, 1, 1, id, (struct store_cell[]){{0, 0}, {2, 31}}, 2);
}

/* Of windows a checkpoint needs several cells, and goes with the first of them. */
static void test_window_checkpoints(void **state) {
        static const struct store_shape shape = {.block_tokens = 32, .classes = 3, .window = 40};
        static const struct store_cell cells[] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5},
                {0, 6}, {0, 7}, {1, 0}, {1, 1}, {1, 2}, {1, 6}, {1, 7}};
        static const struct store_cell end[] = {
                {0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {0, 7}, {1, 6}, {1, 7}};
        struct fixture *f = *state;
        int32_t a[256];
        uint64_t id;

        fixture_tokens(a, 256, 1);
        id = fixture_history(f, 1, "a", a, 256, 0, false);
        fixture_link_cells(f, id, &shape, a, 256, cells, 13);
        /* The first cell is needed by the first 72 tokens only, the next ones stay of use. */
        reclaim_to(f, 1, 1, id,
                (struct store_cell[]){{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6},
                        {0, 7}, {1, 1}, {1, 2}, {1, 6}, {1, 7}},
                12);
        reclaim_to(f, 1, 2, id, end, 10);
        /* The last positions go, until no position has what it sees. */
        reclaim_to(f, 2, 10, id, NULL, 0);
        /* What is behind the last place of use goes first. */
        fixture_link_cells(f, id, &shape, a, 256, cells, 11);
        reclaim_to(f, 5, 5, id,
                (struct store_cell[]){{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}, 6);
        /* Once the beginning is gone, nothing is left that a shorter end could see. */
        reclaim_to(f, 2, 6, id, NULL, 0);
}

/* Link the records that @from has for these states to @id as well. */
static void share_states(
        struct fixture *f, uint64_t from, uint64_t id, const uint32_t *index, size_t n) {
        static const struct store_shape shape = {.block_tokens = 32, .classes = 4};
        struct store_gone links = {}, gone = {};
        struct fingerprint model = {11, 12};

        assert_int_equal(store_links(f->s, from, &links, &f->e), 0);
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < links.n; k++)
                        if (links.records[k].index == index[i])
                                assert_int_equal(
                                        store_link(f->s, id, &model, &shape, &links.records[k], 1,
                                                NULL, 0, &gone, &f->e),
                                        0);
        store_gone_deinit(&gone);
        store_gone_deinit(&links);
}

/* What two conversations share with the one that is kept stands not in the way of what they share with each
 * other. */
static void test_kept_cells_are_passed_over(void **state) {
        static const struct store_shape shape = {.block_tokens = 32, .classes = 4};
        static const struct store_cell of_a[] = {{2, 10}, {2, 20}, {2, 30}},
                                       of_b[] = {{2, 11}, {2, 31}};
        struct fixture *f = *state;
        struct store_reclaimed got = {};
        int32_t tokens[100];
        uint64_t a, b, kept;

        fixture_tokens(tokens, 100, 1);
        a = fixture_history(f, 1, "a", tokens, 100, 0, false);
        b = fixture_history(f, 1, "b", tokens, 100, 0, false);
        kept = fixture_history(f, 1, "kept", tokens, 100, 0, false);
        fixture_link_cells(f, a, &shape, tokens, 100, of_a, 3);
        fixture_link_cells(f, b, &shape, tokens, 100, of_b, 2);
        share_states(f, a, b, (uint32_t[]){20}, 1);
        share_states(f, a, kept, (uint32_t[]){10, 30}, 2);
        share_states(f, b, kept, (uint32_t[]){11, 31}, 2);
        assert_int_equal(store_reclaim(f->s, OWNER_ANY, 2 * PAGE, kept, &got, &f->e), 0);
        assert_int_equal(got.bytes, PAGE);
        assert_int_equal(got.n_cuts, 2);
        assert_int_equal(got.cuts[0].from, 20);
        store_reclaimed_deinit(&got);
        expect_cells(f, a, (struct store_cell[]){{2, 10}, {2, 30}}, 2);
        expect_cells(f, b, of_b, 2);
        fixture_expect_sound(f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_oldest_first_from_the_tail),
                store_test(test_a_byte_is_a_page),
                store_test(test_shared_roots_last),
                store_test(test_fewest_users_first),
                store_test(test_published_after_shared),
                store_test(test_per_owner),
                store_test(test_paid_for_but_not_used),
                store_test(test_checkpoints_go_first),
                store_test(test_window_checkpoints),
                store_test(test_kept_cells_are_passed_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
