/* SPDX-License-Identifier: MIT */
#include "tok/tok.h"

#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

static const struct tok_ops *const tok_kinds[] = {
        &tok_ops_spm, &tok_ops_bpe, &tok_ops_gemma4, &tok_ops_unigram, &tok_ops_rwkv};

struct tok_quoted tok_quote(const char *s, size_t n) {
        struct tok_quoted q = {{0}};

        n = MIN(n, sizeof(q.s) - 1);
        for (size_t i = 0; i < n; i++)
                q.s[i] = s[i] >= 0x20 && s[i] < 0x7f ? s[i] : '?';
        return q;
}

/* Of tok_kinds, for messages. */
static const char tok_kind_names[] = "llama (SPM), gpt2 (BPE), gemma4 (BPE), t5 (Unigram) and rwkv";

static int tok_find_kind(const struct tok_ops **ret, const struct gguf *g, struct err *e) {
        struct gguf_str model;
        int r;

        r = gguf_get_str(g, "tokenizer.ggml.model", &model, e);
        if (r < 0)
                return r;
        if (r > 0)
                return err_set(e, ERR_FORMAT, "the file has no tokenizer.ggml.model");
        for (size_t i = 0; i < ARRAY_SIZE(tok_kinds); i++)
                if (strlen(tok_kinds[i]->model) == model.size &&
                        memcmp(tok_kinds[i]->model, model.data, model.size) == 0) {
                        *ret = tok_kinds[i];
                        return 0;
                }
        return err_set(e, ERR_UNSUPPORTED,
                "tokenizer model \"%s\" is not supported; supported are %s",
                tok_quote(model.data, model.size).s, tok_kind_names);
}

const char *tok_supported_model(size_t i) {
        return i < ARRAY_SIZE(tok_kinds) ? tok_kinds[i]->model : NULL;
}

const char *tok_supported_pre(size_t i) {
        return i < tok_pretok_table_size ? tok_pretok_table[i].names : NULL;
}

int tok_new(struct tok **ret, const struct gguf *g, struct err *e) {
        _cleanup_(tok_freep) struct tok *t = NULL;
        const struct tok_ops *ops = NULL;
        int r;

        r = tok_find_kind(&ops, g, e);
        if (r < 0)
                return r;
        t = calloc(1, sizeof(*t));
        if (!t)
                return err_set(e, ERR_NOMEM, "out of memory for a tokenizer");
        t->ops = ops;
        r = tok_vocab_load(&t->vocab, g, e);
        if (r < 0)
                return r;
        t->add_bos = ops->default_add_bos;
        t->add_eos = ops->default_add_eos;
        r = ops->load(t, g, e);
        if (r < 0)
                return r;
        r = tok_special_load(t, g, e);
        if (r < 0)
                return r;
        tok_markers_by_form(t);
        r = tok_specials_build(&t->always, t, false, e);
        if (r < 0)
                return r;
        r = tok_specials_build(&t->parsed, t, true, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

struct tok *tok_free(struct tok *t) {
        if (!t)
                return NULL;
        t->ops->unload(t);
        tok_specials_deinit(&t->always);
        tok_specials_deinit(&t->parsed);
        tok_vocab_deinit(&t->vocab);
        free(t->merged);
        free(t->flags);
        free(t->suppressed);
        free(t);
        return NULL;
}

uint32_t tok_n_vocab(const struct tok *t) {
        return t->vocab.n;
}

const char *tok_model_name(const struct tok *t) {
        return t->ops->model;
}

const char *tok_pre_name(const struct tok *t) {
        return t->pre;
}

int32_t tok_bos(const struct tok *t) {
        return t->bos;
}

int32_t tok_eos(const struct tok *t) {
        return t->eos;
}

int32_t tok_eot(const struct tok *t) {
        return t->eot;
}

bool tok_add_bos(const struct tok *t) {
        return t->add_bos;
}

static bool tok_has(const struct tok *t, int32_t token) {
        return token >= 0 && (uint32_t)token < t->vocab.n;
}

bool tok_is_eog(const struct tok *t, int32_t token) {
        return tok_has(t, token) && (t->flags[token] & TOK_FLAG_EOG);
}

bool tok_is_control(const struct tok *t, int32_t token) {
        return tok_has(t, token) && t->vocab.type[token] == TOK_CONTROL;
}

bool tok_is_special(const struct tok *t, int32_t token) {
        if (!tok_has(t, token))
                return false;
        switch (t->vocab.type[token]) {
        case TOK_CONTROL:
        case TOK_UNKNOWN:
        case TOK_USER_DEFINED:
                return true;
        default:
                return false;
        }
}

size_t tok_suppressed(const struct tok *t, const int32_t **ret) {
        *ret = t->suppressed;
        return t->n_suppressed;
}

int32_t tok_find(const struct tok *t, const char *text, size_t n) {
        return tok_vocab_find(&t->vocab, text, n);
}

const char *tok_text(const struct tok *t, int32_t token, size_t *ret_size) {
        if (!tok_has(t, token)) {
                *ret_size = 0;
                return "";
        }
        *ret_size = t->vocab.text[token].size;
        return t->vocab.text[token].data;
}

void tok_ids_deinit(struct tok_ids *ids) {
        free(ids->ids);
        if (ids->charge)
                charge_give(ids->charge, ids->capacity * sizeof(*ids->ids));
        *ids = (struct tok_ids){.charge = ids->charge, .stop = ids->stop};
}

int tok_ids_append(struct tok_ids *ids, const int32_t *src, size_t n, struct err *e) {
        size_t want, bytes;
        int r;

        if (n == 0)
                return 0;
        if (add_overflow(ids->n, n, &want))
                return err_set(e, ERR_NOMEM, "out of memory for tokens");
        if (want > ids->capacity) {
                size_t capacity = MAX(want, ids->capacity + ids->capacity / 2 + 16);
                int32_t *p;

                if (mul_overflow(capacity, sizeof(*p), &bytes))
                        return err_set(e, ERR_NOMEM, "out of memory for tokens");
                bytes -= ids->capacity * sizeof(*p);
                r = ids->charge ? charge_take(ids->charge, bytes, "a list of tokens", e) : 0;
                ids->refused = r < 0;
                if (r < 0)
                        return r;
                p = realloc(ids->ids, capacity * sizeof(*p));
                if (!p) {
                        if (ids->charge)
                                charge_give(ids->charge, bytes);
                        return err_set(e, ERR_NOMEM, "out of memory for %zu tokens", want);
                }
                ids->ids = p;
                ids->capacity = capacity;
        }
        memcpy(ids->ids + ids->n, src, n * sizeof(*src));
        ids->n = want;
        return 0;
}
