/* SPDX-License-Identifier: MIT */
#include "grammar/dom.h"
#include "base/utf8.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
        struct dom *d;
        const uint8_t *text;
        size_t n, at;
};

static bool fail(struct reader *r, size_t at, enum err_code code, const char *what) {
        unsigned line = 1, column = 1;

        for (size_t i = 0; i < at && i < r->n; i++) {
                if (r->text[i] == '\n') {
                        line++;
                        column = 1;
                } else if ((r->text[i] & 0xC0) != 0x80) {
                        column++;
                }
        }
        build_fail(r->d->b, code, "schema, %u:%u: %s", line, column, what);
        return false;
}

static void skip(struct reader *r) {
        while (r->at < r->n && (r->text[r->at] == ' ' || r->text[r->at] == '\t' ||
                                       r->text[r->at] == '\n' || r->text[r->at] == '\r'))
                r->at++;
}

static int peek(const struct reader *r) {
        return r->at < r->n ? r->text[r->at] : -1;
}

static bool put(struct reader *r, const uint8_t *bytes, size_t n) {
        struct dom *d = r->d;

        for (size_t i = 0; i < n; i++) {
                int k = TABLE_ROOM(&d->b->charge, d->bytes, d->bytes_capacity, d->n_bytes, d->b->e);

                if (k < 0) {
                        d->b->failed = k;
                        return false;
                }
                d->bytes[d->n_bytes++] = bytes[i];
        }
        return true;
}

static bool take_hex(struct reader *r, uint32_t *ret) {
        *ret = 0;
        for (unsigned i = 0; i < 4; i++, r->at++) {
                int c = peek(r);

                if (c >= '0' && c <= '9')
                        *ret = *ret << 4 | (uint32_t)(c - '0');
                else if (c >= 'a' && c <= 'f')
                        *ret = *ret << 4 | (uint32_t)(c - 'a' + 10);
                else if (c >= 'A' && c <= 'F')
                        *ret = *ret << 4 | (uint32_t)(c - 'A' + 10);
                else
                        return fail(r, r->at, ERR_INVALID, "a hexadecimal digit is missing");
        }
        return true;
}

static bool take_unicode(struct reader *r, size_t at, uint32_t *ret) {
        uint32_t low;

        if (!take_hex(r, ret))
                return false;
        if (*ret >= 0xD800 && *ret < 0xDC00 && r->n - r->at >= 2 && r->text[r->at] == '\\' &&
                r->text[r->at + 1] == 'u') {
                r->at += 2;
                if (!take_hex(r, &low))
                        return false;
                if (low >= 0xDC00 && low < 0xE000) {
                        *ret = 0x10000 + ((*ret - 0xD800) << 10) + (low - 0xDC00);
                        return true;
                }
        }
        if (*ret >= 0xD800 && *ret < 0xE000)
                return fail(r, at, ERR_INVALID, "half of a surrogate pair");
        return true;
}

/* After the backslash. */
static bool take_escape(struct reader *r) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        size_t at = r->at - 1;
        int c = peek(r);
        const char *p = c > 0 ? strchr(from, c) : NULL;
        uint8_t bytes[4];
        uint32_t code;

        r->at++;
        if (p)
                return put(r, (const uint8_t *)&to[p - from], 1);
        if (c != 'u')
                return fail(r, at, ERR_INVALID, "unknown escape");
        return take_unicode(r, at, &code) && put(r, bytes, (size_t)utf8_encode(code, bytes));
}

static bool take_string(struct reader *r, uint32_t *ret_at, uint32_t *ret_size) {
        size_t start = r->at++;

        *ret_at = r->d->n_bytes;
        while (peek(r) != '"') {
                int n;

                if (r->at >= r->n)
                        return fail(r, start, ERR_INVALID, "this string has no closing quote");
                if (r->text[r->at] == '\\') {
                        r->at++;
                        if (!take_escape(r))
                                return false;
                        continue;
                }
                n = utf8_decode(r->text + r->at, r->n - r->at, NULL);
                if (n <= 0 || r->text[r->at] < 0x20)
                        return fail(r, r->at, ERR_INVALID,
                                n > 0 ? "a control character in a string" : "this is not UTF-8");
                if (!put(r, r->text + r->at, (size_t)n))
                        return false;
                r->at += (size_t)n;
        }
        r->at++;
        *ret_size = r->d->n_bytes - *ret_at;
        return true;
}

static bool is_digit(int c) {
        return c >= '0' && c <= '9';
}

static bool take_digits(struct reader *r) {
        size_t at = r->at;

        while (is_digit(peek(r)))
                r->at++;
        return r->at > at;
}

static bool take_number(struct reader *r, struct dom_node *node) {
        size_t start = r->at;
        bool ok;

        if (peek(r) == '-')
                r->at++;
        if (peek(r) == '0') {
                r->at++;
                ok = true;
        } else {
                ok = take_digits(r);
        }
        if (ok && peek(r) == '.') {
                r->at++;
                ok = take_digits(r);
        }
        if (ok && (peek(r) == 'e' || peek(r) == 'E')) {
                r->at++;
                if (peek(r) == '+' || peek(r) == '-')
                        r->at++;
                ok = take_digits(r);
        }
        if (!ok || is_digit(peek(r)))
                return fail(r, start, ERR_INVALID, "this is no number of JSON");
        node->kind = DOM_NUMBER;
        node->text = r->d->n_bytes;
        node->text_size = (uint32_t)(r->at - start);
        return put(r, r->text + start, r->at - start);
}

static bool take_word(struct reader *r, const char *word) {
        size_t n = strlen(word);

        if (r->n - r->at < n || memcmp(r->text + r->at, word, n) != 0)
                return fail(r, r->at, ERR_INVALID, "a value of JSON is expected here");
        r->at += n;
        return true;
}

static uint32_t take_value(struct reader *r, uint32_t parent, unsigned depth);

/* Children of an object or array whose bracket was read. */
static bool take_children(struct reader *r, uint32_t node, unsigned depth) {
        struct dom *d = r->d;
        bool object = d->nodes[node].kind == DOM_OBJECT;
        uint32_t last = DOM_NONE, key = 0, key_size = 0;

        for (;;) {
                size_t at;
                uint32_t child;

                skip(r);
                if (peek(r) == (object ? '}' : ']') && d->nodes[node].n == 0)
                        break;
                at = r->at;
                if (object) {
                        if (peek(r) != '"')
                                return fail(r, at, ERR_INVALID, "a key in quotes is expected here");
                        if (!take_string(r, &key, &key_size))
                                return false;
                        if (dom_get_n(d, node, d->bytes + key, key_size) != DOM_NONE)
                                return fail(r, at, ERR_INVALID, "this key was there before");
                        skip(r);
                        if (peek(r) != ':')
                                return fail(r, r->at, ERR_INVALID, "a colon is expected here");
                        r->at++;
                }
                child = take_value(r, node, depth + 1);
                if (child == DOM_NONE)
                        return false;
                d->nodes[child].key = key;
                d->nodes[child].key_size = key_size;
                d->nodes[child].index = d->nodes[node].n++;
                if (last == DOM_NONE)
                        d->nodes[node].child = child;
                else
                        d->nodes[last].next = child;
                last = child;
                skip(r);
                if (peek(r) != ',')
                        break;
                r->at++;
        }
        if (peek(r) != (object ? '}' : ']'))
                return fail(r, r->at, ERR_INVALID,
                        object ? "a comma or a closing brace is expected here"
                               : "a comma or a closing bracket is expected here");
        r->at++;
        return true;
}

static uint32_t new_node(struct reader *r, uint32_t parent) {
        struct dom *d = r->d;
        int k;

        if (d->n_nodes == DOM_MAX_NODES) {
                fail(r, r->at, ERR_TOO_LARGE, "more than 65536 values");
                return DOM_NONE;
        }
        k = TABLE_ROOM(&d->b->charge, d->nodes, d->nodes_capacity, d->n_nodes, d->b->e);
        if (k < 0) {
                d->b->failed = k;
                return DOM_NONE;
        }
        d->nodes[d->n_nodes] = (struct dom_node){
                .parent = parent, .child = DOM_NONE, .next = DOM_NONE, .at = (uint32_t)r->at};
        return d->n_nodes++;
}

static bool fill_value(struct reader *r, uint32_t node, unsigned depth) {
        struct dom *d = r->d;
        struct dom_node *x = &d->nodes[node];

        switch (peek(r)) {
        case '{':
        case '[':
                if (depth >= MAX_NESTING)
                        return fail(r, r->at, ERR_TOO_LARGE, "nested more than 64 deep");
                x->kind = peek(r) == '{' ? DOM_OBJECT : DOM_ARRAY;
                r->at++;
                return take_children(r, node, depth);
        case '"':
                x->kind = DOM_STRING;
                return take_string(r, &x->text, &x->text_size);
        case 't':
                x->kind = DOM_TRUE;
                return take_word(r, "true");
        case 'f':
                x->kind = DOM_FALSE;
                return take_word(r, "false");
        case 'n':
                x->kind = DOM_NULL;
                return take_word(r, "null");
        default:
                if (peek(r) == '-' || is_digit(peek(r)))
                        return take_number(r, x);
                return fail(r, r->at, ERR_INVALID, "a value of JSON is expected here");
        }
}

static uint32_t take_value(struct reader *r, uint32_t parent, unsigned depth) {
        uint32_t node;

        skip(r);
        node = new_node(r, parent);
        return node != DOM_NONE && fill_value(r, node, depth) ? node : DOM_NONE;
}

void dom_parse(struct dom *d, struct build *b, const char *text, size_t size) {
        struct reader r = {.d = d, .text = (const uint8_t *)text, .n = size};

        *d = (struct dom){.b = b};
        /* a first byte, so that there is a table even if all strings are empty */
        if (b->failed || !put(&r, (const uint8_t *)"", 1) ||
                take_value(&r, DOM_NONE, 0) == DOM_NONE)
                return;
        skip(&r);
        if (r.at < r.n)
                fail(&r, r.at, ERR_INVALID, "something follows the schema");
}

void dom_deinit(struct dom *d) {
        free(d->nodes);
        free(d->bytes);
        charge_give(&d->b->charge, d->nodes_capacity * sizeof(*d->nodes) + d->bytes_capacity);
        *d = (struct dom){0};
}

uint32_t dom_get_n(const struct dom *d, uint32_t node, const uint8_t *key, uint32_t n) {
        if (d->nodes[node].kind != DOM_OBJECT)
                return DOM_NONE;
        if (!build_work(d->b, d->nodes[node].n / 4 + 1))
                return DOM_NONE;
        for (uint32_t c = d->nodes[node].child; c != DOM_NONE; c = d->nodes[c].next)
                if (d->nodes[c].key_size == n && memcmp(d->bytes + d->nodes[c].key, key, n) == 0)
                        return c;
        return DOM_NONE;
}

uint32_t dom_get(const struct dom *d, uint32_t node, const char *key) {
        return dom_get_n(d, node, (const uint8_t *)key, (uint32_t)strlen(key));
}

bool dom_key_is(const struct dom *d, uint32_t node, const char *key) {
        const struct dom_node *x = &d->nodes[node];

        return x->key_size == strlen(key) && memcmp(d->bytes + x->key, key, x->key_size) == 0;
}

bool dom_equal(const struct dom *d, uint32_t a, uint32_t b) {
        const struct dom_node *x = &d->nodes[a], *y = &d->nodes[b];
        struct decimal p, q;

        if (x->kind != y->kind || x->n != y->n || !build_work(d->b, 1))
                return false;
        switch (x->kind) {
        case DOM_NUMBER:
                if (decimal_parse(&p, dom_text(d, a), x->text_size) &&
                        decimal_parse(&q, dom_text(d, b), y->text_size))
                        return decimal_compare(&p, &q) == 0;
                __attribute__((fallthrough));
        case DOM_STRING:
                return x->text_size == y->text_size &&
                       memcmp(dom_text(d, a), dom_text(d, b), x->text_size) == 0;
        case DOM_ARRAY:
                for (uint32_t i = x->child, j = y->child; i != DOM_NONE;
                        i = d->nodes[i].next, j = d->nodes[j].next)
                        if (!dom_equal(d, i, j))
                                return false;
                return true;
        case DOM_OBJECT:
                for (uint32_t i = x->child, j; i != DOM_NONE; i = d->nodes[i].next) {
                        j = dom_get_n(d, b, d->bytes + d->nodes[i].key, d->nodes[i].key_size);
                        if (j == DOM_NONE || !dom_equal(d, i, j))
                                return false;
                }
                return true;
        default:
                return true;
        }
}

const char *dom_pointer(const struct dom *d, uint32_t node, char *dst, size_t size) {
        uint32_t path[MAX_NESTING + 2];
        unsigned n = 0;
        size_t at = 1;

        for (; node != DOM_NONE && d->nodes[node].parent != DOM_NONE && n < ARRAY_SIZE(path);
                node = d->nodes[node].parent)
                path[n++] = node;
        snprintf(dst, size, "#");
        while (n > 0 && at + 8 < size) {
                const struct dom_node *x = &d->nodes[path[--n]];

                if (d->nodes[x->parent].kind == DOM_ARRAY) {
                        at += (size_t)snprintf(dst + at, size - at, "/%u", x->index);
                        continue;
                }
                dst[at++] = '/';
                for (uint32_t i = 0; i < x->key_size && at + 8 < size; i++) {
                        uint8_t c = d->bytes[x->key + i];

                        if (c == '~' || c == '/')
                                at += (size_t)snprintf(dst + at, size - at, "~%d", c == '/');
                        else
                                dst[at++] = (char)(c < 0x20 ? '?' : c);
                }
                dst[at] = 0;
        }
        return dst;
}

static int hex(uint8_t c) {
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

/* One step of a pointer, decoded into @key; false if it is malformed. */
static bool take_step(const uint8_t **p, const uint8_t *end, uint8_t *key, uint32_t *ret_n) {
        uint32_t n = 0;

        for (++*p; *p < end && **p != '/'; ++*p) {
                uint8_t c = **p;

                if (c == '%') {
                        if (end - *p < 3 || hex((*p)[1]) < 0 || hex((*p)[2]) < 0)
                                return false;
                        c = (uint8_t)(hex((*p)[1]) << 4 | hex((*p)[2]));
                        *p += 2;
                }
                if (c == '~') {
                        if (end - *p < 2 || ((*p)[1] != '0' && (*p)[1] != '1'))
                                return false;
                        c = (*p)[1] == '0' ? '~' : '/';
                        ++*p;
                }
                if (n == 256)
                        return false;
                key[n++] = c;
        }
        *ret_n = n;
        return true;
}

static uint32_t nth_child(const struct dom *d, uint32_t node, const uint8_t *key, uint32_t n) {
        uint32_t index = 0, c = d->nodes[node].child;

        if (n == 0 || n > 6)
                return DOM_NONE;
        for (uint32_t i = 0; i < n; i++) {
                if (!is_digit(key[i]))
                        return DOM_NONE;
                index = index * 10 + (uint32_t)(key[i] - '0');
        }
        while (c != DOM_NONE && index-- > 0)
                c = d->nodes[c].next;
        return c;
}

uint32_t dom_resolve(const struct dom *d, const uint8_t *ref, uint32_t n) {
        const uint8_t *p = ref + 1, *end = ref + n;
        uint32_t node = 0, size;
        uint8_t key[256];

        if (n == 0 || ref[0] != '#' || (n > 1 && ref[1] != '/'))
                return DOM_NONE;
        while (p < end && node != DOM_NONE) {
                if (!take_step(&p, end, key, &size))
                        return DOM_NONE;
                node = d->nodes[node].kind == DOM_ARRAY ? nth_child(d, node, key, size)
                                                        : dom_get_n(d, node, key, size);
        }
        return node;
}

/* --- decimal numbers --- */

bool decimal_parse(struct decimal *d, const uint8_t *text, size_t n) {
        char digits[2 * DECIMAL_DIGITS];
        size_t n_digits = 0, at = 0;
        long point = 0, exponent = 0; /* digits before the point */
        bool fraction = false, minus = false;

        *d = (struct decimal){.negative = n > 0 && text[0] == '-'};
        for (at = d->negative; at < n && (is_digit(text[at]) || text[at] == '.'); at++) {
                if (text[at] == '.') {
                        fraction = true;
                        continue;
                }
                if (n_digits == 0 && text[at] == '0') {
                        point -= fraction;
                        continue;
                }
                if (n_digits == sizeof(digits))
                        return false;
                digits[n_digits++] = (char)text[at];
                point += !fraction;
        }
        if (at < n) { /* e */
                at++;
                minus = text[at] == '-';
                at += text[at] == '-' || text[at] == '+';
                for (; at < n && exponent < 10000; at++)
                        exponent = exponent * 10 + (text[at] - '0');
        }
        while (n_digits > 0 && digits[n_digits - 1] == '0')
                n_digits--;
        if (n_digits == 0) {
                d->negative = false;
                return true;
        }
        point += minus ? -exponent : exponent;
        if (point > DECIMAL_DIGITS || point < -DECIMAL_DIGITS ||
                (long)n_digits - point > DECIMAL_DIGITS)
                return false;
        for (long i = 0; i < point; i++)
                d->int_digits[d->n_int++] = i < (long)n_digits ? digits[i] : '0';
        for (long i = point; i < (long)n_digits; i++)
                d->frac_digits[d->n_frac++] = i < 0 ? '0' : digits[i];
        return true;
}

static int compare_magnitudes(const struct decimal *a, const struct decimal *b) {
        int r;

        if (a->n_int != b->n_int)
                return a->n_int < b->n_int ? -1 : 1;
        r = memcmp(a->int_digits, b->int_digits, a->n_int);
        if (r == 0)
                r = memcmp(a->frac_digits, b->frac_digits, MIN(a->n_frac, b->n_frac));
        return r ? r : a->n_frac < b->n_frac ? -1 : a->n_frac > b->n_frac;
}

int decimal_compare(const struct decimal *a, const struct decimal *b) {
        if (a->negative != b->negative)
                return a->negative ? -1 : 1;
        return a->negative ? -compare_magnitudes(a, b) : compare_magnitudes(a, b);
}
