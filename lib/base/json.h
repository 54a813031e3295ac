/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * JSON writer (RFC 8259) into a struct buf; the writer adds commas and nesting. Errors are sticky
 * and returned by json_finish(). In strings that are not UTF-8, bad bytes are replaced by U+FFFD.
 */
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

struct json {
        struct buf *out;
        int error;
        unsigned depth;
        uint64_t has_item; /* one bit per depth: an item was written at that depth */
        bool after_key;
};

void json_init(struct json *j, struct buf *out);
void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);
void json_put_key(struct json *j, const char *key);
void json_put_key_n(struct json *j, const void *key, size_t n);
void json_put_string(struct json *j, const char *s); /* NULL: null */
void json_put_string_n(struct json *j, const void *s, size_t n);
void json_put_u64(struct json *j, uint64_t v);
void json_put_i64(struct json *j, int64_t v);
void json_put_bool(struct json *j, bool v);
void json_put_null(struct json *j);
/* A value, or several with commas between, that is JSON already. Line breaks, which are white space there, become
 * spaces, so that what is written stays one line. */
void json_put_raw(struct json *j, const char *text, size_t n);
/* Shortest decimal that reads back as the same double; not finite: null. */
void json_put_double(struct json *j, double v);
/* Shortest decimal that reads back as the same float; not finite: null. */
void json_put_float(struct json *j, float v);
/* A member of an object: its key and its value. */
void json_put_key_string(struct json *j, const char *key, const char *s); /* NULL: null */
void json_put_key_u64(struct json *j, const char *key, uint64_t v);
void json_put_key_bool(struct json *j, const char *key, bool v);
/* 0 or the first error (-ERR_NOMEM, -ERR_LIMIT). */
int json_finish(struct json *j);
