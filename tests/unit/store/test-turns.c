/* SPDX-License-Identifier: MIT */
#include "store-fixture.h"

static void test_append_and_read(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), revision = 0;
        static const char odd[] = "a\0b", bad[] = "\xff\xfe";
        struct store_turn turns[] = {
                {.role = 1, .start = 0, .end = 2, .text = "hi", .text_size = 2, .created_usec = 77},
                {.role = 2, .start = 2, .end = 2, .finish = 5},
                {.role = 3, .start = 2, .end = 3, .text = odd, .text_size = 3},
                {.role = 0, .start = 3, .end = 4, .text = bad, .text_size = 2},
        };
        int32_t tokens[] = {0, -1, INT32_MAX, INT32_MIN}, back[4];
        struct store_turns ts = {};

        assert_int_equal(store_append(f->s, id, turns, 4, tokens, 4, &revision, &f->e), 0);
        assert_int_equal(revision, 2);
        assert_int_equal(store_tokens(f->s, id, back, 4, &f->e), 0);
        assert_memory_equal(back, tokens, sizeof(tokens));
        assert_int_equal(store_turns(f->s, id, true, &ts, &f->e), 0);
        assert_int_equal(ts.n, 4);
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(ts.turns[i].role, turns[i].role);
                assert_int_equal(ts.turns[i].start, turns[i].start);
                assert_int_equal(ts.turns[i].end, turns[i].end);
                assert_int_equal(ts.turns[i].finish, turns[i].finish);
                assert_int_equal(ts.turns[i].text_size, turns[i].text_size);
                if (turns[i].text_size)
                        assert_memory_equal(ts.turns[i].text, turns[i].text, turns[i].text_size);
        }
        assert_int_equal(ts.turns[0].created_usec, 77);
        assert_true(ts.turns[1].created_usec > 77);
        store_turns_deinit(&ts);
        assert_int_equal(store_turns(f->s, id, false, &ts, &f->e), 0);
        assert_int_equal(ts.turns[0].text_size, 0);
        assert_int_equal(ts.turns[3].end, 4);
        store_turns_deinit(&ts);
        /* What the shell can show is TEXT, the rest is BLOB. */
        assert_int_equal(
                fixture_count(f, "SELECT count(*) FROM turn WHERE typeof(text) = 'text'"), 2);
}

static void test_append_checks(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), revision = 99;
        struct store_turn t = {.role = 1, .start = 1, .end = 2};
        struct store_turn two[] = {
                {.role = 1, .start = 0, .end = 1}, {.role = 1, .start = 2, .end = 3}};
        int32_t tokens[] = {1, 2, 3};

        assert_int_equal(store_append(f->s, id, &t, 1, tokens, 1, &revision, &f->e), -ERR_INVALID);
        assert_int_equal(store_append(f->s, id, two, 2, tokens, 3, &revision, &f->e), -ERR_INVALID);
        t = (struct store_turn){.role = 1, .start = 0, .end = 2};
        assert_int_equal(store_append(f->s, id, &t, 1, tokens, 1, &revision, &f->e), -ERR_INVALID);
        assert_int_equal(
                store_append(f->s, id, NULL, 0, tokens, 1, &revision, &f->e), -ERR_INVALID);
        t.role = 4;
        assert_int_equal(store_append(f->s, id, &t, 1, tokens, 2, &revision, &f->e), -ERR_INVALID);
        t.role = 1;
        t.finish = 6;
        assert_int_equal(store_append(f->s, id, &t, 1, tokens, 2, &revision, &f->e), -ERR_INVALID);
        t.finish = 0;
        assert_int_equal(store_append(f->s, 7, &t, 1, tokens, 2, &revision, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(revision, 99);
        fixture_verify(f->s, id, 0, 0);
}

static void test_rewind(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), revision = 0;
        struct store_gone gone = {};
        struct store_conv c;

        fixture_say(f, id, 10, "one");
        fixture_say(f, id, 20, "two");
        fixture_say(f, id, 30, "three");
        assert_int_equal(store_rewind(f->s, id, 4, 32, &revision, &gone, &f->e), -ERR_INVALID);
        assert_int_equal(store_rewind(f->s, id, 2, 0, &revision, &gone, &f->e), -ERR_INVALID);
        assert_int_equal(store_rewind(f->s, id, 2, 32, &revision, &gone, &f->e), 0);
        assert_int_equal(revision, 5);
        fixture_verify(f->s, id, 2, 30);
        fixture_say(f, id, 7, "other");
        fixture_verify(f->s, id, 3, 37);
        assert_int_equal(store_rewind(f->s, id, 0, 32, &revision, &gone, &f->e), 0);
        fixture_verify(f->s, id, 0, 0);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.revision, revision);
        fixture_say(f, id, 3, "anew");
        fixture_reopen(f);
        fixture_verify(f->s, id, 1, 3);
}

static void test_tokens_want_the_whole(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");
        int32_t out[4] = {9, 9, 9, 9};

        fixture_say(f, id, 3, "x");
        assert_int_equal(store_tokens(f->s, id, out, 2, &f->e), -ERR_INVALID);
        assert_int_equal(store_tokens(f->s, id, out, 4, &f->e), -ERR_INVALID);
        assert_int_equal(store_tokens(f->s, 99, out, 4, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(out[0], 9);
}

static void expect_corrupt(struct fixture *f, uint64_t id, bool tokens, const char *sql) {
        struct store_turns ts = {};
        int32_t out[30];

        fixture_sql(f, "CREATE TABLE saved AS SELECT * FROM turn");
        fixture_sql(f, sql);
        if (tokens)
                assert_int_equal(store_tokens(f->s, id, out, 30, &f->e), -ERR_CORRUPT);
        else
                assert_int_equal(store_turns(f->s, id, true, &ts, &f->e), -ERR_CORRUPT);
        assert_null(ts.turns);
        fixture_sql(f, "DELETE FROM turn; INSERT INTO turn SELECT * FROM saved; DROP TABLE saved");
        fixture_verify(f->s, id, 2, 30);
}

static void test_damaged_turns(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");

        fixture_say(f, id, 10, "one");
        fixture_say(f, id, 20, "two");
        for (int tokens = 0; tokens < 2; tokens++) {
                expect_corrupt(f, id, tokens, "DELETE FROM turn WHERE n = 0");
                expect_corrupt(f, id, tokens, "DELETE FROM turn WHERE n = 1");
                expect_corrupt(f, id, tokens, "UPDATE turn SET n = 7 WHERE n = 1");
                expect_corrupt(f, id, tokens, "UPDATE turn SET first = 9 WHERE n = 1");
                expect_corrupt(f, id, tokens, "UPDATE turn SET past = 4000000000 WHERE n = 1");
                expect_corrupt(f, id, tokens, "UPDATE turn SET past = 3 WHERE n = 1");
                expect_corrupt(f, id, tokens, "UPDATE turn SET past = -1 WHERE n = 0");
        }
        expect_corrupt(f, id, true, "UPDATE turn SET tokens = zeroblob(100000) WHERE n = 1");
        expect_corrupt(f, id, true, "UPDATE turn SET tokens = x'' WHERE n = 0");
        expect_corrupt(
                f, id, false, "PRAGMA ignore_check_constraints = ON; UPDATE turn SET role = 'x'");
        expect_corrupt(
                f, id, false, "PRAGMA ignore_check_constraints = ON; UPDATE turn SET finish = 'x'");
        expect_corrupt(
                f, id, false, "PRAGMA ignore_check_constraints = ON; UPDATE turn SET text = 5");
}

static void test_large_turn(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");

        fixture_say(f, id, 200000, "much");
        fixture_reopen(f);
        fixture_verify(f->s, id, 1, 200000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_append_and_read),
                store_test(test_append_checks),
                store_test(test_rewind),
                store_test(test_tokens_want_the_whole),
                store_test(test_damaged_turns),
                store_test(test_large_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
