/* SPDX-License-Identifier: MIT */
#include "store-fixture.h"
#include <math.h>

static void test_create_fills_in(void **state) {
        struct fixture *f = *state;
        struct store_turn turns[] = {
                {.role = 0, .start = 0, .end = 2, .text = "Be brief", .text_size = 8}};
        struct store_conv c = {.owner = 1000,
                                  .name = "work",
                                  .model = {1, UINT64_MAX},
                                  .vocab = ~0ull},
                          got;
        int32_t tokens[] = {5, 6}, back[2];

        assert_int_equal(store_conv_create(f->s, &c, turns, 1, tokens, 2, &f->e), 0);
        assert_int_equal(c.id, 1);
        assert_int_equal(c.revision, 1);
        assert_int_equal(c.n_tokens, 2);
        assert_int_equal(c.n_turns, 1);
        assert_true(c.created_usec > 0 && c.updated_usec >= c.created_usec);
        assert_int_equal(store_conv_get(f->s, 1000, c.id, NULL, &got, &f->e), 0);
        assert_string_equal(got.name, "work");
        assert_true(got.vocab == ~0ull && fingerprint_equal(&got.model, &c.model));
        assert_int_equal(got.sampling.has, 0);
        assert_int_equal(got.created_usec, c.created_usec);
        assert_int_equal(got.updated_usec, c.updated_usec);
        assert_int_equal(store_tokens(f->s, c.id, back, 2, &f->e), 0);
        assert_memory_equal(back, tokens, sizeof(tokens));
}

static void test_names(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 1, .name = "a"}, before = c;

        assert_int_equal(fixture_conv(f, 1, "a"), 1);
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_EXISTS);
        assert_memory_equal(&c, &before, sizeof(c));
        /* Another owner, another case and a name like a pattern are other names. */
        fixture_conv(f, 2, "a");
        fixture_conv(f, 1, "A");
        fixture_conv(f, 1, "%");
        /* An invented name avoids those that are taken. */
        fixture_conv(f, 1, "chat-6");
        c = (struct store_conv){.owner = 1};
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        assert_int_equal(c.id, 6);
        assert_string_equal(c.name, "chat-6-2");
        c = (struct store_conv){.owner = 1};
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        assert_string_equal(c.name, "chat-7");
}

static void test_bad_names(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 1, .name = "\xff"};

        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_INVALID);
        memset(c.name, 'a', sizeof(c.name)); /* without NUL */
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_INVALID);
        c = (struct store_conv){.owner = OWNER_ANY, .name = "a"};
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_INVALID);
        c = (struct store_conv){.owner = 1};
        memset(c.name, 'a', STORE_NAME_MAX);
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        assert_int_equal(store_conv_get(f->s, 1, 0, c.name, &c, &f->e), 0);
}

static void test_get_is_by_owner(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), b = fixture_conv(f, 2, "b");
        struct store_conv c = {};

        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), 0);
        assert_int_equal(store_conv_get(f->s, 1, b, NULL, &c, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(store_conv_get(f->s, 1, 0, "b", &c, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(store_conv_get(f->s, 2, 0, "b", &c, &f->e), 0);
        assert_int_equal(c.id, b);
        assert_int_equal(store_conv_get(f->s, OWNER_ANY, b, NULL, &c, &f->e), 0);
        assert_int_equal(store_conv_get(f->s, OWNER_ANY, 0, "a", &c, &f->e), 0);
        assert_int_equal(c.id, a);
        fixture_conv(f, 3, "a");
        assert_int_equal(store_conv_get(f->s, OWNER_ANY, 0, "a", &c, &f->e), -ERR_INVALID);
        assert_int_equal(store_conv_get(f->s, 1, 99, NULL, &c, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(store_conv_get(f->s, 1, UINT64_MAX, NULL, &c, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(store_conv_get(f->s, 1, 0, NULL, &c, &f->e), -ERR_NOT_FOUND);
}

static void test_list_and_count(void **state) {
        struct fixture *f = *state;
        struct store_conv out[10];
        uint64_t count;
        size_t n;

        for (uint32_t i = 0; i < 9; i++)
                fixture_conv(f, i % 3, "");
        assert_int_equal(fixture_list(f->s, 1, 0, out, 10, &n, &f->e), 0);
        assert_int_equal(n, 3);
        assert_int_equal(out[0].id, 2);
        assert_int_equal(out[2].id, 8);
        assert_int_equal(fixture_list(f->s, 1, 2, out, 1, &n, &f->e), 0);
        assert_int_equal(n, 1);
        assert_int_equal(out[0].id, 5);
        assert_int_equal(fixture_list(f->s, OWNER_ANY, 4, out, 10, &n, &f->e), 0);
        assert_int_equal(n, 5);
        assert_int_equal(fixture_list(f->s, 1, UINT64_MAX, out, 10, &n, &f->e), 0);
        assert_int_equal(n, 0);
        assert_int_equal(fixture_list(f->s, 1, 0, out, 0, &n, &f->e), 0);
        assert_int_equal(n, 0);
        assert_int_equal(store_conv_count(f->s, 2, &count, &f->e), 0);
        assert_int_equal(count, 3);
        assert_int_equal(store_conv_count(f->s, OWNER_ANY, &count, &f->e), 0);
        assert_int_equal(count, 9);
        assert_int_equal(store_conv_count(f->s, 77, &count, &f->e), 0);
        assert_int_equal(count, 0);
}

static void check_same(const struct sampling *a, const struct sampling *b) {
        assert_int_equal(a->has, b->has);
        assert_memory_equal(&a->temperature, &b->temperature, 6 * sizeof(float));
        assert_int_equal(a->top_k, b->top_k);
        assert_int_equal(a->penalty_last_n, b->penalty_last_n);
        assert_true(a->seed == b->seed);
        assert_int_equal(a->n_biases, b->n_biases);
        assert_memory_equal(a->biases, b->biases, a->n_biases * sizeof(a->biases[0]));
}

static void test_sampling_round_trips(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 1,
                                  .name = "a",
                                  .sampling = {.has = 0x3ff,
                                          .temperature = 0.1f,
                                          .top_p = 1e-45f, /* the smallest there is */
                                          .min_p = -1.0f / 3.0f,
                                          .repetition_penalty = 3.4028235e38f,
                                          .presence_penalty = -INFINITY,
                                          .frequency_penalty = 1.0f,
                                          .top_k = UINT32_MAX,
                                          .penalty_last_n = 64,
                                          .seed = UINT64_MAX - 1,
                                          .n_biases = SAMPLING_MAX_BIASES}},
                          got;
        struct sampling half = {.has = SAMPLING_TOP_K | SAMPLING_BIASES, .top_k = 3};

        for (uint32_t i = 0; i < SAMPLING_MAX_BIASES; i++)
                c.sampling.biases[i] = (struct sampling_bias){
                        (int32_t)i * -77777, i ? (float)i / 3.0f : -INFINITY};
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        fixture_reopen(f);
        assert_int_equal(store_conv_get(f->s, 1, c.id, NULL, &got, &f->e), 0);
        check_same(&got.sampling, &c.sampling);
        assert_int_equal(
                store_conv_update(f->s, c.id, NULL, &half, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                0);
        assert_int_equal(store_conv_get(f->s, 1, c.id, NULL, &got, &f->e), 0);
        check_same(&got.sampling, &half);
}

/* The one float that SQLite changes: it keeps -0 as 0. No sampling rule tells them apart. */
static void test_negative_zero_is_zero(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");
        struct sampling in = {.has = SAMPLING_MIN_P, .min_p = -0.0f};
        struct store_conv got;

        assert_int_equal(
                store_conv_update(f->s, id, NULL, &in, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e), 0);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &got, &f->e), 0);
        assert_int_equal(got.sampling.has, SAMPLING_MIN_P);
        assert_true(got.sampling.min_p == 0.0f);
}

static void test_sampling_is_checked(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");
        struct sampling bad = {.has = SAMPLING_TEMPERATURE, .temperature = NAN};

        assert_int_equal(
                store_conv_update(f->s, id, NULL, &bad, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                -ERR_INVALID);
        bad = (struct sampling){.has = SAMPLING_BIASES, .n_biases = SAMPLING_MAX_BIASES + 1};
        assert_int_equal(
                store_conv_update(f->s, id, NULL, &bad, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                -ERR_INVALID);
        bad = (struct sampling){.has = SAMPLING_BIASES, .n_biases = 1, .biases = {{1, NAN}}};
        assert_int_equal(
                store_conv_update(f->s, id, NULL, &bad, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                -ERR_INVALID);
}

static void test_update_name(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_conv c;

        fixture_conv(f, 1, "b");
        fixture_conv(f, 2, "c");
        assert_int_equal(
                store_conv_update(f->s, a, "b", NULL, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                -ERR_EXISTS);
        assert_int_equal(
                store_conv_update(f->s, a, "", NULL, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                -ERR_INVALID);
        assert_int_equal(
                store_conv_update(f->s, a, "a", NULL, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e), 0);
        assert_int_equal(
                store_conv_update(f->s, a, "c", NULL, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e), 0);
        assert_int_equal(store_conv_get(f->s, 1, 0, "c", &c, &f->e), 0);
        assert_int_equal(c.id, a);
        assert_int_equal(c.revision, 1);
        assert_int_equal(store_conv_get(f->s, 1, 0, "a", &c, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(
                store_conv_update(f->s, 99, "z", NULL, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                -ERR_NOT_FOUND);
}

static void set_pinned(struct fixture *f, uint64_t id, bool pinned) {
        assert_int_equal(
                store_conv_update(f->s, id, NULL, NULL, STORE_OVERFLOW_KEEP, &pinned, NULL, &f->e),
                0);
}

static bool is_pinned(struct fixture *f, uint64_t id) {
        struct store_conv c;

        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        return c.pinned;
}

/* It is durable, changes no token, and stays when other things change. */
static void test_pinned(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), b = fixture_conv(f, 1, "b");
        struct store_conv c, listed[2];
        bool pinned = true;
        size_t n;

        fixture_say(f, a, 10, "one");
        assert_false(is_pinned(f, a));
        fixture_sql(f, "UPDATE conversation SET updated_usec = 5");
        set_pinned(f, a, true);
        fixture_reopen(f);
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), 0);
        assert_true(c.pinned);
        assert_int_equal(c.revision, 2);
        assert_true(c.updated_usec > 5);
        assert_false(is_pinned(f, b));
        assert_int_equal(
                store_conv_update(f->s, a, "c", NULL, STORE_OVERFLOW_SHIFT, NULL, NULL, &f->e), 0);
        fixture_say(f, a, 10, "two");
        assert_int_equal(fixture_list(f->s, 1, 0, listed, 2, &n, &f->e), 0);
        assert_int_equal(n, 2);
        assert_true(listed[0].pinned && !listed[1].pinned);
        set_pinned(f, a, true);
        assert_true(is_pinned(f, a));
        set_pinned(f, a, false);
        assert_false(is_pinned(f, a));
        /* With a name that is taken nothing changes. */
        assert_int_equal(
                store_conv_update(f->s, a, "b", NULL, STORE_OVERFLOW_KEEP, &pinned, NULL, &f->e),
                -ERR_EXISTS);
        assert_false(is_pinned(f, a));
        fixture_expect_sound(f);
}

/* What is made, forked or imported is not pinned, whatever it comes from. */
static void test_pinned_is_not_inherited(void **state) {
        struct fixture *f = *state;
        struct store_conv made = {.owner = 1, .name = "made", .pinned = true},
                          child = {.name = "child", .pinned = true};

        assert_int_equal(store_conv_create(f->s, &made, NULL, 0, NULL, 0, &f->e), 0);
        assert_false(made.pinned);
        assert_false(is_pinned(f, made.id));
        set_pinned(f, made.id, true);
        assert_int_equal(store_conv_fork(f->s, made.id, 0, NULL, NULL, &child, &f->e), 0);
        assert_false(child.pinned);
        assert_false(is_pinned(f, child.id));
        assert_true(is_pinned(f, made.id));
}

static void test_fork_copies(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_conv child = {.name = "b"}, unnamed = {};

        fixture_say(f, a, 10, "one");
        fixture_say(f, a, 20, "two");
        fixture_say(f, a, 30, "three");
        assert_int_equal(store_conv_fork(f->s, a, 2, NULL, NULL, &child, &f->e), 0);
        assert_int_equal(child.owner, 1);
        assert_int_equal(child.parent, a);
        assert_int_equal(child.fork_pos, 30);
        assert_int_equal(child.revision, 1);
        fixture_verify(f->s, child.id, 2, 30);
        fixture_verify(f->s, a, 3, 60);
        assert_int_equal(store_conv_fork(f->s, a, 0, NULL, NULL, &unnamed, &f->e), 0);
        assert_string_equal(unnamed.name, "chat-3");
        fixture_verify(f->s, unnamed.id, 0, 0);
        fixture_say(f, child.id, 5, "other");
        fixture_verify(f->s, child.id, 3, 35);
        fixture_verify(f->s, a, 3, 60);
}

/* Whether the last turn waits for a reply is told of what is made, not of what it was made from. */
static void test_unanswered(void **state) {
        struct fixture *f = *state;
        const struct store_turn question = {.role = 1, .end = 3, .text = "so?", .text_size = 3};
        struct store_conv c = {.owner = 1, .name = "a"}, part = {}, all = {}, none = {};
        const int32_t tokens[] = {7, 8, 9};

        assert_int_equal(store_conv_create(f->s, &c, &question, 1, tokens, 3, &f->e), 0);
        assert_true(c.unanswered);
        assert_int_equal(store_conv_fork(f->s, c.id, 1, NULL, NULL, &all, &f->e), 0);
        assert_true(all.unanswered);
        assert_int_equal(store_conv_fork(f->s, c.id, 0, NULL, NULL, &none, &f->e), 0);
        assert_false(none.unanswered);
        assert_int_equal(fixture_append(f->s, c.id, 2, 1, "so", &f->e), 0);
        assert_int_equal(store_conv_fork(f->s, c.id, 1, NULL, NULL, &part, &f->e), 0);
        assert_true(part.unanswered);
}

static void test_fork_refuses(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_conv child = {.name = "a"};

        assert_int_equal(store_conv_fork(f->s, a, 0, NULL, NULL, &child, &f->e), -ERR_EXISTS);
        strcpy(child.name, "b");
        assert_int_equal(store_conv_fork(f->s, a, 1, NULL, NULL, &child, &f->e), -ERR_INVALID);
        assert_int_equal(store_conv_fork(f->s, 9, 0, NULL, NULL, &child, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(child.id, 0);
}

static void test_delete(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a"), b;
        struct store_conv child = {.name = "b"}, c;
        struct store_gone gone = {};

        fixture_say(f, a, 10, "a secret sentence");
        assert_int_equal(store_conv_fork(f->s, a, 0, NULL, NULL, &child, &f->e), 0);
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), 0);
        assert_int_equal(gone.n, 0);
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &c, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM turn"), 0);
        assert_int_equal(store_conv_get(f->s, 1, child.id, NULL, &c, &f->e), 0);
        assert_int_equal(c.parent, a);
        /* Ids are not used again, not even after a restart. */
        assert_int_equal(store_conv_delete(f->s, child.id, &gone, &f->e), 0);
        fixture_reopen(f);
        b = fixture_conv(f, 1, "a");
        assert_true(b > child.id);
}

static void expect_parent(struct fixture *f, uint64_t id, uint64_t parent, uint32_t fork_pos) {
        struct store_conv c;

        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.parent, parent);
        assert_int_equal(c.fork_pos, fork_pos);
}

/* What descends from one conversation stays one tree, whichever of it are deleted. */
static void test_delete_between(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 1, "a");
        struct store_conv b = {}, early = {}, late = {}, other = {};
        struct store_gone gone = {};

        fixture_say(f, a, 10, "one");
        fixture_say(f, a, 20, "two");
        assert_int_equal(store_conv_fork(f->s, a, 2, NULL, NULL, &b, &f->e), 0);
        assert_int_equal(store_conv_fork(f->s, a, 1, NULL, NULL, &other, &f->e), 0);
        fixture_say(f, b.id, 5, "three");
        assert_int_equal(store_conv_fork(f->s, b.id, 1, NULL, NULL, &early, &f->e), 0);
        assert_int_equal(store_conv_fork(f->s, b.id, 3, NULL, NULL, &late, &f->e), 0);
        expect_parent(f, late.id, b.id, 35);
        assert_int_equal(store_conv_delete(f->s, b.id, &gone, &f->e), 0);
        expect_parent(f, early.id, a, 10);
        expect_parent(f, late.id, a, 30);
        expect_parent(f, other.id, a, 10);
        /* One without a parent leaves its id. */
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), 0);
        expect_parent(f, early.id, a, 10);
        expect_parent(f, late.id, a, 30);
        assert_int_equal(store_conv_fork(f->s, late.id, 1, NULL, NULL, &b, &f->e), 0);
        assert_int_equal(store_conv_delete(f->s, late.id, &gone, &f->e), 0);
        expect_parent(f, b.id, a, 10);
        fixture_expect_sound(f);
}

static void expect_corrupt(struct fixture *f, uint64_t id, const char *sql) {
        struct store_conv c, list[4];
        struct store_gone gone = {};
        uint64_t revision;
        size_t n = 99;

        fixture_sql(f, "BEGIN; CREATE TABLE saved AS SELECT * FROM conversation; COMMIT");
        fixture_sql(f, sql);
        assert_int_equal(store_conv_get(f->s, OWNER_ANY, id, NULL, &c, &f->e), -ERR_CORRUPT);
        assert_int_equal(fixture_list(f->s, OWNER_ANY, 0, list, 4, &n, &f->e), -ERR_CORRUPT);
        assert_int_equal(n, 99);
        assert_int_equal(store_append(f->s, id, NULL, 0, NULL, 0, &revision, &f->e), -ERR_CORRUPT);
        assert_int_equal(
                store_rewind(f->s, id, 0, NULL, NULL, &revision, &gone, &f->e), -ERR_CORRUPT);
        fixture_sql(f, "BEGIN; DELETE FROM conversation; INSERT INTO conversation SELECT * FROM "
                       "saved; DROP TABLE saved; COMMIT");
        assert_int_equal(store_conv_get(f->s, OWNER_ANY, id, NULL, &c, &f->e), 0);
}

static void test_damaged_rows(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");

        fixture_of_file(f);
        expect_corrupt(f, id, "UPDATE conversation SET uid = -1");
        expect_corrupt(f, id, "UPDATE conversation SET name = ''");
        expect_corrupt(f, id, "UPDATE conversation SET name = CAST(x'ff' AS TEXT)");
        expect_corrupt(f, id, "UPDATE conversation SET name = CAST(x'610062' AS TEXT)");
        expect_corrupt(f, id, "UPDATE conversation SET name = hex(zeroblob(65))");
        expect_corrupt(f, id, "UPDATE conversation SET n_tokens = 4294967296");
        expect_corrupt(f, id, "UPDATE conversation SET n_turns = -1");
        expect_corrupt(f, id, "UPDATE conversation SET gap_past = 1");
        expect_corrupt(f, id, "UPDATE conversation SET gap_first = 1");
        expect_corrupt(f, id, "UPDATE conversation SET gap_first = -1, gap_past = 0");
        expect_corrupt(f, id,
                "PRAGMA ignore_check_constraints = ON; UPDATE conversation SET overflow = 'shif'");
        expect_corrupt(f, id, "UPDATE conversation SET revision = 0");
        expect_corrupt(f, id, "UPDATE conversation SET temperature = 1e300");
        expect_corrupt(f, id, "UPDATE conversation SET temperature = 0.1");
        expect_corrupt(f, id, "UPDATE conversation SET top_k = -1");
        expect_corrupt(f, id, "UPDATE conversation SET logit_bias = x'00'");
        expect_corrupt(f, id, "UPDATE conversation SET logit_bias = zeroblob(1000000)");
        expect_corrupt(f, id, "UPDATE conversation SET logit_bias = x'010000000000c07f'");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_create_fills_in),
                store_test(test_names),
                store_test(test_bad_names),
                store_test(test_get_is_by_owner),
                store_test(test_list_and_count),
                store_test(test_sampling_round_trips),
                store_test(test_negative_zero_is_zero),
                store_test(test_sampling_is_checked),
                store_test(test_update_name),
                store_test(test_pinned),
                store_test(test_pinned_is_not_inherited),
                store_test(test_fork_copies),
                store_test(test_unanswered),
                store_test(test_fork_refuses),
                store_test(test_delete),
                store_test(test_delete_between),
                store_test(test_damaged_rows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
