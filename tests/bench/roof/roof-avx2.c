/* SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "roof-isa.h"

static void narrow(size_t n) {
        __m256i sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vpmaddubsw %1, %2, %%ymm15\n\t "
                                                 "vpaddw %%ymm15, %0, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j])
                                                 : "xmm15");
}

static void wide(size_t n) {
        __m256i sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};
        const __m256i ones = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vpmaddubsw %1, %2, %%ymm15\n\t "
                                                 "vpmaddwd %3, %%ymm15, %%ymm15\n\t "
                                                 "vpaddd %%ymm15, %0, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j]), "v"(ones)
                                                 : "xmm15");
}

static void multiply(size_t n) {
        __m256 sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vfmadd231ps %1, %2, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j]));
}

const struct roof_loop roof_avx2[] = {
        {"avx2", "maddubs+paddw", ROOF_NARROW, 32 * ROOF_TILE, narrow},
        {"avx2", "maddubs+madd+paddd", ROOF_WIDE, 32 * ROOF_TILE, wide},
        {"avx2", "fma", ROOF_MULTIPLY, 8 * ROOF_TILE, multiply},
        {0},
};
