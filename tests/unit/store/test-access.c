/* SPDX-License-Identifier: MIT */
/* Access to memory: records' owners, publication, private memory; imports; meters. */
#include "store-fixture.h"

static const struct fingerprint model = {11, 12};

static void test_records_belong_to_who_wrote_them(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "a"), b = fixture_conv(f, 8, "b");
        struct store_record rec = {.owner = 99, .n_tokens = 32}, again;
        struct store_gone gone = {}, all = {};

        assert_int_equal(
                store_link(f->s, a, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e), 0);
        assert_int_equal(rec.owner, 7);
        assert_int_equal(rec.n_valid, 32);
        /* Another owner's conversation that refers to it does not pay. */
        again = (struct store_record){.id = rec.id};
        assert_int_equal(
                store_link(f->s, b, &model, &fixture_shape, &again, 1, NULL, 0, &gone, &f->e), 0);
        assert_int_equal(again.owner, 7);
        assert_int_equal(again.n_tokens, 32);
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), 0);
        assert_int_equal(gone.n, 0);
        assert_int_equal(store_records(f->s, &all, &f->e), 0);
        assert_int_equal(all.n, 1);
        assert_int_equal(all.records[0].owner, 7);
        store_gone_deinit(&all);
}

static void test_private_records(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 1, .name = "in", .private_memory = true}, got;
        struct store_record rec = {.n_tokens = 1}, open = {.n_tokens = 1, .is_private = true};
        uint64_t other = fixture_conv(f, 1, "other");
        struct store_gone gone = {};

        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        assert_int_equal(
                store_link(f->s, c.id, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e), 0);
        assert_true(rec.is_private);
        assert_int_equal(store_conv_get(f->s, 1, c.id, NULL, &got, &f->e), 0);
        assert_true(got.private_memory);
        /* It goes to no conversation that may share its memory. */
        assert_int_equal(
                store_link(f->s, other, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e),
                -ERR_INVALID);
        assert_int_equal(
                store_link(f->s, other, &model, &fixture_shape, &open, 1, NULL, 0, &gone, &f->e),
                -ERR_INVALID);
        assert_int_equal(store_conv_publish(f->s, c.id, 0, &f->e), 0);
        assert_int_equal(store_conv_set_private(f->s, c.id, false, &f->e), -ERR_STATE);
        assert_int_equal(store_unlink_from(f->s, c.id, 0, &gone, &f->e), 0);
        assert_int_equal(gone.n, 1);
        assert_true(gone.records[0].is_private);
        store_gone_deinit(&gone);
        assert_int_equal(store_conv_set_private(f->s, c.id, false, &f->e), 0);
        fixture_expect_sound(f);
}

static void test_publish(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_conv c, child = {.name = "b"};

        fixture_say(f, a, 40, "x");
        assert_int_equal(store_conv_publish(f->s, a, 41, &f->e), -ERR_INVALID);
        assert_int_equal(store_conv_publish(f->s, 9, 1, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(store_conv_publish(f->s, a, 40, &f->e), 0);
        assert_int_equal(store_conv_set_private(f->s, a, true, &f->e), -ERR_STATE);
        assert_int_equal(store_conv_set_private(f->s, 9, true, &f->e), -ERR_NOT_FOUND);
        fixture_reopen(f);
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), 0);
        assert_int_equal(c.n_published, 40);
        assert_int_equal(c.revision, 2);
        /* A fork is its own. */
        assert_int_equal(store_conv_fork(f->s, a, 1, NULL, NULL, &child, &f->e), 0);
        assert_int_equal(child.n_published, 0);
        assert_int_equal(store_conv_publish(f->s, a, 0, &f->e), 0);
        assert_int_equal(store_conv_set_private(f->s, a, true, &f->e), 0);
        assert_int_equal(store_conv_publish(f->s, a, 1, &f->e), -ERR_STATE);
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), 0);
        assert_int_equal(c.n_published, 0);
}

/* A whole transcript from elsewhere comes in as it is. */
static void test_import(void **state) {
        struct fixture *f = *state;
        static const char odd[] = "a\0b";
        struct store_turn turns[] = {
                {.role = 0, .end = 3, .text = "Be brief", .text_size = 8, .created_usec = 5},
                {.role = 1, .start = 3, .end = 90, .text = odd, .text_size = 3, .created_usec = 6},
                {.role = 2, .start = 90, .end = 100, .finish = 3, .created_usec = 7},
        };
        struct store_conv c = {.owner = 1,
                                  .name = "in",
                                  .created_usec = 4,
                                  .updated_usec = 4,
                                  .revision = 77,
                                  .n_tokens = 12345,
                                  .n_published = 9,
                                  .vocab = 3,
                                  .sampling = {.has = SAMPLING_TOP_K, .top_k = 4}},
                          got;
        struct store_turns ts = {};
        int32_t tokens[100], back[100];

        fixture_tokens(tokens, 100, 1);
        assert_int_equal(store_conv_create(f->s, &c, turns, 3, tokens, 100, &f->e), 0);
        assert_int_equal(c.created_usec, 4);
        assert_true(c.updated_usec > 4);
        assert_int_equal(store_conv_get(f->s, 1, c.id, NULL, &got, &f->e), 0);
        assert_int_equal(got.created_usec, 4);
        assert_int_equal(got.revision, 1);
        assert_int_equal(got.n_tokens, 100);
        assert_int_equal(got.n_turns, 3);
        assert_int_equal(got.n_published, 0);
        assert_int_equal(got.vocab, 3);
        assert_int_equal(got.sampling.top_k, 4);
        assert_int_equal(store_tokens(f->s, c.id, back, 100, &f->e), 0);
        assert_memory_equal(back, tokens, sizeof(tokens));
        assert_int_equal(store_turns(f->s, c.id, true, &ts, &f->e), 0);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(ts.turns[i].created_usec, 5 + i);
                assert_int_equal(ts.turns[i].text_size, turns[i].text_size);
        }
        assert_memory_equal(ts.turns[1].text, odd, 3);
        store_turns_deinit(&ts);
        strcpy(c.name, "later");
        c.created_usec = UINT64_MAX;
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_INVALID);
        fixture_expect_sound(f);
}

static void test_meters(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_record rec = {.n_tokens = 1}, bad = {.id = 99};
        struct store_meter m[] = {{"written", INT64_MAX}, {"day", -3}}, empty = {"", 1};
        struct store_gone gone = {};
        char name[80];
        int64_t v = 5;

        assert_int_equal(store_meter_get(f->s, "written", &v, &f->e), 0);
        assert_int_equal(v, 0);
        assert_int_equal(store_meter_set(f->s, m, 2, &f->e), 0);
        fixture_reopen(f);
        assert_int_equal(store_meter_get(f->s, "written", &v, &f->e), 0);
        assert_true(v == INT64_MAX);
        assert_int_equal(store_meter_get(f->s, "day", &v, &f->e), 0);
        assert_int_equal(v, -3);
        /* With the links that it counts, or not at all. */
        m[0].value = 10;
        assert_int_equal(store_link(f->s, a, &model, &fixture_shape, &bad, 1, m, 1, &gone, &f->e),
                -ERR_NOT_FOUND);
        assert_int_equal(store_meter_get(f->s, "written", &v, &f->e), 0);
        assert_true(v == INT64_MAX);
        assert_int_equal(
                store_link(f->s, a, &model, &fixture_shape, &rec, 1, m, 1, &gone, &f->e), 0);
        assert_int_equal(store_meter_get(f->s, "written", &v, &f->e), 0);
        assert_int_equal(v, 10);
        rec = (struct store_record){.index = 1};
        assert_int_equal(
                store_link(f->s, a, &model, &fixture_shape, &rec, 1, &empty, 1, &gone, &f->e),
                -ERR_INVALID);
        assert_int_equal(rec.id, 0);
        memset(name, 'x', sizeof(name));
        name[65] = 0;
        assert_int_equal(store_meter_get(f->s, name, &v, &f->e), -ERR_INVALID);
        assert_int_equal(store_meter_get(f->s, NULL, &v, &f->e), -ERR_INVALID);
        name[64] = 0;
        assert_int_equal(store_meter_get(f->s, name, &v, &f->e), 0);
        assert_int_equal(v, 0);
}

static void test_damaged_marks(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_conv c;
        static const char *const damage[] = {"n_published = 1", "n_published = -1",
                "n_published = 4294967296", "n_tokens = 9, n_published = 1, private_memory = 1"};
        char sql[128];
        int64_t v = 3;

        fixture_of_file(f);
        for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
                snprintf(sql, sizeof(sql), "UPDATE conversation SET %s", damage[i]);
                fixture_sql(f, sql);
                assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), -ERR_CORRUPT);
                fixture_sql(f, "UPDATE conversation SET n_published = 0, n_tokens = 0, "
                               "private_memory = 0");
        }
        fixture_sql(f, "PRAGMA ignore_check_constraints = ON; "
                       "UPDATE conversation SET private_memory = 2");
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), -ERR_CORRUPT);
        fixture_sql(f, "PRAGMA ignore_check_constraints = ON; "
                       "UPDATE conversation SET private_memory = 0, pinned = 2");
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), -ERR_CORRUPT);
        assert_int_equal(store_meter_get(f->s, "none", &v, &f->e), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_records_belong_to_who_wrote_them),
                store_test(test_private_records),
                store_test(test_publish),
                store_test(test_import),
                store_test(test_meters),
                store_test(test_damaged_marks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
