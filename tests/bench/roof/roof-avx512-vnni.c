/* SPDX-License-Identifier: MIT */
#include "roof-loops.h"
#include "roof-stream.h"

static void dot(size_t n) {
        __m512i sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vpdpbusd %1, %2, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j]));
}

const struct roof_loop roof_avx512_vnni[] = {
        {"avx512-vnni", "dpbusd, 512 bits", ROOF_DOT, 64 * ROOF_TILE, dot},
        {"avx512-vnni", "fma, 512 bits", ROOF_MULTIPLY, 16 * ROOF_TILE, multiply},
        {0},
};

void roof_avx512_vnni_stream(
        unsigned n, const void *const *x, void *y, size_t size, uint64_t flip) {
        stream(n, x, y, size, flip);
}
