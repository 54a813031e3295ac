/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * JSON of clients as values of libjansson, read by base/json-read.h: what that refuses is refused. A body is mostly long
 * texts, of which libjansson's own reader looks at each byte several times: the 47 kB of an agent's first
 * message take it 0.4 to 0.7 ms, and this one a tenth of that, out of the 2 ms that the gateway may take.
 */
#include <jansson.h>
#include <stddef.h>

struct err;

/* One value of any type, with nothing behind it. Of keys that are there twice the last counts; one with a NUL is
 * refused, a text may have them. Whole numbers that an int64_t can't hold are reals. *ret is to be given to
 * json_decref(). -ERR_INVALID with line and column; -ERR_TOO_LARGE: it would take more than 64 MiB and four times @size;
 * -ERR_NOMEM. One thread at a time. */
int jansson_read(json_t **ret, const char *text, size_t size, struct err *e);
