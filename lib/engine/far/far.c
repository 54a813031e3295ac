/* SPDX-License-Identifier: MIT */
/* Opening and closing the remote store, and leaving it alone after failures. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/far/state.h"

#define PAUSE_USEC 1000000 /* after a failure; then twice as long each time */
#define PAUSE_MAX_USEC 30000000
#define CALL_TIMEOUTS 10 /* that a call which nobody waits for may take */

struct far *far_new(void) {
        struct far *f = calloc(1, sizeof(*f));
        pthread_condattr_t attr;

        if (!f)
                return NULL;
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_mutex_init(&f->lock, NULL);
        pthread_cond_init(&f->cond, &attr);
        pthread_condattr_destroy(&attr);
        f->pause_usec = PAUSE_USEC;
        return f;
}

struct far *far_free(struct far *f) {
        if (!f)
                return NULL;
        pthread_mutex_destroy(&f->lock);
        pthread_cond_destroy(&f->cond);
        free(f);
        return NULL;
}

/* Of a value: a record of the largest block (spill_stored_max()), or a table of contents. */
size_t far_value_max(const struct engine *engine) {
        size_t size = far_contents_size(engine);

        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                if (engine->info.shape.size[c] > 0)
                        size = MAX(size, (size_t)spill_stored_max(
                                                 engine->spill, engine->info.shape.size[c]));
        return size + FAR_SEAL_SIZE;
}

int far_open(struct engine *engine, struct err *e) {
        const struct engine_remote_options *o = &engine->o.remote;
        struct remote_options options = {.uri = o->uri,
                .user = o->user,
                .password = o->password,
                .ca_file = o->ca_file,
                .timeout_usec = o->timeout_usec};
        struct far *f = engine->far;
        int r;

        if (!o->uri)
                return 0;
        options.max_value_size = far_value_max(engine);
        f->keep_sec = o->keep_sec;
        f->share = MIN(MAX(o->write_share, 1u), 100u);
        f->writes_per_day = o->writes_per_day;
        r = far_meters_read(engine, e);
        if (r < 0)
                return r;
        late_open(f);
        r = remote_open(&engine->remote, &options, e);
        return err_wrap(e, r, "remote");
}

void far_stop(struct engine *engine) {
        struct far *f = engine->far;

        pthread_mutex_lock(&f->lock);
        atomic_store(&f->stop, true);
        pthread_cond_broadcast(&f->cond);
        pthread_mutex_unlock(&f->lock);
}

bool far_rests(const struct engine *engine) {
        return clock_monotonic_usec() < atomic_load(&engine->far->t_up);
}

bool far_is_up(const struct engine *engine) {
        return engine->remote && !engine->stopping && !far_rests(engine);
}

uint64_t far_deadline(const struct engine *engine) {
        return clock_monotonic_usec() + CALL_TIMEOUTS * engine->o.remote.timeout_usec;
}

static void tell_works(struct engine *engine) {
        struct err e;

        engine->far->failed = false;
        err_set(&e, ERR_NONE, "the remote store can be used again");
        event_log(engine, ENGINE_LOG_REMOTE_WORKS, OWNER_ANY, 0, &e);
}

void far_note(struct engine *engine, int r, const struct err *e) {
        struct far *f = engine->far;
        struct err why;

        if (r == 0) {
                f->pause_usec = PAUSE_USEC;
                if (f->failed)
                        tell_works(engine);
                return;
        }
        if (r != -ERR_UNAVAILABLE && r != -ERR_LIMIT)
                return;
        f->n_failures++;
        /* A full one can still be read. */
        if (r == -ERR_UNAVAILABLE)
                atomic_store(&f->t_up, clock_monotonic_usec() + f->pause_usec);
        f->t_push = clock_monotonic_usec() + f->pause_usec;
        f->pause_usec = MIN(2 * f->pause_usec, (uint64_t)PAUSE_MAX_USEC);
        if (f->failed || engine->stopping)
                return;
        f->failed = true;
        why = *e;
        err_wrap(&why, r, "remote store");
        event_log(engine, ENGINE_LOG_REMOTE_FAILS, OWNER_ANY, 0, &why);
}

void far_figures(struct engine *engine, struct far_figures *ret) {
        struct far *f = engine->far;

        pthread_mutex_lock(&f->lock);
        far_turn_day(f);
        *ret = f->figures;
        ret->written_today = f->written_today;
        pthread_mutex_unlock(&f->lock);
        ret->is_used = engine->remote != NULL;
        ret->n_failures = f->n_failures;
}

void far_note_read(struct engine *engine, uint64_t n_blocks, uint64_t size, uint64_t n_damaged) {
        struct far *f = engine->far;

        pthread_mutex_lock(&f->lock);
        f->figures.n_read += n_blocks;
        f->figures.read_size += size;
        f->figures.n_damaged += n_damaged;
        pthread_mutex_unlock(&f->lock);
}
