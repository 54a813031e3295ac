/* SPDX-License-Identifier: MIT */
/*
 * What clients read of a reply: its tokens as text, and as parts if they want that.
 *
 * 1. Tokens go in, one at a time; bytes of the text come out. They are held back while they may be the
 *    beginning of a stop string. A stop string ends the text in front of it.
 * 2. All of it is a function of the tokens and the stop strings. So whoever reads a reply later, from
 *    its tokens, reads the same pieces (attach.c).
 * 3. Parts are read of the text that may be sent (parts.c).
 */
#include <string.h>

#include "engine/run/state.h"

void reply_text_init(
        struct reply_text *t, struct charge *charge, const char *const *stops, size_t n_stops) {
        t->held.charge = t->text.charge = charge;
        reply_parts_init(&t->parts, charge);
        t->stops = stops;
        t->n_stops = n_stops;
}

void reply_text_deinit(struct reply_text *t) {
        buf_deinit(&t->held);
        buf_deinit(&t->text);
        reply_parts_deinit(&t->parts);
}

/* The earliest stop string in the held text: its position, or SIZE_MAX. */
static size_t find_stop(const struct reply_text *t, const char **ret) {
        const struct buf *h = &t->held;
        size_t best = SIZE_MAX;

        for (size_t i = 0; i < t->n_stops; i++) {
                size_t n = strlen(t->stops[i]);
                const uint8_t *p = h->size ? memmem(h->data, h->size, t->stops[i], n) : NULL;

                if (p && (size_t)(p - h->data) < best) {
                        best = (size_t)(p - h->data);
                        *ret = t->stops[i];
                }
        }
        return best;
}

/* Bytes at the end of the held text that may be the beginning of a stop string. */
static size_t partial_stop(const struct reply_text *t) {
        const struct buf *h = &t->held;
        size_t most = 0;

        for (size_t i = 0; i < t->n_stops; i++) {
                size_t n = strlen(t->stops[i]);

                for (size_t k = MIN(n - 1, h->size); k > most; k--)
                        if (memcmp(h->data + h->size - k, t->stops[i], k) == 0) {
                                most = k;
                                break;
                        }
        }
        return most;
}

/* Append the token's text to the held text. A NUL, which strings cannot have, becomes U+FFFD. */
static int push_text(const struct engine *engine, struct reply_text *t, int32_t token) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        size_t n = t->held.size;
        int r = tok_stream_push(&t->stream, engine->tok, token, &text);

        if (r == 0)
                r = buf_append_text(&t->held, text.data, text.size);
        if (r == 0 && t->parts.reader)
                r = reply_parts_wait(&t->parts, token, t->held.size - n, t->stream.n_held > 0);
        return r;
}

int reply_text_push(const struct engine *engine, struct reply_text *t, int32_t token, bool is_end,
        size_t *ret_n) {
        int r;

        if (is_end) {
                *ret_n = 0;
                return t->parts.reader ? reply_parts_wait(&t->parts, token, 0, false) : 0;
        }
        r = push_text(engine, t, token);
        if (r < 0)
                return r;
        *ret_n = find_stop(t, &t->stop);
        if (t->stop)
                t->held.size = *ret_n;
        else
                *ret_n = t->held.size - partial_stop(t);
        return 0;
}

/* At a stop string the rest of the parts is read, too. */
int reply_text_release(struct reply_text *t, size_t n) {
        int r = n > 0 ? buf_append(&t->text, t->held.data, n) : 0;
        struct err e;

        if (r < 0)
                return r;
        buf_consume(&t->held, n);
        if (!t->parts.reader || t->parts.ended)
                return 0;
        r = reply_parts_release(&t->parts, n, &e);
        return r == 0 && t->stop ? reply_parts_end(&t->parts, &t->text, true, &e) : r;
}

int reply_text_finish(struct reply_text *t, size_t *ret_n) {
        int r = tok_stream_finish(&t->stream, &t->held);

        if (r == 0 && t->parts.reader && !t->parts.ended)
                r = reply_parts_end(&t->parts, &t->text, false, NULL);
        *ret_n = t->held.size;
        return r;
}

void reply_text_drop(const struct engine *engine, struct reply_text *t) {
        t->held.size = 0;
        t->stop = NULL;
        reply_parts_drop(&t->parts);
        tok_stream_init(&t->stream, engine->tok, false, false);
}
