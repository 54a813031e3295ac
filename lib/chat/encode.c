/* SPDX-License-Identifier: MIT */
/*
 * Text of a chat format to tokens: memory is reserved in the charge of the tokens, the begin token
 * is put in front, and a token that the history has already is taken out again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "base/util.h"
#include "chat/chat-internal.h"

/* Remember in @out that it was the charge that refused, as tok_ids_append() does. */
static int take(struct tok_ids *out, size_t n, struct err *e) {
        int r = out->charge ? charge_take(out->charge, n, "tokenising a message", e) : 0;

        out->refused = r < 0;
        return r;
}

static void give(struct tok_ids *out, size_t n) {
        if (out->charge)
                charge_give(out->charge, n);
}

static int put_bos(
        const struct tok *t, const struct chat_join *join, struct tok_ids *out, struct err *e) {
        const int32_t bos = tok_bos(t);

        return join->bos && tok_add_bos(t) && bos >= 0 ? tok_ids_append(out, &bos, 1, e) : 0;
}

/* Behind the encoding into @out of one token more than @max allows. */
static int leave_out(const struct chat_join *join, size_t n_before, size_t n_text, size_t max,
        int r, struct tok_ids *out, struct err *e) {
        if (r >= 0 && join->skip >= 0 && out->n > n_text && out->ids[n_text] == join->skip) {
                out->n--;
                memmove(out->ids + n_text, out->ids + n_text + 1,
                        (out->n - n_text) * sizeof(*out->ids));
        }
        if (r >= 0 && max > 0 && out->n - n_before > max)
                r = err_set(e, ERR_LIMIT, "the message has more tokens than the limit allows");
        if (r < 0)
                out->n = n_before;
        return r < 0 ? r : 0;
}

int chat_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n,
        const struct chat_join *join, size_t max, struct tok_ids *out, struct err *e) {
        size_t n_before = out->n, n_text, size = tok_encode_memory(t, fragments, n);
        int r = take(out, size, e);

        if (r < 0)
                return r;
        r = put_bos(t, join, out, e);
        n_text = out->n;
        if (r >= 0)
                r = tok_encode(t, fragments, n, false, join->starts, max > 0 ? max + 1 : 0, out, e);
        give(out, size);
        return leave_out(join, n_before, n_text, max, r, out, e);
}

size_t chat_trusted(
        const struct jinja_out *rendering, size_t from, size_t to, struct tok_range *ret) {
        size_t n = 0;

        for (size_t i = 0; i < rendering->n_spans; i++) {
                const struct jinja_span *s = &rendering->spans[i];
                size_t start = MAX(s->offset, from), end = MIN(s->offset + s->size, to);

                if (s->trusted && end > start)
                        ret[n++] = (struct tok_range){start - from, end - start};
        }
        return n;
}

/* Whether the template wrote the begin token at @from itself. */
static bool begins_with_bos(const struct tok *t, const char *text, size_t size,
        const struct tok_range *trusted, size_t n_trusted) {
        size_t n;
        const char *bos = tok_text(t, tok_bos(t), &n);

        return n > 0 && n <= size && n_trusted > 0 && trusted[0].start == 0 &&
               trusted[0].size >= n && memcmp(text, bos, n) == 0;
}

int chat_encode_rendering(const struct tok *t, const struct jinja_out *rendering, size_t from,
        size_t to, const struct chat_join *join, size_t max, struct tok_ids *out, struct err *e) {
        _cleanup_(freep) struct tok_range *trusted = NULL;
        size_t n_before = out->n, n_text, n_trusted, size;
        const char *text = rendering->text + from;
        struct chat_join j = *join;
        int r;

        size = (rendering->n_spans + 1) * sizeof(*trusted) +
               tok_encode_trusted_memory(t, text, to - from, rendering->n_spans);
        r = take(out, size, e);
        if (r < 0)
                return r;
        trusted = calloc(rendering->n_spans + 1, sizeof(*trusted));
        if (!trusted) {
                give(out, size);
                return err_set(e, ERR_NOMEM, "out of memory for a message");
        }
        n_trusted = chat_trusted(rendering, from, to, trusted);
        j.bos = j.bos && !begins_with_bos(t, text, to - from, trusted, n_trusted);
        r = put_bos(t, &j, out, e);
        n_text = out->n;
        if (r >= 0)
                r = tok_encode_trusted(t, text, to - from, trusted, n_trusted, j.starts,
                        max > 0 ? max + 1 : 0, out, e);
        give(out, size);
        return leave_out(&j, n_before, n_text, max, r, out, e);
}
