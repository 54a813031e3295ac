/* SPDX-License-Identifier: MIT */
#pragma once
/* The two ends of a model: tokens to the residual stream, residual stream to logits. */
#include "kern/kern.h"
#include "model/block-norm.h"

struct embedding {
        struct kern_mat table;     /* one row per token; any supported type */
        struct kern_mat positions; /* one row per position, added; n_in of 0: none */
        float scale;               /* of the table's rows */
};
struct output {
        struct norm norm;
        struct kern_mat table; /* output.weight, or the embedding (tied) */
        const float *bias;     /* NULL: none */
        float scale, softcap;  /* of the logits, in this order; 1 and 0: none */
};

int embedding_load(struct model *m, struct embedding *ret, struct err *e);
/* w->x from w->token and w->pos. */
void embedding_forward(const struct embedding *em, struct model_work *w);
/* y [n_in] = row @i of a table. */
void embedding_row(const struct kern_mat *table, size_t i, float *y);
int output_load(struct model *m, struct output *ret, const struct embedding *tied, struct err *e);
/* w->logits of all rows (after work_keep_outputs()). */
void output_forward(const struct output *o, struct model_work *w);
