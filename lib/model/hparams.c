/* SPDX-License-Identifier: MIT */
#include "model/hparams.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "gguf/gguf.h"

static int hparams_key(const struct hparams *h, const char *key, char buf[static 128]) {
        int n = snprintf(buf, 128, "%s.%s", h->arch->name, key);

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

int hparams_missing(const struct hparams *h, const char *key, struct err *e) {
        return err_set(e, ERR_FORMAT, "%s.%s is missing", h->arch->name, key);
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

int hparams_numbers(
        const struct hparams *h, const struct hparams_number *numbers, size_t n, struct err *e) {
        for (size_t i = 0; i < n; i++) {
                int r = hparams_f32_or(h, numbers[i].key, numbers[i].min, numbers[i].max,
                        numbers[i].fallback, numbers[i].ret, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

int hparams_bool_or(
        const struct hparams *h, const char *key, bool fallback, bool *ret, struct err *e) {
        char name[128];
        int r;

        if (!hparams_key(h, key, name))
                return err_set(e, ERR_INVALID, "key '%s' is too long", key);
        r = gguf_get_bool(h->gguf, name, ret, e);
        if (r == 1)
                *ret = fallback;
        return r < 0 ? r : 0;
}

int hparams_array(const struct hparams *h, const char *key, struct gguf_array *ret, struct err *e) {
        char name[128];

        if (!hparams_key(h, key, name))
                return err_set(e, ERR_INVALID, "key '%s' is too long", key);
        return gguf_get_array(h->gguf, name, ret, e);
}

int hparams_str(const struct hparams *h, const char *key, struct gguf_str *ret, struct err *e) {
        char name[128];

        if (!hparams_key(h, key, name))
                return err_set(e, ERR_INVALID, "key '%s' is too long", key);
        return gguf_get_str(h->gguf, name, ret, e);
}

int hparams_u32_layers(const struct hparams *h, const char *key, uint32_t min, uint32_t max,
        uint32_t *ret, struct err *e) {
        char name[128];
        uint32_t v[HPARAMS_MAX_LAYERS];
        int r;

        if (!hparams_key(h, key, name))
                return err_set(e, ERR_INVALID, "key '%s' is too long", key);
        r = gguf_get_u32_per_layer(h->gguf, name, v, h->n_block, e);
        if (r)
                return r;
        for (uint32_t i = 0; i < h->n_block; i++)
                if (v[i] < min || v[i] > max)
                        return err_set(e, ERR_FORMAT, "%s is %u for layer %u, outside %u to %u",
                                name, v[i], i, min, max);
        memcpy(ret, v, h->n_block * sizeof(*v));
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
        if (n < 1 || n > HPARAMS_MAX_VOCAB)
                return err_set(e, ERR_FORMAT, "the vocabulary has %llu tokens, outside 1 to %u",
                        (unsigned long long)n, HPARAMS_MAX_VOCAB);
        h->n_vocab = (uint32_t)n;
        return 0;
}

int hparams_read_base(struct hparams *h, struct err *e) {
        const char *eps = h->arch->norm == ARCH_RMS ? "attention.layer_norm_rms_epsilon"
                                                    : "attention.layer_norm_epsilon";
        uint32_t n_draft;
        int r;

        r = hparams_u32(h, "block_count", 1, HPARAMS_MAX_LAYERS, &h->n_block, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "nextn_predict_layers", 0, h->n_block - 1, 0, &n_draft, e);
        if (r < 0)
                return r;
        h->n_layer = h->first_shared_kv = h->n_block - n_draft;
        r = hparams_u32(h, "embedding_length", 1, HPARAMS_MAX_EMBD, &h->n_embd, e);
        if (r < 0)
                return r;
        r = hparams_u32(h, "context_length", 1, HPARAMS_MAX_CONTEXT, &h->context_train, e);
        if (r < 0)
                return r;
        r = hparams_find_f32(h, eps, 0.0f, 1.0f, &h->norm_eps, e);
        if (r == 1 && h->arch->eps_of_either)
                r = hparams_find_f32(
                        h, "attention.layer_norm_epsilon", 0.0f, 1.0f, &h->norm_eps, e);
        if (r)
                return r == 1 ? hparams_missing(h, eps, e) : r;
        return hparams_read_vocab(h, e);
}
