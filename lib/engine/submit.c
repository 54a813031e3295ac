/* SPDX-License-Identifier: MIT */
/*
 * What the loop thread calls: requests are copied, charged to the ledger and to their user, and
 * entered in the tables; then they are the engine thread's.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/share.h"
#include "engine/internal.h"

static int copy_str(const char **p, struct err *e) {
        if (!*p)
                return 0;
        *p = strdup(*p);
        return *p ? 0 : err_set(e, ERR_NOMEM, "no memory for a request");
}

static int copy_bytes(const void **p, size_t n, struct err *e) {
        char *q = malloc(n + 1);

        if (!q) {
                *p = NULL;
                return err_set(e, ERR_NOMEM, "no memory for a request");
        }
        if (n > 0)
                memcpy(q, *p, n);
        q[n] = '\0';
        *p = q;
        return 0;
}

static int copy_fd(struct engine_request *r, struct err *e) {
        int fd = r->fd;

        r->fd = -1;
        if (r->verb != ENGINE_IMPORT)
                return 0;
        r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return r->fd >= 0 ? 0 : err_set(e, ERR_INVALID, "an import needs a file");
}

/* Replace every borrowed pointer by an owned copy. All are replaced or NULL afterwards, also on
 * failure. */
static int copy_request(struct engine_request *r, struct err *e) {
        const void *tokens = r->tokens;
        int a = 0, b;

        b = copy_fd(r, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->conv_name, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->name, e);
        a = b < 0 ? b : a;
        b = copy_str(&r->system, e);
        a = b < 0 ? b : a;
        b = copy_bytes(&r->text, r->text_size, e);
        a = b < 0 ? b : a;
        b = copy_bytes(&tokens, r->n_tokens * sizeof(*r->tokens), e);
        r->tokens = tokens;
        a = b < 0 ? b : a;
        for (size_t i = 0; i < r->n_stops; i++) {
                b = copy_str(&r->stops[i], e);
                a = b < 0 ? b : a;
        }
        return a;
}

#define PART_SIZE 32 /* of each copy: its final 0, and what the allocator adds */

static size_t copy_size(const char *s) {
        return s ? strlen(s) + PART_SIZE : 0;
}

/* The copy, and the events that it will certainly need. What is done with it is charged then. */
static size_t request_size(const struct engine *en, const struct engine_request *r) {
        size_t n = sizeof(struct ereq) + sizeof(struct event_node) + credit_size(en, r);

        n += copy_size(r->conv_name) + copy_size(r->name) + copy_size(r->system);
        n += r->text_size + r->n_tokens * sizeof(*r->tokens) + 2 * PART_SIZE;
        for (size_t i = 0; i < r->n_stops; i++)
                n += copy_size(r->stops[i]);
        return n;
}

static int check_request(const struct engine_request *r, struct err *e) {
        /* (uid_t)-1 is nobody, and the register's word for everybody. */
        if (r->uid == STORE_UID_ANY)
                return err_set(e, ERR_INVALID, "no user has the number %u", r->uid);
        if (r->handle == 0 || r->verb >= ENGINE_N_VERBS)
                return err_set(e, ERR_INVALID, "a request needs a handle and a verb");
        if (r->limit > ENGINE_MAX_LIST)
                return err_set(
                        e, ERR_INVALID, "a list has at most %d conversations", ENGINE_MAX_LIST);
        if (r->n_stops > ENGINE_MAX_STOPS)
                return err_set(e, ERR_INVALID, "at most %d stop strings", ENGINE_MAX_STOPS);
        for (size_t i = 0; i < r->n_stops; i++)
                if (!r->stops[i])
                        return err_set(e, ERR_INVALID, "stop string %zu is missing", i + 1);
        if (r->n_logprobs > ENGINE_MAX_LOGPROBS)
                return err_set(e, ERR_INVALID, "at most %d log-probabilities per token",
                        ENGINE_MAX_LOGPROBS);
        if (r->sampling.n_biases > SAMPLING_MAX_BIASES)
                return err_set(e, ERR_INVALID, "at most %d logit biases", SAMPLING_MAX_BIASES);
        if ((r->text_size > 0 && !r->text) || (r->n_tokens > 0 && !r->tokens))
                return err_set(e, ERR_INVALID, "a size without its data");
        if (r->text_size > SIZE_MAX / 16 || r->n_tokens > SIZE_MAX / 64)
                return err_set(e, ERR_TOO_LARGE, "impossible size of a request");
        if (r->input > ENGINE_INPUT_TOKENS)
                return err_set(e, ERR_INVALID, "unknown kind %d of input", (int)r->input);
        if (r->input == ENGINE_INPUT_MESSAGE && r->role > ENGINE_ASSISTANT)
                return err_set(e, ERR_INVALID, "a message's role is user, system or assistant");
        return 0;
}

/* Under the lock: may @uid, with @n requests in flight, have one more? */
static int check_quotas(struct engine *en, uint32_t uid, uint32_t n, struct err *e) {
        struct share_pot places = {.total = en->o.max_queued, .used = en->n_requests};
        struct share share = {.pot = &places,
                .used = n,
                .max = en->o.max_requests_per_uid,
                .exempt = share_exempt(uid)};

        if (en->n_requests >= en->o.max_queued)
                return err_set(e, ERR_LIMIT, "%u requests are in flight already", en->o.max_queued);
        if (n >= en->o.max_requests_per_uid)
                return err_set(
                        e, ERR_LIMIT, "user %u has %u requests in flight, the limit", uid, n);
        if (share_take(&share, 1) != 0)
                return err_set(e, ERR_LIMIT,
                        "%zu of %u requests are in flight, and the rest is kept for root and for "
                        "users with fewer than the %u of user %u",
                        en->n_requests, en->o.max_queued, n, uid);
        return 0;
}

void usage_put(struct engine *en, struct usage *u) {
        if (u->n_requests > 0 || u->kept)
                return;
        map_remove_u64(en->usage, u->uid);
        free(u);
}

/* Under the lock: quotas, then enter the tables. */
static int enter(struct engine *en, struct ereq *rq, struct err *e) {
        struct usage *u;
        int r;

        if (en->stop_asked)
                return err_set(e, ERR_SHUTDOWN, "the daemon is stopping");
        u = map_get_u64(en->usage, rq->r.uid);
        r = check_quotas(en, rq->r.uid, u ? u->n_requests : 0, e);
        if (r < 0)
                return r;
        if (!u) {
                u = calloc(1, sizeof(*u));
                if (!u || map_add_u64(en->usage, rq->r.uid, u, e) < 0) {
                        free(u);
                        return err_set(e, ERR_NOMEM, "no memory for a request");
                }
                u->uid = rq->r.uid;
                list_init(&u->link);
        }
        r = map_add_u64(en->by_handle, rq->r.handle, rq, e);
        if (r == 0) {
                rq->usage = u;
                u->n_requests++;
                en->n_requests++;
                list_append(&en->requests, &rq->all);
                list_append(&en->inbox, &rq->link);
                en->signalled = true;
                pthread_cond_signal(&en->wake);
                return 0;
        }
        usage_put(en, u);
        return r > 0 ? err_set(e, ERR_INVALID, "a request with this handle is in flight") : r;
}

/* What grows while the request lasts is charged to it, and looks whether it was cancelled. */
static void attach_charge(struct ereq *rq) {
        rq->input.charge = rq->answer.ids.charge = &rq->charge;
        rq->input.stop = rq->answer.ids.stop = &rq->cancel;
        rq->answer.pieces.charge = &rq->charge;
        rq->keep.text.charge = rq->g.held.charge = rq->g.text.charge = &rq->charge;
}

static int make_events(struct engine *en, struct ereq *rq, struct err *e) {
        size_t size = credit_size(en, &rq->r);

        rq->final = event_new_of(en, &rq->charge, rq->r.handle, ENGINE_ERROR, true);
        if (rq->final && size > 0)
                rq->credit = credit_new(&rq->charge, size);
        return rq->final && (rq->credit || size == 0)
                       ? 0
                       : err_set(e, ERR_NOMEM, "no memory for a request");
}

int engine_submit(struct engine *en, const struct engine_request *r, struct err *e) {
        struct charge charge = {.ledger = &en->req_ledger};
        struct ereq *rq = NULL;
        int k = check_request(r, e);

        if (k == 0)
                k = charge_take(&charge, request_size(en, r), "the request", e);
        if (k < 0)
                return k;
        rq = calloc(1, sizeof(*rq));
        if (!rq) {
                charge_deinit(&charge);
                return err_set(e, ERR_NOMEM, "no memory for a request");
        }
        rq->r = *r;
        rq->charge = charge;
        attach_charge(rq);
        rq->t_submitted = clock_monotonic_usec();
        list_init(&rq->link);
        list_init(&rq->all);
        list_init(&rq->followers);
        k = copy_request(&rq->r, e);
        if (k == 0)
                k = make_events(en, rq, e);
        if (k == 0) {
                pthread_mutex_lock(&en->lock);
                k = enter(en, rq, e);
                pthread_mutex_unlock(&en->lock);
        }
        if (k < 0)
                ereq_free(rq);
        return k;
}

void engine_cancel(struct engine *en, uint64_t handle) {
        struct ereq *rq;

        pthread_mutex_lock(&en->lock);
        rq = map_get_u64(en->by_handle, handle);
        if (rq) {
                atomic_store(&rq->cancel, true);
                en->signalled = true;
                pthread_cond_signal(&en->wake);
        }
        pthread_mutex_unlock(&en->lock);
}

void engine_pause(struct engine *en, uint64_t handle, bool pause) {
        struct ereq *rq;

        pthread_mutex_lock(&en->lock);
        rq = map_get_u64(en->by_handle, handle);
        if (rq) {
                atomic_store(&rq->paused, pause);
                en->signalled = true;
                pthread_cond_signal(&en->wake);
        }
        pthread_mutex_unlock(&en->lock);
}
