/* SPDX-License-Identifier: MIT */
/*
 * Fragments to tokens: each fragment is cut at the special tokens it may contain, the ordinary text
 * between them goes to the kind of tokenizer. The output grows only on success.
 */
#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

int tok_out_push(struct tok_out *out, int32_t id, struct err *e) {
        if (out->ids->n >= out->n_max)
                return err_set(e, ERR_LIMIT, "the text has more tokens than the limit allows");
        return tok_ids_append(out->ids, &id, 1, e);
}

static int tok_encode_fragment(const struct tok *t, struct tok_work *w,
        const struct tok_fragment *f, bool *starts, struct tok_out *out, struct err *e) {
        int r;

        if (f->size > TOK_MAX_INPUT)
                return err_set(e, ERR_LIMIT,
                        "a text of %zu bytes is too long to tokenise (at most %u)", f->size,
                        TOK_MAX_INPUT);
        if (f->size == 0)
                return 0;
        r = tok_partition(
                t, f->parse_special ? &t->parsed : &t->always, w, f->text, f->size, &w->spans, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < w->spans.n; i++) {
                const struct tok_span *s = &w->spans.v[i];

                if (s->id >= 0)
                        r = tok_out_push(out, s->id, e);
                else
                        r = t->ops->encode(t, w, f->text + s->start, s->size, *starts, out, e);
                if (r < 0)
                        return r;
                *starts = s->id >= 0;
        }
        return 0;
}

/* A token covers no more bytes than the longest text has: what is hopeless is refused before any
 * memory is spent on it. */
static int tok_check_size(const struct tok *t, const struct tok_fragment *fragments,
        size_t n_fragments, size_t max, struct err *e) {
        size_t n = 0;

        for (size_t i = 0; max > 0 && i < n_fragments; i++) {
                n += fragments[i].size / t->vocab.max_size;
                if (n > max)
                        return err_set(
                                e, ERR_LIMIT, "the text has more tokens than the limit allows");
        }
        return 0;
}

int tok_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, size_t max, struct tok_ids *out, struct err *e) {
        _cleanup_(tok_work_deinit) struct tok_work w = {0};
        size_t n_before = out->n;
        struct tok_out sink = {.ids = out, .n_max = SIZE_MAX};
        bool starts = at_start;
        int r;

        if (max > 0 && add_overflow(n_before, max, &sink.n_max))
                sink.n_max = SIZE_MAX;
        r = tok_check_size(t, fragments, n_fragments, max, e);
        if (r < 0)
                return r;
        if (add_special && t->add_bos && t->bos >= 0)
                r = tok_out_push(&sink, t->bos, e);
        for (size_t i = 0; r >= 0 && i < n_fragments; i++)
                r = tok_encode_fragment(t, &w, &fragments[i], &starts, &sink, e);
        if (r >= 0 && add_special && t->add_eos && t->eos >= 0)
                r = tok_out_push(&sink, t->eos, e);
        if (r < 0) {
                out->n = n_before;
                return r;
        }
        return 0;
}
