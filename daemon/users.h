/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the daemon counts for each user (uid) with connections. Loop thread only.
 */
#include <stddef.h>
#include <stdint.h>

struct err;
struct map;

struct user {
        uint32_t uid;
        size_t n_peers; /* connections; a user without any is forgotten */
};

struct users {
        struct map *by_uid; /* to struct user */
};

/* -ERR_NOMEM. */
int users_init(struct users *users, struct err *e);
void users_deinit(struct users *users);
/* One more connection of @uid, of which there may be @max: 0, -ERR_LIMIT or -ERR_NOMEM. */
int users_connect(struct users *users, uint32_t uid, uint64_t max, struct err *e);
/* One fewer, after users_connect(). */
void users_disconnect(struct users *users, uint32_t uid);
