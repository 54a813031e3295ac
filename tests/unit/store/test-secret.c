/* SPDX-License-Identifier: MIT */
/* Secrets of owners, and whether anybody still has memory on disk that lies elsewhere as well. */
#include "store-fixture.h"

static void secret_of(struct fixture *f, uint64_t owner, uint8_t ret[STORE_SECRET_SIZE]) {
        if (store_secret(f->s, owner, ret, &f->e) < 0)
                fail_msg("%s", f->e.msg);
}

static void test_secrets(void **state) {
        static const uint8_t zeros[STORE_SECRET_SIZE];
        struct fixture *f = *state;
        uint8_t a[STORE_SECRET_SIZE], b[STORE_SECRET_SIZE], again[STORE_SECRET_SIZE];

        secret_of(f, 7, a);
        secret_of(f, 8, b);
        assert_memory_not_equal(a, b, sizeof(a));
        assert_memory_not_equal(a, zeros, sizeof(a));
        secret_of(f, 7, again);
        assert_memory_equal(a, again, sizeof(a));
        fixture_reopen(f);
        secret_of(f, 8, again);
        assert_memory_equal(b, again, sizeof(b));
        assert_int_equal(store_secret(f->s, OWNER_MAX + 1, a, &f->e), -ERR_INVALID);
}

/* A tenant's goes with it; that of its uid, and of another tenant, stays. */
static void test_of_tenants(void **state) {
        struct fixture *f = *state;
        uint8_t of_uid[STORE_SECRET_SIZE], of_anna[STORE_SECRET_SIZE], again[STORE_SECRET_SIZE];
        uint32_t anna, ben;

        assert_int_equal(store_tenant(f->s, 7, "anna", 9, &anna, &f->e), 0);
        assert_int_equal(store_tenant(f->s, 7, "ben", 9, &ben, &f->e), 0);
        secret_of(f, 7, of_uid);
        secret_of(f, owner_make(7, anna), of_anna);
        secret_of(f, owner_make(7, ben), again);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM secret"), 3);
        assert_int_equal(store_tenants_forget_of(f->s, 7, ben, NULL, 0, &f->e), 0);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM secret"), 2);
        secret_of(f, owner_make(7, anna), again);
        assert_memory_equal(of_anna, again, sizeof(again));
        secret_of(f, 7, again);
        assert_memory_equal(of_uid, again, sizeof(again));
}

/* One that is damaged is told, and not drawn anew: others have it. */
static void test_damaged(void **state) {
        struct fixture *f = *state;
        uint8_t secret[STORE_SECRET_SIZE];

        secret_of(f, 7, secret);
        fixture_sql(f, "UPDATE secret SET secret = x'0102'");
        assert_int_equal(store_secret(f->s, 7, secret, &f->e), -ERR_CORRUPT);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM secret"), 1);
}

static void test_has_memory(void **state) {
        struct fixture *f = *state;
        struct store_gone links = {}, gone = {};
        struct store_record cell;
        int32_t tokens[64];
        uint64_t a;

        fixture_tokens(tokens, 64, 1);
        a = fixture_history(f, 7, "a", tokens, 64, 2, false);

        assert_int_equal(store_links(f->s, a, &links, &f->e), 0);
        assert_int_equal(links.n, 2);
        cell = links.records[1];
        assert_int_equal(store_has_memory(f->s, 7, &cell, &f->e), 1);
        assert_int_equal(store_has_memory(f->s, 8, &cell, &f->e), 0);
        cell.index++;
        assert_int_equal(store_has_memory(f->s, 7, &cell, &f->e), 0);
        cell = links.records[1];
        cell.n_tokens--;
        assert_int_equal(store_has_memory(f->s, 7, &cell, &f->e), 0);
        cell = links.records[1];
        cell.token_hash++;
        assert_int_equal(store_has_memory(f->s, 7, &cell, &f->e), 0);
        cell = links.records[1];
        assert_int_equal(store_conv_delete(f->s, a, &gone, &f->e), 0);
        assert_int_equal(store_has_memory(f->s, 7, &cell, &f->e), 0);
        store_gone_deinit(&links);
        store_gone_deinit(&gone);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_secrets),
                store_test(test_of_tenants),
                store_test(test_damaged),
                store_test(test_has_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
