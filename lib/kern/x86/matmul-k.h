/* SPDX-License-Identifier: MIT */
#pragma once
/* The types with blocks of 256 values, and the functions of their families. */
#include "kern/kern-isa.h"
#include "kern/x86/level.h"

#define K_TYPES(X)                                                                                 \
        X(q2_k, QUANT_Q2_K)                                                                        \
        X(q3_k, QUANT_Q3_K)                                                                        \
        X(q4_k, QUANT_Q4_K)                                                                        \
        X(q5_k, QUANT_Q5_K)                                                                        \
        X(q6_k, QUANT_Q6_K)                                                                        \
        X(iq4_xs, QUANT_IQ4_XS)

/* The rounding of activations: AVX2 instructions, for all instruction sets. */
void kern_avx2_act_round_q8k(const struct kern_act *a, size_t unit, uint8_t *dst);
void kern_avx2_act_round_q8k_repacked(const struct kern_act *a, size_t unit, uint8_t *dst);
/* The first n_units units, which must be packed (packed-k.h). */
#define X(name, type)                                                                              \
        void LEVEL(packed_##name)(const struct kern_mat *w, const struct kern_act *a, size_t row0, \
                size_t row1, float *y, size_t ldy, size_t n_units);
K_TYPES(X)
#undef X
