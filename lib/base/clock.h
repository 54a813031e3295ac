/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdint.h>
/* Microseconds. CLOCK_MONOTONIC and CLOCK_REALTIME. Any thread. */
uint64_t clock_monotonic_usec(void);
uint64_t clock_realtime_usec(void);
/* CLOCK_BOOTTIME: as the first, and goes on while the machine sleeps. */
uint64_t clock_boottime_usec(void);
