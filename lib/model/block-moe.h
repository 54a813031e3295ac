/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Experts: a router chooses n_used of n gated feed-forwards per token and mixes their outputs.
 *
 * 1. The choice: softmax over all experts, the n_used greatest, ties to the lower index.
 * 2. The mixing weights: the chosen probabilities over max(their sum, 6.1e-5), added up in order of
 *    choice, times the expert scale if it is not 1.
 * 3. A token's output is the sum over its experts in order of choice, starting from 0, one fmaf per
 *    element each: it does not depend on what else is in the batch (I2).
 *
 * Tokens are grouped by expert, so that a chunk of prefill multiplies matrices, not vectors.
 */
#include <stdint.h>

#include "kern/kern.h"
#include "model/weights.h"

struct err;
struct model;
struct model_work;
struct work_input;

struct moe {
        struct kern_mat router;
        struct weights_stack gate, up, down;
        uint32_t n_used;
        float scale; /* 1: none */
};

int moe_load(struct model *m, struct moe *ret, uint32_t layer, struct err *e);
/* out [n][n_embd]. @in: the normed residual. */
void moe_forward(const struct moe *moe, struct model_work *w, struct work_input *in, float *out);

/* The router's choice for one token (tests): probs [n] as softmax gave them. */
void moe_choose(const float *probs, uint32_t n, uint32_t n_used, float scale, uint32_t *ret_expert,
        float *ret_weight);
