/* SPDX-License-Identifier: MIT */
#pragma once
/* Values from the caller. Private to lib/jinja. */
#include "jinja/value.h"

#define DATA_DEPTH 64

struct err;

struct jinja_data {
        struct arena arena;
        struct dict *variables;
        struct value open[DATA_DEPTH]; /* [depth]: the containers around the next value */
        struct value keys[DATA_DEPTH]; /* of the next value in each; T_UNDEFINED: none given */
        unsigned depth;
        int error; /* sticky */
};

/* Put a value where the next one belongs. */
void data_put(struct jinja_data *d, struct value v);
/* A JSON text as a value in @a. 0, or -ERR_FORMAT with the place; errors of @a are found there. */
int data_parse_json(struct arena *a, const char *text, size_t n, struct value *ret, struct err *e);
