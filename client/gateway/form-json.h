/* SPDX-License-Identifier: MIT */
#pragma once
/* Parts of a request's JSON that go on to the daemon as they are: schemas, definitions, arguments. */
#include "client/gateway/form.h"
#include <jansson.h>

/* @value as JSON on one line, in the form's memory: keys in their order, numbers as libjansson has read them.
 * -ERR_NOMEM. */
int form_dump(struct form *form, const json_t *value, const char **ret, struct err *e);
