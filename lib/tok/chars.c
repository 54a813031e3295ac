/* SPDX-License-Identifier: MIT */
/*
 * Text as the characters that SPM and BPE over characters merge, a space written U+2581 where the
 * vocabulary wants that. Text is divided into stretches that are merged by themselves: a stretch
 * ends where no token has the bytes before and after the end side by side.
 *
 * A byte that begins no character is a symbol of its own.
 */
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "tok/tok-internal.h"

size_t tok_char_size(const char *text, size_t n) {
        int len = (uint8_t)text[0] < 0x80 ? 1 : utf8_decode((const uint8_t *)text, n, NULL);

        return len < 1 ? 1 : (size_t)len;
}

struct tok_stretch tok_stretch_next(const struct tok *t, const char *text, size_t n,
        const struct tok_chars *chars, bool prefix) {
        struct tok_stretch s = {0, prefix, prefix ? TOK_SPACE_SIZE : 0};
        uint8_t last = prefix ? (uint8_t)TOK_SPACE[2] : 0;

        while (s.size < n) {
                const char *p = text + s.size;
                bool space = *p == ' ' && chars->escape;
                uint8_t first = (uint8_t)(space ? TOK_SPACE[0] : *p);
                size_t len = tok_char_size(p, n - s.size);

                if (s.n_chars > 0 && !tok_may_join(&t->joins, last, first))
                        break;
                last = (uint8_t)(space ? TOK_SPACE[2] : p[len - 1]);
                s.size += len;
                s.n_chars++;
                s.n_bytes += space ? TOK_SPACE_SIZE : len;
        }
        return s;
}

static int stretch_write(struct tok_work *w, const char *text, struct tok_stretch s,
        const struct tok_chars *chars, bool prefix, struct err *e) {
        int r = tok_work_reserve_buffer(w, s.n_bytes, e);

        if (r < 0)
                return r;
        w->text = w->buffer;
        w->text_size = 0;
        if (prefix) {
                memcpy(w->buffer, TOK_SPACE, TOK_SPACE_SIZE);
                w->text_size = TOK_SPACE_SIZE;
        }
        for (size_t i = 0; i < s.size; i++)
                if (text[i] == ' ' && chars->escape) {
                        memcpy(w->buffer + w->text_size, TOK_SPACE, TOK_SPACE_SIZE);
                        w->text_size += TOK_SPACE_SIZE;
                } else
                        w->buffer[w->text_size++] = text[i];
        return 0;
}

static int stretch_merge(const struct tok *t, struct tok_work *w, size_t n_chars,
        const struct tok_chars *chars, struct err *e) {
        int r = tok_work_reserve_symbols(w, n_chars, e);

        if (r < 0)
                return r;
        w->n_symbols = 0;
        for (size_t at = 0; at < w->text_size;) {
                size_t len = tok_char_size(w->text + at, w->text_size - at);

                w->symbols[w->n_symbols++] = (struct tok_symbol){
                        .start = (uint32_t)at, .id = chars->symbol(t, w->text + at, len)};
                at += len;
        }
        return tok_merge(t, w, chars->pair, e);
}

int tok_stretch_encode(const struct tok *t, struct tok_work *w, const char *text,
        struct tok_stretch s, const struct tok_chars *chars, bool prefix, struct tok_out *out,
        struct err *e) {
        int32_t whole = -1;
        int r = stretch_write(w, text, s, chars, prefix, e);

        if (r < 0)
                return r;
        if (w->text_size <= t->vocab.max_size)
                whole = tok_vocab_find(&t->vocab, w->text, w->text_size);
        if (tok_merges_to(t, whole))
                return tok_out_push(out, whole, e);
        r = stretch_merge(t, w, s.n_chars, chars, e);
        if (r < 0)
                return r;
        tok_note_merged(t, w, whole);
        return chars->emit(t, w, out, e);
}

size_t tok_stretches_memory(const struct tok *t, const char *text, size_t n,
        const struct tok_chars *chars, bool prefix) {
        size_t n_chars = 0, n_bytes = 0;

        while (n > 0) {
                struct tok_stretch s = tok_stretch_next(t, text, n, chars, prefix);

                n_chars = MAX(n_chars, s.n_chars);
                n_bytes = MAX(n_bytes, s.n_bytes);
                text += s.size;
                n -= s.size;
                prefix = false;
        }
        return tok_symbols_memory(n_chars) + MAX(n_bytes, (size_t)TOK_MIN_BUFFER);
}

/* --- byte tokens --- */

void tok_load_bytes(const struct tok *t, int32_t byte[256]) {
        static const char hex[] = "0123456789ABCDEF";

        for (unsigned i = 0; i < 256; i++) {
                const char text[] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
                const char one = (char)i;
                int32_t id = tok_vocab_find(&t->vocab, text, sizeof(text));

                if (id < 0)
                        id = tok_vocab_find(&t->vocab, &one, 1);
                if (id >= 0 && t->vocab.type[id] != TOK_CONTROL && t->vocab.type[id] != TOK_UNKNOWN)
                        byte[i] = id;
                else
                        byte[i] = -1;
        }
}

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

/* The byte that the text of a byte token (<0xXX>) names, or -1. */
static int byte_of(const struct gguf_str *s) {
        int high, low;

        if (s->size != 6 || memcmp(s->data, "<0x", 3) != 0 || s->data[5] != '>')
                return -1;
        high = hex_value(s->data[3]);
        low = hex_value(s->data[4]);
        return high < 0 || low < 0 ? -1 : high << 4 | low;
}

size_t tok_chars_piece(const struct tok *t, int32_t token, bool escape, char *dst, size_t size) {
        const struct gguf_str *s = &t->vocab.text[token];
        size_t n = 0;

        if (t->vocab.type[token] == TOK_BYTE) {
                int byte = byte_of(s);

                if (byte >= 0) {
                        if (size > 0)
                                dst[0] = (char)byte;
                        return 1;
                }
        }
        for (size_t i = 0; i < s->size; n++) {
                char c = s->data[i];

                if (escape && s->size - i >= TOK_SPACE_SIZE &&
                        memcmp(s->data + i, TOK_SPACE, TOK_SPACE_SIZE) == 0) {
                        c = ' ';
                        i += TOK_SPACE_SIZE;
                } else
                        i++;
                if (n < size)
                        dst[n] = c;
        }
        return n;
}
