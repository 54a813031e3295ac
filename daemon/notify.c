/* SPDX-License-Identifier: MIT */
#include "daemon/notify.h"
#include "base/clock.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

bool notify_wanted(void) {
        return getenv("NOTIFY_SOCKET") != NULL;
}

/* A service manager that does not listen is not our error: results are not looked at. */

void notify_ready(void) {
        (void)sd_notify(0, "READY=1");
}

void notify_status(const char *fmt, ...) {
        char text[256];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void)sd_notifyf(0, "STATUS=%s", text);
}

void notify_stopping(void) {
        (void)sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
}

void notify_reloading(void) {
        (void)sd_notifyf(
                0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_monotonic_usec());
}

void notify_watchdog(void) {
        (void)sd_notify(0, "WATCHDOG=1");
}

uint64_t notify_watchdog_usec(void) {
        uint64_t usec = 0;

        return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}
