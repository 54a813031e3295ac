/* SPDX-License-Identifier: MIT */
#pragma once
/* Ages and times as users type and read them. One thread: the time zone is the C library's. */
#include <stdbool.h>
#include <stdint.h>

/* An age: a number and one of s, m, h, d, w ("90s", "30d"), of up to 100 years; in microseconds. */
#define WHEN_AGE_ARG "AGE"
bool when_parse_age(const char *s, uint64_t *ret_usec);
/* A time: an age (so long before @now_usec), "YYYY-MM-DD", "YYYY-MM-DD HH:MM[:SS]" (also with a T between), or "HH:MM"
 * of today, in local time. Microseconds since 1970. */
bool when_parse(const char *s, uint64_t now_usec, uint64_t *ret_usec);
/* "2026-11-28 14:03:05" in local time, into @buf. */
const char *when_format(char buf[32], uint64_t usec);
/* "7d", "90s": seconds in the largest unit that divides them. */
const char *when_format_age(char buf[16], uint64_t seconds);
