/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Fair shares of a bounded resource (bytes, connections, places) among users.
 *
 * 1. used <= total at every moment, unless the total was lowered; then no user gets more until
 *    enough has been given back.
 * 2. A user may hold `max`. If none is set, a user gets more only if afterwards at least as much is
 *    free as the user holds, so one user alone gets half.
 * 3. The last eighth of the total is for users who hold little: there a user gets more only up to a
 *    holding of 1/256 of the total. So several users who each take all that rule 2 allows do not
 *    shut out the next ones.
 * 4. The last 1/32 is for root and the user that the process runs as (share_exempt()). Rules 2 and
 *    3 do not apply to these two: an administrator gets in at any time, and a daemon that serves
 *    only its owner has no one else to reserve for.
 *
 * Not locked: a pot and its shares belong to one thread, or are under one lock.
 */
#include <stdbool.h>
#include <stdint.h>

/* The resource. */
struct share_pot {
        uint64_t total, used, peak; /* peak: the most that was ever used */
};

/* What one user holds of the resource. */
struct share {
        struct share_pot *pot; /* borrowed */
        uint64_t used;
        uint64_t max; /* 0: not set, see rule 2 */
        bool exempt;  /* from all rules but the first */
};

/* Whether rule 4 names @owner. A tenant (base/owner.h) never is exempt, whatever its uid is. */
bool share_exempt(uint64_t owner);
/* 0, or 1 when it does not fit (nothing is taken). */
int share_take(struct share *share, uint64_t n);
/* Give back @n <= share->used. */
void share_give(struct share *share, uint64_t n);
/* Whether @to, of the same pot, could take @n if @from gave them back first. Nothing changes. 0 can always
 * be moved. */
bool share_may_move(const struct share *from, const struct share *to, uint64_t n);
/* @n <= from->used of the one become the other's, whatever the rules say. */
void share_move(struct share *from, struct share *to, uint64_t n);
