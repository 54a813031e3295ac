/* SPDX-License-Identifier: MIT */
#pragma once
/* Feed-forward: down(act(gate x) * up x) or down(act(up x)), as the architecture has it, with biases
 * where the file has them. */
#include <stdint.h>

#include "model/arch.h"

struct work_input;

struct ffn {
        enum arch_ffn kind;
        enum kern_activation activation;
        struct kern_mat gate, up, down;               /* gate: not of plain ones */
        const float *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

int ffn_load(struct model *m, struct ffn *ret, uint32_t layer, struct err *e);
/* The feed-forward beside experts: ffn_*_shexp, of the size that ffn_down_shexp takes. */
int ffn_load_shared(struct model *m, struct ffn *ret, uint32_t layer, struct err *e);
/* out [n][n_embd]. @in: the normed residual. */
void ffn_forward(const struct ffn *f, struct model_work *w, struct work_input *in, float *out);
/* The same from w->gate [in->n][n_ff], the activated values. */
void ffn_down(const struct ffn *f, struct model_work *w, const struct work_input *in, float *out);
