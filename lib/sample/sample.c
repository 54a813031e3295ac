/* SPDX-License-Identifier: MIT */
/*
 * How a token is chosen. Every step is a function of its inputs alone, in double, in a fixed order.
 *
 * 1. Candidates are the tokens of the mask whose logit, with bias and penalties, is above -inf and
 *    not NaN.
 *    Biases are added in the order given. The repetition penalty comes first (positive logits are
 *    divided, others multiplied), then count * frequency and presence are subtracted.
 *    At first only those are looked at whose unmodified logits are among the best, and those with biases
 *    and penalties; all of them, if these turn out to be too few.
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
#include "base/util.h"
#include "sample/philox.h"
#include "sample/work.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define CHUNK 256       /* weights at once */
#define FIRST_LOOK 2048 /* without top-k: the part of the vocabulary that is looked at first */

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
        size_t n_blocks = (size_t)n_vocab / 64 + 1;
        struct sample_work *w;

        if (n_vocab == 0 || n_vocab > INT32_MAX)
                return err_set(e, ERR_INVALID, "a vocabulary of %u tokens", n_vocab);
        w = calloc(1, sizeof(*w));
        if (w) {
                w->n_vocab = n_vocab;
                w->items = calloc(n_vocab, sizeof(*w->items));
                w->counts = calloc(n_vocab, sizeof(*w->counts));
                w->place = calloc(n_vocab, sizeof(*w->place));
                w->marked = calloc(n_blocks, sizeof(*w->marked));
                w->greatest = calloc(n_blocks, sizeof(*w->greatest));
                w->heap = calloc(n_blocks, sizeof(*w->heap));
        }
        if (!w || !w->items || !w->counts || !w->place || !w->marked || !w->greatest || !w->heap) {
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
        free(w->place);
        free(w->marked);
        free(w->greatest);
        free(w->heap);
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

static bool penalises(const struct sample_params *p) {
        return p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

static struct candidate *item_of(struct sample_work *w, int32_t token) {
        return &w->items[w->sparse ? w->place[token] : (uint32_t)token];
}

/* On w->items, in place; counts are left zero. */
static void apply_penalties(struct sample_work *w, const struct sample_params *p,
        const int32_t *recent, size_t n_recent) {
        if (!penalises(p))
                return;
        for (size_t i = 0; i < n_recent; i++)
                if (recent[i] >= 0 && (uint32_t)recent[i] < w->n_vocab)
                        w->counts[recent[i]]++;
        for (size_t i = 0; i < n_recent; i++) {
                struct candidate *c;
                uint32_t count;

                if (recent[i] < 0 || (uint32_t)recent[i] >= w->n_vocab)
                        continue;
                count = w->counts[recent[i]];
                if (count == 0) /* done at an earlier occurrence */
                        continue;
                c = item_of(w, recent[i]);
                c->logit = penalised(p, c->logit, count);
                w->counts[recent[i]] = 0;
        }
}

static bool allowed(const struct sample_params *p, uint32_t token) {
        return !p->mask || (p->mask[token / 64] >> (token % 64) & 1);
}

/* So many best tokens by their unmodified logits hold those that are looked at first; 0: all are looked at. */
static size_t best_needed(
        const struct sample_work *w, const struct sample_params *p, size_t n_recent) {
        size_t n = p->temperature == 0 ? 1 : p->top_k ? p->top_k : w->n_vocab / FIRST_LOOK;

        if (n == 0 || p->mask)
                return 0;
        /* As many may change, and one more shows that top_k leaves some out. */
        return n + 1 + p->n_biases + (penalises(p) ? n_recent : 0);
}

static void put_item(struct sample_work *w, const float *logits, uint32_t token, size_t *n) {
        w->place[token] = (uint32_t)*n;
        w->items[(*n)++] = (struct candidate){(double)logits[token], (int32_t)token};
}

/* Fill w->items with the tokens whose logits reach @least, and those that are marked, in order. */
static size_t put_best(struct sample_work *w, const float *logits, float least) {
        size_t n = 0;

        for (uint32_t block = 0; block * 64 < w->n_vocab; block++) {
                uint32_t first = block * 64, end = MIN(first + 64, w->n_vocab);
                uint64_t marked = w->marked[block];

                w->marked[block] = 0;
                if (!marked && !(w->greatest[block] >= least))
                        continue;
                for (uint32_t i = first; i < end; i++)
                        if (logits[i] >= least || (marked >> (i % 64) & 1))
                                put_item(w, logits, i, &n);
        }
        return n;
}

static void mark(struct sample_work *w, int32_t token) {
        if (token >= 0 && (uint32_t)token < w->n_vocab)
                w->marked[token / 64] |= (uint64_t)1 << (token % 64);
}

/* Fill w->items with tokens: all, or those that are looked at first, then with w->least. Returns how many. */
static size_t put_items(struct sample_work *w, const struct sample_params *p, const float *logits,
        const int32_t *recent, size_t n_recent, bool all) {
        size_t needed = all ? 0 : best_needed(w, p, n_recent);

        w->least =
                needed ? rank_reached(logits, w->n_vocab, needed, w->greatest, w->heap) : -INFINITY;
        w->sparse = w->least > -INFINITY;
        if (!w->sparse) {
                for (uint32_t i = 0; i < w->n_vocab; i++)
                        w->items[i] = (struct candidate){(double)logits[i], (int32_t)i};
                return w->n_vocab;
        }
        for (size_t i = 0; i < p->n_biases; i++)
                mark(w, p->biases[i].token);
        for (size_t i = 0; penalises(p) && i < n_recent; i++)
                mark(w, recent[i]);
        return put_best(w, logits, w->least);
}

/* Fills w->items with the candidates in order of token id, all of them or w->sparse; returns how many. */
static size_t gather(struct sample_work *w, const struct sample_params *p, const float *logits,
        const int32_t *recent, size_t n_recent, bool all) {
        size_t n_items, n = 0;

        if (n_recent > p->penalty_last_n) { /* nothing is added to NULL, not even 0 */
                recent += n_recent - p->penalty_last_n;
                n_recent = p->penalty_last_n;
        }
        n_items = put_items(w, p, logits, recent, n_recent, all);
        for (size_t i = 0; i < p->n_biases; i++)
                item_of(w, p->biases[i].token)->logit += (double)p->biases[i].bias;
        apply_penalties(w, p, recent, n_recent);
        for (size_t i = 0; i < n_items; i++)
                if (allowed(p, (uint32_t)w->items[i].token) &&
                        w->items[i].logit > -(double)INFINITY) /* false for NaN */
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

/* The weights of x[n], logits before: those of no candidates (-inf and NaN) are 0. */
static void weigh(const struct weigher *s, double *x, size_t n) {
        for (size_t i = 0; i < n; i++)
                x[i] = x[i] == s->max             ? 0
                       : x[i] > -(double)INFINITY ? (x[i] - s->max) / s->temperature
                                                  : -(double)INFINITY;
        dmath_exp_each(x, n); /* of 0 it is 1 */
}

/* The sum of the weights of all candidates, in order of token id. Where only some are items, the others have
 * their unmodified logits. */
static double sum_weights(
        const struct sample_work *w, const struct weigher *s, const float *logits, size_t n_items) {
        size_t n = w->sparse ? w->n_vocab : n_items, next = 0;
        double x[CHUNK], total = 0;

        for (size_t at = 0; at < n; at += CHUNK) {
                size_t n_here = MIN(n - at, (size_t)CHUNK);

                for (size_t i = 0; i < n_here; i++)
                        x[i] = w->sparse ? (double)logits[at + i] : w->items[at + i].logit;
                for (; w->sparse && next < n_items && (size_t)w->items[next].token < at + n_here;
                        next++)
                        x[(size_t)w->items[next].token - at] = w->items[next].logit;
                weigh(s, x, n_here);
                for (size_t i = 0; i < n_here; i++)
                        total += x[i];
        }
        return total;
}

/* The candidates on their way from the best one on. */
struct walk {
        struct weigher s;
        struct rank rank;
        double least; /* from here on those that were not looked at may be better */
        bool lost;
};

/* The weight of the @i-th best, which is taken now or was before. False: it is not known, since it is not
 * certain which one it is, or there is none. From here on its `logit` holds the weight. */
static bool weight_at(struct walk *walk, size_t i, double *ret) {
        struct rank *rank = &walk->rank;

        if (i == rank->n - rank->left) {
                struct candidate *c = rank->left > 0 ? rank_take(rank) : NULL;

                walk->lost = !c || c->logit < walk->least;
                if (walk->lost)
                        return false;
                c->logit = weight_of(&walk->s, c->logit);
        }
        *ret = rank_taken(rank, i)->logit;
        return true;
}

/* Step 4: how many of the @n best candidates are kept, of the weight @total together; *ret: their weight.
 */
static size_t filter(
        struct walk *walk, const struct sample_params *p, size_t n, double total, double *ret) {
        double weight, sum = 0;
        size_t kept;

        *ret = total;
        if (p->top_p >= 1 && p->min_p <= 0)
                return n;
        for (kept = 0; kept < n && weight_at(walk, kept, &weight); kept++) {
                if (kept && (weight < (double)p->min_p ||
                                    (p->top_p < 1 && sum >= (double)p->top_p * total)))
                        break;
                sum += weight;
        }
        *ret = sum;
        return kept;
}

/* Steps 3 to 5, of @n candidates. -1: of the candidates that were looked at none can be chosen with certainty.
 */
static int32_t draw(struct sample_work *w, const struct sample_params *p, const float *logits,
        size_t n_items, uint64_t position) {
        struct walk walk = {.s = weigher_for(p, w->items, n_items),
                .least = w->sparse ? (double)w->least : -(double)INFINITY};
        size_t n = w->sparse ? w->n_vocab : n_items, kept;
        double total = 0, weight, target, sum = 0;
        int32_t chosen = -1;

        if (p->top_k == 0 || p->top_k >= n) {
                if (p->top_p < 1 || p->min_p <= 0)
                        total = sum_weights(w, &walk.s, logits, n_items);
                rank_init(&walk.rank, w->items, n_items);
        } else {
                n = p->top_k;
                rank_init(&walk.rank, w->items, n_items);
                for (size_t i = 0; i < n && weight_at(&walk, i, &weight); i++)
                        total += weight;
        }
        kept = filter(&walk, p, n, total, &total);
        target = philox_uniform(p->seed, position) * total;
        for (size_t i = 0; i < kept && !walk.lost && weight_at(&walk, i, &weight); i++) {
                if (weight <= 0)
                        break;
                chosen = rank_taken(&walk.rank, i)->token;
                sum += weight;
                if (sum > target)
                        break;
        }
        return walk.lost ? -1 : chosen;
}

int32_t sample_token(struct sample_work *w, const struct sample_params *p, const float *logits,
        const int32_t *recent, size_t n_recent, uint64_t position) {
        size_t n = gather(w, p, logits, recent, n_recent, false);
        int32_t chosen;

        if (n > 0 && p->temperature == 0)
                return best_of(w->items, n);
        chosen = n > 0 ? draw(w, p, logits, n, position) : -1;
        if (chosen >= 0)
                return chosen;
        /* The few that were looked at are not enough. */
        n = gather(w, p, logits, recent, n_recent, true);
        return n > 0 ? draw(w, p, logits, n, position) : greatest_raw(p, logits, w->n_vocab);
}
