/* SPDX-License-Identifier: MIT */
/* Each allocation of kern_new() fails once: an error, nothing leaked, output untouched. */
#include "util/test.h"
#include "fault/fault.h"
#include "base/err.h"
#include "kern/kern.h"

static void test_new(void **state) {
        bool failed = true;

        for (long n = 0; failed; n++) {
                struct kern *k = NULL;
                struct err e = {0};
                int r;

                assert_true(n < 100);
                fault_alloc_at(n);
                r = kern_new(&k, 3, KERN_N_ISA, &e);
                failed = fault_alloc_hit();
                fault_alloc_at(-1);
                if (failed) {
                        assert_int_equal(r, -ERR_NOMEM);
                        assert_int_equal(e.code, ERR_NOMEM);
                        assert_null(k);
                } else {
                        assert_int_equal(r, 0);
                }
                kern_free(k);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_new)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
