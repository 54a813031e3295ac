/* SPDX-License-Identifier: MIT */
/*
 * Parting: another machine wants a conversation that nobody uses here. Before it is given up, its memory goes to the remote store, so that
 * it need not be computed there: what is not on disk is written, and the push of it (far/push.c) goes before others, without rests.
 *
 * Whoever waits for the conversation waits for this, too. So it is done only if computing would take at least LEAST_USEC, and for no longer
 * than MOST_USEC; what is still under way then goes on without being waited for. Each thing that is waited for takes a round of the
 * engine thread, and rounds are long where it computes much: so what write-behind has written, but for a last block that is not full, is
 * not written once more.
 */
#include "base/clock.h"
#include "engine/far/far.h"
#include "engine/memory/state.h"

#define LEAST_USEC 100000
#define MOST_USEC 2500000 /* who asks is patient for 3 s (main/lease.c) */

bool part_step(struct engine *engine, struct conv *c) {
        uint64_t now = clock_monotonic_usec();

        if (!far_may_send(engine) || seq_n_tokens(c->seq) * rates_token_usec(engine) < LEAST_USEC)
                return false;
        if (c->t_parting == 0)
                c->t_parting = now;
        if (now - c->t_parting > MOST_USEC)
                return false;
        if (seq_n_resident(c->seq) > 0 && !list_empty(&c->dirty)) {
                (void)evict_idle(engine, c);
                return true;
        }
        return far_hurry(engine, c);
}
