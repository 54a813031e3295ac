/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A loop that moves bytes, in registers as wide as the flags of the file that includes this allow: each vector of @y is
 * those of @n arrays at its place, put together by XOR. @flip is 0, which the compiler does not know: what is written
 * could be anything else but a copy, so the loop stays one.
 */
#include <stddef.h>
#include <stdint.h>

#include "roof-isa.h"

#if defined(__AVX512F__)
#define STREAM_VECTOR 64
#elif defined(__AVX2__)
#define STREAM_VECTOR 32
#else
#define STREAM_VECTOR 16
#endif

static inline __attribute__((always_inline)) void stream_n(
        unsigned n, const void *const *x, void *y, size_t size, uint64_t flip) {
        typedef uint64_t vector __attribute__((vector_size(STREAM_VECTOR), may_alias));
        const vector *from[ROOF_STREAM_READS], flips = {flip};
        vector *to = y;

        for (unsigned j = 0; j < n; j++)
                from[j] = x[j];
        for (size_t i = 0; i < size / sizeof(vector); i++) {
                vector v = from[0][i] ^ flips;

                for (unsigned j = 1; j < n; j++)
                        v ^= from[j][i];
                to[i] = v;
        }
}

static inline void stream(unsigned n, const void *const *x, void *y, size_t size, uint64_t flip) {
        if (n == 1)
                stream_n(1, x, y, size, flip);
        else if (n == 2)
                stream_n(2, x, y, size, flip);
        else if (n == 3)
                stream_n(3, x, y, size, flip);
        else
                stream_n(ROOF_STREAM_READS, x, y, size, flip);
}
