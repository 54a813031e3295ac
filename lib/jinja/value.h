/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Values of the language, made in an arena. Nothing here fails loudly: when the arena has an error,
 * constructors return an empty string or a container that takes nothing, and the error is found at
 * the arena.
 *
 * 1. A string never changes. Its bytes have marks: marks[i] tells whether byte i is trusted; without
 *    marks all bytes are as @trusted says.
 * 2. Scalars are trusted if the template wrote them, or computed them from such; their text then is
 *    too.
 * 3. Containers that came from the caller are constant.
 */
#include "jinja/arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum type {
        T_UNDEFINED,
        T_NONE,
        T_BOOL,
        T_INT,
        T_BIG, /* an integer beyond int64 from JSON: its digits */
        T_FLOAT,
        T_STRING,
        T_LIST,
        T_TUPLE,
        T_DICT,
        T_NAMESPACE,
        T_LOOP,
        T_MACRO,
        T_FUNCTION,
        T_METHOD,
        T_CYCLER,
        T_JOINER,
};

struct function;
struct loop;
struct macro;
struct method;

/* Why a value is undefined, for the message of whatever needs it. */
struct missing {
        const char *of;            /* NULL: a variable; else what has no such attribute */
        const struct string *name; /* NULL: an if-expression without else, or an empty sequence */
};

struct value {
        uint8_t type; /* enum type */
        bool trusted; /* of scalars */
        union {
                bool b;
                int64_t i;
                double f;
                const struct string *s;        /* T_STRING, T_BIG */
                struct list *list;             /* T_LIST, T_TUPLE */
                struct dict *dict;             /* T_DICT, T_NAMESPACE */
                const struct missing *missing; /* may be NULL */
                struct loop *loop;
                const struct macro *macro;
                const struct function *function;
                const struct method *method;
                struct cycler *cycler;
        };
};

#define UNDEFINED ((struct value){.type = T_UNDEFINED})
#define NONE ((struct value){.type = T_NONE, .trusted = true})
static inline struct value v_bool(bool b) {
        return (struct value){.type = T_BOOL, .b = b};
}
static inline struct value v_int(int64_t i) {
        return (struct value){.type = T_INT, .i = i};
}
static inline struct value v_float(double f) {
        return (struct value){.type = T_FLOAT, .f = f};
}
static inline struct value v_string(const struct string *s) {
        return (struct value){.type = T_STRING, .s = s};
}
static inline struct value v_list(struct list *l) {
        return (struct value){.type = T_LIST, .list = l};
}
static inline struct value v_tuple(struct list *l) {
        return (struct value){.type = T_TUPLE, .list = l};
}
static inline struct value v_dict(struct dict *d) {
        return (struct value){.type = T_DICT, .dict = d};
}
static inline struct value v_trusted(struct value v, bool trusted) {
        v.trusted = trusted;
        return v;
}
static inline bool is_sequence(struct value v) {
        return v.type == T_LIST || v.type == T_TUPLE;
}

struct string {
        const char *text;
        const uint8_t *marks; /* NULL: all bytes are as @trusted says */
        size_t n;             /* bytes */
        size_t n_chars;       /* characters */
        struct text *owner;   /* NULL, or the text that may still grow behind this string */
        bool trusted;
};

/* Counts characters; an ill-formed byte counts as one. */
size_t count_chars(const char *text, size_t n);
/* The character at @i and its length in bytes; an ill-formed byte is itself, plus CHAR_BAD. */
#define CHAR_BAD 0x200000u
uint32_t char_at(const char *text, size_t n, size_t i, size_t *ret_length);
/* Start of the character with the index @i (i <= n_chars), in bytes. */
size_t string_offset(const struct string *s, size_t i);
static inline bool string_is(const struct string *s, const char *text, size_t n) {
        return s->n == n && (n == 0 || __builtin_memcmp(s->text, text, n) == 0);
}
#define string_is_lit(s, lit) string_is((s), "" lit, sizeof(lit) - 1)
bool string_equal(const struct string *a, const struct string *b);
int string_order(const struct string *a, const struct string *b); /* by code points: < 0, 0, > 0 */
bool string_trusted_at(const struct string *s, size_t i);
bool string_trusted_all(const struct string *s, size_t from, size_t to);

const struct string *string_empty(void);
/* A copy of @text. */
const struct string *string_new(struct arena *a, const char *text, size_t n, bool trusted);
/* Text that lives as long as the arena. */
const struct string *string_static(struct arena *a, const char *text, bool trusted);
/* Bytes [from, to) of @s, sharing them; both are borders of characters. */
const struct string *string_slice(struct arena *a, const struct string *s, size_t from, size_t to);
const struct string *string_concat(struct arena *a, const struct string *x, const struct string *y);

/* A string in the making. */
struct text {
        struct arena *a;
        char *data;
        uint8_t *marks; /* NULL while all is as @trusted says */
        size_t used, capacity;
        bool trusted;
};
struct text *text_new(struct arena *a, size_t expected);
void text_add(struct text *t, const char *data, size_t n, bool trusted);
void text_add_string(struct text *t, const struct string *s);
void text_add_part(struct text *t, const struct string *s, size_t from, size_t to);
void text_add_char(struct text *t, uint32_t c, bool trusted);
#define text_add_lit(t, lit, trusted) text_add((t), "" lit, sizeof(lit) - 1, (trusted))
const struct string *text_finish(struct text *t);

struct list {
        struct value *items; /* [n] */
        size_t n, capacity;
        bool constant;
        bool group; /* a pair of groupby(): has the attributes "grouper" and "list" */
};
struct list *list_new(struct arena *a, size_t expected);
void list_add(struct arena *a, struct list *l, struct value v);

struct entry {
        struct value key, value;
        uint64_t hash;
        bool gone;
};
/* In the order of insertion; indexed by hash from 9 entries on. */
struct dict {
        struct entry *entries; /* [n_used], some gone */
        size_t n, n_used, capacity;
        uint32_t *index; /* [n_index], place in entries + 1; NULL: few entries */
        size_t n_index;
        bool constant;
};
struct dict *dict_new(struct arena *a);
/* Whether @v may be a key. */
bool key_possible(struct value v);
struct entry *dict_find(const struct dict *d, struct value key);
struct entry *dict_find_string(const struct dict *d, const struct string *key);
void dict_set(struct arena *a, struct dict *d, struct value key, struct value v);
bool dict_remove(struct dict *d, struct value key);
/* Iteration: the next entry from *at on, or NULL. */
struct entry *dict_next(const struct dict *d, size_t *at);

/* As Python has it: not for undefined, none, false, zero, and what is empty. */
bool is_true(struct value v);
const char *type_name(struct value v); /* as Python names it: "str", "NoneType" */
bool is_number(struct value v);        /* bool, int or float; not T_BIG */
double as_double(struct value v);      /* of a number */
int64_t as_int(struct value v);        /* of a bool or int */
/* Equality of numbers and strings, as keys have it; containers are run.h's to compare. */
bool scalar_equal(struct value a, struct value b);
