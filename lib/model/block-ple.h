/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Per-layer inputs (gemma3n, gemma4): every token brings each layer a small vector of its own.
 *
 *   e = (table[token] * sqrt(P) + rmsnorm(project(x0) / sqrt(d)) * norm) / sqrt(2)   [n_layer][P]
 *   f(layer, x) = rmsnorm(proj(gelu(gate x) * e[layer])) * post_norm
 *
 * with x0 the scaled embedding, d its width and P hparams.n_per_layer_input.
 */
#include "model/block-norm.h"

struct ple_layer {
        struct kern_mat gate, proj;
        struct norm post;
};

struct ple {
        struct kern_mat table, project;
        struct norm norm;
        uint32_t n_layer, width;
        struct ple_layer layers[];
};

/* *ret is to be freed. Books n_layer * P floats per token at the start of model_work.own. */
int ple_load(struct model *m, struct ple **ret, struct err *e);
/* w->own [n][n_layer][P] from w->token and w->x. */
void ple_begin(const struct ple *p, struct model_work *w);
/* w->branch = f(layer, x) of x [n][n_embd]. */
void ple_forward(const struct ple *p, struct model_work *w, uint32_t layer, const float *x);
