/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the layers of RWKV have in common. Both branches mix a row x with the row before it (token
 * shift): x + (before - x) * mu, with another mu for each of their uses. So both keep one row in the
 * state, and the first one, the time mix, a matrix for each head as well (kern_wkv6(), kern_wkv7()).
 */
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"
#include "model/block-norm.h"

struct err;
struct model;
struct model_work;

/* eps of the norm of each head behind the recurrence */
#define RWKV_HEAD_EPS 64e-5f

/* The time mix, as far as versions agree. */
struct rwkv_time {
        uint32_t layer;
        struct kern_wkv wkv;
        size_t shift_offset;
        struct kern_mat r, k, v, out;
        const float *norm_weight, *norm_bias; /* [n_embd], of the heads */
};
/* Sizes, tensors and room in the state. */
int rwkv_time_load(struct model *m, struct rwkv_time *ret, uint32_t layer, struct err *e);
/* The @n rows of time_mix_lerp_fused. */
int rwkv_lerps(struct model *m, const float **ret, uint32_t layer, size_t n, struct err *e);
/* A vector of the layer that stands as {n_embd} or as {head size, heads}. */
int rwkv_vector(struct model *m, const struct rwkv_time *y, const float **ret, const char *name,
        struct err *e);
