/* SPDX-License-Identifier: MIT */
/* A service manager that does not read must not hold up the daemon. */
#include "service/notify.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void test_nobody_reads(void **state) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        char dir[] = "/tmp/confab-test-XXXXXX", word[256];
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ssize_t n;

        assert_non_null(mkdtemp(dir));
        snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify", dir);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        setenv("NOTIFY_SOCKET", a.sun_path, 1);
        assert_true(notify_wanted());
        alarm(20); /* it used to wait for ever */
        notify_status("first %d", 1);
        for (int i = 0; i < 10000; i++)
                notify_watchdog();
        alarm(0);
        n = recv(fd, word, sizeof(word) - 1, 0);
        assert_true(n > 0);
        word[n] = '\0';
        assert_string_equal(word, "STATUS=first 1");
        n = recv(fd, word, sizeof(word) - 1, 0);
        assert_int_equal(n, strlen("WATCHDOG=1"));
        close(fd);
        unlink(a.sun_path);
        rmdir(dir);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_nobody_reads)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
