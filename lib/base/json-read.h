/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * JSON reader (RFC 8259): the items of one text, one after the other. Nothing is kept but the present
 * string, so memory is bounded by the longest one. Nesting beyond JSON_MAX_DEPTH is refused. A second value behind
 * the first, bytes that are not UTF-8, and lone surrogates are refused; a string may have NUL (\u0000).
 *
 *     { "a": [1, "x"] }   OBJECT KEY ARRAY NUMBER STRING ARRAY_END OBJECT_END END (JSON_ITEM_...)
 */
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

struct err;

#define JSON_MAX_DEPTH 64

enum json_item {
        JSON_ITEM_END,
        JSON_ITEM_NULL,
        JSON_ITEM_FALSE,
        JSON_ITEM_TRUE,
        JSON_ITEM_NUMBER, /* its text is text[start, at) */
        JSON_ITEM_STRING, /* decoded in `string` */
        JSON_ITEM_KEY,    /* likewise */
        JSON_ITEM_ARRAY,
        JSON_ITEM_ARRAY_END,
        JSON_ITEM_OBJECT,
        JSON_ITEM_OBJECT_END
};

struct json_reader {
        const char *text;       /* borrowed */
        size_t size, start, at; /* the present item is text[start, at) */
        uint64_t objects;       /* one bit per depth: it is an object */
        unsigned depth;
        bool began, has_item, after_key; /* a value was begun; an item precedes in this depth */
        struct buf string; /* of the present STRING or KEY; the next call overwrites it */
};

/* @r is to be given to json_reader_deinit() at the end. */
void json_reader_init(struct json_reader *r, const char *text, size_t size);
void json_reader_deinit(struct json_reader *r);
/* The next item; JSON_ITEM_END behind the value, again and again. -ERR_INVALID with line and column;
 * -ERR_NOMEM, or what the charge of `string` returns. After a failure the reader is of no use. */
int json_next(struct json_reader *r, enum json_item *ret, struct err *e);
/* Skip the rest of the value that began with @item (of an array or object: to its end). */
int json_skip(struct json_reader *r, enum json_item item, struct err *e);
/* -ERR_INVALID: @what ("a name is a string") at the present item, with line and column. */
int json_wrong(const struct json_reader *r, struct err *e, const char *what);
static inline bool json_is(const struct json_reader *r, const char *s) {
        size_t n = __builtin_strlen(s);

        return r->string.size == n && (n == 0 || __builtin_memcmp(r->string.data, s, n) == 0);
}
