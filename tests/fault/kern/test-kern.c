/* SPDX-License-Identifier: MIT */
/* Each allocation of kern_new() fails once: an error, nothing leaked, output untouched. */
#include "util/test.h"
#include "fault/loop.h"
#include "base/err.h"
#include "kern/kern.h"

static void test_new(void **state) {
        struct fault_loop loop = {.at_least = 1, .at_most = 100};

        while (fault_loop_next(&loop)) {
                struct kern *k = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = kern_new(&k, 3, KERN_N_ISA, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(!!k, r == 0);
                kern_free(k);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_new)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
