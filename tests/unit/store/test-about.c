/* SPDX-License-Identifier: MIT */
/* What is noted about conversations: title, tags, metadata, session, expiry. */
#include "base/util.h"
#include "store-fixture.h"

static const char *const two_tags[] = {"work", "\xc3\xa9t\xc3\xa9"};

static const struct about everything = {
        .has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA | ABOUT_SESSION | ABOUT_EXPIRES,
        .title = "A title, of \xe2\x82\xac 5",
        .tags = two_tags,
        .n_tags = 2,
        .metadata = "{\"a\": [1, {\"b\": null}]}",
        .session = "window 7",
        .expires_after = 3600};

static int create(struct fixture *f, const char *name, const struct about *about, uint64_t *ret) {
        struct store_conv c = {.owner = 7, .about = about};
        int r;

        snprintf(c.name, sizeof(c.name), "%s", name);
        r = store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e);
        if (r == 0)
                *ret = c.id;
        return r;
}

static bool equal(const struct about *a, const struct about *b) {
        bool same = a->has == b->has && a->expires_after == b->expires_after &&
                    a->n_tags == b->n_tags && strcmp(a->title, b->title) == 0 &&
                    strcmp(a->metadata, b->metadata) == 0 && strcmp(a->session, b->session) == 0;

        for (size_t i = 0; same && i < a->n_tags; i++)
                same = strcmp(a->tags[i], b->tags[i]) == 0;
        return same;
}

/* @want NULL: nothing is noted. */
static void expect(struct fixture *f, uint64_t id, const struct about *want) {
        struct about *got = NULL;

        assert_int_equal(store_about(f->s, id, NULL, NULL, &got, &f->e), 0);
        assert_int_equal(got != NULL, want != NULL);
        if (want)
                assert_true(equal(got, want));
        free(got);
}

static int update(struct fixture *f, uint64_t id, const struct about *about) {
        return store_conv_update(f->s, id, NULL, NULL, STORE_OVERFLOW_KEEP, NULL, about, &f->e);
}

static void test_is_kept(void **state) {
        struct fixture *f = *state;
        uint64_t id, bare;

        assert_int_equal(create(f, "a", &everything, &id), 0);
        assert_int_equal(create(f, "bare", NULL, &bare), 0);
        expect(f, id, &everything);
        expect(f, bare, NULL);
        fixture_reopen(f);
        expect(f, id, &everything);
        assert_int_equal(store_about(f->s, 99, NULL, NULL, NULL, &f->e), -ERR_NOT_FOUND);
        fixture_expect_sound(f);
}

/* Fields that are not set stay; empty ones are removed; the revision stays. */
static void test_update(void **state) {
        static const char *const other[] = {"b", "a", "B"};
        const struct about tags = {.has = ABOUT_TAGS, .tags = other, .n_tags = 3};
        const struct about title = {.has = ABOUT_TITLE, .title = "new"};
        const struct about none = {
                .has = everything.has, .title = "", .metadata = "", .session = ""};
        struct fixture *f = *state;
        struct about now = everything;
        struct store_conv c, before;
        uint64_t id;

        assert_int_equal(create(f, "a", &everything, &id), 0);
        assert_int_equal(store_conv_get(f->s, 7, id, NULL, &before, &f->e), 0);
        assert_int_equal(update(f, id, &tags), 0);
        now.tags = other;
        now.n_tags = 3;
        expect(f, id, &now);
        assert_int_equal(update(f, id, &title), 0);
        now.title = "new";
        expect(f, id, &now);
        assert_int_equal(update(f, id, &(struct about){}), 0);
        expect(f, id, &now);
        assert_int_equal(store_conv_get(f->s, 7, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.revision, before.revision);
        assert_true(c.updated_usec > before.updated_usec);
        fixture_expect_sound(f);
        assert_int_equal(update(f, id, &none), 0);
        expect(f, id, NULL);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM tag"), 0);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM conversation WHERE title IS NULL "
                                          "AND metadata IS NULL AND session IS NULL"),
                1);
        fixture_expect_sound(f);
}

/* A fork has title, tags and metadata, unless others are given; never session and expiry. */
static void test_fork(void **state) {
        struct fixture *f = *state;
        const struct about given = {
                .has = ABOUT_TITLE | ABOUT_SESSION, .title = "branch", .session = "other"};
        const struct about no_tags = {.has = ABOUT_TAGS};
        struct store_conv plain = {.name = "plain"}, c = {.name = "c", .about = &given},
                          bare = {.name = "bare", .about = &no_tags};
        struct about want = everything;
        uint64_t id;

        assert_int_equal(create(f, "a", &everything, &id), 0);
        fixture_say(f, id, 4, "x");
        assert_int_equal(store_conv_fork(f->s, id, 1, NULL, NULL, &plain, &f->e), 0);
        want.has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA;
        want.session = "";
        want.expires_after = 0;
        expect(f, plain.id, &want);
        assert_int_equal(store_conv_fork(f->s, id, 1, NULL, NULL, &c, &f->e), 0);
        want.has |= ABOUT_SESSION;
        want.title = "branch";
        want.session = "other";
        expect(f, c.id, &want);
        assert_int_equal(store_conv_fork(f->s, id, 1, NULL, NULL, &bare, &f->e), 0);
        want.has = ABOUT_TITLE | ABOUT_METADATA;
        want.title = everything.title;
        want.session = "";
        want.n_tags = 0;
        expect(f, bare.id, &want);
        expect(f, id, &everything);
        fixture_expect_sound(f);
}

/* Tags go with their conversation, and have its time of change after each change. */
static void test_tags_follow(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};
        uint64_t id, other, revision;

        assert_int_equal(create(f, "a", &everything, &id), 0);
        assert_int_equal(create(f, "b", &everything, &other), 0);
        fixture_say(f, id, 4, "x");
        fixture_expect_sound(f);
        assert_int_equal(store_rewind(f->s, id, 0, NULL, NULL, &revision, &gone, &f->e), 0);
        fixture_expect_sound(f);
        assert_int_equal(
                store_conv_update(f->s, id, "c", NULL, STORE_OVERFLOW_SHIFT, NULL, NULL, &f->e), 0);
        fixture_expect_sound(f);
        expect(f, id, &everything);
        assert_int_equal(store_conv_delete(f->s, id, &gone, &f->e), 0);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM tag"), 2);
        expect(f, other, &everything);
        fixture_expect_sound(f);
}

static char *repeat(const char *s, size_t n) {
        char *all = calloc(n, strlen(s) + 1);

        for (size_t i = 0; i < n; i++)
                strcat(all, s);
        return all;
}

static void refuse(struct fixture *f, uint64_t id, struct about a, const char *word) {
        uint64_t made = 0;

        assert_int_equal(update(f, id, &a), -ERR_INVALID);
        if (!strstr(f->e.msg, word))
                fail_msg("'%s' does not name '%s'", f->e.msg, word);
        assert_int_equal(create(f, "new", &a, &made), -ERR_INVALID);
}

/* The longest are taken; what is longer or malformed is refused, with the field's name. */
static void test_borders(void **state) {
        struct fixture *f = *state;
        _cleanup_(freep) char *title = repeat("t", ABOUT_TITLE_MAX + 1);
        _cleanup_(freep) char *session = repeat("s", ABOUT_SESSION_MAX + 1);
        _cleanup_(freep) char *tag = repeat("g", ABOUT_TAG_MAX + 1);
        _cleanup_(freep) char *metadata = repeat(" ", ABOUT_METADATA_MAX + 1);
        const char *tags[ABOUT_TAGS_MAX + 1], *twice[] = {"a", "b", "a"}, *empty[] = {""};
        char names[ABOUT_TAGS_MAX + 1][ABOUT_TAG_MAX + 1];
        uint64_t id;

        assert_int_equal(create(f, "a", &everything, &id), 0);
        for (int i = 0; i <= ABOUT_TAGS_MAX; i++) {
                snprintf(names[i], sizeof(names[i]), "%0*d", ABOUT_TAG_MAX, i);
                tags[i] = names[i];
        }
        memcpy(metadata, "{}", 2);
        refuse(f, id, (struct about){.has = ABOUT_TITLE, .title = title}, "title");
        refuse(f, id, (struct about){.has = ABOUT_TITLE, .title = "a\nb"}, "title");
        refuse(f, id, (struct about){.has = ABOUT_TITLE, .title = "\xc2\x85"}, "title");
        refuse(f, id, (struct about){.has = ABOUT_TITLE, .title = "\xff"}, "title");
        refuse(f, id, (struct about){.has = ABOUT_SESSION, .session = session}, "session");
        refuse(f, id, (struct about){.has = ABOUT_METADATA, .metadata = metadata}, "metadata");
        refuse(f, id, (struct about){.has = ABOUT_METADATA, .metadata = "[]"}, "metadata");
        refuse(f, id, (struct about){.has = ABOUT_METADATA, .metadata = "{\"a\":}"}, "metadata");
        refuse(f, id, (struct about){.has = ABOUT_METADATA, .metadata = "{} {}"}, "metadata");
        refuse(f, id,
                (struct about){.has = ABOUT_TAGS, .tags = (const char *const *)&tag, .n_tags = 1},
                "tag");
        refuse(f, id, (struct about){.has = ABOUT_TAGS, .tags = tags, .n_tags = ABOUT_TAGS_MAX + 1},
                "tags");
        refuse(f, id, (struct about){.has = ABOUT_TAGS, .tags = twice, .n_tags = 3}, "'a'");
        refuse(f, id, (struct about){.has = ABOUT_TAGS, .tags = empty, .n_tags = 1}, "tag");
        expect(f, id, &everything);
        title[ABOUT_TITLE_MAX] = session[ABOUT_SESSION_MAX] = metadata[ABOUT_METADATA_MAX] = 0;
        {
                const struct about most = {.has = everything.has,
                        .title = title,
                        .tags = tags,
                        .n_tags = ABOUT_TAGS_MAX,
                        .metadata = metadata,
                        .session = session,
                        .expires_after = UINT32_MAX};

                assert_int_equal(update(f, id, &most), 0);
                fixture_reopen(f);
                expect(f, id, &most);
        }
        fixture_expect_sound(f);
}

static int admit(void *arg, size_t n, struct err *e) {
        size_t *most = arg;

        return n > *most ? err_set(e, ERR_LIMIT, "%zu bytes are too many", n) : 0;
}

/* The block's size is asked for before it is allocated. */
static void test_is_charged(void **state) {
        struct fixture *f = *state;
        size_t size = about_size(&everything);
        struct about *got = NULL;
        uint64_t id;

        assert_int_equal(create(f, "a", &everything, &id), 0);
        size--;
        assert_int_equal(store_about(f->s, id, admit, &size, &got, &f->e), -ERR_LIMIT);
        assert_null(got);
        size++;
        assert_int_equal(store_about(f->s, id, admit, &size, &got, &f->e), 0);
        free(got);
}

static unsigned n_findings(struct fixture *f) {
        struct fixture_findings x = {};
        struct store_census census;

        assert_int_equal(store_check(f->s, fixture_note, &x, &census, &f->e), 0);
        return x.n;
}

/* What a program wrote behind the daemon's back is found, and harms nothing else. */
static void test_damage(void **state) {
        struct fixture *f = *state;
        static const char *const damage[] = {
                "UPDATE conversation SET title = x'414200' || 'x' WHERE id = 1",
                "UPDATE conversation SET metadata = CAST(x'7bff7d' AS TEXT) WHERE id = 1",
                "UPDATE conversation SET session = CAST(x'ff' AS TEXT) WHERE id = 1",
                "UPDATE conversation SET expires_after = -1 WHERE id = 1",
                "INSERT INTO tag SELECT 1, 2, 'work', 8, updated_usec FROM conversation",
        };
        struct about *got = NULL;
        struct store_conv c;
        uint64_t id;

        fixture_of_file(f);
        assert_int_equal(create(f, "a", &everything, &id), 0);
        for (size_t i = 0; i < ARRAY_SIZE(damage); i++) {
                fixture_sql(f, "DELETE FROM tag WHERE n > 1; UPDATE conversation SET title = NULL,"
                               " metadata = NULL, session = NULL, expires_after = 0");
                fixture_expect_sound(f);
                fixture_sql(f, damage[i]);
                assert_int_equal(store_about(f->s, 1, NULL, NULL, &got, &f->e), -ERR_CORRUPT);
                assert_int_equal(store_conv_get(f->s, 7, 1, NULL, &c, &f->e), 0);
                assert_int_not_equal(n_findings(f), 0);
        }
        fixture_sql(f, "DELETE FROM tag WHERE n > 1; UPDATE conversation SET metadata = '[]'");
        assert_int_equal(n_findings(f), 1);
        fixture_sql(f, "UPDATE conversation SET metadata = '{}'");
        fixture_expect_sound(f);
        fixture_sql(f, "UPDATE tag SET updated_usec = updated_usec + 1 WHERE n = 0");
        assert_int_equal(n_findings(f), 1);
        fixture_sql(f, "UPDATE tag SET updated_usec = updated_usec - 1 WHERE n = 0;"
                       "PRAGMA foreign_keys = OFF; INSERT INTO tag VALUES (9, 0, 'x', 7, 1)");
        assert_int_equal(n_findings(f), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_is_kept),
                store_test(test_update),
                store_test(test_fork),
                store_test(test_tags_follow),
                store_test(test_borders),
                store_test(test_is_charged),
                store_test(test_damage),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
