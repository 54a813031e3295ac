/* SPDX-License-Identifier: MIT */
/* Other tokens for the same turns: what changes with them, what stays, what is refused. */
#include "store-fixture.h"

enum { N_BLOCKS = 4, N_OLD = 130 };

static const uint32_t ends[] = {20, 20, 75};
static int32_t tokens[75];

static struct store_carried other(void) {
        for (int32_t i = 0; i < 75; i++)
                tokens[i] = 9000 + i;
        return (struct store_carried){.model = {3, 4},
                .vocab = 5,
                .ends = ends,
                .n_turns = 3,
                .tokens = tokens,
                .n_tokens = 75,
                .fork_pos = 20,
                .n_published = 20};
}

/* Three turns with memory on disk, and a fork that has the same. */
static uint64_t make(struct fixture *f, uint64_t *ret_fork) {
        int32_t old[N_OLD];
        struct store_conv child = {.owner = 1};
        struct sampling sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_BIASES,
                .temperature = 0.25f,
                .n_biases = 1,
                .biases = {{4, 2}}};
        uint64_t id;

        fixture_tokens(old, N_OLD, 1);
        id = fixture_history(f, 1, "talk", old, N_OLD, N_BLOCKS, false);
        assert_int_equal(store_conv_update(f->s, id, NULL, &sampling, STORE_OVERFLOW_SHIFT, NULL,
                                 NULL, &f->e),
                0);
        assert_int_equal(store_conv_publish(f->s, id, 50, &f->e), 0);
        assert_int_equal(store_conv_fork(f->s, id, 3, NULL, NULL, &child, &f->e), 0);
        *ret_fork = child.id;
        return id;
}

static void read_all(struct fixture *f, uint64_t id, struct store_reading *ret) {
        assert_int_equal(
                store_read(f->s, 1, id, NULL,
                        STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOKENS | STORE_READ_LINKS,
                        ret, &f->e),
                0);
        assert_false(ret->damaged);
}

static void same_reading(const struct store_reading *x, const struct store_reading *y) {
        assert_memory_equal(&x->conv.model, &y->conv.model, sizeof(x->conv.model));
        assert_true(x->conv.vocab == y->conv.vocab && x->conv.revision == y->conv.revision);
        assert_true(x->conv.n_published == y->conv.n_published);
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(x->tokens, y->tokens, x->n_tokens * sizeof(*x->tokens));
        assert_int_equal(x->links.n, y->links.n);
        assert_int_equal(x->conv.sampling.has, y->conv.sampling.has);
}

static void test_carried(void **state) {
        struct store_reading before, after, forked, fork_after;
        struct store_carried x = other();
        struct fixture *f = *state;
        struct store_gone gone = {};
        uint64_t id, fork, revision = 0;

        id = make(f, &fork);
        read_all(f, id, &before);
        read_all(f, fork, &forked);
        assert_int_equal(store_carry(f->s, id, &x, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, 0); /* the fork has them all */
        store_gone_deinit(&gone);
        fixture_reopen(f);
        read_all(f, id, &after);
        assert_true(revision == before.conv.revision + 1 && after.conv.revision == revision);
        assert_int_equal(after.n_tokens, 75);
        assert_memory_equal(after.tokens, tokens, sizeof(tokens));
        assert_true(after.conv.vocab == 5 && after.conv.model.weights == 3 &&
                    after.conv.model.rules == 4);
        assert_true(after.conv.fork_pos == 20 && after.conv.n_published == 20);
        assert_int_equal(after.links.n, 0);
        assert_int_equal(after.conv.sampling.has, SAMPLING_TEMPERATURE);
        assert_true(after.conv.sampling.temperature == 0.25f);
        assert_int_equal(after.conv.overflow, STORE_OVERFLOW_SHIFT);
        assert_string_equal(after.conv.name, "talk");
        assert_int_equal(after.turns.n, 3);
        for (uint32_t i = 0; i < 3; i++) {
                const struct store_turn *s = &before.turns.turns[i], *t = &after.turns.turns[i];

                assert_int_equal(t->start, i ? ends[i - 1] : 0);
                assert_int_equal(t->end, ends[i]);
                assert_true(s->role == t->role && s->finish == t->finish &&
                            s->created_usec == t->created_usec && s->text_size == t->text_size);
                assert_memory_equal(s->text, t->text, s->text_size + 1);
        }
        read_all(f, fork, &fork_after);
        same_reading(&fork_after, &forked);
        fixture_expect_sound(f);
        /* Now nobody else has the records. */
        assert_int_equal(store_carry(f->s, fork, &x, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, N_BLOCKS);
        store_gone_deinit(&gone);
        fixture_expect_sound(f);
        store_reading_deinit(&before);
        store_reading_deinit(&after);
        store_reading_deinit(&forked);
        store_reading_deinit(&fork_after);
}

/* What goes with the gap: nothing is published behind where it begins. Private memory is gone. */
static void test_gap_and_private(void **state) {
        struct store_carried x = other();
        struct fixture *f = *state;
        struct store_gone gone = {};
        int32_t old[N_OLD];
        struct store_conv c;
        uint64_t id, fork, revision;

        id = make(f, &fork);
        x.gap = (struct gap){12, 20};
        assert_int_equal(store_carry(f->s, id, &x, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_true(gap_equal(&c.gap, &x.gap));
        assert_int_equal(c.n_published, 12);
        fixture_tokens(old, N_OLD, 2);
        id = fixture_history(f, 1, "private", old, N_OLD, N_BLOCKS, true);
        x = other();
        x.n_published = 0;
        assert_int_equal(store_carry(f->s, id, &x, &revision, &gone, &f->e), 0);
        assert_int_equal(gone.n, N_BLOCKS);
        store_gone_deinit(&gone);
        assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
        assert_false(c.private_memory);
        fixture_expect_sound(f);
}

static void refuse(struct fixture *f, uint64_t id, const struct store_carried *x, int code) {
        struct store_reading before, after;
        struct store_gone gone = {};
        uint64_t revision = 4711;

        read_all(f, id, &before);
        assert_int_equal(store_carry(f->s, id, x, &revision, &gone, &f->e), code);
        assert_true(revision == 4711 && !gone.records);
        read_all(f, id, &after);
        same_reading(&before, &after);
        fixture_expect_sound(f);
        store_reading_deinit(&before);
        store_reading_deinit(&after);
}

static void test_refused(void **state) {
        static const uint32_t falling[] = {20, 10, 75}, longer[] = {20, 20, 76};
        struct fixture *f = *state;
        struct store_gone gone = {};
        struct store_carried x;
        uint64_t id, fork, revision;

        id = make(f, &fork);
        x = other();
        x.n_turns = 2;
        x.n_tokens = 20;
        refuse(f, id, &x, -ERR_INVALID);
        x = other();
        x.ends = falling;
        refuse(f, id, &x, -ERR_INVALID);
        x.ends = longer;
        refuse(f, id, &x, -ERR_INVALID);
        x = other();
        x.gap = (struct gap){70, 76};
        refuse(f, id, &x, -ERR_INVALID);
        x = other();
        x.n_published = 76;
        refuse(f, id, &x, -ERR_INVALID);
        x = other();
        assert_int_equal(store_carry(f->s, fork + 1, &x, &revision, &gone, &f->e), -ERR_NOT_FOUND);
        /* A turn is gone: nothing of what is left is overwritten. */
        fixture_sql(f, "DELETE FROM turn WHERE n = 1");
        assert_int_equal(store_carry(f->s, id, &x, &revision, &gone, &f->e), -ERR_CORRUPT);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM turn WHERE past = 75"), 0);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM conversation WHERE vocab = 5"), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_carried),
                store_test(test_gap_and_private),
                store_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
