/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Regexes of pre-tokenizers, run in one pass over the text.
 *
 *   regex-parse.c  text -> sets of characters, and a program that consumes them
 *   regex-class.c  characters -> classes: no set tells two characters of one class apart
 *   regex-table.c  program -> a table: state x class -> state
 *
 * The syntax is that of the models' own files, as far as they use it: alternatives, groups (with no
 * captures), greedy ? * + {n} {n,m}, classes with ranges, \p{..}, \s, \S, \d, and \x{..}; (?!X) and
 * (?<!X) for one character or class X, the latter at the beginning only; $ is the end of the text.
 * \s is White_Space and \d is Nd.
 *
 * The match is the one that a backtracking engine finds: of all alternatives the first that
 * matches, each repeat as long as possible. A state of the table is the ordered list of the places
 * in the program where such an engine might be, the preferred one first.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* tok_unicode[]: code point << 8 | properties, up to the next one. */
extern const uint32_t tok_unicode[];
extern const size_t tok_unicode_size;
#define REGEX_CATEGORY 31u /* mask of the general category, a number */
#define REGEX_SPACE 32u
#define REGEX_HAN 64u
#define REGEX_WORD 128u /* a word character, as Unicode's regex guidelines (UTS 18) have it */

#define REGEX_MAX_SETS 64
#define REGEX_MAX_RANGES 512
#define REGEX_MAX_CODE 8192
#define REGEX_MAX_STATES 8192
#define REGEX_MAX_RULES 8

struct regex_range {
        uint32_t from, to;
};

/* Characters: those of some categories, with some property, or in some ranges. */
struct regex_set {
        const char *text; /* in the rule: equal texts are one set */
        size_t size;
        uint32_t categories; /* a bit for each */
        uint8_t properties;
        bool not_space; /* everything that is no white space, too */
        bool negated;
        uint32_t first_range, n_ranges;
};

enum regex_op {
        REGEX_SET,        /* consume a character of set x */
        REGEX_SPLIT,      /* go on at x, or else at y */
        REGEX_JUMP,       /* go on at x */
        REGEX_NOT_NEXT,   /* only if no character of set x follows */
        REGEX_NOT_BEFORE, /* only if no character of set x is before */
        REGEX_MATCH,
};
struct regex_code {
        enum regex_op op;
        uint32_t x, y;
};

/* All rules of one pre-tokenizer while they are compiled: they share their sets. */
struct regex_compiler {
        struct regex_set sets[REGEX_MAX_SETS];
        size_t n_sets;
        struct regex_range ranges[REGEX_MAX_RANGES];
        size_t n_ranges;
        struct regex_code code[REGEX_MAX_CODE]; /* of all rules */
        size_t n_code;
        uint64_t members[256]; /* regex_classes_build(): the sets that a class is in */
};
/* Append the program of @rule. Its first instruction is *ret. -ERR_UNSUPPORTED: a mistake in the
 * table of pre-tokenizers. */
int regex_parse(struct regex_compiler *c, const char *rule, uint32_t *ret, struct err *e);
/* The set @text alone, such as "\\d": its number, or a negative error. */
int regex_parse_set(struct regex_compiler *c, const char *text, struct err *e);

struct regex_classes {
        uint16_t page[0x110000 / 256]; /* of a code point / 256 */
        uint8_t *pages;                /* [n][256] classes */
        uint8_t ascii[128];
        unsigned n; /* classes */
};
int regex_classes_build(struct regex_classes *k, struct regex_compiler *c, struct err *e);
/* The class of the character that well-formed text @s begins with, and its size. */
static inline unsigned regex_class(const struct regex_classes *k, const char *s, size_t *ret_size) {
        const uint8_t *p = (const uint8_t *)s;
        uint32_t cp;

        if (p[0] < 0x80) {
                *ret_size = 1;
                return k->ascii[p[0]];
        }
        if (p[0] < 0xe0) {
                *ret_size = 2;
                cp = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        } else if (p[0] < 0xf0) {
                *ret_size = 3;
                cp = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        } else {
                *ret_size = 4;
                cp = (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 |
                     (p[3] & 0x3fu);
        }
        return k->pages[(size_t)k->page[cp >> 8] << 8 | (cp & 0xff)];
}

struct regex_table {
        uint16_t *next;  /* [n_states][n_classes + 1]; the last column is the end of the text */
        uint16_t *start; /* [n_classes + 1]: by the class before, the last one: nothing is */
        unsigned n_columns;
};
#define REGEX_MATCHED 0x8000u /* in next: a match ends before this character */
#define REGEX_DEAD 0          /* the state without a way out */
int regex_table_build(struct regex_table *t, const struct regex_compiler *c,
        const struct regex_classes *k, uint32_t program, struct err *e);
void regex_table_deinit(struct regex_table *t);
