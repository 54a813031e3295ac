/* SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "roof-isa.h"

static void narrow(size_t n) {
        __m512i sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vpmaddubsw %1, %2, %%zmm31\n\t "
                                                 "vpaddw %%zmm31, %0, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j])
                                                 : "xmm31");
}

static void wide(size_t n) {
        __m512i sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};
        const __m512i ones = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vpmaddubsw %1, %2, %%zmm31\n\t "
                                                 "vpmaddwd %3, %%zmm31, %%zmm31\n\t "
                                                 "vpaddd %%zmm31, %0, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j]), "v"(ones)
                                                 : "xmm31");
}

static void multiply(size_t n) {
        __m512 sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vfmadd231ps %1, %2, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j]));
}

const struct roof_loop roof_avx512[] = {
        {"avx512", "maddubs+paddw, 512 bits", ROOF_NARROW, 64 * ROOF_TILE, narrow},
        {"avx512", "maddubs+madd+paddd, 512 bits", ROOF_WIDE, 64 * ROOF_TILE, wide},
        {"avx512", "fma, 512 bits", ROOF_MULTIPLY, 16 * ROOF_TILE, multiply},
        {0},
};
