/* SPDX-License-Identifier: MIT */
#include "base/quota.h"
#include "base/err.h"
#include "base/owner.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The most that the settings allow, which are in a table of the daemon's (a test compares them). */
static const struct quota_info infos[QUOTA_N] = {
        [QUOTA_CONVERSATIONS] = {"max-conversations", "conversations", 1u << 30},
        [QUOTA_TOKENS] = {"max-user-tokens", "tokens", 1ull << 60},
        [QUOTA_TOKENS_PER_DAY] = {"max-user-tokens-per-day", "tokens", 1ull << 60},
        [QUOTA_RAM] = {"ram-share-per-user", "percent", QUOTA_RAM_ALL},
        [QUOTA_DISK] = {"disk-limit-per-user", "bytes", 1ull << 60},
        [QUOTA_REQUESTS] = {"max-user-requests", "requests", 65536},
        [QUOTA_CONNECTIONS] = {"max-user-connections", "connections", 100000},
};

const struct quota_info *quota_info(enum quota quota) {
        return &infos[quota];
}

int quota_find(enum quota *ret, const char *name, struct err *e) {
        for (size_t i = 0; i < QUOTA_N; i++)
                if (strcmp(infos[i].name, name) == 0) {
                        *ret = (enum quota)i;
                        return 0;
                }
        return err_set(e, ERR_INVALID, "no limit is called '%s'", name);
}

struct quota_subject_text quota_subject_text(const struct quota_subject *subject) {
        struct quota_subject_text t;

        switch (subject->kind) {
        case QUOTA_OF_GROUP:
                (void)snprintf(t.s, sizeof(t.s), "group %" PRIu32, subject->number);
                break;
        case QUOTA_OF_TENANTS:
                (void)snprintf(t.s, sizeof(t.s), "all tenants of user %" PRIu32, subject->number);
                break;
        case QUOTA_OF_TENANT:
                (void)snprintf(t.s, sizeof(t.s), "tenant '%s' of user %" PRIu32, subject->label,
                        subject->number);
                break;
        default:
                (void)snprintf(t.s, sizeof(t.s), "user %" PRIu32, subject->number);
        }
        return t;
}

int quota_subject_compare(const struct quota_subject *a, const struct quota_subject *b) {
        int r;

        if (a->kind != b->kind)
                return a->kind < b->kind ? -1 : 1;
        if (a->number != b->number)
                return a->number < b->number ? -1 : 1;
        r = strcmp(a->label, b->label);
        return (r > 0) - (r < 0);
}

static int refuse_day(struct err *e, uint64_t owner, uint64_t used, uint64_t max, uint64_t now) {
        time_t ends = (time_t)(quota_day_ends(now) / 1000000);
        char text[32] = "tomorrow";
        struct tm tm;

        if (gmtime_r(&ends, &tm))
                (void)strftime(text, sizeof(text), "on %Y-%m-%d at 00:00 UTC", &tm);
        return err_set(e, ERR_LIMIT,
                "%s used %" PRIu64 " tokens today, the limit (max-user-tokens-per-day = %" PRIu64
                "); it starts anew %s, or ask the administrator ('confab admin quota')",
                OWNER_TEXT(owner), used, max, text);
}

int quota_refuse(struct err *e, uint64_t owner, enum quota quota, uint64_t used, uint64_t more,
        uint64_t max, uint64_t now_usec) {
        static const char *const texts[QUOTA_N][2] = {
                [QUOTA_CONVERSATIONS] = {"", "close some with 'confab close'"},
                [QUOTA_TOKENS] = {" in all", "close or rewind some"},
                [QUOTA_RAM] = {"", ""},
                [QUOTA_DISK] = {" in spill files", "close some"},
                [QUOTA_REQUESTS] = {" in flight", "wait for some to end"},
                [QUOTA_CONNECTIONS] = {"", "close some"},
        };
        const char *unit = infos[quota].unit; /* a plural in -s */
        char wanted[48] = "";

        if (quota == QUOTA_TOKENS_PER_DAY)
                return refuse_day(e, owner, used, max, now_usec);
        if (more > 1)
                (void)snprintf(wanted, sizeof(wanted), " and wants %" PRIu64 " more", more);
        return err_set(e, ERR_LIMIT,
                "%s has %" PRIu64 " %.*s%s%s, the limit for this %s (%s = %" PRIu64
                "); %s, or ask the administrator ('confab admin quota')",
                OWNER_TEXT(owner), used, (int)strlen(unit) - (used == 1), unit, texts[quota][0],
                wanted, owner_tenant(owner) ? "tenant" : "user", infos[quota].name, max,
                texts[quota][1]);
}
