/* SPDX-License-Identifier: MIT */
/*
 * Values as text: as str() and repr() of Python and its json.dumps() have them.
 *
 * The bytes of a string keep their origin. Escapes have that of the character that they stand for;
 * brackets, quotes and separators count as data, because how many there are and where is up to data.
 */
#include "base/util.h"
#include "jinja/number.h"
#include "jinja/run.h"
#include "jinja/unicode.h"
#include <stdio.h>
#include <string.h>

static void put(struct text *t, const char *s) {
        text_add(t, s, strlen(s), false);
}

static void write_number(struct text *t, struct value v, bool json) {
        char digits[NUMBER_SIZE];

        if (v.type == T_FLOAT && json && (v.f != v.f || v.f - v.f != 0)) {
                const char *words = v.f != v.f ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity";

                text_add(t, words, strlen(words), v.trusted);
        } else if (v.type == T_FLOAT) {
                text_add(t, digits, format_double(v.f, digits), v.trusted);
        } else {
                text_add(t, digits, format_int(v.i, digits), v.trusted);
        }
}

static void write_word(struct text *t, struct value v, bool json) {
        static const char *const python[] = {"None", "False", "True"};
        static const char *const js[] = {"null", "false", "true"};
        size_t i = v.type == T_NONE ? 0 : v.b ? 2 : 1;
        const char *word = json ? js[i] : python[i];

        text_add(t, word, strlen(word), v.trusted);
}

/* As repr(): in single quotes, unless there are such inside and no double ones. */
static void write_quoted(struct run *r, struct text *t, const struct string *s) {
        bool single = s->n > 0 && memchr(s->text, '\'', s->n);
        char quote = single && !memchr(s->text, '"', s->n) ? '"' : '\'';

        if (!run_bytes(r, 8 * s->n))
                return;
        text_add(t, &quote, 1, false);
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t c = char_at(s->text, s->n, i, &k);
                bool trusted = string_trusted_at(s, i);
                char escape[16] = "";

                if (c == '\\' || c == (uint32_t)quote)
                        snprintf(escape, sizeof(escape), "\\%c", (int)c);
                else if (c == '\n' || c == '\r' || c == '\t')
                        snprintf(escape, sizeof(escape), "\\%c",
                                c == '\n'   ? 'n'
                                : c == '\r' ? 'r'
                                            : 't');
                else if (c < ' ' || c == 0x7F || (c >= 0x80 && !unicode_is_printable(c)))
                        snprintf(escape, sizeof(escape),
                                c < 0x100 || c >= CHAR_BAD ? "\\x%02x"
                                : c < 0x10000              ? "\\u%04x"
                                                           : "\\U%08x",
                                c & (CHAR_BAD - 1));
                if (escape[0])
                        text_add(t, escape, strlen(escape), trusted);
                else
                        text_add_part(t, s, i, i + k);
        }
        text_add(t, &quote, 1, false);
}

static void write_list(struct run *r, struct text *t, struct value v) {
        put(t, v.type == T_LIST ? "[" : "(");
        for (size_t i = 0; i < v.list->n && run_work(r, 1); i++) {
                if (i > 0)
                        put(t, ", ");
                write_repr(r, t, v.list->items[i]);
        }
        put(t, v.type == T_LIST ? "]" : v.list->n == 1 ? ",)" : ")");
}

static void write_dict(struct run *r, struct text *t, const struct dict *d) {
        struct entry *e;
        size_t at = 0;

        put(t, "{");
        for (bool first = true; (e = dict_next(d, &at)) && run_work(r, 1); first = false) {
                if (!first)
                        put(t, ", ");
                write_repr(r, t, e->key);
                put(t, ": ");
                write_repr(r, t, e->value);
        }
        put(t, "}");
}

static void write_object(struct run *r, struct text *t, struct value v) {
        if (v.type == T_NAMESPACE) {
                put(t, "<Namespace ");
                write_dict(r, t, v.dict);
                put(t, ">");
        } else if (v.type == T_UNDEFINED) {
                put(t, "Undefined");
        } else {
                put(t, "<");
                put(t, type_name(v));
                put(t, ">");
        }
}

void write_repr(struct run *r, struct text *t, struct value v) {
        if (!run_enter(r) || !run_work(r, 1)) {
                run_leave(r);
                return;
        }
        switch ((enum type)v.type) {
        case T_NONE:
        case T_BOOL:
                write_word(t, v, false);
                break;
        case T_INT:
        case T_FLOAT:
                write_number(t, v, false);
                break;
        case T_BIG:
                text_add_string(t, v.s);
                break;
        case T_STRING:
                write_quoted(r, t, v.s);
                break;
        case T_LIST:
        case T_TUPLE:
                write_list(r, t, v);
                break;
        case T_DICT:
                write_dict(r, t, v.dict);
                break;
        default:
                write_object(r, t, v);
                break;
        }
        run_leave(r);
}

void write_str(struct run *r, struct text *t, struct value v) {
        if (v.type == T_STRING && run_bytes(r, v.s->n))
                text_add_string(t, v.s);
        else if (v.type != T_STRING && v.type != T_UNDEFINED)
                write_repr(r, t, v);
}

const struct string *to_string(struct run *r, struct value v) {
        struct text *t;

        if (v.type == T_STRING)
                return v.s;
        if (v.type == T_UNDEFINED)
                return string_empty();
        t = text_new(&r->arena, 0);
        if (t)
                write_repr(r, t, v);
        return text_finish(t);
}

/* ---- JSON ---- */

static void json_unicode(struct text *t, uint32_t c, bool trusted) {
        char escape[16];

        if (c >= 0x10000)
                snprintf(escape, sizeof(escape), "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                        0xDC00 + ((c - 0x10000) & 0x3FF));
        else
                snprintf(escape, sizeof(escape), "\\u%04x", c);
        text_add(t, escape, strlen(escape), trusted);
}

static void json_string(struct run *r, struct text *t, const struct string *s, bool ascii) {
        static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
        size_t done = 0;

        if (!run_bytes(r, 4 * s->n))
                return;
        put(t, "\"");
        for (size_t i = 0, k; i < s->n; i += k) {
                uint32_t c = char_at(s->text, s->n, i, &k);
                const char *known = c > 0 && c < 0x80 ? strchr(from, (int)c) : NULL;
                bool trusted = string_trusted_at(s, i);

                if (!known && c >= 0x20 && (!ascii || c < 0x7F))
                        continue;
                text_add_part(t, s, done, i);
                done = i + k;
                if (known) {
                        const char escape[2] = {'\\', to[known - from]};

                        text_add(t, escape, 2, trusted);
                } else {
                        json_unicode(t, c >= CHAR_BAD ? 0xFFFD : c, trusted);
                }
        }
        text_add_part(t, s, done, s->n);
        put(t, "\"");
}

static void json_break(
        struct run *r, struct text *t, const struct json_style *style, unsigned level) {
        if (!style->indent || !run_bytes(r, style->indent->n * (level + 1)))
                return;
        put(t, "\n");
        for (unsigned i = 0; i < level; i++)
                text_add_string(t, style->indent);
}

static void json_list(struct run *r, struct text *t, const struct list *l,
        const struct json_style *style, unsigned level) {
        put(t, "[");
        for (size_t i = 0; i < l->n && run_work(r, 1); i++) {
                if (i > 0)
                        text_add_string(t, style->item_separator);
                json_break(r, t, style, level + 1);
                write_json(r, t, l->items[i], style, level + 1);
        }
        if (l->n > 0)
                json_break(r, t, style, level);
        put(t, "]");
}

/* Keys that are no strings become such. */
static void json_key(
        struct run *r, struct text *t, struct value key, const struct json_style *style) {
        if (key.type == T_STRING) {
                json_string(r, t, key.s, style->ascii);
                return;
        }
        put(t, "\"");
        if (key.type == T_NONE || key.type == T_BOOL)
                write_word(t, key, true);
        else
                write_repr(r, t, key);
        put(t, "\"");
}

/* The entries in the order of their keys. */
static const struct dict *sorted(struct run *r, const struct dict *d) {
        struct list *keys = list_new(&r->arena, d->n), *order = list_new(&r->arena, d->n);
        struct dict *out = dict_new(&r->arena);
        struct entry *e;
        size_t at = 0;

        if (!run_items(r, d->n))
                return d;
        while ((e = dict_next(d, &at))) {
                list_add(&r->arena, keys, e->key);
                list_add(&r->arena, order, e->key);
        }
        if (run_failed(r))
                return d;
        sort_list(r, order, keys, false);
        for (size_t i = 0; i < order->n && !run_failed(r); i++) {
                e = dict_find(d, order->items[i]);
                if (e)
                        dict_set(&r->arena, out, e->key, e->value);
        }
        return out;
}

static void json_dict(struct run *r, struct text *t, const struct dict *d,
        const struct json_style *style, unsigned level) {
        struct entry *e;
        size_t at = 0;

        if (style->sort_keys)
                d = sorted(r, d);
        put(t, "{");
        for (bool first = true; (e = dict_next(d, &at)) && run_work(r, 1); first = false) {
                if (!first)
                        text_add_string(t, style->item_separator);
                json_break(r, t, style, level + 1);
                json_key(r, t, e->key, style);
                text_add_string(t, style->key_separator);
                write_json(r, t, e->value, style, level + 1);
        }
        if (d->n > 0)
                json_break(r, t, style, level);
        put(t, "}");
}

void write_json(struct run *r, struct text *t, struct value v, const struct json_style *style,
        unsigned level) {
        if (!run_enter(r) || !run_work(r, 1)) {
                run_leave(r);
                return;
        }
        switch ((enum type)v.type) {
        case T_NONE:
        case T_BOOL:
                write_word(t, v, true);
                break;
        case T_INT:
        case T_FLOAT:
                write_number(t, v, true);
                break;
        case T_BIG:
                text_add_string(t, v.s);
                break;
        case T_STRING:
                json_string(r, t, v.s, style->ascii);
                break;
        case T_LIST:
        case T_TUPLE:
                json_list(r, t, v.list, style, level);
                break;
        case T_DICT:
                json_dict(r, t, v.dict, style, level);
                break;
        case T_UNDEFINED:
                run_undefined(r, v);
                break;
        default:
                run_fail(r, "'%s' has no form in JSON", type_name(v));
                break;
        }
        run_leave(r);
}
