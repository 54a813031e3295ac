/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Owners: whose a conversation is, who pays for memory and disk, on whose behalf a request is made.
 *
 * An owner is one number. Its low 32 bits are a uid. Its high 32 bits are the number of a tenant of that
 * uid, or 0: a program that serves many people under one uid (a gateway) keeps them apart as tenants.
 *
 * 1. Two owners share nothing that two uids would not share, and each has limits of its own. So code that
 *    compares, counts or looks up owners uses the whole number. Only what is shown to people takes it apart.
 * 2. Without a tenant the owner is the uid, so numbers that were stored as uids are owners.
 * 3. An owner is at most OWNER_MAX, which SQLite's signed integers can hold, and its uid is not
 *    (uid_t)-1, which is no user. OWNER_ANY is no owner: where a function allows it, it stands for all.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define OWNER_ANY UINT64_MAX
#define OWNER_MAX ((uint64_t)INT64_MAX)
#define OWNER_MAX_TENANT ((uint32_t)INT32_MAX)

static inline uint64_t owner_make(uint32_t uid, uint32_t tenant) {
        return (uint64_t)tenant << 32 | uid;
}
static inline uint32_t owner_uid(uint64_t owner) {
        return (uint32_t)owner;
}
/* 0: none, the owner is the uid itself. */
static inline uint32_t owner_tenant(uint64_t owner) {
        return (uint32_t)(owner >> 32);
}
/* Rule 3. */
static inline bool owner_possible(uint64_t owner) {
        return owner <= OWNER_MAX && owner_uid(owner) != UINT32_MAX;
}

/* "user 1000", or "tenant 3 of user 1000". */
struct owner_text {
        char s[48];
};
static inline struct owner_text owner_text(uint64_t owner) {
        struct owner_text t;

        if (owner_tenant(owner) > 0)
                (void)snprintf(t.s, sizeof(t.s), "tenant %u of user %u", owner_tenant(owner),
                        owner_uid(owner));
        else
                (void)snprintf(t.s, sizeof(t.s), "user %u", owner_uid(owner));
        return t;
}
/* The text as an argument of a call. It lives until the full expression ends. */
#define OWNER_TEXT(owner) (owner_text(owner).s)
