/* SPDX-License-Identifier: MIT */
/*
 * Tokens to text. A stream's output is always well-formed UTF-8: the bytes of an incomplete
 * character are held back, and each byte that can't become part of a character any more is replaced
 * by U+FFFD.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/tok-internal.h"

static size_t piece_copy(const struct gguf_str *s, char *dst, size_t size) {
        if (size > 0)
                memcpy(dst, s->data, MIN(size, s->size));
        return s->size;
}

size_t tok_piece(const struct tok *t, int32_t token, bool special, char *dst, size_t size) {
        if (token < 0 || (uint32_t)token >= t->vocab.n)
                return 0;
        switch (t->vocab.type[token]) {
        case TOK_CONTROL:
        case TOK_UNKNOWN:
                return special ? piece_copy(&t->vocab.text[token], dst, size) : 0;
        case TOK_USER_DEFINED:
                return piece_copy(&t->vocab.text[token], dst, size);
        case TOK_NORMAL:
        case TOK_BYTE:
                return t->ops->piece(t, token, dst, size);
        default:
                return 0;
        }
}

void tok_stream_init(struct tok_stream *s, const struct tok *t, bool at_start, bool special) {
        *s = (struct tok_stream){
                .special = special,
                .strip_space = at_start && t->add_space_prefix,
        };
}

/* Append what is well-formed in p[0..n); returns how many bytes at the end are an unfinished
 * character, or a negative error. */
static int stream_append(struct buf *out, const uint8_t *p, size_t n) {
        size_t at = 0, from = 0;
        int r = 0;

        while (r >= 0 && at < n) {
                int len = utf8_decode(p + at, n - at, NULL);

                if (len > 0) {
                        at += (size_t)len;
                        continue;
                }
                if (at > from)
                        r = buf_append(out, p + from, at - from);
                if (len < 0) /* a beginning: wait for the rest */
                        return r < 0 ? r : (int)(n - at);
                if (r >= 0)
                        r = buf_append_str(out, "\xef\xbf\xbd");
                from = ++at;
        }
        if (r >= 0 && at > from)
                r = buf_append(out, p + from, at - from);
        return r < 0 ? r : 0;
}

int tok_stream_push(struct tok_stream *s, const struct tok *t, int32_t token, struct buf *out) {
        _cleanup_(freep) char *large = NULL;
        char small[512], *piece = small;
        size_t n_before = out->size, n_held = s->n_held, n;
        bool strip = s->strip_space;
        int r;

        n = tok_piece(t, token, s->special, small + n_held, sizeof(small) - n_held);
        if (n > sizeof(small) - n_held) {
                piece = large = malloc(n_held + n);
                if (!piece)
                        return -ERR_NOMEM;
                tok_piece(t, token, s->special, piece + n_held, n);
        }
        if (n == 0)
                return 0;
        memcpy(piece, s->held, n_held);
        if (strip && !tok_is_control(t, token) && n_held == 0 && piece[0] == ' ') {
                piece++;
                n--;
        }
        r = stream_append(out, (const uint8_t *)piece, n_held + n);
        if (r < 0) {
                out->size = n_before;
                if (out->data)
                        out->data[n_before] = 0;
                return r;
        }
        if (!tok_is_control(t, token))
                s->strip_space = false;
        s->n_held = (uint8_t)r;
        memcpy(s->held, piece + n_held + n - r, (size_t)r);
        return 0;
}

int tok_stream_finish(struct tok_stream *s, struct buf *out) {
        size_t n_before = out->size;
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < s->n_held; i++)
                r = buf_append_str(out, "\xef\xbf\xbd");
        if (r < 0) {
                out->size = n_before;
                if (out->data)
                        out->data[n_before] = 0;
                return r;
        }
        s->n_held = 0;
        return 0;
}
