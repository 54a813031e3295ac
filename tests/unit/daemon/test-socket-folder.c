/* SPDX-License-Identifier: MIT */
/* The folder of a socket is made; those above it are not, so that a slip of the pen makes none. */
#include "service/listener.h"
#include "util/test.h"
#include "base/err.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_folder(void **state) {
        char dir[] = "/tmp/confab-test-XXXXXX", path[96], folder[64];
        struct listeners l = LISTENERS_NULL;
        struct stat st;
        struct err e;

        assert_non_null(mkdtemp(dir));
        snprintf(folder, sizeof(folder), "%s/confab", dir);
        snprintf(path, sizeof(path), "%s/deep/s", folder);
        assert_int_equal(listeners_open(&l, path, 0600, NULL, &e), -ERR_SYS);
        assert_non_null(strstr(e.msg, "/confab/deep"));
        assert_int_equal(access(folder, F_OK), -1);
        for (int i = 0; i < 2; i++) { /* made, and there */
                snprintf(path, sizeof(path), "%s/s", folder);
                assert_int_equal(listeners_open(&l, path, 0600, NULL, &e), 0);
                assert_int_equal(stat(folder, &st), 0);
                assert_int_equal(st.st_mode & 07022, 0); /* nobody else may write */
                listeners_close(&l);
        }
        assert_int_equal(rmdir(folder), 0);
        assert_int_equal(rmdir(dir), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_folder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
