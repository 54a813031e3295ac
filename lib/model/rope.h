/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Rotary position tables.
 *
 * The frequency of every pair is computed once at load in double (base/dmath.h); at run time
 * angle = pos * freq in double, and cos and sin, times the magnitude, are each rounded to float
 * once. No libm, so the table has the same bits everywhere (I2).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct hparams_rope;

struct rope {
        uint32_t n_rot;   /* rotated elements per head, even */
        bool neox;        /* pairs (i, i + n_rot/2), else (2i, 2i+1) */
        double magnitude; /* multiplies cos and sin */
        double *freq;     /* [n_rot/2], owned; radians per position */
};
#define ROPE_NULL ((struct rope){0})

/* @p: checked by hparams.c. @factors [n_rot/2] divide the frequencies, or NULL. All positions below @context must give
 * angles that base/dmath.h accepts. Any thread. */
int rope_init(struct rope *ret, const struct hparams_rope *p, bool neox, const float *factors,
        uint32_t context, struct err *e);
void rope_deinit(struct rope *r);
/* cos, sin [n][n_rot/2] for the given positions. */
void rope_table(const struct rope *r, const uint32_t *pos, size_t n, float *cos, float *sin);
