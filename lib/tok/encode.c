/* SPDX-License-Identifier: MIT */
/*
 * Text to tokens: each fragment, or a text with trusted ranges, is cut at the special tokens that it
 * may contain; the ordinary text between them goes to the tokenizer kind's encode(). The output of
 * tok_encode() grows only on success.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

/* The allocator's grain: large blocks are whole pages. */
#define TOK_FIXED_MEMORY ((size_t)24 << 10)

int tok_stop(struct err *e) {
        return err_set(e, ERR_CANCELLED, "cancelled");
}

int tok_out_push(struct tok_out *out, int32_t id, struct err *e) {
        const struct tok_sink *s = out->sink;

        if (out->n >= out->n_max)
                return err_set(e, ERR_LIMIT, "the text has more tokens than the limit allows");
        if (s->stop && atomic_load_explicit(s->stop, memory_order_relaxed))
                return tok_stop(e);
        out->n++;
        return s->put(s->userdata, id, e);
}

static int tok_check_input(size_t size, struct err *e) {
        if (size > TOK_MAX_INPUT)
                return err_set(e, ERR_LIMIT,
                        "a text of %zu bytes is too long to tokenise (at most %u)", size,
                        TOK_MAX_INPUT);
        return 0;
}

/* The tokens of the text that w->spans partitions. */
static int tok_encode_spans(const struct tok *t, struct tok_work *w, const char *text, bool *starts,
        struct tok_out *out, struct err *e) {
        int r;

        for (size_t i = 0; i < w->spans.n; i++) {
                const struct tok_span *s = &w->spans.v[i];

                if (s->id >= 0)
                        r = tok_out_push(out, s->id, e);
                else
                        r = t->ops->encode(t, w, text + s->start, s->size, *starts, out, e);
                if (r < 0)
                        return r;
                *starts = s->id >= 0;
        }
        return 0;
}

static int tok_encode_fragment(const struct tok *t, struct tok_work *w,
        const struct tok_fragment *f, bool *starts, struct tok_out *out, struct err *e) {
        int r = tok_check_input(f->size, e);

        if (r < 0 || f->size == 0)
                return r;
        r = tok_partition(
                t, f->parse_special ? &t->parsed : &t->always, w, f->text, f->size, &w->spans, e);
        return r < 0 ? r : tok_encode_spans(t, w, f->text, starts, out, e);
}

/* A token covers at most as many bytes as the longest token text. */
size_t tok_fewest(const struct tok *t, size_t size) {
        return size / t->vocab.max_size;
}

/* Input that must exceed the limit is refused before any memory is spent on it. */
static int tok_check_size(const struct tok *t, const struct tok_fragment *fragments,
        size_t n_fragments, size_t max, struct err *e) {
        size_t n = 0;

        for (size_t i = 0; max > 0 && i < n_fragments; i++) {
                n += tok_fewest(t, fragments[i].size);
                if (n > max)
                        return err_set(
                                e, ERR_LIMIT, "the text has more tokens than the limit allows");
        }
        return 0;
}

static int tok_encode_to(const struct tok *t, const struct tok_fragment *fragments,
        size_t n_fragments, bool add_special, bool at_start, struct tok_out *out, struct err *e) {
        _cleanup_(tok_work_deinit) struct tok_work w = {.stop = out->sink->stop};
        bool starts = at_start;
        int r = 0;

        if (add_special && t->add_bos && t->bos >= 0)
                r = tok_out_push(out, t->bos, e);
        for (size_t i = 0; r >= 0 && i < n_fragments; i++)
                r = tok_encode_fragment(t, &w, &fragments[i], &starts, out, e);
        if (r >= 0 && add_special && t->add_eos && t->eos >= 0)
                r = tok_out_push(out, t->eos, e);
        return r < 0 ? r : 0;
}

int tok_encode_each(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, const struct tok_sink *sink, struct err *e) {
        struct tok_out out = {.sink = sink, .n_max = SIZE_MAX};

        return tok_encode_to(t, fragments, n_fragments, add_special, at_start, &out, e);
}

static int tok_put_id(void *userdata, int32_t token, struct err *e) {
        return tok_ids_append(userdata, &token, 1, e);
}

int tok_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, size_t max, struct tok_ids *out, struct err *e) {
        struct tok_sink sink = {.put = tok_put_id, .userdata = out, .stop = out->stop};
        struct tok_out to = {.sink = &sink, .n_max = max > 0 ? max : SIZE_MAX};
        size_t n_before = out->n;
        int r;

        r = tok_check_size(t, fragments, n_fragments, max, e);
        if (r >= 0)
                r = tok_encode_to(t, fragments, n_fragments, add_special, at_start, &to, e);
        if (r < 0)
                out->n = n_before;
        return r;
}

int tok_encode_trusted(const struct tok *t, const char *text, size_t size,
        const struct tok_range *trusted, size_t n_trusted, bool starts, size_t max,
        struct tok_ids *out, struct err *e) {
        _cleanup_(tok_work_deinit) struct tok_work w = {.stop = out->stop};
        const struct tok_fragment f = {text, size, false};
        struct tok_sink sink = {.put = tok_put_id, .userdata = out, .stop = out->stop};
        struct tok_out to = {.sink = &sink, .n_max = max > 0 ? max : SIZE_MAX};
        size_t n_before = out->n;
        int r = tok_check_input(size, e);

        if (r >= 0)
                r = tok_check_size(t, &f, 1, max, e);
        if (r < 0 || size == 0)
                return r;
        r = tok_partition_trusted(t, &w, text, size, trusted, n_trusted, &w.spans, e);
        if (r >= 0)
                r = tok_encode_spans(t, &w, text, &starts, &to, e);
        if (r < 0)
                out->n = n_before;
        return r < 0 ? r : 0;
}

int tok_find_special(const struct tok *t, const char *text, size_t size,
        const struct tok_range *trusted, size_t n_trusted, struct tok_place **ret, size_t *ret_n,
        struct err *e) {
        _cleanup_(tok_work_deinit) struct tok_work w = {0};
        struct tok_place *found;
        size_t n = 0;
        int r = tok_check_input(size, e);

        if (r >= 0)
                r = tok_partition_trusted(t, &w, text, size, trusted, n_trusted, &w.spans, e);
        if (r < 0)
                return r;
        found = calloc(w.spans.n + 1, sizeof(*found));
        if (!found)
                return err_set(e, ERR_NOMEM, "out of memory for %zu special tokens", w.spans.n);
        for (size_t i = 0; i < w.spans.n; i++) {
                const struct tok_span *s = &w.spans.v[i];

                if (s->id >= 0)
                        found[n++] = (struct tok_place){s->start, s->size, s->id};
        }
        *ret = found;
        *ret_n = n;
        return 0;
}

/* --- memory --- */

/* An upper bound of the specials found: the places where the first two bytes of one occur. */
static size_t tok_count_starts(
        const struct tok *t, const struct tok_specials *s, const char *text, size_t n) {
        struct tok_joins starts = {{0}};
        size_t n_starts = 0;

        if (s->n_sizes == 0)
                return 0;
        for (uint32_t i = 0; i <= s->mask; i++) {
                const struct gguf_str *special;

                if (s->slots[i].id_plus_1 == 0)
                        continue;
                special = &t->vocab.text[s->slots[i].id_plus_1 - 1];
                for (unsigned next = 0; special->size == 1 && next < 256; next++)
                        tok_joins_add(&starts, (uint8_t)special->data[0], (uint8_t)next);
                if (special->size > 1)
                        tok_joins_add(
                                &starts, (uint8_t)special->data[0], (uint8_t)special->data[1]);
        }
        for (size_t i = 0; i + 1 < n; i++)
                n_starts += tok_may_join(&starts, (uint8_t)text[i], (uint8_t)text[i + 1]);
        return n_starts + 1; /* the last byte */
}

/* tok_partition()'s lists, which double as they grow: hits; the text before each hit (twice, while
 * one search follows another); both together; and both once more while growing or sorting. */
static size_t tok_spans_memory(size_t n_hits) {
        return ((n_hits + 1) * (2 + 2 + 2 + 4 + 2 + 2) + 5 * 16) * sizeof(struct tok_span);
}

size_t tok_encode_memory(
        const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments) {
        size_t text = 0, spans = 0;

        for (size_t i = 0; i < n_fragments; i++) {
                const struct tok_fragment *f = &fragments[i];
                const struct tok_specials *s = f->parse_special ? &t->parsed : &t->always;

                if (f->size == 0 || f->size > TOK_MAX_INPUT)
                        continue;
                text = MAX(text, t->ops->memory(t, f->text, f->size));
                spans = MAX(spans, tok_spans_memory(tok_count_starts(t, s, f->text, f->size)));
        }
        return TOK_FIXED_MEMORY + text + spans;
}

size_t tok_encode_trusted_memory(
        const struct tok *t, const char *text, size_t size, size_t n_trusted) {
        size_t n_specials;

        if (size == 0 || size > TOK_MAX_INPUT)
                return TOK_FIXED_MEMORY;
        n_specials = tok_count_starts(t, &t->parsed, text, size);
        return TOK_FIXED_MEMORY + t->ops->memory(t, text, size) +
               tok_spans_memory(2 * n_specials + n_trusted);
}
