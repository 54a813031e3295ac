/* SPDX-License-Identifier: MIT */
/* Which limit holds for whom, the table of overrides, what a refusal says, and the groups of users. */
#include "base/err.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/util.h"
#include "daemon/groups.h"
#include "daemon/quotas.h"
#include "daemon/settings.h"
#include "daemon/users.h"
#include "util/test.h"
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct quota_subject user = {QUOTA_OF_USER, 7, ""}, group = {QUOTA_OF_GROUP, 7, ""},
                                  other_group = {QUOTA_OF_GROUP, 5, ""},
                                  tenants = {QUOTA_OF_TENANTS, 7, ""},
                                  pat = {QUOTA_OF_TENANT, 7, "pat"},
                                  patty = {QUOTA_OF_TENANT, 7, "patty"};

static struct settings settings(void) {
        struct settings s = SETTINGS_NULL;

        assert_int_equal(settings_init(&s, NULL), 0);
        return s;
}

static void change(struct quota_rules *rules, const struct quota_subject *subject, enum quota quota,
        bool clear, uint64_t value) {
        struct quota_change c = {.subject = *subject};

        c.overrides[quota] = (struct engine_override){.is = true, .clear = clear, .value = value};
        assert_int_equal(quota_change_prepare(rules, &c, NULL), 0);
        quota_change_apply(rules, &c);
        for (size_t i = 0; i < QUOTA_N; i++)
                free(c.labels[i]);
}

static void set(struct quota_rules *rules, const struct quota_subject *subject, uint64_t value) {
        change(rules, subject, QUOTA_TOKENS, false, value);
}

/* The limit on tokens of @subject, whose user is in groups 5 and 7. */
static void expect(const struct quota_rules *rules, const struct settings *s,
        const struct quota_subject *subject, uint64_t value, enum quota_origin origin) {
        const uint32_t gids[] = {9, 7, 5};
        struct quota_limits l;

        quota_resolve(rules, s, subject, gids, subject->kind == QUOTA_OF_GROUP ? 0 : 3, &l);
        assert_int_equal(l.quotas.max[QUOTA_TOKENS], value);
        assert_int_equal(l.origin[QUOTA_TOKENS], origin);
        /* The other limits are the settings'. */
        assert_int_equal(l.origin[QUOTA_REQUESTS], QUOTA_FROM_SETTING);
        assert_int_equal(l.quotas.max[QUOTA_REQUESTS], 64);
        assert_int_equal(l.quotas.max[QUOTA_RAM], QUOTA_NONE);
        assert_int_equal(l.quotas.max[QUOTA_DISK], QUOTA_NONE);
        if (origin == QUOTA_FROM_GROUP)
                assert_true(l.gid[QUOTA_TOKENS] == 7 || l.gid[QUOTA_TOKENS] == 5);
}

static void test_order(void **state) {
        struct quota_rules rules = QUOTA_RULES_NULL;
        struct settings s = settings();
        struct quota_limits l;
        const uint32_t both[] = {7, 5};

        (void)state;
        expect(&rules, &s, &user, QUOTA_NONE, QUOTA_FROM_SETTING);
        s.max_user_tokens = 1000;
        expect(&rules, &s, &user, 1000, QUOTA_FROM_SETTING);
        set(&rules, &group, 10);
        expect(&rules, &s, &user, 10, QUOTA_FROM_GROUP);
        expect(&rules, &s, &pat, 10, QUOTA_FROM_GROUP);
        expect(&rules, &s, &tenants, 10, QUOTA_FROM_GROUP);
        expect(&rules, &s, &group, 10, QUOTA_FROM_GROUP);
        expect(&rules, &s, &other_group, 1000, QUOTA_FROM_SETTING);
        /* The most generous one, and of equal ones the lowest gid, in whatever order they come. */
        set(&rules, &other_group, 9);
        expect(&rules, &s, &user, 10, QUOTA_FROM_GROUP);
        set(&rules, &other_group, 10);
        for (int i = 0; i < 2; i++) {
                quota_resolve(&rules, &s, &user, i ? both : (const uint32_t[]){5, 7}, 2, &l);
                assert_int_equal(l.gid[QUOTA_TOKENS], 5);
        }
        set(&rules, &other_group, QUOTA_NONE);
        expect(&rules, &s, &user, QUOTA_NONE, QUOTA_FROM_GROUP);
        /* What is the owner's own. */
        set(&rules, &user, 3);
        expect(&rules, &s, &user, 3, QUOTA_FROM_USER);
        expect(&rules, &s, &pat, QUOTA_NONE, QUOTA_FROM_GROUP);
        set(&rules, &tenants, 2);
        expect(&rules, &s, &user, 3, QUOTA_FROM_USER);
        expect(&rules, &s, &pat, 2, QUOTA_FROM_TENANTS);
        expect(&rules, &s, &tenants, 2, QUOTA_FROM_TENANTS);
        set(&rules, &pat, 0);
        expect(&rules, &s, &pat, 0, QUOTA_FROM_TENANT);
        expect(&rules, &s, &patty, 2, QUOTA_FROM_TENANTS);
        /* Nobody else has anything of it. */
        expect(&rules, &s, &(struct quota_subject){QUOTA_OF_TENANT, 8, "pat"}, QUOTA_NONE,
                QUOTA_FROM_GROUP);
        quota_resolve(&rules, &s, &(struct quota_subject){QUOTA_OF_USER, 8, ""}, NULL, 0, &l);
        assert_int_equal(l.quotas.max[QUOTA_TOKENS], 1000);
        change(&rules, &pat, QUOTA_TOKENS, true, 0);
        expect(&rules, &s, &pat, 2, QUOTA_FROM_TENANTS);
        change(&rules, &group, QUOTA_TOKENS, true, 0);
        change(&rules, &other_group, QUOTA_TOKENS, true, 0);
        change(&rules, &other_group, QUOTA_TOKENS, true, 0); /* which is not there */
        assert_int_equal(rules.n_groups, 0);
        assert_int_equal(rules.n, 2);
        quota_rules_deinit(&rules);
        settings_deinit(&s);
}

/* Many, against a list without order. */
static void test_table(void **state) {
        enum { N = 400 };
        static uint64_t values[4][8][3];
        static bool there[4][8][3];
        static const char *const labels[] = {"a", "b", "c"};
        struct quota_rules rules = QUOTA_RULES_NULL, again = QUOTA_RULES_NULL;
        struct quota_override *list;
        uint32_t seed = 1;
        size_t n = 0;

        (void)state;
        for (size_t i = 0; i < N; i++) {
                uint32_t kind, number, label;
                bool clear;

                seed = seed * 1103515245 + 12345;
                kind = seed >> 16 & 3;
                number = seed >> 18 & 7;
                label = kind == QUOTA_OF_TENANT ? (seed >> 21 & 3) % 3 : 0;
                clear = seed >> 23 & 1;
                change(&rules,
                        &(struct quota_subject){(enum quota_kind)kind, number,
                                kind == QUOTA_OF_TENANT ? labels[label] : ""},
                        QUOTA_DISK, clear, i);
                there[kind][number][label] = !clear;
                values[kind][number][label] = i;
        }
        for (uint32_t kind = 0; kind < 4; kind++)
                for (uint32_t number = 0; number < 8; number++)
                        for (uint32_t label = 0; label < 3; label++) {
                                struct quota_subject s = {(enum quota_kind)kind, number,
                                        kind == QUOTA_OF_TENANT ? labels[label] : ""};
                                uint64_t value = 0;

                                if (kind != QUOTA_OF_TENANT && label > 0)
                                        continue;
                                n += there[kind][number][label];
                                assert_int_equal(quota_rules_find(&rules, &s, QUOTA_DISK, &value),
                                        there[kind][number][label]);
                                if (there[kind][number][label])
                                        assert_int_equal(value, values[kind][number][label]);
                                assert_false(quota_rules_find(&rules, &s, QUOTA_RAM, &value));
                        }
        assert_int_equal(rules.n, n);
        assert_int_equal(rules.n_promised, 0);
        /* As a start reads them, in any order. */
        list = calloc(n, sizeof(*list));
        assert_non_null(list);
        for (size_t i = 0; i < n; i++)
                list[i] = rules.list[n - 1 - i].o;
        assert_int_equal(quota_rules_load(&again, list, n, NULL), 0);
        assert_int_equal(again.n_groups, rules.n_groups);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(
                        quota_subject_compare(&rules.list[i].o.subject, &again.list[i].o.subject),
                        0);
                assert_int_equal(rules.list[i].o.value, again.list[i].o.value);
        }
        free(list);
        quota_rules_deinit(&again);
        quota_rules_deinit(&rules);
}

/* The names are those of settings, with the settings' most. */
static void test_names(void **state) {
        struct settings s = settings();
        enum quota found;
        struct err e;

        (void)state;
        for (size_t i = 0; i < QUOTA_N; i++) {
                const struct quota_info *info = quota_info((enum quota)i);
                const struct setting *t = settings_find(info->name, strlen(info->name));

                assert_non_null(t);
                assert_int_equal(t->max, info->most);
                assert_int_equal(quota_find(&found, info->name, &e), 0);
                assert_int_equal(found, i);
        }
        assert_int_equal(quota_find(&found, "max-queued", &e), -ERR_INVALID);
        settings_deinit(&s);
}

/* A refusal names the limit, the use and the remedy, whole, for long numbers. */
static void test_refusals(void **state) {
        const uint64_t owners[] = {1000, owner_make(UINT32_MAX - 1, OWNER_MAX_TENANT)};

        (void)state;
        for (size_t i = 0; i < QUOTA_N; i++)
                for (size_t k = 0; k < ARRAY_SIZE(owners); k++) {
                        struct err e;

                        if (i == QUOTA_RAM)
                                continue;
                        assert_int_equal(quota_refuse(&e, owners[k], (enum quota)i, 1ull << 50,
                                                 1ull << 50, 1ull << 50, 1795900000ull * 1000000),
                                -ERR_LIMIT);
                        assert_true(err_may_pass(&e));
                        assert_non_null(strstr(e.msg, OWNER_TEXT(owners[k])));
                        assert_non_null(strstr(e.msg, quota_info((enum quota)i)->name));
                        assert_non_null(strstr(e.msg, "1125899906842624"));
                        assert_string_equal(
                                e.msg + strlen(e.msg) - strlen("('confab admin quota')"),
                                "('confab admin quota')");
                        if (i == QUOTA_TOKENS_PER_DAY)
                                assert_non_null(strstr(e.msg, "on 2026-11-29 at 00:00 UTC"));
                }
}

/* --- groups --- */

static struct {
        unsigned n;
        size_t n_gids;
        bool has_own;
} got;

static void on_groups(void *arg, void *owned, const uint32_t *gids, size_t n) {
        assert_ptr_equal(arg, &got);
        free(owned);
        got.n++;
        got.n_gids = n;
        for (size_t i = 0; i < n; i++)
                got.has_own = got.has_own || gids[i] == 0;
}

static void test_groups(void **state) {
        struct event_base *base = event_base_new();
        struct groups *groups = NULL;
        struct list mine, other;

        (void)state;
        list_init(&mine);
        list_init(&other);
        assert_non_null(base);
        assert_int_equal(groups_new(&groups, base, NULL), 0);
        /* Root's, which each system has; nobody's; and one that is forgotten. */
        assert_int_equal(groups_ask(groups, 0, on_groups, &got, malloc(1), &mine, NULL), 0);
        assert_false(list_empty(&mine));
        while (got.n < 1)
                assert_true(event_base_loop(base, EVLOOP_ONCE) >= 0);
        assert_true(list_empty(&mine));
        assert_true(got.n_gids >= 1 && got.has_own);
        assert_int_equal(groups_ask(groups, 0, on_groups, &got, malloc(1), &other, NULL), 0);
        assert_int_equal(groups_ask(groups, 0, on_groups, &got, malloc(1), &other, NULL), 0);
        groups_forget(&other);
        assert_true(list_empty(&other));
        assert_int_equal(groups_ask(groups, UINT32_MAX - 7, on_groups, &got, NULL, &mine, NULL), 0);
        while (got.n < 2)
                assert_true(event_base_loop(base, EVLOOP_ONCE) >= 0);
        assert_int_equal(got.n_gids, 0);
        /* Stopped with a question under way, or without. */
        assert_int_equal(groups_ask(groups, 0, on_groups, &got, malloc(1), &mine, NULL), 0);
        groups_forget(&mine);
        groups_stop(groups);
        assert_int_equal(groups_new(&groups, base, NULL), 0);
        groups_stop(groups);
        assert_int_equal(got.n, 2);
        event_base_free(base);
}

/* --- users --- */

static void test_users(void **state) {
        const uint32_t gids[] = {7, 5};
        struct settings s = settings();
        struct user *a, *b;
        struct users users;

        (void)state;
        assert_int_equal(users_init(&users, NULL), 0);
        assert_int_equal(users_join(&users, 7, &a, NULL), 0);
        assert_int_equal(users_join(&users, owner_make(7, 3), &b, NULL), 0);
        assert_int_equal(users_set_tenant(b, "pat", NULL), 0);
        assert_int_equal(users_set_tenant(a, NULL, NULL), 0);
        assert_ptr_equal(users_find(&users, 7), a);
        assert_ptr_equal(users_find_tenant(&users, 7, "pat"), b);
        assert_null(users_find_tenant(&users, 8, "pat"));
        assert_null(users_find_tenant(&users, 7, "patty"));
        set(&users.rules, &group, 4);
        change(&users.rules, &pat, QUOTA_DISK, false, 9);
        /* The first limits are none that the engine must be told of. */
        assert_false(users_limit(&users, &s, a));
        assert_int_equal(a->limits.origin[QUOTA_TOKENS], QUOTA_FROM_SETTING);
        assert_int_equal(users_set_groups(a, gids, 2, NULL), 0);
        assert_false(users_limit(&users, &s, a));
        assert_int_equal(a->limits.quotas.max[QUOTA_TOKENS], 4);
        assert_false(users_limit(&users, &s, b));
        assert_int_equal(b->limits.quotas.max[QUOTA_DISK], 9);
        assert_int_equal(b->limits.quotas.max[QUOTA_TOKENS], QUOTA_NONE);
        change(&users.rules, &user, QUOTA_RAM, false, 9);
        assert_true(users_limit(&users, &s, a));
        assert_false(users_limit(&users, &s, a));
        /* A user who has left a group. */
        assert_int_equal(users_set_groups(a, gids + 1, 1, NULL), 0);
        assert_false(users_limit(&users, &s, a));
        assert_int_equal(a->limits.quotas.max[QUOTA_TOKENS], QUOTA_NONE);
        users_leave(&users, a);
        users_leave(&users, b);
        users_deinit(&users);
        settings_deinit(&s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_groups),
                cmocka_unit_test(test_users),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
