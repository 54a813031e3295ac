/* SPDX-License-Identifier: MIT */
#include "roof-loops.h"
#include "roof-stream.h"

const struct roof_loop roof_avx512[] = {
        {"avx512", "maddubs+paddw, 512 bits", ROOF_NARROW, 64 * ROOF_TILE, narrow},
        {"avx512", "maddubs+madd+paddd, 512 bits", ROOF_WIDE, 64 * ROOF_TILE, wide},
        {"avx512", "fma, 512 bits", ROOF_MULTIPLY, 16 * ROOF_TILE, multiply},
        {0},
};

void roof_avx512_stream(unsigned n, const void *const *x, void *y, size_t size, uint64_t flip) {
        stream(n, x, y, size, flip);
}
