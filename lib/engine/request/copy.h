/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Copies of what a submitted request borrows: strings, calls, results, messages.
 *
 * A copy_*() function replaces the borrowed pointer by an owned copy, or by NULL where there was no
 * memory: then it returns -ERR_NOMEM, and the copy may lack strings anywhere inside. In every case
 * copy_free_*() frees what is there. copy_*_size() tells the bytes of a copy, to be charged before
 * it is made (I3). Any thread.
 */
#include <stddef.h>
#include <string.h>

#include "engine/engine.h"

#define COPY_OVERHEAD 32 /* of each block, in bytes: the final 0, and the allocator's own */

int copy_str(const char **p, struct err *e);
/* A NUL follows the @n bytes. */
int copy_bytes(const void **p, size_t n, struct err *e);
int copy_results(const struct engine_result **p, size_t n, struct err *e);
int copy_calls(const struct engine_call **p, size_t n, struct err *e);
int copy_messages(const struct engine_message **p, size_t n, struct err *e);

static inline size_t copy_str_size(const char *s) {
        return s ? strlen(s) + COPY_OVERHEAD : 0;
}
size_t copy_results_size(const struct engine_result *results, size_t n);
size_t copy_calls_size(const struct engine_call *calls, size_t n);
size_t copy_messages_size(const struct engine_message *messages, size_t n);

/* NULL is allowed. */
void copy_free(const void *p);
void copy_free_results(const struct engine_result *results, size_t n);
void copy_free_calls(const struct engine_call *calls, size_t n);
void copy_free_messages(const struct engine_message *messages, size_t n);
