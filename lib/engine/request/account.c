/* SPDX-License-Identifier: MIT */
/*
 * What a Continue or Warm may still use of its owner's limits on tokens.
 *
 *      dispatch            job of the request              engine thread
 *      account_look() ───→ account_read() ───→ ... ───→ account_begin() ─ account_add(), account_is_full() ─→ ...
 *      what was stored     what the register has          may it begin?      each token of the reply
 *      until now
 *
 * 1. What an owner has is what the register had when the request read it, plus what Continue has stored for the
 *    owner since account_look(), plus what is not stored yet. A transaction of the owner between the two may count twice,
 *    so then the register is read again (account_read_again()) when the transaction is over, a few times: with an owner who
 *    stores all the time the sum may be too large, never too small for what Continue adds. What others add or remove
 *    meanwhile counts with the next request.
 * 2. Tokens that an edit is about to drop are free for the tokens that take their place.
 *    The first token of a reply is counted when the request begins, so that it can have it.
 * 3. Work is every token that the model has computed for a prompt, and every token generated. It is written with the
 *    reply (account_take()). What a request has left when it ends without a reply is written by a job of its own,
 *    behind the final event.
 * 4. An owner's account lives as long as requests or jobs of the owner do; only the engine thread looks into it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine/request/request.h"

#define MOST_READS 16

static bool is_limited(const struct request *request, enum quota quota) {
        return request->r.quotas.max[quota] != QUOTA_NONE;
}

void account_look(struct request *request) {
        const struct account *a = &request->usage->account;

        request->account.tokens_at = a->stored_tokens;
        request->account.work_at = a->stored_work;
        request->account.n_stored_at = a->n_stored;
}

bool account_read_again(struct engine *engine, struct request *request,
        void (*again)(struct engine *engine, struct request *request)) {
        struct account *a = &request->usage->account;
        struct account_part *part = &request->account;

        if (!part->reads || (a->n_storing == 0 && a->n_stored == part->n_stored_at) ||
                ++part->n_reads == MOST_READS)
                return false;
        if (a->n_storing == 0) {
                again(engine, request);
        } else {
                part->again = again;
                list_append(&a->waiting, &request->link);
        }
        return true;
}

/* A transaction is over, and what it stored is counted. */
static void over(struct engine *engine, struct account *a) {
        struct list waiting;

        a->n_storing--;
        a->n_stored++;
        list_move_all(&waiting, &a->waiting);
        while (!list_empty(&waiting)) {
                struct request *request = list_entry(waiting.next, struct request, link);

                list_unlink(&request->link);
                request->account.again(engine, request);
        }
}

int account_read(struct engine *engine, struct request *request, struct err *e) {
        if (!is_limited(request, QUOTA_TOKENS) && !is_limited(request, QUOTA_TOKENS_PER_DAY))
                return 0;
        request->account.reads = true;
        return store_usage(engine->store, request->r.owner, &request->account.seen, e);
}

/* What the owner has (rule 1). */
uint64_t account_used(const struct request *request, enum quota quota, uint64_t now_usec) {
        const struct account *a = &request->usage->account;
        const struct account_part *part = &request->account;
        bool today = part->seen.day == quota_day(now_usec);

        if (quota == QUOTA_TOKENS)
                return part->seen.n_tokens + (a->stored_tokens - part->tokens_at) + a->live_tokens;
        return (today ? part->seen.day_tokens : 0) + (a->stored_work - part->work_at) +
               a->live_work;
}

static uint64_t left(const struct request *request, enum quota quota, uint64_t now_usec) {
        uint64_t max = request->r.quotas.max[quota], n;

        if (max == QUOTA_NONE)
                return UINT64_MAX;
        n = account_used(request, quota, now_usec);
        return n < max ? max - n : 0;
}

void account_add(struct request *request, uint32_t n) {
        struct account_part *part = &request->account;
        uint32_t free = MIN(n, part->spare + part->n_ahead);

        part->spare -= MIN(free, part->spare);
        part->n_ahead = 0;
        part->live_tokens += n - free;
        request->usage->account.live_tokens += n - free;
}

void account_take_back(struct request *request, uint32_t n) {
        struct account_part *part = &request->account;
        uint64_t less = n < part->live_tokens ? n : part->live_tokens;

        part->live_tokens -= less;
        request->usage->account.live_tokens -= less;
}

int account_begin(struct request *request, uint32_t n_before, uint32_t n_after, bool replies,
        uint32_t *max_new, struct err *e) {
        uint64_t now = clock_realtime_usec(), n_left;
        uint32_t added = n_after > n_before ? n_after - n_before : 0, wanted;
        const struct quotas *q = &request->r.quotas;

        if (left(request, QUOTA_TOKENS_PER_DAY, now) == 0)
                return quota_refuse(e, request->r.owner, QUOTA_TOKENS_PER_DAY,
                        account_used(request, QUOTA_TOKENS_PER_DAY, now), 0,
                        q->max[QUOTA_TOKENS_PER_DAY], now);
        request->account.spare = n_before > n_after ? n_before - n_after : 0;
        wanted = added + (replies && request->account.spare == 0);
        n_left = left(request, QUOTA_TOKENS, now);
        if (wanted > n_left)
                return quota_refuse(e, request->r.owner, QUOTA_TOKENS,
                        account_used(request, QUOTA_TOKENS, now), wanted, q->max[QUOTA_TOKENS],
                        now);
        n_left -= added;
        if (*max_new > request->account.spare && *max_new - request->account.spare > n_left)
                *max_new = (uint32_t)n_left + request->account.spare;
        account_add(request, added);
        if (wanted > added) {
                account_add(request, 1);
                request->account.n_ahead = 1;
        }
        return 0;
}

bool account_is_full(const struct request *request) {
        if (is_limited(request, QUOTA_TOKENS) && request->account.spare == 0 &&
                left(request, QUOTA_TOKENS, 0) == 0)
                return true;
        return is_limited(request, QUOTA_TOKENS_PER_DAY) &&
               left(request, QUOTA_TOKENS_PER_DAY, clock_realtime_usec()) == 0;
}

void account_storing(struct request *request) {
        request->usage->account.n_storing++;
}

/* The register has @n more of the request's tokens. */
static void add_stored(struct request *request, uint32_t n) {
        struct account *a = &request->usage->account;
        struct account_part *part = &request->account;
        uint64_t stored = n < part->live_tokens ? n : part->live_tokens;

        part->live_tokens -= stored;
        a->live_tokens -= stored;
        a->stored_tokens += stored;
}

void account_stored(struct engine *engine, struct request *request, uint32_t n) {
        add_stored(request, n);
        over(engine, &request->usage->account);
}

/* --- work (rule 3) --- */

void account_worked(struct request *request, uint32_t n) {
        request->account.work += n;
        request->usage->account.live_work += n;
}

/* All that the owner's requests have done and that no transaction has taken along. */
static void take(struct account *a, struct store_work *ret) {
        *ret = (struct store_work){
                .day = quota_day(clock_realtime_usec()), .n_tokens = a->live_work - a->taken_work};
        a->taken_work = a->live_work;
        a->n_storing++;
}

static void taken(
        struct engine *engine, struct account *a, const struct store_work *work, bool stored) {
        a->taken_work -= work->n_tokens;
        if (stored) { /* or the next transaction takes it along */
                a->live_work -= work->n_tokens;
                a->stored_work += work->n_tokens;
        }
        over(engine, a);
}

void account_take(struct request *request, struct store_work *ret) {
        request->account.work = 0;
        take(&request->usage->account, ret);
}

void account_taken(struct engine *engine, struct request *request, const struct store_work *work,
        bool stored) {
        if (stored)
                add_stored(request, UINT32_MAX);
        taken(engine, &request->usage->account, work, stored);
}

/* Writes what is left of an owner's work. */
struct work_job {
        struct job job;
        struct charge charge;
        struct usage *usage; /* kept for the job */
        struct store_work work;
};

static void work_run(struct engine *engine, struct job *j) {
        struct work_job *w = container_of(j, struct work_job, job);

        j->r = store_work(engine->store, w->usage->owner, &w->work, &j->err);
}

static void work_done(struct engine *engine, struct job *j) {
        struct work_job *w = container_of(j, struct work_job, job);
        struct charge charge = w->charge;

        taken(engine, &w->usage->account, &w->work, j->r == 0);
        desk_let_go(engine, w->usage);
        free(w);
        charge_deinit(&charge);
}

/* Without memory for the job another request of the owner writes it, if there is one. */
static void write_work(struct engine *engine, struct usage *usage) {
        struct charge charge = {.ledger = &engine->budget->requests};
        struct work_job *w = NULL;

        if (charge_take(&charge, sizeof(*w), "figures", NULL) == 0)
                w = calloc(1, sizeof(*w));
        if (!w) {
                charge_deinit(&charge);
                return;
        }
        w->charge = charge;
        w->usage = usage;
        w->job.run = work_run;
        w->job.done = work_done;
        take(&usage->account, &w->work);
        desk_keep(engine, usage);
        io_submit(engine, &w->job);
}

void account_leave(struct engine *engine, struct request *request) {
        account_take_back(request, UINT32_MAX);
        if (request->account.work > 0)
                write_work(engine, request->usage);
}
