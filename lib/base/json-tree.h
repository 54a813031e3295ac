/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A JSON text as a tree, for texts whose members come in any order (base/json-read.h gives one item after the other,
 * without memory). What that refuses is refused here: nesting beyond 64, bytes that are not UTF-8, lone surrogates, a
 * second value. One owner; not shared between threads.
 *
 * A failed allocation is an error here, never an abort and never a value that lacks a piece.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Values of one text: what a tree costs is bounded by this and by the size of the text. */
#define JSON_TREE_VALUES_MAX ((size_t)1 << 16)

enum json_kind {
        JSON_KIND_NULL,
        JSON_KIND_FALSE,
        JSON_KIND_TRUE,
        JSON_KIND_NUMBER,
        JSON_KIND_STRING,
        JSON_KIND_ARRAY,
        JSON_KIND_OBJECT
};

struct json_value {
        enum json_kind kind;
        struct json_value *next; /* in the array or object that it is in; NULL: the last one */
        struct json_value *first, *last; /* owned: elements or members, in their order */
        size_t n;                        /* of these */
        char *key;                       /* owned: of a member; else NULL */
        size_t key_size;
        char *text; /* owned, NUL-terminated: a string, decoded (it may have NULs), or a number as written */
        size_t size; /* of it in bytes */
};

/* *ret is to be freed. -ERR_INVALID with line and column; -ERR_TOO_LARGE: more than JSON_TREE_VALUES_MAX values;
 * -ERR_NOMEM. */
int json_tree_parse(struct json_value **ret, const char *text, size_t size, struct err *e);
/* Returns NULL; @value may be NULL, and is not within another value. */
struct json_value *json_tree_free(struct json_value *value);
DEFINE_CLEANUP(struct json_value *, json_tree_free);

/* The functions below take NULL as the value of no kind. */
static inline bool json_tree_is(const struct json_value *value, enum json_kind kind) {
        return value && value->kind == kind;
}
/* The member of an object, the last one of this name; NULL: there is none, or @object is no object. */
const struct json_value *json_tree_get(const struct json_value *object, const char *name);
/* The text of a string that has no NUL; else NULL. */
const char *json_tree_string(const struct json_value *value);
/* True if it is a number without fraction and exponent that *ret can hold. */
bool json_tree_integer(const struct json_value *value, int64_t *ret);
/* Write it; numbers as they were written. NULL: null. Nesting that base/json.h does not write is an error of @j. */
void json_tree_put(struct json *j, const struct json_value *value);
