/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Finding tensors and checking them: present, of the expected shape, of a type that this build
 * computes with. Every error names the tensor.
 *
 * Matrices stay in the file's map. Vectors (norms, biases, factors) are copied to float arrays:
 * they are small, need alignment, and may be stored in any supported type; values that are not
 * finite are refused.
 */
#include <stdbool.h>
#include <stddef.h>

#include "kern/kern.h"

struct err;
struct gguf;
struct weights_vector;

struct weights {
        const struct gguf *gguf;        /* borrowed */
        struct weights_vector *vectors; /* owned, singly linked */
};
#define WEIGHTS_NULL ((struct weights){0})
void weights_deinit(struct weights *w);

/* A stack of @n matrices of one shape (experts): matrix i starts i * stride bytes further on. */
struct weights_stack {
        struct kern_mat first;
        size_t n, stride;
};
struct kern_mat weights_stack_at(const struct weights_stack *s, size_t i);
/* Rows [from, from + n_out) of @m (fused matrices). */
struct kern_mat weights_rows(const struct kern_mat *m, size_t from, size_t n_out);

/*
 * @name is a tensor name; with @layer >= 0 it is prefixed by "blk.@layer.". All return 0, a
 * negative error, or, from the _opt ones, 1 when the tensor is absent (*ret untouched).
 */
int weights_mat(struct weights *w, struct kern_mat *ret, int layer, const char *name, size_t n_in,
        size_t n_out, struct err *e);
int weights_mat_opt(struct weights *w, struct kern_mat *ret, int layer, const char *name,
        size_t n_in, size_t n_out, struct err *e);
int weights_stack(struct weights *w, struct weights_stack *ret, int layer, const char *name,
        size_t n_in, size_t n_out, size_t n, struct err *e);
int weights_stack_opt(struct weights *w, struct weights_stack *ret, int layer, const char *name,
        size_t n_in, size_t n_out, size_t n, struct err *e);
/* *ret stays owned by @w. */
int weights_vec(
        struct weights *w, const float **ret, int layer, const char *name, size_t n, struct err *e);
int weights_vec_opt(
        struct weights *w, const float **ret, int layer, const char *name, size_t n, struct err *e);
/* @n_rows rows of @n. */
int weights_rows_vec_opt(struct weights *w, const float **ret, int layer, const char *name,
        size_t n, size_t n_rows, struct err *e);
/* @n_rows rows of @n, {n, n_rows} or {n, 1, n_rows}, that must be there, turned: element i of row r is at
 * [r / lanes][i][r % lanes]. Lanes behind the last row are 0. */
int weights_tiles(struct weights *w, const float **ret, int layer, const char *name, size_t n,
        size_t n_rows, size_t lanes, struct err *e);
/* Of four dimensions. */
int weights_vec_shaped_opt(struct weights *w, const float **ret, int layer, const char *name,
        const size_t ne[4], struct err *e);
/* A bias: absent is fine unless @required; then *ret is untouched. */
int weights_bias(struct weights *w, const float **ret, int layer, const char *name, size_t n,
        bool required, struct err *e);
/* The row length of a matrix that must be there, 1 to @max. */
int weights_n_in(
        struct weights *w, size_t *ret, int layer, const char *name, size_t max, struct err *e);
bool weights_has(const struct weights *w, int layer, const char *name);
/* The error of a tensor that is not there. */
int weights_missing(int layer, const char *name, struct err *e);
/* The embedding: rows are read with quant_dequantize(), no kernel is needed for the type. */
int weights_table(struct weights *w, struct kern_mat *ret, const char *name, size_t n_in,
        size_t n_out, struct err *e);
