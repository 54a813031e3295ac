/* SPDX-License-Identifier: MIT */
/*
 * Rows in the shape of published models: the figures of their config.json, with the SPM vocabulary of
 * llama-build in their size. Weights are random, so nothing is said here about what they would write.
 */
#include "base/util.h"
#include "util/arch-row.h"

/* Every tenth layer, from the sixth on, attends. */
#define TEN_LAYERS "0,0,0,0,0,4,0,0,0,0"

const struct arch_row arch_shapes[] = {
        /* Granite 4.0 H 1B: 36 layers of mamba 2 (48 heads of 64, states of 128) and 4 of attention
         * without positions; 1.46 billion parameters. A state has 58 MB, a token 8 kB (f16). */
        {.name = "granite-4.0-h-1b",
                .arch = "granitehybrid",
                .n_layer = 40,
                .n_embd = 1536,
                .n_head = 12,
                .n_kv_head = 4,
                .head_dim = 128,
                .n_ff = 4096,
                .n_vocab = 100352,
                .context = 131072,
                .n_inner = 3072,
                .n_state = 128,
                .rank = 48,
                .n_group = 1,
                .branches = "rrrrrarrrr",
                .keys = "embedding_scale=12.0 residual_scale=0.22 attention.scale=0.0078125 "
                        "logit_scale=6.0 rope.scaling.finetuned=false "
                        "attention.head_count_kv=[" TEN_LAYERS "," TEN_LAYERS "," TEN_LAYERS
                        "," TEN_LAYERS "]",
                .model = "@tied",
                .layer = "@norm; recurrent:@mamba2; recurrent:@mamba2-norm; attending:@qkv; "
                         "@ffn-norm; @gated"},
        /* LFM2 1.2B: 10 layers of short convolutions and 6 of attention; 1.17 billion parameters.
         * A state has 164 kB, a token 12 kB. */
        {.name = "lfm2-1.2b",
                .arch = "lfm2",
                .n_layer = 16,
                .n_embd = 2048,
                .n_head = 32,
                .n_kv_head = 8,
                .head_dim = 64,
                .n_ff = 8192,
                .n_vocab = 65536,
                .context = 128000,
                .branches = "rrarrarrararararr",
                .keys = "shortconv.l_cache=3 rope.freq_base=1000000.0 "
                        "attention.head_count_kv=[0,0,8,0,0,8,0,0,8,0,8,0,8,0,8,0]",
                .model = "token_embd.weight d V =0~0.25; token_embd_norm.weight d",
                .layer = "@norm; recurrent:@short-conv; attending:@qkv; attending:@head-norms; "
                         "@ffn-norm; @gated"},
        /* Gemma 3 1B: 22 layers with a window of 512 tokens, every sixth without one; 1.0 billion
         * parameters. A token has 4 kB in the layers without, 22.5 kB in those with a window. */
        {.name = "gemma-3-1b",
                .arch = "gemma3",
                .n_layer = 26,
                .n_embd = 1152,
                .n_head = 4,
                .n_kv_head = 1,
                .head_dim = 256,
                .n_ff = 6912,
                .n_vocab = 262144,
                .context = 32768,
                .gelu = true,
                .keys = "attention.sliding_window=512 rope.freq_base=1000000.0 "
                        "attention.layer_norm_rms_epsilon=0.000001",
                .model = "@gemma",
                .layer = "@norm; @qkv; @head-norms; @ffn-norm; @gated; @post-norms"},
};
const unsigned arch_n_shapes = ARRAY_SIZE(arch_shapes);
