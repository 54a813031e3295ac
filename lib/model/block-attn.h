/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Attention over sequence memory: query, key and value projections (separate or fused, with the biases
 * that the file has), norms of heads, rotary positions, grouped heads, windows, output projection.
 *
 * Per token and in this order: projections; norms of queries, keys and values (or, where the row says
 * so, norms of queries and keys after the positions); rotary positions; the factor that grows with the
 * position (queries); attention; sigmoid(gate) times it, if the row has gates; output projection.
 */
#include <stdbool.h>
#include <stdint.h>

#include "kern/kern.h"
#include "model/block-norm.h"
#include "seq/seq.h"

struct work_input;

struct attn {
        struct kern_mat q, k, v, out;
        const float *q_bias, *k_bias, *v_bias, *out_bias; /* NULL: none */
        struct norm q_norm, k_norm, v_norm;               /* n of 0: none */
        enum arch_qk_norm qk_norm;
        bool norm_after_rope;
        bool value_is_key;     /* no matrix for values: they are the keys before norm and rope */
        bool shares_kv;        /* no keys and values of its own: those of an earlier layer */
        bool has_gate;         /* the matrix of queries has gates as well */
        bool tempered;         /* queries take the factor of their position */
        int rope;              /* index into model.ropes, or -1: none */
        struct kern_attn kern; /* heads, scale, window, place in the blocks */
        enum seq_class memory; /* of its keys and values */
        uint32_t layer;
};

/* Tensors of @layer; books the layer's room in every sequence block. With @source the layer reads that
 * layer's keys and values and has none of its own. */
int attn_load(struct model *m, struct attn *ret, uint32_t layer, const struct attn *source,
        struct err *e);
/* Wait with work_wait() for the layer, then write keys and values of all rows of the batch into
 * their sequences. Returns the result of work_wait(). @in: the normed residual. */
int attn_store(const struct attn *a, struct model_work *w, struct work_input *in);
/* out [n][n_embd] from the rows of @in, which have been stored. */
void attn_attend(const struct attn *a, struct model_work *w, struct work_input *in, float *out);
