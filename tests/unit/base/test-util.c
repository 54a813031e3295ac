/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"
#include "base/ids.h"
#include "base/util.h"
#include "util/test.h"
#include <fcntl.h>

static void test_arithmetic(void **state) {
        size_t n;

        assert_int_equal(MIN(3, 2), 2);
        assert_int_equal(MAX(3, 2), 3);
        assert_int_equal(MIN(MAX(3, 2), 7), 3);
        assert_int_equal(align_up(0, 8), 0);
        assert_int_equal(align_up(1, 8), 8);
        assert_int_equal(align_up(8, 8), 8);
        assert_false(mul_overflow(SIZE_MAX / 2, 2, &n));
        assert_int_equal(n, SIZE_MAX - 1);
        assert_true(mul_overflow(SIZE_MAX / 2 + 1, 2, &n));
        assert_false(add_overflow(SIZE_MAX - 1, 1, &n));
        assert_true(add_overflow(SIZE_MAX, 1, &n));
}

static void test_cleanup(void **state) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), kept;
        char *p = malloc(1), *q;

        assert_true(fd >= 0);
        {
                _cleanup_(closep) int a = fd;
                _cleanup_(freep) char *b = p;

                kept = TAKE_FD(a);
                q = TAKE_PTR(b);
                assert_int_equal(a, -1);
                assert_null(b);
        }
        assert_int_equal(fcntl(kept, F_GETFD), FD_CLOEXEC);
        {
                _cleanup_(closep) int a = kept;
                _cleanup_(freep) char *b = q;

                (void)a;
                (void)b;
        }
        assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_fingerprint(void **state) {
        struct fingerprint a = {1, 2}, b = {1, 2};

        assert_true(fingerprint_equal(&a, &b));
        b.rules = 3;
        assert_false(fingerprint_equal(&a, &b));
        b = (struct fingerprint){3, 2};
        assert_false(fingerprint_equal(&a, &b));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_arithmetic),
                cmocka_unit_test(test_cleanup),
                cmocka_unit_test(test_fingerprint),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
