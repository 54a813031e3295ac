/* SPDX-License-Identifier: MIT */
/* Chains of turns: what writes and copies them, what finds by them, and what makes up for missing ones. */
#include "store-fixture.h"

static uint64_t chain_of(struct fixture *f, uint64_t id, uint32_t n_turns) {
        uint64_t chain = 1234;

        assert_int_equal(store_chain(f->s, id, n_turns, &chain, &f->e), 0);
        return chain;
}

static struct store_turn turn(uint32_t start, uint32_t end, uint64_t chain) {
        return (struct store_turn){
                .role = 1, .start = start, .end = end, .text = "x", .text_size = 1, .chain = chain};
}

static const int32_t tokens[64] = {1, 2, 3};

/* A conversation of two turns, of ten tokens each. */
static uint64_t make(struct fixture *f, const char *name, uint64_t first, uint64_t second) {
        const struct store_turn turns[] = {turn(0, 10, first), turn(10, 20, second)};
        struct store_conv c = {.owner = 1, .vocab = 5};

        strcpy(c.name, name);
        assert_int_equal(store_conv_create(f->s, &c, turns, 2, tokens, 20, &f->e), 0);
        return c.id;
}

static void test_written(void **state) {
        struct fixture *f = *state;
        struct store_conv child = {.owner = 1};
        struct store_gone gone = {};
        struct store_turn t, last;
        uint64_t revision, id;

        id = make(f, "a", UINT64_MAX, 42);
        assert_true(chain_of(f, id, 1) == UINT64_MAX);
        assert_int_equal(chain_of(f, id, 2), 42);
        assert_int_equal(chain_of(f, id, 3), STORE_CHAIN_UNKNOWN);
        t = turn(20, 30, 43);
        assert_int_equal(store_append(f->s, id, &t, 1, tokens, 10, &revision, &f->e), 0);
        assert_int_equal(chain_of(f, id, 3), 43);
        /* A fork copies them; a cut inside of a turn brings its own. */
        last = turn(10, 15, 44);
        assert_int_equal(store_conv_fork(f->s, id, 2, &last, NULL, &child, &f->e), 0);
        assert_true(chain_of(f, child.id, 1) == UINT64_MAX);
        assert_int_equal(chain_of(f, child.id, 2), 44);
        assert_int_equal(chain_of(f, id, 2), 42);
        t = turn(25, 30, 46);
        last = turn(20, 25, 45);
        assert_int_equal(
                store_replace(f->s, id, 3, &last, NULL, &t, 1, tokens, 5, &revision, &gone, &f->e),
                0);
        store_gone_deinit(&gone);
        assert_int_equal(chain_of(f, id, 3), 45);
        assert_int_equal(chain_of(f, id, 4), 46);
        assert_int_equal(store_rewind(f->s, id, 1, NULL, NULL, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(chain_of(f, id, 2), STORE_CHAIN_UNKNOWN);
        fixture_reopen(f);
        assert_true(chain_of(f, id, 1) == UINT64_MAX);
}

static void test_carried(void **state) {
        const uint32_t ends[] = {4, 8};
        const uint64_t chains[] = {50, 51};
        struct store_carried x = {.vocab = 9,
                .ends = ends,
                .chains = chains,
                .n_turns = 2,
                .tokens = tokens,
                .n_tokens = 8};
        struct fixture *f = *state;
        struct store_gone gone = {};
        uint64_t revision, id = make(f, "a", 40, 41);

        assert_int_equal(store_carry(f->s, id, &x, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(chain_of(f, id, 1), 50);
        assert_int_equal(chain_of(f, id, 2), 51);
        x.chains = NULL;
        assert_int_equal(store_carry(f->s, id, &x, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(chain_of(f, id, 2), STORE_CHAIN_UNKNOWN);
}

static void test_missing(void **state) {
        struct fixture *f = *state;
        uint64_t a = make(f, "a", 10, STORE_CHAIN_UNKNOWN), b = make(f, "b", 10, 11),
                 c = make(f, "c", STORE_CHAIN_UNKNOWN, STORE_CHAIN_UNKNOWN), ids[4];
        const struct store_chain_of chains[] = {
                {a, 1, 21}, {c, 0, STORE_CHAIN_NEVER}, {c, 1, 23}, {c, 2, 24}, {77, 0, 25}};
        struct store_conv before, after;
        size_t n = 9;

        (void)b;
        assert_int_equal(store_chains_missing(f->s, 0, ids, 4, &n, &f->e), 0);
        assert_int_equal(n, 2);
        assert_int_equal(ids[0], a);
        assert_int_equal(ids[1], c);
        assert_int_equal(store_chains_missing(f->s, a, ids, 1, &n, &f->e), 0);
        assert_int_equal(n, 1);
        assert_int_equal(ids[0], c);
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &before, &f->e), 0);
        assert_int_equal(store_chains_set(f->s, chains, 5, &f->e), 0);
        assert_int_equal(store_conv_get(f->s, 1, a, NULL, &after, &f->e), 0);
        assert_int_equal(after.revision, before.revision);
        assert_int_equal(after.updated_usec, before.updated_usec);
        assert_int_equal(store_chains_missing(f->s, 0, ids, 4, &n, &f->e), 0);
        assert_int_equal(n, 0);
        assert_int_equal(chain_of(f, a, 2), 21);
        assert_int_equal(chain_of(f, c, 1), STORE_CHAIN_NEVER);
}

static size_t longest(struct fixture *f, const uint64_t *chains, size_t n) {
        size_t k = 99;

        assert_int_equal(store_chain_longest(f->s, 0, chains, n, &k, &f->e), 0);
        return k;
}

static size_t longest_of(struct fixture *f, uint64_t id, const uint64_t *chains, size_t n) {
        size_t k = 99;

        assert_int_equal(store_chain_longest(f->s, id, chains, n, &k, &f->e), 0);
        return k;
}

static uint32_t turns_of(struct fixture *f, uint64_t id, uint64_t chain) {
        uint32_t n = 99;

        assert_int_equal(store_chain_turns(f->s, id, chain, &n, &f->e), 0);
        return n;
}

static void test_longest(void **state) {
        uint64_t chains[20], here[] = {30, 31};
        struct fixture *f = *state;

        for (size_t i = 0; i < 20; i++)
                chains[i] = 100 + i;
        assert_int_equal(longest(f, chains, 20), 0);
        assert_int_equal(longest(f, chains, 0), 0);
        for (size_t i = 0; i < 20; i += 2) {
                char name[8];

                snprintf(name, sizeof(name), "c%zu", i);
                (void)make(f, name, chains[i], chains[i + 1]);
                assert_int_equal(longest(f, chains, 20), i + 2);
                assert_int_equal(longest(f, chains, i + 1), i + 1);
        }
        (void)make(f, "x", 30, STORE_CHAIN_NEVER);
        here[1] = STORE_CHAIN_NEVER;
        assert_int_equal(longest(f, here, 2), 1);
        here[0] = STORE_CHAIN_UNKNOWN;
        assert_int_equal(longest(f, here, 2), 0);
}

/* In one conversation, whatever others have. */
static void test_in_one(void **state) {
        const uint64_t all[] = {100, 101, 102, 103};
        struct fixture *f = *state;
        uint64_t a = make(f, "a", 100, 101), b = make(f, "b", 101, 101),
                 never = make(f, "c", 100, STORE_CHAIN_NEVER),
                 unknown = make(f, "d", 100, STORE_CHAIN_UNKNOWN);

        (void)make(f, "e", 102, 103);
        assert_int_equal(longest(f, all, 4), 4);
        assert_int_equal(longest_of(f, a, all, 4), 2);
        assert_int_equal(longest_of(f, never, all, 4), 1);
        assert_int_equal(longest_of(f, unknown, all, 4), 1);
        assert_int_equal(longest_of(f, 77, all, 4), 0);
        assert_int_equal(turns_of(f, a, 100), 1);
        assert_int_equal(turns_of(f, a, 101), 2);
        assert_int_equal(turns_of(f, a, 102), 0);
        /* A turn that says nothing repeats the chain: the first one counts. */
        assert_int_equal(turns_of(f, b, 101), 1);
        /* Two numbers are no hashes. */
        assert_int_equal(turns_of(f, never, STORE_CHAIN_NEVER), 0);
        assert_int_equal(turns_of(f, unknown, STORE_CHAIN_UNKNOWN), 0);
        assert_int_equal(turns_of(f, 77, 100), 0);
}

/* The candidates with chain 60, as the first letters of their names. */
static void candidates(
        struct fixture *f, uint64_t owner, const char *session, size_t max, const char *want) {
        struct store_candidate list[8];
        char got[16] = "";
        size_t n = 0;

        assert_int_equal(
                store_chain_candidates(f->s, owner, 5, session, 60, list, max, &n, &f->e), 0);
        for (size_t i = 0; i < n; i++) {
                struct store_conv c;

                assert_int_equal(store_conv_get(f->s, owner, list[i].conv, NULL, &c, &f->e), 0);
                got[i] = c.name[0];
                assert_int_equal(list[i].own_vocab, c.vocab == 5);
                assert_int_equal(list[i].ends, c.n_turns == list[i].n_turns);
        }
        assert_string_equal(got, want);
}

static void test_candidates(void **state) {
        const struct about about = {.has = ABOUT_SESSION, .session = "s"};
        struct fixture *f = *state;
        struct store_conv foreign = {.owner = 1, .vocab = 6, .name = "foreign"},
                          other = {.owner = 2, .vocab = 5, .name = "other"};
        const struct store_turn turns[] = {turn(0, 10, 60), turn(10, 20, 60)};
        uint64_t a, b;

        a = make(f, "a goes on", 60, 61);
        b = make(f, "b ends", 59, 60);
        (void)make(f, "c goes on", 60, 61);
        (void)make(f, "d has another", 62, 63);
        assert_int_equal(store_conv_create(f->s, &foreign, turns, 1, tokens, 10, &f->e), 0);
        assert_int_equal(store_conv_create(f->s, &other, turns, 2, tokens, 20, &f->e), 0);
        /* Of this vocabulary; those that end there; the latest. */
        candidates(f, 1, NULL, 8, "bcaf");
        candidates(f, 1, NULL, 2, "bc");
        candidates(f, 3, NULL, 8, "");
        /* A turn that says nothing repeats the chain: the first place counts. */
        candidates(f, 2, NULL, 8, "o");
        /* A session comes first. */
        assert_int_equal(
                store_conv_update(f->s, a, NULL, NULL, STORE_OVERFLOW_KEEP, NULL, &about, &f->e),
                0);
        assert_int_equal(store_conv_update(f->s, foreign.id, NULL, NULL, STORE_OVERFLOW_KEEP, NULL,
                                 &about, &f->e),
                0);
        candidates(f, 1, "s", 8, "afbc");
        candidates(f, 1, "t", 8, "bacf");
        candidates(f, 2, "s", 8, "o");
        /* Damage in a row makes it no candidate. */
        fixture_sql(f, "UPDATE conversation SET revision = 0 WHERE name = 'b ends'");
        candidates(f, 1, NULL, 8, "acf");
        (void)b;
}

static void test_head(void **state) {
        struct fixture *f = *state;
        struct store_reading x = {};
        uint64_t id = make(f, "a", 1, 2);

        assert_int_equal(store_read_head(f->s, 1, id, 1, NULL, NULL, &x, &f->e), 0);
        assert_int_equal(x.turns.n, 1);
        assert_int_equal(x.n_tokens, 10);
        assert_int_equal(x.n_sound_turns, 1);
        assert_false(x.damaged);
        assert_int_equal(x.tokens[2], 3);
        store_reading_deinit(&x);
        assert_int_equal(store_read_head(f->s, 1, id, UINT32_MAX, NULL, NULL, &x, &f->e), 0);
        assert_int_equal(x.turns.n, 2);
        store_reading_deinit(&x);
        assert_int_equal(store_read_head(f->s, 2, id, 1, NULL, NULL, &x, &f->e), -ERR_NOT_FOUND);
        fixture_sql(f,
                "UPDATE turn SET tokens = (SELECT t.tokens FROM turn t WHERE t.n = 0) WHERE n = 1");
        assert_int_equal(store_read_head(f->s, 1, id, 1, NULL, NULL, &x, &f->e), 0);
        assert_false(x.damaged);
        store_reading_deinit(&x);
        assert_int_equal(store_read_head(f->s, 1, id, 2, NULL, NULL, &x, &f->e), 0);
        assert_true(x.damaged);
        assert_int_equal(x.n_sound_turns, 1);
        store_reading_deinit(&x);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_written),
                store_test(test_carried),
                store_test(test_missing),
                store_test(test_longest),
                store_test(test_in_one),
                store_test(test_candidates),
                store_test(test_head),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
