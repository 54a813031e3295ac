/* SPDX-License-Identifier: MIT */
/* How replies were made: kept with their turns, and gone with them. */
#include "store-fixture.h"

/* Reply @n of a conversation: figures that no other has. */
static struct figures figures_of(uint32_t n) {
        return (struct figures){.model = n % 2 ? "A model" : "",
                .seed = UINT64_MAX - n,
                .n_prompt = 100 + n,
                .n_ram = 1 + n,
                .n_disk = 2 + n,
                .n_shared = 3 + n,
                .n_computed = 94 - 2 * n,
                .n_generated = UINT32_MAX - n,
                .queued_usec = 10 + n,
                .restore_usec = 20 + n,
                .prefill_usec = 30 + n,
                .decode_usec = INT64_MAX - n};
}

static bool equal(const struct figures *a, const struct figures *b) {
        return strcmp(a->model, b->model) == 0 && a->seed == b->seed &&
               a->n_prompt == b->n_prompt && a->n_ram == b->n_ram && a->n_disk == b->n_disk &&
               a->n_shared == b->n_shared && a->n_computed == b->n_computed &&
               a->n_generated == b->n_generated && a->queued_usec == b->queued_usec &&
               a->restore_usec == b->restore_usec && a->prefill_usec == b->prefill_usec &&
               a->decode_usec == b->decode_usec;
}

/* A message and its reply, of 2 tokens each, as turns @n and @n + 1. */
static void say(struct fixture *f, uint64_t id, uint32_t n) {
        const int32_t tokens[4] = {1, 2, 3, 4};
        struct figures figures = figures_of(n + 1);
        struct store_turn turns[2] = {
                {.role = 1, .start = 2 * n, .end = 2 * n + 2, .text = "?", .text_size = 1},
                {.role = 2,
                        .start = 2 * n + 2,
                        .end = 2 * n + 4,
                        .finish = 1,
                        .text = "!",
                        .text_size = 1,
                        .figures = &figures}};
        uint64_t revision;

        assert_int_equal(store_append(f->s, id, turns, 2, tokens, 4, &revision, &f->e), 0);
}

/* The replies among @n turns have their figures, and nothing else has any. */
static void expect(struct fixture *f, uint64_t id, size_t n) {
        struct store_reading x = {};
        unsigned what = STORE_READ_TURNS | STORE_READ_FIGURES;

        assert_int_equal(store_read(f->s, OWNER_ANY, id, NULL, what, &x, &f->e), 0);
        assert_int_equal(x.turns.n, n);
        for (uint32_t i = 0; i < n; i++) {
                const struct figures *got = x.turns.turns[i].figures, want = figures_of(i);

                assert_int_equal(got != NULL, i % 2);
                assert_true(!got || equal(got, &want));
        }
        store_reading_deinit(&x);
}

static void test_kept_and_cut(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 7, "a"), revision;
        struct store_conv child = {.name = "b"};
        struct store_turn last = {.role = 2, .start = 10, .end = 11, .text = "", .finish = 3};
        struct store_gone gone = {};

        for (uint32_t n = 0; n < 8; n += 2)
                say(f, id, n);
        fixture_reopen(f);
        expect(f, id, 8);
        assert_int_equal(store_conv_fork(f->s, id, 6, &last, NULL, &child, &f->e), 0);
        expect(f, child.id, 6);
        expect(f, id, 8);
        assert_int_equal(store_rewind(f->s, id, 3, NULL, NULL, &revision, &gone, &f->e), 0);
        expect(f, id, 3);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM turn_figures"), 1 + 3);
        fixture_expect_sound(f);
        assert_int_equal(store_conv_delete(f->s, child.id, &gone, &f->e), 0);
        assert_int_equal(fixture_count(f, "SELECT sum(n_prompt) FROM turn_figures"), 101);
        fixture_expect_sound(f);
}

/* New tokens, the same turns. */
static void test_carried(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 7, "a"), revision;
        static const uint32_t ends[] = {1, 2};
        static const int32_t tokens[] = {8, 9};
        const struct store_carried x = {
                .vocab = 5, .ends = ends, .n_turns = 2, .tokens = tokens, .n_tokens = 2};
        struct store_gone gone = {};

        say(f, id, 0);
        assert_int_equal(store_carry(f->s, id, &x, &revision, &gone, &f->e), 0);
        expect(f, id, 2);
}

struct most {
        size_t most, asked;
};

static int admit(void *arg, size_t n, struct err *e) {
        struct most *m = arg;

        m->asked = n;
        return n > m->most ? err_set(e, ERR_LIMIT, "too much") : 0;
}

/* They are paid for, as long as they are asked for. */
static void test_charged(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 7, "a");
        struct store_reading x = {};
        struct most m = {.most = SIZE_MAX};
        size_t without;

        for (uint32_t n = 0; n < 8; n += 2)
                say(f, id, n);
        assert_int_equal(
                store_read_admitted(f->s, 7, id, NULL, STORE_READ_TURNS, admit, &m, &x, &f->e), 0);
        assert_null(x.turns.turns[1].figures);
        store_reading_deinit(&x);
        without = m.asked;
        assert_int_equal(store_read_admitted(f->s, 7, id, NULL,
                                 STORE_READ_TURNS | STORE_READ_FIGURES, admit, &m, &x, &f->e),
                0);
        store_reading_deinit(&x);
        assert_true(m.asked - without >= 4 * (sizeof(struct figures) + strlen("A model")));
        m.most = m.asked - 1;
        assert_int_equal(store_read_admitted(f->s, 7, id, NULL,
                                 STORE_READ_TURNS | STORE_READ_FIGURES, admit, &m, &x, &f->e),
                -ERR_LIMIT);
}

/* A damaged row hides nothing but itself. */
static void test_damage(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 7, "a");
        struct fixture_findings found = {};
        struct store_reading x = {};
        struct store_census census;

        fixture_of_file(f);
        for (uint32_t n = 0; n < 6; n += 2)
                say(f, id, n);
        fixture_sql(f, "UPDATE turn_figures SET n_ram = -1 WHERE n = 3");
        assert_int_equal(
                store_read(f->s, 7, id, NULL,
                        STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_FIGURES, &x, &f->e),
                0);
        assert_false(x.damaged);
        assert_int_equal(x.turns.n, 6);
        assert_non_null(x.turns.turns[1].figures);
        assert_null(x.turns.turns[3].figures);
        assert_non_null(x.turns.turns[5].figures);
        store_reading_deinit(&x);
        assert_int_equal(store_check(f->s, fixture_note, &found, &census, &f->e), 0);
        assert_int_equal(found.n, 1);
        fixture_sql(f, "UPDATE turn_figures SET n_ram = 4 WHERE n = 3");
        fixture_expect_sound(f);
        fixture_sql(f, "PRAGMA foreign_keys = OFF; UPDATE turn_figures SET n = 9 WHERE n = 3");
        found.n = 0;
        assert_int_equal(store_check(f->s, fixture_note, &found, &census, &f->e), 0);
        assert_int_equal(found.n, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_kept_and_cut),
                store_test(test_carried),
                store_test(test_charged),
                store_test(test_damage),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
