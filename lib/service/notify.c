/* SPDX-License-Identifier: MIT */
#include "service/notify.h"
#include "base/clock.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

bool notify_wanted(void) {
        return getenv("NOTIFY_SOCKET") != NULL;
}

/* A service manager that does not listen is not our error: results are ignored. */

/*
 * Sends a message that is repeated regularly: it is dropped when the manager's queue is full, where
 * sd_notify() would wait, and all clients with it. The protocol is that of sd_notify(3): one
 * datagram.
 */
static void notify_try(const char *text) {
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        size_t n = path ? strlen(path) : 0;
        int fd;

        if (n < 2 || n >= sizeof(a.sun_path) || (path[0] != '/' && path[0] != '@'))
                return;
        memcpy(a.sun_path, path, n);
        if (path[0] == '@')
                a.sun_path[0] = '\0'; /* the abstract namespace */
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return;
        (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
        close(fd);
}

void notify_ready(void) {
        (void)sd_notify(0, "READY=1");
}

void notify_status(const char *fmt, ...) {
        char text[256] = "STATUS=";
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text + strlen(text), sizeof(text) - strlen(text), fmt, ap);
        va_end(ap);
        notify_try(text);
}

void notify_extend(uint64_t usec) {
        char text[64];

        snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long)usec);
        notify_try(text);
}

void notify_stopping(void) {
        (void)sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
}

void notify_reloading(void) {
        (void)sd_notifyf(
                0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_monotonic_usec());
}

void notify_watchdog(void) {
        notify_try("WATCHDOG=1");
}

uint64_t notify_watchdog_usec(void) {
        uint64_t usec = 0;

        return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}
