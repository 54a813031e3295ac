/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Shared by the files of lib/model: the loaded model, and the activations of one forward call.
 *
 * A model is a stack of layers (stack.h) made of building blocks (block-*.h), as the architecture's row
 * (arch.h) and the keys (hparams.h) say. Loading a building block checks its tensors, reserves its part
 * of the blocks of sequence memory (memory.h) and widens model.dims, from which the
 * activations are allocated. So a new architecture needs no sizing code of its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"
#include "model/arch.h"
#include "model/hparams.h"
#include "model/memory.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/weights.h"
#include "quant/quant.h"

/* Part of the fingerprint; rises whenever the sequence of operations below the kernels changes. */
#define MODEL_ARITHMETIC_VERSION 1
/* Part of the fingerprint; rises whenever the layout of a sequence block changes. */
#define MODEL_BLOCK_LAYOUT_VERSION 1
/* Part of the fingerprint of models that have another class than SEQ_ALL; rises whenever these classes'
 * blocks change. */
#define MODEL_CLASS_LAYOUT_VERSION 1
#define MODEL_BLOCK_TOKENS 32

/* Greatest widths (in floats) that any layer needs; 0 where unused. */
struct work_dims {
        size_t n_embd, n_vocab;
        size_t n_q, n_k, n_v, n_attn; /* queries, keys, values, attention output per token */
        size_t n_ff;
        size_t n_own; /* floats per token of the architecture's own code */
        size_t n_mix; /* floats per token of one branch's own */
        size_t n_expert, n_expert_used;
        size_t act_n_in[KERN_N_ACT]; /* longest row multiplied by a matrix of this class */
        /* Most heads, and longest row of one, multiplied by kern_heads of this class at once. */
        size_t heads[KERN_N_ACT], heads_n_in[KERN_N_ACT];
        /* All that work_matmul() multiplies by; a matrix is a stack of one. */
        struct weights_stack *mats; /* owned */
        size_t n_mats;
        bool no_memory; /* for them: loading fails */
};

struct model {
        const struct arch *arch;
        char *name;
        struct hparams hparams;
        struct weights weights;
        struct work_dims dims;
        enum kern_kv_type kv_type;
        uint32_t context;
        struct memory_class memory[SEQ_N_CLASSES];
        struct seq_shape shape; /* of all that was booked */
        uint64_t n_params, weights_size;
        struct fingerprint fingerprint;
        struct rope ropes[2];  /* of global and of local layers; n_rot of 0: none */
        uint32_t variant;      /* what else distinguishes memory, besides the file (0: nothing) */
        struct stack *stack;   /* owned */
        void *own;             /* of arch_code */
        struct repack *repack; /* owned, or NULL */
};

/* Scratch of the experts block. n = max_tokens, k = experts used per token. */
struct work_moe {
        float *probs;     /* [n][n_expert] */
        uint32_t *expert; /* [n][k] chosen, best first */
        float *weight;    /* [n][k] */
        uint32_t *slot;   /* [n][k] row of that choice in `out` */
        uint32_t *choice; /* [n*k] which choice (token * k + rank) each slot is */
        uint32_t *start;  /* [n_expert + 1] slots of each expert */
        float *x;         /* [n][n_embd] gathered rows of one expert */
        float *out;       /* [n*k][n_embd] */
        float *factor;    /* [n] of the shared feed-forward */
};

/* cos and sin of a batch, [n][n_rot/2] of the rope. */
struct work_rope {
        float *cos, *sin;
};

struct model_work {
        const struct model *model;
        struct kern *kern;
        uint32_t max_tokens, max_outputs;
        void *memory; /* owned; everything below lies in it */

        const struct model_wait *wait; /* of this forward call, or NULL */

        /* The batch. Layers work on the first n rows; see work_keep_outputs(). */
        size_t n, n_out;
        int32_t *token;
        uint32_t *pos;
        struct kern_attn_row *rows[2]; /* SEQ_ALL, SEQ_WINDOW */
        /* The rows by sequence, with its state; valid as long as no row was dropped. */
        struct kern_run *runs;
        size_t n_runs;
        uint32_t *output; /* [n_out] rows that want logits, rising */

        float *x;      /* [n][n_embd] residual stream */
        float *norm;   /* [n][n_embd] */
        float *branch; /* [n][n_embd] */
        float *q, *k, *v, *attn;
        float *gate, *up;         /* [n][n_ff] */
        struct work_rope rope[2]; /* as model.ropes */
        float *temperature;       /* [n] factors of the queries, if the model has them */
        float *own;               /* [n][n_own] of arch_code, in any arrangement */
        float *mix;               /* [n][n_mix] of a branch, while it computes */
        float *logits;            /* [max_outputs][n_vocab] */
        void *act[2];             /* scratch of prepared activations */
        struct work_moe moe;
};

/* Note that work_matmul() will multiply by @mat, rows of it, or those of a stack (sizes the scratch). */
void work_dims_mat(struct work_dims *d, const struct kern_mat *mat);
void work_dims_stack(struct work_dims *d, const struct weights_stack *stack);
/* The same for @n heads of @heads at once. */
void work_dims_heads(struct work_dims *d, const struct kern_heads *heads, size_t n);

/* Rows to multiply by one or several matrices; prepared once per class of weights. */
struct work_input {
        const float *x; /* [n][n_in] */
        size_t n_in, n;
        void *scratch; /* of model_work.act */
        bool prepared;
        struct kern_act act;
};
static inline struct work_input work_input(const float *x, size_t n_in, size_t n, void *scratch) {
        return (struct work_input){.x = x, .n_in = n_in, .n = n, .scratch = scratch};
}
/* y[t][o] = mat * x (+ bias), rows of mat->n_out. */
void work_matmul(struct model_work *w, struct work_input *in, const struct kern_mat *mat,
        const float *bias, float *y);

/* Products of the same rows, at most KERN_PRODUCTS_MAX, for which threads meet once where they can. */
struct work_product {
        const struct kern_mat *mat;
        const float *bias;
        float *y;
};
void work_matmul_all(
        struct model_work *w, struct work_input *in, const struct work_product *p, size_t n);

/* The weights in another layout (repack.c). */
struct repack;
struct repack *repack_free(struct repack *r);
/* Bytes of the file that it stands for. */
uint64_t repack_source_size(const struct repack *r);
/* @m there, or as it is. */
struct kern_mat repack_find(const struct repack *r, const struct kern_mat *m);

/* Each layer calls this, in order, before it touches sequence memory. Nonzero: stop. */
static inline int work_wait(const struct model_work *w, uint32_t layer) {
        return w->wait ? w->wait->layer(w->wait->arg, layer) : 0;
}

/*
 * Behind the last layer's first branch, and with attention within it, only rows that want logits
 * matter: move these to the front of x, norm, branch, rows, rope and temperature, set n = n_out, and
 * n_runs = 0. (A row's bits depend on that row only, so this
 * saves time and changes nothing else.)
 */
void work_keep_outputs(struct model_work *w);
