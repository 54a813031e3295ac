/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The journal, or standard error. Structured fields go to the journal when standard error is
 * connected to it; otherwise lines "PROGRAM: LEVEL: message". Messages that peers can provoke
 * go through LOG_PEER(), which passes at most LOG_BURST messages about one user in
 * LOG_INTERVAL_USEC and counts the rest: a user who provokes many messages hides none about others.
 * The total is never more than LOG_BUCKETS times LOG_BURST.
 * Loop thread only.
 */
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>

#define LOG_BURST 20
#define LOG_INTERVAL_USEC 10000000ull
#define LOG_BUCKETS 32

/* What a message is about; 0 or NULL where a field does not apply. */
struct log_about {
        const struct err *err;
        uint64_t conversation;
        int64_t uid; /* -1: nobody */
        int64_t pid;
};
#define LOG_ABOUT_NULL ((struct log_about){.uid = -1})

/* @program: a literal, the name in front of lines and in the journal. */
void log_init(const char *program, int level);
void log_set_level(int level);
void log_write(int level, const struct log_about *about, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* True if one more message that peers can provoke may be written now. NULL: about no user. */
bool log_peer_allowed(const struct log_about *about);

#define LOG(level, ...) log_write((level), NULL, __VA_ARGS__)
/* "context: message of e", with the error's fields. */
#define LOG_ERROR(level, e, ...)                                                                   \
        log_write((level), &(struct log_about){.uid = -1, .err = (e)}, __VA_ARGS__)
#define LOG_PEER(level, about, ...)                                                                \
        do {                                                                                       \
                if (log_peer_allowed(about))                                                       \
                        log_write((level), (about), __VA_ARGS__);                                  \
        } while (0)
