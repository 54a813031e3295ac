/* SPDX-License-Identifier: MIT */
/*
 * SPM ("llama"): SentencePiece BPE. Spaces become U+2581, and one is put in front of a text that
 * starts anew. Then, repeatedly, of all adjacent pairs whose joined text is a token, the pair with
 * the highest score is joined. Symbols left without a token are written as byte tokens.
 *
 * 1. Joining never makes control, unknown or byte tokens or markers: a user's text "</s>" or
 *    "<0x0A>" stays text, whatever the vocabulary holds.
 * 2. Bytes that are not UTF-8 are symbols of their own and become byte tokens, so a vocabulary with
 *    all 256 byte tokens can represent any bytes. A byte without a token becomes the unknown token.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

struct tok_spm {
        int32_t byte[256]; /* the token of a byte, or -1 */
        uint32_t *rank;    /* [n_vocab]: orders as the scores, best lowest */
};

#define SPM_NO_TOKEN UINT32_MAX

/* Map floats to unsigned integers in reverse order. -0 equals 0. */
static uint32_t spm_rank(float score) {
        uint32_t bits;

        score += 0.0f;
        memcpy(&bits, &score, sizeof(bits));
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        return ~bits;
}

static int spm_load(struct tok *t, const struct gguf *g, struct err *e) {
        int r;

        if (!t->vocab.score)
                return err_set(e, ERR_FORMAT, "a \"llama\" tokenizer needs tokenizer.ggml.scores");
        t->spm = calloc(1, sizeof(*t->spm));
        if (!t->spm)
                return err_set(e, ERR_NOMEM, "out of memory for a tokenizer");
        t->spm->rank = calloc(t->vocab.n, sizeof(*t->spm->rank));
        if (!t->spm->rank)
                return err_set(e, ERR_NOMEM, "out of memory for %u token ranks", t->vocab.n);
        for (uint32_t i = 0; i < t->vocab.n; i++)
                t->spm->rank[i] = spm_rank(t->vocab.score[i]);
        tok_load_bytes(t, t->spm->byte);
        for (uint32_t i = 0; i < t->vocab.n; i++) {
                const struct gguf_str *s = &t->vocab.text[i];

                for (size_t k = 1; k < s->size; k++)
                        tok_joins_add(&t->joins, (uint8_t)s->data[k - 1], (uint8_t)s->data[k]);
        }
        r = tok_merged_new(t, e);
        if (r < 0)
                return r;
        t->add_space_prefix = true;
        r = gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix, e);
        return r < 0 ? r : 0;
}

static void spm_unload(struct tok *t) {
        if (!t->spm)
                return;
        free(t->spm->rank);
        free(t->spm);
        t->spm = NULL;
}

/* The token that ordinary text may become, or -1. */
static int32_t spm_find(const struct tok *t, const char *text, size_t n) {
        int32_t id = tok_vocab_find(&t->vocab, text, n);

        return id >= 0 && t->vocab.type[id] != TOK_BYTE && tok_may_emit(t, (uint32_t)id) ? id : -1;
}

static uint32_t spm_symbol(const struct tok *t, const char *text, size_t n) {
        int32_t id = spm_find(t, text, n);

        return id >= 0 ? (uint32_t)id : SPM_NO_TOKEN;
}

static bool spm_pair(const struct tok *t, const struct tok_work *w, uint32_t left, uint32_t right,
        uint32_t *ret_rank, uint32_t *ret_id) {
        size_t n = tok_symbol_size(w, left) + tok_symbol_size(w, right);
        int32_t id = spm_find(t, w->text + w->symbols[left].start, n);

        if (id < 0)
                return false;
        *ret_rank = t->spm->rank[id];
        *ret_id = (uint32_t)id;
        return true;
}

static int spm_emit_symbol(const struct tok *t, const struct tok_work *w, uint32_t at,
        struct tok_out *out, struct err *e) {
        const struct tok_symbol *s = &w->symbols[at];
        size_t n = tok_symbol_size(w, at);

        if (s->id != SPM_NO_TOKEN)
                return tok_out_push(out, (int32_t)s->id, e);
        for (size_t i = 0; i < n; i++) {
                int32_t id = t->spm->byte[(uint8_t)w->text[s->start + i]];
                int r;

                id = id >= 0 ? id : t->unk;
                r = id >= 0 ? tok_out_push(out, id, e) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int spm_emit(
        const struct tok *t, const struct tok_work *w, struct tok_out *out, struct err *e) {
        int r = 0;

        for (uint32_t at = 0; r >= 0 && at != TOK_SYMBOL_NONE; at = w->symbols[at].next)
                r = spm_emit_symbol(t, w, at, out, e);
        return r;
}

static const struct tok_chars spm_chars = {
        .escape = true, .symbol = spm_symbol, .pair = spm_pair, .emit = spm_emit};

static int spm_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        bool prefix = starts && t->add_space_prefix;

        while (n > 0 || prefix) {
                struct tok_stretch s = tok_stretch_next(t, text, n, &spm_chars, prefix);
                int r = tok_stretch_encode(t, w, text, s, &spm_chars, prefix, out, e);

                if (r < 0)
                        return r;
                text += s.size;
                n -= s.size;
                prefix = false;
        }
        return 0;
}

static size_t spm_memory(const struct tok *t, const char *text, size_t n) {
        return tok_stretches_memory(t, text, n, &spm_chars, t->add_space_prefix);
}

static size_t spm_piece(const struct tok *t, int32_t token, char *dst, size_t size) {
        return tok_chars_piece(t, token, true, dst, size);
}

const struct tok_ops tok_ops_spm = {
        .model = "llama",
        .default_bos = 1,
        .default_eos = 2,
        .default_unk = 0,
        .default_add_bos = true,
        .load = spm_load,
        .unload = spm_unload,
        .encode = spm_encode,
        .memory = spm_memory,
        .piece = spm_piece,
};
