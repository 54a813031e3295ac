/* SPDX-License-Identifier: MIT */
#pragma once
/* RMS norm or layer norm over rows, as the architecture has it. */
#include <stddef.h>

#include "model/arch.h"

struct norm {
        const float *weight, *bias; /* [n]; NULL: none */
        size_t n;
        float eps;
        enum arch_norm kind;
};

/* The architecture's norm with the weights "@name.weight" (and ".bias") of @layer, -1: of the model. */
int norm_load(
        struct model *m, struct norm *ret, int layer, const char *name, size_t n, struct err *e);
/* 1: there is no such weight. */
int norm_load_opt(
        struct model *m, struct norm *ret, int layer, const char *name, size_t n, struct err *e);
/* RMS norm whose tensor's name is @name and nothing more. */
int norm_load_bare(
        struct model *m, struct norm *ret, int layer, const char *name, size_t n, struct err *e);
/* RMS norm without a weight. */
struct norm norm_plain(const struct model *m, size_t n);
/* Rows of x at a distance of @stride, to rows of y at the same distance; y may be x. */
void norm_forward(const struct norm *norm, const struct model_work *w, const float *x, float *y,
        size_t stride, size_t n_rows);
