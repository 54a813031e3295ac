/* SPDX-License-Identifier: MIT */
#include "roof-loops.h"
#include "roof-stream.h"

const struct roof_loop roof_avx2[] = {
        {"avx2", "maddubs+paddw", ROOF_NARROW, 32 * ROOF_TILE, narrow},
        {"avx2", "maddubs+madd+paddd", ROOF_WIDE, 32 * ROOF_TILE, wide},
        {"avx2", "fma", ROOF_MULTIPLY, 8 * ROOF_TILE, multiply},
        {0},
};

void roof_avx2_stream(unsigned n, const void *const *x, void *y, size_t size, uint64_t flip) {
        stream(n, x, y, size, flip);
}
