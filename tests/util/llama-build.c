/* SPDX-License-Identifier: MIT */
#include "util/llama-build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"
#include "util/noise.h"
#include "util/quantize.h"

#define TYPE_I32 26

struct maker {
        const struct llama_spec *spec;
        struct gguf_build *out;
        uint64_t state;
};

static void *need(void *p) {
        if (!p) {
                fputs("llama-build: out of memory\n", stderr);
                exit(1);
        }
        return p;
}

static bool same(const char *a, const char *b) {
        return a && !strcmp(a, b);
}

static void tensor(struct maker *m, const char *name, uint32_t type, uint64_t n_in, uint64_t n_out,
        uint64_t n_mats, float mean, float deviation) {
        uint64_t ne[3] = {n_in, n_out, n_mats};
        uint32_t n_dims = n_mats > 1 ? 3 : n_out > 1 ? 2 : 1;
        size_t row = quant_row_size(type, n_in), n_rows = n_out * n_mats;
        uint8_t *data = need(malloc(row * n_rows));
        float *x = need(malloc(n_in * sizeof(float)));

        for (size_t r = 0; r < n_rows; r++) {
                for (size_t i = 0; i < n_in; i++)
                        x[i] = mean + deviation * noise(&m->state);
                test_quantize(type, x, data + r * row, n_in);
        }
        if (same(m->spec->poison, name)) {
                x[0] = NAN;
                memcpy(data, x, sizeof(float));
        }
        free(x);
        if (same(m->spec->reshape, name)) {
                ne[n_dims - 1]--;
                n_rows = n_dims == 1 ? 1 : ne[1] * ne[2];
                row = quant_row_size(type, ne[0]);
        }
        if (same(m->spec->retype, name)) {
                type = TYPE_I32;
                free(data);
                row = 4 * ne[0];
                data = need(calloc(n_rows, row));
        }
        if (same(m->spec->omit, name))
                free(data);
        else
                gguf_build_tensor(m->out, name, type, n_dims, ne, data, row * n_rows);
}

static void layer_matrix(struct maker *m, uint32_t layer, const char *name, uint64_t n_in,
        uint64_t n_out, uint64_t n_mats, bool bias) {
        char full[64];

        snprintf(full, sizeof(full), "blk.%u.%s.weight", layer, name);
        tensor(m, full, m->spec->type, n_in, n_out, n_mats, 0.0f, 1.0f / sqrtf((float)n_in));
        if (!bias)
                return;
        snprintf(full, sizeof(full), "blk.%u.%s.bias", layer, name);
        tensor(m, full, QUANT_F32, n_out, 1, 1, 0.0f, 0.1f);
}

static void norm(struct maker *m, int layer, const char *name, uint64_t n) {
        char full[64];

        if (layer >= 0)
                snprintf(full, sizeof(full), "blk.%d.%s", layer, name);
        else
                snprintf(full, sizeof(full), "%s", name);
        tensor(m, full, QUANT_F32, n, 1, 1, 1.0f, 0.2f);
}

static void experts(struct maker *m, uint32_t layer) {
        const struct llama_spec *s = m->spec;
        char full[64];

        snprintf(full, sizeof(full), "blk.%u.ffn_gate_inp.weight", layer);
        tensor(m, full, QUANT_F32, s->n_embd, s->n_expert, 1, 0.0f, 0.3f);
        if (s->fused) {
                layer_matrix(
                        m, layer, "ffn_gate_up_exps", s->n_embd, 2 * s->n_ff, s->n_expert, false);
        } else {
                layer_matrix(m, layer, "ffn_gate_exps", s->n_embd, s->n_ff, s->n_expert, false);
                layer_matrix(m, layer, "ffn_up_exps", s->n_embd, s->n_ff, s->n_expert, false);
        }
        layer_matrix(m, layer, "ffn_down_exps", s->n_ff, s->n_embd, s->n_expert, false);
}

static void layer(struct maker *m, uint32_t i) {
        const struct llama_spec *s = m->spec;
        uint64_t n_q = (uint64_t)s->n_head * s->head_dim,
                 n_kv = (uint64_t)s->n_kv_head * s->head_dim;

        norm(m, (int)i, "attn_norm.weight", s->n_embd);
        if (s->fused) {
                layer_matrix(m, i, "attn_qkv", s->n_embd, n_q + 2 * n_kv, 1, s->biases);
        } else {
                layer_matrix(m, i, "attn_q", s->n_embd, n_q, 1, s->biases);
                layer_matrix(m, i, "attn_k", s->n_embd, n_kv, 1, s->biases);
                layer_matrix(m, i, "attn_v", s->n_embd, n_kv, 1, s->biases);
        }
        layer_matrix(m, i, "attn_output", n_q, s->n_embd, 1, s->biases);
        norm(m, (int)i, "ffn_norm.weight", s->n_embd);
        if (s->n_expert) {
                experts(m, i);
                return;
        }
        layer_matrix(m, i, "ffn_gate", s->n_embd, s->n_ff, 1, s->biases);
        layer_matrix(m, i, "ffn_up", s->n_embd, s->n_ff, 1, s->biases);
        layer_matrix(m, i, "ffn_down", s->n_ff, s->n_embd, 1, s->biases);
}

static void key_u32(struct maker *m, const char *key, uint32_t v) {
        if (!same(m->spec->omit, key))
                gguf_build_u32(m->out, key, v);
}

static void keys(struct maker *m) {
        const struct llama_spec *s = m->spec;

        if (!same(s->omit, "general.architecture"))
                gguf_build_str(m->out, "general.architecture", "llama");
        gguf_build_str(m->out, "general.name", "random weights");
        key_u32(m, "general.quantization_version", 2);
        key_u32(m, "llama.context_length", s->context);
        key_u32(m, "llama.embedding_length", s->n_embd);
        key_u32(m, "llama.block_count", s->n_layer);
        key_u32(m, "llama.feed_forward_length", s->n_ff);
        key_u32(m, "llama.attention.head_count", s->n_head);
        key_u32(m, "llama.attention.head_count_kv", s->n_kv_head);
        key_u32(m, "llama.attention.key_length", s->head_dim);
        key_u32(m, "llama.attention.value_length", s->head_dim);
        key_u32(m, "llama.rope.dimension_count", s->head_dim);
        if (!same(s->omit, "llama.attention.layer_norm_rms_epsilon"))
                gguf_build_f32(m->out, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
        gguf_build_f32(m->out, "llama.rope.freq_base", 10000.0f);
        if (s->n_expert) {
                key_u32(m, "llama.expert_count", s->n_expert);
                key_u32(m, "llama.expert_used_count", s->n_expert_used);
        }
        if (s->rope_scaling)
                gguf_build_str(m->out, "llama.rope.scaling.type", s->rope_scaling);
        if (s->rope_factor != 0.0f)
                gguf_build_f32(m->out, "llama.rope.scaling.factor", s->rope_factor);
        if (s->rope_scaling && !strcmp(s->rope_scaling, "yarn"))
                gguf_build_u32(
                        m->out, "llama.rope.scaling.original_context_length", s->context / 4);
}

void llama_build_vocabulary(struct gguf_build *out, uint32_t n) {
        char *text = need(malloc((size_t)n * 20));
        const char **tokens = need(malloc(n * sizeof(*tokens)));
        float *scores = need(malloc(n * sizeof(*scores)));
        int32_t *types = need(malloc(n * sizeof(*types)));

        for (uint32_t i = 0; i < n; i++) {
                static const char *const special[] = {"<unk>", "<s>", "</s>"};
                char *t = text + (size_t)i * 20;

                if (i < 3)
                        snprintf(t, 20, "%s", special[i]);
                else if (i < 259)
                        snprintf(t, 20, "<0x%02X>", i - 3);
                else
                        snprintf(t, 20, "\xe2\x96\x81w%u", i);
                tokens[i] = t;
                scores[i] = i < 259 ? 0.0f : -(float)i;
                types[i] = i == 0    ? GGUF_TOKEN_UNKNOWN
                           : i < 3   ? GGUF_TOKEN_CONTROL
                           : i < 259 ? GGUF_TOKEN_BYTE
                                     : GGUF_TOKEN_NORMAL;
        }
        gguf_build_spm(out, tokens, scores, types, n, 2);
        free(types);
        free(scores);
        free(tokens);
        free(text);
}

struct gguf_build *llama_build(const struct llama_spec *s) {
        struct maker m = {.spec = s, .out = gguf_build_new(), .state = s->seed};

        keys(&m);
        if (!same(s->omit, "tokenizer.ggml.tokens"))
                llama_build_vocabulary(m.out, s->n_vocab);
        tensor(&m, "token_embd.weight", s->embd_type, s->n_embd, s->n_vocab, 1, 0.0f, 1.0f);
        if (s->rope_factors)
                tensor(&m, "rope_freqs.weight", QUANT_F32, s->head_dim / 2, 1, 1, 4.0f, 0.5f);
        for (uint32_t i = 0; i < s->n_layer; i++)
                layer(&m, i);
        norm(&m, -1, "output_norm.weight", s->n_embd);
        if (!s->tied)
                tensor(&m, "output.weight", s->embd_type, s->n_embd, s->n_vocab, 1, 0.0f,
                        2.0f / sqrtf((float)s->n_embd));
        return m.out;
}
