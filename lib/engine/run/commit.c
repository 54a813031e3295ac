/* SPDX-License-Identifier: MIT */
/*
 * What a Continue says goes into the register: first its input, then the reply.
 *
 *      generate_restored()                                          generate_close()
 *            │  Accepted is made                                         │
 *            ├───→ commit of the input ───→ Accepted, and what waits     ├───→ commit of the reply ───→ Done
 *            └───→ computing goes on meanwhile                           └───→ no reply: Done
 *
 * 1. Accepted is sent when the input is durable (I4). From then on nothing takes the message back: a
 *    request that is cancelled, fails or dies with the daemon leaves it as a turn without a reply, and
 *    a Continue without input goes on with it. A request that ends before that has changed nothing.
 * 2. The input is committed when the request has a place and its memory is found. The prompt is
 *    computed meanwhile. Events of the request wait in generation.early until the commit is done, and
 *    no second token is computed before that (batch.c), so there are few.
 * 3. While the commit is under way the request keeps its place (sched.c), and does not end. So no
 *    eviction links blocks beside the transaction, which may drop turns (memory/edit.c, 4).
 * 4. An edit, and what a shift drops, go with the first commit of the request: that of the input, or,
 *    without input, that of the reply.
 * 5. Behind conv->n_tokens lie the tokens that the register does not have. A request that fails cuts
 *    back to n_tokens, and restores what was to be replaced or dropped.
 * 6. Done is sent after the register has all turns.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/run/state.h"

/* --- events that wait for the input's commit --- */

void commit_tell(struct engine *engine, struct request *request, struct event_node *n) {
        struct generation *g = generation_of(request);

        if (g->storing == STORING)
                list_append(&g->early, &n->link);
        else
                event_send(engine, n);
}

static void tell_early(struct engine *engine, struct generation *g) {
        while (!list_empty(&g->early)) {
                struct event_node *n = list_entry(g->early.next, struct event_node, link);

                list_unlink(&n->link);
                event_send(engine, n);
        }
}

void commit_deinit(struct generation *g) {
        while (!list_empty(&g->early)) {
                struct event_node *n = list_entry(g->early.next, struct event_node, link);

                list_unlink(&n->link);
                engine_event_free(&n->ev);
        }
}

/* --- the register --- */

/* Append the turns, and their tokens @from to @to of the memory. The first commit of a request also
 * drops what it replaces. */
static int store(struct engine *engine, struct request *request, const struct store_turn *turns,
        size_t n, uint32_t from, uint32_t to, struct err *e) {
        struct conv *c =
                request->conv; /* held by this request: what is read of it does not change */
        unsigned tries = 0;
        int r;

        do {
                if (c->edit)
                        r = edit_store(engine, c, turns, n, c->tokens + from, to - from,
                                &request->revision, e);
                else
                        r = store_append(engine->store, c->id, turns, n, c->tokens + from,
                                to - from, &request->revision, e);
        } while (register_retry(engine, &tries, r, e));
        return r;
}

/* The register has the first @n tokens of the memory. */
static void stored(struct engine *engine, struct request *request, uint32_t n) {
        struct conv *c = request->conv;

        edit_done(engine, c);
        conv_link_again(engine, c, c->n_tokens);
        c->n_tokens = n;
        c->revision = request->revision;
}

/* RAM may differ from the register if it was written into a file that was replaced. */
static void not_stored(struct conv *c, int r) {
        c->stale = c->stale || r == -ERR_STATE;
}

/* --- the input --- */

void commit_accepted(struct engine *engine, struct request *request) {
        attach_accepted(engine, request);
        tell_turn_begun(engine, request);
}

static struct request *of_input(struct job *j) {
        return container_of(j, struct generation, input_job)->request;
}

static void input_run(struct engine *engine, struct job *j) {
        struct request *request = of_input(j);
        struct generation *g = generation_of(request);

        input_fill_rows(request, clock_realtime_usec());
        j->r = store(engine, request, g->rows, g->n_input_turns, g->n_history,
                g->n_prompt - (uint32_t)g->n_invites, &j->err);
}

static void input_done(struct engine *engine, struct job *j) {
        struct request *request = of_input(j);
        struct generation *g = generation_of(request);
        struct event_node *first;

        engine->again = true;
        if (j->r < 0) {
                g->storing = NOT_STORED;
                not_stored(request->conv, j->r);
                generate_fail(request, &j->err);
        } else {
                g->storing = STORED;
                stored(engine, request, g->n_prompt - (uint32_t)g->n_invites);
                if (input_add_turns(engine, request, NULL) < 0)
                        request->conv->stale = true; /* to be loaded anew */
                first = list_entry(g->early.next, struct event_node, link);
                if (!list_empty(&g->early) && first->ev.kind == ENGINE_ACCEPTED)
                        first->ev.accepted.revision = request->revision;
                tell_early(engine, g);
                commit_accepted(engine, request);
        }
        if (request->phase == PHASE_COMMIT)
                generate_close(engine, request);
}

void commit_input(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);

        if (g->n_input_turns == 0 || request_is_warm(request))
                return;
        g->storing = STORING;
        g->request = request;
        g->input_job.run = input_run;
        g->input_job.done = input_done;
        io_submit(engine, &g->input_job);
}

/* --- the reply --- */

static void reply_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct generation *g = generation_of(request);
        const struct conv *c = request->conv;
        struct figures figures = generate_figures(engine, request);
        const struct store_turn turn = {.role = g->reply_turn.role,
                .start = g->reply_turn.start,
                .end = c->n_all + gap_size(&c->gap),
                .finish = g->finish,
                .text = g->reply.text.size ? (const char *)g->reply.text.data : "",
                .text_size = g->reply.text.size,
                .figures = &figures,
                .created_usec = clock_realtime_usec()};

        j->r = store(
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

        if (j->r < 0) {
                not_stored(c, j->r);
                request_fail(engine, request, &j->err);
                return;
        }
        stored(engine, request, c->n_all);
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

void generate_close(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);

        recall_abandon(engine, &g->recall);
        request->phase = PHASE_COMMIT;
        if (g->storing == STORING)
                return; /* input_done() comes back */
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
        seq_unreserve(request->conv->seq);
        if (request_is_warm(request))
                submit(engine, request, warm_run, request_row_done);
        else if (has_reply(g))
                submit(engine, request, reply_run, reply_done);
        else
                finish(engine, request);
}
