/* SPDX-License-Identifier: MIT */
#include "store-fixture.h"

#define N 320

static const struct fingerprint model = {11, 12};

/* Look for the first @n_blocks blocks of @tokens; the records' ids in *ids. */
static struct store_prefix find(
        struct fixture *f, uint64_t owner, const int32_t *tokens, size_t n_blocks) {
        struct store_prefix p = {};
        uint64_t hashes[64], prev = 0;

        for (size_t i = 0; i < n_blocks; i++)
                prev = hashes[i] = hash64_chain_tokens(tokens + 32 * i, 32, prev);
        assert_int_equal(store_prefix_find(f->s, owner, &model, 0, &fixture_shape, tokens, hashes,
                                 n_blocks, &p, &f->e),
                0);
        assert_true(p.n <= n_blocks && (p.n > 0) == (p.donor != 0) && p.n_common >= 32 * p.n);
        for (size_t i = 0; i < p.n; i++) {
                assert_int_equal(p.records[STORE_CLASS_ALL][i].index, i);
                assert_int_equal(p.records[STORE_CLASS_ALL][i].n_tokens, 32);
                assert_int_equal(p.records[STORE_CLASS_ALL][i].n_valid, 32);
                assert_true(p.records[STORE_CLASS_ALL][i].token_hash == hashes[i]);
        }
        return p;
}

static void expect(struct fixture *f, uint64_t owner, const int32_t *tokens, size_t n_blocks,
        size_t want, uint64_t donor) {
        struct store_prefix p = find(f, owner, tokens, n_blocks);

        assert_int_equal(p.n, want);
        assert_int_equal(p.donor, want ? donor : 0);
        assert_false(p.is_public);
        store_prefix_deinit(&p);
}

static void expect_public(struct fixture *f, uint64_t owner, const int32_t *tokens, size_t n_blocks,
        size_t want, uint64_t donor) {
        struct store_prefix p = find(f, owner, tokens, n_blocks);

        assert_int_equal(p.n, want);
        assert_int_equal(p.donor, donor);
        assert_true(p.is_public);
        store_prefix_deinit(&p);
}

static void test_finds_the_longest(void **state) {
        struct fixture *f = *state;
        int32_t a[N], b[N];
        uint64_t short_one, long_one;
        struct store_prefix p;

        fixture_tokens(a, N, 1);
        expect(f, 1, a, 10, 0, 0); /* an empty register */
        short_one = fixture_history(f, 1, "short", a, 100, 3, false);
        expect(f, 1, a, 10, 3, short_one);
        long_one = fixture_history(f, 1, "long", a, 200, 6, false);
        expect(f, 1, a, 10, 6, long_one);
        expect(f, 1, a, 5, 5, long_one);
        expect(f, 1, a, 1, 1, short_one);
        expect(f, 1, a, 0, 0, 0);
        /* Somebody who goes on differently has what is equal. */
        memcpy(b, a, sizeof(b));
        b[130]++;
        p = find(f, 1, b, 10);
        assert_int_equal(p.n, 4);
        assert_int_equal(p.donor, long_one);
        assert_int_equal(p.n_common, 130);
        assert_int_equal(p.donor_tokens, 200);
        store_prefix_deinit(&p);
        b[0]++;
        expect(f, 1, b, 10, 0, 0);
        fixture_expect_sound(f);
}

static void test_foreign_never(void **state) {
        struct fixture *f = *state;
        int32_t a[N];
        uint64_t own;

        fixture_tokens(a, N, 1);
        fixture_history(f, 2, "a", a, N, 10, false);
        fixture_history(f, 0, "a", a, N, 10, false);
        expect(f, 1, a, 10, 0, 0);
        own = fixture_history(f, 1, "a", a, 64, 2, false);
        expect(f, 1, a, 10, 2, own);
}

static void test_private_never(void **state) {
        struct fixture *f = *state;
        struct store_conv child = {.name = "fork"};
        int32_t a[N];
        uint64_t p;

        fixture_tokens(a, N, 1);
        p = fixture_history(f, 1, "a", a, N, 10, true);
        assert_int_equal(store_conv_fork(f->s, p, 7, NULL, NULL, &child, &f->e), 0);
        assert_true(child.private_memory);
        expect(f, 1, a, 10, 0, 0);
        /* Not even if one of the two marks is lost. */
        fixture_sql(f, "UPDATE conversation SET private_memory = 0");
        expect(f, 1, a, 10, 0, 0);
        fixture_sql(f, "UPDATE conversation SET private_memory = 1; UPDATE record SET private = 0");
        expect(f, 1, a, 10, 0, 0);
        fixture_sql(f, "UPDATE conversation SET private_memory = 0");
        expect(f, 1, a, 10, 10, p);
}

/* Everything that only has the hash. */
static void test_forced_collisions(void **state) {
        struct fixture *f = *state;
        int32_t a[N], b[N];
        uint64_t hash = 0, other;
        char sql[160];

        fixture_tokens(a, N, 1);
        fixture_tokens(b, N, 2);
        other = fixture_history(f, 1, "b", b, N, 10, false);
        for (int i = 0; i < 10; i++) {
                hash = hash64_chain_tokens(a + 32 * i, 32, hash);
                snprintf(sql, sizeof(sql), "UPDATE record SET token_hash = %lld WHERE block = %d",
                        (long long)hash, i);
                fixture_sql(f, sql);
        }
        expect(f, 1, a, 10, 0, 0);
        assert_int_equal(store_conv_publish(f->s, other, N, &f->e), 0);
        expect(f, 1, a, 10, 0, 0);
        expect(f, 2, a, 10, 0, 0);
        /* The same begin, then other tokens under the same hashes. */
        memcpy(b, a, sizeof(b));
        b[100]++;
        other = fixture_history(f, 1, "c", b, N, 10, false);
        snprintf(sql, sizeof(sql),
                "UPDATE record SET token_hash = (SELECT token_hash FROM record x WHERE x.id < "
                "record.id AND x.block = record.block) WHERE file_key = %d",
                (int)other);
        fixture_sql(f, sql);
        expect(f, 1, a, 10, 3, other);
}

/* More false donors than may be looked at: the search ends. */
static void test_many_false_donors(void **state) {
        struct fixture *f = *state;
        int32_t a[N], b[N];
        uint64_t hash;
        char sql[160];
        struct store_prefix p;

        fixture_tokens(a, N, 1);
        for (uint32_t i = 0; i < 40; i++) {
                fixture_tokens(b, N, 2 + i);
                fixture_history(f, 1, "", b, 64, 2, false);
        }
        hash = hash64_chain_tokens(a, 32, 0);
        snprintf(sql, sizeof(sql), "UPDATE record SET token_hash = %lld WHERE block = 0",
                (long long)hash);
        fixture_sql(f, sql);
        p = find(f, 1, a, 10);
        assert_int_equal(p.n, 0);
        store_prefix_deinit(&p);
}

/* However many of one's own turn out to be useless, what is published is still looked at. */
static void test_public_behind_false_donors(void **state) {
        struct fixture *f = *state;
        int32_t a[N], b[N];
        uint64_t hash, id;
        char sql[160];

        fixture_tokens(a, N, 1);
        for (uint32_t i = 0; i < 40; i++) {
                fixture_tokens(b, N, 2 + i);
                fixture_history(f, 1, "", b, 64, 2, false);
        }
        hash = hash64_chain_tokens(a, 32, 0);
        snprintf(sql, sizeof(sql), "UPDATE record SET token_hash = %lld WHERE block = 0",
                (long long)hash);
        fixture_sql(f, sql);
        id = fixture_history(f, 2, "public", a, N, 10, false);
        assert_int_equal(store_conv_publish(f->s, id, N, &f->e), 0);
        expect_public(f, 1, a, 10, 10, id);
}

/* A register made to be slow to look through: the search gives up, and other calls go on. */
static void test_work_is_bounded(void **state) {
        struct fixture *f = *state;
        struct store_conv c;
        int32_t a[N];
        uint64_t id, own;

        fixture_of_file(f);
        fixture_tokens(a, N, 1);
        id = fixture_history(f, 2, "a", a, 64, 2, false);
        fixture_sql(f,
                "PRAGMA synchronous = OFF; BEGIN;"
                "UPDATE record SET uid = 1;"
                "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n"
                " WHERE i < 400000) INSERT INTO conversation (id, uid, name, parent, fork_pos,"
                " revision, n_tokens, n_turns, created_usec, updated_usec, model_weights,"
                " model_rules, vocab, temperature, top_k, top_p, min_p, repetition_penalty,"
                " presence_penalty, frequency_penalty, penalty_last_n, seed, logit_bias,"
                " n_published, private_memory) SELECT i, uid, i, parent, fork_pos,"
                " revision, n_tokens, n_turns, created_usec, updated_usec, model_weights,"
                " model_rules, vocab, temperature, top_k, top_p, min_p, repetition_penalty,"
                " presence_penalty, frequency_penalty, penalty_last_n, seed, logit_bias,"
                " n_published, private_memory FROM n, conversation WHERE id = 1;"
                "INSERT INTO link SELECT id, 0, 0, 1, 32 FROM conversation WHERE id >= 100;"
                "COMMIT;");
        expect(f, 1, a, 10, 0, 0);
        assert_int_equal(store_conv_get(f->s, 2, id, NULL, &c, &f->e), 0);
        own = fixture_history(f, 1, "own", a, N, 10, false);
        expect(f, 1, a, 10, 10, own);
}

static void test_other_model_or_vocab(void **state) {
        struct fixture *f = *state;
        struct fingerprint other = {11, 13};
        struct store_prefix p = {};
        int32_t a[N];
        uint64_t hash, id;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        hash = hash64_chain_tokens(a, 32, 0);
        assert_int_equal(
                store_prefix_find(f->s, 1, &other, 0, &fixture_shape, a, &hash, 1, &p, &f->e), 0);
        assert_int_equal(p.n, 0);
        assert_int_equal(
                store_prefix_find(f->s, 1, &model, 7, &fixture_shape, a, &hash, 1, &p, &f->e), 0);
        assert_int_equal(p.n, 0);
        assert_int_equal(store_conv_publish(f->s, id, N, &f->e), 0);
        assert_int_equal(
                store_prefix_find(f->s, 2, &other, 0, &fixture_shape, a, &hash, 1, &p, &f->e), 0);
        assert_int_equal(p.n, 0);
        /* Blocks of another size. */
        hash = hash64_chain_tokens(a, 16, 0);
        assert_int_equal(store_prefix_find(f->s, 1, &model, 0, &(struct store_shape){16, 1, 0, 0},
                                 a, &hash, 1, &p, &f->e),
                0);
        assert_int_equal(p.n, 0);
        assert_int_equal(store_prefix_find(f->s, 1, &model, 0, &(struct store_shape){0, 1, 0, 0}, a,
                                 &hash, 1, &p, &f->e),
                -ERR_INVALID);
        assert_int_equal(store_prefix_find(f->s, 1, &model, 0, &fixture_shape, a, &hash,
                                 SIZE_MAX / 64, &p, &f->e),
                -ERR_INVALID);
}

static void test_published_bounds(void **state) {
        struct fixture *f = *state;
        int32_t a[N];
        struct store_prefix p;
        uint64_t id;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 5, "root", a, N, 10, false);
        expect(f, 1, a, 10, 0, 0);
        assert_int_equal(store_conv_publish(f->s, id, 100, &f->e), 0);
        expect_public(f, 1, a, 10, 3, id);
        p = find(f, 1, a, 10);
        assert_int_equal(p.n_common, 100); /* what is behind is nobody's business */
        assert_int_equal(p.donor_tokens, 100);
        store_prefix_deinit(&p);
        expect(f, 5, a, 10, 10, id); /* its owner has it all */
        assert_int_equal(store_conv_publish(f->s, id, 31, &f->e), 0);
        expect(f, 1, a, 10, 0, 0);
        assert_int_equal(store_conv_publish(f->s, id, N, &f->e), 0);
        expect_public(f, 1, a, 10, 10, id);
        /* An own one that is as long is preferred, a shorter one is not. */
        fixture_history(f, 1, "own", a, 96, 3, false);
        expect_public(f, 1, a, 10, 10, id);
        expect(f, 1, a, 3, 3, id + 1);
        assert_int_equal(store_conv_publish(f->s, id, 0, &f->e), 0);
        expect(f, 1, a, 10, 3, id + 1);
        expect(f, 2, a, 10, 0, 0);
        fixture_expect_sound(f);
}

/* An own conversation that begins with published records, which another owner pays for. */
static void test_continued_publication(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};
        struct store_prefix p;
        struct store_record links[10];
        int32_t a[N];
        uint64_t root, own;

        fixture_tokens(a, N, 1);
        root = fixture_history(f, 5, "root", a, 128, 4, false);
        assert_int_equal(store_conv_publish(f->s, root, 100, &f->e), 0);
        own = fixture_history(f, 1, "own", a, N, 10, false);
        p = find(f, 1, a, 10);
        assert_int_equal(p.donor, own);
        store_prefix_deinit(&p);
        p = find(f, 2, a, 10);
        assert_int_equal(p.n, 3);
        memcpy(links, p.records[STORE_CLASS_ALL], 3 * sizeof(links[0]));
        store_prefix_deinit(&p);
        assert_int_equal(
                store_link(f->s, own, &model, &fixture_shape, links, 3, NULL, 0, &gone, &f->e), 0);
        assert_int_equal(gone.n, 3); /* its own are not needed any more */
        store_gone_deinit(&gone);
        expect(f, 1, a, 10, 10, own);
        expect_public(f, 1, a, 3, 3, root);
        fixture_expect_sound(f);
}

static void test_rewound_publication(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};
        int32_t a[N];
        uint64_t id, revision;
        struct store_conv c;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 5, "root", a, N, 10, false);
        assert_int_equal(store_conv_publish(f->s, id, N, &f->e), 0);
        assert_int_equal(store_rewind(f->s, id, 2, NULL, NULL, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(store_conv_get(f->s, 5, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.n_published, 100);
        expect_public(f, 1, a, 10, 3, id);
        /* What is said afterwards is not published. */
        fixture_say(f, id, 50, "more");
        assert_int_equal(store_conv_get(f->s, 5, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.n_published, 100);
        fixture_expect_sound(f);
}

static void test_closed_donor(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};
        int32_t a[N];
        uint64_t id;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
        assert_int_equal(gone.n, 10);
        store_gone_deinit(&gone);
        expect(f, 1, a, 10, 0, 0);
}

static void test_forks_offer_their_links(void **state) {
        struct fixture *f = *state;
        struct store_conv child = {.name = "child"};
        struct store_gone gone = {};
        int32_t a[N];
        uint64_t id;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        assert_int_equal(store_conv_fork(f->s, id, 2, NULL, NULL, &child, &f->e), 0);
        assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
        assert_int_equal(gone.n, 6);
        store_gone_deinit(&gone);
        /* 100 tokens: block 3 is the child's, but not as a whole. */
        expect(f, 1, a, 10, 3, child.id);
        fixture_expect_sound(f);
}

/* A record whose conversation went back into its block and on with other tokens is another's
 * memory, even if somebody found tokens of the same hash. */
static void test_stale_link_is_no_donor(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};
        struct store_turn last = {.role = 1, .start = 0, .end = 40};
        int32_t a[N];
        uint64_t id, revision;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, 64, 2, false);
        assert_int_equal(store_rewind(f->s, id, 1, &last, NULL, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, 0);
        last = (struct store_turn){.role = 2, .start = 40, .end = 64};
        /* The very same tokens again stand for others of equal hash. */
        assert_int_equal(store_append(f->s, id, &last, 1, a + 40, 24, &revision, &f->e), 0);
        expect(f, 1, a, 10, 1, id);
        fixture_expect_sound(f);
}

static void test_hole_ends_the_run(void **state) {
        struct fixture *f = *state;
        int32_t a[N];
        uint64_t id;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        fixture_sql(f, "DELETE FROM link WHERE block = 4; DELETE FROM record WHERE block = 4");
        expect(f, 1, a, 10, 4, id);
        fixture_sql(f, "DELETE FROM link WHERE block = 0; DELETE FROM record WHERE block = 0");
        expect(f, 1, a, 10, 0, 0);
}

static void test_partial_records_are_not_offered(void **state) {
        struct fixture *f = *state;
        int32_t a[N];
        uint64_t id;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, 80, 3, false); /* block 2 has 16 tokens */
        expect(f, 1, a, 10, 2, id);
}

/* Without one of the cells that the next token sees, however little of it, a prefix is not whole. */
static void test_windows(void **state) {
        static const struct store_cell cells[] = {{0, 0}, {0, 1}, {0, 2}, {1, 2}, {1, 1}};
        struct fixture *f = *state;

        for (uint32_t window = 33; window <= 34; window++)
                for (size_t n = 4; n <= 5; n++) {
                        const struct store_shape shape = {
                                .block_tokens = 32, .classes = 3, .window = window};
                        struct store_prefix p = {};
                        struct store_gone gone = {};
                        uint64_t hashes[3], hash = 0, id;
                        int32_t a[96];

                        fixture_tokens(a, 96, 1);
                        for (int i = 0; i < 3; i++)
                                hash = hashes[i] = hash64_chain_tokens(a + 32 * i, 32, hash);
                        id = fixture_history(f, 1, "a", a, 96, 0, false);
                        fixture_link_cells(f, id, &shape, a, 96, cells, n);
                        assert_int_equal(store_prefix_find(f->s, 1, &model, 0, &shape, a, hashes, 3,
                                                 &p, &f->e),
                                0);
                        /* Token 96 sees the tokens from 64 on, or from 63 on. */
                        assert_int_equal(p.n, window == 33 || n == 5 ? 3 : 0);
                        assert_int_equal(p.n_common, 96);
                        store_prefix_deinit(&p);
                        assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
                        store_gone_deinit(&gone);
                }
}

static void test_damaged_donor(void **state) {
        struct fixture *f = *state;
        struct store_prefix p = {};
        int32_t a[N];
        uint64_t hash;

        fixture_tokens(a, N, 1);
        fixture_history(f, 1, "a", a, 64, 2, false);
        fixture_sql(f, "UPDATE turn SET tokens = x'00' WHERE n = 0");
        hash = hash64_chain_tokens(a, 32, 0);
        assert_int_equal(
                store_prefix_find(f->s, 1, &model, 0, &fixture_shape, a, &hash, 1, &p, &f->e),
                -ERR_CORRUPT);
        assert_null(p.records[STORE_CLASS_ALL]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_finds_the_longest),
                store_test(test_foreign_never),
                store_test(test_private_never),
                store_test(test_forced_collisions),
                store_test(test_many_false_donors),
                store_test(test_public_behind_false_donors),
                store_test(test_work_is_bounded),
                store_test(test_other_model_or_vocab),
                store_test(test_published_bounds),
                store_test(test_continued_publication),
                store_test(test_rewound_publication),
                store_test(test_closed_donor),
                store_test(test_forks_offer_their_links),
                store_test(test_stale_link_is_no_donor),
                store_test(test_hole_ends_the_run),
                store_test(test_partial_records_are_not_offered),
                store_test(test_windows),
                store_test(test_damaged_donor),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
