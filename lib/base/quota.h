/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Quotas: the limits that each owner (base/owner.h) has for itself.
 *
 * 1. A limit has the name of its setting everywhere: in the settings, the protocol, the register, and the messages
 *    of what is refused.
 * 2. The daemon decides which value holds for whom (daemon/quotas.c). What enforces a limit gets the value with
 *    the request, and knows nothing of overrides.
 * 3. QUOTA_NONE is no limit. 0 is a limit that leaves nothing.
 * 4. A refusal says what the limit is, what is in use, and what helps (quota_refuse()).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum quota {
        QUOTA_CONVERSATIONS,
        QUOTA_TOKENS,         /* of all transcripts */
        QUOTA_TOKENS_PER_DAY, /* computed for prompts and generated; a day is realtime / 86400 s */
        QUOTA_RAM,            /* percent of what the memory of conversations may have */
        QUOTA_DISK,           /* bytes of spill files */
        QUOTA_REQUESTS,       /* in flight */
        QUOTA_CONNECTIONS,
        QUOTA_N
};
#define QUOTA_NONE UINT64_MAX
#define QUOTA_RAM_ALL 100 /* percent */

/* The limits of one owner. */
struct quotas {
        uint64_t max[QUOTA_N];
};
#define QUOTAS_NONE                                                                                \
        ((struct quotas){{QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE,  \
                QUOTA_NONE}})

struct quota_info {
        const char *name; /* of its setting */
        const char *unit; /* of value and use, for people and programs */
        uint64_t most;    /* the greatest value, besides QUOTA_NONE */
};
const struct quota_info *quota_info(enum quota quota);
/* The limit of this name. -ERR_INVALID: there is none. */
int quota_find(enum quota *ret, const char *name, struct err *e);

/* What an override is for. */
enum quota_kind {
        QUOTA_OF_USER,
        QUOTA_OF_GROUP,
        QUOTA_OF_TENANTS, /* of all tenants of a user */
        QUOTA_OF_TENANT,
        QUOTA_N_KINDS
};
struct quota_subject {
        enum quota_kind kind;
        uint32_t number;   /* uid, or gid of a group */
        const char *label; /* of a tenant; "" for the others */
};
/* "user 1000", "group 100", "all tenants of user 1000", "tenant 'pat' of user 1000" (cut to fit). */
struct quota_subject_text {
        char s[192];
};
struct quota_subject_text quota_subject_text(const struct quota_subject *subject);
/* The text as an argument of a call. It lives until the full expression ends. */
#define QUOTA_SUBJECT_TEXT(subject) (quota_subject_text(subject).s)
/* -1, 0, 1: an order of subjects, by kind, number and label. */
int quota_subject_compare(const struct quota_subject *a, const struct quota_subject *b);

/* One limit of one subject, set by an administrator. */
struct quota_override {
        struct quota_subject subject;
        enum quota quota;
        uint64_t value;
};

/* The day of a time, and when the next one begins. */
#define QUOTA_DAY_USEC (UINT64_C(86400) * 1000000)
static inline uint64_t quota_day(uint64_t realtime_usec) {
        return realtime_usec / QUOTA_DAY_USEC;
}
static inline uint64_t quota_day_ends(uint64_t realtime_usec) {
        return (quota_day(realtime_usec) + 1) * QUOTA_DAY_USEC;
}

/* Fill @e and return -ERR_LIMIT: @owner, which uses @used of a limit of @max, wants @more. @now_usec: realtime, for
 * QUOTA_TOKENS_PER_DAY. Not of QUOTA_RAM, which refuses nothing. */
int quota_refuse(struct err *e, uint64_t owner, enum quota quota, uint64_t used, uint64_t more,
        uint64_t max, uint64_t now_usec);
