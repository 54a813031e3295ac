/* SPDX-License-Identifier: MIT */
#include "base/share.h"
#include <assert.h>
#include <unistd.h>

bool share_exempt(uint64_t owner) {
        return owner == 0 || owner == geteuid();
}

/* Parts of the total that are kept: for users who hold little (and how little), and for root. */
#define RESERVE_PART 8
#define LITTLE_PART 256
#define ROOT_PART 32

static bool fits(const struct share *share, uint64_t n) {
        const struct share_pot *pot = share->pot;
        uint64_t free = pot->total > pot->used ? pot->total - pot->used : 0, own, left, most;

        if (n > free)
                return false;
        if (share->exempt)
                return true;
        left = free - n;
        own = share->used + n;
        if (left < pot->total / ROOT_PART)
                return false;
        if (own <= pot->total / LITTLE_PART || own == 1)
                return true;
        most = share->max > 0 ? share->max : left;
        return own <= most && left >= pot->total / RESERVE_PART;
}

int share_take(struct share *share, uint64_t n) {
        struct share_pot *pot = share->pot;

        if (!fits(share, n))
                return 1;
        share->used += n;
        pot->used += n;
        if (pot->peak < pot->used)
                pot->peak = pot->used;
        return 0;
}

void share_give(struct share *share, uint64_t n) {
        assert(share->used >= n && share->pot->used >= n);
        share->used -= n;
        share->pot->used -= n;
}

bool share_may_move(const struct share *from, const struct share *to, uint64_t n) {
        struct share_pot pot = *to->pot;
        struct share after = *to;

        assert(from->pot == to->pot && from->used >= n && pot.used >= n);
        after.pot = &pot;
        pot.used -= n;
        return n == 0 || fits(&after, n);
}

void share_move(struct share *from, struct share *to, uint64_t n) {
        assert(from->pot == to->pot && from->used >= n);
        from->used -= n;
        to->used += n;
}
