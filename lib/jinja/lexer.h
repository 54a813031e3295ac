/* SPDX-License-Identifier: MIT */
#pragma once
/* From a template's text to tokens, one at a time. Private to parsing. */
#include "jinja/node.h"

enum token_kind {
        K_END, /* of the template */
        K_DATA,
        K_VARIABLE_BEGIN,
        K_VARIABLE_END,
        K_BLOCK_BEGIN,
        K_BLOCK_END,
        K_NAME,
        K_STRING,
        K_INT,
        K_FLOAT,
        K_OP,
};

/* Operators of two characters are made of both: '/' << 8 | '/'. */
#define OP2(x, y) ((unsigned)(x) << 8 | (unsigned)(y))

struct token {
        enum token_kind kind;
        uint32_t offset;
        const char *text; /* K_DATA, K_NAME: the bytes, in the template's text */
        size_t n;
        unsigned op;               /* K_OP */
        const struct string *name; /* K_NAME: interned */
        struct value value;        /* K_STRING, K_INT, K_FLOAT */
};

enum lexer_where { IN_DATA, IN_VARIABLE, IN_BLOCK };

struct lexer {
        struct jinja *t;
        struct err *e;
        int error; /* sticky */
        unsigned flags;
        size_t at;
        enum lexer_where where;
        bool line_start; /* the next text begins a line */
        bool strip;      /* the next text loses white space in front ("-%}") */
        unsigned n_open; /* brackets */
        char open[256];
        bool raw;           /* inside {% raw %} */
        struct token token; /* the present one */
};

void lexer_init(struct lexer *l, struct jinja *t, unsigned flags, struct err *e);
/* Go to the next token. After an error all tokens are K_END. */
void lexer_next(struct lexer *l);
/* Sets the error, with the place, unless there is one already. */
void lexer_fail(struct lexer *l, int code, uint32_t offset, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
/* How to call the present token in a message, in a static buffer of the lexer's caller. */
const char *token_words(const struct token *k, char buffer[64]);
