/* SPDX-License-Identifier: MIT */
/*
 * Byte-level BPE ("gpt2"). The file writes bytes as characters (33-126, 161-172 and 174-255 as
 * themselves, the others in order from U+0100). The pre-tokenizer cuts text into pieces. In each
 * piece, of all adjacent pairs that are a merge, the first one in the file's list is joined,
 * repeatedly.
 *
 * 1. Bytes that are not UTF-8 don't reach the regexes: each run of them is a piece of its own.
 *    Decoding gives the same bytes back.
 * 2. A symbol that is not a token, or is a control token or a marker, is written byte by byte; a
 *    byte without a token is dropped. So ordinary text never becomes a control token.
 */
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/bpe.h"

/* The token whose text is text[0..n), whatever its type, or -1. */
static int bpe_find_whole(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        int32_t *ret, struct err *e) {
        size_t size = 0;
        int r;

        *ret = -1;
        if (n > t->vocab.max_size)
                return 0;
        r = tok_work_reserve_buffer(w, n * 2, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                uint8_t byte = (uint8_t)text[i];

                if (byte > 32 && byte < 127)
                        w->buffer[size++] = text[i];
                else
                        size += (size_t)utf8_encode(
                                bpe_char_of_byte(byte), (uint8_t *)w->buffer + size);
        }
        *ret = tok_vocab_find(&t->vocab, w->buffer, size);
        return 0;
}

static int bpe_emit(const struct tok *t, const struct tok_work *w, uint32_t at, struct tok_out *out,
        struct err *e) {
        const struct tok_symbol *s = &w->symbols[at];
        size_t n = tok_symbol_size(w, at);

        if (bpe_may_emit(t, s->id))
                return tok_out_push(out, (int32_t)s->id, e);
        for (size_t i = 0; i < n; i++) {
                int32_t id = t->bpe->byte_token[(uint8_t)w->text[s->start + i]];
                int r;

                if (id < 0)
                        continue;
                r = tok_out_push(out, id, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int bpe_emit_symbols(
        const struct tok *t, const struct tok_work *w, struct tok_out *out, struct err *e) {
        int r = 0;

        for (uint32_t at = 0; r >= 0 && at != TOK_SYMBOL_NONE; at = w->symbols[at].next)
                r = bpe_emit(t, w, at, out, e);
        return r;
}

/* Size of the stretch at text[0..n) that is merged by itself: no merge reaches across its end. */
static size_t bpe_stretch(const struct tok *t, const char *text, size_t n) {
        size_t at = 1;

        while (at < n && tok_may_join(&t->joins, (uint8_t)text[at - 1], (uint8_t)text[at]))
                at++;
        return at;
}

static int bpe_encode_stretch(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        struct tok_out *out, struct err *e) {
        int32_t whole;
        int r = bpe_find_whole(t, w, text, n, &whole, e);

        if (r >= 0 && tok_merges_to(t, whole))
                return tok_out_push(out, whole, e);
        if (r >= 0)
                r = tok_work_reserve_symbols(w, n, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                w->symbols[i] = (struct tok_symbol){
                        .start = (uint32_t)i,
                        .id = t->bpe->byte_symbol[(uint8_t)text[i]],
                };
        w->n_symbols = w->text_size = n;
        w->text = text;
        r = tok_merge(t, w, bpe_pair, e);
        if (r < 0)
                return r;
        tok_note_merged(t, w, whole);
        return bpe_emit_symbols(t, w, out, e);
}

/* Receives the pieces of one bpe_encode(). */
struct bpe_pieces {
        const struct tok *t;
        struct tok_work *w;
        struct tok_out *out;
};

static int bpe_encode_piece(void *userdata, const char *text, size_t n, struct err *e) {
        const struct bpe_pieces *to = userdata;
        int32_t whole = -1;
        int r = 0;

        if (to->t->bpe->ignore_merges)
                r = bpe_find_whole(to->t, to->w, text, n, &whole, e);
        if (r >= 0 && whole >= 0 && bpe_may_emit(to->t, (uint32_t)whole))
                return tok_out_push(to->out, whole, e);
        while (r >= 0 && n > 0) {
                size_t size = bpe_stretch(to->t, text, n);

                r = bpe_encode_stretch(to->t, to->w, text, size, to->out, e);
                text += size;
                n -= size;
        }
        return r;
}

static int bpe_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        struct bpe_pieces to = {t, w, out};

        return tok_pretok_any(t->bpe->pretok, w, text, n, bpe_encode_piece, &to, e);
}

/* The pre-tokenizer is not run for this: pieces can only make stretches shorter. */
static size_t bpe_memory(const struct tok *t, const char *text, size_t n) {
        size_t longest = 0;

        while (n > 0) {
                size_t size = bpe_stretch(t, text, n);

                longest = MAX(longest, size);
                text += size;
                n -= size;
        }
        return tok_symbols_memory(longest) + t->vocab.max_size * 2 + TOK_MIN_BUFFER;
}

static size_t bpe_piece(const struct tok *t, int32_t token, char *dst, size_t size) {
        const struct gguf_str *s = &t->vocab.text[token];
        size_t n = 0;

        for (size_t i = 0; i < s->size;) {
                uint32_t cp = 0;
                int len = utf8_decode((const uint8_t *)s->data + i, s->size - i, &cp);
                int byte = len > 0 ? bpe_byte_of_char(cp) : -1;

                if (byte >= 0) {
                        if (n < size)
                                dst[n] = (char)byte;
                        n++;
                        i += (size_t)len;
                        continue;
                }
                /* Not of the table: the character stands for itself. */
                for (int k = 0; k < MAX(len, 1); k++, n++, i++)
                        if (n < size)
                                dst[n] = s->data[i];
        }
        return n;
}

const struct tok_ops tok_ops_bpe = {
        .model = "gpt2",
        .default_bos = 11,
        .default_eos = 11,
        .default_unk = -1,
        .defaults_if_control = true,
        .load = bpe_load,
        .unload = bpe_unload,
        .encode = bpe_encode,
        .memory = bpe_memory,
        .piece = bpe_piece,
};
