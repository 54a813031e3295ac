/* SPDX-License-Identifier: MIT */
/* The walk through owners and their conversations. */
#include "store-fixture.h"

static uint64_t make(struct fixture *f, uint64_t owner) {
        struct store_conv c = {.owner = owner};

        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        return c.id;
}

static void test_walk(void **state) {
        struct fixture *f = *state;
        uint32_t number;
        uint64_t tenant;
        struct store_owned page[2];
        struct store_gone gone;
        uint64_t owner = 99, last = 99, a, b, c;
        size_t n = 99;

        assert_int_equal(store_tenant(f->s, 7, "anna", 9, &number, &f->e), 0);
        tenant = owner_make(7, number);
        assert_int_equal(store_owner_next(f->s, 0, &owner, &f->e), 0);
        assert_int_equal(store_last_id(f->s, &last, &f->e), 0);
        assert_int_equal(last, 0);
        a = make(f, 7);
        make(f, tenant);
        b = make(f, 7);
        c = make(f, 7);
        make(f, 0);
        assert_int_equal(store_owner_next(f->s, 0, &owner, &f->e), 1);
        assert_int_equal(owner, 0);
        assert_int_equal(store_owner_next(f->s, 1, &owner, &f->e), 1);
        assert_int_equal(owner, 7);
        assert_int_equal(store_owner_next(f->s, 7, &owner, &f->e), 1);
        assert_int_equal(owner, 7);
        assert_int_equal(store_owner_next(f->s, 8, &owner, &f->e), 1);
        assert_int_equal(owner, tenant);
        assert_int_equal(store_owner_next(f->s, tenant + 1, &owner, &f->e), 0);
        assert_int_equal(store_owner_next(f->s, OWNER_MAX + 1, &owner, &f->e), 0);
        /* By id, of this owner alone, and from behind a place. */
        assert_int_equal(store_owned(f->s, 7, 0, page, 2, &n, &f->e), 0);
        assert_int_equal(n, 2);
        assert_int_equal(page[0].id, a);
        assert_int_equal(page[1].id, b);
        assert_true(page[1].updated_usec > 0);
        assert_int_equal(store_owned(f->s, 7, b, page, 2, &n, &f->e), 0);
        assert_int_equal(n, 1);
        assert_int_equal(page[0].id, c);
        assert_int_equal(store_owned(f->s, 8, 0, page, 2, &n, &f->e), 0);
        assert_int_equal(n, 0);
        /* Those that have memory on this disk, from the last one on. */
        assert_int_equal(store_on_disk_before(f->s, UINT64_MAX, &last, &f->e), 0);
        fixture_link(f, a, 1, 0, 2, NULL, 0);
        fixture_link(f, c, 2, 0, 1, NULL, 0);
        assert_int_equal(store_on_disk_before(f->s, UINT64_MAX, &last, &f->e), 1);
        assert_int_equal(last, c);
        assert_int_equal(store_on_disk_before(f->s, c, &last, &f->e), 1);
        assert_int_equal(last, a);
        assert_int_equal(store_on_disk_before(f->s, a, &last, &f->e), 0);
        assert_int_equal(store_unlink_from(f->s, c, 0, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(store_on_disk_before(f->s, UINT64_MAX, &last, &f->e), 1);
        assert_int_equal(last, a);
        /* An id is never given again. */
        assert_int_equal(store_last_id(f->s, &last, &f->e), 0);
        assert_int_equal(last, c + 1);
        assert_int_equal(store_conv_delete(f->s, last, &(struct store_gone){0}, &f->e), 0);
        assert_int_equal(store_last_id(f->s, &last, &f->e), 0);
        assert_int_equal(last, c + 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_walk),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
