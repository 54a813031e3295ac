/* SPDX-License-Identifier: MIT */
#pragma once
/* The loops without VNNI, in vectors as wide as the flags of the file that includes this allow. */
#include <immintrin.h>

#include "roof-isa.h"

#ifdef __AVX512BW__
typedef __m512i vi;
typedef __m512 vf;
#define PRODUCT "%%zmm31"
#define CLOBBERED "xmm31"
#else
typedef __m256i vi;
typedef __m256 vf;
#define PRODUCT "%%ymm15"
#define CLOBBERED "xmm15"
#endif

static inline void narrow(size_t n) {
        vi sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vpmaddubsw %1, %2, " PRODUCT "\n\t "
                                                 "vpaddw " PRODUCT ", %0, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j])
                                                 : CLOBBERED);
}

static inline void wide(size_t n) {
        vi sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};
        const vi ones = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vpmaddubsw %1, %2, " PRODUCT "\n\t "
                                                 "vpmaddwd %3, " PRODUCT ", " PRODUCT "\n\t "
                                                 "vpaddd " PRODUCT ", %0, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j]), "v"(ones)
                                                 : CLOBBERED);
}

static inline void multiply(size_t n) {
        vf sum[ROOF_ROWS][ROOF_COLUMNS] = {0}, w[ROOF_ROWS] = {0}, x[ROOF_COLUMNS] = {0};

        for (; n; n--)
                for (int i = 0; i < ROOF_ROWS; i++)
                        for (int j = 0; j < ROOF_COLUMNS; j++)
                                __asm__ volatile("vfmadd231ps %1, %2, %0"
                                                 : "+v"(sum[i][j])
                                                 : "v"(w[i]), "v"(x[j]));
}
