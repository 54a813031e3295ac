/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Alternating updates (Baykal et al. 2023, arXiv:2301.13310): the residual is ALTUP_N streams, of which
 * a layer computes one and corrects the others by it.
 *
 *   router(y) = tanh(R (rmsnorm(y) * norm / d))                                    [N]
 *   predict:  P_j = X_j + sum_k c[N j + k] X_k,  c = predict_coef router(X_0)
 *   correct:  X_j = P_j + c_j (y - P_0),         c = correct_coef router(y) + 1, y what the layer made
 *
 * Streams lie in model_work.own, [N][n][d] each of X and P. The start projects stream 0 to the others,
 * the end projects them back and takes the mean; each projection keeps the length of its vector.
 */
#include "model/block-norm.h"
#include "model/weights.h"

#define ALTUP_N 4

struct altup_layer {
        struct kern_mat router, predict, correct;
        struct norm router_norm;
};

struct altup {
        struct weights_stack project, unproject; /* {d, d}, ALTUP_N - 1 of each */
        size_t at, n_embd;                       /* floats of model_work.own before X, per token */
        struct altup_layer *layers;              /* owned */
};
#define ALTUP_NULL ((struct altup){0})

/* Books its part of model_work.own. */
int altup_load(struct model *m, struct altup *ret, struct err *e);
void altup_deinit(struct altup *a);
/* X from w->x; w->x from X. */
void altup_begin(const struct altup *a, struct model_work *w);
void altup_end(const struct altup *a, struct model_work *w);
/* P from X, and w->x = P_0. */
void altup_predict(const struct altup *a, struct model_work *w, uint32_t layer);
/* X from P and w->x, what the layer made of P_0. */
void altup_correct(const struct altup *a, struct model_work *w, uint32_t layer);
/* Stream j of X [n][d]. */
float *altup_stream(const struct altup *a, struct model_work *w, size_t j);
