/* SPDX-License-Identifier: MIT */
/* Where programs find the daemon, with each combination of sockets that may be there. */
#include "client/socket-path.h"
#include "util/test.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM "/run/confab/confab.sock"
#define OWN "/run/user/7/confab/confab.sock"

static bool has_system, has_own;

int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode) {
        bool there = strcmp(path, SYSTEM) == 0 ? has_system : strcmp(path, OWN) == 0 && has_own;

        assert_int_equal(mode, F_OK);
        errno = ENOENT;
        return there ? 0 : -1;
}

static void expect(const char *path) {
        char *found = socket_path_find();

        assert_non_null(found);
        assert_string_equal(found, path);
        free(found);
}

static int setup(void **state) {
        (void)state;
        has_system = has_own = false;
        unsetenv("CONFAB_SOCKET");
        return setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
}

/* One's own daemon is meant by whoever has started it; the system's is always there. */
static void test_own_first(void **state) {
        (void)state;
        has_system = true;
        expect(SYSTEM);
        has_own = true;
        expect(OWN);
        has_system = false;
        expect(OWN);
}

/* With neither, the message of the client names one's own. */
static void test_neither(void **state) {
        char path[64];

        (void)state;
        expect(OWN);
        setenv("XDG_RUNTIME_DIR", "not/a/whole/path", 1);
        snprintf(path, sizeof(path), "/run/user/%u/confab/confab.sock", (unsigned)getuid());
        expect(path);
        unsetenv("XDG_RUNTIME_DIR");
        expect(path);
}

static void test_told(void **state) {
        (void)state;
        has_system = has_own = true;
        setenv("CONFAB_SOCKET", "/elsewhere", 1);
        expect("/elsewhere");
        setenv("CONFAB_SOCKET", "", 1);
        expect(OWN);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_own_first, setup),
                cmocka_unit_test_setup(test_neither, setup),
                cmocka_unit_test_setup(test_told, setup),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
