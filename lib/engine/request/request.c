/* SPDX-License-Identifier: MIT */
/* How a request goes on, and how it ends. */
#include "engine/request/request.h"

#include <stdlib.h>
#include <string.h>

void request_submit(struct engine *engine, struct request *request,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *)) {
        request_submit_as(engine, request, JOB_VERB, run, done);
}

void request_submit_as(struct engine *engine, struct request *request, enum job_kind kind,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *)) {
        request->phase = PHASE_IO;
        request->job.kind = kind;
        request->job.of = request->verb->looks ? JOB_OF_LOOK : JOB_OF_REQUEST;
        request->job.owner = request->r.owner;
        request->job.run = run;
        request->job.done = done;
        io_submit(engine, &request->job);
}

void request_go_on(struct engine *engine, struct request *request) {
        request->phase = PHASE_WAITS;
        convs_make_ready(engine, &request->link);
}

void request_release(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;

        if (!c)
                return;
        if (c->busy == request) {
                edit_undo(engine, c);
                c->busy = NULL;
                c->generates = c->removes = false;
                c->n_all = c->n_tokens;
                seq_unreserve(c->seq);
                conv_cut(c, c->n_tokens);
                /* An eviction meanwhile may have put tokens on disk that are gone now. */
                recs_cut(engine, &c->recs, c->n_tokens);
                c->n_known = MIN(c->n_known, c->n_tokens);
                c->n_entered = MIN(c->n_entered, (size_t)(c->n_tokens / engine->info.block_tokens));
        }
        request->conv = NULL;
        conv_unuse(engine, c);
}

/* --- the end of a request --- */

struct engine_event *request_answer(struct request *request, enum engine_event_kind kind) {
        event_reset(request->final, kind);
        return &request->final->ev;
}

void request_finish(struct engine *engine, struct request *request) {
        struct event_node *n = TAKE_PTR(request->final);

        /* First release, then send: the receiver may ask for the conversation at once. */
        request_release(engine, request);
        account_leave(engine, request);
        desk_leave(engine, request);
        engine->again = true;
        request_free(engine, request);
        event_send(engine, n);
}

void request_fail(struct engine *engine, struct request *request, const struct err *e) {
        struct err err = *e; /* @e may be inside the request */
        struct engine_event *ev = request_answer(request, ENGINE_ERROR);

        ev->err = err;
        ev->told = request->told;
        if (err.code == ERR_MOVED)
                ev->holder = request->holder;
        request_finish(engine, request);
}

void request_fail_done(struct engine *engine, struct request *request, const struct err *e) {
        struct err done = *e;

        /* The same request would be carried out twice. */
        if (err_may_pass(e))
                err_set(&done, ERR_STATE, "%s", e->msg);
        err_wrap(&done, -(int)done.code, "the request was carried out");
        request_fail(engine, request, &done);
}

void request_finish_empty(struct engine *engine, struct request *request) {
        request_answer(request, ENGINE_EMPTY);
        request_finish(engine, request);
}

void request_fill_residency(struct engine *engine, const struct store_conv *sc, uint64_t disk,
        struct engine_conv *out) {
        const struct conv *c = convs_find(engine, sc->id);
        bool other = c ? c->foreign_vocab : sc->vocab != engine->vocab_hash;
        bool useless = other || (!c && !fingerprint_equal(&sc->model, &engine->info.fingerprint));

        if (c)
                conv_fill_residency(c, out);
        /* A request has changed it since the row was read. The answer is of that moment. */
        if (c && c->revision > sc->revision)
                out->busy = true;
        if (!c || useless)
                out->disk_size = disk;
        /* Memory of other weights or rules is forgotten when the conversation is loaded. That of
         * another vocabulary stays, and is not attached (main/dispatch.c). */
        out->other_vocab = other;
        out->unusable_size = useless ? disk : 0;
        if (!c || useless)
                out->residency = disk > 0 && !useless ? ENGINE_SPILLED : ENGINE_COLD;
}

static int admit_noted(void *arg, size_t n, struct err *e) {
        struct request *request = arg;
        int r = charge_take(&request->charge, n, "what is noted about the conversation", e);

        if (r == 0)
                request->noted.size = n;
        return r;
}

void request_read_noted(struct engine *engine, struct request *request) {
        struct noted *noted = &request->noted;

        noted->r = store_about(
                engine->store, request->sc.id, admit_noted, request, &noted->about, &noted->err);
}

int request_answer_conv(struct request *request, struct engine_event **ret, struct err *e) {
        struct noted *noted = &request->noted;
        int r;

        *ret = request_answer(request, ENGINE_CONV);
        if (noted->r < 0) {
                *e = noted->err;
                return noted->r;
        }
        r = event_conv(request->final, &(*ret)->conv, &request->sc, e);
        if (r < 0)
                return r;
        event_adopt(request->final, &request->charge, noted->size);
        (*ret)->conv.about = TAKE_PTR(noted->about);
        noted->size = 0;
        return 0;
}

void request_finish_held(struct engine *engine, struct request *request) {
        struct engine_event *ev = &request->final->ev;

        request_release(engine, request); /* else the answer says "busy" */
        request_fill_residency(engine, &request->sc, request->disk_size, &ev->conv);
        request_finish(engine, request);
}

struct engine_event *request_answer_done(struct engine *engine, struct request *request) {
        struct engine_event *ev;
        struct err e;

        if (request_answer_conv(request, &ev, &e) == 0)
                return ev;
        request_fail_done(engine, request, &e);
        return NULL;
}

void request_finish_conv(struct engine *engine, struct request *request) {
        if (request_answer_done(engine, request))
                request_finish_held(engine, request);
}

void request_row_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                request_finish_conv(engine, request_of(j));
}

int request_charge_records(struct request *request, struct err *e) {
        enum { MOST_AT_ONCE = 3 }; /* an array that is doubled is there twice: n and 2n entries */
        size_t entry = sizeof(struct store_record) + sizeof(uint64_t /* its id */);

        return charge_take(&request->charge,
                MOST_AT_ONCE * entry * recs_count(&request->conv->recs), "records on disk", e);
}

int request_admit_reading(void *arg, size_t n, struct err *e) {
        struct request *request = arg;
        int r = charge_take(&request->charge, n, "reading the conversation", e);

        if (r == 0)
                request->load_size = n;
        return r;
}
