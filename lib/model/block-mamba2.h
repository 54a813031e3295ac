/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Mamba 2: a recurrence over heads, each with one decay; groups of heads share b and c.
 *
 * Per token: z, x with b and c, and steps of the heads from ssm_in; a convolution of x, b and c with
 * SILU; softplus of the steps; the scan; times SILU of z; RMS norm of each group (ssm_norm; optional where
 * the architecture says so); ssm_out.
 */
#include <stdint.h>

#include "kern/kern.h"
#include "model/ssm.h"

struct model_work;
struct work_input;

struct mamba2 {
        uint32_t layer;
        struct ssm s;
        struct kern_mat in_z, in_x, in_dt, out; /* in_x: with b and c */
        const float *dt_bias;
        const float *norm; /* [n_inner] or NULL: none */
        float eps;
        struct kern_conv conv;
        struct kern_scan scan;
};

int mamba2_load(struct model *m, struct mamba2 *ret, uint32_t layer, struct err *e);
/* Floats of model_work.mix that mamba2_forward() needs per token. */
size_t mamba2_n_mix(const struct mamba2 *y);
/* out [n][n_embd], with @mix for scratch. The caller has waited for the layer. */
void mamba2_forward(const struct mamba2 *y, struct model_work *w, struct work_input *in, float *mix,
        float *out);
