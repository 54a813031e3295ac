/* SPDX-License-Identifier: MIT */
/*
 * What a Continue says goes into the register: first its input, then the reply (close.c).
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
 * 3. While the commit is under way the request keeps its place, and does not end (sched.c). So no
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

int commit_store(struct engine *engine, struct request *request, struct store_turn *turns, size_t n,
        uint32_t from, uint32_t to, struct err *e) {
        struct conv *c =
                request->conv; /* held by this request: what is read of it does not change */
        unsigned tries = 0;
        int r;

        chain_new_turns(engine, c, c->edit ? &request->keep : NULL, turns, n);
        do {
                if (c->edit)
                        r = edit_store(engine, c, turns, n, c->tokens + from, to - from,
                                &request->revision, e);
                else
                        r = store_append(engine->store, c->id, turns, n, c->tokens + from,
                                to - from, &request->revision, e);
        } while (register_retry(engine, &tries, r, e));
        generation_of(request)->t_stored = clock_monotonic_usec();
        return r;
}

void commit_stored(struct engine *engine, struct request *request, uint32_t n) {
        struct conv *c = request->conv;

        edit_done(engine, c);
        conv_link_again(engine, c, c->n_tokens);
        c->n_tokens = n;
        c->revision = request->revision;
}

void commit_failed(struct conv *c, int r) {
        /* Moved, or nobody knows what the register has (lib/store/pg-lease.c). */
        c->stale = c->stale || r == -ERR_STATE || r == -ERR_MOVED || r == -ERR_UNAVAILABLE;
}

void commit_measure(struct engine *engine, const struct request *request) {
        const struct generation *g = generation_in(request);

        meters_time(engine, request, ENGINE_LATENCY_COMMIT, g->t_stored - g->t_storing, 1);
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
        j->r = commit_store(engine, request, g->rows, g->n_input_turns, g->n_history,
                g->n_prompt - (uint32_t)g->n_invites, &j->err);
}

static void input_done(struct engine *engine, struct job *j) {
        struct request *request = of_input(j);
        struct generation *g = generation_of(request);
        struct event_node *first;

        engine->again = true;
        account_stored(engine, request,
                j->r < 0 ? 0 : g->n_prompt - (uint32_t)g->n_invites - g->n_history);
        if (j->r < 0) {
                g->storing = NOT_STORED;
                commit_failed(request->conv, j->r);
                generate_fail(request, &j->err);
        } else {
                g->storing = STORED;
                commit_measure(engine, request);
                commit_stored(engine, request, g->n_prompt - (uint32_t)g->n_invites);
                if (input_add_turns(engine, request, NULL) < 0)
                        request->conv->stale = true; /* to be loaded anew */
                first = list_entry(g->early.next, struct event_node, link);
                if (!list_empty(&g->early) && first->ev.kind == ENGINE_ACCEPTED)
                        first->ev.accepted.revision = request->revision;
                tell_early(engine, g);
                commit_accepted(engine, request);
        }
}

void commit_input(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);

        if (g->n_input_turns == 0 || request_is_warm(request))
                return;
        g->storing = STORING;
        g->request = request;
        g->input_job.of = JOB_OF_REQUEST;
        g->input_job.owner = request->r.owner;
        g->input_job.run = input_run;
        g->input_job.done = input_done;
        account_storing(request);
        g->t_storing = clock_monotonic_usec();
        io_submit(engine, &g->input_job);
}
