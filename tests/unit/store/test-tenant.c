/* SPDX-License-Identifier: MIT */
/* Tenants of uids, and that owners who differ only in the tenant share nothing. */
#include "store-fixture.h"

static uint32_t tenant(struct fixture *f, uint32_t uid, const char *label) {
        uint32_t number = 0;

        assert_int_equal(store_tenant(f->s, uid, label, 100, &number, &f->e), 0);
        assert_in_range(number, 1, OWNER_MAX_TENANT);
        return number;
}

static void test_numbers(void **state) {
        struct fixture *f = *state;
        uint32_t a = tenant(f, 1000, "anna"), b = tenant(f, 1000, "bert"), number = 77;

        assert_int_not_equal(a, b);
        assert_int_equal(tenant(f, 1000, "anna"), a);
        /* Labels are bytes: case counts, and so does each way to write a character. */
        assert_int_not_equal(tenant(f, 1000, "Anna"), a);
        assert_int_not_equal(tenant(f, 1000, "\xc3\xa4"), tenant(f, 1000, "a\xcc\x88"));
        assert_int_not_equal(tenant(f, 1001, "anna"), a);
        assert_int_equal(store_tenant(f->s, 1002, "anna", 0, &number, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(number, 77);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM tenant WHERE uid = 1002"), 0);
        fixture_reopen(f);
        assert_int_equal(tenant(f, 1000, "bert"), b);
        assert_int_equal(store_tenant(f->s, 1000, "anna", 0, &number, &f->e), 0);
        assert_int_equal(number, a);
}

static void test_labels(void **state) {
        struct fixture *f = *state;
        uint32_t a = tenant(f, 1000, "anna");
        char label[STORE_NAME_MAX + 1] = "before";

        assert_int_equal(store_tenant_label(f->s, owner_make(1000, a), label, &f->e), 0);
        assert_string_equal(label, "anna");
        assert_int_equal(store_tenant_label(f->s, 1000, label, &f->e), 0);
        assert_string_equal(label, "");
        /* Not of this uid, or not at all. */
        assert_int_equal(store_tenant_label(f->s, owner_make(1001, a), label, &f->e), 0);
        assert_int_equal(label[0], '#');
        assert_int_equal(store_tenant_label(f->s, owner_make(1000, 4711), label, &f->e), 0);
        assert_string_equal(label, "#4711");
}

static void test_bad_labels(void **state) {
        struct fixture *f = *state;
        char longest[STORE_NAME_MAX + 2];
        uint32_t number = 77;

        memset(longest, 'a', sizeof(longest));
        longest[STORE_NAME_MAX + 1] = 0;
        assert_int_equal(store_tenant(f->s, 1, longest, 9, &number, &f->e), -ERR_INVALID);
        assert_int_equal(store_tenant(f->s, 1, "", 9, &number, &f->e), -ERR_INVALID);
        assert_int_equal(store_tenant(f->s, 1, "\xff", 9, &number, &f->e), -ERR_INVALID);
        assert_int_equal(store_tenant(f->s, UINT32_MAX, "a", 9, &number, &f->e), -ERR_INVALID);
        assert_int_equal(number, 77);
        longest[STORE_NAME_MAX] = 0;
        tenant(f, 1, longest);
}

static void test_limit(void **state) {
        struct fixture *f = *state;
        uint32_t number;

        assert_int_equal(store_tenant(f->s, 1, "a", 2, &number, &f->e), 0);
        assert_int_equal(store_tenant(f->s, 1, "b", 2, &number, &f->e), 0);
        assert_int_equal(store_tenant(f->s, 1, "c", 2, &number, &f->e), -ERR_LIMIT);
        assert_non_null(strstr(f->e.msg, "user 1 has 2 tenants"));
        /* Those that there are, and other users, are not held back. */
        assert_int_equal(store_tenant(f->s, 1, "a", 2, &number, &f->e), 0);
        assert_int_equal(store_tenant(f->s, 2, "c", 2, &number, &f->e), 0);
}

/* A number never comes to mean another tenant. */
static void test_forgotten(void **state) {
        struct fixture *f = *state;
        uint32_t kept = tenant(f, 1, "kept"), last = tenant(f, 1, "gone");

        fixture_conv(f, owner_make(1, kept), "x");
        assert_int_equal(store_tenants_forget(f->s, &f->e), 0);
        /* Another daemon on the same server may act for one without a conversation. */
        if (fixture_is_server(f)) {
                assert_int_equal(fixture_count(f, "SELECT count(*) FROM tenant"), 2);
                assert_int_equal(store_tenants_forget_of(f->s, 1, 0, NULL, 0, &f->e), 0);
        }
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM tenant"), 1);
        assert_int_equal(tenant(f, 1, "kept"), kept);
        assert_in_range(tenant(f, 1, "other"), last + 1, OWNER_MAX_TENANT);
        fixture_reopen(f);
        assert_in_range(tenant(f, 1, "gone"), last + 1 + !fixture_is_server(f), OWNER_MAX_TENANT);
        fixture_expect_sound(f);
}

/* All conversations of @owner, by id. */
static size_t list_all(struct fixture *f, uint64_t owner, struct store_conv *out, size_t max) {
        const struct store_list list = {.owner = owner};
        struct store_listed listed[16];
        bool more;
        size_t n;

        assert_true(max < 16);
        assert_int_equal(store_list(f->s, &list, NULL, NULL, listed, max, &n, &more, &f->e), 0);
        for (size_t i = 0; i < n; i++) {
                out[i] = listed[i].conv;
                free(listed[i].about);
        }
        return n;
}

static void test_labels_are_shown(void **state) {
        struct fixture *f = *state;
        uint64_t owner = owner_make(1000, tenant(f, 1000, "anna"));
        struct store_conv c = {.owner = owner, .name = "talk"}, child = {}, list[4];
        struct store_turn turn = {.role = 1, .end = 1, .text = "hello", .text_size = 5};
        int32_t token = 5;
        size_t n;

        assert_int_equal(store_conv_create(f->s, &c, &turn, 1, &token, 1, &f->e), 0);
        assert_string_equal(c.tenant, "anna");
        assert_int_equal(store_conv_fork(f->s, c.id, 1, NULL, NULL, &child, &f->e), 0);
        assert_string_equal(child.tenant, "anna");
        assert_true(child.owner == owner);
        fixture_conv(f, 1000, "plain");
        n = list_all(f, OWNER_ANY, list, 4);
        assert_int_equal(n, 3);
        assert_string_equal(list[1].tenant, "anna");
        assert_string_equal(list[2].tenant, "");
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM transcript WHERE uid = 1000 AND "
                                          "tenant = 'anna' AND text = 'hello'"),
                2);
        /* A tenant that a damaged register has lost does not look like its user. */
        fixture_sql(f, "DELETE FROM tenant");
        assert_int_equal(store_conv_get(f->s, owner, c.id, NULL, &c, &f->e), 0);
        assert_string_equal(c.tenant, "#1");
}

static void test_conversations_are_apart(void **state) {
        struct fixture *f = *state;
        uint64_t owners[] = {1000, owner_make(1000, tenant(f, 1000, "anna")),
                owner_make(1000, tenant(f, 1000, "bert")),
                owner_make(1001, tenant(f, 1001, "anna"))};
        struct store_conv c, list[8];
        uint64_t ids[4], n_convs;
        size_t n;

        /* Names may repeat. */
        for (int i = 0; i < 4; i++)
                ids[i] = fixture_conv(f, owners[i], "talk");
        fixture_conv(f, owners[1], "second");
        for (int i = 0; i < 4; i++) {
                assert_int_equal(store_conv_get(f->s, owners[i], 0, "talk", &c, &f->e), 0);
                assert_int_equal(c.id, ids[i]);
                for (int k = 0; k < 4; k++)
                        assert_int_equal(store_conv_get(f->s, owners[i], ids[k], NULL, &c, &f->e),
                                i == k ? 0 : -ERR_NOT_FOUND);
                assert_int_equal(store_conv_get(f->s, owners[i], 0, "second", &c, &f->e),
                        i == 1 ? 0 : -ERR_NOT_FOUND);
                n = list_all(f, owners[i], list, 8);
                assert_int_equal(n, i == 1 ? 2 : 1);
                assert_int_equal(store_conv_count(f->s, owners[i], &n_convs, &f->e), 0);
                assert_int_equal(n_convs, i == 1 ? 2 : 1);
        }
        fixture_expect_sound(f);
}

/* The longest prefix that @owner finds, in blocks. */
static size_t found(struct fixture *f, uint64_t owner, const int32_t *tokens, size_t n_blocks) {
        const struct fingerprint model = {11, 12};
        struct store_prefix p = {};
        uint64_t hashes[16], prev = 0;
        size_t n;

        for (size_t i = 0; i < n_blocks; i++)
                prev = hashes[i] = hash64_chain_tokens(tokens + 32 * i, 32, prev);
        assert_int_equal(store_prefix_find(f->s, owner, &model, 0, &fixture_shape, tokens, hashes,
                                 n_blocks, &p, &f->e),
                0);
        n = p.n;
        store_prefix_deinit(&p);
        return n;
}

static void test_memory_is_apart(void **state) {
        struct fixture *f = *state;
        uint64_t plain = 1000, anna = owner_make(1000, tenant(f, 1000, "anna")),
                 bert = owner_make(1000, tenant(f, 1000, "bert"));
        struct store_reclaimed got = {};
        int32_t a[200], b[200];
        uint64_t id;

        for (int i = 0; i < 200; i++) {
                a[i] = i;
                b[i] = 1000 + i;
        }
        fixture_history(f, plain, "plain", a, 200, 6, false);
        id = fixture_history(f, anna, "anna", b, 200, 6, false);
        assert_int_equal(found(f, plain, a, 6), 6);
        assert_int_equal(found(f, anna, b, 6), 6);
        assert_int_equal(found(f, plain, b, 6), 0);
        assert_int_equal(found(f, anna, a, 6), 0);
        assert_int_equal(found(f, bert, a, 6), 0);
        assert_int_equal(found(f, bert, b, 6), 0);
        /* What is published is for all. */
        assert_int_equal(store_conv_publish(f->s, id, 100, &f->e), 0);
        assert_int_equal(found(f, bert, b, 6), 3);
        assert_int_equal(found(f, plain, b, 6), 3);
        /* Each pays for its own: making room among the user's records spares the tenants'. */
        assert_int_equal(store_reclaim(f->s, plain, UINT64_MAX, 0, &got, &f->e), 0);
        assert_int_equal(got.gone.n, 6);
        store_reclaimed_deinit(&got);
        assert_int_equal(found(f, anna, b, 6), 6);
        assert_int_equal(found(f, plain, a, 6), 0);
        fixture_expect_sound(f);
}

static void expect_finding(struct fixture *f, const char *sql, const char *part) {
        struct fixture_findings x = {};
        struct store_census census;

        fixture_sql(f, sql);
        assert_int_equal(store_check(f->s, fixture_note, &x, &census, &f->e), 0);
        assert_int_equal(x.n, 1);
        assert_non_null(strstr(x.first, part));
}

static void test_damage_is_found(void **state) {
        struct fixture *f = *state;

        fixture_of_file(f);
        fixture_conv(f, owner_make(1000, tenant(f, 1000, "anna")), "a");
        fixture_expect_sound(f);
        expect_finding(f, "UPDATE tenant SET uid = 1001", "a tenant that does not exist");
        fixture_sql(f, "UPDATE tenant SET uid = 1000");
        expect_finding(
                f, "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'tenant'", "a counter of ids");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_numbers),
                store_test(test_labels),
                store_test(test_bad_labels),
                store_test(test_limit),
                store_test(test_forgotten),
                store_test(test_labels_are_shown),
                store_test(test_conversations_are_apart),
                store_test(test_memory_is_apart),
                store_test(test_damage_is_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
