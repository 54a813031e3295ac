/* SPDX-License-Identifier: MIT */
/* Limits in the register, and the numbers that they limit: right whatever changed them. */
#include "base/owner.h"
#include "store-fixture.h"

static void expect(struct fixture *f, uint64_t owner, uint64_t n_conversations, uint64_t n_tokens) {
        struct store_usage u = {.day = 77};

        assert_int_equal(store_usage(f->s, owner, &u, &f->e), 0);
        assert_int_equal(u.n_conversations, n_conversations);
        assert_int_equal(u.n_tokens, n_tokens);
        assert_int_equal(u.day, 0);
}

static void rewind_to(struct fixture *f, uint64_t id, uint32_t n_turns) {
        struct store_gone gone = {};
        uint64_t revision;

        assert_int_equal(store_rewind(f->s, id, n_turns, NULL, NULL, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
}

static uint64_t fork_of(struct fixture *f, uint64_t id, uint32_t n_turns) {
        struct store_conv child = {};

        assert_int_equal(store_conv_fork(f->s, id, n_turns, NULL, NULL, &child, &f->e), 0);
        return child.id;
}

static void test_usage(void **state) {
        static const uint32_t ends[] = {3, 4};
        const int32_t tokens[] = {1, 2, 3, 4};
        const struct store_carried carried = {
                .vocab = 9, .ends = ends, .n_turns = 2, .tokens = tokens, .n_tokens = 4};
        struct fixture *f = *state;
        const struct store_turn first = {.end = 3, .text = ""};
        struct store_conv made = {};
        struct store_gone gone = {};
        uint64_t a, b, revision;
        uint32_t number;

        assert_int_equal(store_tenant(f->s, 1000, "pat", 1, &number, &f->e), 0);
        made.owner = owner_make(1000, number);
        expect(f, 1000, 0, 0);
        a = fixture_conv(f, 1000, "a");
        expect(f, 1000, 1, 0);
        fixture_say(f, a, 10, "x");
        fixture_say(f, a, 7, "y");
        expect(f, 1000, 1, 17);
        b = fork_of(f, a, 1);
        expect(f, 1000, 2, 27);
        rewind_to(f, a, 1);
        expect(f, 1000, 2, 20);
        fixture_say(f, b, 1, "z");
        assert_int_equal(store_carry(f->s, b, &carried, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        expect(f, 1000, 2, 14);
        /* A tenant has its own. */
        expect(f, made.owner, 0, 0);
        assert_int_equal(store_conv_create(f->s, &made, &first, 1, tokens, 3, &f->e), 0);
        expect(f, made.owner, 1, 3);
        expect(f, 1000, 2, 14);
        fixture_reopen(f);
        expect(f, made.owner, 1, 3);
        fixture_expect_sound(f);
        assert_int_equal(store_conv_delete(f->s, b, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        expect(f, 1000, 1, 10);
        assert_int_equal(store_conv_expire(f->s, a, UINT64_MAX, &gone, &f->e), -ERR_STATE);
        expect(f, 1000, 1, 10);
        fixture_expect_sound(f);
}

/* A turn whose transaction fails counts nothing. */
static void test_failed(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a"), revision;
        const struct store_work work = {.day = 5, .n_tokens = 40};
        const struct store_turn gap = {.start = 3, .end = 4, .text = "", .work = &work};
        const int32_t token = 1;

        assert_int_equal(
                store_append(f->s, id, &gap, 1, &token, 1, &revision, &f->e), -ERR_INVALID);
        expect(f, 1, 1, 0);
}

static void expect_day(struct fixture *f, uint64_t owner, uint64_t day, uint64_t n) {
        struct store_usage u;

        assert_int_equal(store_usage(f->s, owner, &u, &f->e), 0);
        assert_int_equal(u.day, day);
        assert_int_equal(u.day_tokens, n);
}

static void work(struct fixture *f, uint64_t owner, uint64_t day, uint64_t n) {
        const struct store_work w = {.day = day, .n_tokens = n};

        assert_int_equal(store_work(f->s, owner, &w, &f->e), 0);
}

static void test_work(void **state) {
        struct fixture *f = *state;
        uint64_t id, revision;
        const struct store_work with_turn = {.day = 20, .n_tokens = 40};
        const struct store_turn turn = {.end = 1, .text = "", .work = &with_turn};
        const int32_t token = 1;

        work(f, 7, 20, 5);
        work(f, 7, 20, 6);
        work(f, 7, 20, 0);
        expect_day(f, 7, 20, 11);
        id = fixture_conv(f, 7, "a");
        assert_int_equal(store_append(f->s, id, &turn, 1, &token, 1, &revision, &f->e), 0);
        expect_day(f, 7, 20, 51);
        expect_day(f, 8, 0, 0);
        fixture_reopen(f);
        expect_day(f, 7, 20, 51);
        /* Another day, and a clock that was set back. */
        work(f, 7, 21, 1);
        expect_day(f, 7, 21, 1);
        work(f, 7, 19, 2);
        expect_day(f, 7, 19, 2);
        fixture_expect_sound(f);
}

static void test_tidy(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 3, "a");
        struct fixture_findings found = {};
        struct store_census census;

        fixture_say(f, id, 12, "x");
        work(f, 3, 20, 1);
        work(f, 4, 20, 1);
        work(f, 5, 21, 1);
        assert_int_equal(store_usage_tidy(f->s, 21, &f->e), 0);
        expect_day(f, 3, 20, 1);
        expect_day(f, 4, 0, 0);
        expect_day(f, 5, 21, 1);
        /* A file that was damaged, which fsck tells of. */
        fixture_sql(f, "UPDATE usage SET n_tokens = 9999 WHERE owner = 3;"
                       "UPDATE usage SET n_conversations = 8 WHERE owner = 5;");
        assert_int_equal(store_check(f->s, fixture_note, &found, &census, &f->e), 0);
        assert_int_equal(census.n_findings, 1);
        assert_non_null(strstr(found.first, "count of an owner's"));
        assert_int_equal(store_usage_tidy(f->s, 21, &f->e), 0);
        fixture_expect_sound(f);
        fixture_sql(f, "DELETE FROM usage");
        assert_int_equal(store_usage_tidy(f->s, 21, &f->e), 0);
        fixture_expect_sound(f);
        expect(f, 3, 1, 12);
}

static const struct quota_subject user = {QUOTA_OF_USER, 1000, ""},
                                  group = {QUOTA_OF_GROUP, 1000, ""},
                                  tenants = {QUOTA_OF_TENANTS, 1000, ""},
                                  tenant = {QUOTA_OF_TENANT, 1000, "pat"};

static int change(
        struct fixture *f, const struct quota_subject *subject, enum quota quota, uint64_t value) {
        const struct store_override_change c = {.quota = quota, .value = value};

        return store_overrides_change(f->s, subject, &c, 1, &f->e);
}

static void test_overrides(void **state) {
        struct fixture *f = *state;
        const struct store_override_change clear[] = {
                {.quota = QUOTA_RAM, .value = 0}, {.quota = QUOTA_TOKENS, .clear = true}};
        struct quota_override *all = NULL;
        size_t n = 77;

        assert_int_equal(store_overrides(f->s, &all, &n, &f->e), 0);
        assert_int_equal(n, 0);
        free(all);
        assert_int_equal(change(f, &tenant, QUOTA_TOKENS, 5), 0);
        assert_int_equal(change(f, &user, QUOTA_TOKENS, 1ull << 60), 0);
        assert_int_equal(change(f, &group, QUOTA_CONVERSATIONS, QUOTA_NONE), 0);
        assert_int_equal(change(f, &tenants, QUOTA_TOKENS, 6), 0);
        assert_int_equal(change(f, &tenants, QUOTA_TOKENS, 7), 0);
        fixture_reopen(f);
        assert_int_equal(store_overrides(f->s, &all, &n, &f->e), 0);
        assert_int_equal(n, 4);
        for (size_t i = 0; i < n; i++) {
                const struct quota_override *o = &all[i];

                assert_int_equal(o->subject.number, 1000);
                assert_string_equal(
                        o->subject.label, o->subject.kind == QUOTA_OF_TENANT ? "pat" : "");
                assert_int_equal(o->value, o->subject.kind == QUOTA_OF_TENANT    ? 5
                                           : o->subject.kind == QUOTA_OF_TENANTS ? 7
                                           : o->subject.kind == QUOTA_OF_USER    ? 1ull << 60
                                                                                 : QUOTA_NONE);
                assert_int_equal(o->quota,
                        o->subject.kind == QUOTA_OF_GROUP ? QUOTA_CONVERSATIONS : QUOTA_TOKENS);
        }
        free(all);
        /* All changes of a call, and what is not there can be cleared. */
        assert_int_equal(store_overrides_change(f->s, &tenants, clear, 2, &f->e), 0);
        assert_int_equal(store_overrides_change(f->s, &tenants, clear + 1, 1, &f->e), 0);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM quota WHERE kind = 'tenants' AND "
                                          "name = 'ram-share-per-user' AND value = 0"),
                1);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM quota"), 4);
}

static void test_refused(void **state) {
        const struct quota_subject unnamed = {QUOTA_OF_TENANT, 1, ""},
                                   named = {QUOTA_OF_USER, 1, "pat"},
                                   bytes = {QUOTA_OF_TENANT, 1, "\xff"};
        const struct store_override_change many[] = {{.quota = QUOTA_RAM}, {.quota = QUOTA_DISK}};
        struct fixture *f = *state;
        struct quota_override *all = NULL;
        size_t n;

        assert_int_equal(change(f, &unnamed, QUOTA_RAM, 1), -ERR_INVALID);
        assert_int_equal(change(f, &named, QUOTA_RAM, 1), -ERR_INVALID);
        assert_int_equal(change(f, &bytes, QUOTA_RAM, 1), -ERR_INVALID);
        /* As many as there may be, but for one: of two changes none is made. */
        fixture_sql(f, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
                       "i < 65535) INSERT INTO quota SELECT 'user', i, '', 'max-user-tokens', 1 "
                       "FROM n");
        assert_int_equal(store_overrides_change(f->s, &tenant, many, 2, &f->e), -ERR_LIMIT);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM quota"), 65535);
        assert_int_equal(store_overrides_change(f->s, &tenant, many, 1, &f->e), 0);
        assert_int_equal(change(f, &tenant, QUOTA_RAM, 3), 0);
        assert_int_equal(store_overrides(f->s, &all, &n, &f->e), 0);
        assert_int_equal(n, 65536);
        free(all);
        /* Words that this version does not know limit nothing. */
        fixture_sql(f, "DELETE FROM quota; INSERT INTO quota VALUES "
                       "('user', 1, '', 'max-dreams', 1), ('user', 1, '', 'max-user-tokens', 2)");
        assert_int_equal(store_overrides(f->s, &all, &n, &f->e), 0);
        assert_int_equal(n, 1);
        assert_int_equal(all[0].value, 2);
        free(all);
        fixture_sql(f, "UPDATE quota SET value = -4 WHERE name = 'max-user-tokens'");
        assert_int_equal(store_overrides(f->s, &all, &n, &f->e), -ERR_CORRUPT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_usage),
                store_test(test_failed),
                store_test(test_work),
                store_test(test_tidy),
                store_test(test_overrides),
                store_test(test_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
