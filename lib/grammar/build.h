/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What both languages become first: rules of expressions. Expressions are numbers into tables that
 * are charged as they grow. An error sticks: after the first one all functions do nothing, and the
 * number that they return means nothing. So callers look at build.failed where a loop might not
 * end, and at the end.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/charge.h"
#include "base/err.h"
#include "grammar/program.h"

#define BUILD_ENDLESS PROGRAM_ENDLESS
/* Limits of one grammar. Each has a test. */
#define MAX_EXPRS (1u << 18)
#define MAX_RULES (1u << 14)
#define MAX_NODES (1u << 17)
#define MAX_SETS (1u << 14)
#define MAX_REPEAT 1000000u /* of {m,n}, minLength, ... */
#define MAX_NESTING 64      /* of groups, of JSON in a schema */

enum expr_kind {
        EXPR_NEVER, /* nothing meets it */
        EXPR_EMPTY,
        EXPR_BYTES,  /* a: offset in bytes; b: how many */
        EXPR_CHARS,  /* a: offset in ranges; b: how many; sorted, apart from each other */
        EXPR_SEQ,    /* a: offset in kids; b: how many */
        EXPR_ALT,    /* as SEQ */
        EXPR_REPEAT, /* a: expression; b, c: least and most */
        EXPR_RULE    /* a: rule */
};
struct expr {
        enum expr_kind kind;
        uint32_t a, b, c;
};
#define NEVER 0u /* the first two expressions of every build */
#define EMPTY 1u

/* Code points [from, to]. */
struct range {
        uint32_t from, to;
};

struct rule {
        uint32_t expr;
        uint32_t name, name_size; /* in bytes; GBNF: of the text */
        uint32_t line, column;    /* GBNF */
        bool defined;
        bool keep; /* never inline it: it is used in many places, and so are its masks */
        bool productive, nullable, inlined;
        uint32_t size;  /* of its nodes, if inlined */
        uint32_t start; /* its first node, or UINT32_MAX */
        /* Schemas: why nothing meets the rule, if nothing does; `name` is a JSON pointer then. */
        const char *why;
};

struct build {
        struct charge charge;
        struct err *e;
        int failed; /* 0 or the first error */
        const atomic_bool *stop;
        uint64_t work; /* counted by long loops: build_work() */
        struct expr *exprs;
        uint32_t *kids;
        uint8_t *bytes;
        struct range *ranges;
        struct rule *rules;
        uint32_t n_exprs, n_kids, n_bytes, n_ranges, n_rules;
        uint32_t exprs_capacity, kids_capacity, bytes_capacity, ranges_capacity, rules_capacity;
};

/* --- build.c --- */

/* Room for one more item of an array of @n items, charged. 0, or an error. */
int table_grow(struct charge *c, void **p, uint32_t *capacity, uint32_t n, size_t item_size,
        struct err *e);
#define TABLE_ROOM(charge, table, capacity, n, e)                                                  \
        ({                                                                                         \
                void *_p = (table);                                                                \
                int _r = table_grow((charge), &_p, &(capacity), (n), sizeof(*(table)), (e));       \
                (table) = _p;                                                                      \
                _r;                                                                                \
        })

int build_init(struct build *b, struct ledger *ledger, const atomic_bool *stop, struct err *e);
void build_deinit(struct build *b);
/* Remember the first error. Always returns NEVER. */
uint32_t build_fail(struct build *b, enum err_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/* Count @n steps of work. False (and failed) if that was too much, or if the caller is to stop. */
bool build_work(struct build *b, uint64_t n);

uint32_t build_bytes(struct build *b, const void *bytes, size_t n);
uint32_t build_text(struct build *b, const char *text);
/* Sorts and joins @r in place. */
uint32_t build_chars(struct build *b, struct range *r, size_t n);
uint32_t build_seq(struct build *b, const uint32_t *kids, size_t n);
uint32_t build_alt(struct build *b, const uint32_t *kids, size_t n);
#define SEQ(b, ...)                                                                                \
        build_seq((b), (uint32_t[]){__VA_ARGS__},                                                  \
                sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
#define ALT(b, ...)                                                                                \
        build_alt((b), (uint32_t[]){__VA_ARGS__},                                                  \
                sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
uint32_t build_repeat(struct build *b, uint32_t expr, uint32_t min, uint32_t max);
uint32_t build_rule_use(struct build *b, uint32_t rule);
/* A new rule, not yet defined. */
uint32_t build_rule(struct build *b, bool keep);
void build_define(struct build *b, uint32_t rule, uint32_t expr);

/* --- the languages: return the rule of the whole text --- */

uint32_t gbnf_parse(struct build *b, const char *text, size_t size);

uint32_t schema_parse(struct build *b, const char *text, size_t size);

uint32_t parts_parse(struct build *b, const char *text, size_t size);

/* --- regex.c --- */

/* The JSON strings (in their quotes) that ECMA pattern @text matches. @where: for messages. */
uint32_t build_regex(struct build *b, const char *text, size_t size, const char *where);

/* --- analyse.c, lower.c --- */

/* Find out what rules can be met, which may be empty and which are inlined; refuse left recursion,
 * and a root that nothing meets. */
void analyse(struct build *b, uint32_t root);
bool expr_productive(const struct build *b, uint32_t expr);
bool expr_nullable(const struct build *b, uint32_t expr);
/* Write the nodes of all rules that root reaches. */
void lower(struct build *b, uint32_t root, struct program *p);
