/* SPDX-License-Identifier: MIT */
#pragma once
/* Growable byte buffer with a hard cap. One owner; not shared between threads. */
#include "base/cleanup.h"
#include <stddef.h>
#include <stdint.h>

struct buf {
        uint8_t *data; /* owned, NULL when empty; data[size] is always 0 once anything was appended
                        */
        size_t size, capacity;
        size_t max; /* 0: no cap but memory */
        /* NULL, or the owner's charge: taken before the buffer grows, given back by buf_deinit().
         * Outlives the buffer. */
        struct charge *charge;
};
struct charge;
#define BUF_NULL ((struct buf){0})

/* Appends return 0, -ERR_LIMIT past @max, -ERR_NOMEM, or what charge_take() returns; the content is
 * unchanged on failure. */
int buf_append(struct buf *b, const void *data, size_t n);
int buf_append_str(struct buf *b, const char *s);
/* @n bytes of text; U+FFFD for each NUL, which strings can't have. */
int buf_append_text(struct buf *b, const void *text, size_t n);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Little-endian integers. */
int buf_append_u32(struct buf *b, uint32_t v);
int buf_append_u64(struct buf *b, uint64_t v);
/* Make room for @n more bytes. An empty buffer gets exactly that much room, others double. */
int buf_reserve(struct buf *b, size_t n);
/* Drop the first @n bytes (n <= size). */
void buf_consume(struct buf *b, size_t n);
/* Hand the bytes over to the caller (NUL-terminated, to be freed); the buffer is empty afterwards.
 * An empty buffer gives an allocated empty string, or NULL if that fails. The bytes stay charged:
 * the caller gives the charge back. */
char *buf_take(struct buf *b, size_t *ret_size);
void buf_deinit(struct buf *b);
