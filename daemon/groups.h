/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The groups of users who are not at the other end of a connection: of those for whom somebody acts, and of those
 * whose limits an administrator looks at. The system's user database knows them; it may ask a network, so the
 * loop thread must not wait for it (I7). One thread of its own asks, one user after the other.
 *
 * 1. Each question is answered once, on the loop thread, unless it is forgotten before.
 * 2. A user whom the database does not know, or who is in too many groups, has those that were found, perhaps none.
 * 3. The thread starts with the first question. groups_stop() does not wait for the database: what is being asked then
 *    is given up, and the thread ends by itself.
 *
 * Loop thread only.
 */
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_base;
struct groups;
struct list;

#define GROUPS_MOST 1024 /* of one user, that are looked at */

/* @owned, of the question, is the callee's to free. @gids, [n]: borrowed, NULL if there are none. */
typedef void groups_fn(void *arg, void *owned, const uint32_t *gids, size_t n);

/* -ERR_SYS, -ERR_NOMEM. */
int groups_new(struct groups **ret, struct event_base *base, struct err *e);
struct groups *groups_stop(struct groups *groups);
/* Ask for the groups of @uid. The question takes over @owned (from malloc(), or NULL), unless this fails, and is in list
 * @mine of whoever asks until it is answered. -ERR_NOMEM, -ERR_SYS. */
int groups_ask(struct groups *groups, uint32_t uid, groups_fn *fn, void *arg, void *owned,
        struct list *mine, struct err *e);
/* Whoever asks goes away: the questions in list @mine have no answer. */
void groups_forget(struct list *mine);
