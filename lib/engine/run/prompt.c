/* SPDX-License-Identifier: MIT */
/*
 * The beginning of a Continue or Warm: its input becomes tokens that are appended, once (I1), its
 * parameters are checked, and its possible needs are bounded before it waits for admission.
 *
 * In a conversation with overflow "shift", the input decides whether old turns must be dropped from
 * the memory (conv/shift.c). At most once for a request: a reply that reaches the end of the context
 * ends there, as in any conversation, and the next request shifts. The new memory is an edit
 * (memory/edit.c), so a request that fails or is cancelled has dropped nothing.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/utf8.h"
#include "engine/run/state.h"

/* Text of a reply that is set aside at once: this many tokens, of usual length. */
#define REPLY_TOKENS 1024u
#define REPLY_BYTES 6
#define REPLY_DIVISOR 4 /* of the limit: room for a reply that a shift makes at most */

/* --- parameters --- */

void prompt_params(struct sample_params *p, const struct sampling *s) {
#define TAKE(bit, field)                                                                           \
        if (s->has & (bit))                                                                        \
        p->field = s->field
        TAKE(SAMPLING_TEMPERATURE, temperature);
        TAKE(SAMPLING_TOP_K, top_k);
        TAKE(SAMPLING_TOP_P, top_p);
        TAKE(SAMPLING_MIN_P, min_p);
        TAKE(SAMPLING_REPETITION, repetition_penalty);
        TAKE(SAMPLING_PRESENCE, presence_penalty);
        TAKE(SAMPLING_FREQUENCY, frequency_penalty);
        TAKE(SAMPLING_LAST_N, penalty_last_n);
#undef TAKE
}

static int make_params(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        struct sampling s = request->conv->sampling;
        const int32_t *suppressed;
        size_t n_suppressed = tok_suppressed(engine->tok, &suppressed), n = 0;
        size_t n_eog = request->r.ignore_eos ? engine->n_eog : 0;

        sampling_merge(&s, &request->r.sampling);
        g->params = SAMPLE_PARAMS_DEFAULT;
        prompt_params(&g->params, &s);
        if (s.has & SAMPLING_SEED)
                g->seed = s.seed;
        else if (getrandom(&g->seed, sizeof(g->seed), 0) != sizeof(g->seed))
                return err_set(e, ERR_SYS, "cannot draw a seed");
        g->params.seed = g->seed;
        if (!(s.has & SAMPLING_BIASES))
                s.n_biases = 0;
        g->biases = calloc(s.n_biases + n_suppressed + n_eog + 1, sizeof(*g->biases));
        if (!g->biases)
                return err_set(e, ERR_NOMEM, "no memory for logit biases");
        for (uint32_t i = 0; i < s.n_biases; i++)
                g->biases[n++] = (struct sample_bias){s.biases[i].token, s.biases[i].bias};
        for (size_t i = 0; i < n_suppressed; i++)
                g->biases[n++] = (struct sample_bias){suppressed[i], -INFINITY};
        for (size_t i = 0; i < n_eog; i++)
                g->biases[n++] = (struct sample_bias){engine->eog[i], -INFINITY};
        g->params.biases = g->biases;
        g->params.n_biases = n;
        return sample_params_validate(&g->params, engine->info.n_vocab, e);
}

/* Bound the tokens to generate, and check that the prompt fits at all. */
static int make_bounds(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        uint32_t wanted = g->wanted;
        size_t n_prompt = (size_t)request->conv->n_all + g->input.n;
        /* Tokens whose memory the whole pool can hold. */
        size_t room =
                memory_room(engine, budget_capacity_most(engine->budget), engine->info.context + 1);
        int r;

        if (wanted > 0 && n_prompt == 0)
                return err_set(e, ERR_INVALID, "there is nothing to continue");
        if (n_prompt + (wanted > 0) > engine->info.context)
                return err_set(e, ERR_CONTEXT,
                        "the conversation has %u tokens, the input %zu: together %zu of a context "
                        "of %u, %zu too many%s",
                        request->conv->n_all, g->input.n, n_prompt, engine->info.context,
                        n_prompt + (wanted > 0) - engine->info.context,
                        wanted > 0 ? " for the first token of a reply" : "");
        if (n_prompt + (wanted > 0) > room)
                return err_set(e, ERR_CONTEXT,
                        "%zu tokens need more memory than the whole budget of %zu has", n_prompt,
                        engine->budget->most);
        g->n_prompt = (uint32_t)n_prompt;
        g->max_new = MIN(wanted, engine->info.context - g->n_prompt);
        if (g->max_new > room - n_prompt)
                g->max_new = (uint32_t)(room - n_prompt);
        g->context_bound = g->max_new < wanted;
        r = account_begin(request, g->n_before, request->keep.n_tokens + (uint32_t)g->input.n,
                wanted > 0, &g->max_new, e);
        if (r < 0)
                return r;
        g->need_size = memory_need(engine, (uint32_t)n_prompt + g->max_new);
        g->plan = (struct checkpoint_plan){
                .n_prompt = g->n_prompt, .input_end = g->n_prompt - (uint32_t)g->n_invites};
        input_plan(request, &g->plan);
        return 0;
}

static int check_stops(const struct engine_request *r, struct err *e) {
        for (size_t i = 0; i < r->n_stops; i++)
                if (!r->stops[i][0] || !utf8_valid(r->stops[i], strlen(r->stops[i])))
                        return err_set(
                                e, ERR_INVALID, "stop string %zu is empty or not UTF-8", i + 1);
        return 0;
}

/* Charge everything else that grows with the prompt or the reply: hashes and sources of blocks,
 * others' records on disk, and the foreseeable text of the reply. */
static int charge_work(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        size_t per_block = sizeof(*g->recall.hashes) + sizeof(*g->recall.sources) +
                           sizeof(struct seq_step) +
                           2 * SEQ_N_CLASSES * sizeof(struct store_record);
        size_t n_blocks = (g->n_prompt + g->max_new) / engine->info.block_tokens + 2;
        int r = charge_take(&request->charge, n_blocks * per_block, "the prompt", e);

        if (r == 0 && g->max_new > 0 &&
                (r = buf_reserve(&g->reply.text, MIN(g->max_new, REPLY_TOKENS) * REPLY_BYTES)) < 0)
                r = err_set(e, (enum err_code) - r, "requests have no memory for a reply");
        return r;
}

/* --- the memory --- */

/* What of the conversation is to be kept: all, unless the request cuts. */
static void keep_all(const struct conv *c, struct keep *keep) {
        keep->n_turns = c->n_turns;
        keep->n_tokens = conv_n_transcript(c);
        keep->gap = c->gap;
}

/* Before the input is made, which may happen on another thread. */
static void prepare_need(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        size_t limit =
                memory_room(engine, budget_capacity_most(engine->budget), engine->info.context);

        g->wanted = request->r.max_tokens == ENGINE_UNSET ? engine->o.default_max_tokens
                                                          : request->r.max_tokens;
        if (request_is_warm(request))
                g->wanted = 0;
        g->gap = request->conv->gap;
        g->need = (struct shift_need){.limit = (uint32_t)limit,
                .n_reply = MIN(g->wanted, (uint32_t)limit / REPLY_DIVISOR),
                /* Results without the calls that they answer would be no results. */
                .goes_on = request->r.input == ENGINE_INPUT_NONE ||
                           input_first_role(&request->r) == ENGINE_TOOL};
        g->need.n_reply = MAX(g->need.n_reply, MIN(g->wanted, 1u));
        if (!request->r.cuts)
                keep_all(request->conv, &request->keep);
}

/* The input is made: decide what the memory leaves out. If nothing of the newest turns is left, the
 * input is made once more, for the place behind the front. Any thread. */
static int plan_memory(struct engine *engine, struct request *request, struct err *e) {
        struct conv *c = request->conv;
        struct generation *g = generation_of(request);
        struct gap *gap = &g->gap;
        struct chat_tail front, now;
        int r;

        if (!c->shifts || request_is_warm(request))
                return 0;
        g->need.n_input = g->input.n;
        r = shift_plan(engine, c, &request->keep, &g->need, gap, e);
        if (r < 0 || gap->to != request->keep.n_tokens || gap_equal(gap, &c->gap))
                return r;
        front = conv_front_tail(engine, c, gap);
        now = conv_chat_tail(engine, c);
        if (front.state == now.state && front.role == now.role)
                return 0;
        g->input.n = 0;
        r = input_make(engine, request, &front, e);
        g->need.n_input = g->input.n;
        return r < 0 ? r : shift_plan(engine, c, &request->keep, &g->need, gap, e);
}

/* Give the conversation the planned memory. 1: not now, resume() is called. */
static int shift(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        struct conv *c = request->conv;
        int r;

        if (gap_equal(&g->gap, &c->gap))
                return 0;
        /* See memory/edit.c, invariant 4. */
        if (c->n_links > 0 || c->n_forks > 0) {
                request->phase = PHASE_WAITS;
                list_append(&c->waiters, &request->link);
                return 1;
        }
        g->n_dropped = gap_size(&g->gap) - MIN(gap_size(&c->gap), gap_size(&g->gap));
        edit_undo(engine, c);
        request->keep.gap = g->gap;
        r = request_charge_records(request, e);
        if (r < 0)
                return r;
        r = edit_begin(engine, c, &request->keep, e);
        g->recall.shifted = r == 0;
        engine->count.shifts += r == 0;
        return r;
}

/* The input has been tokenised: go on. */
static void start(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;
        struct generation *g = generation_of(request);
        struct err e;
        int r = check_stops(&request->r, &e);

        if (r == 0)
                r = shift(engine, request, &e);
        if (r > 0)
                return; /* resume() goes on */
        if (r == 0)
                r = make_params(engine, request, &e);
        if (r == 0)
                r = make_bounds(engine, request, &e);
        if (r == 0)
                r = charge_work(engine, request, &e);
        if (r == 0 && g->constraint)
                r = constraint_start(engine, request, &e);
        if (r == 0)
                r = conv_reserve_tokens(engine, c, g->n_prompt + g->max_new, &e);
        if (r < 0) {
                request_fail(engine, request, &e);
                return;
        }
        if (g->input.n > 0)
                memcpy(c->tokens + c->n_all, g->input.ids, g->input.n * sizeof(*c->tokens));
        tok_ids_deinit(&g->input);
        g->n_history = c->n_all;
        c->n_all = g->n_prompt;
        g->begun = true;
        g->has_reply_turn = g->recall.wants_logits = g->max_new > 0;
        g->recall.conv = c;
        g->recall.plan = &g->plan;
        /* A text starts anew after a special token: the space that SPM puts before the first word
         * does not belong to the reply. */
        g->reply.n_stops = request->r.n_stops;
        tok_stream_init(&g->reply.stream, engine->tok,
                g->n_prompt > 0 && tok_is_special(engine->tok, c->tokens[g->n_prompt - 1]), false);
        if (sched_queue(engine, request, &e) < 0)
                request_fail(engine, request, &e);
}

/* The conversation is held, so the parts of it that input_make() reads do not change. */
static int charged_input(struct engine *engine, struct request *request, struct err *e) {
        struct chat_tail tail = conv_chat_tail(engine, request->conv);
        size_t n = request->r.input == ENGINE_INPUT_RAW
                           ? text_memory(engine, request->r.text, request->r.text_size, false)
                           : 0; /* lib/chat knows what it needs */
        int r = input_begin(request, e);

        if (r == 0)
                r = tools_prepare(engine, request, e);
        if (r == 0)
                r = charge_take(&request->charge, n, "tokenising the input", e);
        if (r < 0)
                return r;
        r = input_make(engine, request, &tail, e);
        if (r == 0)
                r = plan_memory(engine, request, e);
        charge_give(&request->charge, n);
        return r < 0 ? r : reply_parts_begin(engine, request, e);
}

static void input_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        bool compiles = request->r.constraint && !generation_of(request)->constraint;
        bool calls = request->r.constraint == ENGINE_CONSTRAINT_CALL; /* of tools in the input */

        j->r = 0;
        /* first what is short, and most often wrong */
        if (compiles && !calls)
                j->r = constraint_compile(engine, request, &j->err);
        if (j->r == 0)
                j->r = charged_input(engine, request, &j->err);
        if (j->r == 0 && compiles && calls)
                j->r = constraint_compile(engine, request, &j->err);
}

/* What was in the way is over. */
static void resume(struct engine *engine, struct request *request) {
        struct err e;

        if (engine->stopping) {
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                request_fail(engine, request, &e);
        } else {
                start(engine, request);
        }
}

static void input_done(struct engine *engine, struct job *j) {
        constraint_enter(engine, request_of(j));
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                resume(engine, request_of(j));
}

/* The kind of job that the input needs: a text that is long, a constraint that is not compiled yet, or
 * something of the register. */
static bool input_job(struct engine *engine, struct request *request, enum job_kind *ret) {
        bool found = constraint_find(engine, request);

        *ret = !found || input_is_long(&request->r) ? JOB_TEXT : JOB_VERB;
        return *ret == JOB_TEXT || tools_need_job(request);
}

/* Begin with the input; on error end the request. */
static void generate_start(struct engine *engine, struct request *request) {
        enum job_kind kind;
        struct err e;
        int r = 0;

        prepare_need(engine, request);
        if (request->conv->foreign_vocab)
                r = err_set(&e, ERR_STATE,
                        "the conversation's tokens belong to another model's vocabulary: it can go "
                        "on once it is carried over ('confab carry')");
        else if (!request_is_warm(request) && input_job(engine, request, &kind))
                return request_submit_as(engine, request, kind, input_run, input_done);
        else if (!request_is_warm(request))
                r = charged_input(engine, request, &e);
        if (r < 0)
                request_fail(engine, request, &e);
        else
                start(engine, request);
}

/* --- the verbs --- */

static void generation_init(struct request *request) {
        struct generation *g = generation_of(request);

        g->input.charge = &request->charge;
        reply_text_init(&g->reply, &request->charge, request->r.stops, 0);
        list_init(&g->followers);
        g->input.stop = &request->cancel;
        list_init(&g->early);
        list_init(&g->input_job.link);
}

static void generation_deinit(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);

        tok_ids_deinit(&g->input);
        free(g->biases);
        attach_lost(engine, request);
        constraint_put(engine, g->constraint);
        grammar_state_deinit(&g->state);
        recall_deinit(engine, &g->recall);
        reply_text_deinit(&g->reply);
        input_deinit(g);
        free(g->tools);
        commit_deinit(g);
        speculate_deinit(request);
        tell_turn_ended(engine, request, ENGINE_FINISH_NONE);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        (void)e;
        generation_of(request)->n_before = conv_n_transcript(request->conv);
        generate_start(engine, request);
        return 0;
}

/* Continue at an earlier place: the commit drops everything behind it. */
static int act_edit(struct engine *engine, struct request *request, struct err *e) {
        const struct conv *c = request->conv;
        const struct engine_request *r = &request->r;
        int k;

        /* No conversation has this many turns. */
        if (r->at_turn == ENGINE_UNSET && r->at_position == ENGINE_UNSET)
                return err_set(e, ERR_INVALID, "turn %u of %u", ENGINE_UNSET, c->n_turns);
        generation_of(request)->n_before = conv_n_transcript(c);
        k = keep_resolve(engine, c, r, &request->keep, e);
        if (k < 0) {
                request->told = k == -ERR_CORRUPT; /* logged when it was loaded */
                return k;
        }
        k = request_charge_records(request, e);
        if (k == 0)
                k = edit_begin(engine, request->conv, &request->keep, e);
        if (k == 0)
                generate_start(engine, request);
        return k;
}

const struct verb verb_continue = {.works = true,
        .own_size = sizeof(struct generation),
        .init = generation_init,
        .deinit = generation_deinit,
        .act = act,
        .resume = resume,
        .hold = HOLD_FORKS,
        .may_wait = true,
        .computes = true,
        .needs_all = true,
        .generates = true};

const struct verb verb_edit = {.works = true,
        .own_size = sizeof(struct generation),
        .init = generation_init,
        .deinit = generation_deinit,
        .act = act_edit,
        .resume = resume,
        .after = AFTER_LINKS,
        .may_wait = true,
        .computes = true,
        .generates = true};

const struct verb verb_warm = {.works = true,
        .own_size = sizeof(struct generation),
        .init = generation_init,
        .deinit = generation_deinit,
        .act = act,
        .hold = HOLD_FORKS,
        .needs_all = true,
        .computes = true};
