/* SPDX-License-Identifier: MIT */
/* Filters of text. What they are applied to becomes a string first. */
#include "base/utf8.h"
#include "base/util.h"
#include "jinja/filters.h"
#include "jinja/unicode.h"
#include <stdio.h>
#include <string.h>

static struct value f_upper(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_string(string_upper(r, to_string(r, c->self)))
                                            : UNDEFINED;
}

static struct value f_lower(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_string(string_lower(r, to_string(r, c->self)))
                                            : UNDEFINED;
}

static struct value f_capitalize(struct run *r, const struct call *c) {
        return bind_args(r, c, "", 0, NULL) ? v_string(string_capitalize(r, to_string(r, c->self)))
                                            : UNDEFINED;
}

/* Words as they begin behind blanks, hyphens and opening brackets. */
static struct value f_title(struct run *r, const struct call *c) {
        const struct string *s = to_string(r, c->self);
        struct text *t = text_new(&r->arena, s->n);
        bool inside = false;

        if (!bind_args(r, c, "", 0, NULL) || !run_work(r, 1 + s->n))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t ch = char_at(s->text, s->n, i, &k), out[3] = {ch};
                unsigned n = 1;

                if (ch < CHAR_BAD)
                        n = inside ? unicode_lower(ch, out) : unicode_upper(ch, out);
                for (unsigned m = 0; m < n; m++)
                        text_add_char(t, out[m], string_trusted_at(s, i));
                inside = !(utf8_is_space(ch) || (ch > 0 && ch < 0x80 && strchr("-({[<", (int)ch)));
        }
        return v_string(text_finish(t));
}

static struct value f_trim(struct run *r, const struct call *c) {
        const struct string *s = to_string(r, c->self), *set = NULL;
        struct value v;

        if (!bind_args(r, c, "chars", 0, &v))
                return UNDEFINED;
        if (v.type != T_NONE && v.type != T_UNDEFINED)
                set = arg_string(r, c, v, NULL);
        return v_string(string_trim(r, s, set, true, true));
}

static struct value f_replace(struct run *r, const struct call *c) {
        struct value v[3];

        if (!bind_args(r, c, "old new count", 2, v))
                return UNDEFINED;
        if (v[2].type == T_NONE)
                v[2] = UNDEFINED;
        return v_string(string_replace(r, to_string(r, c->self), to_string(r, v[0]),
                to_string(r, v[1]), arg_int(r, c, v[2], -1)));
}

static struct value f_center(struct run *r, const struct call *c) {
        struct value v;

        if (!bind_args(r, c, "width", 0, &v))
                return UNDEFINED;
        return v_string(string_center(r, to_string(r, c->self), arg_int(r, c, v, 80),
                string_static(&r->arena, " ", false), 0.5));
}

/* The blanks that each line gets in front. */
static const struct string *indentation(struct run *r, const struct call *c, struct value width) {
        int64_t n;
        struct text *t;

        if (width.type == T_STRING)
                return width.s;
        n = arg_int(r, c, width, 4);
        if (n > 10000) {
                run_fail(r, "indent() by more than 10000");
                n = 0;
        }
        t = text_new(&r->arena, 0);
        for (int64_t i = 0; i < n; i++)
                text_add_lit(t, " ", true);
        return text_finish(t);
}

/* What is put behind a line's end, or in front of the text, is trusted only if that is. */
static void add_blanks(struct text *t, const struct string *blanks, bool trusted) {
        if (trusted)
                text_add_string(t, blanks);
        else
                text_add(t, blanks->text, blanks->n, false);
}

/* Whether the line's end in front of @line, a part of @s that is not at its beginning, is trusted.
 * An empty line has lost its place, and counts as data. */
static bool newline_trusted(const struct string *s, const struct string *line) {
        return line->n > 0 && string_trusted_at(s, (size_t)(line->text - s->text) - 1);
}

static struct value f_indent(struct run *r, const struct call *c) {
        const struct string *s = arg_string(r, c, c->self, NULL), *blanks;
        struct text *t = text_new(&r->arena, s ? s->n : 0);
        struct value v[3];
        struct list *lines;
        bool blank;

        if (!s || !bind_args(r, c, "width first blank", 0, v))
                return UNDEFINED;
        blanks = indentation(r, c, v[0]);
        blank = arg_bool(v[2], false);
        lines = string_splitlines(r, s, false);
        if (arg_bool(v[1], false))
                add_blanks(t, blanks, s->n > 0 && string_trusted_at(s, 0));
        for (size_t i = 0; i < lines->n && !run_failed(r); i++) {
                const struct string *line = lines->items[i].s;

                if (!run_bytes(r, line->n + blanks->n))
                        return UNDEFINED;
                if (i > 0) {
                        bool trusted = newline_trusted(s, line);

                        text_add_lit(t, "\n", trusted);
                        if (blank || line->n > 0)
                                add_blanks(t, blanks, trusted);
                }
                text_add_string(t, line);
        }
        /* A line's end at the end of the text stays one. */
        if (s->n > 0 && (s->text[s->n - 1] == '\n' || s->text[s->n - 1] == '\r')) {
                text_add_lit(t, "\n", string_trusted_at(s, s->n - 1));
                if (blank)
                        add_blanks(t, blanks, string_trusted_at(s, s->n - 1));
        }
        return v_string(text_finish(t));
}

static struct value f_truncate(struct run *r, const struct call *c) {
        const struct string *s, *end, *dots = string_static(&r->arena, "...", true);
        struct value v[4];
        int64_t length, leeway;
        size_t cut;

        if (c->self.type == T_UNDEFINED)
                return c->self;
        if (!(s = arg_string(r, c, c->self, NULL)) ||
                !bind_args(r, c, "length killwords end leeway", 0, v) ||
                !(end = arg_string(r, c, v[2], dots)) || !run_bytes(r, s->n))
                return UNDEFINED;
        length = arg_int(r, c, v[0], 255);
        leeway = v[3].type == T_NONE ? 5 : arg_int(r, c, v[3], 5);
        if (length < (int64_t)end->n_chars || leeway < 0 || leeway > INT32_MAX)
                return run_fail(r, "truncate() to less than its end");
        if (length > INT32_MAX || (int64_t)s->n_chars <= length + leeway)
                return v_string(s);
        cut = string_offset(s, (size_t)length - end->n_chars);
        if (!arg_bool(v[1], false)) {
                const char *blank = cut > 0 ? memrchr(s->text, ' ', cut) : NULL;

                cut = blank ? (size_t)(blank - s->text) : cut;
        }
        return v_string(string_concat(&r->arena, string_slice(&r->arena, s, 0, cut), end));
}

static struct value f_wordcount(struct run *r, const struct call *c) {
        const struct string *s = to_string(r, c->self);
        bool inside = false;
        int64_t n = 0;

        if (!bind_args(r, c, "", 0, NULL) || !run_work(r, 1 + s->n / 8))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t ch = char_at(s->text, s->n, i, &k);
                bool word = ch == '_' || unicode_is_alpha(ch) || unicode_is_numeric(ch);

                n += word && !inside;
                inside = word;
        }
        return v_int(n);
}

static struct value f_escape(struct run *r, const struct call *c) {
        static const char from[] = "&<>\"'";
        static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
        const struct string *s = to_string(r, c->self);
        struct text *t = text_new(&r->arena, s->n);
        size_t done = 0;

        if (!bind_args(r, c, "", 0, NULL) || !run_bytes(r, 8 * s->n))
                return UNDEFINED;
        for (size_t i = 0; i < s->n; i++) {
                const char *p = s->text[i] ? strchr(from, s->text[i]) : NULL;

                if (!p)
                        continue;
                text_add_part(t, s, done, i);
                text_add(t, to[p - from], strlen(to[p - from]), string_trusted_at(s, i));
                done = i + 1;
        }
        text_add_part(t, s, done, s->n);
        return v_string(text_finish(t));
}

/* Without comments and tags; runs of white space become one blank. */
static struct value f_striptags(struct run *r, const struct call *c) {
        const struct string *s = to_string(r, c->self);
        struct text *t = text_new(&r->arena, s->n);
        bool space = false, any = false;

        if (!bind_args(r, c, "", 0, NULL) || !run_bytes(r, 8 * s->n))
                return UNDEFINED;
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t ch = char_at(s->text, s->n, i, &k);
                bool comment = s->n - i >= 4 && memcmp(s->text + i, "<!--", 4) == 0;
                const char *end = ch != '<' ? NULL
                                  : comment ? memmem(s->text + i + 4, s->n - i - 4, "-->", 3)
                                            : memchr(s->text + i, '>', s->n - i);

                if (end) {
                        k = (size_t)(end - s->text) + (comment ? 3 : 1) - i;
                        continue;
                }
                if (ch == '<' && !run_bytes(r, s->n - i))
                        return UNDEFINED;
                if (utf8_is_space(ch)) {
                        space = any;
                        continue;
                }
                if (space)
                        text_add_lit(t, " ", string_trusted_at(s, i));
                text_add_part(t, s, i, i + k);
                any = true;
                space = false;
        }
        return v_string(text_finish(t));
}

/* @query: as a part of a query, where a slash is quoted and a blank is "+". */
static void add_quoted(struct run *r, struct text *t, const struct string *s, bool query) {
        if (!run_bytes(r, 8 * s->n))
                return;
        for (size_t i = 0; i < s->n; i++) {
                unsigned char ch = (unsigned char)s->text[i];
                char escape[4];

                if ((ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') ||
                        (ch && strchr("_.-~", ch)) || (ch == '/' && !query)) {
                        text_add_part(t, s, i, i + 1);
                        continue;
                }
                snprintf(escape, sizeof(escape), "%%%02X", ch);
                if (ch == ' ' && query)
                        text_add_lit(t, "+", string_trusted_at(s, i));
                else
                        text_add(t, escape, 3, string_trusted_at(s, i));
        }
}

static struct value f_urlencode(struct run *r, const struct call *c) {
        struct text *t = text_new(&r->arena, 0);
        struct list *pairs = NULL;

        if (!bind_args(r, c, "", 0, NULL))
                return UNDEFINED;
        if (c->self.type != T_DICT && !is_sequence(c->self)) {
                add_quoted(r, t, to_string(r, c->self), false);
                return v_string(text_finish(t));
        }
        if (c->self.type == T_DICT) {
                struct entry *e;
                size_t at = 0;

                for (bool first = true; (e = dict_next(c->self.dict, &at)) && run_work(r, 1);
                        first = false) {
                        text_add(t, "&", first ? 0 : 1, false);
                        add_quoted(r, t, to_string(r, e->key), true);
                        text_add_lit(t, "=", false);
                        add_quoted(r, t, to_string(r, e->value), true);
                }
                return v_string(text_finish(t));
        }
        pairs = c->self.list;
        for (size_t i = 0; i < pairs->n && run_work(r, 1); i++) {
                struct list *pair = to_list(r, pairs->items[i]);

                if (run_failed(r) || pair->n != 2)
                        return run_fail(r, "urlencode() takes pairs");
                text_add(t, "&", i > 0, false);
                add_quoted(r, t, to_string(r, pair->items[0]), true);
                text_add_lit(t, "=", false);
                add_quoted(r, t, to_string(r, pair->items[1]), true);
        }
        return v_string(text_finish(t));
}

static struct value f_format(struct run *r, const struct call *c) {
        struct list *l = list_new(&r->arena, c->n);
        struct dict *d = dict_new(&r->arena);

        for (size_t i = 0; i < c->n; i++)
                list_add(&r->arena, l, c->args[i]);
        for (size_t i = 0; i < c->n_named; i++)
                dict_set(&r->arena, d, v_string(c->names[i]), c->named[i]);
        if (c->n > 0 && c->n_named > 0)
                return run_fail(r, "format() takes values either by place or by name");
        return format_percent(r, to_string(r, c->self), c->n_named > 0 ? v_dict(d) : v_tuple(l));
}

static const struct function filters[] = {{"upper", f_upper}, {"lower", f_lower},
        {"capitalize", f_capitalize}, {"title", f_title}, {"trim", f_trim}, {"replace", f_replace},
        {"center", f_center}, {"indent", f_indent}, {"truncate", f_truncate},
        {"wordcount", f_wordcount}, {"escape", f_escape}, {"e", f_escape},
        {"forceescape", f_escape}, {"striptags", f_striptags}, {"urlencode", f_urlencode},
        {"format", f_format}};

const struct function *text_filter_find(const struct string *name) {
        return function_find(filters, ARRAY_SIZE(filters), name);
}
