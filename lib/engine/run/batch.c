/* SPDX-License-Identifier: MIT */
/*
 * Which tokens of the active requests one forward call computes (continuous batching). sched.c decides
 * which requests are active, and explains flows; step.c computes them.
 *
 * Shares. A step of n tokens takes a + b n. If reading the weights takes most of the time (a is
 * large), tokens of others cost a user next to nothing. If computing does (a is small), fifteen
 * tokens of another user make a step sixteen times as long. So users share time, not tokens, and a
 * and b are measured all the time.
 *
 * 1. A flow that is alone has the whole step, batch_tokens; but see rule 7.
 * 2. Each of F interactive flows may have a share of
 *
 *         min(a/b + (tokens wanted by the flow that wants the fewest), batch_tokens / F)
 *
 *    tokens. Then the step takes at most F times as long as with only the tokens of that flow. So
 *    each user has an F-th of the engine's time, and tokens that one flow leaves over are not taken
 *    from the others. Fractions of tokens are saved up.
 * 3. A flow may run up a debt: tokens beyond its share, at most BURST of batch_tokens. The debt
 *    sinks by the part of the share that the flow leaves unused, even while it has no request. A
 *    flow that had the engine to itself owes the most. So a newcomer's short prompt is computed in
 *    one step, and then the newcomer goes on at its share. The flow that owes least is served
 *    first.
 * 4. Next to interactive flows, background flows compute an eighth of such a share, divided between
 *    them, and without debt. So they make interactive replies at most an eighth slower. Without
 *    interactive flows they are treated like interactive ones.
 * 5. Within a flow each generating request computes one token in turn: after a token it goes to the
 *    end of the line. Prompts have the rest, in order of arrival, and at least a quarter.
 * 6. A prompt that begins like another one takes over the blocks that the other has computed so far
 *    (memory/share.c), and skips a step in which both would compute the same block. This holds only
 *    between prompts of one user: so the time of a step tells nobody what others say (I6).
 *    A flow that is alone in its class computes prompts beside its replies at the pace of pace.c.
 *
 * 7. A step of a flow that is alone is brief while a worker has a job for a request of another owner, and for some
 *    steps after that. The next part of such a request is the engine thread's, which takes it between two steps; opening
 *    a conversation, finding the memory of a prompt or committing a reply have one to three parts, and whoever got an
 *    answer often asks the next thing at once. So others wait for one whole step at the most, that in which they come,
 *    and not for one with each part. The request that was waited for may be the next to be alone: its steps are whole.
 *    A brief step has 4 a/b tokens, if that is not less than a few and not more than an eighth of batch_tokens: four
 *    fifths of its time are the arithmetic of its rows, so the flow loses a fifth of its speed meanwhile. Nobody's
 *    tokens change (I2).
 *
 * a and b are learned (cost.c, rule 4). Until steps of different sizes were seen, a is taken to be 0: no
 * user gains from an unknown a.
 */
#include "engine/run/step.h"

#define BURST(n) ((n) > 4 ? (double)((n) / 4) : 1.0)
#define BACKGROUND_PART 8
#define BRIEF_PART 8     /* of batch_tokens, at most */
#define BRIEF_LEAST 8.0  /* tokens, if that is no more */
#define BRIEF_RATIO 4    /* tokens, in parts of a/b */
#define BRIEF_STEPS 4    /* after the last job of another owner's request */
#define REPLIES_ALONE 16 /* in one of so many steps they are, to know what that costs now */

/* --- shares --- */

static bool is_ready(struct request *request) {
        const struct generation *g = generation_of(request);

        return g->end == GOES_ON &&
               (request->phase == PHASE_PREFILL ||
                       (request->phase == PHASE_DECODE && g->storing != STORING)) &&
               !request_is_paused(request);
}

/* Count how much each flow wants of the step. */
static void count_wanted(struct step *s) {
        struct engine *engine = s->engine;
        struct list *it;

        list_for_each (it, &engine->run->users)
                for (int class = 0; class < 2; class ++) {
                        struct flow *f = &list_entry(it, struct user, link)->flow[class];

                        f->n_decode = f->n_prefill = f->wanted = 0;
                        if (s->part != REPLIES) /* they are part of the prompts' step */
                                f->used = 0;
                }
        list_for_each (it, &engine->run->active) {
                struct request *request = list_entry(it, struct request, link);
                struct flow *f = flow_of(request);
                uint32_t left = request->conv->n_all - seq_n_tokens(request->conv->seq);

                if (!step_has(s, request))
                        continue;
                generation_of(request)->in_batch = 0;
                if (!is_ready(request))
                        continue;
                if (request->phase == PHASE_DECODE)
                        f->n_decode++;
                else
                        f->n_prefill++;
                f->wanted += MIN(left, engine->o.batch_tokens);
        }
}

/* List the flows with something to compute: interactive ones first, then by debt. */
static void order_flows(struct step *s) {
        struct list *it;

        for (int class = 0; class < 2; class ++) {
                size_t first = s->n_flows;

                list_for_each (it, &s->engine->run->users) {
                        struct flow *f = &list_entry(it, struct user, link)->flow[class];
                        size_t i;

                        if (f->n_decode + f->n_prefill == 0)
                                continue;
                        for (i = s->n_flows; i > first && s->flows[i - 1]->debt > f->debt; i--)
                                s->flows[i] = s->flows[i - 1];
                        s->flows[i] = f;
                        s->n_flows++;
                }
                if (class == 0)
                        s->n_class = s->n_flows;
                else
                        s->n_background = s->n_flows - first;
        }
        s->class = s->n_class == 0;
        if (s->class) {
                s->n_class = s->n_background;
                s->n_background = 0;
        }
}

static void find_shares(struct step *s) {
        double all = s->engine->o.batch_tokens, least = all;

        for (size_t i = 0; i < s->n_class; i++)
                least = MIN(least, (double)s->flows[i]->wanted);
        least += cost_ratio(&s->engine->run->cost, all);
        s->share = MIN(least, all / (double)MAX(s->n_class, (size_t)1));
        s->background_share =
                MIN(least, all) / BACKGROUND_PART / (double)MAX(s->n_background, (size_t)1);
}

/* Rule 7. */
static void find_alone(struct step *s) {
        struct run *run = s->engine->run;
        uint64_t owner = 0;
        struct list *it;
        size_t most;

        s->alone = s->engine->o.batch_tokens;
        if (s->n_flows != 1)
                return;
        list_for_each (it, &run->active) {
                struct request *request = list_entry(it, struct request, link);

                if (flow_of(request) != s->flows[0])
                        continue;
                owner = request->r.owner;
                if (desk_awaits(s->engine, owner)) {
                        run->n_brief = BRIEF_STEPS + 1;
                        run->brief_owner = owner;
                }
                break;
        }
        if (run->n_brief == 0)
                return;
        run->n_brief--;
        if (run->brief_owner != owner)
                return; /* others waited for another one's steps */
        most = MAX(s->alone / BRIEF_PART, (size_t)1);
        s->alone = (size_t)MIN(
                MAX(BRIEF_RATIO * cost_ratio(&run->cost, (double)most), BRIEF_LEAST), (double)most);
}

/* The number of tokens that the @i-th flow may have. */
static size_t allowance(const struct step *s, size_t i) {
        const struct engine *engine = s->engine;
        double credit = BURST(engine->o.batch_tokens) - s->flows[i]->debt;
        size_t left = engine->o.batch_tokens - s->n, n;

        if (i < s->n_class)
                n = s->n_class == 1 ? s->alone : (size_t)MAX(s->share + credit, 0.0);
        else
                n = (size_t)MAX(s->background_share + MIN(credit, 1.0), 0.0);
        /* However many flows there are, and whatever the others wait for: the first computes. */
        if (s->n == 0)
                n = MAX(n, (size_t)1);
        return MIN(n, left);
}

/* Rule 3. */
static void settle_debt(struct step *s, struct flow *f, bool class) {
        double burst = BURST(s->engine->o.batch_tokens), share = s->share;

        if (class == s->class && s->n_class == 1 && f->used > 0) {
                f->debt = burst;
                return;
        }
        if (class != s->class)
                share = s->background_share;
        f->debt = MIN(MAX(f->debt + f->used - share, 0.0), burst);
}

void batch_settle(struct step *s) {
        struct list *it;

        list_for_each (it, &s->engine->run->users)
                for (int class = 0; class < 2; class ++)
                        settle_debt(s, &list_entry(it, struct user, link)->flow[class], class == 1);
}

/* --- the batch --- */

void batch_charge(struct request *request, uint32_t n) {
        struct flow *f = flow_of(request);

        generation_of(request)->in_batch = n;
        f->service += n;
        f->used += n;
        f->fresh = false;
}

void batch_put(struct step *s, struct request *request, uint32_t n) {
        struct conv *c = request->conv;
        uint32_t pos = seq_n_tokens(c->seq);

        for (uint32_t i = 0; i < n; i++) {
                bool last = pos + i + 1 == c->n_all && generation_of(request)->recall.wants_logits;

                s->batch[s->n++] = (struct model_token){.token = c->tokens[pos + i],
                        .pos = pos + i,
                        .seq = c->seq,
                        .want_logits = last};
                if (last)
                        s->rows[s->n_rows++] = request;
        }
}

/* Put @want tokens of the request into the batch. Returns 0 if there is no room now. If there can
 * never be room, the request is also marked (rule 7). */
static uint32_t add_tokens(struct step *s, struct request *request, uint32_t want) {
        struct engine *engine = s->engine;
        struct conv *c = request->conv;
        struct err e;
        int r;

        want = checkpoint_limit(engine, c, &generation_of(request)->plan, want,
                seq_n_tokens(c->seq) + want < c->n_all);
        while ((r = seq_reserve(c->seq, want, &e)) == SEQ_FULL) {
                enum room room = memory_make_room(engine);

                if (room == ROOM_LATER)
                        return 0;
                if (room == ROOM_NEVER) {
                        r = err_set(&e, ERR_LIMIT, "the memory budget is exhausted");
                        break;
                }
        }
        if (r < 0) {
                generate_fail(request, &e);
                return 0;
        }
        batch_put(s, request, want);
        batch_charge(request, want);
        return want;
}

/* Does this step already compute the next block of the prompt, for a prompt of the same user with
 * the same tokens so far (rule 6)? */
static bool computed_beside(const struct step *s, const struct request *request) {
        const struct conv *c = request->conv;
        size_t bt = s->engine->info.block_tokens, end = (seq_n_tokens(c->seq) / bt + 1) * bt;

        if (generation_in(request)->n_generated > 0 || !share_allowed(c) ||
                end > share_limit(s->engine, &generation_in(request)->recall) * bt)
                return false;
        for (size_t i = 0; i < s->n_prompts; i++) {
                const struct conv *other = s->prompts[i]->conv;
                size_t reached = seq_n_tokens(other->seq);

                if (other->owner == c->owner && share_allowed(other) && end > reached &&
                        end <= reached + generation_of(s->prompts[i])->in_batch &&
                        memcmp(other->tokens, c->tokens, end * sizeof(*c->tokens)) == 0)
                        return true;
        }
        return false;
}

static uint32_t add_prompt(struct step *s, struct request *request, size_t most) {
        struct engine *engine = s->engine;
        uint32_t left, n;

        if (generation_of(request)->n_generated == 0 &&
                share_adopt(engine, &generation_of(request)->recall) > 0)
                generate_adopted(engine, request);
        if (computed_beside(s, request))
                return 0;
        left = request->conv->n_all - seq_n_tokens(request->conv->seq);
        if (left == 0) {
                generate_end(request, ENGINE_FINISH_LENGTH); /* nothing was to be generated */
                return 0;
        }
        n = add_tokens(s, request, MIN(left, (uint32_t)most));
        if (n > 0)
                s->prompts[s->n_prompts++] = request;
        return n;
}

/* The flow's requests with a prompt to compute, by arrival. @order has room for max_active. */
static size_t order_prompts(struct engine *engine, const struct flow *f, struct request **order) {
        struct list *it;
        size_t n = 0;

        list_for_each (it, &engine->run->active) {
                struct request *request = list_entry(it, struct request, link);
                size_t i;

                if (flow_of(request) != f || request->phase != PHASE_PREFILL || !is_ready(request))
                        continue;
                for (i = n;
                        i > 0 && generation_of(request)->order < generation_of(order[i - 1])->order;
                        i--)
                        order[i] = order[i - 1];
                order[i] = request;
                n++;
        }
        return n;
}

/* The part of @most tokens that generating requests may have. */
static size_t decode_part(struct flow *f, size_t most) {
        if (f->n_prefill == 0)
                return most;
        if (most > 1)
                return most - MAX(most / 4, (size_t)1);
        f->prompts_turn = f->n_decode > 0 && !f->prompts_turn;
        return f->prompts_turn ? 0 : 1;
}

/* Divide the flow's tokens between its requests (rule 5). */
static void add_flow(struct step *s, struct flow *f, size_t most) {
        struct request *prompts[ENGINE_MAX_ACTIVE];
        size_t n_prompts = s->part == REPLIES ? 0 : order_prompts(s->engine, f, prompts);
        size_t n_decode = s->part == PROMPTS ? 0 : decode_part(f, most), n = 0;
        struct list *it;

        list_for_each (it, &s->engine->run->active) {
                struct request *request = list_entry(it, struct request, link);

                if (n == n_decode)
                        break;
                if (flow_of(request) == f && request->phase == PHASE_DECODE &&
                        step_has(s, request) && is_ready(request))
                        n += add_tokens(s, request, 1);
        }
        if (f == s->flows[0])
                most = n + MIN(most - n, s->prompt_rows);
        for (size_t i = 0; i < n_prompts && n < most; i++)
                n += add_prompt(s, prompts[i], most - n);
}

/* How many rows of prompts, and where, beside replies of the same flow. */
static void find_pace(struct step *s) {
        struct engine *engine = s->engine;
        const struct flow *f = s->n_flows ? s->flows[0] : NULL;
        struct pace_need need = {.share = engine->o.prefill_share / 100.0,
                .n_layer = engine->info.n_layer,
                .most = engine->o.batch_tokens,
                .may_part = s->n_flows == 1};
        struct list *it;

        if (s->part != WHOLE || s->n_class != 1 || f->n_decode == 0 || f->n_prefill == 0 ||
                need.share >= 1 || f->n_decode >= need.most)
                return;
        list_for_each (it, &engine->run->active) {
                struct request *request = list_entry(it, struct request, link);
                double depth = seq_n_tokens(request->conv->seq) + 1;

                if (flow_of(request) != f || !is_ready(request))
                        continue;
                if (request->phase == PHASE_DECODE)
                        need.reply_depth += depth / f->n_decode;
                else
                        need.prompt_depth += depth / f->n_prefill;
        }
        need.n_replies = f->n_decode;
        need.credit_usec = engine->run->credit_usec;
        s->plan = pace_plan(&engine->run->cost, &need);
        s->prompt_rows = s->plan.rows;
        if (s->plan.apart)
                s->part = PROMPTS;
        else if (++engine->run->n_together % REPLIES_ALONE == 0)
                s->prompt_rows = 0;
}

static void add_flows(struct step *s) {
        for (size_t i = 0; i < s->n_flows && s->n < s->engine->o.batch_tokens; i++) {
                size_t most = allowance(s, i);

                if (most > 0)
                        add_flow(s, s->flows[i], most);
        }
}

void batch_build(struct step *s) {
        count_wanted(s);
        order_flows(s);
        find_shares(s);
        find_alone(s);
        find_pace(s);
        add_flows(s);
        if (s->n == 0 && s->part == PROMPTS) { /* there is no room for them now */
                s->part = WHOLE;
                add_flows(s);
        }
}
