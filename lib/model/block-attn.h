/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Attention over sequence memory: query, key and value projections (separate or fused, with the
 * biases that the file has), rotary positions, grouped heads, output projection.
 */
#include <stdbool.h>
#include <stdint.h>

#include "kern/kern.h"

struct err;
struct model;
struct model_work;
struct rope;
struct work_input;

struct attn {
        struct kern_mat q, k, v, out;
        const float *q_bias, *k_bias, *v_bias, *out_bias; /* NULL: none */
        const struct rope *rope;                          /* NULL: none */
        struct kern_attn kern;                            /* heads, scale, place in the blocks */
        uint32_t layer;
};

/* Tensors of @layer; books the layer's room in every sequence block. @rope is borrowed. */
int attn_load(
        struct model *m, struct attn *ret, uint32_t layer, const struct rope *rope, struct err *e);
/* Wait with work_wait() for the layer, then write keys and values of all rows of the batch into
 * their sequences. Returns the result of work_wait(). @in: the normed residual. */
int attn_store(const struct attn *a, struct model_work *w, struct work_input *in);
/* out [n][n_embd] from the rows of @in, which have been stored. */
void attn_attend(const struct attn *a, struct model_work *w, struct work_input *in, float *out);
