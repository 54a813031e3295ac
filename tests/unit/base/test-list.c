/* SPDX-License-Identifier: MIT */
#include "base/list.h"
#include "util/test.h"

struct item {
        int v;
        struct list link;
};

static int as_number(struct list *head) {
        struct list *it;
        int n = 0;

        list_for_each (it, head)
                n = n * 10 + list_entry(it, struct item, link)->v;
        return n;
}

static void test_order(void **state) {
        struct item a = {.v = 1}, b = {.v = 2}, c = {.v = 3};
        struct list head = LIST_INIT(head), *it, *tmp;

        assert_true(list_empty(&head));
        list_append(&head, &a.link);
        list_append(&head, &b.link);
        list_prepend(&head, &c.link);
        assert_int_equal(as_number(&head), 312);
        list_unlink(&a.link);
        list_unlink(&a.link);
        assert_int_equal(as_number(&head), 32);
        list_insert_before(&b.link, &a.link);
        assert_int_equal(as_number(&head), 312);
        list_for_each_safe (it, tmp, &head)
                list_unlink(it);
        assert_true(list_empty(&head));
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
