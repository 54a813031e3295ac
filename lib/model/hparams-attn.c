/* SPDX-License-Identifier: MIT */
/* Parameters of attention: heads, windows and rotary positions. */
#include "model/hparams.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"

uint32_t hparams_heads(const uint32_t *per_layer, uint32_t n_layer) {
        for (uint32_t i = 0; i < n_layer; i++)
                if (per_layer[i])
                        return per_layer[i];
        return 0;
}

static int hparams_read_heads(struct hparams *h, struct err *e) {
        uint32_t min = h->arch->recurrent_layers != ARCH_RECURRENT_NO_KV;
        int r;

        r = hparams_u32_layers(h, "attention.head_count", min, HPARAMS_MAX_HEADS, h->n_head, e);
        if (r == 1)
                return hparams_missing(h, "attention.head_count", e);
        if (r < 0)
                return r;
        r = hparams_u32_layers(
                h, "attention.head_count_kv", min, HPARAMS_MAX_HEADS, h->n_kv_head, e);
        if (r == 1)
                memcpy(h->n_kv_head, h->n_head, h->n_block * sizeof(*h->n_head));
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < h->n_block; i++)
                if (h->n_kv_head[i] && (!h->n_head[i] || h->n_head[i] % h->n_kv_head[i]))
                        return err_set(e, ERR_FORMAT,
                                "%s.attention.head_count %u is no multiple of head_count_kv %u "
                                "(layer %u)",
                                h->arch->name, h->n_head[i], h->n_kv_head[i], i);
        return 0;
}

static int hparams_read_attn_scale(struct hparams *h, struct err *e) {
        float width = (float)h->head_dim_k, scale;
        int r = hparams_f32_or(h, "attention.scale", 0.0f, 1e6f, 0.0f, &scale, e);

        if (r < 0)
                return r;
        if (h->arch->wide_query_layers && h->n_layer == h->arch->wide_query_layers)
                width = (float)h->n_embd / (float)hparams_heads(h->n_head, h->n_layer);
        if (scale == 0.0f)
                scale = h->arch->unscaled ? 1.0f : 1.0f / sqrtf(width);
        h->attn_scale = scale;
        return 0;
}

int hparams_read_attention(struct hparams *h, struct err *e) {
        const struct hparams_number numbers[] = {
                {"attn_logit_softcapping", 0.0f, 1e6f, h->arch->attn_softcap, &h->attn_softcap},
                {"attention.temperature_scale", 0.0f, 1e3f, 0.0f, &h->temperature_scale},
        };
        uint32_t n_head, per_head;
        int r;

        if (h->arch->recurrent_layers == ARCH_RECURRENT_ALL) {
                memset(h->n_head, 0, sizeof(h->n_head));
                memset(h->n_kv_head, 0, sizeof(h->n_kv_head));
                return 0;
        }
        r = hparams_read_heads(h, e);
        if (r < 0)
                return r;
        n_head = hparams_heads(h->n_head, h->n_layer);
        per_head = !n_head || h->n_embd % n_head ? 0 : h->n_embd / n_head;
        r = hparams_u32_or(
                h, "attention.key_length", 1, HPARAMS_MAX_HEAD_DIM, per_head, &h->head_dim_k, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(
                h, "attention.value_length", 1, HPARAMS_MAX_HEAD_DIM, per_head, &h->head_dim_v, e);
        if (r < 0)
                return r;
        if (h->head_dim_k < 1 || h->head_dim_k > HPARAMS_MAX_HEAD_DIM || h->head_dim_v < 1 ||
                h->head_dim_v > HPARAMS_MAX_HEAD_DIM)
                return err_set(e, ERR_FORMAT,
                        "%s.embedding_length %u and attention.head_count %u give no head size, and "
                        "attention.key_length or value_length is missing",
                        h->arch->name, h->n_embd, n_head);
        r = hparams_numbers(h, numbers, ARRAY_SIZE(numbers), e);
        return r < 0 ? r : hparams_read_attn_scale(h, e);
}

/* Which layers are local: an array of bools, or a period. */
static int hparams_read_pattern(struct hparams *h, struct err *e) {
        static const char key[] = "attention.sliding_window_pattern";
        uint32_t period = h->arch->local.period;
        struct gguf_array a;
        int r = hparams_array(h, key, &a, e);

        if (r == 0) {
                if (a.type != GGUF_BOOL || a.count != h->n_block)
                        return err_set(e, ERR_FORMAT, "%s.%s must be %u bools, one per layer",
                                h->arch->name, key, h->n_block);
                for (uint32_t i = 0; i < h->n_layer; i++)
                        h->local[i] = !h->recurrent[i] && gguf_array_int(&a, i) != 0;
                return 0;
        }
        if (h->arch->local.pattern_required)
                return r == 1 ? hparams_missing(h, key, e) : r;
        /* Not an array: absent, or a number; its own call tells what is wrong with it. */
        r = hparams_u32_or(h, key, 0, HPARAMS_MAX_LAYERS, period, &period, e);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < h->n_layer; i++)
                h->local[i] = !h->recurrent[i] && (period == 0 || i % period < period - 1);
        return 0;
}

int hparams_read_windows(struct hparams *h, struct err *e) {
        bool can = h->arch->local.period &&
                   (!h->arch->local.n_layer || h->arch->local.n_layer == h->n_layer);
        const char *key = "attention.sliding_window";
        int r;

        memset(h->local, 0, sizeof(h->local));
        h->window = h->chunk = 0;
        h->local_head_dim_k = h->head_dim_k;
        h->local_head_dim_v = h->head_dim_v;
        if (!can)
                return 0;
        if (h->arch->local.required)
                r = hparams_u32(h, key, 0, HPARAMS_MAX_CONTEXT, &h->window, e);
        else
                r = hparams_u32_or(h, key, 0, HPARAMS_MAX_CONTEXT,
                        h->arch->local.chunk ? h->arch->local.chunk : h->arch->local.window,
                        &h->window, e);
        if (r < 0 || !h->window)
                return r;
        if (h->arch->local.chunk) {
                h->chunk = h->arch->local.chunk;
                h->window = 0;
        }
        r = hparams_u32_or(h, "attention.key_length_swa", 1, HPARAMS_MAX_HEAD_DIM, h->head_dim_k,
                &h->local_head_dim_k, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "attention.value_length_swa", 1, HPARAMS_MAX_HEAD_DIM, h->head_dim_v,
                &h->local_head_dim_v, e);
        return r < 0 ? r : hparams_read_pattern(h, e);
}

static bool is(const struct gguf_str *s, const char *text) {
        return s->size == strlen(text) && !memcmp(s->data, text, s->size);
}

static int hparams_read_rope_type(struct hparams *h, struct err *e) {
        struct gguf_str s;
        int r = hparams_str(h, "rope.scaling.type", &s, e);

        if (r < 0)
                return r;
        /* The factors of "longrope" are tensors. */
        if (r == 1 || is(&s, "linear") || (is(&s, "longrope") && h->arch->rope_longrope))
                h->rope.scaling = HPARAMS_ROPE_LINEAR;
        else if (is(&s, "none"))
                h->rope.scaling = HPARAMS_ROPE_NONE;
        else if (is(&s, "yarn"))
                h->rope.scaling = HPARAMS_ROPE_YARN;
        else
                return err_set(e, ERR_UNSUPPORTED, "%s.rope.scaling.type '%.*s' is not supported",
                        h->arch->name, (int)MIN(s.size, (size_t)32), s.data);
        return 0;
}

static int hparams_read_yarn(struct hparams *h, struct err *e) {
        float ext, fast, slow, log_multiplier;
        const struct hparams_number numbers[] = {
                {"rope.scaling.yarn_ext_factor", -1.0f, 1.0f, 1.0f, &ext},
                {"rope.scaling.yarn_beta_fast", 1e-3f, 1e6f, 32.0f, &fast},
                {"rope.scaling.yarn_beta_slow", 1e-3f, 1e6f, 1.0f, &slow},
                {"rope.scaling.yarn_log_multiplier", 0.0f, 1e3f, 0.0f, &log_multiplier},
        };
        int r = hparams_numbers(h, numbers, ARRAY_SIZE(numbers), e);

        if (r < 0)
                return r;
        if (ext >= 0.0f && ext != 1.0f)
                return err_set(e, ERR_UNSUPPORTED,
                        "%s.rope.scaling.yarn_ext_factor %g is not supported (only 1 is)",
                        h->arch->name, (double)ext);
        h->rope.beta_fast = fast;
        h->rope.beta_slow = slow;
        h->rope.log_multiplier = log_multiplier;
        return 0;
}

/* By how much positions are stretched, and the magnitude of cos and sin. */
static int hparams_read_rope_scaling(struct hparams *h, struct err *e) {
        float old, factor, attn_factor, yarn_attn_factor;
        const struct hparams_number numbers[] = {
                {"rope.scale_linear", 0.0f, 1e6f, 1.0f, &old},
                {"rope.scaling.factor", 0.0f, 1e6f, -1.0f, &factor},
                {"rope.scaling.attn_factor", 1e-3f, 1e3f, 1.0f, &attn_factor},
                {"rope.scaling.yarn_attn_factor", 1e-3f, 1e3f, 1.0f, &yarn_attn_factor},
        };
        int r = hparams_read_rope_type(h, e);

        if (r < 0)
                return r;
        r = hparams_numbers(h, numbers, ARRAY_SIZE(numbers), e);
        if (r < 0)
                return r;
        if (factor < 0.0f)
                factor = old;
        /* Converters write 0 for "no scaling". */
        h->rope.factor = factor == 0.0f || h->rope.scaling == HPARAMS_ROPE_NONE ? 1.0 : factor;
        if (h->rope.factor < 1e-3)
                return err_set(e, ERR_FORMAT, "%s.rope.scaling.factor is %g, below 0.001",
                        h->arch->name, h->rope.factor);
        h->rope.attn_factor = (double)attn_factor * (double)yarn_attn_factor;
        r = hparams_u32_or(h, "rope.scaling.original_context_length", 1, HPARAMS_MAX_CONTEXT,
                h->context_train, &h->rope.orig_context, e);
        return r < 0 ? r : hparams_read_yarn(h, e);
}

static int hparams_check_n_rot(
        const struct hparams *h, uint32_t n_rot, uint32_t head_dim, struct err *e) {
        if (n_rot < 2 || n_rot % 2 || n_rot > head_dim)
                return err_set(e, ERR_FORMAT,
                        "%s.rope.dimension_count %u is odd, zero or above the head size %u",
                        h->arch->name, n_rot, head_dim);
        if (h->arch->rope_whole_heads && n_rot != head_dim)
                return err_set(e, ERR_UNSUPPORTED,
                        "%s.rope.dimension_count %u differs from the head size %u", h->arch->name,
                        n_rot, head_dim);
        return 0;
}

static int hparams_read_local_rope(struct hparams *h, struct err *e) {
        float base =
                h->arch->local.rope_base != 0.0f ? h->arch->local.rope_base : (float)h->rope.base;
        uint32_t n_rot = h->local_head_dim_k != h->head_dim_k ? h->local_head_dim_k : h->rope.n_rot;
        int r;

        h->local_rope = h->rope;
        r = hparams_f32_or(h, "rope.freq_base_swa", 1.001f, 1e15f, base, &base, e);
        if (r < 0)
                return r;
        h->local_rope.base = base;
        r = hparams_u32_or(h, "rope.dimension_count_swa", 2, HPARAMS_MAX_HEAD_DIM, n_rot,
                &h->local_rope.n_rot, e);
        if (r < 0)
                return r;
        if (h->arch->local.rope_unscaled) {
                h->local_rope.scaling = HPARAMS_ROPE_NONE;
                h->local_rope.factor = h->local_rope.attn_factor = 1.0;
        }
        return hparams_check_n_rot(h, h->local_rope.n_rot, h->local_head_dim_k, e);
}

/* What part of a head turns by which component of a position. */
static int hparams_check_sections(const struct hparams *h, struct err *e) {
        static const char key[] = "rope.dimension_sections";
        struct gguf_array a;
        int r = hparams_array(h, key, &a, e);

        if (r)
                return r == 1 ? hparams_missing(h, key, e) : r;
        if ((a.type != GGUF_I32 && a.type != GGUF_U32) || a.count != 4)
                return err_set(e, ERR_FORMAT, "%s.%s must be 4 numbers", h->arch->name, key);
        return 0;
}

int hparams_read_rope(struct hparams *h, struct err *e) {
        bool finetuned;
        float base;
        int r;

        h->no_rope = false;
        if (!hparams_has_positions(h))
                return 0;
        r = hparams_bool_or(h, "rope.scaling.finetuned", true, &finetuned, e);
        if (r < 0)
                return r;
        h->no_rope = h->arch->rope_unless_unfinished && !finetuned;
        if (h->arch->rope_sections)
                r = hparams_check_sections(h, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "rope.dimension_count", 2, HPARAMS_MAX_HEAD_DIM, h->head_dim_k,
                &h->rope.n_rot, e);
        if (r < 0)
                return r;
        r = hparams_check_n_rot(h, h->rope.n_rot, h->head_dim_k, e);
        if (r < 0)
                return r;
        /* A base of exactly 1 would make YaRN divide by its logarithm. */
        r = hparams_f32_or(h, "rope.freq_base", 1.001f, 1e15f, 10000.0f, &base, e);
        if (r < 0)
                return r;
        h->rope.base = base;
        r = hparams_read_rope_scaling(h, e);
        return r < 0 ? r : hparams_read_local_rope(h, e);
}

bool hparams_has_positions(const struct hparams *h) {
        return (h->arch->rope == ARCH_ROPE_NORM || h->arch->rope == ARCH_ROPE_NEOX) && !h->no_rope;
}

bool hparams_layer_has_rope(const struct hparams *h, uint32_t layer) {
        const struct arch *a = h->arch;

        if (!hparams_has_positions(h) || h->recurrent[layer])
                return false;
        if (a->no_rope_period && (layer + 1) % a->no_rope_period == 0)
                return false;
        return !(a->local.only_rope && (h->window || h->chunk)) || h->local[layer];
}
