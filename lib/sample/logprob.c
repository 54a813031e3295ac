/* SPDX-License-Identifier: MIT */
#include "base/dmath.h"
#include "sample/sample.h"
#include "sample/work.h"
#include <assert.h>
#include <math.h>

static double or_minus_inf(float logit) {
        return logit == logit ? (double)logit : -(double)INFINITY;
}

/* Sums e^(logit - max) in index order. */
static double sum_of(const float *logits, uint32_t n_vocab, double *ret_max) {
        double max = -(double)INFINITY, sum = 0;

        for (uint32_t i = 0; i < n_vocab; i++)
                if (logits[i] > max)
                        max = (double)logits[i];
        for (uint32_t i = 0; i < n_vocab; i++) {
                double l = or_minus_inf(logits[i]);

                sum += l == max ? 1 : dmath_exp(l - max); /* also where max is infinite */
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

void sample_top_logprobs(struct sample_work *w, const float *logits, uint32_t n_vocab, size_t top,
        struct sample_logprob *out) {
        double max, log_sum = dmath_log(sum_of(logits, n_vocab, &max));
        struct rank rank;

        assert(n_vocab <= w->n_vocab && top <= n_vocab);
        for (uint32_t i = 0; i < n_vocab; i++)
                w->items[i] = (struct candidate){or_minus_inf(logits[i]), (int32_t)i};
        rank_init(&rank, w->items, n_vocab);
        for (size_t i = 0; i < top; i++) {
                const struct candidate *c = rank_take(&rank);

                out[i] = (struct sample_logprob){
                        .token = c->token, .logprob = logprob_of(c->logit, max, log_sum)};
        }
}
