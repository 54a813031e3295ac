/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Which limit holds for whom.
 *
 * For one owner and one limit, the first of these that there is:
 *
 * 1. Of a tenant: the override of this tenant; then that of all tenants of its user. Of a user: the override of the
 *    user, which says nothing about its tenants.
 * 2. Of the groups of the user: the most generous override that any of them has (no limit is more than any value; of
 *    equal ones that of the lowest gid is named).
 * 3. The setting.
 *
 * Each limit is looked up by itself: an override of one says nothing about the others.
 *
 * 4. The overrides are in RAM as they are in the register: read at the start, and changed when the register has
 *    committed a change. What a change needs is allocated before it goes to the register, so none is lost.
 * 5. Nothing here asks the system's user database: who belongs to which groups is the caller's to know (users.h).
 *
 * Loop thread only.
 */
#include "base/quota.h"
#include "engine/engine.h"

struct settings;

/* Numbers as in the protocol. */
enum quota_origin {
        QUOTA_FROM_SETTING = 1,
        QUOTA_FROM_GROUP,
        QUOTA_FROM_USER,
        QUOTA_FROM_TENANTS,
        QUOTA_FROM_TENANT
};
struct quota_limits {
        struct quotas quotas;
        enum quota_origin origin[QUOTA_N];
        uint32_t gid[QUOTA_N]; /* of the group, if it is a group's */
};

/* An override, with a label of its own ("" if it has none). */
struct quota_rule {
        struct quota_override o;
        char *label; /* owned, or NULL */
};
struct quota_rules {
        struct quota_rule *list; /* [n], by subject and limit */
        size_t n, capacity;
        size_t n_promised; /* places for changes under way */
        size_t n_groups;   /* of the rules, those of groups */
};
#define QUOTA_RULES_NULL ((struct quota_rules){})

/* Take over what the register has: @list as engine_overrides() gives it (not taken over). -ERR_NOMEM. */
int quota_rules_load(
        struct quota_rules *rules, const struct quota_override *list, size_t n, struct err *e);
/* The same in place of those that are there, on failure these stay. */
int quota_rules_replace(
        struct quota_rules *rules, const struct quota_override *list, size_t n, struct err *e);
void quota_rules_deinit(struct quota_rules *rules);

/* A change of the overrides of one subject, on its way to the register. */
struct quota_change {
        struct quota_subject subject; /* its label is borrowed */
        struct engine_override overrides[QUOTA_N];
        char *labels[QUOTA_N]; /* owned by the change: for rules that it makes */
};
/* Reserve what the change needs, whose labels are the caller's to free in any case. -ERR_NOMEM. */
int quota_change_prepare(struct quota_rules *rules, struct quota_change *change, struct err *e);
/* The register has it. Cannot fail. */
void quota_change_apply(struct quota_rules *rules, struct quota_change *change);
/* The register refused it. */
void quota_change_drop(struct quota_rules *rules, struct quota_change *change);

/* The override of just this subject: false if there is none. */
bool quota_rules_find(const struct quota_rules *rules, const struct quota_subject *subject,
        enum quota quota, uint64_t *ret);
/* The place of the first rule behind (subject, quota); quota QUOTA_N: behind all of the subject. */
size_t quota_rules_behind(
        const struct quota_rules *rules, const struct quota_subject *subject, enum quota quota);

/* The limits of a subject. @gids, [n_gids]: the groups of its user; a group has none. */
void quota_resolve(const struct quota_rules *rules, const struct settings *s,
        const struct quota_subject *subject, const uint32_t *gids, size_t n_gids,
        struct quota_limits *ret);
