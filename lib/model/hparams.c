/* SPDX-License-Identifier: MIT */
#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "gguf/gguf.h"

/*
 * Upper bounds. They are far above every published model, and small enough that products of any
 * three of them stay inside 64 bits, so that sizes derived from them need no further checks.
 */
#define MAX_EMBD (1u << 18)
#define MAX_HEADS (1u << 12)
#define MAX_HEAD_DIM (1u << 12)
#define MAX_FF (1u << 21)
#define MAX_VOCAB (1u << 22)
#define MAX_EXPERTS 1024u
#define MAX_CONTEXT (1u << 28)

static int hparams_key(const struct hparams *h, const char *key, char buf[static 128]) {
        int n = snprintf(buf, 128, "%s.%s", h->arch, key);

        return n > 0 && n < 128;
}

static int hparams_find_u32(const struct hparams *h, const char *key, uint32_t min, uint32_t max,
        uint32_t *ret, struct err *e) {
        char name[128];
        uint32_t v;
        int r;

        if (!hparams_key(h, key, name))
                return err_set(e, ERR_INVALID, "key '%s' is too long", key);
        r = gguf_get_u32(h->gguf, name, &v, e);
        if (r)
                return r;
        if (v < min || v > max)
                return err_set(e, ERR_FORMAT, "%s is %u, outside %u to %u", name, v, min, max);
        *ret = v;
        return 0;
}

static int hparams_find_f32(
        const struct hparams *h, const char *key, float min, float max, float *ret, struct err *e) {
        char name[128];
        float v;
        int r;

        if (!hparams_key(h, key, name))
                return err_set(e, ERR_INVALID, "key '%s' is too long", key);
        r = gguf_get_f32(h->gguf, name, &v, e);
        if (r)
                return r;
        /* Negated, so that NaN is refused as well. */
        if (!(v >= min && v <= max))
                return err_set(e, ERR_FORMAT, "%s is %g, outside %g to %g", name, (double)v,
                        (double)min, (double)max);
        *ret = v;
        return 0;
}

static int hparams_missing(const struct hparams *h, const char *key, struct err *e) {
        return err_set(e, ERR_FORMAT, "%s.%s is missing", h->arch, key);
}

int hparams_u32(const struct hparams *h, const char *key, uint32_t min, uint32_t max, uint32_t *ret,
        struct err *e) {
        int r = hparams_find_u32(h, key, min, max, ret, e);

        return r == 1 ? hparams_missing(h, key, e) : r;
}

int hparams_u32_or(const struct hparams *h, const char *key, uint32_t min, uint32_t max,
        uint32_t fallback, uint32_t *ret, struct err *e) {
        int r = hparams_find_u32(h, key, min, max, ret, e);

        if (r == 1)
                *ret = fallback;
        return r < 0 ? r : 0;
}

int hparams_f32(
        const struct hparams *h, const char *key, float min, float max, float *ret, struct err *e) {
        int r = hparams_find_f32(h, key, min, max, ret, e);

        return r == 1 ? hparams_missing(h, key, e) : r;
}

int hparams_f32_or(const struct hparams *h, const char *key, float min, float max, float fallback,
        float *ret, struct err *e) {
        int r = hparams_find_f32(h, key, min, max, ret, e);

        if (r == 1)
                *ret = fallback;
        return r < 0 ? r : 0;
}

int hparams_u32_layers(const struct hparams *h, const char *key, uint32_t min, uint32_t max,
        uint32_t *ret, struct err *e) {
        char name[128];
        uint32_t v[HPARAMS_MAX_LAYERS];
        int r;

        if (!hparams_key(h, key, name))
                return err_set(e, ERR_INVALID, "key '%s' is too long", key);
        r = gguf_get_u32_per_layer(h->gguf, name, v, h->n_layer, e);
        if (r)
                return r;
        for (uint32_t i = 0; i < h->n_layer; i++)
                if (v[i] < min || v[i] > max)
                        return err_set(e, ERR_FORMAT, "%s is %u for layer %u, outside %u to %u",
                                name, v[i], i, min, max);
        memcpy(ret, v, h->n_layer * sizeof(*v));
        return 0;
}

/* The size of the tokenizer's list; without a list the size that the file names, or else the number
 * of rows of the embedding. */
static int hparams_read_vocab(struct hparams *h, struct err *e) {
        const struct gguf_tensor *t;
        struct gguf_array tokens;
        uint64_t n;
        int r;

        r = gguf_get_array(h->gguf, "tokenizer.ggml.tokens", &tokens, e);
        if (r < 0)
                return r;
        if (r == 0) {
                n = tokens.count;
        } else {
                t = gguf_tensor(h->gguf, "token_embd.weight");
                n = t ? t->ne[1] : 0;
                r = hparams_u32_or(h, "vocab_size", 0, UINT32_MAX, n > UINT32_MAX ? 0 : (uint32_t)n,
                        &h->n_vocab, e);
                if (r < 0)
                        return r;
                n = h->n_vocab;
        }
        if (n < 1 || n > MAX_VOCAB)
                return err_set(e, ERR_FORMAT, "the vocabulary has %llu tokens, outside 1 to %u",
                        (unsigned long long)n, MAX_VOCAB);
        h->n_vocab = (uint32_t)n;
        return 0;
}

int hparams_read_base(struct hparams *h, struct err *e) {
        int r;

        r = hparams_u32(h, "block_count", 1, HPARAMS_MAX_LAYERS, &h->n_layer, e);
        if (r < 0)
                return r;
        r = hparams_u32(h, "embedding_length", 1, MAX_EMBD, &h->n_embd, e);
        if (r < 0)
                return r;
        r = hparams_u32(h, "context_length", 1, MAX_CONTEXT, &h->context_train, e);
        if (r < 0)
                return r;
        r = hparams_f32(h, "attention.layer_norm_rms_epsilon", 0.0f, 1.0f, &h->norm_eps, e);
        if (r < 0)
                return r;
        return hparams_read_vocab(h, e);
}

int hparams_read_attention(struct hparams *h, struct err *e) {
        uint32_t per_head;
        float scale;
        int r;

        r = hparams_u32_layers(h, "attention.head_count", 1, MAX_HEADS, h->n_head, e);
        if (r == 1)
                return hparams_missing(h, "attention.head_count", e);
        if (r < 0)
                return r;
        r = hparams_u32_layers(h, "attention.head_count_kv", 1, MAX_HEADS, h->n_kv_head, e);
        if (r == 1)
                memcpy(h->n_kv_head, h->n_head, h->n_layer * sizeof(*h->n_head));
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < h->n_layer; i++)
                if (h->n_head[i] % h->n_kv_head[i])
                        return err_set(e, ERR_FORMAT,
                                "%s.attention.head_count %u is no multiple of head_count_kv %u "
                                "(layer %u)",
                                h->arch, h->n_head[i], h->n_kv_head[i], i);

        per_head = h->n_embd % h->n_head[0] ? 0 : h->n_embd / h->n_head[0];
        r = hparams_u32_or(h, "attention.key_length", 1, MAX_HEAD_DIM, per_head, &h->head_dim_k, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(
                h, "attention.value_length", 1, MAX_HEAD_DIM, per_head, &h->head_dim_v, e);
        if (r < 0)
                return r;
        if (h->head_dim_k < 1 || h->head_dim_k > MAX_HEAD_DIM || h->head_dim_v < 1 ||
                h->head_dim_v > MAX_HEAD_DIM)
                return err_set(e, ERR_FORMAT,
                        "%s.embedding_length %u and attention.head_count %u give no head size, and "
                        "attention.key_length or value_length is missing",
                        h->arch, h->n_embd, h->n_head[0]);

        r = hparams_f32_or(h, "attention.scale", 0.0f, 1e6f, 0.0f, &scale, e);
        if (r < 0)
                return r;
        h->attn_scale = scale != 0.0f ? scale : 1.0f / sqrtf((float)h->head_dim_k);
        return 0;
}

int hparams_read_ffn(struct hparams *h, struct err *e) {
        int r;

        r = hparams_u32_layers(h, "feed_forward_length", 1, MAX_FF, h->n_ff, e);
        if (r == 1)
                memset(h->n_ff, 0, sizeof(h->n_ff));
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "expert_count", 0, MAX_EXPERTS, 0, &h->n_expert, e);
        if (r < 0)
                return r;
        h->n_expert_used = 0;
        h->n_ff_expert = 0;
        h->expert_scale = 1.0f;
        if (!h->n_expert) {
                if (!h->n_ff[0])
                        return hparams_missing(h, "feed_forward_length", e);
                return 0;
        }
        r = hparams_u32(h, "expert_used_count", 1, h->n_expert, &h->n_expert_used, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(
                h, "expert_feed_forward_length", 1, MAX_FF, h->n_ff[0], &h->n_ff_expert, e);
        if (r < 0)
                return r;
        if (!h->n_ff_expert)
                return hparams_missing(h, "expert_feed_forward_length", e);
        r = hparams_f32_or(h, "expert_weights_scale", 0.0f, 1e6f, 0.0f, &h->expert_scale, e);
        if (r < 0)
                return r;
        if (h->expert_scale == 0.0f)
                h->expert_scale = 1.0f;
        return 0;
}

static int hparams_read_rope_type(struct hparams *h, struct err *e) {
        char name[128];
        struct gguf_str s;
        int r;

        if (!hparams_key(h, "rope.scaling.type", name))
                return err_set(e, ERR_INVALID, "architecture name '%s' is too long", h->arch);
        r = gguf_get_str(h->gguf, name, &s, e);
        if (r < 0)
                return r;
        if (r == 1 || (s.size == 6 && !memcmp(s.data, "linear", 6)))
                h->rope_scaling = HPARAMS_ROPE_LINEAR;
        else if (s.size == 4 && !memcmp(s.data, "none", 4))
                h->rope_scaling = HPARAMS_ROPE_NONE;
        else if (s.size == 4 && !memcmp(s.data, "yarn", 4))
                h->rope_scaling = HPARAMS_ROPE_YARN;
        else
                return err_set(e, ERR_UNSUPPORTED, "%s '%.*s' is not supported", name,
                        (int)(s.size < 32 ? s.size : 32), s.data);
        return 0;
}

static int hparams_read_yarn(struct hparams *h, struct err *e) {
        float ext, fast, slow, log_multiplier;
        int r;

        r = hparams_f32_or(h, "rope.scaling.yarn_ext_factor", -1.0f, 1.0f, 1.0f, &ext, e);
        if (r < 0)
                return r;
        if (ext >= 0.0f && ext != 1.0f)
                return err_set(e, ERR_UNSUPPORTED,
                        "%s.rope.scaling.yarn_ext_factor %g is not supported (only 1 is)", h->arch,
                        (double)ext);
        r = hparams_f32_or(h, "rope.scaling.yarn_beta_fast", 1e-3f, 1e6f, 32.0f, &fast, e);
        if (r < 0)
                return r;
        r = hparams_f32_or(h, "rope.scaling.yarn_beta_slow", 1e-3f, 1e6f, 1.0f, &slow, e);
        if (r < 0)
                return r;
        r = hparams_f32_or(
                h, "rope.scaling.yarn_log_multiplier", 0.0f, 1e3f, 0.0f, &log_multiplier, e);
        if (r < 0)
                return r;
        h->yarn_beta_fast = fast;
        h->yarn_beta_slow = slow;
        h->yarn_log_multiplier = log_multiplier;
        return 0;
}

int hparams_read_rope(struct hparams *h, uint32_t n_rot_default, struct err *e) {
        float base, factor, attn_factor, yarn_attn_factor;
        int r;

        r = hparams_u32_or(h, "rope.dimension_count", 2, MAX_HEAD_DIM, n_rot_default, &h->n_rot, e);
        if (r < 0)
                return r;
        if (h->n_rot < 2 || h->n_rot % 2 || h->n_rot > h->head_dim_k)
                return err_set(e, ERR_FORMAT,
                        "%s.rope.dimension_count %u is odd, zero or above the head size %u",
                        h->arch, h->n_rot, h->head_dim_k);
        /* A base of exactly 1 would make YaRN divide by its logarithm. */
        r = hparams_f32_or(h, "rope.freq_base", 1.001f, 1e15f, 10000.0f, &base, e);
        if (r < 0)
                return r;
        h->rope_base = base;
        r = hparams_read_rope_type(h, e);
        if (r < 0)
                return r;
        r = hparams_f32_or(h, "rope.scale_linear", 0.0f, 1e6f, 1.0f, &factor, e);
        if (r < 0)
                return r;
        r = hparams_f32_or(h, "rope.scaling.factor", 0.0f, 1e6f, factor, &factor, e);
        if (r < 0)
                return r;
        /* Converters write 0 for "no scaling". */
        h->rope_factor = factor == 0.0f || h->rope_scaling == HPARAMS_ROPE_NONE ? 1.0 : factor;
        if (h->rope_factor < 1e-3)
                return err_set(e, ERR_FORMAT, "%s.rope.scaling.factor is %g, below 0.001", h->arch,
                        h->rope_factor);
        r = hparams_f32_or(h, "rope.scaling.attn_factor", 1e-3f, 1e3f, 1.0f, &attn_factor, e);
        if (r < 0)
                return r;
        r = hparams_f32_or(
                h, "rope.scaling.yarn_attn_factor", 1e-3f, 1e3f, 1.0f, &yarn_attn_factor, e);
        if (r < 0)
                return r;
        h->rope_attn_factor = (double)attn_factor * (double)yarn_attn_factor;
        r = hparams_u32_or(h, "rope.scaling.original_context_length", 1, MAX_CONTEXT,
                h->context_train, &h->rope_orig_context, e);
        if (r < 0)
                return r;
        return hparams_read_yarn(h, e);
}
