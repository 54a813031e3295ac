/* SPDX-License-Identifier: MIT */
#pragma once
/* Messages to the service manager (sd_notify), if there is one. Loop thread only. */
#include <stdbool.h>
#include <stdint.h>

bool notify_wanted(void);
void notify_ready(void);
void notify_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Starting, reloading or stopping will take @usec more, from now on. */
void notify_extend(uint64_t usec);
void notify_stopping(void);
void notify_reloading(void);
void notify_watchdog(void);
/* The longest time between two signs of life that the service manager allows, or 0. */
uint64_t notify_watchdog_usec(void);
