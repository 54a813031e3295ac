/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One form for all texts of one JSON value. json-canon.c has the rules.
 */
#include "base/buf.h"

struct err;

/* Append the canonical form of @text to @out. -ERR_INVALID: it is no JSON (json-read.h); -ERR_NOMEM, or
 * what the charge of @out returns, which pays for everything. On failure @out is as it was. Any thread. */
int json_canonical(struct buf *out, const char *text, size_t size, struct err *e);
