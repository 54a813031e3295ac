/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the daemon keeps for each user: an owner (base/owner.h), that is a uid or a tenant of one. The number of connections and the memory of their
 * buffers, as fair shares of the totals (base/share.h), and figures of the work done for the user's
 * connections.
 *
 * 1. A refused connection belongs to its user, but is not counted among the user's connections.
 * 2. A user without connections is remembered for the figures, as long as there are at most
 *    USERS_IDLE_MAX such users.
 * 3. A user has the limits that hold for it (quotas.h), by the groups that it was in when it last connected, or that
 *    the user database named when somebody began to act for it. users_limit() finds them anew when any of that changes.
 *
 * Loop thread only.
 */
#include "base/list.h"
#include "base/share.h"
#include "daemon/quotas.h"
#include <stddef.h>
#include <stdint.h>

struct err;
struct map;

#define USERS_IDLE_MAX 4096
#define USERS_TELL_USEC (600 * 1000000ull)

/* Since the daemon started, in requests and tokens. */
struct user_figures {
        uint64_t requests, prefilled, decoded, drafted, accepted, reused_ram, reused_disk,
                reused_shared;
};

struct user {
        uint64_t owner;
        size_t n_refs;            /* connections, refused ones too */
        struct share connections; /* admitted ones */
        struct share io;          /* bytes of buffers */
        size_t n_streams;         /* exports and imports in the stream (streams.h) */
        struct user_figures figures;
        uint64_t limit_told_usec; /* monotonic, or 0: users_tell_limit() */
        char *tenant;             /* the label of the owner's tenant, owned, or NULL */
        uint32_t *gids;           /* [n_gids], owned */
        size_t n_gids;
        bool knows_groups;
        struct list questions; /* they are asked for (groups.h) */
        struct users *all;
        struct quota_limits limits;
        bool is_limited; /* they have been found */
};

struct users {
        struct map *by_owner; /* to struct user */
        struct quota_rules rules;
        size_t n_idle; /* users without connections */
        struct share_pot connections, io;
};

/* -ERR_NOMEM. */
int users_init(struct users *users, struct err *e);
void users_deinit(struct users *users);
/* The user of one more connection, to be given back with users_leave(). -ERR_NOMEM. */
int users_join(struct users *users, uint64_t owner, struct user **ret, struct err *e);
void users_leave(struct users *users, struct user *user);
/* Forget the figures of @owner, and (@all_tenants) of the tenants of this uid. */
void users_forget(struct users *users, uint64_t owner, bool all_tenants);
/* The user of @owner, or NULL. */
struct user *users_find(const struct users *users, uint64_t owner);
/* The user that is the tenant of this label of @uid, or NULL. Looks at all users. */
struct user *users_find_tenant(const struct users *users, uint32_t uid, const char *label);
/* The groups of @user, copied; and the label of its tenant, or NULL. -ERR_NOMEM. */
int users_set_groups(struct user *user, const uint32_t *gids, size_t n, struct err *e);
int users_set_tenant(struct user *user, const char *label, struct err *e);
/* Find the limits that hold for @user now. True: it had limits, and those of RAM or disk are others
 * now. */
bool users_limit(const struct users *users, const struct settings *s, struct user *user);
/* Is it to be told that @user has reached a limit? At most once in USERS_TELL_USEC. */
bool users_tell_limit(struct user *user);
/* Count a connection of @user, who may have @max (which its limits say, as a rule): 0 or -ERR_LIMIT. */
int users_admit(struct users *users, struct user *user, uint64_t max, struct err *e);
/* A counted connection of @from, with @io bytes of buffers, becomes one of @to, who may have @max: 0, or
 * -ERR_LIMIT and nothing has moved. */
int users_move(struct users *users, struct user *from, struct user *to, uint64_t max, uint64_t io,
        struct err *e);
