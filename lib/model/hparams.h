/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Parameters of a model, read from the metadata with every range checked.
 *
 * Groups of keys are separate calls, so that an architecture asks for what it has. All of them
 * return 0 or a negative error that names the key; *h is then half-filled and to be thrown away.
 * Pure functions over the file; any thread.
 */
#include <stdbool.h>
#include <stdint.h>

struct err;
struct gguf;

#define HPARAMS_MAX_LAYERS 512

enum hparams_rope_scaling { HPARAMS_ROPE_NONE, HPARAMS_ROPE_LINEAR, HPARAMS_ROPE_YARN };

struct hparams {
        const struct gguf *gguf; /* borrowed */
        const char *arch;        /* key prefix, borrowed */

        /* hparams_read_base() */
        uint32_t n_layer, n_embd, n_vocab, context_train;
        float norm_eps;

        /* hparams_read_attention(); per layer, never 0 there */
        uint32_t n_head[HPARAMS_MAX_LAYERS], n_kv_head[HPARAMS_MAX_LAYERS];
        uint32_t head_dim_k, head_dim_v;
        float attn_scale; /* attention.scale, or 1/sqrt(head_dim_k) */

        /* hparams_read_ffn() */
        uint32_t n_ff[HPARAMS_MAX_LAYERS]; /* 0: no dense feed-forward length given */
        uint32_t n_expert, n_expert_used;  /* 0: dense */
        uint32_t n_ff_expert;
        float expert_scale; /* 1: none */

        /* hparams_read_rope() */
        uint32_t n_rot;
        double rope_base;
        enum hparams_rope_scaling rope_scaling;
        double rope_factor;      /* positions are divided by it */
        double rope_attn_factor; /* multiplies cos and sin */
        uint32_t rope_orig_context;
        double yarn_beta_fast, yarn_beta_slow, yarn_log_multiplier;
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
/* A number or an array of n_layer numbers. Missing: 1. */
int hparams_u32_layers(const struct hparams *h, const char *key, uint32_t min, uint32_t max,
        uint32_t *ret, struct err *e);

/* block_count, embedding_length, context_length, vocabulary size, the RMS norm's epsilon. */
int hparams_read_base(struct hparams *h, struct err *e);
int hparams_read_attention(struct hparams *h, struct err *e);
int hparams_read_ffn(struct hparams *h, struct err *e);
/* @n_rot_default: used when rope.dimension_count is absent. */
int hparams_read_rope(struct hparams *h, uint32_t n_rot_default, struct err *e);
