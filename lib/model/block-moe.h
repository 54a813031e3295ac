/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Experts: a router chooses n_used of n feed-forwards per token (moe-choose.h), gated or plain as the
 * architecture has them, and mixes their outputs; a shared feed-forward may see every token.
 *
 * 1. A token's output is the sum over its experts in order of choice, starting from 0, one fmaf per
 *    element each, then the shared feed-forward: it does not depend on what else is in the batch (I2).
 * 2. With ARCH_ROUTER_SIGMOID_INPUT the weight multiplies what the expert sees, and outputs are added
 *    up as they are.
 * 3. With a latent width the experts see ffn_latent_down x, and ffn_latent_up takes their sum back. The
 *    router and the shared feed-forward see x.
 *
 * Tokens are grouped by expert, so that a chunk of prefill multiplies matrices, not vectors.
 */
#include <stdint.h>

#include "kern/kern.h"
#include "model/block-ffn.h"
#include "model/weights.h"

/* One matrix of each expert, with what the file may have beside it. */
struct moe_part {
        struct weights_stack mats;
        const float *bias;  /* [n][n_out] or NULL */
        const float *scale; /* [n], factors of the products, or NULL */
};

struct moe {
        const struct hparams_experts *rule; /* borrowed */
        enum kern_activation activation;
        bool plain;
        struct kern_mat router;
        const float *router_bias, *choice_bias; /* [n] or NULL */
        struct kern_mat latent_down, latent_up; /* n_in of 0: none */
        struct moe_part gate, up, down;         /* gate: not of plain ones */
        bool has_shared;
        struct ffn shared;
        const float *shared_gate; /* [n_embd] or NULL: sigmoid of its product is a factor */
};

int moe_load(struct model *m, struct moe *ret, uint32_t layer, struct err *e);
/* out [n][n_embd]. @in: the normed residual; @router_in: what the router sees, mostly the same. */
void moe_forward(const struct moe *moe, struct model_work *w, struct work_input *in,
        struct work_input *router_in, float *out);
