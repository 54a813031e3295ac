/* SPDX-License-Identifier: MIT */
/* Methods of strings, as Python's. */
#include "base/utf8.h"
#include "base/util.h"
#include "jinja/run.h"
#include "jinja/unicode.h"
#include <string.h>

static struct value m_strip_sides(struct run *r, const struct call *c, bool left, bool right) {
        struct value v;
        const struct string *set = NULL;

        if (!bind_args(r, c, "chars", 0, &v))
                return UNDEFINED;
        if (v.type != T_NONE && !(v.type == T_UNDEFINED && !v.missing))
                set = arg_string(r, c, v, NULL);
        return v_string(string_trim(r, c->self.s, set, left, right));
}

static struct value m_strip(struct run *r, const struct call *c) {
        return m_strip_sides(r, c, true, true);
}

static struct value m_lstrip(struct run *r, const struct call *c) {
        return m_strip_sides(r, c, true, false);
}

static struct value m_rstrip(struct run *r, const struct call *c) {
        return m_strip_sides(r, c, false, true);
}

/* @s is split at @separator from the left, at most @max times (< 0: any number). */
static struct list *split_at(
        struct run *r, const struct string *s, const struct string *separator, int64_t max) {
        struct list *l = list_new(&r->arena, 0);
        size_t from = 0, at;

        while (max-- != 0 && (at = string_find(s, from, separator)) != SIZE_MAX && run_work(r, 1)) {
                list_add(&r->arena, l, v_string(string_slice(&r->arena, s, from, at)));
                from = at + separator->n;
        }
        list_add(&r->arena, l, v_string(string_slice(&r->arena, s, from, s->n)));
        return l;
}

/* Where @separator begins last in the first @n bytes of @s; SIZE_MAX: nowhere. */
static size_t find_last(const struct string *s, size_t n, const struct string *separator) {
        if (separator->n > n)
                return SIZE_MAX;
        for (size_t i = n - separator->n + 1; i > 0; i--)
                if (memcmp(s->text + i - 1, separator->text, separator->n) == 0)
                        return i - 1;
        return SIZE_MAX;
}

static void reverse_list(struct list *l) {
        for (size_t i = 0; i < l->n / 2; i++) {
                struct value v = l->items[i];

                l->items[i] = l->items[l->n - 1 - i];
                l->items[l->n - 1 - i] = v;
        }
}

static struct list *rsplit_at(
        struct run *r, const struct string *s, const struct string *separator, int64_t max) {
        struct list *l = list_new(&r->arena, 0);
        size_t to = s->n, at;

        run_work(r, (uint64_t)s->n * (separator->n / 32 + 1) / 4);
        while (max-- != 0 && run_work(r, 1) && (at = find_last(s, to, separator)) != SIZE_MAX) {
                list_add(&r->arena, l, v_string(string_slice(&r->arena, s, at + separator->n, to)));
                to = at;
        }
        list_add(&r->arena, l, v_string(string_slice(&r->arena, s, 0, to)));
        reverse_list(l);
        return l;
}

/* Whether the character at @i, whose length is *ret_length, is white space. */
static bool space_at(const struct string *s, size_t i, size_t *ret_length) {
        return utf8_is_space(char_at(s->text, s->n, i, ret_length));
}

/* Words between white space, at most @max splits from the left; the rest stays as it is. */
static struct list *split_words(struct run *r, const struct string *s, int64_t max) {
        struct list *l = list_new(&r->arena, 0);
        size_t i = 0, k, start;

        while (run_work(r, 1)) {
                while (i < s->n && space_at(s, i, &k))
                        i += k;
                if (i >= s->n)
                        break;
                if (max-- == 0) {
                        list_add(&r->arena, l, v_string(string_slice(&r->arena, s, i, s->n)));
                        break;
                }
                for (start = i; i < s->n && !space_at(s, i, &k); i += k)
                        ;
                list_add(&r->arena, l, v_string(string_slice(&r->arena, s, start, i)));
        }
        return l;
}

/* The same from the right. */
static struct list *rsplit_words(struct run *r, const struct string *s, int64_t max) {
        struct list *l = list_new(&r->arena, 0), *all = split_words(r, s, -1);
        size_t n_words = all->n;

        if (max < 0 || (int64_t)n_words <= max)
                return all;
        for (size_t i = n_words; i > n_words - (size_t)max; i--)
                list_add(&r->arena, l, all->items[i - 1]);
        s = max > 0 ? string_slice(&r->arena, s, 0,
                              (size_t)(all->items[n_words - (size_t)max].s->text - s->text))
                    : s;
        list_add(&r->arena, l, v_string(string_trim(r, s, NULL, false, true)));
        reverse_list(l);
        return l;
}

static struct value m_split_either(struct run *r, const struct call *c, bool right) {
        const struct string *s = c->self.s, *separator;
        struct value v[2];
        int64_t max;

        if (!bind_args(r, c, "sep maxsplit", 0, v) || !run_work(r, 1 + s->n / 8))
                return UNDEFINED;
        max = arg_int(r, c, v[1], -1);
        if (v[0].type == T_NONE || (v[0].type == T_UNDEFINED && !v[0].missing))
                return v_list(right ? rsplit_words(r, s, max) : split_words(r, s, max));
        separator = arg_string(r, c, v[0], NULL);
        if (!separator)
                return UNDEFINED;
        if (separator->n == 0)
                return run_fail(r, "%s() has an empty separator", c->name);
        return v_list(right ? rsplit_at(r, s, separator, max) : split_at(r, s, separator, max));
}

static struct value m_split(struct run *r, const struct call *c) {
        return m_split_either(r, c, false);
}

static struct value m_rsplit(struct run *r, const struct call *c) {
        return m_split_either(r, c, true);
}

static struct value m_splitlines(struct run *r, const struct call *c) {
        struct value v;

        if (!bind_args(r, c, "keepends", 0, &v))
                return UNDEFINED;
        return v_list(string_splitlines(r, c->self.s, arg_bool(v, false)));
}

/* The text before, the separator, and the text behind. */
static struct value partition(struct run *r, const struct call *c, bool right) {
        const struct string *s = c->self.s, *separator;
        struct list *l = list_new(&r->arena, 3);
        struct value v;
        size_t at;

        if (!bind_args(r, c, "sep", 1, &v) || !(separator = arg_string(r, c, v, NULL)) ||
                !run_work(r, (uint64_t)s->n * (separator->n / 32 + 1) / 8))
                return UNDEFINED;
        if (separator->n == 0)
                return run_fail(r, "%s() has an empty separator", c->name);
        at = right ? find_last(s, s->n, separator) : string_find(s, 0, separator);
        if (at == SIZE_MAX) {
                list_add(&r->arena, l, v_string(right ? string_empty() : s));
                list_add(&r->arena, l, v_string(string_empty()));
                list_add(&r->arena, l, v_string(right ? s : string_empty()));
                return v_tuple(l);
        }
        list_add(&r->arena, l, v_string(string_slice(&r->arena, s, 0, at)));
        list_add(&r->arena, l, v_string(string_slice(&r->arena, s, at, at + separator->n)));
        list_add(&r->arena, l, v_string(string_slice(&r->arena, s, at + separator->n, s->n)));
        return v_tuple(l);
}

static struct value m_partition(struct run *r, const struct call *c) {
        return partition(r, c, false);
}

static struct value m_rpartition(struct run *r, const struct call *c) {
        return partition(r, c, true);
}

static bool begins(const struct string *s, const struct string *with) {
        return with->n <= s->n && (with->n == 0 || memcmp(s->text, with->text, with->n) == 0);
}

static bool ends(const struct string *s, const struct string *with) {
        return with->n <= s->n &&
               (with->n == 0 || memcmp(s->text + s->n - with->n, with->text, with->n) == 0);
}

/* The characters [start, end) of the string that the method is called on, as Python clips them. */
static const struct string *window(struct run *r, const struct call *c, const struct value *v) {
        const struct value bounds[3] = {v[0].type == T_UNDEFINED ? NONE : v[0],
                v[1].type == T_UNDEFINED ? NONE : v[1], NONE};
        struct value s = get_slice(r, c->self, bounds);

        return s.type == T_STRING ? s.s : string_empty();
}

static struct value affix(struct run *r, const struct call *c,
        bool (*test)(const struct string *s, const struct string *with)) {
        struct value v[3];
        const struct string *s, *with;

        if (!bind_args(r, c, "affix start end", 1, v))
                return UNDEFINED;
        s = window(r, c, v + 1);
        if (v[0].type != T_TUPLE) {
                with = arg_string(r, c, v[0], NULL);
                return with && run_bytes(r, with->n) ? v_bool(test(s, with)) : UNDEFINED;
        }
        for (size_t i = 0; i < v[0].list->n; i++) {
                with = arg_string(r, c, v[0].list->items[i], NULL);
                if (!with || !run_bytes(r, with->n))
                        return UNDEFINED;
                if (test(s, with))
                        return v_bool(true);
        }
        return v_bool(false);
}

static struct value m_startswith(struct run *r, const struct call *c) {
        return affix(r, c, begins);
}

static struct value m_endswith(struct run *r, const struct call *c) {
        return affix(r, c, ends);
}

static struct value m_removeprefix(struct run *r, const struct call *c) {
        const struct string *with;
        struct value v;

        if (!bind_args(r, c, "prefix", 1, &v) || !(with = arg_string(r, c, v, NULL)) ||
                !run_bytes(r, c->self.s->n))
                return UNDEFINED;
        if (!begins(c->self.s, with))
                return c->self;
        return v_string(string_slice(&r->arena, c->self.s, with->n, c->self.s->n));
}

static struct value m_removesuffix(struct run *r, const struct call *c) {
        const struct string *with;
        struct value v;

        if (!bind_args(r, c, "suffix", 1, &v) || !(with = arg_string(r, c, v, NULL)) ||
                !run_bytes(r, c->self.s->n))
                return UNDEFINED;
        if (!ends(c->self.s, with))
                return c->self;
        return v_string(string_slice(&r->arena, c->self.s, 0, c->self.s->n - with->n));
}

static struct value m_upper(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_string(string_upper(r, c->self.s)) : UNDEFINED;
}

static struct value m_lower(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_string(string_lower(r, c->self.s)) : UNDEFINED;
}

static struct value m_capitalize(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_string(string_capitalize(r, c->self.s)) : UNDEFINED;
}

/* Each run of letters: the first in title case, the others in lower case. */
static struct value m_title(struct run *r, const struct call *c) {
        const struct string *s = c->self.s;
        struct text *t = text_new(&r->arena, s->n);
        bool inside = false;

        if (!bind_args(r, c, "", 0, NULL) || !run_work(r, 1 + s->n))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t ch = char_at(s->text, s->n, i, &k), out[3] = {ch};
                bool trusted = string_trusted_at(s, i);
                unsigned n = 1;

                if (ch < CHAR_BAD)
                        n = inside ? unicode_lower(ch, out) : unicode_title(ch, out);
                for (unsigned m = 0; m < n; m++)
                        text_add_char(t, out[m], trusted);
                inside = ch < CHAR_BAD && (unicode_is_upper(ch) || unicode_is_lower(ch));
        }
        return v_string(text_finish(t));
}

static struct value m_swapcase(struct run *r, const struct call *c) {
        const struct string *s = c->self.s;
        struct text *t = text_new(&r->arena, s->n);

        if (!bind_args(r, c, "", 0, NULL) || !run_work(r, 1 + s->n))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t ch = char_at(s->text, s->n, i, &k), out[3] = {ch};
                unsigned n = 1;

                if (ch < CHAR_BAD)
                        n = unicode_is_upper(ch) ? unicode_lower(ch, out) : unicode_upper(ch, out);
                for (unsigned m = 0; m < n; m++)
                        text_add_char(t, out[m], string_trusted_at(s, i));
        }
        return v_string(text_finish(t));
}

static struct value m_replace(struct run *r, const struct call *c) {
        const struct string *from, *to;
        struct value v[3];

        if (!bind_args(r, c, "old new count", 2, v) || !(from = arg_string(r, c, v[0], NULL)) ||
                !(to = arg_string(r, c, v[1], NULL)))
                return UNDEFINED;
        return v_string(string_replace(r, c->self.s, from, to, arg_int(r, c, v[2], -1)));
}

static struct value m_join(struct run *r, const struct call *c) {
        struct text *t = text_new(&r->arena, 0);
        struct value v;
        struct list *l;

        if (!bind_args(r, c, "iterable", 1, &v))
                return UNDEFINED;
        l = to_list(r, v);
        for (size_t i = 0; i < l->n && !run_failed(r); i++) {
                const struct string *s = arg_string(r, c, l->items[i], NULL);

                if (!s || !run_bytes(r, s->n + c->self.s->n))
                        return UNDEFINED;
                if (i > 0)
                        text_add_string(t, c->self.s);
                text_add_string(t, s);
        }
        return v_string(text_finish(t));
}

/* Where it is, in characters of the whole string, or -1. */
static int64_t find_index(struct run *r, const struct call *c, bool last) {
        const struct string *s, *what;
        struct value v[3];
        size_t at;

        if (!bind_args(r, c, "sub start end", 1, v) || !(what = arg_string(r, c, v[0], NULL)))
                return -1;
        s = window(r, c, v + 1);
        if (!run_work(r, 1 + (uint64_t)s->n * (last ? what->n / 32 + 1 : 1) / 8))
                return -1;
        at = last ? find_last(s, s->n, what) : string_find(s, 0, what);
        if (at == SIZE_MAX)
                return -1;
        if (s->n == 0) {
                int64_t start = arg_int(r, c, v[1], 0), n = (int64_t)c->self.s->n_chars;

                return start < 0 ? MAX(start + n, (int64_t)0) : start > n ? -1 : start;
        }
        return (int64_t)count_chars(c->self.s->text, (size_t)(s->text - c->self.s->text) + at);
}

static struct value m_find(struct run *r, const struct call *c) {
        return v_int(find_index(r, c, false));
}

static struct value m_rfind(struct run *r, const struct call *c) {
        return v_int(find_index(r, c, true));
}

static struct value m_index(struct run *r, const struct call *c) {
        int64_t i = find_index(r, c, false);

        return i >= 0 ? v_int(i) : run_fail(r, "the text is not found");
}

static struct value m_rindex(struct run *r, const struct call *c) {
        int64_t i = find_index(r, c, true);

        return i >= 0 ? v_int(i) : run_fail(r, "the text is not found");
}

static struct value m_count(struct run *r, const struct call *c) {
        const struct string *s, *what;
        struct value v[3];
        int64_t n = 0;

        if (!bind_args(r, c, "sub start end", 1, v) || !(what = arg_string(r, c, v[0], NULL)))
                return UNDEFINED;
        s = window(r, c, v + 1);
        if (what->n == 0)
                return v_int((int64_t)s->n_chars + 1);
        if (!run_work(r, 1 + s->n / 8))
                return UNDEFINED;
        for (size_t at = 0; (at = string_find(s, at, what)) != SIZE_MAX; at += what->n)
                n++;
        return v_int(n);
}

static struct value all_are(struct run *r, const struct call *c, bool (*test)(uint32_t c)) {
        const struct string *s = c->self.s;

        if (!bind_args(r, c, "", 0, NULL) || !run_work(r, 1 + s->n / 8))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k)
                if (!test(char_at(s->text, s->n, i, &k)))
                        return v_bool(false);
        return v_bool(s->n > 0);
}

static bool is_alnum(uint32_t c) {
        return unicode_is_alpha(c) || unicode_is_numeric(c);
}

static bool is_ascii(uint32_t c) {
        return c < 0x80;
}

static struct value m_isalpha(struct run *r, const struct call *c) {
        return all_are(r, c, unicode_is_alpha);
}

static struct value m_isalnum(struct run *r, const struct call *c) {
        return all_are(r, c, is_alnum);
}

static struct value m_isdigit(struct run *r, const struct call *c) {
        return all_are(r, c, unicode_is_digit);
}

static struct value m_isdecimal(struct run *r, const struct call *c) {
        return all_are(r, c, unicode_is_decimal);
}

static struct value m_isnumeric(struct run *r, const struct call *c) {
        return all_are(r, c, unicode_is_numeric);
}

static struct value m_isspace(struct run *r, const struct call *c) {
        return all_are(r, c, utf8_is_space);
}

static struct value m_isascii(struct run *r, const struct call *c) {
        return c->self.s->n == 0 ? v_bool(true) : all_are(r, c, is_ascii);
}

/* Cased characters of the one kind and none of the other. */
static struct value is_case(struct run *r, const struct call *c, bool (*wanted)(uint32_t c),
        bool (*other)(uint32_t c)) {
        const struct string *s = c->self.s;
        bool found = false;

        if (!bind_args(r, c, "", 0, NULL) || !run_work(r, 1 + s->n / 8))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t ch = char_at(s->text, s->n, i, &k);

                if (other(ch))
                        return v_bool(false);
                found = found || wanted(ch);
        }
        return v_bool(found);
}

static struct value m_islower(struct run *r, const struct call *c) {
        return is_case(r, c, unicode_is_lower, unicode_is_upper);
}

static struct value m_isupper(struct run *r, const struct call *c) {
        return is_case(r, c, unicode_is_upper, unicode_is_lower);
}

static struct value justify(struct run *r, const struct call *c, double left_share) {
        const struct string *fill, *blank = string_static(&r->arena, " ", false);
        struct value v[2];

        if (!bind_args(r, c, "width fillchar", 1, v) || !(fill = arg_string(r, c, v[1], blank)))
                return UNDEFINED;
        if (fill->n_chars != 1)
                return run_fail(r, "%s() fills with one character", c->name);
        return v_string(string_center(r, c->self.s, arg_int(r, c, v[0], 0), fill, left_share));
}

static struct value m_center(struct run *r, const struct call *c) {
        return justify(r, c, 0.5);
}

static struct value m_ljust(struct run *r, const struct call *c) {
        return justify(r, c, 0);
}

static struct value m_rjust(struct run *r, const struct call *c) {
        return justify(r, c, 1);
}

static struct value m_zfill(struct run *r, const struct call *c) {
        const struct string *s = c->self.s, *zero = string_static(&r->arena, "0", false), *digits;
        bool sign = s->n > 0 && (s->text[0] == '+' || s->text[0] == '-');
        struct value v;

        if (!bind_args(r, c, "width", 1, &v))
                return UNDEFINED;
        digits = string_slice(&r->arena, s, sign, s->n);
        digits = string_center(r, digits, arg_int(r, c, v, 0) - sign, zero, 1);
        return v_string(string_concat(&r->arena, string_slice(&r->arena, s, 0, sign), digits));
}

static const struct function string_methods[] = {{"strip", m_strip}, {"lstrip", m_lstrip},
        {"rstrip", m_rstrip}, {"split", m_split}, {"rsplit", m_rsplit},
        {"splitlines", m_splitlines}, {"partition", m_partition}, {"rpartition", m_rpartition},
        {"startswith", m_startswith}, {"endswith", m_endswith}, {"removeprefix", m_removeprefix},
        {"removesuffix", m_removesuffix}, {"upper", m_upper}, {"lower", m_lower},
        {"capitalize", m_capitalize}, {"title", m_title}, {"swapcase", m_swapcase},
        {"replace", m_replace}, {"join", m_join}, {"find", m_find}, {"rfind", m_rfind},
        {"index", m_index}, {"rindex", m_rindex}, {"count", m_count}, {"isalpha", m_isalpha},
        {"isalnum", m_isalnum}, {"isdigit", m_isdigit}, {"isdecimal", m_isdecimal},
        {"isnumeric", m_isnumeric}, {"isspace", m_isspace}, {"isascii", m_isascii},
        {"islower", m_islower}, {"isupper", m_isupper}, {"center", m_center}, {"ljust", m_ljust},
        {"rjust", m_rjust}, {"zfill", m_zfill}, {"format", format_braces}};

const struct function *string_method_find(const struct string *name) {
        return function_find(string_methods, ARRAY_SIZE(string_methods), name);
}
