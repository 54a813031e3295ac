/* SPDX-License-Identifier: MIT */
#include "model/moe-choose.h"

#include <math.h>

#include "kern/kern.h"

/* Keeps the division defined when every chosen probability underflowed (smallest normal half). */
#define MIN_SUM 6.103515625e-5f
#define N_WORDS (HPARAMS_MAX_EXPERTS / 64)

/* Experts, or groups, that cannot be chosen (any more). */
struct barred {
        uint64_t bits[N_WORDS];
};

static bool is_barred(const struct barred *b, uint32_t i) {
        return b->bits[i / 64] >> i % 64 & 1;
}

static void bar(struct barred *b, uint32_t i) {
        b->bits[i / 64] |= (uint64_t)1 << i % 64;
}

/* The greatest of those that are not barred, the first of equal ones. Where all are NaN (a broken
 * model) the first. */
static uint32_t best_of(const float *score, uint32_t n, const struct barred *b) {
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < n; i++)
                if (!is_barred(b, i) && (best == UINT32_MAX || score[i] > score[best]))
                        best = i;
        return best;
}

static float group_score(const float *score, uint32_t n) {
        float first = -INFINITY, second = -INFINITY;

        for (uint32_t i = 0; i < n; i++)
                if (score[i] > first) {
                        second = first;
                        first = score[i];
                } else if (score[i] > second) {
                        second = score[i];
                }
        return n > 1 ? first + second : first;
}

/* Bar the experts of all groups but the best. */
static void bar_groups(const struct hparams_experts *x, const float *score, struct barred *b) {
        uint32_t size = x->n / x->n_group;
        float groups[HPARAMS_MAX_EXPERTS];
        struct barred taken = {0};

        for (uint32_t g = 0; g < x->n_group; g++)
                groups[g] = group_score(score + g * size, size);
        for (uint32_t j = 0; j < x->n_group_used; j++)
                bar(&taken, best_of(groups, x->n_group, &taken));
        for (uint32_t i = 0; i < x->n; i++)
                if (!is_barred(&taken, i / size))
                        bar(b, i);
}

static void choose(const struct hparams_experts *x, const float *score, const float *bias,
        uint32_t *ret_expert) {
        float biased[HPARAMS_MAX_EXPERTS];
        struct barred b = {0};

        if (bias) {
                for (uint32_t i = 0; i < x->n; i++)
                        biased[i] = score[i] + bias[i];
                score = biased;
        }
        if (x->n_group > 1)
                bar_groups(x, score, &b);
        for (uint32_t j = 0; j < x->n_used; j++) {
                ret_expert[j] = best_of(score, x->n, &b);
                bar(&b, ret_expert[j]);
        }
}

static void renormalise(float *weight, uint32_t n) {
        float sum = 0.0f;

        for (uint32_t j = 0; j < n; j++)
                sum += weight[j];
        if (!(sum > MIN_SUM))
                sum = MIN_SUM;
        for (uint32_t j = 0; j < n; j++)
                weight[j] /= sum;
}

void moe_choose(struct kern *k, const struct hparams_experts *x, float *logits, const float *bias,
        uint32_t *ret_expert, float *ret_weight) {
        if (x->router == ARCH_ROUTER_SOFTMAX)
                kern_softmax(k, logits, x->n);
        else if (x->router == ARCH_ROUTER_SIGMOID)
                kern_sigmoid(k, logits, x->n);
        choose(x, logits, bias, ret_expert);
        for (uint32_t j = 0; j < x->n_used; j++)
                ret_weight[j] = logits[ret_expert[j]];
        if (x->router == ARCH_ROUTER_SOFTMAX_CHOSEN)
                kern_softmax(k, ret_weight, x->n_used);
        else if (x->router == ARCH_ROUTER_SIGMOID_INPUT)
                kern_sigmoid(k, ret_weight, x->n_used);
        if (x->renormalise)
                renormalise(ret_weight, x->n_used);
        if (x->scale != 1.0f)
                for (uint32_t j = 0; j < x->n_used; j++)
                        ret_weight[j] *= x->scale;
}
