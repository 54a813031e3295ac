/* SPDX-License-Identifier: MIT */
/*
 * Scheduling: continuous batching within a token budget per step.
 *
 * 1. Every step computes one token of each generating request and fills the rest of its budget with
 * prefill, so a long prompt delays the others by one chunk at most. A part of the budget is
 * prefill's if there is any; who got a token goes to the end of the line, so that all get their
 * turn when the budget is too small for a token of each.
 * 2. Fair between uids by tokens served (the uid that got least goes first), then in order of
 * arrival. Background requests stand back, but age: after some seconds they count as interactive.
 * 3. A prompt that begins like another one's takes over what that one has computed so far
 * (share.c), and leaves out a step in which it would compute the same block beside it.
 * 4. A request is admitted only if the blocks that it and all active ones may come to need fit the
 * pool together. So an active request never waits for another active one, only for evictions of
 * idle memory. The first in line is not overtaken when it does not fit yet.
 * 5. A paused request is not admitted, and gives its place back (it is parked: in the queue again,
 * with its tokens, and its memory may be evicted) when another one could have it. So a peer that
 * does not read withholds nothing from others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"

#define BACKGROUND_PENALTY 4096 /* tokens */
#define AGING_PER_SECOND 256
#define RATE_TOKENS 16 /* steps of fewer tell nothing about the speed of prefill */

void sched_queue(struct engine *en, struct ereq *rq) {
        rq->phase = PHASE_QUEUED;
        rq->order = en->next_order++;
        list_append(&en->queue, &rq->link);
        en->again = true;
}

void sched_leave(struct engine *en, struct ereq *rq) {
        list_unlink(&rq->link);
        en->again = true;
        if (rq->phase == PHASE_QUEUED)
                return;
        en->n_active--;
        en->active_blocks -= rq->g.need_blocks;
}

/* Smaller goes first. */
static uint64_t priority(const struct ereq *rq, uint64_t now) {
        uint64_t p = rq->usage->served, aged;

        if (rq->r.background) {
                aged = (now - rq->t_submitted) / 1000000 * AGING_PER_SECOND;
                if (aged < BACKGROUND_PENALTY)
                        p += BACKGROUND_PENALTY - aged;
        }
        return p;
}

static bool goes_before(const struct ereq *a, const struct ereq *b, uint64_t now) {
        uint64_t pa = priority(a, now), pb = priority(b, now);

        return pa != pb ? pa < pb : a->order < b->order;
}

static bool is_paused(struct ereq *rq) {
        return atomic_load(&rq->paused) && !atomic_load(&rq->cancel);
}

static struct ereq *first_in_line(struct engine *en, uint64_t now) {
        struct ereq *best = NULL;
        struct list *it;

        list_for_each (it, &en->queue) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                if (!is_paused(rq) && (!best || goes_before(rq, best, now)))
                        best = rq;
        }
        return best;
}

static bool fits(struct engine *en, const struct ereq *rq) {
        return en->n_active < en->o.max_active &&
               (en->n_active == 0 ||
                       en->active_blocks + rq->g.need_blocks <= residency_capacity(en));
}

/* Take the place of one paused request; false if there is none. */
static bool park_one(struct engine *en) {
        struct list *it;

        list_for_each (it, &en->active) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                if (!is_paused(rq) || rq->phase == PHASE_READING)
                        continue;
                residency_restore_abandon(en, rq);
                seq_unreserve(rq->conv->seq);
                sched_leave(en, rq);
                rq->phase = PHASE_QUEUED;
                list_append(&en->queue, &rq->link);
                return true;
        }
        return false;
}

static void admit(struct engine *en) {
        uint64_t now = clock_monotonic_usec();
        struct ereq *best;

        while ((best = first_in_line(en, now))) {
                if (!fits(en, best)) {
                        if (!park_one(en))
                                return;
                        continue;
                }
                list_unlink(&best->link);
                list_append(&en->active, &best->link);
                en->n_active++;
                en->active_blocks += best->g.need_blocks;
                best->phase = PHASE_RESTORE;
                if (best->g.t_admitted == 0)
                        best->g.t_admitted = now;
        }
}

static void cancel_all(struct engine *en, struct list *list, const struct err *e) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, list) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                if (!atomic_load(&rq->cancel))
                        continue;
                if (rq->phase == PHASE_READING)
                        residency_restore_stop(rq); /* it ends when the workers are out of it */
                else
                        generate_cancel(en, rq, e);
        }
}

void sched_cancelled(struct engine *en) {
        struct err e;

        if (en->stopping)
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping; nothing was changed");
        else
                err_set(&e, ERR_CANCELLED, "cancelled before the reply began; nothing was changed");
        cancel_all(en, &en->queue, &e);
        cancel_all(en, &en->active, &e);
}

static void restore_all(struct engine *en) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &en->active) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                if (rq->phase == PHASE_RESTORE)
                        residency_restore(en, rq);
        }
}

/* Put @want tokens of the request into the batch; 0 if there is no room right now. */
static uint32_t add_to_batch(
        struct engine *en, struct ereq *rq, uint32_t want, size_t *n, size_t *n_rows) {
        struct conv *c = rq->conv;
        uint32_t pos = seq_n_tokens(c->seq);
        struct err e;
        int r;

        while ((r = seq_reserve(c->seq, want, &e)) == SEQ_FULL) {
                enum room room = residency_make_room(en);

                if (room == ROOM_LATER)
                        return 0;
                if (room == ROOM_NEVER) {
                        r = err_set(&e, ERR_LIMIT, "the memory budget is exhausted");
                        break;
                }
        }
        if (r < 0) {
                generate_abort(en, rq, &e);
                return 0;
        }
        for (uint32_t i = 0; i < want; i++) {
                bool last = pos + i + 1 == c->n_all && rq->g.max_new > 0;

                en->batch[(*n)++] = (struct model_token){.token = c->tokens[pos + i],
                        .pos = pos + i,
                        .seq = c->seq,
                        .want_logits = last};
                if (last)
                        en->batch_rows[(*n_rows)++] = rq;
        }
        rq->g.in_batch = want;
        rq->usage->served += want;
        return want;
}

/* The prefilling requests, best first, in an array of at most max_active. */
static size_t prefill_order(struct engine *en, struct ereq **order) {
        uint64_t now = clock_monotonic_usec();
        struct list *it;
        size_t n = 0;

        list_for_each (it, &en->active) {
                struct ereq *rq = list_entry(it, struct ereq, link);
                size_t i;

                if (rq->phase != PHASE_PREFILL || is_paused(rq))
                        continue;
                for (i = n; i > 0 && goes_before(rq, order[i - 1], now); i--)
                        order[i] = order[i - 1];
                order[i] = rq;
                n++;
        }
        return n;
}

/* Tokens of a step that decoding may have. */
static size_t decode_share(const struct engine *en, size_t n_prefill) {
        size_t all = en->o.batch_tokens;

        if (n_prefill == 0)
                return all;
        return all > 1 ? all - MAX(all / 4, (size_t)1) : en->count.steps % 2;
}

/* Is the next block of the prompt being computed in this very step, for a prompt that is the same
 * so far? @before are those that come before it. */
static bool computed_beside(
        const struct engine *en, const struct ereq *rq, struct ereq *const *before, size_t n) {
        const struct conv *c = rq->conv;
        size_t bt = en->info.block_tokens, end = (seq_n_tokens(c->seq) / bt + 1) * bt;

        if (rq->g.n_generated > 0 || !share_allowed(c) || end > share_limit(en, rq) * bt)
                return false;
        for (size_t i = 0; i < n; i++) {
                const struct conv *o = before[i]->conv;

                if (o->uid == c->uid && share_allowed(o) && before[i]->g.in_batch > 0 &&
                        end > seq_n_tokens(o->seq) &&
                        end <= (size_t)seq_n_tokens(o->seq) + before[i]->g.in_batch &&
                        memcmp(o->tokens, c->tokens, end * sizeof(*c->tokens)) == 0)
                        return true;
        }
        return false;
}

/* What the step has left for a prompt. */
static void add_prefill(
        struct engine *en, struct ereq **order, size_t i, size_t *n, size_t *n_rows) {
        struct ereq *rq = order[i];
        uint32_t left;

        if (rq->g.n_generated == 0 && share_adopt(en, rq) > 0)
                generate_adopted(en, rq);
        if (computed_beside(en, rq, order, i))
                return;
        left = rq->conv->n_all - seq_n_tokens(rq->conv->seq);
        if (left == 0) {
                generate_finish(en, rq, ENGINE_FINISH_LENGTH); /* nothing was to be generated */
                return;
        }
        add_to_batch(en, rq, MIN(left, (uint32_t)(en->o.batch_tokens - *n)), n, n_rows);
}

static size_t build_batch(struct engine *en, size_t *n_rows) {
        struct ereq *order[ENGINE_MAX_ACTIVE];
        size_t n = 0, n_prefill = prefill_order(en, order), share = decode_share(en, n_prefill);
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &en->active) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                rq->g.in_batch = 0;
                if (rq->phase == PHASE_DECODE && !is_paused(rq) && n < share)
                        add_to_batch(en, rq, 1, &n, n_rows);
        }
        for (size_t i = 0; i < n_prefill && n < en->o.batch_tokens; i++)
                add_prefill(en, order, i, &n, n_rows);
        return n;
}

/* What was computed belongs to the sequences; who had a share goes to the end of the line. */
static void commit_batch(struct engine *en) {
        struct list *it, *tmp, served;
        uint32_t start;

        list_init(&served);
        list_for_each_safe (it, tmp, &en->active) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                if (rq->g.in_batch == 0)
                        continue;
                start = seq_n_tokens(rq->conv->seq);
                seq_commit(rq->conv->seq, rq->g.in_batch);
                share_enter(en, rq->conv, start / en->info.block_tokens);
                list_unlink(&rq->link);
                list_append(&served, &rq->link);
        }
        while (!list_empty(&served)) {
                it = served.next;
                list_unlink(it);
                list_append(&en->active, it);
        }
}

static void update_floor(struct engine *en) {
        uint64_t least = UINT64_MAX;
        struct list *it;

        list_for_each (it, &en->active) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                least = MIN(least, rq->usage->served);
        }
        if (least != UINT64_MAX)
                atomic_store(&en->served_floor, least);
}

/* One forward call, as things stand; the number of its tokens. */
static size_t compute(struct engine *en, size_t *n_rows) {
        struct ereq *first =
                list_empty(&en->active) ? NULL : list_entry(en->active.next, struct ereq, link);
        uint64_t start;
        size_t n;

        if (en->n_active == 1 && !is_paused(first) && restore_compute(en, first, n_rows))
                return first->g.in_batch;
        n = build_batch(en, n_rows);
        if (n == 0)
                return 0;
        start = clock_monotonic_usec();
        model_forward(en->work, en->batch, n, NULL);
        if (n >= RATE_TOKENS)
                restore_note_computed(en, n, clock_monotonic_usec() - start);
        return n;
}

bool sched_step(struct engine *en) {
        size_t n, n_rows = 0;
        struct list *it, *tmp;

        sched_cancelled(en);
        if (event_backlog(en))
                return false;
        admit(en);
        restore_all(en);
        n = compute(en, &n_rows);
        if (n == 0)
                return false;
        en->count.steps++;
        update_floor(en);
        commit_batch(en);
        list_for_each_safe (it, tmp, &en->active) {
                struct ereq *rq = list_entry(it, struct ereq, link);
                const float *logits = NULL;

                if (rq->g.in_batch == 0)
                        continue;
                for (size_t row = 0; row < n_rows; row++)
                        if (en->batch_rows[row] == rq)
                                logits = model_logits(en->work, row);
                generate_advance(en, rq, logits);
        }
        return true;
}
