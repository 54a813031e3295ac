/* SPDX-License-Identifier: MIT */
#include "base/dmath.h"
#include "base/util.h"
#include "sample/sample.h"
#include "sample/work.h"
#include <assert.h>
#include <math.h>

#define CHUNK 256 /* weights at once */

static double or_minus_inf(float logit) {
        return logit == logit ? (double)logit : -(double)INFINITY;
}

/* Sums e^(logit - max) in index order. */
static double sum_of(const float *logits, uint32_t n_vocab, double *ret_max) {
        double max = -(double)INFINITY, sum = 0, x[CHUNK];

        for (uint32_t i = 0; i < n_vocab; i++)
                if (logits[i] > max)
                        max = (double)logits[i];
        for (uint32_t at = 0; at < n_vocab; at += CHUNK) {
                uint32_t n = MIN(n_vocab - at, (uint32_t)CHUNK);

                for (uint32_t i = 0; i < n; i++) {
                        double l = or_minus_inf(logits[at + i]);

                        x[i] = l == max ? 0 : l - max; /* also where max is infinite */
                }
                dmath_exp_each(x, n); /* of 0 it is 1 */
                for (uint32_t i = 0; i < n; i++)
                        sum += x[i];
        }
        *ret_max = max;
        return sum;
}

static float logprob_of(double logit, double max, double log_sum) {
        if (logit == -(double)INFINITY)
                return -INFINITY;
        return (float)((logit == max ? 0 : logit - max) - log_sum);
}

float sample_logprob(const float *logits, uint32_t n_vocab, int32_t token) {
        double max, sum = sum_of(logits, n_vocab, &max);

        assert(token >= 0 && (uint32_t)token < n_vocab);
        return logprob_of(or_minus_inf(logits[token]), max, dmath_log(sum));
}

/* Fill w->items with the tokens that may be among the @top best; returns how many. */
static size_t put_best(struct sample_work *w, const float *logits, uint32_t n_vocab, size_t top) {
        float least = rank_reached(logits, n_vocab, top, w->greatest, w->heap);
        size_t n = 0;

        for (uint32_t i = 0; i < n_vocab; i++)
                if (!(least > -INFINITY) || logits[i] >= least)
                        w->items[n++] = (struct candidate){or_minus_inf(logits[i]), (int32_t)i};
        return n;
}

float sample_top_logprobs(struct sample_work *w, const float *logits, uint32_t n_vocab,
        int32_t token, size_t top, struct sample_logprob *out) {
        double max, log_sum = dmath_log(sum_of(logits, n_vocab, &max));
        struct rank rank;

        assert(n_vocab <= w->n_vocab && top <= n_vocab);
        assert(token >= 0 && (uint32_t)token < n_vocab);
        rank_init(&rank, w->items, put_best(w, logits, n_vocab, top));
        for (size_t i = 0; i < top; i++) {
                const struct candidate *c = rank_take(&rank);

                out[i] = (struct sample_logprob){
                        .token = c->token, .logprob = logprob_of(c->logit, max, log_sum)};
        }
        return logprob_of(or_minus_inf(logits[token]), max, log_sum);
}
