/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include <time.h>

static uint64_t now_usec(clockid_t id) {
        struct timespec ts = {0};

        clock_gettime(id, &ts); /* cannot fail for these clocks */
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t clock_monotonic_usec(void) {
        return now_usec(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_usec(void) {
        return now_usec(CLOCK_REALTIME);
}

uint64_t clock_boottime_usec(void) {
        return now_usec(CLOCK_BOOTTIME);
}
