/* SPDX-License-Identifier: MIT */
#pragma once
/* Small arithmetic and container helpers. MIN and MAX may nest in each other, not in themselves. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)                                                                                  \
        ({                                                                                         \
                __typeof__(a) _a = (a);                                                            \
                __typeof__(b) _b = (b);                                                            \
                _a < _b ? _a : _b;                                                                 \
        })
#define MAX(a, b)                                                                                  \
        ({                                                                                         \
                __typeof__(a) _c = (a);                                                            \
                __typeof__(b) _d = (b);                                                            \
                _c > _d ? _c : _d;                                                                 \
        })
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Round up to a power-of-two @align. The caller knows that it cannot overflow. */
static inline size_t align_up(size_t n, size_t align) {
        return (n + align - 1) & ~(align - 1);
}
/* Checked arithmetic: true on overflow, *ret then unspecified. */
static inline bool mul_overflow(size_t a, size_t b, size_t *ret) {
        return __builtin_mul_overflow(a, b, ret);
}
static inline bool add_overflow(size_t a, size_t b, size_t *ret) {
        return __builtin_add_overflow(a, b, ret);
}
/* A copy of @n bytes with a NUL behind them, or NULL. @text may be NULL if @n is 0, and needs no NUL,
 * which strndup() under a sanitizer that checks strings strictly would look for. */
static inline char *text_dup(const void *text, size_t n) {
        char *copy = malloc(n + 1);

        if (!copy)
                return NULL;
        if (n > 0)
                memcpy(copy, text, n);
        copy[n] = '\0';
        return copy;
}
