/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Parameters of a model, read from the metadata with every range checked. What the metadata may say,
 * and what holds where it is silent, depends on the architecture's row (arch.h).
 *
 * Groups of keys are separate calls, in the order below. All of them return 0 or a negative error that
 * names the key; *h is then half-filled and to be thrown away. Pure functions over the file; any thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/arch.h"

struct err;
struct gguf;
struct gguf_array;
struct gguf_str;

/*
 * Upper bounds. They are far above every published model, and small enough that products of any
 * three of them stay inside 64 bits, so that sizes derived from them need no further checks.
 */
#define HPARAMS_MAX_LAYERS 512
#define HPARAMS_MAX_EMBD (1u << 18)
#define HPARAMS_MAX_HEADS (1u << 12)
#define HPARAMS_MAX_HEAD_DIM (1u << 12)
#define HPARAMS_MAX_FF (1u << 21)
#define HPARAMS_MAX_VOCAB (1u << 22)
#define HPARAMS_MAX_EXPERTS 1024u
#define HPARAMS_MAX_CONTEXT (1u << 28)

enum hparams_rope_scaling { HPARAMS_ROPE_NONE, HPARAMS_ROPE_LINEAR, HPARAMS_ROPE_YARN };

/* Rotary positions of the global layers, or of the local ones. */
struct hparams_rope {
        uint32_t n_rot; /* rotated elements per head */
        double base;
        enum hparams_rope_scaling scaling;
        double factor;      /* positions are divided by it */
        double attn_factor; /* multiplies cos and sin */
        uint32_t orig_context;
        double beta_fast, beta_slow, log_multiplier; /* YaRN */
        bool plain_magnitude; /* attn_factor alone multiplies cos and sin, whatever YaRN has */
};

/* Latent attention. A head's queries and keys are @nope channels without positions, then @rope. */
struct hparams_latent {
        uint32_t rank;   /* of the row that keys and values are made from */
        uint32_t q_rank; /* of queries; 0: they are made from the residual */
        uint32_t nope, rope;
        bool split; /* of the matrices that take rows down and up there is one per head */
};

struct hparams_experts {
        uint32_t n, n_used; /* 0: dense */
        uint32_t n_ff;      /* of one expert */
        uint32_t n_latent;  /* width that the experts work on; 0: the residual's */
        uint32_t n_leading_dense,
                step; /* layer i >= n_leading_dense has experts if (i + 1) % step == 0 */
        uint32_t n_group, n_group_used; /* 1, 1: no groups */
        enum arch_router router;        /* never ARCH_ROUTER_BY_KEY */
        bool renormalise, shared;
        float scale; /* 1: none */
};

struct hparams {
        const struct gguf *gguf; /* borrowed */
        const struct arch *arch; /* its name prefixes the keys */

        /* hparams_read_base(). n_block counts the draft layers behind the n_layer that run. */
        uint32_t n_layer, n_block, n_embd, n_vocab, context_train;
        float norm_eps;

        /* hparams_read_attention(); heads per layer; 0 in
         * recurrent layers only */
        uint32_t n_head[HPARAMS_MAX_LAYERS], n_kv_head[HPARAMS_MAX_LAYERS];
        uint32_t head_dim_k, head_dim_v;
        float attn_scale; /* attention.scale, or what the row says */
        float attn_softcap;
        float temperature_scale;     /* 0: none */
        uint32_t temperature_length; /* ARCH_TEMPERATURE_LENGTH */

        /* hparams_read_latent(), of arch.latent; head_dim_k and head_dim_v are then those of a head, not
         * of what memory holds. hparams_scale_latent() comes after the positions. */
        struct hparams_latent latent;

        /* hparams_read_recurrence(): layers of arch.recurrent; no others are local */
        bool recurrent[HPARAMS_MAX_LAYERS];

        /* hparams_read_windows() */
        bool local[HPARAMS_MAX_LAYERS];
        uint32_t window, chunk; /* of the local layers; one of them is 0 */
        uint32_t local_head_dim_k, local_head_dim_v;

        /* hparams_read_ffn() */
        uint32_t n_ff[HPARAMS_MAX_LAYERS]; /* 0: no dense feed-forward length given */
        bool sparse[HPARAMS_MAX_LAYERS];   /* has experts */
        struct hparams_experts experts;

        /* hparams_read_rope() */
        struct hparams_rope rope, local_rope;
        bool no_rope; /* rope.scaling.finetuned says so */

        /* hparams_read_ends() */
        float embedding_scale, residual_scale, logit_scale; /* 1: none */
        float final_softcap;                                /* 0: none */

        /* Layers from here on have no keys and values of their own (arch_code.settle); n_layer: none. */
        uint32_t first_shared_kv;
        uint32_t n_per_layer_input; /* width of the per-layer input; 0: none */
};

/* One number with its range; the key is "{arch}.@key". Missing: an error, or the fallback. */
int hparams_u32(const struct hparams *h, const char *key, uint32_t min, uint32_t max, uint32_t *ret,
        struct err *e);
int hparams_u32_or(const struct hparams *h, const char *key, uint32_t min, uint32_t max,
        uint32_t fallback, uint32_t *ret, struct err *e);
int hparams_f32(
        const struct hparams *h, const char *key, float min, float max, float *ret, struct err *e);
int hparams_f32_or(const struct hparams *h, const char *key, float min, float max, float fallback,
        float *ret, struct err *e);
/* Several numbers with fallbacks. */
struct hparams_number {
        const char *key;
        float min, max, fallback;
        float *ret;
};
int hparams_numbers(
        const struct hparams *h, const struct hparams_number *numbers, size_t n, struct err *e);
int hparams_bool_or(
        const struct hparams *h, const char *key, bool fallback, bool *ret, struct err *e);
/* Missing: 1. */
int hparams_array(const struct hparams *h, const char *key, struct gguf_array *ret, struct err *e);
int hparams_str(const struct hparams *h, const char *key, struct gguf_str *ret, struct err *e);
/* A number or an array of n_block numbers. Missing: 1. */
int hparams_u32_layers(const struct hparams *h, const char *key, uint32_t min, uint32_t max,
        uint32_t *ret, struct err *e);
/* The error of a missing key. */
int hparams_missing(const struct hparams *h, const char *key, struct err *e);

/* All groups, in order, and the code of the architecture (arch_code.settle). */
int hparams_read(struct hparams *h, struct err *e);

/* block_count, embedding_length, context_length, vocabulary size, the norm's epsilon. */
int hparams_read_base(struct hparams *h, struct err *e);
int hparams_read_attention(struct hparams *h, struct err *e);
int hparams_read_latent(struct hparams *h, struct err *e);
int hparams_read_recurrence(struct hparams *h, struct err *e);
int hparams_read_windows(struct hparams *h, struct err *e);
int hparams_read_ffn(struct hparams *h, struct err *e);
int hparams_read_rope(struct hparams *h, struct err *e);
int hparams_scale_latent(struct hparams *h, struct err *e);
int hparams_read_ends(struct hparams *h, struct err *e);

/* Of numbers per layer, the first that is not 0; 0: there is none. */
uint32_t hparams_heads(const uint32_t *per_layer, uint32_t n_layer);
static inline uint32_t hparams_head_dim_k(const struct hparams *h, uint32_t layer) {
        return h->local[layer] ? h->local_head_dim_k : h->head_dim_k;
}
static inline uint32_t hparams_head_dim_v(const struct hparams *h, uint32_t layer) {
        return h->local[layer] ? h->local_head_dim_v : h->head_dim_v;
}
/* Whether any layer's, or the layer's, queries and keys are rotated. */
bool hparams_has_positions(const struct hparams *h);
bool hparams_layer_has_rope(const struct hparams *h, uint32_t layer);
bool hparams_layer_has_experts(const struct hparams *h, uint32_t layer);
/* Whether the layer has a first branch (attention or recurrence), and whether it has a feed-forward. */
bool hparams_layer_mixes(const struct hparams *h, uint32_t layer);
bool hparams_layer_feeds(const struct hparams *h, uint32_t layer);
