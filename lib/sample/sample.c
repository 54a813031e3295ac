/* SPDX-License-Identifier: MIT */
/*
 * How a token is chosen. Every step is a function of its inputs alone, in double, in a fixed order.
 *
 * 1. Candidates are the tokens of the mask whose logit, with bias and penalties, is above -inf and
 *    not NaN.
 *    Biases are added in the order given. The repetition penalty comes first (positive logits are
 *    divided, others multiplied), then count * frequency and presence are subtracted.
 * 2. Temperature 0 takes the best candidate: greatest logit, then lowest id.
 * 3. top-k keeps the k best. The weight of a candidate is e^((logit - greatest) / temperature).
 * 4. top-p keeps the shortest run of best candidates whose weights reach top_p of the total that
 *    top-k left; min-p then drops weights below min_p (the greatest weight is 1). Both keep a run
 *    of best candidates, at least one, so that candidates are ranked only as far as needed.
 * 5. The draw walks the kept candidates, best first, until the summed weights pass u times their
 *    total. The total of an unfiltered vocabulary is summed in index order, before ranking.
 */
#include "sample/sample.h"
#include "base/cleanup.h"
#include "base/dmath.h"
#include "base/err.h"
#include "sample/philox.h"
#include "sample/work.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

static int out_of_range(const char *field, float v, const char *range, struct err *e) {
        return err_set(e, ERR_INVALID, "%s is %g, must be %s", field, (double)v, range);
}

int sample_params_validate(const struct sample_params *p, uint32_t n_vocab, struct err *e) {
        if (!(p->temperature >= 0 && isfinite(p->temperature)))
                return out_of_range("temperature", p->temperature, "0 or more", e);
        if (!(p->top_p > 0 && p->top_p <= 1))
                return out_of_range("top_p", p->top_p, "above 0 and at most 1", e);
        if (!(p->min_p >= 0 && p->min_p < 1))
                return out_of_range("min_p", p->min_p, "from 0 and below 1", e);
        if (!(p->repetition_penalty > 0 && isfinite(p->repetition_penalty)))
                return out_of_range("repetition_penalty", p->repetition_penalty, "above 0", e);
        if (!isfinite(p->presence_penalty))
                return out_of_range("presence_penalty", p->presence_penalty, "a finite number", e);
        if (!isfinite(p->frequency_penalty))
                return out_of_range(
                        "frequency_penalty", p->frequency_penalty, "a finite number", e);
        if (p->n_biases && !p->biases)
                return err_set(e, ERR_INVALID, "logit_bias has a count but no entries");
        for (size_t i = 0; i < p->n_biases; i++) {
                const struct sample_bias *b = &p->biases[i];

                if (b->token < 0 || (uint32_t)b->token >= n_vocab)
                        return err_set(e, ERR_INVALID,
                                "logit_bias names token %d, but the vocabulary has %u", b->token,
                                n_vocab);
                if (b->bias != b->bias || b->bias == INFINITY)
                        return out_of_range("logit_bias", b->bias, "a number or -inf", e);
        }
        return 0;
}

int sample_work_new(struct sample_work **ret, uint32_t n_vocab, struct err *e) {
        struct sample_work *w;

        if (n_vocab == 0 || n_vocab > INT32_MAX)
                return err_set(e, ERR_INVALID, "a vocabulary of %u tokens", n_vocab);
        w = calloc(1, sizeof(*w));
        if (w) {
                w->n_vocab = n_vocab;
                w->items = calloc(n_vocab, sizeof(*w->items));
                w->counts = calloc(n_vocab, sizeof(*w->counts));
        }
        if (!w || !w->items || !w->counts) {
                sample_work_free(w);
                return err_set(e, ERR_NOMEM, "no memory for sampling from %u tokens", n_vocab);
        }
        *ret = w;
        return 0;
}

struct sample_work *sample_work_free(struct sample_work *w) {
        if (!w)
                return NULL;
        free(w->items);
        free(w->counts);
        free(w);
        return NULL;
}

static double penalised(const struct sample_params *p, double logit, uint32_t count) {
        if (logit > 0)
                logit /= (double)p->repetition_penalty;
        else
                logit *= (double)p->repetition_penalty;
        return logit - (double)count * (double)p->frequency_penalty - (double)p->presence_penalty;
}

/* On w->items [n_vocab], in place; counts are left zero. */
static void apply_penalties(struct sample_work *w, const struct sample_params *p,
        const int32_t *recent, size_t n_recent) {
        size_t first = n_recent > p->penalty_last_n ? n_recent - p->penalty_last_n : 0;

        if (p->repetition_penalty == 1 && p->presence_penalty == 0 && p->frequency_penalty == 0)
                return;
        for (size_t i = first; i < n_recent; i++)
                if (recent[i] >= 0 && (uint32_t)recent[i] < w->n_vocab)
                        w->counts[recent[i]]++;
        for (size_t i = first; i < n_recent; i++) {
                struct candidate *c;
                uint32_t count;

                if (recent[i] < 0 || (uint32_t)recent[i] >= w->n_vocab)
                        continue;
                count = w->counts[recent[i]];
                if (count == 0) /* done at an earlier occurrence */
                        continue;
                c = &w->items[recent[i]];
                c->logit = penalised(p, c->logit, count);
                w->counts[recent[i]] = 0;
        }
}

static bool allowed(const struct sample_params *p, uint32_t token) {
        return !p->mask || (p->mask[token / 64] >> (token % 64) & 1);
}

/* Fills w->items with the candidates in order of token id; returns how many. */
static size_t gather(struct sample_work *w, const struct sample_params *p, const float *logits,
        const int32_t *recent, size_t n_recent) {
        size_t n = 0;

        for (uint32_t i = 0; i < w->n_vocab; i++)
                w->items[i] = (struct candidate){(double)logits[i], (int32_t)i};
        for (size_t i = 0; i < p->n_biases; i++)
                w->items[p->biases[i].token].logit += (double)p->biases[i].bias;
        apply_penalties(w, p, recent, n_recent);
        for (uint32_t i = 0; i < w->n_vocab; i++)
                if (allowed(p, i) && w->items[i].logit > -(double)INFINITY) /* false for NaN */
                        w->items[n++] = w->items[i];
        return n;
}

/* The allowed token with the greatest unmodified logit; the lowest id if no logit can be
 * compared. */
static int32_t greatest_raw(const struct sample_params *p, const float *logits, uint32_t n_vocab) {
        int32_t best = -1;
        float max = -INFINITY;

        for (uint32_t i = 0; i < n_vocab; i++)
                if (allowed(p, i) && (best < 0 || logits[i] > max)) {
                        max = logits[i] > max ? logits[i] : max;
                        best = (int32_t)i;
                }
        return best;
}

static int32_t best_of(const struct candidate *items, size_t n) {
        const struct candidate *best = &items[0];

        for (size_t i = 1; i < n; i++)
                if (rank_better(&items[i], best))
                        best = &items[i];
        return best->token;
}

struct weigher {
        double max, temperature;
};

static double weight_of(const struct weigher *s, double logit) {
        /* the greatest is compared, not subtracted: it may be infinite */
        return logit == s->max ? 1 : dmath_exp((logit - s->max) / s->temperature);
}

static struct weigher weigher_for(
        const struct sample_params *p, const struct candidate *items, size_t n) {
        struct weigher s = {.max = items[0].logit, .temperature = (double)p->temperature};

        for (size_t i = 1; i < n; i++)
                if (items[i].logit > s.max)
                        s.max = items[i].logit;
        return s;
}

/* The next best candidate; from here on its `logit` holds its weight. */
static double take_weight(struct rank *rank, const struct weigher *s) {
        struct candidate *c = rank_take(rank);

        c->logit = weight_of(s, c->logit);
        return c->logit;
}

/* Steps 3 and 4: how many best candidates are kept; *ret_total is the sum of their weights. */
static size_t filter(struct rank *rank, const struct weigher *s, const struct sample_params *p,
        double *ret_total) {
        size_t n = rank->n, kept;
        double total = 0, sum = 0;

        if (p->top_k && p->top_k < n) {
                n = p->top_k;
                rank_init(rank, rank->items, rank->n);
                for (size_t i = 0; i < n; i++)
                        total += take_weight(rank, s);
        } else {
                for (size_t i = 0; i < n; i++)
                        total += weight_of(s, rank->items[i].logit);
                rank_init(rank, rank->items, rank->n);
        }
        if (p->top_p >= 1 && p->min_p <= 0) {
                *ret_total = total;
                return n;
        }
        for (kept = 0; kept < n; kept++) {
                double w = kept < rank->n - rank->left ? rank_taken(rank, kept)->logit
                                                       : take_weight(rank, s);

                if (kept &&
                        (w < (double)p->min_p || (p->top_p < 1 && sum >= (double)p->top_p * total)))
                        break;
                sum += w;
        }
        *ret_total = sum;
        return kept;
}

int32_t sample_token(struct sample_work *w, const struct sample_params *p, const float *logits,
        const int32_t *recent, size_t n_recent, uint64_t position) {
        size_t n = gather(w, p, logits, recent, n_recent), kept;
        struct rank rank = {.items = w->items, .n = n, .left = n};
        double total, target, sum = 0;
        struct weigher s;
        int32_t chosen;

        if (n == 0)
                return greatest_raw(p, logits, w->n_vocab);
        if (p->temperature == 0)
                return best_of(w->items, n);
        s = weigher_for(p, w->items, n);
        kept = filter(&rank, &s, p, &total);
        target = philox_uniform(p->seed, position) * total;
        chosen = -1;
        for (size_t i = 0; i < kept; i++) {
                double weight = i < rank.n - rank.left ? rank_taken(&rank, i)->logit
                                                       : take_weight(&rank, &s);

                if (weight <= 0)
                        break;
                chosen = rank_taken(&rank, i)->token;
                sum += weight;
                if (sum > target)
                        break;
        }
        return chosen;
}
