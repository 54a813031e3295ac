/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Bounded little-endian reader of untrusted bytes. Every call returns 0, or 1 if too few bytes are
 * left (the cursor and *ret are then untouched).
 */
#include <stddef.h>
#include <stdint.h>

struct cursor {
        const uint8_t *p, *end;
};

static inline size_t cursor_left(const struct cursor *c) {
        return (size_t)(c->end - c->p);
}
int cursor_u8(struct cursor *c, uint8_t *ret);
int cursor_u16(struct cursor *c, uint16_t *ret);
int cursor_u32(struct cursor *c, uint32_t *ret);
int cursor_u64(struct cursor *c, uint64_t *ret);
int cursor_f32(struct cursor *c, float *ret);
/* Borrow @n bytes in place; *ret points into the buffer. */
int cursor_bytes(struct cursor *c, size_t n, const uint8_t **ret);

/* The other way: the lowest @n bytes of @v, lowest first, into out[0..n). Returns what is behind them. n <= 8 */
static inline uint8_t *put_le(uint8_t *out, uint64_t v, size_t n) {
        for (size_t i = 0; i < n; i++)
                out[i] = (uint8_t)(v >> (8 * i));
        return out + n;
}
