/* SPDX-License-Identifier: MIT */
/* Strings: lengths, patterns, formats; and the values of enum and const. */
#include "base/utf8.h"
#include "base/util.h"
#include "grammar/json-chars.h"
#include "grammar/schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Formats that are kept; all others are annotations. */
#define YEAR_MONTH_DAY                                                                             \
        "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]"    \
        "\\d|"                                                                                     \
        "30)|02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468]["    \
        "048]|[13579][26])00)-02-29)"
#define CLOCK                                                                                      \
        "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]"    \
        "\\d)"
#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define LABEL "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
static const struct {
        const char *name, *pattern;
} formats[] = {
        {"date", "^" YEAR_MONTH_DAY "$"},
        {"time", "^" CLOCK "$"},
        {"date-time", "^" YEAR_MONTH_DAY "T" CLOCK "$"},
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        {"email", "^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,2}@" LABEL "(?:\\." LABEL
                  "){1,4}$"},
        {"ipv4", "^" BYTE "(?:\\." BYTE "){3}$"},
};

static const char *format_pattern(const struct schema *s, uint32_t node) {
        for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
                if (s->dom.nodes[node].text_size == strlen(formats[i].name) &&
                        memcmp(dom_text(&s->dom, node), formats[i].name, strlen(formats[i].name)) ==
                                0)
                        return formats[i].pattern;
        return NULL;
}

static uint32_t pattern_expr(struct schema *s, uint32_t node, const char *format) {
        char pointer[120], where[140];

        snprintf(where, sizeof(where), "schema, %s",
                dom_pointer(&s->dom, node, pointer, sizeof(pointer)));
        if (format)
                return build_regex(s->b, format, strlen(format), where);
        return build_regex(
                s->b, (const char *)dom_text(&s->dom, node), s->dom.nodes[node].text_size, where);
}

uint32_t schema_string(struct schema *s, const struct all *a) {
        uint32_t pattern = DOM_NONE, node = 0, max_node = 0, min, max, expr;
        const char *format = NULL;

        for (uint32_t i = 0; i < a->n && !s->b->failed; i++) {
                uint32_t p = item_get(s, &a->items[i], "pattern");
                uint32_t f = item_get(s, &a->items[i], "format");
                const char *known = f == DOM_NONE ? NULL : format_pattern(s, f);

                if ((p != DOM_NONE) + (known != NULL) + (pattern != DOM_NONE) > 1)
                        return schema_fail(s, ERR_UNSUPPORTED, p != DOM_NONE ? p : f,
                                "two patterns or formats for one string are not supported");
                if (p != DOM_NONE || known) {
                        pattern = p != DOM_NONE ? p : f;
                        format = known;
                }
        }
        min = schema_bound(s, a, "minLength", false, 0, &node);
        max = schema_bound(s, a, "maxLength", true, BUILD_ENDLESS, &max_node);
        if (s->b->failed)
                return NEVER;
        if (min > max)
                return schema_never(s, node, "the least length is above the greatest");
        if (pattern != DOM_NONE && (min > 0 || max != BUILD_ENDLESS))
                return schema_fail(s, ERR_UNSUPPORTED, min > 0 ? node : max_node,
                        "a length beside a pattern or format is not supported");
        if (pattern != DOM_NONE)
                return pattern_expr(s, pattern, format);
        if (min == 0 && max == BUILD_ENDLESS)
                return s->string;
        expr = build_text(s->b, "\"");
        return SEQ(s->b, expr, build_repeat(s->b, s->any_char, min, max), expr);
}

/* --- enum and const --- */

unsigned schema_type_of(const struct schema *s, uint32_t node) {
        struct decimal d;

        switch (s->dom.nodes[node].kind) {
        case DOM_NULL:
                return TYPE_NULL;
        case DOM_FALSE:
        case DOM_TRUE:
                return TYPE_BOOL;
        case DOM_NUMBER:
                return decimal_parse(&d, dom_text(&s->dom, node), s->dom.nodes[node].text_size) &&
                                       d.n_frac == 0
                               ? TYPE_INTEGER
                               : TYPE_FRACTION;
        case DOM_STRING:
                return TYPE_STRING;
        case DOM_ARRAY:
                return TYPE_ARRAY;
        default:
                return TYPE_OBJECT;
        }
}

static uint32_t value_expr(struct schema *s, uint32_t node);

static uint32_t members_expr(struct schema *s, uint32_t node, bool object) {
        struct build *b = s->b;
        const struct dom *d = &s->dom;
        uint32_t expr = build_text(b, object ? "{" : "["), quote = build_text(b, "\"");

        for (uint32_t k = d->nodes[node].child; k != DOM_NONE && !b->failed; k = d->nodes[k].next) {
                if (k != d->nodes[node].child)
                        expr = SEQ(b, expr, build_text(b, ","), s->space);
                if (object)
                        expr = SEQ(b, expr, quote,
                                json_literal(b, d->bytes + d->nodes[k].key, d->nodes[k].key_size),
                                quote, build_text(b, ":"),
                                build_repeat(b, build_text(b, " "), 0, 1));
                expr = SEQ(b, expr, value_expr(s, k));
                if (d->nodes[k].index >= 1024)
                        return schema_fail(s, ERR_TOO_LARGE, k, "a value of more than 1024 parts");
        }
        return SEQ(b, expr, build_text(b, object ? "}" : "]"));
}

/* Exactly this value. */
static uint32_t value_expr(struct schema *s, uint32_t node) {
        struct build *b = s->b;
        const struct dom_node *x = &s->dom.nodes[node];
        uint32_t size = x->text_size * 6 + 3, n = 0;
        uint8_t *text;

        switch (x->kind) {
        case DOM_NULL:
                return build_text(b, "null");
        case DOM_FALSE:
                return build_text(b, "false");
        case DOM_TRUE:
                return build_text(b, "true");
        case DOM_NUMBER:
                return build_bytes(b, dom_text(&s->dom, node), x->text_size);
        case DOM_STRING:
                /* one text, so that many of them become a trie */
                text = malloc(size);
                if (!text)
                        return build_fail(b, ERR_NOMEM, "no memory for a grammar");
                text[n++] = '"';
                for (uint32_t i = 0; i < x->text_size;) {
                        uint32_t c = 0;
                        int k = utf8_decode(dom_text(&s->dom, node) + i, x->text_size - i, &c);

                        n += (uint32_t)json_spell(c, text + n);
                        i += (uint32_t)MAX(k, 1);
                }
                text[n++] = '"';
                n = build_bytes(b, text, n);
                free(text);
                return n;
        default:
                return members_expr(s, node, x->kind == DOM_OBJECT);
        }
}

/* Is @value in all enum and const keywords of the set? */
static bool in_all(struct schema *s, const struct all *a, uint32_t value) {
        const struct dom *d = &s->dom;

        for (uint32_t i = 0; i < a->n; i++) {
                uint32_t list = item_get(s, &a->items[i], "enum"), k;
                uint32_t constant = item_get(s, &a->items[i], "const");

                if (constant != DOM_NONE && !dom_equal(d, constant, value))
                        return false;
                if (list == DOM_NONE || list == d->nodes[value].parent)
                        continue;
                for (k = d->nodes[list].child; k != DOM_NONE; k = d->nodes[k].next)
                        if (dom_equal(d, k, value))
                                break;
                if (k == DOM_NONE)
                        return false;
        }
        return true;
}

static uint32_t count_chars(const struct schema *s, uint32_t node) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < s->dom.nodes[node].text_size; i++)
                n += (dom_text(&s->dom, node)[i] & 0xC0) != 0x80;
        return n;
}

/* Does the value meet the other keywords? Those that are not looked at here are refused before. */
static bool fits(struct schema *s, const struct all *a, uint32_t value, unsigned types) {
        unsigned type = schema_type_of(s, value);
        struct bounds bounds;
        struct decimal d;
        uint32_t node, n;

        if (!(types & type) || !in_all(s, a, value))
                return false;
        if (type & TYPE_NUMBER) {
                bounds_find(s, a, &bounds);
                if ((bounds.has_low || bounds.has_high) &&
                        (!decimal_parse(
                                 &d, dom_text(&s->dom, value), s->dom.nodes[value].text_size) ||
                                !bounds_hold(&bounds, &d)))
                        return false;
        }
        if (type == TYPE_STRING) {
                n = count_chars(s, value);
                if (n < schema_bound(s, a, "minLength", false, 0, &node) ||
                        n > schema_bound(s, a, "maxLength", true, UINT32_MAX, &node))
                        return false;
        }
        return true;
}

/* Keywords that are not supported beside enum and const, for values that they would apply to. */
static void refuse_beside(struct schema *s, const struct all *a, unsigned types) {
        static const struct {
                const char *key;
                unsigned type;
        } keys[] = {{"pattern", TYPE_STRING}, {"properties", TYPE_OBJECT},
                {"required", TYPE_OBJECT}, {"additionalProperties", TYPE_OBJECT},
                {"items", TYPE_ARRAY}, {"prefixItems", TYPE_ARRAY}, {"minItems", TYPE_ARRAY},
                {"maxItems", TYPE_ARRAY}, {"multipleOf", TYPE_NUMBER}};

        for (uint32_t i = 0; i < a->n; i++) {
                uint32_t f = item_get(s, &a->items[i], "format");

                for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
                        uint32_t node = item_get(s, &a->items[i], keys[k].key);

                        if (node != DOM_NONE && (types & keys[k].type))
                                schema_fail(s, ERR_UNSUPPORTED, node,
                                        "not supported beside enum or const");
                }
                if (f != DOM_NONE && (types & TYPE_STRING) && format_pattern(s, f))
                        schema_fail(s, ERR_UNSUPPORTED, f, "not supported beside enum or const");
        }
}

static uint32_t first_list(struct schema *s, const struct all *a, bool *constant) {
        for (uint32_t i = 0; i < a->n; i++) {
                uint32_t node = item_get(s, &a->items[i], "const");

                *constant = node != DOM_NONE;
                if (node == DOM_NONE)
                        node = item_get(s, &a->items[i], "enum");
                if (node != DOM_NONE)
                        return node;
        }
        return DOM_NONE;
}

uint32_t schema_enum(struct schema *s, const struct all *a, unsigned types, bool *found) {
        const struct dom *d = &s->dom;
        bool constant = false;
        uint32_t list = first_list(s, a, &constant), n = 0, expr, *kids;
        unsigned seen = 0;

        *found = list != DOM_NONE;
        if (!*found)
                return NEVER;
        kids = malloc((d->nodes[list].n + 1) * sizeof(*kids));
        if (!kids)
                return build_fail(s->b, ERR_NOMEM, "no memory for a grammar");
        for (uint32_t k = constant ? list : d->nodes[list].child; k != DOM_NONE && !s->b->failed;
                k = constant ? DOM_NONE : d->nodes[k].next) {
                if (!fits(s, a, k, types))
                        continue;
                seen |= schema_type_of(s, k);
                kids[n++] = value_expr(s, k);
        }
        refuse_beside(s, a, seen);
        if (n == 0 && !s->b->failed)
                schema_never(s, list, "no value is left that all its schemas allow");
        expr = build_alt(s->b, kids, n);
        free(kids);
        return expr;
}
