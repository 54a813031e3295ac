/* SPDX-License-Identifier: MIT */
#pragma once
/* Two matrices one after the other, with a narrow middle: b f(a x) + bias. */
#include <stddef.h>

#include "kern/kern.h"

struct err;
struct model;
struct model_work;
struct work_input;

enum pair_middle { PAIR_PLAIN, PAIR_TANH, PAIR_SIGMOID };

struct pair {
        struct kern_mat a, b;
        enum pair_middle middle;
};

/* Tensors @a {n_in, rank} and @b {rank, n_out} of @layer; a rank of 0 is what the file has. Widens
 * model.dims by the matrices. */
int pair_load(struct model *m, struct pair *ret, int layer, const char *a, const char *b,
        size_t n_in, size_t rank, size_t n_out, struct err *e);
/* out [n][n_out]; low [n][rank] is scratch; bias [n_out] or NULL. Uses w->act[1], so the scratch of @in is
 * another. */
void pair_forward(const struct pair *p, struct model_work *w, struct work_input *in,
        const float *bias, float *low, float *out);
