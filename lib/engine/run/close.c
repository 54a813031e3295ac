/* SPDX-License-Identifier: MIT */
/*
 * The end of a Continue or Warm: the reply is stored, and Done is sent. commit.c has the rules.
 */
#include <string.h>

#include "base/clock.h"
#include "engine/run/state.h"

/* --- the reply --- */

static void reply_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct generation *g = generation_of(request);
        const struct conv *c = request->conv;
        struct figures figures = generate_figures(engine, request);
        struct store_turn turn = {.role = g->reply_turn.role,
                .start = g->reply_turn.start,
                .end = c->n_all + gap_size(&c->gap),
                .finish = g->finish,
                .text = g->reply.text.size ? (const char *)g->reply.text.data : "",
                .text_size = g->reply.text.size,
                .figures = &figures,
                .work = &g->work,
                .created_usec = clock_realtime_usec()};

        j->r = commit_store(
                engine, request, &turn, 1, g->n_prompt - (uint32_t)g->n_invites, c->n_all, &j->err);
}

static void fill_done(struct request *request) {
        struct engine_event *ev = request_answer(request, ENGINE_DONE);
        struct generation *g = generation_of(request);
        uint64_t now = clock_monotonic_usec();

        /* Hand over the request's own copy, which was charged on arrival. */
        for (size_t i = 0; g->reply.stop && i < request->r.n_stops; i++)
                if (request->r.stops[i] == g->reply.stop) {
                        event_adopt(request->final, &request->charge, strlen(g->reply.stop));
                        ev->done.stop = (char *)(uintptr_t)TAKE_PTR(request->r.stops[i]);
                        break;
                }
        ev->done.finish = g->finish;
        ev->done.revision = request->revision;
        ev->done.seed = g->seed;
        ev->done.n_prompt = g->n_prompt;
        ev->done.n_generated = g->n_generated;
        ev->done.n_drafted = g->speculation.n_drafted;
        ev->done.n_accepted = g->speculation.n_accepted;
        ev->done.has_n_calls = g->reply.parts.reader != NULL;
        ev->done.n_calls = g->reply.parts.parts.n_calls;
        ev->done.n_ram = g->n_ram;
        ev->done.n_disk = g->n_disk;
        ev->done.n_shared = g->n_shared;
        ev->done.n_computed = g->n_prompt - g->n_ram - g->n_disk - g->n_shared;
        ev->done.differs_at = g->differs_at;
        ev->done.differs_why = g->differs_why;
        ev->done.n_dropped = g->n_dropped;
        ev->done.queued_usec = g->t_admitted - request->t_submitted;
        ev->done.restore_usec = g->t_restored - g->t_admitted;
        ev->done.prefill_usec = g->t_prefilled - g->t_restored;
        ev->done.decode_usec = now - g->t_prefilled;
}

static void finish(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;

        if (seq_n_tokens(c->seq) <= c->n_tokens)
                checkpoint_turn_ended(engine, c);
        fill_done(request);
        attach_done(engine, request, &request->final->ev);
        tell_turn_ended(engine, request, generation_of(request)->finish);
        request_finish(engine, request);
}

static void reply_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;
        struct generation *g = generation_of(request);

        account_taken(engine, request, &g->work, j->r == 0);
        if (j->r < 0) {
                commit_failed(c, j->r);
                request_fail(engine, request, &j->err);
                return;
        }
        commit_measure(engine, request);
        commit_stored(engine, request, c->n_all);
        g->reply_turn.end = conv_n_transcript(c);
        g->reply_turn.finish = g->finish;
        if (conv_add_turn(engine, c, &g->reply_turn, NULL) < 0)
                c->stale = true; /* to be loaded anew */
        finish(engine, request);
}

/* --- the end --- */

static void warm_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        j->r = store_conv_get(
                engine->store, request->r.owner, request->conv->id, NULL, &request->sc, &j->err);
        request_read_noted(engine, request);
}

/* A cancelled request that was accepted has no reply if no token was chosen. */
static bool has_reply(const struct generation *g) {
        return g->has_reply_turn && (g->n_generated > 0 || g->finish != ENGINE_FINISH_CANCELLED);
}

static void submit(struct engine *engine, struct request *request,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *)) {
        request_submit(engine, request, run, done);
        request->phase = PHASE_COMMIT;
}

/* What a Warm has computed, or a relative had, is back in RAM as much as what was read. */
static void tell_warm(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct conv *c = request->conv;

        if (g->recall.told || seq_n_tokens(c->seq) <= g->n_ram)
                return;
        g->recall.told = true;
        notice_conv(engine, ENGINE_NOTICE_RESTORED, c->owner, c->id, c->revision);
}

void generate_close(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);

        recall_abandon(engine, &g->recall);
        request->phase = PHASE_COMMIT;
        if (g->end == ENDED && g->finish != ENGINE_FINISH_STOP_STRING &&
                generate_flush(engine, request) < 0) {
                err_set(&g->why, ERR_NOMEM, "no memory for the reply");
                g->end = FAILED;
        }
        if (g->end == FAILED) {
                request_fail(engine, request, &g->why);
                return;
        }
        if (g->t_prefilled == 0)
                g->t_prefilled = clock_monotonic_usec();
        if (g->t_token > 0)
                meters_time(engine, request, ENGINE_LATENCY_DECODE, g->t_token - g->t_prefilled, 1);
        seq_unreserve(request->conv->seq);
        if (request_is_warm(request)) {
                tell_warm(engine, request);
                submit(engine, request, warm_run, request_row_done);
        } else if (has_reply(g)) {
                account_take(request, &g->work);
                g->t_storing = clock_monotonic_usec();
                submit(engine, request, reply_run, reply_done);
        } else
                finish(engine, request);
}
