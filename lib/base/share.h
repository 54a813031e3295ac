/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Fair shares of a bounded thing (bytes, connections, places) among users.
 *
 * 1. used <= total at every moment, unless the total was made smaller; then nobody gets more until
 *    enough has come back.
 * 2. A user may hold `max`. Where none is set, a user gets more only if afterwards at least as much
 *    is free as the user holds, so one user alone gets half.
 * 3. The last eighth of the total is for users who hold little: of it a user gets more only up to
 *    1/256 of the total. So users who have taken all they can do not shut out the next ones, though
 *    each alone keeps within rule 2.
 * 4. The last 1/32 is for root, and for the user whom the process runs as (share_exempt()). Rules 2
 *    and 3 are not for these two: an administrator gets in at any time, and a daemon that serves
 *    its owner alone has nobody to keep anything for.
 *
 * Not locked: a pot and its shares are one thread's, or under one lock.
 */
#include <stdbool.h>
#include <stdint.h>

/* What there is. */
struct share_pot {
        uint64_t total, used, peak; /* peak: the most that was ever used */
};

/* What one user holds of it. */
struct share {
        struct share_pot *pot; /* borrowed */
        uint64_t used;
        uint64_t max; /* 0: as rule 2 has it */
        bool exempt;  /* from all rules but the first */
};

/* Whether rule 4 names @uid. */
bool share_exempt(uint32_t uid);
/* 0, or 1 when it does not fit (nothing is taken). */
int share_take(struct share *share, uint64_t n);
/* Gives back what was taken; @n <= share->used. */
void share_give(struct share *share, uint64_t n);
