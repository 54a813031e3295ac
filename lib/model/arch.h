/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What sets one transformer apart from another, as data.
 *
 * A row (archs.c) says what a file of this architecture does not say itself. The zero of every field
 * is llama, so that a row names only what differs from it:
 *
 *   x += attention(rmsnorm(x));  x += ffn(rmsnorm(x));  logits = output * rmsnorm(x)
 *
 * with rotary positions over pairs of neighbours, full causal attention scaled by 1/sqrt(head size), a
 * gated SiLU feed-forward, experts if the file counts some, and biases wherever the file has them.
 *
 * What no other architecture computes is code of its own (struct arch_code), in a file of its own.
 */
#include <stdbool.h>
#include <stdint.h>

#include "kern/kern.h"

struct attn;
struct err;
struct hparams;
struct model;
struct model_work;
struct mixer;

enum arch_norm {
        ARCH_RMS,
        ARCH_LAYER_NORM, /* with bias */
        ARCH_LAYER_NORM_NO_BIAS,
};

/* Where the norms of a layer stand, A attention, F feed-forward, and what their tensors are called. */
enum arch_order {
        ARCH_PRE,             /* x += A(attn_norm x), x += F(ffn_norm x) */
        ARCH_PRE_RENAMED,     /* the same; the second norm is called post_attention_norm */
        ARCH_PRE_BARE,        /* the same; the second norm is "ffn_norm" without ".weight" */
        ARCH_PRE_NUMBERED,    /* the same; the second norm is called attn_norm_2 */
        ARCH_POST,            /* x += post_attention_norm A(x), x += post_ffw_norm F(x) */
        ARCH_PRE_AND_POST,    /* x += post_attention_norm A(attn_norm x),
                               * x += post_ffw_norm F(ffn_norm x) */
        ARCH_PARALLEL,        /* h = attn_norm x, x += A(h) + F(h) */
        ARCH_PARALLEL_OR_PRE, /* parallel in models without ffn_norm */
        ARCH_FIRST_ALONE,     /* x += A(attn_norm x), no F */
        ARCH_EITHER,          /* x += F(attn_norm x) in layers whose feed_forward_length is not 0,
                               * x += A(attn_norm x) in others */
};

/* Which biases a file must have. Others are used where they are. */
enum arch_biases { ARCH_BIASES_FREE, ARCH_BIASES_QKV, ARCH_BIASES_ALL };

enum arch_rope {
        ARCH_ROPE_NORM,  /* pairs (2i, 2i+1) */
        ARCH_ROPE_NEOX,  /* pairs (i, i + n_rot/2) */
        ARCH_ROPE_TABLE, /* position_embd.weight is added to the embedding */
        ARCH_ROPE_NONE,  /* layers know no positions */
};

/* Which layers are recurrent (arch.recurrent); the others attend. */
enum arch_recurrent {
        ARCH_RECURRENT_NONE,
        ARCH_RECURRENT_ALL,   /* there are no heads */
        ARCH_RECURRENT_NO_KV, /* those whose attention.head_count_kv is 0 */
        /* Those that attention.recurrent_layers marks; where it is absent, all but every n-th, n being
         * full_attention_interval (4 where absent). */
        ARCH_RECURRENT_INTERVAL,
};

/* RMS or layer norm of queries and keys. */
enum arch_qk_norm {
        ARCH_QK_FREE,       /* none */
        ARCH_QK_HEAD,       /* each head, one weight [head_dim] for all */
        ARCH_QK_ALL,        /* all heads of a token together, weight [n_head * head_dim] */
        ARCH_QK_EACH_LAYER, /* layer norm of each head without bias, weight [n_head][head_dim] */
        ARCH_QK_UNWEIGHTED, /* each head, no weight; only where there are rotary positions */
};

/* Multi-head latent attention (block-mla.h): how YaRN by a factor f multiplies cos and sin, and scores.
 * m is ten times yarn_log_multiplier, g(m) = 1 + 0.1 m ln f. */
enum arch_latent {
        ARCH_LATENT_NONE,    /* no latent attention */
        ARCH_LATENT,         /* with the key 1 and g(m)^2, without it g(1) and g(1)^2 */
        ARCH_LATENT_TEMPERED /* g(1) / g(m) and g(1)^2 */
};

/* A factor of the queries that grows with the position p. */
enum arch_temperature {
        ARCH_TEMPERATURE_NONE,
        ARCH_TEMPERATURE_KEY,    /* 1 + b ln(1 + floor(p/c)): temperature_scale, original context */
        ARCH_TEMPERATURE_LENGTH, /* the same with c = temperature_length */
        ARCH_TEMPERATURE_GLOBAL, /* 1 + 0.1 ln(1 + floor((p+1)/chunk)), layers without rope */
};

enum arch_ffn {
        ARCH_FFN_GATED, /* down(act(gate x) * up x) */
        ARCH_FFN_PLAIN, /* down(act(up x)) */
        ARCH_FFN_FUSED, /* gated; ffn_up holds the rows of gate, then those of up */
};

enum arch_router {
        ARCH_ROUTER_SOFTMAX,
        ARCH_ROUTER_SIGMOID,
        ARCH_ROUTER_SOFTMAX_CHOSEN, /* softmax over the logits of the chosen */
        ARCH_ROUTER_SIGMOID_INPUT, /* the sigmoid of a chosen logit multiplies the expert's input */
        ARCH_ROUTER_BY_KEY,        /* expert_gating_func, which must be there */
};

enum arch_renormalise { ARCH_RENORMALISE, ARCH_RENORMALISE_NOT, ARCH_RENORMALISE_BY_KEY };

/* A feed-forward that sees every token, beside the experts. */
enum arch_shared {
        ARCH_SHARED_NONE,
        ARCH_SHARED_IF_COUNTED, /* where expert_shared_count or its length is above 0 */
        ARCH_SHARED,
        ARCH_SHARED_GATED, /* times sigmoid(ffn_gate_inp_shexp . x) */
};

enum arch_scale { ARCH_SCALE_NONE, ARCH_SCALE_SQRT_WIDTH, ARCH_SCALE_BY_KEY };
enum arch_logit_scale { ARCH_LOGITS_PLAIN, ARCH_LOGITS_DIVIDED, ARCH_LOGITS_MULTIPLIED };

struct arch {
        const char *name;             /* general.architecture */
        const struct arch_code *code; /* NULL: the row says all */

        enum arch_norm norm;
        enum arch_order order;
        enum arch_biases biases;
        bool eps_of_either; /* of RMS: where its key is absent, that of the layer norm */

        /* What layers do with the tokens before. */
        const struct mixer *attention; /* NULL: the common attention (block-attn.h) */
        const struct mixer *recurrent;
        enum arch_recurrent recurrent_layers;
        enum arch_latent latent; /* of mixer_mla */
        bool ssm_norms;          /* of mamba: ssm_{dt,b,c}_norm are there */
        bool ssm_bias_optional;  /* of mamba 2: ssm_conv1d.bias need not be there */
        bool ssm_norm_optional;  /* of mamba 2: ssm_norm need not be there */
        bool interleaved_heads;  /* of mixer_delta: head h takes key head h modulo their number */
        const struct mixer *second; /* second branch; NULL: feed-forward or experts */

        /* Positions. */
        enum arch_rope rope;
        bool rope_whole_heads; /* rope.dimension_count must be the head size */
        bool rope_sections; /* rope.dimension_sections must be there; text has one position in all */
        bool rope_longrope;          /* rope_factors_{long,short} by the configured context */
        bool rope_unless_unfinished; /* no rope where rope.scaling.finetuned is false */
        uint32_t no_rope_period;     /* every n-th layer has none; 0: all have */

        /* Attention. */
        enum arch_qk_norm qk_norm;
        bool qk_norm_after_rope, qk_norm_optional;
        uint32_t qk_norm_unless_experts; /* none in models of so many experts */
        uint32_t qk_layer_norm_from;     /* ARCH_QK_EACH_LAYER from so many layers on */
        bool output_gate; /* attn_q has a query and a gate for each head; out *= sigmoid(gate) */
        bool v_norm;      /* RMS of each head's values, no weight */
        bool value_may_be_key; /* values are the bare keys in layers of a kind without attn_v */
        bool sinks;
        bool unscaled;              /* scale 1 */
        uint32_t wide_query_layers; /* with so many layers 1/sqrt(width / heads) */
        float attn_softcap;         /* where attn_logit_softcapping is absent */
        enum arch_temperature temperature;

        /* Layers that see a window, or a chunk, of the past only. All others are global. */
#define ARCH_ALL_LOCAL UINT32_MAX /* a period that no model has the layers for */
        struct {
                uint32_t period; /* layers i % period < period - 1; 0: none, whatever the file */
                bool pattern_required; /* the file must say which */
                bool required;         /* the file must have sliding_window */
                uint32_t window;       /* where the key is absent; 0: no local layers then */
                uint32_t n_layer;      /* only in models of so many layers; 0: in all */
                uint32_t chunk;        /* chunks of so many positions instead of windows */
                bool only_rope;     /* global layers have no rotary positions, if any are local */
                float rope_base;    /* where rope.freq_base_swa is absent; 0: as global */
                bool rope_unscaled; /* no position scaling in local layers */
        } local;

        /* Feed-forward. */
        enum arch_ffn ffn;
        enum kern_activation activation;

        /* Experts, if expert_count is above 0. */
        struct {
                enum arch_router router;
                enum arch_renormalise renormalise;
                enum arch_shared shared;
                bool biased;        /* router and experts have biases */
                bool choice_bias;   /* exp_probs_b.bias is required, not just used if there */
                bool size_is_ff;    /* of an expert: feed_forward_length */
                bool where_tensors; /* in layers that have their tensors, whatever the keys say */
        } experts;

        /* The ends. */
        const char *output_norm; /* NULL: output_norm */
        enum arch_scale embedding_scale;
        enum arch_logit_scale logit_scale;
        float final_softcap; /* where final_logit_softcapping is absent */
        bool output_bias;    /* required */
};

/* Code of an architecture's own. Every function may be NULL. */
struct arch_code {
        /* After the keys were read: what they do not say. */
        int (*settle)(struct hparams *h, struct err *e);
        /* After the common tensors were loaded: the others, into m->own. */
        int (*load)(struct model *m, struct err *e);
        void (*free)(void *own); /* takes NULL and half-built objects */
        /* After the embedding of the batch. */
        void (*begin)(const struct model *m, struct model_work *w);
        /* Instead of the common layer. Not 0: what work_wait() returned. */
        int (*layer)(const struct model *m, struct model_work *w, uint32_t layer);
        /* Instead of the common feed-forward: w->branch from w->x. */
        void (*ffn)(const struct model *m, struct model_work *w, uint32_t layer);
        /* After a layer. */
        void (*after)(const struct model *m, struct model_work *w, uint32_t layer);
        /* Before the output's norm. */
        void (*end)(const struct model *m, struct model_work *w);
};

extern const struct arch_code arch_apertus, arch_deepseek2, arch_gemma3n, arch_gemma4, arch_rwkv;

/* The row of that name, or NULL. */
const struct arch *arch_find(const char *name, size_t size);
/* The i-th row, or NULL at the end. */
const struct arch *arch_at(size_t i);
