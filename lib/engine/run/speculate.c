/* SPDX-License-Identifier: MIT */
/*
 * Speculation: a step computes not only the next token of a reply, but also some that are likely to come
 * behind it (a draft, lib/draft). If the token that is chosen is the drafted one, the logits behind it are
 * there already, and the next token is chosen at once. So a reply that repeats what was said before, an
 * edited text above all, takes fewer steps, of which each reads the weights once.
 *
 *      row 0       row 1       row 2       row 3
 *      token t     draft d1    draft d2    draft d3
 *        ↓           ↓           ↓
 *      chosen: d1   chosen: d2   chosen: x           d1, d2 hold, d3 does not: three tokens of one step
 *
 * 1. The reply is that of a daemon without speculation, bit for bit (I2). Each token is chosen from the logits
 *    of its own position by the rules of that position: the row of a drafted token is looked at only after the
 *    same token was chosen. Constraints, penalties, stop strings and random numbers (a function of seed and
 *    position) see what they would see in steps of one row.
 * 2. A token of a draft that holds is committed alone, and its events are sent, as if a step had computed it
 *    (advance() of step.c). Between two such tokens everything may happen that may happen between two steps:
 *    a cancel, a pause, a backlog of events. The rest of the draft is dropped then.
 * 3. A token that does not hold leaves nothing: its position was reserved and is not committed. A reserved
 *    position may be written any number of times (lib/seq, 4 and 7). Windows lose nothing either, since only a
 *    commit gives back what lies behind them.
 *    Models with states do not speculate: a step leaves one state, behind its last row, and the one behind
 *    the last token that holds would have to be computed again, in the steps that were to be saved.
 * 4. Drafts come from the conversation's own tokens; from its parent and the parent's other forks, as far as
 *    they are in RAM, behind the place where they part; and from the end that a Continue at an earlier place
 *    replaces. All of these have the same owner (I6).
 * 5. The index of a request is made when its memory is found, charged to the request, and takes at most an
 *    eighth of what requests may still take: without room there are no drafts, and nothing else breaks (I3).
 *    Positions of drafts are reserved only within blocks that the sequence has, or can have without an
 *    eviction: what is admitted is the whole reply, and no draft goes beyond it.
 * 6. Drafts fill what a step has left (rule 3 of step.c), as far as they pay. If E tokens of a draft may be
 *    expected to hold, and the step of N requests takes t instead of t0 with it, it pays if
 *
 *         log(1 + E) > N log(t / t0)
 *
 *    that is, if the product of all requests' speeds rises. Alone, a request must get faster. Among many, it
 *    may slow the others down only by so much less than it gains. t is learned from the steps of sampled rows
 *    (cost.c): where computing takes the time, not reading weights, drafts are soon left alone.
 * 7. E comes from what became of the request's earlier drafts, apart for each level of how many tokens match:
 *    three are often a coincidence, thirty hardly ever.
 * 8. Prices rise and fall. A draft that would pay if rows were free, and was declined RETRY times, is tried
 *    for the sake of its price, PROBE rows of it.
 */
#include "base/dmath.h"
#include "engine/run/state.h"

#define INDEX_PART 8       /* of the free room of requests */
#define INDEX_LEAST 512    /* tokens: a smaller one is made only if it has all */
#define RELATIVES 8        /* conversations */
#define RELATIVE_MOST 4096 /* tokens of each */
#define FADE 0.97
#define PRIOR 3.0 /* drafted tokens that a level's first guess counts as */
#define MARGIN 0.01
#define RETRY 256
#define PROBE 3

bool speculate_is_on(const struct engine *engine) {
        return atomic_load(&engine->run->speculates);
}

void engine_set_speculation(struct engine *engine, bool on) {
        atomic_store(&engine->run->speculates, on);
}

/* --- the index --- */

/* A text beside the conversation's own. */
struct other {
        const int32_t *tokens; /* [n], borrowed */
        uint32_t n, common;    /* tokens; those that the conversation begins with, too */
};

static uint32_t count_common(const struct conv *c, const struct conv *other) {
        uint32_t n = MIN(c->n_all, other->n_all), i = 0;

        while (i < n && c->tokens[i] == other->tokens[i])
                i++;
        return i;
}

/* Whether @other is the parent of @c, or another fork of it. The parent may be closed by now. */
static bool is_relative(const struct conv *c, const struct conv *other) {
        return other != c && other->owner == c->owner && !other->foreign_vocab &&
               (other->id == c->parent || other->parent == c->parent);
}

/* The parent, and the latest forks: [RELATIVES] by falling id, the parent first. */
static size_t find_relatives(struct engine *engine, const struct conv *c, struct conv **ret) {
        struct conv *other;
        size_t it = 0, n = 0;

        if (c->parent == 0)
                return 0;
        while ((other = convs_next(engine, &it))) {
                size_t i;

                if (!is_relative(c, other))
                        continue;
                for (i = n; i > 0 && ret[i - 1]->id != c->parent &&
                            (other->id == c->parent || other->id > ret[i - 1]->id);
                        i--)
                        if (i < RELATIVES)
                                ret[i] = ret[i - 1];
                if (i < RELATIVES) {
                        ret[i] = other;
                        n = MIN(n + 1, (size_t)RELATIVES);
                }
        }
        return n;
}

static size_t find_others(struct engine *engine, const struct conv *c, struct other *ret) {
        struct conv *relatives[RELATIVES];
        size_t n_relatives = find_relatives(engine, c, relatives), n = 0;

        /* The best last: of equal matches the latest one is taken. */
        for (size_t i = n_relatives; i-- > 0;)
                ret[n++] = (struct other){
                        relatives[i]->tokens, relatives[i]->n_all, count_common(c, relatives[i])};
        ret[n].tokens = edit_old_tokens(c, &ret[n].n, &ret[n].common);
        return n + (ret[n].tokens != NULL);
}

/* The part of the text that says something new, and what leads to it. */
static size_t cut_other(struct other *x) {
        uint32_t from = x->common - MIN(x->common, (uint32_t)DRAFT_MOST);

        if (x->common == x->n)
                return x->n = 0;
        x->tokens += from;
        x->n = MIN(x->n - from, (uint32_t)RELATIVE_MOST);
        return x->n;
}

/* Charge the request for an index of @n tokens, or of as many as there is room for (rule 5). Returns how
 * many; 0: none. */
static size_t charge_index(struct engine *engine, struct request *request, size_t n) {
        struct ledger *share = &engine->budget->requests;
        size_t budget = ledger_budget(share), used = ledger_used(share);
        size_t most = (budget - MIN(used, budget)) / INDEX_PART;

        n = MIN(n, (size_t)DRAFT_CAPACITY);
        while (n >= INDEX_LEAST && draft_size(n) > most)
                n /= 2;
        if (draft_size(n) > most ||
                charge_take(&request->charge, draft_size(n), "drafts", NULL) < 0)
                return 0;
        generation_of(request)->speculation.charged = draft_size(n);
        return n;
}

void speculate_begin(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct speculation *x = &g->speculation;
        struct other others[RELATIVES + 1];
        size_t n_others, n = g->n_prompt + g->max_new;

        if (!speculate_is_on(engine) || engine->info.shape.size[SEQ_STATE] > 0 || g->max_new < 2)
                return;
        n_others = find_others(engine, request->conv, others);
        for (size_t i = 0; i < n_others; i++)
                n += cut_other(&others[i]) + 1;
        n = charge_index(engine, request, n);
        if (n == 0)
                return;
        if (draft_new(&x->index, n, NULL) < 0) {
                speculate_deinit(request);
                return;
        }
        for (size_t i = 0; i < n_others; i++) {
                draft_append(x->index, others[i].tokens, others[i].n);
                draft_end_text(x->index);
        }
        /* What is older than an index can hold would go at once. */
        x->n_indexed = g->n_prompt - MIN(g->n_prompt, (uint32_t)n);
}

void speculate_deinit(struct request *request) {
        struct speculation *x = &generation_of(request)->speculation;

        x->index = draft_free(x->index);
        charge_give(&request->charge, x->charged);
        x->charged = 0;
}

/* --- what may be expected --- */

static unsigned level_of(size_t match) {
        static const size_t from[SPECULATE_LEVELS] = {0, 4, 6, 10, 16};
        unsigned level = SPECULATE_LEVELS - 1;

        while (match < from[level])
                level--;
        return level;
}

/* The chance that a drafted token holds, behind so many that match. */
static double chance(const struct speculation *x, size_t match) {
        static const double first[SPECULATE_LEVELS] = {0.3, 0.45, 0.6, 0.75, 0.85};
        unsigned i = level_of(match);

        return (x->levels[i].taken + PRIOR * first[i]) / (x->levels[i].tried + PRIOR);
}

static void learn(struct speculation *x, size_t match, bool held) {
        unsigned i = level_of(match);

        x->levels[i].tried = x->levels[i].tried * FADE + 1;
        x->levels[i].taken = x->levels[i].taken * FADE + held;
}

void speculate_note(struct engine *engine, uint32_t n_rows, double depth, uint64_t usec) {
        cost_observe(&engine->run->row_cost, n_rows, depth, usec);
}

/* How many tokens of the draft pay (rule 6). */
static uint32_t choose_length(
        struct engine *engine, const struct speculation *x, const struct speculate_step *step) {
        struct run *run = engine->run;
        double t0 = cost_predict(&run->row_cost, step->n_rows, step->depth), best = MARGIN;
        double holds = 1, expected = 0, free_gain;
        uint32_t n = 0;

        if (t0 <= 0)
                return 0; /* no step was seen yet */
        for (uint32_t k = 1; k <= x->n; k++) {
                double t = cost_predict(&run->row_cost, step->n_rows + k, step->depth), gain;

                holds *= chance(x, x->match + k - 1);
                expected += holds;
                gain = dmath_log(1 + expected) - (double)step->n_requests * dmath_log(t / t0);
                if (gain > best) {
                        best = gain;
                        n = k;
                }
        }
        free_gain = dmath_log(1 + expected);
        if (n == 0 && free_gain > 4 * MARGIN && ++run->n_declined >= RETRY)
                n = MIN(x->n, (uint32_t)PROBE);
        if (n > 0)
                run->n_declined = 0;
        return n;
}

/* --- drafts --- */

static void look_up(struct request *request, uint32_t most) {
        const struct conv *c = request->conv;
        struct generation *g = generation_of(request);
        struct speculation *x = &g->speculation;
        /* The step gives a token without a draft as well. */
        uint32_t left = g->max_new - g->n_generated - 1;

        draft_append(x->index, c->tokens + x->n_indexed, c->n_all - x->n_indexed);
        x->n_indexed = c->n_all;
        left = MIN(left, (uint32_t)SPECULATE_MOST);
        x->n = (uint32_t)draft_find(x->index, MIN(most, left), x->tokens, &x->match);
}

/* Reserve room behind the row that is reserved already: all of the draft, or what its block has left. */
static void reserve(struct speculation *x, struct seq *seq, uint32_t block_tokens) {
        if (seq_reserve(seq, 1 + x->n, NULL) == 0)
                return;
        x->n = MIN(x->n, block_tokens - 1 - seq_n_tokens(seq) % block_tokens);
        if (x->n > 0 && seq_reserve(seq, 1 + x->n, NULL) != 0)
                x->n = 0;
}

uint32_t speculate_draft(struct engine *engine, struct request *request,
        const struct speculate_step *step, uint32_t most) {
        struct speculation *x = &generation_of(request)->speculation;

        if (!x->index || request->phase != PHASE_DECODE || most == 0)
                return 0;
        look_up(request, most);
        if (x->n > 0)
                x->n = choose_length(engine, x, step);
        if (x->n > 0)
                reserve(x, request->conv->seq, engine->info.block_tokens);
        x->n_drafted += x->n;
        engine->count.tokens_drafted += x->n;
        return x->n;
}

bool speculate_holds(struct engine *engine, struct request *request, uint32_t i) {
        const struct generation *g = generation_of(request);
        const struct conv *c = request->conv;

        return i < g->speculation.n && g->end == GOES_ON &&
               c->tokens[c->n_all - 1] == g->speculation.tokens[i] &&
               !atomic_load(&request->cancel) && !request_is_paused(request) &&
               !event_backlog(engine);
}

void speculate_end(struct engine *engine, struct request *request, uint32_t n_taken) {
        struct generation *g = generation_of(request);
        struct speculation *x = &g->speculation;
        const struct conv *c = request->conv;

        if (x->n == 0)
                return;
        for (uint32_t i = 0; i < n_taken; i++)
                learn(x, x->match + i, true);
        if (n_taken < x->n && c->tokens[c->n_all - 1] != x->tokens[n_taken])
                learn(x, x->match + n_taken, false);
        x->n_accepted += n_taken;
        engine->count.tokens_accepted += n_taken;
        x->n = 0;
        seq_unreserve(c->seq);
}
