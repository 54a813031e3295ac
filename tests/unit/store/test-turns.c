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
        if (!fixture_is_server(f)) /* which has bytes */
                assert_int_equal(
                        fixture_count(f, "SELECT count(*) FROM turn WHERE typeof(text) = 'text'"),
                        2);
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
        t.role = STORE_N_ROLES;
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
        assert_int_equal(
                store_rewind(f->s, id, 4, NULL, NULL, &revision, &gone, &f->e), -ERR_INVALID);
        assert_int_equal(store_rewind(f->s, id, 2, NULL, NULL, &revision, &gone, &f->e), 0);
        assert_int_equal(revision, 5);
        fixture_verify(f->s, id, 2, 30);
        fixture_say(f, id, 7, "other");
        fixture_verify(f->s, id, 3, 37);
        assert_int_equal(store_rewind(f->s, id, 0, NULL, NULL, &revision, &gone, &f->e), 0);
        fixture_verify(f->s, id, 0, 0);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.revision, revision);
        fixture_say(f, id, 3, "anew");
        fixture_reopen(f);
        fixture_verify(f->s, id, 1, 3);
}

static void expect_turn(struct fixture *f, uint64_t id, uint32_t n, const struct store_turn *want) {
        struct store_turns ts = {};

        assert_int_equal(store_turns(f->s, id, true, &ts, &f->e), 0);
        assert_true(n < ts.n);
        assert_int_equal(ts.turns[n].role, want->role);
        assert_int_equal(ts.turns[n].start, want->start);
        assert_int_equal(ts.turns[n].end, want->end);
        assert_int_equal(ts.turns[n].finish, want->finish);
        assert_int_equal(ts.turns[n].created_usec, want->created_usec);
        assert_int_equal(ts.turns[n].text_size, want->text_size);
        assert_memory_equal(ts.turns[n].text, want->text, want->text_size);
        store_turns_deinit(&ts);
}

/* A rewind, or a fork, to a position inside a turn. */
static void test_shortened_turn(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), revision = 0, ids[4] = {};
        struct store_turn reply = {.role = 2,
                .start = 10,
                .end = 100,
                .finish = 1,
                .text = "a long reply",
                .text_size = 12,
                .created_usec = 55};
        struct store_turn last = {.role = 2, .start = 10, .end = 70, .text = "a", .text_size = 1};
        struct store_conv child = {.name = "b"}, c;
        struct store_gone gone = {};
        int32_t tokens[90];

        fixture_say(f, id, 10, "one");
        for (uint32_t i = 0; i < 90; i++)
                tokens[i] = fixture_token(10 + i);
        assert_int_equal(store_append(f->s, id, &reply, 1, tokens, 90, &revision, &f->e), 0);
        fixture_say(f, id, 20, "three");
        fixture_link(f, id, 1, 0, 4, ids, 0);
        /* In the copy only. */
        assert_int_equal(store_conv_fork(f->s, id, 2, &last, NULL, &child, &f->e), 0);
        assert_int_equal(child.fork_pos, 70);
        assert_int_equal(child.n_tokens, 70);
        fixture_verify(f->s, child.id, 2, 70);
        last.created_usec = 55; /* kept */
        expect_turn(f, child.id, 1, &last);
        expect_turn(f, id, 1, &reply);
        assert_int_equal(store_links(f->s, child.id, &gone, &f->e), 0);
        assert_int_equal(gone.n, 3);
        assert_int_equal(gone.records[1].n_valid, 32);
        assert_int_equal(gone.records[2].n_valid, 6);
        assert_int_equal(gone.records[2].n_tokens, 32);
        store_gone_deinit(&gone);
        /* In place. */
        last.created_usec = 77;
        last.finish = 5;
        assert_int_equal(store_rewind(f->s, id, 2, &last, NULL, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, 1); /* block 3; of block 2 six tokens are left */
        store_gone_deinit(&gone);
        fixture_verify(f->s, id, 2, 70);
        expect_turn(f, id, 1, &last);
        assert_int_equal(store_links(f->s, id, &gone, &f->e), 0);
        assert_int_equal(gone.n, 3);
        assert_int_equal(gone.records[2].n_valid, 6);
        store_gone_deinit(&gone);
        /* It never grows again by itself. */
        fixture_say(f, id, 40, "on");
        fixture_verify(f->s, id, 3, 110);
        assert_int_equal(store_links(f->s, id, &gone, &f->e), 0);
        assert_int_equal(gone.records[2].n_valid, 6);
        store_gone_deinit(&gone);
        /* To nothing, at a block's end, and the whole of it. */
        last.end = 64;
        assert_int_equal(store_rewind(f->s, id, 2, &last, NULL, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, 0); /* the child has it, too */
        last.text_size = 0;
        assert_int_equal(store_rewind(f->s, id, 2, &last, NULL, &revision, &gone, &f->e), 0);
        expect_turn(f, id, 1, &last);
        last.end = 10;
        assert_int_equal(store_rewind(f->s, id, 2, &last, NULL, &revision, &gone, &f->e), 0);
        fixture_verify(f->s, id, 2, 10);
        assert_int_equal(store_rewind(f->s, id, 2, &last, NULL, &revision, &gone, &f->e), 0);
        fixture_verify(f->s, id, 2, 10);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.revision, revision);
        fixture_reopen(f);
        fixture_verify(f->s, id, 2, 10);
}

/* A rewind and an append in one step: what comes is not what was published, and what is refused has
 * dropped nothing. */
static void test_replace(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), revision = 9, ids[5] = {}, before;
        struct store_turn last = {.role = 1, .start = 0, .end = 70, .text = "a", .text_size = 1};
        struct store_turn turns[] = {{.role = 1, .start = 70, .end = 75, .text = "b"},
                {.role = 2, .start = 75, .end = 160, .finish = 1}};
        struct store_gone gone = {};
        struct store_conv c;
        int32_t tokens[90];

        fixture_say(f, id, 100, "one");
        fixture_say(f, id, 60, "two");
        fixture_link(f, id, 1, 0, 5, ids, 0);
        assert_int_equal(store_conv_publish(f->s, id, 160, &f->e), 0);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        before = c.revision;
        for (uint32_t i = 0; i < 90; i++)
                tokens[i] = fixture_token(70 + i);
        /* The cut is right, what is to come behind it is not. */
        turns[1].end = 161;
        assert_int_equal(store_replace(f->s, id, 1, &last, NULL, turns, 2, tokens, 90, &revision,
                                 &gone, &f->e),
                -ERR_INVALID);
        turns[1].end = 160;
        assert_int_equal(store_replace(f->s, id, 1, NULL, NULL, turns, 2, tokens, 90, &revision,
                                 &gone, &f->e),
                -ERR_INVALID);
        assert_int_equal(store_replace(f->s, id, 3, NULL, NULL, turns, 2, tokens, 90, &revision,
                                 &gone, &f->e),
                -ERR_INVALID);
        assert_int_equal(revision, 9);
        assert_int_equal(gone.n, 0);
        fixture_verify(f->s, id, 2, 160);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.revision, before);
        assert_int_equal(c.n_published, 160);
        assert_int_equal(store_replace(f->s, id, 1, &last, NULL, turns, 2, tokens, 90, &revision,
                                 &gone, &f->e),
                0);
        assert_int_equal(revision, before + 1);
        assert_int_equal(gone.n, 2); /* of blocks 3 and 4 nothing is left */
        store_gone_deinit(&gone);
        fixture_verify(f->s, id, 3, 160);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.n_published, 70);
        assert_int_equal(store_links(f->s, id, &gone, &f->e), 0);
        assert_int_equal(gone.n, 3);
        assert_int_equal(gone.records[2].n_valid, 6);
        store_gone_deinit(&gone);
        fixture_reopen(f);
        fixture_verify(f->s, id, 3, 160);
}

static void test_shortened_turn_is_checked(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), revision = 9;
        struct store_conv child = {.name = "b"};
        struct store_gone gone = {};
        const struct store_turn bad[] = {
                {.role = 1, .start = 10, .end = 31},
                {.role = 1, .start = 10, .end = 9},
                {.role = 1, .start = 11, .end = 20},
                {.role = 2, .start = 10, .end = 20},
                {.role = 1, .start = 10, .end = 20, .finish = 6},
                {.role = 1, .start = 10, .end = 20, .created_usec = UINT64_MAX},
        };

        fixture_say(f, id, 10, "one");
        fixture_say(f, id, 20, "two");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(store_rewind(f->s, id, 2, &bad[i], NULL, &revision, &gone, &f->e),
                        -ERR_INVALID);
                assert_int_equal(
                        store_conv_fork(f->s, id, 2, &bad[i], NULL, &child, &f->e), -ERR_INVALID);
        }
        assert_int_equal(
                store_rewind(f->s, id, 0, &bad[0], NULL, &revision, &gone, &f->e), -ERR_INVALID);
        assert_int_equal(revision, 9);
        assert_int_equal(child.id, 0);
        fixture_verify(f->s, id, 2, 30);
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

/* What is given of a history with one bit that is not as it was written. */
static void expect_damage(struct fixture *f, const char *sql, uint32_t turn, size_t n_listed) {
        struct store_reading x = {};
        int32_t tokens[100];

        fixture_sql(f, "CREATE TABLE saved AS SELECT * FROM turn");
        fixture_sql(f, sql);
        assert_int_equal(
                store_read(f->s, 1, 0, "a", STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOKENS,
                        &x, &f->e),
                0);
        assert_true(x.damaged);
        assert_int_equal(x.damage.code, ERR_CORRUPT);
        assert_int_equal(x.n_sound_turns, turn);
        assert_int_equal(x.n_sound_tokens, 10 * turn);
        assert_int_equal(x.n_tokens, 10 * turn);
        for (uint32_t i = 0; i < x.n_tokens; i++)
                assert_int_equal(x.tokens[i], fixture_token(i));
        assert_int_equal(x.turns.n, n_listed);
        for (size_t i = 0; i < x.turns.n; i++)
                assert_int_equal(x.turns.turns[i].text_size, 3);
        assert_int_equal(store_tokens(f->s, x.conv.id, tokens, 30, &f->e), -ERR_CORRUPT);
        store_reading_deinit(&x);
        fixture_sql(f, "DELETE FROM turn; INSERT INTO turn SELECT * FROM saved; DROP TABLE saved");
        assert_int_equal(
                store_read(f->s, 1, 0, "a", STORE_READ_TURNS | STORE_READ_TOKENS, &x, &f->e), 0);
        assert_false(x.damaged);
        assert_int_equal(x.n_tokens, 30);
        store_reading_deinit(&x);
}

static void test_damaged_history(void **state) {
        struct fixture *f = *state;
        struct store_turn last = {.role = 1, .start = 10, .end = 15, .text = "t", .text_size = 1};
        struct store_conv child = {};
        struct store_gone gone = {};
        uint64_t id = fixture_conv(f, 1, "a"), revision;

        fixture_say(f, id, 10, "one");
        fixture_say(f, id, 10, "two");
        fixture_say(f, id, 10, "end");
        /* Tokens alone: all turns can still be listed. */
        expect_damage(f,
                "UPDATE turn SET tokens = CAST(substr(tokens, 1, 39) || x'7f' AS BLOB) "
                "WHERE n = 1",
                1, 3);
        expect_damage(f, "UPDATE turn SET token_hash = token_hash + 1 WHERE n = 0", 0, 3);
        expect_damage(f, "UPDATE turn SET tokens = x'00' WHERE n = 2", 2, 3);
        expect_damage(f,
                "UPDATE turn SET tokens = (SELECT tokens FROM turn WHERE n = 0), "
                "token_hash = (SELECT token_hash FROM turn WHERE n = 0) WHERE n = 1",
                1, 3);
        /* The row: the list ends. */
        expect_damage(f, "DELETE FROM turn WHERE n = 1", 1, 1);
        expect_damage(f, "DELETE FROM turn WHERE n = 2", 2, 2);
        expect_damage(f, "UPDATE turn SET past = 21 WHERE n = 1", 1, 2);
        expect_damage(f, "UPDATE turn SET first = 11 WHERE n = 1", 1, 1);

        /* What is cut inside of a turn keeps a hash, and nothing is made of damaged tokens. */
        fixture_sql(f, "UPDATE turn SET tokens = CAST(x'01' || substr(tokens, 2) AS BLOB) "
                       "WHERE n = 1");
        assert_int_equal(store_conv_fork(f->s, id, 2, &last, NULL, &child, &f->e), -ERR_CORRUPT);
        assert_int_equal(
                store_rewind(f->s, id, 2, &last, NULL, &revision, &gone, &f->e), -ERR_CORRUPT);
        assert_int_equal(store_conv_fork(f->s, id, 1, NULL, NULL, &child, &f->e), 0);
        fixture_verify(f->s, child.id, 1, 10);
        assert_int_equal(store_rewind(f->s, id, 1, NULL, NULL, &revision, &gone, &f->e), 0);
        fixture_verify(f->s, id, 1, 10);
        store_gone_deinit(&gone);
}

static void test_damaged_turns(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");

        fixture_of_file(f);
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
                store_test(test_shortened_turn),
                store_test(test_replace),
                store_test(test_shortened_turn_is_checked),
                store_test(test_tokens_want_the_whole),
                store_test(test_damaged_turns),
                store_test(test_damaged_history),
                store_test(test_large_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
