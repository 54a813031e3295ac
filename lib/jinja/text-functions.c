/* SPDX-License-Identifier: MIT */
/* What filters and methods of strings have in common. All keep the origin of each byte. */
#include "base/utf8.h"
#include "base/util.h"
#include "jinja/run.h"
#include "jinja/unicode.h"
#include <string.h>

size_t string_find(const struct string *s, size_t at, const struct string *what) {
        const char *p;

        if (at > s->n || what->n > s->n - at)
                return SIZE_MAX;
        if (what->n == 0)
                return at;
        p = memmem(s->text + at, s->n - at, what->text, what->n);
        return p ? (size_t)(p - s->text) : SIZE_MAX;
}

/* Whether the character [i, i + k) of @s is one of @set, or white space without a set. */
static bool in_set(const struct string *s, size_t i, size_t k, const struct string *set) {
        if (set)
                return memmem(set->text, set->n, s->text + i, k) != NULL;
        return utf8_is_space(char_at(s->text, s->n, i, &k));
}

const struct string *string_trim(
        struct run *r, const struct string *s, const struct string *set, bool left, bool right) {
        size_t from = 0, to = s->n, k;

        if (!run_bytes(r, s->n) || (set && !run_work(r, (s->n / 32 + 1) * (set->n / 8 + 1))))
                return s;
        while (left && from < to) {
                char_at(s->text, s->n, from, &k);
                if (!in_set(s, from, k, set))
                        break;
                from += k;
        }
        while (right && from < to) {
                size_t last = to - 1;

                while (last > from && to - last < 4 && ((uint8_t)s->text[last] & 0xC0) == 0x80)
                        last--;
                char_at(s->text, s->n, last, &k);
                if (last + k != to) { /* ill-formed: bytes are characters */
                        last = to - 1;
                        k = 1;
                }
                if (!in_set(s, last, k, set))
                        break;
                to = last;
        }
        return string_slice(&r->arena, s, from, to);
}

typedef unsigned convert_fn(uint32_t c, uint32_t out[3]);

static void add_converted(struct text *t, const struct string *s, size_t i, size_t k, uint32_t c,
        convert_fn *convert) {
        uint32_t out[3];
        unsigned n;

        if (c >= CHAR_BAD) {
                text_add_part(t, s, i, i + k);
                return;
        }
        n = convert(c, out);
        for (unsigned m = 0; m < n; m++)
                text_add_char(t, out[m], string_trusted_all(s, i, i + k));
}

/* The same for ASCII, in place. */
static void convert_ascii(struct text *t, convert_fn *first, convert_fn *rest) {
        uint8_t table[2][0x80];
        uint32_t out[3];

        for (uint32_t c = 0; c < 0x80; c++) {
                first(c, out);
                table[0][c] = (uint8_t)out[0];
                rest(c, out);
                table[1][c] = (uint8_t)out[0];
        }
        for (size_t i = 0; i < t->used; i++)
                t->data[i] = (char)table[i > 0][t->data[i] & 0x7F];
}

static const struct string *convert_all(
        struct run *r, const struct string *s, convert_fn *first, convert_fn *rest) {
        struct text *t = text_new(&r->arena, s->n);

        if (!run_work(r, 8 + (s->n_chars == s->n ? s->n / 16 : s->n)))
                return s;
        if (s->n_chars == s->n && t) {
                text_add_string(t, s);
                convert_ascii(t, first, rest);
                return text_finish(t);
        }
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t c = char_at(s->text, s->n, i, &k);

                add_converted(t, s, i, k, c, i == 0 ? first : rest);
        }
        return text_finish(t);
}

const struct string *string_upper(struct run *r, const struct string *s) {
        return convert_all(r, s, unicode_upper, unicode_upper);
}

const struct string *string_lower(struct run *r, const struct string *s) {
        return convert_all(r, s, unicode_lower, unicode_lower);
}

const struct string *string_capitalize(struct run *r, const struct string *s) {
        return convert_all(r, s, unicode_title, unicode_lower);
}

/*
 * The bytes of @to are trusted in the result only where the bytes that they stand for were: where
 * data contains @from, data decides where @to appears.
 */
static void add_replacement(struct text *t, const struct string *to, bool trusted) {
        if (trusted)
                text_add_string(t, to);
        else
                text_add(t, to->text, to->n, false);
}

/* @to in front of each character and at the end. */
static const struct string *insert_between(
        struct run *r, const struct string *s, const struct string *to, int64_t count) {
        struct text *t = text_new(&r->arena, 0);
        size_t i = 0, k;

        for (; i < s->n && run_bytes(r, to->n); i += k, count--) {
                char_at(s->text, s->n, i, &k);
                if (count > 0)
                        add_replacement(t, to, string_trusted_all(s, i, i + k));
                text_add_part(t, s, i, i + k);
        }
        if (count > 0)
                add_replacement(t, to, string_trusted_all(s, 0, s->n));
        return text_finish(t);
}

const struct string *string_replace(struct run *r, const struct string *s,
        const struct string *from, const struct string *to, int64_t count) {
        struct text *t;
        size_t at = 0, found;

        if (count < 0)
                count = INT64_MAX;
        if (!run_bytes(r, 2 * s->n))
                return s;
        if (from->n == 0)
                return insert_between(r, s, to, count);
        if (string_find(s, 0, from) == SIZE_MAX)
                return s;
        t = text_new(&r->arena, s->n);
        while (count-- > 0 && (found = string_find(s, at, from)) != SIZE_MAX) {
                if (!run_bytes(r, to->n))
                        return s;
                text_add_part(t, s, at, found);
                add_replacement(t, to, string_trusted_all(s, found, found + from->n));
                at = found + from->n;
        }
        text_add_part(t, s, at, s->n);
        return text_finish(t);
}

const struct string *string_center(struct run *r, const struct string *s, int64_t width,
        const struct string *fill, double left_share) {
        struct text *t;
        int64_t pad = width - (int64_t)s->n_chars, left;

        if (width <= (int64_t)s->n_chars || !run_bytes(r, (uint64_t)pad * fill->n + s->n) ||
                !run_work(r, (uint64_t)pad))
                return s;
        left = left_share == 0.5 ? pad / 2 + (pad & width & 1) : left_share > 0.5 ? pad : 0;
        t = text_new(&r->arena, (size_t)pad * fill->n + s->n);
        for (int64_t i = 0; i < left; i++)
                text_add_string(t, fill);
        text_add_string(t, s);
        for (int64_t i = left; i < pad; i++)
                text_add_string(t, fill);
        return text_finish(t);
}

/* Bytes of the line end at @i (1 to 3), 0 if there is none. */
static size_t line_end(const struct string *s, size_t i) {
        size_t k;
        uint32_t c = char_at(s->text, s->n, i, &k);

        if (c == '\r' && i + 1 < s->n && s->text[i + 1] == '\n')
                return 2;
        if ((c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
                c == 0x2029)
                return k;
        return 0;
}

struct list *string_splitlines(struct run *r, const struct string *s, bool keep) {
        struct list *l = list_new(&r->arena, 0);
        size_t from = 0;

        if (!run_work(r, 1 + s->n / 8))
                return l;
        for (size_t i = 0, k; i < s->n; i += k) {
                size_t end = line_end(s, i);

                char_at(s->text, s->n, i, &k);
                if (end == 0)
                        continue;
                k = end;
                if (!run_work(r, 1))
                        return l;
                list_add(&r->arena, l,
                        v_string(string_slice(&r->arena, s, from, keep ? i + end : i)));
                from = i + end;
        }
        if (from < s->n)
                list_add(&r->arena, l, v_string(string_slice(&r->arena, s, from, s->n)));
        return l;
}
