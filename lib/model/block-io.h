/* SPDX-License-Identifier: MIT */
#pragma once
/* The two ends of a model: tokens to the residual stream, residual stream to logits. */
#include "kern/kern.h"

struct err;
struct model;
struct model_work;

struct embedding {
        struct kern_mat table; /* one row per token; any supported type */
};
struct output {
        const float *norm;     /* RMS */
        struct kern_mat table; /* output.weight, or the embedding (tied) */
        const float *bias;     /* NULL: none */
        float eps;
};

int embedding_load(struct model *m, struct embedding *ret, struct err *e);
/* w->x from w->token. */
void embedding_forward(const struct embedding *em, struct model_work *w);
int output_load(struct model *m, struct output *ret, const struct embedding *tied, struct err *e);
/* w->logits of all rows (after work_keep_outputs()). */
void output_forward(const struct output *o, struct model_work *w);
