/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The stack of layers that every architecture is made of: loaded and computed as the row of the
 * architecture says (arch.h).
 */
#include "model/block-attn.h"
#include "model/block-ffn.h"
#include "model/block-io.h"
#include "model/block-moe.h"
#include "model/block-norm.h"
#include "model/mixer.h"

struct layer {
        bool mixes, feeds; /* which branches it has */
        /* Before and after attention and feed-forward; n of 0: none. */
        struct norm pre_attn, post_attn, pre_ffn, post_ffn;
        const struct mixer *mixer; /* NULL: attn */
        void *own;                 /* of the mixer, owned */
        struct attn attn;
        bool parallel; /* feed-forward of what attention saw */
        bool experts;  /* moe, else ffn; an architecture's own code may use both */
        struct ffn ffn;
        struct moe moe;
        void *second; /* of arch.second, owned */
};

struct stack {
        struct embedding embedding;
        struct output output;
        uint32_t n_layer;
        struct layer layers[];
};

/* m->stack, m->ropes, and what arch_code.load() makes; half-built on failure. */
int stack_load(struct model *m, struct err *e);
struct stack *stack_free(struct stack *s);
/* From w's batch to w->logits. Not 0: what work_wait() returned. */
int stack_forward(const struct model *m, struct model_work *w);

/* Steps of a layer, for code of an architecture's own. */

/* x += scale of residual branches * branch, all rows. */
void stack_add(const struct model *m, struct model_work *w);
/* The first branch, attention or what the layer has in its place, of w->x to w->branch, with its
 * norms. Not 0: what work_wait() returned. */
int stack_attention(const struct model *m, struct model_work *w, uint32_t layer);
