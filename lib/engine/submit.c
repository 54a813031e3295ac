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
static size_t request_size(const struct engine *engine, const struct engine_request *r) {
        size_t n = sizeof(struct request) + sizeof(struct event_node) + credit_size(engine, r);

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
static int check_quotas(struct engine *engine, uint32_t uid, uint32_t n, struct err *e) {
        struct share_pot places = {.total = engine->o.max_queued, .used = engine->n_requests};
        struct share share = {.pot = &places,
                .used = n,
                .max = engine->o.max_requests_per_uid,
                .exempt = share_exempt(uid)};

        if (engine->n_requests >= engine->o.max_queued)
                return err_set(
                        e, ERR_LIMIT, "%u requests are in flight already", engine->o.max_queued);
        if (n >= engine->o.max_requests_per_uid)
                return err_set(
                        e, ERR_LIMIT, "user %u has %u requests in flight, the limit", uid, n);
        if (share_take(&share, 1) != 0)
                return err_set(e, ERR_LIMIT,
                        "%zu of %u requests are in flight, and the rest is kept for root and for "
                        "users with fewer than the %u of user %u",
                        engine->n_requests, engine->o.max_queued, n, uid);
        return 0;
}

void usage_put(struct engine *engine, struct usage *u) {
        if (u->n_requests > 0 || u->kept)
                return;
        map_remove_u64(engine->usage, u->uid);
        free(u);
}

/* Under the lock: quotas, then enter the tables. */
static int enter(struct engine *engine, struct request *request, struct err *e) {
        struct usage *u;
        int r;

        if (engine->stop_asked)
                return err_set(e, ERR_SHUTDOWN, "the daemon is stopping");
        u = map_get_u64(engine->usage, request->r.uid);
        r = check_quotas(engine, request->r.uid, u ? u->n_requests : 0, e);
        if (r < 0)
                return r;
        if (!u) {
                u = calloc(1, sizeof(*u));
                if (!u || map_add_u64(engine->usage, request->r.uid, u, e) < 0) {
                        free(u);
                        return err_set(e, ERR_NOMEM, "no memory for a request");
                }
                u->uid = request->r.uid;
                list_init(&u->link);
        }
        r = map_add_u64(engine->by_handle, request->r.handle, request, e);
        if (r == 0) {
                request->usage = u;
                u->n_requests++;
                engine->n_requests++;
                list_append(&engine->requests, &request->all);
                list_append(&engine->inbox, &request->link);
                engine->signalled = true;
                pthread_cond_signal(&engine->wake);
                return 0;
        }
        usage_put(engine, u);
        return r > 0 ? err_set(e, ERR_INVALID, "a request with this handle is in flight") : r;
}

/* What grows while the request lasts is charged to it, and looks whether it was cancelled. */
static void attach_charge(struct request *request) {
        request->input.charge = request->answer.ids.charge = &request->charge;
        request->input.stop = request->answer.ids.stop = &request->cancel;
        request->answer.pieces.charge = &request->charge;
        request->keep.text.charge = request->g.held.charge = request->g.text.charge =
                &request->charge;
}

static int make_events(struct engine *engine, struct request *request, struct err *e) {
        size_t size = credit_size(engine, &request->r);

        request->final =
                event_new_of(engine, &request->charge, request->r.handle, ENGINE_ERROR, true);
        if (request->final && size > 0)
                request->credit = credit_new(&request->charge, size);
        return request->final && (request->credit || size == 0)
                       ? 0
                       : err_set(e, ERR_NOMEM, "no memory for a request");
}

int engine_submit(struct engine *engine, const struct engine_request *r, struct err *e) {
        struct charge charge = {.ledger = &engine->req_ledger};
        struct request *request = NULL;
        int k = check_request(r, e);

        if (k == 0)
                k = charge_take(&charge, request_size(engine, r), "the request", e);
        if (k < 0)
                return k;
        request = calloc(1, sizeof(*request));
        if (!request) {
                charge_deinit(&charge);
                return err_set(e, ERR_NOMEM, "no memory for a request");
        }
        request->r = *r;
        request->charge = charge;
        attach_charge(request);
        request->t_submitted = clock_monotonic_usec();
        list_init(&request->link);
        list_init(&request->all);
        list_init(&request->followers);
        k = copy_request(&request->r, e);
        if (k == 0)
                k = make_events(engine, request, e);
        if (k == 0) {
                pthread_mutex_lock(&engine->lock);
                k = enter(engine, request, e);
                pthread_mutex_unlock(&engine->lock);
        }
        if (k < 0)
                request_free(request);
        return k;
}

void engine_cancel(struct engine *engine, uint64_t handle) {
        struct request *request;

        pthread_mutex_lock(&engine->lock);
        request = map_get_u64(engine->by_handle, handle);
        if (request) {
                atomic_store(&request->cancel, true);
                engine->signalled = true;
                pthread_cond_signal(&engine->wake);
        }
        pthread_mutex_unlock(&engine->lock);
}

void engine_pause(struct engine *engine, uint64_t handle, bool pause) {
        struct request *request;

        pthread_mutex_lock(&engine->lock);
        request = map_get_u64(engine->by_handle, handle);
        if (request) {
                atomic_store(&request->paused, pause);
                engine->signalled = true;
                pthread_cond_signal(&engine->wake);
        }
        pthread_mutex_unlock(&engine->lock);
}
