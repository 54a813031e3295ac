/* SPDX-License-Identifier: MIT */
/* How SQLite runs what is asked often: by an index, and without sorting. */
#include "store-fixture.h"
#include "store/store-private.h"

/* The steps of the plan, one line each. */
static void read_plan(struct fixture *f, enum store_stmt which, char *out, size_t size) {
        char sql[4096];
        sqlite3_stmt *st;

        out[0] = 0;
        snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s", stmt_text(which));
        assert_int_equal(sqlite3_prepare_v2(f->s->db, sql, -1, &st, NULL), SQLITE_OK);
        while (sqlite3_step(st) == SQLITE_ROW)
                snprintf(out + strlen(out), size - strlen(out), "%s\n",
                        (const char *)sqlite3_column_text(st, 3));
        sqlite3_finalize(st);
}

/* It looks for what it wants with @index (NULL: any), reads no table or index from end to end, and
 * sorts nothing. */
static void expect_plan(struct fixture *f, enum store_stmt which, const char *index) {
        char plan[4096];

        read_plan(f, which, plan, sizeof(plan));
        if ((index && !strstr(plan, index)) || strstr(plan, "SCAN") || strstr(plan, "TEMP B-TREE"))
                fail_msg("%s\n%s", stmt_text(which), plan);
}

static void test_plans(void **state) {
        struct fixture *f = *state;

        expect_plan(f, STMT_CONV_LIST, "conversation_uid ");
        expect_plan(f, STMT_CONV_LIST_ANY, "PRIMARY KEY");
        expect_plan(f, STMT_LIST_ID_TAG, "tag_id");
        expect_plan(f, STMT_LIST_UPDATED, "conversation_updated ");
        expect_plan(f, STMT_LIST_UPDATED_ANY, "conversation_updated_any ");
        expect_plan(f, STMT_LIST_UPDATED_TAG, "tag_updated");
        expect_plan(f, STMT_TURN_PAGE, "turn");
        expect_plan(f, STMT_TURN_RUN, "turn");
        expect_plan(f, STMT_CONV_COUNT, "conversation_uid ");
        expect_plan(f, STMT_OWNER_NEXT, "conversation_u");
        expect_plan(f, STMT_OWNER_CONVS, "conversation_uid ");
        expect_plan(f, STMT_RECLAIM_CONVS, "conversation_uid_on_disk");
        expect_plan(f, STMT_RECLAIM_CONVS_ANY, "conversation_on_disk");
        expect_plan(f, STMT_RECLAIM_RECORDS, "record_uid");
        expect_plan(f, STMT_LINK_USERS, "link_record");
        expect_plan(f, STMT_LINK_REFERS, "link_record");
        expect_plan(f, STMT_LINK_LIST, NULL);
        expect_plan(f, STMT_TURN_LIST, NULL);
        expect_plan(f, STMT_TURN_TOOLS, "turn_extra");
        expect_plan(f, STMT_PREFIX_HAS, "record_prefix");
        expect_plan(f, STMT_CHAIN_GET, NULL);
        expect_plan(f, STMT_CHAIN_SET, NULL);
        expect_plan(f, STMT_CHAIN_HAS, "turn_chain");
        expect_plan(f, STMT_CHAIN_CONVS, "turn_chain");
        expect_plan(f, STMT_CHAIN_OF, "turn_chain");
        expect_plan(f, STMT_CHAIN_MISSING, "turn_no_chain");
        expect_plan(f, STMT_CHAIN_SESSION, "conversation_session");
}

/* The same was said in 20000 conversations, and all of them are of one session: few are looked at. */
static void test_chains_look_at_few(void **state) {
        static const enum store_stmt statements[] = {
                STMT_CHAIN_HAS, STMT_CHAIN_CONVS, STMT_CHAIN_OF, STMT_CHAIN_SESSION};
        struct store_candidate list[16];
        struct fixture *f = *state;
        size_t n = 0, k = 0;
        const uint64_t chain = 77;

        fixture_sql(f, "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n "
                       "WHERE i < 20000) INSERT INTO conversation (id, uid, name, parent, "
                       "fork_pos, revision, n_tokens, n_turns, created_usec, updated_usec, "
                       "model_weights, model_rules, vocab, session) SELECT i, 1, i, 0, 0, 1, 0, 1, "
                       "1, i, 0, 0, 0, 's' FROM n;"
                       "INSERT INTO turn (conversation, n, role, first, past, created_usec, text, "
                       "tokens, token_hash, chain) SELECT id, 0, 'user', 0, 0, 1, 'x', x'', 0, 77 "
                       "FROM conversation");
        assert_int_equal(store_chain_longest(f->s, 0, &chain, 1, &k, &f->e), 0);
        assert_int_equal(k, 1);
        assert_int_equal(store_chain_candidates(f->s, 1, 0, "s", chain, list, 16, &n, &f->e), 0);
        assert_int_equal(n, 16);
        assert_int_equal(list[0].conv, 20000);
        for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
                sqlite3_stmt *st = f->s->reader->stmts[statements[i]];

                assert_non_null(st);
                assert_true(sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 0) < 4000);
        }
}

/* Making room does not look through conversations that have nothing on disk, however many were
 * updated before those that have. */
static void test_reclaim_looks_at_few(void **state) {
        struct fixture *f = *state;
        struct store_reclaimed got = {};
        sqlite3_stmt *st;
        uint64_t id;

        fixture_sql(f, "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n "
                       "WHERE i < 20000) INSERT INTO conversation (id, uid, name, parent, "
                       "fork_pos, revision, n_tokens, n_turns, created_usec, updated_usec, "
                       "model_weights, model_rules, vocab) SELECT i, 1, i, 0, 0, 1, 0, 0, 1, 1, 0, "
                       "0, 0 FROM n; INSERT INTO meter VALUES ('search_broken', 1)");
        id = fixture_conv(f, 1, "full");
        fixture_say(f, id, 320, "x");
        fixture_link(f, id, 7, 0, 10, NULL, 0);
        assert_int_equal(store_reclaim(f->s, OWNER_ANY, 2 * 4096, 0, &got, &f->e), 0);
        assert_int_equal(got.gone.n, 2);
        assert_int_equal(got.n_cuts, 1);
        assert_int_equal(got.cuts[0].conv, id);
        store_reclaimed_deinit(&got);
        /* Steps of SQLite's machine: a look at each would be some 100000. */
        st = f->s->stmts[STMT_RECLAIM_CONVS_ANY];
        assert_non_null(st);
        assert_true(sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 0) < 1000);
        assert_int_equal(store_reclaim(f->s, 1, 4096, 0, &got, &f->e), 0);
        assert_int_equal(got.gone.n, 1);
        store_reclaimed_deinit(&got);
        st = f->s->stmts[STMT_RECLAIM_CONVS];
        assert_true(sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 0) < 1000);
        /* All of it, and nothing is on disk any more. */
        assert_int_equal(store_reclaim(f->s, 1, UINT64_MAX, 0, &got, &f->e), 0);
        assert_int_equal(got.gone.n, 7);
        store_reclaimed_deinit(&got);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM conversation WHERE on_disk"), 0);
        fixture_expect_sound(f);
}

/* More conversations than are listed at a time; rounds come back to those that share. */
static void test_reclaim_goes_on(void **state) {
        enum { N = 150 };
        struct fixture *f = *state;
        struct store_reclaimed got = {};
        struct store_conv child;

        for (int i = 0; i < N; i++) {
                char name[16];
                uint64_t id;

                snprintf(name, sizeof(name), "c%d", i);
                id = fixture_conv(f, 1, name);
                fixture_say(f, id, 64, "x");
                fixture_link(f, id, id, 0, 2, NULL, 0);
                child = (struct store_conv){};
                if (i % 3 == 0)
                        assert_int_equal(
                                store_conv_fork(f->s, id, 1, NULL, NULL, &child, &f->e), 0);
        }
        assert_int_equal(store_reclaim(f->s, 1, UINT64_MAX, 0, &got, &f->e), 0);
        assert_int_equal(got.gone.n, 2 * N);
        assert_int_equal(got.n_cuts, N + N / 3);
        store_reclaimed_deinit(&got);
        fixture_expect_sound(f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_plans),
                store_test(test_chains_look_at_few),
                store_test(test_reclaim_looks_at_few),
                store_test(test_reclaim_goes_on),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
