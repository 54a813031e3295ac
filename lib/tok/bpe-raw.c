/* SPDX-License-Identifier: MIT */
/*
 * BPE over characters: Gemma 4, and files of the model "gpt2" whose pre-tokenizer says so. Tokens
 * and merges are written in plain UTF-8. The pre-tokenizer cuts the text; in most vocabularies a
 * space is then written U+2581. A character that is in no token is written as byte tokens <0xXX>.
 *
 * 1. A run of newlines that is a token is that token, whatever the merges say.
 * 2. Bytes that are not UTF-8 don't reach the regexes: each run of them is a piece of its own. They
 *    are in no merge, so each becomes its byte token. A byte without a token is dropped.
 */
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "tok/bpe.h"

static uint32_t raw_symbol(const struct tok *t, const char *text, size_t n) {
        return bpe_find_symbol(t, text, n);
}

static const struct tok_chars raw_plain = {
        .escape = false, .symbol = raw_symbol, .pair = bpe_pair, .emit = bpe_emit_symbols};
static const struct tok_chars raw_escaped = {
        .escape = true, .symbol = raw_symbol, .pair = bpe_pair, .emit = bpe_emit_symbols};

static const struct tok_chars *raw_chars(const struct tok *t) {
        return t->bpe->escape ? &raw_escaped : &raw_plain;
}

/* Receives the pieces of one raw_encode(). */
struct raw_pieces {
        const struct tok *t;
        struct tok_work *w;
        struct tok_out *out;
};

/* The token whose text is text[0..n), all newlines, or -1. */
static int32_t raw_newlines(const struct tok *t, const char *text, size_t n) {
        int32_t id;

        if (n > t->vocab.max_size || text[0] != '\n' || memcmp(text, text + 1, n - 1) != 0)
                return -1;
        id = tok_vocab_find(&t->vocab, text, n);
        return id >= 0 && tok_may_emit(t, (uint32_t)id) ? id : -1;
}

static int raw_encode_piece(void *userdata, const char *text, size_t n, struct err *e) {
        const struct raw_pieces *to = userdata;
        const struct tok_chars *chars = raw_chars(to->t);
        int32_t id = raw_newlines(to->t, text, n);
        int r = 0;

        if (id >= 0)
                return tok_out_push(to->out, id, e);
        while (r >= 0 && n > 0) {
                struct tok_stretch s = tok_stretch_next(to->t, text, n, chars, false);

                r = tok_stretch_encode(to->t, to->w, text, s, chars, false, to->out, e);
                text += s.size;
                n -= s.size;
        }
        return r;
}

static int raw_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        struct raw_pieces to = {t, w, out};

        return tok_pretok_any(t->bpe->pretok, w, text, n, raw_encode_piece, &to, e);
}

static size_t raw_memory(const struct tok *t, const char *text, size_t n) {
        return tok_stretches_memory(t, text, n, raw_chars(t), false);
}

static size_t raw_piece(const struct tok *t, int32_t token, char *dst, size_t size) {
        return tok_chars_piece(t, token, t->bpe->escape, dst, size);
}

const struct tok_ops tok_ops_bpe_raw = {
        .model = "gpt2",
        .default_bos = 11,
        .default_eos = 11,
        .default_unk = -1,
        .defaults_if_control = true,
        .load = bpe_load,
        .unload = bpe_unload,
        .encode = raw_encode,
        .memory = raw_memory,
        .piece = raw_piece,
};

const struct tok_ops tok_ops_gemma4 = {
        .model = "gemma4",
        .default_bos = -1,
        .default_eos = -1,
        .default_unk = -1,
        .forced_add_bos = true,
        .load = bpe_load,
        .unload = bpe_unload,
        .encode = raw_encode,
        .memory = raw_memory,
        .piece = raw_piece,
};
