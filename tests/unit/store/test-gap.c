/* SPDX-License-Identifier: MIT */
/* Memory that leaves out a stretch of the transcript: what the register keeps of it, and removes. */
#include "store-fixture.h"

enum { N = 320 };

/* Append a turn and let the memory leave out @gap from now on. */
static void replace(struct fixture *f, uint64_t id, const struct gap *gap, size_t want_gone) {
        struct store_gone gone = {};
        struct store_conv c;
        struct store_turn t;
        uint64_t revision;
        int32_t tokens[10];

        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        t = (struct store_turn){
                .role = 1, .start = c.n_tokens, .end = c.n_tokens + 10, .text = "x"};
        fixture_tokens(tokens, 10, 77);
        assert_int_equal(store_replace(f->s, id, c.n_turns, NULL, gap, &t, 1, tokens, 10, &revision,
                                 &gone, &f->e),
                0);
        assert_int_equal(revision, c.revision + 1);
        assert_int_equal(gone.n, want_gone);
        store_gone_deinit(&gone);
        fixture_expect_sound(f);
}

static void expect_gap(struct fixture *f, uint64_t id, uint32_t from, uint32_t to) {
        struct store_conv c;

        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.gap.from, from);
        assert_int_equal(c.gap.to, to);
}

static size_t n_links(struct fixture *f, uint64_t id, uint32_t *ret_valid) {
        struct store_gone links = {};
        size_t n;

        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        n = links.n;
        if (ret_valid)
                *ret_valid = n > 0 ? links.records[n - 1].n_valid : 0;
        store_gone_deinit(&links);
        return n;
}

/* A gap takes the links behind its beginning with it, and so does a wider one. */
static void test_links(void **state) {
        struct fixture *f = *state;
        struct gap gap = {100, 200};
        uint32_t n_valid = 0;
        int32_t a[N];
        uint64_t id;

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        replace(f, id, &gap, 6);
        assert_int_equal(n_links(f, id, &n_valid), 4);
        assert_int_equal(n_valid, 4); /* of block 3, tokens 96 to 100 */
        fixture_reopen(f);
        expect_gap(f, id, 100, 200);
        /* The same gap once more: nothing changes for the memory. */
        replace(f, id, &gap, 0);
        assert_int_equal(n_links(f, id, &n_valid), 4);
        /* NULL is the same gap. */
        replace(f, id, NULL, 0);
        expect_gap(f, id, 100, 200);
        gap.to = 250;
        replace(f, id, &gap, 0);
        expect_gap(f, id, 100, 250);
        assert_int_equal(fixture_count(f, "SELECT sum(n_dropped) FROM transcript"), 150);
        gap.from = 50;
        replace(f, id, &gap, 2);
        assert_int_equal(n_links(f, id, &n_valid), 2);
        assert_int_equal(n_valid, 18);
}

/* Records of the shortened memory are checked against the tokens that it is of. */
static void test_check(void **state) {
        struct fixture *f = *state;
        struct gap gap = {64, 160};
        struct fixture_findings found = {};
        struct fingerprint model = {11, 12};
        struct store_record rec = {
                .file_key = 9, .stored_size = 4096, .raw_size = 8192, .index = 2, .n_tokens = 32};
        struct store_gone gone = {};
        struct store_census census;
        uint64_t id, hash = 0;
        int32_t a[N];

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        replace(f, id, &gap, 8);
        for (int i = 0; i < 2; i++)
                hash = hash64_chain_tokens(a + 32 * i, 32, hash);
        rec.token_hash = hash64_chain_tokens(a + 160, 32, hash);
        assert_int_equal(
                store_link(f->s, id, &model, &fixture_shape, &rec, 1, NULL, 0, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        fixture_expect_sound(f);
        /* As if the gap were not there. */
        fixture_sql(f, "UPDATE conversation SET gap_first = 0, gap_past = 0");
        assert_int_equal(store_check(f->s, fixture_note, &found, &census, &f->e), 0);
        assert_int_equal(found.of[STORE_FINDING_HASH], 1);
        assert_int_equal(found.n, 1);
}

/* What is published ends before the gap, and cannot reach over it. */
static void test_published(void **state) {
        struct fixture *f = *state;
        struct gap gap = {100, 200};
        struct store_conv c;
        uint64_t id;
        int32_t a[N];

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        assert_int_equal(store_conv_publish(f->s, id, 250, &f->e), 0);
        replace(f, id, &gap, 6);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.n_published, 100);
        assert_int_equal(store_conv_publish(f->s, id, 150, &f->e), -ERR_STATE);
        assert_int_equal(store_conv_publish(f->s, id, 50, &f->e), 0);
        fixture_expect_sound(f);
}

/* Forks and rewinds: in front of the gap, inside, behind. */
static void test_cuts(void **state) {
        struct fixture *f = *state;
        struct gap gap = {100, 200}, other = {100, 150};
        struct store_conv child = {.name = "b"};
        struct store_gone gone = {};
        uint64_t id, revision;
        int32_t a[N];

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        replace(f, id, &gap, 6);
        assert_int_equal(store_conv_fork(f->s, id, 5, NULL, NULL, &child, &f->e), 0);
        expect_gap(f, child.id, 100, 200);
        assert_int_equal(n_links(f, child.id, NULL), 4);
        child = (struct store_conv){.name = "c"};
        assert_int_equal(store_conv_fork(f->s, id, 3, NULL, NULL, &child, &f->e), 0);
        expect_gap(f, child.id, 100, 150);
        child = (struct store_conv){.name = "d"};
        gap = (struct gap){0, 0};
        assert_int_equal(store_conv_fork(f->s, id, 3, NULL, &gap, &child, &f->e), 0);
        expect_gap(f, child.id, 0, 0);
        assert_int_equal(child.n_tokens, 150);
        assert_int_equal(n_links(f, child.id, NULL), 4);
        fixture_expect_sound(f);
        /* No gap can lie behind the end. */
        assert_int_equal(
                store_rewind(f->s, id, 2, NULL, &other, &revision, &gone, &f->e), -ERR_INVALID);
        assert_int_equal(store_rewind(f->s, id, 4, NULL, NULL, &revision, &gone, &f->e), 0);
        expect_gap(f, id, 100, 200);
        assert_int_equal(store_rewind(f->s, id, 1, NULL, NULL, &revision, &gone, &f->e), 0);
        expect_gap(f, id, 0, 0);
        assert_int_equal(gone.n, 0); /* the forks have them */
        fixture_expect_sound(f);
}

/* A prefix is found in the memory of a conversation that leaves something out, and only there: not
 * over the gap, where its transcript and its memory are different tokens. */
static void test_prefix(void **state) {
        struct fixture *f = *state;
        struct gap gap = {64, 160};
        struct fingerprint model = {11, 12};
        struct store_prefix found = {};
        struct store_record rec[2] = {};
        struct store_gone gone = {};
        uint64_t id, hashes[4];
        int32_t a[N], kept[128];

        fixture_tokens(a, N, 1);
        id = fixture_history(f, 1, "a", a, N, 10, false);
        replace(f, id, &gap, 8);
        memcpy(kept, a, sizeof(*a) * 64);
        memcpy(kept + 64, a + 160, sizeof(*a) * 64);
        for (uint32_t i = 0; i < 4; i++)
                hashes[i] = hash64_chain_tokens(kept + 32 * i, 32, i ? hashes[i - 1] : 0);
        for (uint32_t i = 0; i < 2; i++)
                rec[i] = (struct store_record){.file_key = 9,
                        .offset = 4096 * i,
                        .stored_size = 4096,
                        .raw_size = 8192,
                        .index = 2 + i,
                        .n_tokens = 32,
                        .token_hash = hashes[2 + i]};
        assert_int_equal(
                store_link(f->s, id, &model, &fixture_shape, rec, 2, NULL, 0, &gone, &f->e), 0);
        assert_int_equal(store_prefix_find(f->s, 1, &model, 0, &fixture_shape, kept, hashes, 4,
                                 &found, &f->e),
                0);
        assert_int_equal(found.n, 4);
        assert_int_equal(found.donor, id);
        assert_int_equal(found.donor_tokens, N + 10 - 96);
        store_prefix_deinit(&found);
        /* The transcript itself: common up to the gap. */
        for (uint32_t i = 0; i < 4; i++)
                hashes[i] = hash64_chain_tokens(a + 32 * i, 32, i ? hashes[i - 1] : 0);
        assert_int_equal(
                store_prefix_find(f->s, 1, &model, 0, &fixture_shape, a, hashes, 4, &found, &f->e),
                0);
        assert_int_equal(found.n, 2);
        assert_int_equal(found.n_common, 64);
        store_prefix_deinit(&found);
}

/* An import has its gap and its overflow from the start. */
static void test_create(void **state) {
        struct fixture *f = *state;
        struct store_turn t = {.role = 1, .end = 50, .text = "x"};
        struct store_conv c = {.owner = 1, .name = "a", .gap = {10, 60}};
        int32_t a[50];

        fixture_tokens(a, 50, 1);
        assert_int_equal(store_conv_create(f->s, &c, &t, 1, a, 50, &f->e), -ERR_INVALID);
        c.gap = (struct gap){10, 40};
        c.overflow = STORE_N_OVERFLOWS;
        assert_int_equal(store_conv_create(f->s, &c, &t, 1, a, 50, &f->e), -ERR_INVALID);
        c.overflow = STORE_OVERFLOW_SHIFT;
        assert_int_equal(store_conv_create(f->s, &c, &t, 1, a, 50, &f->e), 0);
        expect_gap(f, c.id, 10, 40);
        assert_int_equal(
                store_conv_update(f->s, c.id, NULL, NULL, STORE_N_OVERFLOWS, NULL, NULL, &f->e),
                -ERR_INVALID);
        assert_int_equal(
                fixture_count(f, "SELECT count(*) FROM conversation WHERE overflow = 'shift'"), 1);
        fixture_expect_sound(f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_links),
                store_test(test_check),
                store_test(test_published),
                store_test(test_cuts),
                store_test(test_prefix),
                store_test(test_create),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
