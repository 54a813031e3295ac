/* SPDX-License-Identifier: MIT */
#pragma once
#include <poll.h>
#include <pty.h>
#include <stdbool.h>
#include <unistd.h>

#include "util/test.h"

/* Skips the test where pseudoterminals do not work. (A chroot without /dev/pts has none.) */
static inline void test_need_terminal(void) {
        struct pollfd p = {.events = POLLIN};
        int slave;
        bool works = false;

        if (openpty(&p.fd, &slave, NULL, NULL, NULL) == 0) {
                works = write(slave, "x", 1) == 1 && poll(&p, 1, 1000) == 1;
                close(slave);
                close(p.fd);
        }
        if (!works) {
                print_message("SKIP: no working pseudoterminal here\n");
                skip();
        }
}
