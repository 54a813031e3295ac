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
 *
 * Loop thread only.
 */
#include "base/share.h"
#include <stddef.h>
#include <stdint.h>

struct err;
struct map;

#define USERS_IDLE_MAX 4096

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
};

struct users {
        struct map *by_owner; /* to struct user */
        size_t n_idle;        /* users without connections */
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
/* Count a connection of @user, who may have @max: 0 or -ERR_LIMIT. */
int users_admit(struct users *users, struct user *user, uint64_t max, struct err *e);
/* A counted connection of @from, with @io bytes of buffers, becomes one of @to, who may have @max: 0, or
 * -ERR_LIMIT and nothing has moved. */
int users_move(struct users *users, struct user *from, struct user *to, uint64_t max, uint64_t io,
        struct err *e);
