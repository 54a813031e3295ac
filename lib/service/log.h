/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The journal, or standard error. What there is to tell is an event of the table of logged.h, with its MESSAGE_ID and fields where
 * standard error is connected to the journal; otherwise lines "PROGRAM: LEVEL: message".
 *
 * 1. Clients cannot flood the journal: of events that the table has as `limited` at most LOG_BURST are written about one user (tenants count by
 *    themselves) in LOG_INTERVAL_USEC, and LOG_TOTAL about all. What was left out is counted for each user, and told when
 *    the interval is over, whether or not anything follows. So who provokes many messages hides none about others
 *    (log-limit.h).
 * 2. The journal cannot hold up the loop: between log_start() and log_stop() lines go through a queue of LOG_QUEUE_SIZE
 *    bytes to a thread that writes them. What does not fit is dropped and counted (log-queue.h). Lines to standard error are written
 *    at once.
 * 3. One message is one line: control characters become blanks.
 *
 * Loop thread only.
 */
#include "base/err.h"
#include "base/owner.h"
#include "service/logged.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <syslog.h>

struct event_base;

#define LOG_BURST 20
#define LOG_INTERVAL_USEC 10000000ull
#define LOG_USERS 256
#define LOG_TOTAL 1000
#define LOG_QUEUE_SIZE (1u << 20)
/* How long log_stop() waits for a journal that does not read. */
#define LOG_STOP_USEC 2000000ull

/* A field of an event's own: @text, or (NULL) @number. */
struct log_field {
        const char *name;
        const char *text;
        uint64_t number;
};

/* What a message is about; 0 or NULL where a member does not apply. All is borrowed for the call. */
struct log_about {
        const struct err *err;
        uint64_t owner; /* the user or tenant; OWNER_ANY: nobody */
        bool acts;      /* @actor_uid acts for the owner */
        uint32_t actor_uid;
        const char *tenant; /* label of the owner's tenant */
        int64_t pid;
        uint64_t conversation;
        const struct log_field *fields; /* [n_fields] */
        size_t n_fields;
};
#define LOG_ABOUT_NULL ((struct log_about){.owner = OWNER_ANY})

/* @program: a literal, the name in front of lines and in the journal. */
void log_init(const char *program, int level);
void log_set_level(int level);
/* Where the loop begins: rules 1 and 2. Without it, lines are written at once, and what was left out is told with the next
 * limited event. -ERR_NOMEM: nothing has changed. */
int log_start(struct event_base *base, struct err *e);
/* Where the loop has ended: tell what was left out, and wait for the thread. After a wait in vain nothing is written any more. */
void log_stop(void);
/* Would the event be written at this level? */
bool log_wants(enum logged what);
/* One event. @about may be NULL. An error of @about is appended to the message. */
void log_event(enum logged what, const struct log_about *about, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* What is for developers: a line at the level "debug", without a MESSAGE_ID. */
void log_debug(const struct log_about *about, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));

#define LOG(what, ...) log_event((what), NULL, __VA_ARGS__)
/* "context: message of e", with the error's fields. */
#define LOG_ERROR(what, e, ...)                                                                    \
        log_event((what), &(struct log_about){.owner = OWNER_ANY, .err = (e)}, __VA_ARGS__)
/* With fields: LOG_FIELDS(what, ({"CONFAB_COUNT", NULL, 3}, ...), "words"). */
#define LOG_UNPACK(...) __VA_ARGS__
#define LOG_FIELDS(what, list, ...)                                                                \
        do {                                                                                       \
                const struct log_field log_fields[] = {LOG_UNPACK list};                           \
                                                                                                   \
                log_event((what),                                                                  \
                        &(struct log_about){.owner = OWNER_ANY,                                    \
                                .fields = log_fields,                                              \
                                .n_fields = sizeof(log_fields) / sizeof(log_fields[0])},           \
                        __VA_ARGS__);                                                              \
        } while (0)
