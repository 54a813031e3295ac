/* SPDX-License-Identifier: MIT */
/* Pages of conversations and of turns. */
#include "base/util.h"
#include "store-fixture.h"

enum { MAX = 40 };

static struct store_listed rows[MAX];
static size_t n_rows;
static bool more;

static int list_admitted(struct fixture *f, const struct store_list *list, size_t max,
        store_admit_fn *admit, void *arg) {
        int r;

        n_rows = 0;
        r = store_list(f->s, list, admit, arg, rows, max, &n_rows, &more, &f->e);
        for (size_t i = 0; i < max; i++) {
                free(rows[i].about);
                rows[i].about = NULL;
        }
        return r;
}

static void list(struct fixture *f, const struct store_list *x, size_t max) {
        assert_int_equal(list_admitted(f, x, max, NULL, NULL), 0);
}

/* The page has just these ids, and tells whether there are more. */
static void expect(const uint64_t *ids, size_t n, bool is_more) {
        assert_int_equal(n_rows, n);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(rows[i].conv.id, ids[i]);
        assert_int_equal(more, is_more);
}
#define EXPECT(is_more, ...)                                                                       \
        expect((const uint64_t[]){__VA_ARGS__},                                                    \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), is_more)

static void tag(struct fixture *f, uint64_t id, const char *tag) {
        const struct about about = {.has = ABOUT_TAGS, .tags = &tag, .n_tags = 1};

        assert_int_equal(
                store_conv_update(f->s, id, NULL, NULL, STORE_OVERFLOW_KEEP, NULL, &about, &f->e),
                0);
}

/* Conversations 1 to 6; 3 belongs to another user. Times of change are 1 + id % 3, which some share. */
static void fill(struct fixture *f) {
        for (uint32_t i = 1; i <= 6; i++)
                assert_int_equal(fixture_conv(f, i == 3 ? 8 : 7, (char[]){(char)('a' + i), 0}), i);
        tag(f, 2, "x");
        tag(f, 3, "x");
        tag(f, 5, "x");
        tag(f, 6, "y");
        fixture_sql(f, "UPDATE conversation SET updated_usec = 1 + id % 3");
}

static void test_orders(void **state) {
        struct fixture *f = *state;
        struct store_list x = {.owner = 7};

        fill(f);
        list(f, &x, MAX);
        EXPECT(false, 1, 2, 4, 5, 6);
        x.by_update = true;
        list(f, &x, MAX);
        EXPECT(false, 5, 2, 4, 1, 6);
        assert_int_equal(rows[0].conv.updated_usec, 3);
        x.owner = OWNER_ANY;
        list(f, &x, MAX);
        EXPECT(false, 5, 2, 4, 1, 6, 3);
        x.tag = "x";
        list(f, &x, MAX);
        EXPECT(false, 5, 2, 3);
        x.by_update = false;
        list(f, &x, MAX);
        EXPECT(false, 2, 3, 5);
        x.owner = 7;
        list(f, &x, MAX);
        EXPECT(false, 2, 5);
        x.by_update = true;
        list(f, &x, MAX);
        EXPECT(false, 5, 2);
        x.tag = "z";
        list(f, &x, MAX);
        assert_int_equal(n_rows, 0);
        assert_false(more);
}

/* Pages of any size have each conversation once, in order. */
static void test_pages(void **state) {
        static const uint64_t wants[2][2][5] = {
                {{1, 2, 4, 5, 6}, {2, 5}}, {{5, 2, 4, 1, 6}, {5, 2}}};
        struct fixture *f = *state;

        fill(f);
        for (size_t max = 1; max <= 5; max++)
                for (unsigned by_update = 0; by_update < 2; by_update++)
                        for (unsigned tagged = 0; tagged < 2; tagged++) {
                                struct store_list x = {.owner = 7,
                                        .by_update = by_update,
                                        .tag = tagged ? "x" : NULL};
                                const uint64_t *want = wants[by_update][tagged];
                                size_t n = tagged ? 2 : 5, at = 0;

                                do {
                                        list(f, &x, max);
                                        expect(want + at, MIN(max, n - at), n - at > max);
                                        at += n_rows;
                                        x.goes_on = true;
                                        x.after = (struct store_list_place){
                                                rows[n_rows - 1].conv.updated_usec,
                                                rows[n_rows - 1].conv.id};
                                } while (at < n);
                        }
        /* Behind everything. */
        list(f, &(struct store_list){.owner = 7, .goes_on = true, .after = {.id = UINT64_MAX}}, 3);
        assert_int_equal(n_rows, 0);
        list(f, &(struct store_list){.owner = 7, .by_update = true, .goes_on = true}, 3);
        assert_int_equal(n_rows, 0);
}

/* What changes between two pages comes again at the front; what does not is in one of the pages. */
static void test_changes_meanwhile(void **state) {
        struct fixture *f = *state;
        struct store_list x = {.owner = 7, .by_update = true};

        fill(f);
        list(f, &x, 2);
        EXPECT(true, 5, 2);
        fixture_say(f, 2, 4, "news");
        fixture_say(f, 4, 4, "news");
        assert_int_equal(fixture_conv(f, 7, "new"), 7);
        x.goes_on = true;
        x.after = (struct store_list_place){3, 2};
        list(f, &x, 9);
        EXPECT(false, 1, 6);
        x.goes_on = false;
        list(f, &x, 3);
        EXPECT(true, 7, 4, 2);
}

static int admit(void *arg, size_t n, struct err *e) {
        size_t *left = arg;

        if (n > *left)
                return err_set(e, ERR_LIMIT, "no room");
        *left -= n;
        return 0;
}

/* A page ends where there is no more room for what is noted; its first conversation has to fit. */
static void test_room(void **state) {
        struct fixture *f = *state;
        const struct store_list x = {.owner = 7};
        const char *tag_x = "x";
        size_t one = about_size(&(struct about){.has = ABOUT_TAGS, .tags = &tag_x, .n_tags = 1});
        size_t left;

        fill(f);
        left = 2 * one;
        assert_int_equal(list_admitted(f, &x, MAX, admit, &left), 0);
        EXPECT(true, 1, 2, 4, 5);
        left = one - 1;
        assert_int_equal(list_admitted(f, &x, MAX, admit, &left), 0);
        EXPECT(true, 1);
        left = one - 1;
        assert_int_equal(
                list_admitted(f,
                        &(struct store_list){.owner = 7, .goes_on = true, .after = {.id = 1}}, MAX,
                        admit, &left),
                -ERR_LIMIT);
}

/* The cost of a page is that of its rows. */
static void test_cost(void **state) {
        struct fixture *f = *state;
        struct store_list x = {.owner = 1, .by_update = true, .goes_on = true, .after = {5000, 0}};
        const struct about about = {
                .has = ABOUT_TAGS, .tags = (const char *const[]){"t"}, .n_tags = 1};
        uint64_t id;

        fixture_sql(f, "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n "
                       "WHERE i < 10000) INSERT INTO conversation (id, uid, name, parent, "
                       "fork_pos, revision, n_tokens, n_turns, created_usec, updated_usec, "
                       "model_weights, model_rules, vocab) SELECT i, 1, i, 0, 0, 1, 0, 0, 1, i, 0, "
                       "0, 0 FROM n; INSERT INTO tag SELECT id, 0, 't', 1, updated_usec FROM "
                       "conversation");
        list(f, &x, 2);
        EXPECT(true, 4999, 4998);
        x.tag = "t";
        list(f, &x, 2);
        EXPECT(true, 4999, 4998);
        id = fixture_conv(f, 1, "last");
        assert_int_equal(
                store_conv_update(f->s, id, NULL, NULL, STORE_OVERFLOW_KEEP, NULL, &about, &f->e),
                0);
        x.goes_on = false;
        list(f, &x, 2);
        EXPECT(true, id, 10000);
}

/* --- pages of turns --- */

static int read_page(struct fixture *f, uint64_t id, unsigned what, uint32_t max, uint32_t from,
        uint32_t before, struct store_reading *ret) {
        const struct store_turn_page page = {max, from, before};

        return store_read_page(f->s, OWNER_ANY, id, NULL, what, &page, NULL, NULL, ret, &f->e);
}

static void expect_page(struct fixture *f, uint64_t id, uint32_t max, uint32_t from,
        uint32_t before, uint32_t first, uint32_t n) {
        for (int tokens = 0; tokens < 2; tokens++) {
                struct store_reading x = {};
                unsigned what =
                        STORE_READ_TURNS | STORE_READ_TEXTS | (tokens ? STORE_READ_TOKENS : 0);

                assert_int_equal(read_page(f, id, what, max, from, before, &x), 0);
                assert_false(x.damaged);
                assert_int_equal(x.page_first, first);
                assert_int_equal(x.page_past, first + n);
                assert_int_equal(x.turns_first, tokens ? 0 : first);
                assert_int_equal(x.turns.n, tokens ? 8 : n);
                assert_int_equal(x.n_tokens, tokens ? 80 : 0);
                for (uint32_t i = 0; i < x.turns.n; i++) {
                        const struct store_turn *t = &x.turns.turns[i];
                        uint32_t k = x.turns_first + i;

                        assert_int_equal(t->start, 10 * k);
                        if (k >= first && k < first + n)
                                assert_int_equal(t->text[0], 'a' + k);
                        else
                                assert_int_equal(t->text_size, 0);
                }
                store_reading_deinit(&x);
        }
}

static void test_turns(void **state) {
        enum { NO = STORE_TURN_UNSET };
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 7, "a");
        struct store_reading x = {};

        for (int i = 0; i < 8; i++)
                fixture_say(f, id, 10, (char[]){(char)('a' + i), 0});
        expect_page(f, id, 3, NO, NO, 5, 3);
        expect_page(f, id, 3, NO, 5, 2, 3);
        expect_page(f, id, 3, NO, 2, 0, 2);
        expect_page(f, id, 3, NO, 0, 0, 0);
        expect_page(f, id, 0, NO, 5, 0, 5);
        expect_page(f, id, 3, 0, NO, 0, 3);
        expect_page(f, id, 3, 6, NO, 6, 2);
        expect_page(f, id, 3, 8, NO, 8, 0);
        expect_page(f, id, 0, 6, NO, 6, 2);
        expect_page(f, id, 9, 2, 4, 2, 2);
        expect_page(f, id, 1, 2, 4, 2, 1);
        expect_page(f, id, UINT32_MAX, NO, NO, 0, 8);
        assert_int_equal(read_page(f, id, STORE_READ_TURNS, 1, 9, NO, &x), -ERR_INVALID);
        assert_int_equal(read_page(f, id, STORE_READ_TURNS, 1, NO, 9, &x), -ERR_INVALID);
        /* Damage is found in what is read. */
        fixture_sql(f, "UPDATE turn SET tokens = zeroblob(40) WHERE n = 3");
        assert_int_equal(read_page(f, id, STORE_READ_TURNS | STORE_READ_TEXTS, 2, 2, NO, &x), 0);
        assert_true(x.damaged);
        assert_int_equal(x.n_sound_turns, 3);
        assert_int_equal(x.turns.n, 2);
        store_reading_deinit(&x);
        assert_int_equal(read_page(f, id, STORE_READ_TURNS | STORE_READ_TEXTS, 2, 4, NO, &x), 0);
        assert_false(x.damaged);
        store_reading_deinit(&x);
        fixture_sql(f, "DELETE FROM turn WHERE n = 7");
        assert_int_equal(read_page(f, id, STORE_READ_TURNS | STORE_READ_TEXTS, 2, NO, NO, &x), 0);
        assert_true(x.damaged);
        assert_int_equal(x.n_sound_turns, 7);
        store_reading_deinit(&x);
}

/* What a page's replies are read from: the rows of the assistant before it, the one before these, and one behind. */
static void expect_run(struct fixture *f, uint64_t id, uint32_t max, uint32_t from, uint32_t first,
        uint32_t past) {
        const unsigned what = STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_RUN;
        struct store_reading x = {};

        assert_int_equal(read_page(f, id, what, max, from, STORE_TURN_UNSET, &x), 0);
        assert_false(x.damaged);
        assert_int_equal(x.page_first, from);
        assert_int_equal(x.turns_first, first);
        assert_int_equal(x.turns.n, past - first);
        assert_int_equal(x.n_tokens, 10 * (past - first));
        for (uint32_t i = 0; i < x.n_tokens; i++)
                assert_int_equal(x.tokens[i], fixture_token(10 * first + i));
        for (uint32_t k = first; k < past; k++)
                assert_int_equal(x.turns.turns[k - first].text_size,
                        k >= x.page_first && k < x.page_past ? 1 : 0);
        store_reading_deinit(&x);
}

static void test_run(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 7, "a");
        struct store_reading x = {};

        for (int i = 0; i < 9; i++)
                fixture_say(f, id, 10, (char[]){(char)('a' + i), 0});
        fixture_sql(f, "UPDATE turn SET role = 'assistant' WHERE n IN (0, 1, 4, 5, 6, 8)");
        expect_run(f, id, 1, 0, 0, 2);
        expect_run(f, id, 2, 1, 0, 4);
        expect_run(f, id, 1, 2, 2, 4);
        expect_run(f, id, 2, 3, 3, 6);
        expect_run(f, id, 1, 4, 3, 6);
        expect_run(f, id, 1, 6, 3, 8);
        expect_run(f, id, 1, 7, 7, 9);
        expect_run(f, id, 4, 8, 7, 9);
        expect_run(f, id, 4, 9, 9, 9);
        /* Damage of what is not read is none; of what is, it ends the tokens. */
        fixture_sql(f, "UPDATE turn SET tokens = zeroblob(40) WHERE n IN (2, 5)");
        expect_run(f, id, 1, 7, 7, 9);
        assert_int_equal(
                read_page(f, id, STORE_READ_TURNS | STORE_READ_RUN, 1, 6, STORE_TURN_UNSET, &x), 0);
        assert_true(x.damaged);
        assert_int_equal(x.n_sound_turns, 5);
        assert_int_equal(x.turns.n, 5);
        assert_int_equal(x.n_tokens, 20);
        store_reading_deinit(&x);
}

struct asked {
        size_t n;
};

static int ask(void *arg, size_t n, struct err *e) {
        ((struct asked *)arg)->n = n;
        return 0;
}

/* A page is charged for what it has, wherever its definitions stand. */
static void test_turns_charged(void **state) {
        struct fixture *f = *state;
        static char large[100000], defs[5000];
        struct store_conv c = {.owner = 7, .tools = defs};
        const struct store_turn_page page = {2, STORE_TURN_UNSET, STORE_TURN_UNSET};
        unsigned what = STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOOLS;
        struct store_reading x = {};
        struct asked asked = {};

        memset(large, 'x', sizeof(large) - 1);
        memset(defs, 'd', sizeof(defs) - 1);
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        fixture_say(f, c.id, 10, large);
        for (int i = 0; i < 4; i++)
                fixture_say(f, c.id, 10, "short");
        assert_int_equal(
                store_read_page(f->s, 7, c.id, NULL, what, &page, ask, &asked, &x, &f->e), 0);
        assert_string_equal(x.tools, defs);
        assert_string_equal(x.first_tools, defs);
        assert_true(asked.n >= 2 * sizeof(defs) && asked.n < 30000);
        store_reading_deinit(&x);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_orders),
                store_test(test_pages),
                store_test(test_changes_meanwhile),
                store_test(test_room),
                store_test(test_cost),
                store_test(test_turns),
                store_test(test_run),
                store_test(test_turns_charged),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
