/* SPDX-License-Identifier: MIT */
#pragma once
/* What the mixers with selective scans (mamba) and short convolutions load alike. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"

struct err;
struct hparams;
struct model;

/* The keys ssm.*. */
struct ssm {
        uint32_t n_taps;  /* of the convolution */
        uint32_t n_inner; /* channels */
        uint32_t n_state; /* entries of each */
        uint32_t rank;    /* of the steps (mamba), or heads (mamba 2) */
        uint32_t n_group; /* of heads; 1 with mamba */
};
/* All in range, and, with @heads, n_inner a multiple of rank and rank one of n_group. */
int ssm_read(const struct hparams *h, struct ssm *ret, bool heads, struct err *e);

/* A causal convolution: the weights @name of the layer {n_taps, n_channels}, the bias @bias (NULL: none;
 * absent is fine unless @required), and room for its last inputs. */
int conv_load(struct model *m, struct kern_conv *ret, uint32_t layer, const char *name,
        const char *bias, bool required, uint32_t n_channels, uint32_t n_taps, struct err *e);
