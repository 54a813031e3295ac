/* SPDX-License-Identifier: MIT */
#include "client/cli-when.h"
#include "base/util.h"
#include <stdio.h>
#include <time.h>

#define USEC 1000000ull
#define MAX_AGE_SECONDS (100ull * 366 * 86400)

static const struct unit {
        char letter;
        uint64_t seconds;
} units[] = {{'w', 7 * 86400}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}; /* falling */

bool when_parse_age(const char *s, uint64_t *ret_usec) {
        uint64_t n = 0;

        if (*s < '0' || *s > '9')
                return false;
        for (; *s >= '0' && *s <= '9'; s++) {
                n = 10 * n + (uint64_t)(*s - '0');
                if (n > MAX_AGE_SECONDS)
                        return false;
        }
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                if (s[0] == units[i].letter && s[1] == 0 &&
                        n <= MAX_AGE_SECONDS / units[i].seconds) {
                        *ret_usec = n * units[i].seconds * USEC;
                        return true;
                }
        return false;
}

bool when_parse(const char *s, uint64_t now_usec, uint64_t *ret_usec) {
        static const char *const forms[] = {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
                "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%H:%M"};
        time_t now = (time_t)(now_usec / USEC), t;
        uint64_t age;

        if (when_parse_age(s, &age)) {
                *ret_usec = now_usec > age ? now_usec - age : 0;
                return true;
        }
        if (*s < '0' || *s > '9') /* strptime() would skip white space */
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                struct tm tm;
                const char *end;

                if (!localtime_r(&now, &tm))
                        return false;
                tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
                tm.tm_isdst = -1; /* mktime() finds out */
                end = strptime(s, forms[i], &tm);
                if (!end || *end)
                        continue;
                t = mktime(&tm);
                if (t < 0)
                        return false;
                *ret_usec = (uint64_t)t * USEC;
                return true;
        }
        return false;
}

const char *when_format(char buf[32], uint64_t usec) {
        time_t t = (time_t)(usec / USEC);
        struct tm tm;

        if (!localtime_r(&t, &tm) || strftime(buf, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
                snprintf(buf, 32, "?");
        return buf;
}

const char *when_format_age(char buf[16], uint64_t seconds) {
        size_t i = 0;

        while (seconds > 0 && i + 1 < ARRAY_SIZE(units) && seconds % units[i].seconds)
                i++;
        if (seconds == 0)
                i = ARRAY_SIZE(units) - 1;
        snprintf(buf, 16, "%llu%c", (unsigned long long)(seconds / units[i].seconds),
                units[i].letter);
        return buf;
}
