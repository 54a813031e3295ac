/* SPDX-License-Identifier: MIT */
/*
 * Special tokens in the input. The rule, the same in all implementations: look for the longest
 * special text first, everywhere, from the left; then for the next longest in the remaining text;
 * and so on.
 *
 * There is one search per text *size* rather than one per token: a rolling hash over a window of
 * that size is looked up in a table of the specials' hashes. So the cost is (sizes x bytes),
 * however many special tokens a file declares. A hit of the hash is always verified.
 *
 * Markers. Files declare tokens that structure a conversation either as control tokens or as
 * user-defined ones, and other programs find the latter in any text. Here a user-defined token that
 * a template writes is a marker:
 *
 * 1. A marker is found where a template's own strings are parsed, and nowhere else. User text that
 *    contains its text is tokenised as if the token did not exist.
 * 2. A token is a marker because of its form (<|...|>), or because its text has both letters and
 *    punctuation and occurs in a string given to tok_protect(). White space, dashes and words occur
 *    in every template and structure nothing: such tokens stay what the file says.
 *
 * A rendered template is one text, of which the template wrote some ranges and users the rest.
 *
 * 3. A control token or marker is found only inside one range of the template's. These are looked
 *    for first, so that no text of users, nor a token that reaches over a border, takes a place away
 *    from them. User-defined tokens are then looked for in all of the remaining text, over borders.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

static uint64_t special_hash(const struct tok_specials *s, const char *text, size_t n) {
        uint64_t h = 0;

        for (size_t i = 0; i < n; i++)
                h = h * s->base + (uint8_t)text[i] + 1;
        return h;
}

static uint32_t special_slot(const struct tok_specials *s, uint64_t hash) {
        return (uint32_t)((hash ^ hash >> 32) * 0x9e3779b97f4a7c15u >> 32) & s->mask;
}

static bool special_wanted(const struct tok *t, uint32_t id, bool parsed) {
        const struct tok_vocab *v = &t->vocab;

        switch (v->type[id]) {
        case TOK_USER_DEFINED:
                if (!parsed && (t->flags[id] & TOK_FLAG_MARKER))
                        return false;
                break;
        case TOK_CONTROL:
        case TOK_UNKNOWN:
                if (!parsed)
                        return false;
                break;
        default:
                return false;
        }
        /* Of equal texts only the one that is found by text. */
        return tok_vocab_find(v, v->text[id].data, v->text[id].size) == (int32_t)id;
}

static int special_compare_sizes(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return x < y ? 1 : x > y ? -1 : 0;
}

static void special_insert(struct tok_specials *s, const struct gguf_str *text, uint32_t id) {
        uint64_t hash = special_hash(s, text->data, text->size);
        uint32_t at = special_slot(s, hash);

        while (s->slots[at].id_plus_1 != 0)
                at = (at + 1) & s->mask;
        s->slots[at].hash = hash;
        s->slots[at].id_plus_1 = id + 1;
}

int tok_specials_build(struct tok_specials *s, const struct tok *t, bool parsed, struct err *e) {
        const struct tok_vocab *v = &t->vocab;
        uint32_t n = 0, n_slots = 16;
        size_t n_distinct = 0;

        for (uint32_t i = 0; i < v->n; i++) {
                if (!special_wanted(t, i, parsed))
                        continue;
                if (v->text[i].size > TOK_MAX_SPECIAL_SIZE)
                        return err_set(e, ERR_LIMIT,
                                "special token %u has a text of %zu bytes (at most %u)", i,
                                v->text[i].size, TOK_MAX_SPECIAL_SIZE);
                n++;
        }
        if (n == 0)
                return 0;
        while (n_slots < n * 2)
                n_slots *= 2;
        s->base = tok_random_seed() | 1;
        s->mask = n_slots - 1;
        s->slots = calloc(n_slots, sizeof(*s->slots));
        s->sizes = calloc(n, sizeof(*s->sizes));
        if (!s->slots || !s->sizes)
                return err_set(e, ERR_NOMEM, "out of memory for %u special tokens", n);
        for (uint32_t i = 0; i < v->n; i++)
                if (special_wanted(t, i, parsed)) {
                        special_insert(s, &v->text[i], i);
                        s->sizes[s->n_sizes++] = (uint32_t)v->text[i].size;
                }
        qsort(s->sizes, s->n_sizes, sizeof(*s->sizes), special_compare_sizes);
        for (size_t i = 0; i < s->n_sizes; i++)
                if (n_distinct == 0 || s->sizes[n_distinct - 1] != s->sizes[i])
                        s->sizes[n_distinct++] = s->sizes[i];
        s->n_sizes = n_distinct;
        return 0;
}

void tok_specials_deinit(struct tok_specials *s) {
        free(s->slots);
        free(s->sizes);
        *s = (struct tok_specials){0};
}

int tok_spans_push(struct tok_spans *s, uint32_t start, uint32_t size, int32_t id) {
        if (s->n == s->capacity) {
                size_t capacity = s->capacity * 2 + 16;
                struct tok_span *p = realloc(s->v, capacity * sizeof(*p));

                if (!p)
                        return -ERR_NOMEM;
                s->v = p;
                s->capacity = capacity;
        }
        s->v[s->n++] = (struct tok_span){start, size, id};
        return 0;
}

static int32_t special_at(const struct tok *t, const struct tok_specials *s, uint64_t hash,
        const char *text, size_t n) {
        uint32_t at;

        for (at = special_slot(s, hash); s->slots[at].id_plus_1 != 0; at = (at + 1) & s->mask) {
                uint32_t id = s->slots[at].id_plus_1 - 1;

                if (s->slots[at].hash == hash && t->vocab.text[id].size == n &&
                        memcmp(t->vocab.text[id].data, text, n) == 0)
                        return (int32_t)id;
        }
        return -1;
}

/* As isspace() in the C locale. */
static bool special_is_space(char c) {
        return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Search one stretch for specials of @size bytes; the remaining text goes to w->raw_next. */
static int special_search(const struct tok *t, const struct tok_specials *s, uint32_t size,
        struct tok_work *w, const char *text, struct tok_span raw) {
        uint32_t end = raw.start + raw.size, from = raw.start, at = raw.start;
        uint64_t hash = 0, top = 1; /* top: weight of the byte that leaves the window */
        bool fresh = true;
        int r;

        for (uint32_t i = 1; i < size; i++)
                top *= s->base;
        while (at <= end && end - at >= size) {
                uint32_t right;
                int32_t id;

                if (fresh)
                        hash = special_hash(s, text + at, size);
                fresh = false;
                id = special_at(t, s, hash, text + at, size);
                if (id < 0) {
                        if (end - at == size)
                                break;
                        hash -= ((uint8_t)text[at] + 1) * top;
                        hash = hash * s->base + (uint8_t)text[at + size] + 1;
                        at++;
                        continue;
                }
                right = at;
                if (t->flags[id] & TOK_FLAG_LSTRIP)
                        while (right > from && special_is_space(text[right - 1]))
                                right--;
                r = right > from ? tok_spans_push(&w->raw_next, from, right - from, -1) : 0;
                if (r >= 0)
                        r = tok_spans_push(&w->hits, at, size, id);
                if (r < 0)
                        return r;
                at += size;
                if (t->flags[id] & TOK_FLAG_RSTRIP)
                        while (at < end && special_is_space(text[at]))
                                at++;
                from = at;
                fresh = true;
        }
        return from < end ? tok_spans_push(&w->raw_next, from, end - from, -1) : 0;
}

/* Whether a text has both letters and punctuation. Bytes beyond ASCII count as letters. */
static bool marker_shape(const struct gguf_str *text) {
        bool letter = false, punctuation = false;

        for (size_t i = 0; i < text->size; i++) {
                uint8_t c = (uint8_t)text->data[i];

                if (c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
                        letter = true;
                else if (c > ' ' && c < 0x7f && !(c >= '0' && c <= '9'))
                        punctuation = true;
        }
        return letter && punctuation;
}

/* Whether a text is a marker by its form alone. Templates may put such texts together from parts
 * ("<|" + role + "|>"), and they cannot be anything but structure. */
static bool marker_by_form(const struct gguf_str *text) {
        static const char *const forms[][2] = {{"<|", "|>"}, {"<\xef\xbd\x9c", "\xef\xbd\x9c>"}};

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                size_t open = strlen(forms[i][0]), close = strlen(forms[i][1]);

                if (text->size > open + close && memcmp(text->data, forms[i][0], open) == 0 &&
                        memcmp(text->data + text->size - close, forms[i][1], close) == 0)
                        return true;
        }
        return false;
}

void tok_markers_by_form(struct tok *t) {
        for (uint32_t i = 0; i < t->vocab.n; i++)
                if (t->vocab.type[i] == TOK_USER_DEFINED && marker_by_form(&t->vocab.text[i]))
                        t->flags[i] |= TOK_FLAG_MARKER;
}

/* Mark all tokens of @size bytes that occur in the text, overlapping ones too. Returns how many
 * were not marked before. */
static size_t mark_occurrences(struct tok *t, uint32_t size, const char *text, size_t n) {
        const struct tok_specials *s = &t->parsed;
        uint64_t hash = special_hash(s, text, size), top = 1;
        size_t n_new = 0;

        for (uint32_t i = 1; i < size; i++)
                top *= s->base;
        for (size_t at = 0;; at++) {
                int32_t id = special_at(t, s, hash, text + at, size);

                if (id >= 0 && t->vocab.type[id] == TOK_USER_DEFINED &&
                        !(t->flags[id] & TOK_FLAG_MARKER) && marker_shape(&t->vocab.text[id])) {
                        t->flags[id] |= TOK_FLAG_MARKER;
                        n_new++;
                }
                if (at + size >= n)
                        return n_new;
                hash -= ((uint8_t)text[at] + 1) * top;
                hash = hash * s->base + (uint8_t)text[at + size] + 1;
        }
}

/* What merging has learned (tok->merged) stays true: a text with a user-defined token in it was cut
 * there until now, so no merged text had one. */
int tok_protect(struct tok *t, const char *text, size_t n, struct err *e) {
        struct tok_specials fresh = {0};
        size_t n_new = 0;
        int r;

        for (size_t i = 0; i < t->parsed.n_sizes; i++)
                if (t->parsed.sizes[i] <= n)
                        n_new += mark_occurrences(t, t->parsed.sizes[i], text, n);
        if (n_new == 0)
                return 0;
        r = tok_specials_build(&fresh, t, false, e);
        if (r < 0) {
                tok_specials_deinit(&fresh);
                return r;
        }
        tok_specials_deinit(&t->always);
        t->always = fresh;
        return 0;
}

static int span_compare(const void *a, const void *b) {
        const struct tok_span *x = a, *y = b;

        return x->start < y->start ? -1 : x->start > y->start ? 1 : 0;
}

/* Search w->raw for the set's texts: w->hits grows, w->raw is what remains. */
static int search_all(const struct tok *t, const struct tok_specials *s, struct tok_work *w,
        const char *text, size_t n) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < s->n_sizes; i++) {
                size_t n_hits = w->hits.n;
                struct tok_spans swap;

                if (s->sizes[i] > n)
                        continue;
                w->raw_next.n = 0;
                for (size_t k = 0; r >= 0 && k < w->raw.n; k++)
                        r = special_search(t, s, s->sizes[i], w, text, w->raw.v[k]);
                if (w->hits.n == n_hits)
                        continue;
                swap = w->raw;
                w->raw = w->raw_next;
                w->raw_next = swap;
        }
        return r;
}

/* Append w->hits and w->raw to @ret, and sort it. */
static int gather(struct tok_work *w, size_t n, struct tok_spans *ret, struct err *e) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < w->hits.n; i++)
                r = tok_spans_push(ret, w->hits.v[i].start, w->hits.v[i].size, w->hits.v[i].id);
        for (size_t i = 0; r >= 0 && i < w->raw.n; i++)
                r = tok_spans_push(ret, w->raw.v[i].start, w->raw.v[i].size, -1);
        if (r < 0)
                return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu bytes", n);
        if (ret->n > 0)
                qsort(ret->v, ret->n, sizeof(*ret->v), span_compare);
        return 0;
}

int tok_partition(const struct tok *t, const struct tok_specials *s, struct tok_work *w,
        const char *text, size_t n, struct tok_spans *ret, struct err *e) {
        int r;

        w->hits.n = w->raw.n = ret->n = 0;
        r = tok_spans_push(&w->raw, 0, (uint32_t)n, -1);
        if (r >= 0)
                r = search_all(t, s, w, text, n);
        if (r < 0)
                return err_set(e, -r, "out of memory to tokenise %zu bytes", n);
        return gather(w, n, ret, e);
}

/* --- a text with trusted ranges --- */

/* Whether only templates make this token. */
static bool special_is_trusted(const struct tok *t, int32_t id) {
        return t->vocab.type[id] != TOK_USER_DEFINED || (t->flags[id] & TOK_FLAG_MARKER);
}

/* w->raw becomes the text between the tokens in @ret, which are in order. White space that a token
 * swallows is left out, whoever wrote it. */
static int raw_between(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        const struct tok_spans *ret) {
        size_t from = 0;
        int r = 0;

        w->raw.n = 0;
        for (size_t i = 0; r >= 0 && i <= ret->n; i++) {
                size_t next = i < ret->n ? ret->v[i].start : n, end = next;

                if (i > 0 && (t->flags[ret->v[i - 1].id] & TOK_FLAG_RSTRIP))
                        while (from < end && special_is_space(text[from]))
                                from++;
                if (i < ret->n && (t->flags[ret->v[i].id] & TOK_FLAG_LSTRIP))
                        while (end > from && special_is_space(text[end - 1]))
                                end--;
                if (end > from)
                        r = tok_spans_push(&w->raw, (uint32_t)from, (uint32_t)(end - from), -1);
                from = i < ret->n ? next + ret->v[i].size : n;
        }
        return r;
}

int tok_partition_trusted(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        const struct tok_range *trusted, size_t n_trusted, struct tok_spans *ret, struct err *e) {
        int r = 0;

        w->hits.n = w->raw.n = ret->n = 0;
        for (size_t i = 0; r >= 0 && i < n_trusted; i++)
                r = tok_spans_push(
                        &w->raw, (uint32_t)trusted[i].start, (uint32_t)trusted[i].size, -1);
        if (r >= 0)
                r = search_all(t, &t->parsed, w, text, n);
        for (size_t i = 0; r >= 0 && i < w->hits.n; i++)
                if (special_is_trusted(t, w->hits.v[i].id))
                        r = tok_spans_push(
                                ret, w->hits.v[i].start, w->hits.v[i].size, w->hits.v[i].id);
        if (r >= 0 && ret->n > 0)
                qsort(ret->v, ret->n, sizeof(*ret->v), span_compare);
        if (r >= 0)
                r = raw_between(t, w, text, n, ret);
        w->hits.n = 0;
        if (r >= 0)
                r = search_all(t, &t->always, w, text, n);
        if (r < 0)
                return err_set(e, -r, "out of memory to tokenise %zu bytes", n);
        return gather(w, n, ret, e);
}
