/* SPDX-License-Identifier: MIT */
/* Searching by words: what is found, what is not, and what is left of words that were removed. */
#include "base/file.h"
#include "base/utf8.h"
#include "base/util.h"
#include "store-fixture.h"
#include "store/store-private.h"
#include <fcntl.h>
#include <sys/stat.h>

enum { MAX = 16 };

static struct store_listed rows[MAX];
static size_t n_rows;
static bool more;
static char snippet[300];

static int find(struct fixture *f, struct store_list list, size_t max) {
        int r;

        list.by_update = true;
        n_rows = 0;
        r = store_list(f->s, &list, NULL, NULL, rows, max, &n_rows, &more, &f->e);
        snippet[0] = 0;
        if (r == 0 && n_rows > 0)
                snprintf(snippet, sizeof(snippet), "%s", rows[0].hit.snippet);
        for (size_t i = 0; i < max; i++) {
                free(rows[i].about);
                free(rows[i].hit.snippet);
        }
        return r;
}

static void look_for(struct fixture *f, uint64_t owner, const char *words) {
        const struct store_list list = {.owner = owner, .search = words};

        if (find(f, list, MAX) < 0)
                fail_msg("'%s': %s", words, f->e.msg);
}

static void expect(const char *words, const uint64_t *ids, size_t n) {
        if (n_rows != n)
                fail_msg("'%s': %zu found, not %zu", words, n_rows, n);
        for (size_t i = 0; i < n; i++)
                if (rows[i].conv.id != ids[i])
                        fail_msg("'%s': %llu in place %zu", words,
                                (unsigned long long)rows[i].conv.id, i);
}
/* The owner 7 finds these, latest change first. */
#define FINDS(words, ...)                                                                          \
        do {                                                                                       \
                const uint64_t want[] = {0, ##__VA_ARGS__};                                        \
                look_for(f, 7, words);                                                             \
                expect(words, want + 1, ARRAY_SIZE(want) - 1);                                     \
        } while (0)

/* SQL on the index, which other connections cannot open, for the owner 7. */
static void index_sql(struct fixture *f, const char *sql) {
        char *msg = NULL;

        f->s->words_owner = 7;
        if (sqlite3_exec(f->s->db, sql, NULL, NULL, &msg) != SQLITE_OK)
                fail_msg("%s: %s", sql, msg);
}

/* So many rows of the index does FTS5 look at for this owner. */
static int64_t n_visited(struct fixture *f, uint64_t owner, const char *word) {
        sqlite3_stmt *st;
        int64_t n;

        f->s->words_owner = owner;
        assert_int_equal(sqlite3_prepare_v2(f->s->db,
                                 "SELECT count(*) FROM search WHERE search MATCH ?", -1, &st, NULL),
                SQLITE_OK);
        assert_int_equal(sqlite3_bind_text(st, 1, word, -1, SQLITE_STATIC), SQLITE_OK);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW);
        n = sqlite3_column_int64(st, 0);
        sqlite3_finalize(st);
        return n;
}

/* Others' words are not even looked at: not those of an owner whose number begins alike, either. */
static void test_owners(void **state) {
        struct fixture *f = *state;

        fixture_of_file(f);
        for (uint64_t owner = 7; owner <= 77; owner += 70)
                fixture_say(f, fixture_conv(f, (uint32_t)owner, "a"), 4, "word 7 o7 oword");
        assert_int_equal(n_visited(f, 7, "wor*"), 1);
        assert_int_equal(n_visited(f, 77, "word"), 1);
        assert_int_equal(n_visited(f, 7, "ow*"), 1);
        assert_int_equal(n_visited(f, 70, "word"), 0);
        assert_int_equal(n_visited(f, 1, "w*"), 0);
}

static void test_words(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "alpha"), b = fixture_conv(f, 7, "beta");
        uint64_t c = fixture_conv(f, 8, "gamma");

        fixture_say(f, a, 4, "Where do owls live?");
        fixture_say(f, b, 4, "In \xc3\x89t\xc3\xa9 they don't; OWLS like barns.");
        fixture_say(f, c, 4, "owls of another user");
        fixture_say(f, a, 4, "They live in trees.");
        FINDS("owls", a, b);
        FINDS("owl", a, b);
        FINDS("OwL", a, b);
        FINDS("wls");
        FINDS("ete", b);
        FINDS("\xc3\xa9t\xc3\xa9", b);
        FINDS("owls live", a);
        FINDS("live owl", a);
        FINDS("owls trees"); /* not in one turn */
        FINDS("don't", b);
        FINDS("don'x");
        FINDS("t don", b); /* each is a word: "they" begins with the first */
        FINDS("like bar", b);
        FINDS("another");
        FINDS("gamma");
        FINDS("alpha", a);
        FINDS("beta owls"); /* the name is a row of its own */
        look_for(f, 8, "owls");
        assert_int_equal(n_rows, 1);
        assert_int_equal(rows[0].conv.id, c);
        /* The newest turn. */
        fixture_say(f, a, 4, "More of owls.");
        look_for(f, 7, "owls");
        assert_true(rows[0].hit.in_turn);
        assert_int_equal(rows[0].hit.turn, 2);
        look_for(f, 7, "alpha");
        assert_false(rows[0].hit.in_turn);
        fixture_expect_sound(f);
}

/* Nothing that is typed is more than words. */
static void test_no_syntax(void **state) {
        static const char *const nothing[] = {
                "\"", "-", "*", "( )", ":", "^", "   ", "\t\n", "+ -", "\"\"", "\xe2\x80\xa6"};
        static const char *const all_there[] = {"NEAR(", "near OR", "or AND", "not",
                "words:", "words : near", "\"near or\"", "near*", "{near}", "^near", "near -not",
                "'near'", "near;--"};
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "a");
        char large[STORE_SEARCH_MAX + 2];

        fixture_say(f, a, 4, "near or and not words");
        for (size_t i = 0; i < ARRAY_SIZE(nothing); i++)
                FINDS(nothing[i]);
        for (size_t i = 0; i < ARRAY_SIZE(all_there); i++)
                FINDS(all_there[i], a);
        FINDS("near OR nothing");
        FINDS("NOT nothing");
        memset(large, 'n', sizeof(large) - 1);
        large[sizeof(large) - 1] = 0;
        assert_int_equal(
                find(f, (struct store_list){.owner = 7, .search = large}, 4), -ERR_INVALID);
        large[STORE_SEARCH_MAX] = 0;
        FINDS(large);
        for (size_t i = 1; i < STORE_SEARCH_MAX; i += 2)
                large[i] = ' ';
        FINDS(large, a);
        assert_int_equal(
                find(f, (struct store_list){.owner = 7, .search = "\xff"}, 4), -ERR_INVALID);
        assert_int_equal(
                find(f, (struct store_list){.owner = OWNER_ANY, .search = "a"}, 4), -ERR_INVALID);
}

/* A long word counts by its beginning, in the text and in the search. */
static void test_long_words(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "a");
        char word[201];

        memset(word, 'x', 200);
        word[200] = 0;
        word[190] = 'y';
        fixture_say(f, a, 4, word);
        FINDS(word, a);
        word[190] = 'z';
        FINDS(word, a);
        word[40] = 'z';
        FINDS(word);
        fixture_expect_sound(f);
}

/* Each way in which texts and names change takes the index along. */
static void test_changes(void **state) {
        const struct about about = {.has = ABOUT_TITLE | ABOUT_TAGS,
                .title = "Of winter",
                .tags = (const char *const[]){"cold"},
                .n_tags = 1};
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "first"), revision;
        struct store_conv child = {.name = "second"}, part = {.name = "third"};
        struct store_turn last = {.role = 1, .start = 4, .end = 6, .text = "brave", .text_size = 5};
        struct store_turn other = {
                .role = 1, .start = 4, .end = 5, .text = "delta", .text_size = 5};
        struct store_gone gone = {};
        const uint32_t ends[] = {1, 2, 3};
        const int32_t tokens[] = {1, 2, 3};
        const struct store_carried carried = {
                .ends = ends, .n_turns = 3, .tokens = tokens, .n_tokens = 3};

        fixture_say(f, a, 4, "alpha");
        fixture_say(f, a, 4, "bravely brisk");
        fixture_say(f, a, 4, "charlie");
        assert_int_equal(store_conv_fork(f->s, a, 3, NULL, NULL, &child, &f->e), 0);
        assert_int_equal(store_conv_fork(f->s, a, 2, &last, NULL, &part, &f->e), 0);
        fixture_expect_sound(f);
        FINDS("alpha", part.id, child.id, a);
        FINDS("bravely", child.id, a);
        FINDS("brave", part.id, child.id, a);
        FINDS("charlie", child.id, a);
        FINDS("second", child.id);
        assert_int_equal(store_rewind(f->s, child.id, 1, NULL, NULL, &revision, &gone, &f->e), 0);
        FINDS("charlie", a);
        FINDS("brisk", a);
        assert_int_equal(store_rewind(f->s, a, 2, &last, NULL, &revision, &gone, &f->e), 0);
        FINDS("charlie");
        FINDS("brisk");
        FINDS("brave", a, part.id);
        assert_int_equal(store_replace(f->s, a, 1, NULL, NULL, &other, 1, tokens, 1, &revision,
                                 &gone, &f->e),
                0);
        FINDS("brave", part.id);
        FINDS("delta", a);
        fixture_say(f, a, 4, "echo");
        assert_int_equal(store_carry(f->s, a, &carried, &revision, &gone, &f->e), 0);
        FINDS("echo", a);
        fixture_expect_sound(f);
        assert_int_equal(store_conv_update(f->s, a, "renamed", NULL, STORE_OVERFLOW_KEEP, NULL,
                                 &about, &f->e),
                0);
        FINDS("first");
        FINDS("renamed winter cold", a);
        assert_int_equal(store_conv_update(f->s, a, NULL, NULL, STORE_OVERFLOW_KEEP, NULL,
                                 &(struct about){.has = ABOUT_TAGS}, &f->e),
                0);
        FINDS("cold");
        FINDS("winter", a);
        fixture_reopen(f);
        FINDS("winter", a);
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), 0);
        FINDS("winter");
        FINDS("delta");
        FINDS("alpha", child.id, part.id);
        fixture_expect_sound(f);
        store_gone_deinit(&gone);
}

/* Pages, by time of change; with a tag. */
static void test_pages(void **state) {
        const struct about about = {
                .has = ABOUT_TAGS, .tags = (const char *const[]){"t"}, .n_tags = 1};
        struct fixture *f = *state;
        struct store_list list = {.owner = 7, .search = "word"};
        uint64_t want = 9;

        for (int i = 1; i <= 9; i++) {
                uint64_t id = fixture_conv(f, 7, (char[]){(char)('a' + i), 0});

                fixture_say(f, id, 4, i % 3 ? "a word" : "nothing");
                if (i % 2)
                        assert_int_equal(store_conv_update(f->s, id, NULL, NULL,
                                                 STORE_OVERFLOW_KEEP, NULL, &about, &f->e),
                                0);
        }
        fixture_sql(f, "UPDATE conversation SET updated_usec = id % 4");
        /* 7, 2, 5, 1, 8, 4 in falling (time, id): 3: 7; 2: 2; 1: 5, 1; 0: 8, 4 */
        {
                static const uint64_t order[] = {7, 2, 5, 1, 8, 4};
                size_t at = 0;

                do {
                        assert_int_equal(find(f, list, 2), 0);
                        assert_int_equal(n_rows, 2);
                        assert_int_equal(rows[0].conv.id, order[at]);
                        assert_int_equal(rows[1].conv.id, order[at + 1]);
                        at += 2;
                        assert_int_equal(more, at < 6);
                        list.goes_on = true;
                        list.after = (struct store_list_place){
                                rows[1].conv.updated_usec, rows[1].conv.id};
                } while (at < 6);
        }
        list.goes_on = false;
        list.tag = "t";
        assert_int_equal(find(f, list, MAX), 0);
        expect("word", (const uint64_t[]){7, 5, 1}, 3);
        want = n_rows;
        assert_int_equal(want, 3);
}

static void expect_snippet(struct fixture *f, const char *words, const char *want) {
        look_for(f, 7, words);
        assert_int_equal(n_rows, 1);
        assert_string_equal(snippet, want);
}

static void test_snippets(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "called");
        char text[2000] = "";

        fixture_say(f, a, 4, "One\ntwo\x01 three");
        expect_snippet(f, "three", "One two  three");
        expect_snippet(f, "call", "called  ");
        for (int i = 0; i < 100; i++)
                strcat(text, "\xc3\xa9\xc3\xa9\xc3\xa9 ");
        strcat(text, "needle ");
        for (int i = 0; i < 100; i++)
                strcat(text, "\xe2\x82\xac\xe2\x82\xac ");
        fixture_say(f, a, 4, text);
        for (int shift = 0; shift < 4; shift++) {
                look_for(f, 7, "NEEDLE");
                assert_int_equal(n_rows, 1);
                assert_true(strlen(snippet) <= 170);
                assert_true(utf8_valid(snippet, strlen(snippet)));
                assert_non_null(strstr(snippet, " needle "));
                assert_int_equal(strncmp(snippet, "\xe2\x80\xa6", 3), 0);
                text[0] = 'x';
                memmove(text + 1, text, strlen(text) + 1);
                fixture_say(f, a, 4, text);
        }
        /* Bytes that are no text. */
        {
                struct store_turn t = {
                        .role = 3, .text = "\xff\xfe kernel \x00 \xc3", .text_size = 13};
                struct store_conv c;
                int32_t token = 1;
                uint64_t revision;

                assert_int_equal(store_conv_get(f->s, 7, a, NULL, &c, &f->e), 0);
                t.start = c.n_tokens;
                t.end = t.start + 1;
                assert_int_equal(store_append(f->s, a, &t, 1, &token, 1, &revision, &f->e), 0);
                look_for(f, 7, "kernel");
                assert_int_equal(n_rows, 1);
                assert_true(utf8_valid(snippet, strlen(snippet)));
                assert_non_null(strstr(snippet, "kernel"));
        }
        fixture_expect_sound(f);
}

/* --- what is left of words --- */

static bool file_has(const char *path, const char *word) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        char *data;
        bool has;

        if (fd < 0)
                return false;
        assert_int_equal(fstat(fd, &st), 0);
        data = malloc((size_t)st.st_size + 1);
        assert_non_null(data);
        assert_int_equal(file_pread(fd, data, (size_t)st.st_size, 0, NULL), 0);
        has = memmem(data, (size_t)st.st_size, word, strlen(word)) != NULL;
        free(data);
        close(fd);
        return has;
}

static bool is_left(struct fixture *f, const char *word) {
        char log[128];

        snprintf(log, sizeof(log), "%s-wal", f->path);
        return file_has(f->path, word) || file_has(log, word);
}

/* As the daemon does: again until nothing is left to do. */
static void scrub(struct fixture *f) {
        int r;

        while ((r = store_scrub(f->s, &f->e)) > 0)
                ;
        assert_int_equal(r, 0);
}

/* A part of a word that no other shares; the index may store less of its beginning. */
#define SECRET "qzjxkvwy"

static uint64_t make_secret(struct fixture *f, const char *name) {
        uint64_t id = fixture_conv(f, 7, name);

        for (int i = 0; i < 30; i++)
                fixture_say(f, id, 4, "common words that stay and some more of them");
        fixture_say(f, id, 4, "the word is m" SECRET " and is common");
        return id;
}

static void expect_gone(struct fixture *f) {
        assert_true(is_left(f, SECRET));
        scrub(f);
        assert_false(is_left(f, SECRET));
        fixture_expect_sound(f);
        look_for(f, 7, "common");
        assert_true(n_rows > 0);
}

static void test_removed_words_are_gone(void **state) {
        const struct about title = {.has = ABOUT_TITLE, .title = "m" SECRET};
        const struct about none = {.has = ABOUT_TITLE, .title = ""};
        struct fixture *f = *state;
        uint64_t keep, id, revision;
        struct store_turn last = {
                .role = 1, .start = 120, .end = 122, .text = "the", .text_size = 3};
        struct store_gone gone = {};

        fixture_of_file(f);
        keep = make_secret(f, "keep");
        assert_int_equal(store_rewind(f->s, keep, 30, NULL, NULL, &revision, &gone, &f->e), 0);
        expect_gone(f);
        id = make_secret(f, "closed");
        assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
        expect_gone(f);
        id = make_secret(f, "cut");
        assert_int_equal(store_rewind(f->s, id, 31, &last, NULL, &revision, &gone, &f->e), 0);
        expect_gone(f);
        assert_int_equal(
                store_conv_update(f->s, id, NULL, NULL, STORE_OVERFLOW_KEEP, NULL, &title, &f->e),
                0);
        scrub(f);
        assert_true(is_left(f, SECRET));
        assert_int_equal(
                store_conv_update(f->s, id, NULL, NULL, STORE_OVERFLOW_KEEP, NULL, &none, &f->e),
                0);
        expect_gone(f);
        store_gone_deinit(&gone);
}

/* A stop before the words were merged away: the next start knows of them. */
static void test_stop_before_they_are_gone(void **state) {
        struct fixture *f = *state;
        uint64_t id;
        struct store_gone gone = {};

        fixture_of_file(f);
        make_secret(f, "a");
        id = make_secret(f, "b");
        assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
        assert_int_equal(store_conv_delete(f->s, 1, &gone, &f->e), 0);
        fixture_conv(f, 7, "common");
        fixture_reopen(f);
        expect_gone(f);
        assert_int_equal(
                fixture_count(f, "SELECT count(*) FROM meter WHERE name LIKE 'search_%ing' OR name "
                                 "= 'search_removed'"),
                0);
}

/* --- damage --- */

static unsigned n_findings(struct fixture *f) {
        struct fixture_findings x = {};
        struct store_census census;

        assert_int_equal(store_check(f->s, fixture_note, &x, &census, &f->e), 0);
        return x.n;
}

/* It is made again if another library made it, or if it is known to be damaged. */
static void test_made_again(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "name");

        fixture_of_file(f);
        fixture_say(f, a, 4, "word");
        for (int i = 0; i < 2; i++) {
                index_sql(f, "INSERT INTO search (search) VALUES ('delete-all')");
                f->s = store_free(f->s);
                fixture_sql(f, i ? "INSERT INTO meter VALUES ('search_broken', 1)"
                                 : "UPDATE meter SET value = 1 WHERE name = 'search_version'");
                fixture_open(f);
                FINDS("word", a);
                FINDS("name", a);
                fixture_expect_sound(f);
        }
}

/* The check finds what is missing and what is too much. */
static void test_check(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "name");

        fixture_of_file(f);
        fixture_say(f, a, 4, "one word");
        fixture_say(f, a, 4, "another");
        fixture_expect_sound(f);
        index_sql(f, "INSERT INTO search (search, rowid, words) VALUES ('delete', 16777217, "
                     "'one word')");
        assert_int_equal(n_findings(f), 1);
        index_sql(f, "INSERT INTO search (rowid, words) VALUES (16777217, 'one word')");
        fixture_expect_sound(f);
        index_sql(f, "INSERT INTO search (rowid, words) VALUES (16777219, 'wrong')");
        assert_int_equal(n_findings(f), 1);
        index_sql(f, "INSERT INTO search (search, rowid, words) VALUES ('delete', 16777219, "
                     "'wrong'); INSERT INTO search (rowid, words) VALUES (33554432, 'x')");
        assert_int_equal(n_findings(f), 1);
        index_sql(f, "INSERT INTO search (search, rowid, words) VALUES ('delete', 33554432, "
                     "'x'); INSERT INTO search (search, rowid, words) VALUES ('delete', "
                     "16777218, 'another'); INSERT INTO search (rowid, words) VALUES "
                     "(16777218, 'other')");
        assert_int_equal(n_findings(f), 1);
}

/* A damaged index fails searches, and nothing else: what is said is kept. The next start makes it again. */
static void test_damaged_index(void **state) {
        struct fixture *f = *state;
        uint64_t a = fixture_conv(f, 7, "name"), revision;
        struct store_gone gone = {};
        int r;

        fixture_of_file(f);
        for (int i = 0; i < 20; i++)
                fixture_say(f, a, 4, "some words here");
        fixture_reopen(f);
        fixture_sql(f, "UPDATE search_data SET block = x'ffffffffffffffff'");
        for (int i = 0; i < 4; i++) {
                struct store_turn t = {.role = 1,
                        .start = 80 + 4 * (uint32_t)i,
                        .end = 84 + 4 * (uint32_t)i,
                        .text = "kept word",
                        .text_size = 9};
                int32_t tokens[4] = {1, 2, 3, 4};

                r = store_append(f->s, a, &t, 1, tokens, 4, &revision, &f->e);
                /* The engine tries again what is "busy". */
                if (r == -ERR_BUSY)
                        r = store_append(f->s, a, &t, 1, tokens, 4, &revision, &f->e);
                if (r < 0)
                        fail_msg("%s", f->e.msg);
        }
        assert_int_equal(
                find(f, (struct store_list){.owner = 7, .search = "word"}, MAX), -ERR_CORRUPT);
        assert_int_equal(store_rewind(f->s, a, 23, NULL, NULL, &revision, &gone, &f->e), 0);
        while (store_scrub(f->s, &f->e) > 0)
                ;
        fixture_reopen(f);
        look_for(f, 7, "kept");
        assert_int_equal(n_rows, 1);
        assert_int_equal(rows[0].hit.turn, 22);
        fixture_expect_sound(f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_owners),
                store_test(test_words),
                store_test(test_no_syntax),
                store_test(test_long_words),
                store_test(test_changes),
                store_test(test_pages),
                store_test(test_snippets),
                store_test(test_removed_words_are_gone),
                store_test(test_stop_before_they_are_gone),
                store_test(test_made_again),
                store_test(test_check),
                store_test(test_damaged_index),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
