/* SPDX-License-Identifier: MIT */
/*
 * Strings share their bytes: a slice points into its string, and a string that grows at its end (as
 * in a loop that appends) is continued in place while nothing else has been put behind it. So
 * appending in a loop takes linear time and memory.
 */
#include "jinja/value.h"
#include "base/utf8.h"
#include "base/util.h"
#include <string.h>

static const struct string EMPTY = {.text = "", .trusted = true};
/* A result of concatenation is given room to grow if it is longer. */
#define SMALL_TEXT 256

uint32_t char_at(const char *text, size_t n, size_t i, size_t *ret_length) {
        uint32_t cp;
        int k = (uint8_t)text[i] < 0x80 ? 0 : utf8_decode((const uint8_t *)text + i, n - i, &cp);

        *ret_length = k > 0 ? (size_t)k : 1;
        if (k > 0)
                return cp;
        return (uint8_t)text[i] < 0x80 ? (uint8_t)text[i] : CHAR_BAD | (uint8_t)text[i];
}

size_t count_chars(const char *text, size_t n) {
        size_t chars = 0, k;

        for (size_t i = 0; i < n; i += k, chars++) {
                uint64_t eight;

                for (; n - i >= 8; i += 8, chars += 8) { /* ASCII, eight at a time */
                        memcpy(&eight, text + i, 8);
                        if (eight & 0x8080808080808080)
                                break;
                }
                if (i == n)
                        break;
                char_at(text, n, i, &k);
        }
        return chars;
}

size_t string_offset(const struct string *s, size_t i) {
        size_t at = 0;

        if (s->n_chars == s->n)
                return i;
        if (i == s->n_chars)
                return s->n;
        for (size_t k; i > 0 && at < s->n; i--, at += k)
                char_at(s->text, s->n, at, &k);
        return at;
}

bool string_equal(const struct string *a, const struct string *b) {
        return a == b || string_is(a, b->text, b->n);
}

/* UTF-8 has the order of its code points. */
int string_order(const struct string *a, const struct string *b) {
        size_t n = MIN(a->n, b->n);
        int r = n > 0 ? memcmp(a->text, b->text, n) : 0;

        return r != 0 ? r : (a->n > b->n) - (a->n < b->n);
}

bool string_trusted_at(const struct string *s, size_t i) {
        return s->marks ? s->marks[i] : s->trusted;
}

bool string_trusted_all(const struct string *s, size_t from, size_t to) {
        if (!s->marks)
                return s->trusted;
        while (from < to && s->marks[from])
                from++;
        return from >= to;
}

const struct string *string_empty(void) {
        return &EMPTY;
}

static const struct string *make(struct arena *a, struct string s) {
        struct string *p = arena_alloc(a, sizeof(*p));

        if (!p)
                return &EMPTY;
        *p = s;
        return p;
}

const struct string *string_new(struct arena *a, const char *text, size_t n, bool trusted) {
        char *copy = arena_grow(a, NULL, 0, n + 1);

        if (!copy)
                return &EMPTY;
        if (n > 0)
                memcpy(copy, text, n);
        copy[n] = 0;
        return make(a,
                (struct string){
                        .text = copy, .n = n, .n_chars = count_chars(copy, n), .trusted = trusted});
}

const struct string *string_static(struct arena *a, const char *text, bool trusted) {
        size_t n = strlen(text);

        return make(a,
                (struct string){
                        .text = text, .n = n, .n_chars = count_chars(text, n), .trusted = trusted});
}

const struct string *string_slice(struct arena *a, const struct string *s, size_t from, size_t to) {
        struct string part = {.text = s->text + from,
                .marks = s->marks ? s->marks + from : NULL,
                .n = to - from,
                .trusted = s->trusted};

        if (from >= to)
                return &EMPTY;
        if (from == 0 && to == s->n)
                return s;
        part.n_chars = s->n_chars == s->n ? part.n : count_chars(part.text, part.n);
        return make(a, part);
}

const struct string *string_concat(
        struct arena *a, const struct string *x, const struct string *y) {
        struct text *t = x->owner;
        struct string s;

        if (x->n == 0 || y->n == 0)
                return x->n == 0 ? y : x;
        /* Strings with an owner begin where its text does. Only the longest one can be continued. */
        if (!t || t->a != a || x->text != t->data || x->n != t->used) {
                t = text_new(a, x->n < SMALL_TEXT ? x->n + y->n : 2 * x->n + y->n);
                if (!t)
                        return &EMPTY;
                text_add_string(t, x);
        }
        text_add_string(t, y);
        if (a->error < 0)
                return &EMPTY;
        s = (struct string){.text = t->data,
                .marks = t->marks,
                .n = x->n + y->n,
                .n_chars = x->n_chars + y->n_chars,
                .owner = t,
                .trusted = t->trusted};
        /* Bytes that were no characters alone may be one together. */
        if (((uint8_t)y->text[0] & 0xC0) == 0x80)
                s.n_chars = count_chars(s.text, s.n);
        return make(a, s);
}

struct text *text_new(struct arena *a, size_t expected) {
        struct text *t = arena_alloc(a, sizeof(*t));

        if (!t)
                return NULL;
        t->a = a;
        t->trusted = true;
        if (expected > 0) {
                t->data = arena_grow(a, NULL, 0, expected);
                t->capacity = t->data ? expected : 0;
        }
        return t;
}

/* Room for @n more bytes. */
static bool reserve(struct text *t, size_t n) {
        size_t capacity = MAX(2 * t->capacity, (size_t)64);
        char *data;

        if (n <= t->capacity - t->used)
                return t->a->error == 0;
        if (n > SIZE_MAX / 4 - t->used)
                capacity = SIZE_MAX; /* which the arena refuses */
        else
                capacity = MAX(capacity, t->used + n);
        data = arena_grow(t->a, t->data, t->used, capacity);
        if (!data)
                return false;
        if (t->marks) {
                uint8_t *marks = arena_grow(t->a, t->marks, t->used, capacity);

                if (!marks)
                        return false;
                t->marks = marks;
        }
        t->data = data;
        t->capacity = capacity;
        return true;
}

/* From here on each byte has a mark. */
static bool mix(struct text *t) {
        uint8_t *marks = arena_grow(t->a, NULL, 0, t->capacity);

        if (!marks)
                return false;
        memset(marks, t->trusted, t->used);
        t->marks = marks;
        return true;
}

/* Room, and marks if the bytes to come are not like those that are there. */
static bool prepare(struct text *t, size_t n, bool uniform, bool trusted) {
        if (n == 0 || !reserve(t, n))
                return false;
        if (t->used == 0 && uniform && !t->marks)
                t->trusted = trusted;
        else if (!t->marks && (!uniform || t->trusted != trusted))
                return mix(t);
        return true;
}

void text_add(struct text *t, const char *data, size_t n, bool trusted) {
        if (!t || !prepare(t, n, true, trusted))
                return;
        memcpy(t->data + t->used, data, n);
        if (t->marks)
                memset(t->marks + t->used, trusted, n);
        t->used += n;
}

void text_add_part(struct text *t, const struct string *s, size_t from, size_t to) {
        if (from >= to)
                return;
        if (!s->marks) {
                text_add(t, s->text + from, to - from, s->trusted);
        } else if (t && prepare(t, to - from, false, false)) {
                memcpy(t->data + t->used, s->text + from, to - from);
                memcpy(t->marks + t->used, s->marks + from, to - from);
                t->used += to - from;
        }
}

void text_add_string(struct text *t, const struct string *s) {
        text_add_part(t, s, 0, s->n);
}

void text_add_char(struct text *t, uint32_t c, bool trusted) {
        uint8_t bytes[4] = {(uint8_t)c};

        text_add(t, (char *)bytes, c & CHAR_BAD ? 1 : (size_t)utf8_encode(c, bytes), trusted);
}

const struct string *text_finish(struct text *t) {
        if (!t || t->used == 0 || t->a->error < 0)
                return &EMPTY;
        return make(t->a, (struct string){.text = t->data,
                                  .marks = t->marks,
                                  .n = t->used,
                                  .n_chars = count_chars(t->data, t->used),
                                  .owner = t,
                                  .trusted = t->trusted});
}
