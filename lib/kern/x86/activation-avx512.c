/* SPDX-License-Identifier: MIT */
/* Activations. min_ps(a, b) is a < b ? a : b and max_ps(a, b) is a > b ? a : b, NaN included. */
#include "kern/x86/avx512.h"

KERN_INLINE __m512 half16(__m512 x) {
        return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

KERN_INLINE __m512 gelu16(__m512 whole) {
        __m512 x = half16(whole), z;
        __mmask16 over = _mm512_cmp_ps_mask(whole, _mm512_set1_ps(KERN_GELU_LIMIT), _CMP_GE_OQ);
        __mmask16 in = _mm512_cmp_ps_mask(whole, _mm512_set1_ps(-KERN_GELU_LIMIT), _CMP_NLE_UQ);

        z = _mm512_fmadd_ps(
                _mm512_mul_ps(x, x), _mm512_set1_ps(KERN_GELU_C3), _mm512_set1_ps(KERN_GELU_C1));
        z = _mm512_mul_ps(x, z);
        x = half16(_mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1), exp16(z))));
        return _mm512_maskz_mov_ps(in, _mm512_mask_mov_ps(x, over, whole));
}

KERN_INLINE __m512 gate16(enum kern_activation a, __m512 x) {
        __m512 z = _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));

        switch (a) {
        case KERN_RELU2:
                x = _mm512_max_ps(_mm512_setzero_ps(), x);
                return _mm512_mul_ps(x, x);
        case KERN_GELU:
                return gelu16(x);
        case KERN_SWIGLU_OAI:
                x = _mm512_min_ps(_mm512_set1_ps(KERN_OAI_LIMIT), x);
                z = _mm512_mul_ps(x, _mm512_set1_ps(-KERN_OAI_ALPHA));
                break;
        default:
                break;
        }
        return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1), exp16(z)));
}

KERN_INLINE __m512 up16(enum kern_activation a, __m512 x) {
        if (a != KERN_SWIGLU_OAI)
                return x;
        x = _mm512_min_ps(_mm512_set1_ps(KERN_OAI_LIMIT), x);
        x = _mm512_max_ps(_mm512_set1_ps(-KERN_OAI_LIMIT), x);
        return _mm512_add_ps(x, _mm512_set1_ps(1));
}

KERN_INLINE void activate(
        enum kern_activation a, const float *gate, const float *up, float *y, size_t n) {
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = gate16(a, _mm512_maskz_loadu_ps(m, gate + i));

                if (up)
                        v = _mm512_mul_ps(v, up16(a, _mm512_maskz_loadu_ps(m, up + i)));
                _mm512_mask_storeu_ps(y + i, m, v);
        }
}

static void silu(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_SILU, gate, up, y, n);
}

static void gelu(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_GELU, gate, up, y, n);
}

static void relu2(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_RELU2, gate, up, y, n);
}

static void swiglu_oai(const float *gate, const float *up, float *y, size_t n) {
        activate(KERN_SWIGLU_OAI, gate, up, y, n);
}

static void xielu(const struct kern_xielu *k, const float *x, float *y, size_t n) {
        __m512 beta = _mm512_set1_ps(k->beta), factor_n = _mm512_set1_ps(k->factor_n);
        __m512 near = _mm512_set1_ps(KERN_XIELU_NEAR), one = _mm512_set1_ps(1);

        for (size_t i = 0; i < n; i += 16) {
                __mmask16 lanes = lanes_at(i, n);
                __m512 v = _mm512_maskz_loadu_ps(lanes, x + i), far, e, p;
                __m512 m = _mm512_min_ps(v, _mm512_set1_ps(k->eps));
                __mmask16 up = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ);

                p = _mm512_fmadd_ps(_mm512_set1_ps(KERN_EXP_C6), m, _mm512_set1_ps(KERN_EXP_C5));
                p = _mm512_fmadd_ps(p, m, _mm512_set1_ps(KERN_EXP_C4));
                p = _mm512_fmadd_ps(p, m, _mm512_set1_ps(KERN_EXP_C3));
                p = _mm512_fmadd_ps(p, m, _mm512_set1_ps(KERN_EXP_C2));
                e = _mm512_fmadd_ps(_mm512_mul_ps(m, m), p, _mm512_sub_ps(m, v));
                far = _mm512_sub_ps(_mm512_sub_ps(exp16(m), one), v);
                e = _mm512_mask_mov_ps(e, _mm512_cmp_ps_mask(m, near, _CMP_LT_OQ), far);
                e = _mm512_fmadd_ps(e, factor_n, _mm512_mul_ps(beta, v));
                p = _mm512_mul_ps(v, _mm512_fmadd_ps(_mm512_set1_ps(k->alpha_p), v, beta));
                _mm512_mask_storeu_ps(y + i, lanes, _mm512_mask_mov_ps(e, up, p));
        }
}

static void sigmoid(float *x, size_t n) {
        __m512 one = _mm512_set1_ps(1), minus = _mm512_set1_ps(-0.0f);

        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 e = exp16(_mm512_xor_ps(_mm512_maskz_loadu_ps(m, x + i), minus));

                _mm512_mask_storeu_ps(x + i, m, _mm512_div_ps(one, _mm512_add_ps(one, e)));
        }
}

static void softcap(float *x, float cap, size_t n) {
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);

                _mm512_mask_storeu_ps(x + i, m, softcap16(_mm512_maskz_loadu_ps(m, x + i), cap));
        }
}

void kern_avx512_activation(struct kern_ops *ops) {
        ops->activate[KERN_SILU] = silu;
        ops->activate[KERN_GELU] = gelu;
        ops->activate[KERN_RELU2] = relu2;
        ops->activate[KERN_SWIGLU_OAI] = swiglu_oai;
        ops->xielu = xielu;
        ops->sigmoid = sigmoid;
        ops->softcap = softcap;
}
