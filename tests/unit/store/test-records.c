/* SPDX-License-Identifier: MIT */
#include "store-fixture.h"

static void expect_links(struct fixture *f, uint64_t id, const uint64_t *ids, size_t n) {
        struct store_gone links = {};

        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        assert_int_equal(links.n, n);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(links.records[i].id, ids[i]);
                if (i)
                        assert_true(links.records[i].index >= links.records[i - 1].index);
        }
        store_gone_deinit(&links);
}

static void expect_records(struct fixture *f, size_t n) {
        struct store_gone all = {};

        assert_int_equal(store_records(f->s, &all, &f->e), 0);
        assert_int_equal(all.n, n);
        store_gone_deinit(&all);
}

/* No record without a link, no link without a record. */
static void expect_sound(struct fixture *f) {
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM record WHERE id NOT IN "
                                          "(SELECT record FROM link)"),
                0);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM link WHERE record NOT IN "
                                          "(SELECT id FROM record) OR conversation NOT IN "
                                          "(SELECT id FROM conversation)"),
                0);
}

static void test_link_round_trips(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");
        struct fingerprint model = {UINT64_MAX, 1};
        struct store_record links[] = {{.file_key = UINT64_MAX,
                                               .offset = INT64_MAX,
                                               .stored_size = 1,
                                               .raw_size = 2,
                                               .block_class = STORE_CLASS_STATE,
                                               .index = UINT32_MAX - 1,
                                               .n_tokens = 1,
                                               .token_hash = UINT64_MAX - 5},
                {.index = 4, .n_tokens = 2},
                {.index = 4, .n_tokens = 1, .block_class = STORE_CLASS_WINDOW},
                {.index = 5, .n_tokens = 32}};
        const struct store_shape shape = {.block_tokens = 32, .classes = 7, .chunk = 64};
        struct store_gone gone = {}, got = {};
        struct store_conv c;

        assert_int_equal(store_link(f->s, id, &model, &shape, links, 4, NULL, 0, &gone, &f->e), 0);
        fixture_reopen(f);
        assert_int_equal(store_links(f->s, id, &got, &f->e), 0);
        assert_int_equal(got.n, 4);
        assert_int_equal(got.records[0].id, links[1].id);
        assert_int_equal(got.records[1].id, links[3].id);
        assert_int_equal(got.records[2].id, links[2].id);
        assert_true(got.records[3].file_key == UINT64_MAX && got.records[3].offset == INT64_MAX);
        assert_true(got.records[3].stored_size == 1 && got.records[3].raw_size == 2);
        assert_true(got.records[3].block_class == STORE_CLASS_STATE);
        assert_true(got.records[3].index == UINT32_MAX - 1 && got.records[3].n_tokens == 1);
        assert_true(got.records[3].token_hash == UINT64_MAX - 5);
        store_gone_deinit(&got);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_true(fingerprint_equal(&c.model, &model));
        assert_memory_equal(&c.shape, &shape, sizeof(shape));
        assert_int_equal(c.revision, 1); /* memory is not content */
}

static void test_link_checks(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), ids[1];
        struct fingerprint model = {1, 1};
        struct store_record rec = {.offset = UINT64_MAX, .n_tokens = 1};
        struct store_record two[2] = {{.n_tokens = 1}, {.id = 42}};
        struct store_gone gone = {};

        assert_int_equal(
                store_link(f->s, id, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e),
                -ERR_INVALID);
        rec = (struct store_record){.id = 42};
        assert_int_equal(
                store_link(f->s, id, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e),
                -ERR_NOT_FOUND);
        fixture_link(f, id, 1, 0, 1, ids, 0);
        rec = (struct store_record){.id = ids[0], .index = 1};
        assert_int_equal(
                store_link(f->s, id, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e),
                -ERR_INVALID);
        rec = (struct store_record){};
        assert_int_equal(
                store_link(f->s, 99, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e),
                -ERR_NOT_FOUND);
        assert_int_equal(rec.id, 0);
        expect_records(f, 1);
        /* What the call had done before it failed is gone at once. */
        assert_int_equal(
                store_link(f->s, id, &model, &fixture_shape, two, 2, NULL, 0, &gone, &f->e),
                -ERR_NOT_FOUND);
        expect_records(f, 1);
}

static void expect_refused(
        struct fixture *f, uint64_t id, const struct store_shape *shape, struct store_record rec) {
        struct fingerprint model = {11, 12};
        struct store_gone gone = {};

        assert_int_equal(
                store_link(f->s, id, &model, shape, &rec, 1, NULL, 0, &gone, &f->e), -ERR_INVALID);
}

/* Cells are told apart by their class, and have at most the tokens of their class. */
static void test_cells_of_classes(void **state) {
        static const struct store_shape shape = {.block_tokens = 32, .classes = 5};
        static const struct store_cell cells[] = {{0, 0}, {0, 1}, {2, 39}, {2, 40}, {2, 99}};
        struct fixture *f = *state;
        struct store_gone links = {};
        int32_t a[100];
        uint64_t id;

        fixture_tokens(a, 100, 1);
        id = fixture_history(f, 1, "a", a, 100, 0, false);
        fixture_link_cells(f, id, &shape, a, 100, cells, 5);
        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        expect_refused(f, id, &shape,
                (struct store_record){
                        .id = links.records[1].id, .index = 1, .block_class = STORE_CLASS_STATE});
        expect_refused(
                f, id, &shape, (struct store_record){.id = links.records[2].id, .index = 39});
        store_gone_deinit(&links);
        expect_refused(f, id, &shape,
                (struct store_record){
                        .index = 50, .n_tokens = 2, .block_class = STORE_CLASS_STATE});
        expect_refused(f, id, &shape, (struct store_record){.index = 2, .n_tokens = 33});
        expect_refused(f, id, &shape,
                (struct store_record){
                        .index = 2, .n_tokens = 32, .block_class = STORE_CLASS_WINDOW});

        /* The state after token 40 goes with this token, the one after token 39 stays. */
        assert_int_equal(store_unlink_from(f->s, id, 40, &links, &f->e), 0);
        assert_int_equal(links.n, 3);
        store_gone_deinit(&links);
        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        assert_int_equal(links.n, 2);
        assert_int_equal(links.records[0].block_class, STORE_CLASS_ALL);
        assert_int_equal(links.records[0].index, 0);
        assert_int_equal(links.records[1].block_class, STORE_CLASS_STATE);
        assert_int_equal(links.records[1].index, 39);
        store_gone_deinit(&links);
        expect_sound(f);
}

static void test_replacing_gives_back(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), ids[8];
        struct fingerprint model = {1, 1};
        struct store_record same = {};
        struct store_gone gone = {};

        fixture_link(f, a, 1, 0, 4, ids, 0);
        expect_links(f, a, ids, 4);
        /* The partial tail is written again. */
        fixture_link(f, a, 1, 3, 5, ids, 1);
        expect_links(f, a, ids, 5);
        expect_records(f, 5);
        /* Linking what is linked already changes nothing. */
        same.id = ids[0];
        assert_int_equal(
                store_link(f->s, a, &model, &fixture_shape, &same, 1, NULL, 0, &gone, &f->e), 0);
        assert_int_equal(gone.n, 0);
        expect_links(f, a, ids, 5);
        expect_sound(f);
}

static void test_replaced_twice_in_one_call(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), ids[1];
        struct fingerprint model = {1, 1};
        struct store_record twice[2] = {{.n_tokens = 1}, {.n_tokens = 1}};
        struct store_gone gone = {};

        fixture_link(f, a, 1, 0, 1, ids, 0);
        assert_int_equal(
                store_link(f->s, a, &model, &fixture_shape, twice, 2, NULL, 0, &gone, &f->e), 0);
        assert_int_equal(gone.n, 2);
        assert_int_equal(gone.records[0].id, ids[0]);
        assert_int_equal(gone.records[1].id, twice[0].id);
        expect_links(f, a, &twice[1].id, 1);
        store_gone_deinit(&gone);
        expect_sound(f);
}

static void test_forks_share(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), ids[8];
        struct store_conv child = {.name = "b"};
        struct store_gone gone = {};

        fixture_say(f, a, 70, "x");
        fixture_say(f, a, 70, "y");
        fixture_link(f, a, 1, 0, 5, ids, 0);
        assert_int_equal(store_conv_fork(f->s, a, 1, NULL, NULL, &child, &f->e), 0);
        expect_links(f, child.id, ids, 3); /* blocks that begin before token 70 */
        expect_records(f, 5);
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), 0);
        assert_int_equal(gone.n, 2);
        assert_int_equal(gone.records[0].id, ids[3]);
        assert_int_equal(gone.records[1].id, ids[4]);
        assert_int_equal(gone.records[1].offset, 4 * 4096);
        store_gone_deinit(&gone);
        expect_links(f, child.id, ids, 3);
        expect_sound(f);
        assert_int_equal(store_conv_delete(f->s, child.id, &gone, &f->e), 0);
        assert_int_equal(gone.n, 3);
        store_gone_deinit(&gone);
        expect_records(f, 0);
        expect_sound(f);
}

static void test_shared_across_conversations(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), b = fixture_conv(f, 1, "b"), ids[2];
        struct fingerprint model = {1, 1};
        struct store_record shared[2] = {{.index = 0}, {.index = 1}};
        struct store_gone gone = {};

        fixture_link(f, a, 1, 0, 2, ids, 0);
        shared[0].id = ids[0];
        shared[1].id = ids[1];
        assert_int_equal(
                store_link(f->s, b, &model, &fixture_shape, shared, 2, NULL, 0, &gone, &f->e), 0);
        assert_int_equal(store_unlink_from(f->s, a, 32, &gone, &f->e), 0);
        assert_int_equal(gone.n, 0);
        expect_links(f, a, ids, 1);
        expect_links(f, b, ids, 2);
        assert_int_equal(store_unlink_from(f->s, b, 0, &gone, &f->e), 0);
        assert_int_equal(gone.n, 1);
        assert_int_equal(gone.records[0].id, ids[1]);
        store_gone_deinit(&gone);
        expect_sound(f);
}

static void test_rewind_gives_back(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), ids[8], revision;
        struct store_gone gone = {};

        fixture_say(f, a, 64, "x");
        fixture_say(f, a, 1, "y");
        fixture_say(f, a, 70, "z");
        fixture_link(f, a, 1, 0, 5, ids, 0);
        /* 65 tokens are kept: block 2 begins before the end and stays. */
        assert_int_equal(store_rewind(f->s, a, 2, NULL, NULL, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, 2);
        store_gone_deinit(&gone);
        expect_links(f, a, ids, 3);
        /* 64 tokens: block 2 begins at the end and goes. */
        assert_int_equal(store_rewind(f->s, a, 1, NULL, NULL, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, 1);
        store_gone_deinit(&gone);
        expect_links(f, a, ids, 2);
        expect_sound(f);
}

static void test_record_ids_are_not_used_again(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), first[1], second[1];
        struct store_gone gone = {};

        fixture_link(f, a, 1, 0, 1, first, 0);
        assert_int_equal(store_unlink_from(f->s, a, 0, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        fixture_reopen(f);
        fixture_link(f, a, 1, 0, 1, second, 0);
        assert_true(second[0] > first[0]);
}

static void test_unknown_conversation(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};

        assert_int_equal(store_links(f->s, 5, &gone, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(store_unlink_from(f->s, 5, 0, &gone, &f->e), -ERR_NOT_FOUND);
        store_gone_deinit(NULL);
}

static void test_damaged_records(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_gone got = {};
        static const char *const damage[] = {"start = -1", "stored_size = -5", "raw_size = -1",
                "class = -1", "block = 4294967296", "n_tokens = -1"};

        fixture_of_file(f);
        fixture_link(f, a, 1, 0, 2, NULL, 0);
        for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
                char sql[96];

                fixture_sql(f, "CREATE TABLE saved AS SELECT * FROM record");
                snprintf(sql, sizeof(sql), "UPDATE record SET %s", damage[i]);
                fixture_sql(f, sql);
                assert_int_equal(store_links(f->s, a, &got, &f->e), -ERR_CORRUPT);
                assert_int_equal(store_records(f->s, &got, &f->e), -ERR_CORRUPT);
                assert_int_equal(store_unlink_from(f->s, a, 0, &got, &f->e), -ERR_CORRUPT);
                assert_null(got.records);
                fixture_sql(f, "PRAGMA foreign_keys = OFF; DELETE FROM record; "
                               "INSERT INTO record SELECT * FROM saved; DROP TABLE saved");
        }
        assert_int_equal(store_links(f->s, a, &got, &f->e), 0);
        store_gone_deinit(&got);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_link_round_trips),
                store_test(test_link_checks),
                store_test(test_cells_of_classes),
                store_test(test_replacing_gives_back),
                store_test(test_replaced_twice_in_one_call),
                store_test(test_forks_share),
                store_test(test_shared_across_conversations),
                store_test(test_rewind_gives_back),
                store_test(test_record_ids_are_not_used_again),
                store_test(test_unknown_conversation),
                store_test(test_damaged_records),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
