/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Reading JSON of requests with names for what is wrong: "messages[3].content is not a string".
 *
 * A path is written as it is gone down; all errors are -ERR_INVALID with e->msg "PATH is not ...", and `wrong` has the
 * path for the dialect's `param`. Fields that are null count as absent. Unknown fields are
 * ignored by not being asked for.
 */
#include "base/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parse a body: an object, UTF-8, nested at most 64 deep; of keys that are there twice the last counts. *ret is to be given to
 * json_decref(). Errors as jansson_read() (jansson-read.h). */
int fields_parse(json_t **ret, const char *text, size_t size, struct err *e);
/* The same of a value of any type, such as a parameter of a query. 1: the text is no JSON; -ERR_TOO_LARGE, -ERR_NOMEM. */
int fields_parse_value(json_t **ret, const char *text);

struct fields {
        char path[160];  /* of what is being read, cut to fit: "messages[3]." */
        char wrong[160]; /* of what was wrong, or "" */
};
#define FIELDS_NULL ((struct fields){})
/* Go down: "messages", index 3. Returns the length to go back to. */
size_t fields_enter(struct fields *fields, const char *name, size_t index);
size_t fields_enter_name(struct fields *fields, const char *name);
void fields_leave(struct fields *fields, size_t length);

/* Each: *ret is NULL, or untouched with *ret_has (if not NULL) false, if @object has no @name or it is null. Strings have no
 * NUL in them (that is refused), belong to @object. */
int fields_object(
        struct fields *fields, const json_t *object, const char *name, json_t **ret, struct err *e);
int fields_array(
        struct fields *fields, const json_t *object, const char *name, json_t **ret, struct err *e);
int fields_string(struct fields *fields, const json_t *object, const char *name, const char **ret,
        struct err *e);
int fields_bool(
        struct fields *fields, const json_t *object, const char *name, bool *ret, struct err *e);
/* A whole number in [min, max]; 5.0 is one. */
int fields_integer(struct fields *fields, const json_t *object, const char *name, int64_t min,
        int64_t max, int64_t *ret, bool *ret_has, struct err *e);
int fields_number(struct fields *fields, const json_t *object, const char *name, double min,
        double max, double *ret, bool *ret_has, struct err *e);
/* Any other wrong thing: -ERR_INVALID "PATHname is not WHAT". @name may be "". */
int fields_wrong(struct fields *fields, const char *name, const char *what, struct err *e);
/* The value itself must be of a type. */
int fields_be_object(struct fields *fields, const json_t *value, struct err *e);
int fields_be_string(struct fields *fields, const json_t *value, const char **ret, struct err *e);
