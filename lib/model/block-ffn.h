/* SPDX-License-Identifier: MIT */
#pragma once
/* Gated feed-forward: down(silu(gate(x)) * up(x)), biases where the file has them. */
#include <stdint.h>

#include "kern/kern.h"

struct err;
struct model;
struct model_work;
struct work_input;

struct ffn {
        struct kern_mat gate, up, down;
        const float *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

int ffn_load(struct model *m, struct ffn *ret, uint32_t layer, struct err *e);
/* out [n][n_embd]. @in: the normed residual. */
void ffn_forward(const struct ffn *f, struct model_work *w, struct work_input *in, float *out);
