/* SPDX-License-Identifier: MIT */
#pragma once
/* Llama models with random weights, for tests and benchmarks. Needs lib/quant. */
#include <stdbool.h>
#include <stdint.h>

#include "util/gguf-build.h"

struct llama_spec {
        uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_vocab, context;
        uint32_t type;      /* enum quant_type of the matrices; norms and biases are F32 */
        uint32_t embd_type; /* of token_embd (and output) */
        uint32_t n_expert, n_expert_used; /* 0: dense */
        bool biases, rope_factors, tied;
        bool fused;               /* attn_qkv, ffn_gate_up_exps */
        const char *rope_scaling; /* NULL: key absent */
        float rope_factor;        /* 0: key absent */
        uint64_t seed;

        /* Damage, by name of a key or tensor (NULL: none). */
        const char *omit;    /* key or tensor left out */
        const char *reshape; /* tensor with one row less */
        const char *retype;  /* tensor said to be of an integer type */
        const char *poison;  /* F32 tensor whose first value is NaN */
};
/* Two layers, grouped heads, 96 tokens; fill in the rest. */
#define LLAMA_SPEC_SMALL                                                                           \
        ((struct llama_spec){.n_layer = 2,                                                         \
                .n_embd = 64,                                                                      \
                .n_head = 4,                                                                       \
                .n_kv_head = 2,                                                                    \
                .head_dim = 16,                                                                    \
                .n_ff = 96,                                                                        \
                .n_vocab = 96,                                                                     \
                .context = 256,                                                                    \
                .seed = 1})

/* To be freed with gguf_build_free(); more keys may be added before it is written. */
struct gguf_build *llama_build(const struct llama_spec *s);
/* The metadata of an SPM vocabulary of @n tokens: three special ones, bytes as far as they fit, then
 * words "▁wN". */
void llama_build_vocabulary(struct gguf_build *out, uint32_t n);
