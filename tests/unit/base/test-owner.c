/* SPDX-License-Identifier: MIT */
#include "base/owner.h"
#include "util/test.h"

static void test_parts(void **state) {
        uint64_t owner = owner_make(1000, 3);

        assert_int_equal(owner_uid(owner), 1000);
        assert_int_equal(owner_tenant(owner), 3);
        /* What the register held before there were tenants. */
        assert_true(owner_make(4000000123, 0) == 4000000123);
        assert_int_equal(owner_tenant(4000000123), 0);
        owner = owner_make(UINT32_MAX - 1, OWNER_MAX_TENANT);
        assert_int_equal(owner_uid(owner), UINT32_MAX - 1);
        assert_int_equal(owner_tenant(owner), OWNER_MAX_TENANT);
}

static void test_possible(void **state) {
        assert_true(owner_possible(0));
        assert_true(owner_possible(owner_make(UINT32_MAX - 1, OWNER_MAX_TENANT)));
        assert_false(owner_possible(UINT32_MAX));
        assert_false(owner_possible(owner_make(UINT32_MAX, 1)));
        assert_false(owner_possible(owner_make(1, OWNER_MAX_TENANT + 1)));
        assert_false(owner_possible(OWNER_ANY));
}

static void test_text(void **state) {
        assert_string_equal(OWNER_TEXT(0), "user 0");
        assert_string_equal(OWNER_TEXT(1000), "user 1000");
        assert_string_equal(OWNER_TEXT(owner_make(1000, 3)), "tenant 3 of user 1000");
        assert_string_equal(OWNER_TEXT(OWNER_ANY), "tenant 4294967295 of user 4294967295");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_possible),
                cmocka_unit_test(test_text),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
