/* SPDX-License-Identifier: MIT */
/*
 * A step: one forward call with the tokens that batch.c chose, and what follows from its logits.
 *
 * 1. During a step no request ends. Requests that fail or turn out to be complete are marked
 *    (generation.end), and sched.c ends them afterwards.
 * 2. If pace.c says so, a step is of prompts alone, and between its layers steps of replies alone are
 *    computed, with activations of their own. Only a flow that has the engine to itself does that.
 * 3. Between any two layers the engine thread takes what has arrived, as far as the step has nothing to do with it, if the
 *    bell has rung (run_set_between()): else all users would wait for its end, most of a second in a large model.
 * 4. What is left of a step in which every row is a generating request's next token may be filled with
 *    drafts (speculate.c): of a flow as far as its share goes, of background flows only without
 *    interactive ones. Only the tokens that hold count as service.
 */
#include "base/clock.h"
#include "engine/run/step.h"

#define RATE_TOKENS 16 /* smaller steps do not show the speed of prefill */

static struct step new_step(struct engine *engine) {
        return (struct step){.engine = engine,
                .work = engine->run->work,
                .batch = engine->run->batch,
                .rows = engine->run->batch_rows,
                .prompt_rows = SIZE_MAX};
}

/* --- drafts --- */

/* The keys that a row looks at, on average. */
static double mean_depth(const struct model_token *batch, size_t n) {
        double sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += batch[i].pos + 1;
        return sum / (double)n;
}

/* Rows that the flow may add beyond those that its requests wait for (rule 4). */
static size_t draft_part(const struct step *s, const struct request *request) {
        const struct flow *f = flow_of(request);

        if (request->r.background != s->class)
                return 0;
        if (s->n_class == 1)
                return s->engine->o.batch_tokens;
        return (size_t)MAX(s->share - f->used, 0.0);
}

/* Put the drafts, @n tokens in all, behind the rows that they follow. There is room for them. */
static void put_drafts(struct step *s, size_t n) {
        size_t to = s->n + n, row = s->n_rows, to_row = s->n_rows + n;

        for (size_t i = s->n; i-- > 0;) {
                struct model_token *t = &s->batch[i];
                struct request *request = s->rows[--row];
                const struct speculation *x = &generation_of(request)->speculation;

                for (uint32_t k = x->n; k-- > 0;) {
                        s->batch[--to] = (struct model_token){.token = x->tokens[k],
                                .pos = t->pos + 1 + k,
                                .seq = t->seq,
                                .want_logits = true};
                        s->rows[--to_row] = request;
                }
                s->batch[--to] = *t;
                s->rows[--to_row] = request;
        }
        s->n += n;
        s->n_rows += n;
        s->n_drafts = n;
}

static void add_drafts(struct step *s) {
        struct engine *engine = s->engine;
        struct speculate_step at = {(uint32_t)s->n, (uint32_t)s->n, mean_depth(s->batch, s->n)};
        struct list *it;

        if (!speculate_is_on(engine) || s->part != WHOLE || s->n_rows < s->n)
                return;
        list_for_each (it, &engine->run->active) {
                struct request *request = list_entry(it, struct request, link);
                size_t most =
                        MIN(engine->run->max_rows, (size_t)engine->o.batch_tokens) - at.n_rows;
                uint32_t n;

                if (!step_has(s, request) || generation_of(request)->in_batch == 0)
                        continue;
                n = speculate_draft(
                        engine, request, &at, (uint32_t)MIN(most, draft_part(s, request)));
                flow_of(request)->used += n;
                at.n_rows += n;
        }
        if (at.n_rows > s->n)
                put_drafts(s, at.n_rows - s->n);
}

/* --- between layers (rule 3) --- */

static void take_early(struct engine *engine) {
        if (bell_has_rung(engine->bell))
                engine->run->between(engine);
}

static int before_layer(void *arg, uint32_t layer) {
        (void)layer;
        take_early(arg);
        return 0;
}

/* Of a step that waits for memory, too. */
struct recalling {
        struct engine *engine;
        struct model_wait memory;
};

static int before_recalled_layer(void *arg, uint32_t layer) {
        const struct recalling *r = arg;

        take_early(r->engine);
        return r->memory.layer(r->memory.arg, layer);
}

/* --- what follows from a step --- */

/* Tokens that were computed now belong to the sequence. */
static void commit_tokens(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct conv *c = request->conv;
        uint32_t start = seq_n_tokens(c->seq);

        seq_commit(c->seq, g->in_batch);
        checkpoint_reached(engine, c, &g->plan);
        g->n_here += g->in_batch;
        share_enter(engine, c, start / engine->info.block_tokens);
}

/* Move all of @list, in order, to the end of the active requests. */
static void to_end_of_line(struct engine *engine, struct list *list) {
        while (!list_empty(list)) {
                struct list *it = list->next;

                list_unlink(it);
                list_append(&engine->run->active, it);
        }
}

/* Computed tokens now belong to the sequences; the requests served go to the end of the line, those with
 * drafts last, so that next time others are first to fill what is left of a step. */
static void commit_batch(struct step *s) {
        struct engine *engine = s->engine;
        struct list *it, *tmp, served, drafted;

        list_init(&served);
        list_init(&drafted);
        list_for_each_safe (it, tmp, &engine->run->active) {
                struct request *request = list_entry(it, struct request, link);

                if (!step_has(s, request) || generation_of(request)->in_batch == 0)
                        continue;
                commit_tokens(engine, request);
                list_unlink(&request->link);
                list_append(generation_of(request)->speculation.n > 0 ? &drafted : &served,
                        &request->link);
        }
        to_end_of_line(engine, &served);
        to_end_of_line(engine, &drafted);
}

/* A request that computes alone may do so while its memory still arrives. */
static bool compute_recalling(struct step *s) {
        struct engine *engine = s->engine;
        struct run *run = engine->run;
        struct request *request = list_entry(run->active.next, struct request, link);
        struct recalling waits = {.engine = engine};
        struct model_wait wait = {.layer = before_recalled_layer, .arg = &waits};
        struct recall *recall;
        uint32_t n;
        int r;

        if (run->n_active != 1 || request->phase != PHASE_RESTORE || request_is_paused(request))
                return false;
        recall = &generation_of(request)->recall;
        n = trial_begin(engine, recall, engine->o.batch_tokens, &waits.memory);
        if (n == 0)
                return false;
        batch_put(s, request, n);
        r = model_forward(run->work, run->batch, n, &wait);
        trial_end(engine, recall, r == 0);
        if (r != 0) {
                s->n = s->n_rows = 0;
                return false;
        }
        batch_charge(request, n);
        generate_restored(engine, request);
        return true;
}

/* The step was computed in @usec. */
static void note_cost(struct step *s, uint64_t usec) {
        struct engine *engine = s->engine;
        double depth = mean_depth(s->batch, s->n);

        cost_observe(&engine->run->cost, (uint32_t)s->n, depth, usec);
        engine->run->credit_usec = pace_credit(engine->run->credit_usec, &s->plan, (double)usec);
        if (s->n_rows == s->n)
                speculate_note(engine, (uint32_t)s->n, depth, usec);
        if (s->n >= RATE_TOKENS && s->n_drafts == 0) /* drafts are no prompt */
                recall_note_computed(engine, s->n, usec);
}

/* The request's rows of the step: its own tokens, then the draft as far as it holds. Each token of a
 * draft is taken as if a step of its own had computed it. */
static void advance(struct engine *engine, const struct step *s, struct request *request) {
        uint32_t i, before = generation_of(request)->n_generated;
        size_t row = 0;

        while (row < s->n_rows && s->rows[row] != request)
                row++;
        generate_advance(engine, request, row < s->n_rows ? model_logits(s->work, row) : NULL);
        for (i = 0; speculate_holds(engine, request, i); i++) {
                flow_of(request)->service++;
                commit_tokens(engine, request);
                generate_advance(engine, request, model_logits(s->work, row + i + 1));
        }
        speculate_end(engine, request, i);
        if (generation_of(request)->n_generated > before)
                generate_measure(engine, request, generation_of(request)->n_generated - before);
}

/* Computed tokens belong to the sequences from now on; what follows from them. */
static void finish(struct step *s) {
        struct engine *engine = s->engine;
        struct list *it, *tmp;

        engine->count.steps++;
        commit_batch(s);
        list_for_each_safe (it, tmp, &engine->run->active) {
                struct request *request = list_entry(it, struct request, link);

                if (!step_has(s, request) || generation_of(request)->in_batch == 0)
                        continue;
                if (request->phase == PHASE_DECODE)
                        engine->run->replied = clock_monotonic_usec();
                advance(engine, s, request);
                if (s->part == REPLIES)
                        generation_of(request)->in_batch = 0;
        }
}

/* --- prompts apart from replies (rule 2) --- */

struct apart {
        struct step *step;
        struct pace pace;
};

/* A step of replies, between two layers of prompts. False: there was nothing to compute. */
static bool reply(struct engine *engine) {
        struct run *run = engine->run;
        struct step s = new_step(engine);
        uint64_t start = clock_monotonic_usec();

        s.part = REPLIES;
        s.work = run->reply_work;
        s.batch = run->reply_batch;
        s.rows = run->reply_rows;
        if (event_backlog(engine))
                return false;
        batch_build(&s);
        if (s.n == 0)
                return false;
        model_forward(s.work, s.batch, s.n, NULL);
        note_cost(&s, clock_monotonic_usec() - start);
        finish(&s);
        return true;
}

static bool all_cancelled(const struct step *s) {
        for (size_t i = 0; i < s->n_prompts; i++)
                if (!atomic_load(&s->prompts[i]->cancel))
                        return false;
        return true;
}

/* Before a layer of prompts. */
static int between_layers(void *arg, uint32_t layer) {
        struct apart *a = arg;
        bool replied = false;

        if (all_cancelled(a->step))
                return 1;
        take_early(a->step->engine);
        if (pace_due(&a->pace, clock_monotonic_usec()))
                replied = reply(a->step->engine);
        pace_go(&a->pace, clock_monotonic_usec(), replied);
        return 0;
}

static void give_up(struct step *s) {
        for (size_t i = 0; i < s->n_prompts; i++) {
                seq_unreserve(s->prompts[i]->conv->seq);
                generation_of(s->prompts[i])->in_batch = 0;
        }
        s->n = s->n_rows = 0;
        s->given_up = true;
}

/* Returns the time of the replies between. */
static uint64_t compute_apart(struct step *s) {
        struct apart a = {.step = s, .pace = {.plan = s->plan, .since = s->engine->run->replied}};
        struct model_wait wait = {.layer = between_layers, .arg = &a};

        if (model_forward(s->work, s->batch, s->n, &wait) != 0)
                give_up(s);
        return a.pace.away_usec;
}

/* --- the step --- */

/* One forward call, with the tokens that can be computed now. */
static void compute(struct step *s) {
        const struct model_wait wait = {.layer = before_layer, .arg = s->engine};
        uint64_t start;

        if (compute_recalling(s))
                return;
        batch_build(s);
        if (s->n == 0)
                return;
        add_drafts(s);
        start = clock_monotonic_usec();
        if (s->part == PROMPTS)
                start += compute_apart(s);
        else
                model_forward(s->work, s->batch, s->n, &wait);
        if (s->n > 0)
                note_cost(s, clock_monotonic_usec() - start);
        batch_settle(s);
}

bool step_run(struct engine *engine) {
        struct step s = new_step(engine);

        compute(&s);
        if (s.n > 0)
                finish(&s);
        return s.n > 0 || s.given_up;
}
