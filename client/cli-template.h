/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Questions of map: from a line of its input, and a template (--template).
 *
 *   Plain lines   the line is the question; in a template {} stands for it.
 *   JSON lines    each is an object. "message", or "text", is the question, and {} in a template. {NAME} in a template
 *                 is its member NAME (letters, digits, _ and -): a string as it is, other values as JSON. "id", of any
 *                 kind, names the line in the results.
 *
 * All other braces are text, so that a template may have JSON in it. {{}} and {{NAME}} stand for {} and {NAME}. Nothing in
 * what is put in is looked at again. Prints nothing.
 */
#include <stdbool.h>
#include <stddef.h>

struct err;

struct question {
        char *text; /* NULL: the line is blank, and asks nothing */
        size_t size;
        char *id; /* JSON text, or NULL: it has none */
};

/* @template may be NULL. *ret is to be given to question_deinit(), which takes {0} as well. -ERR_INVALID: no JSON object,
 * or a member is missing, or no question is there; then `id` may be set. -ERR_TOO_LARGE: more than @max bytes. -ERR_NOMEM. */
int question_make(struct question *ret, const char *template, bool json, const char *line,
        size_t size, size_t max, struct err *e);
void question_deinit(struct question *q);
