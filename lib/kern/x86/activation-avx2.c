/* SPDX-License-Identifier: MIT */
/* Activations. The elements left over at the end are computed one by one, by the plain C that
 * defines the result. min_ps(a, b) is a < b ? a : b and max_ps(a, b) is a > b ? a : b, NaN included. */
#include "kern/x86/avx2.h"

KERN_INLINE __m256 half8(__m256 x) {
        return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

KERN_INLINE __m256 gelu8(__m256 whole) {
        __m256 x = half8(whole), limit = _mm256_set1_ps(KERN_GELU_LIMIT), z;
        __m256 over = _mm256_cmp_ps(whole, limit, _CMP_GE_OQ);
        __m256 under = _mm256_cmp_ps(whole, _mm256_set1_ps(-KERN_GELU_LIMIT), _CMP_LE_OQ);

        z = _mm256_fmadd_ps(
                _mm256_mul_ps(x, x), _mm256_set1_ps(KERN_GELU_C3), _mm256_set1_ps(KERN_GELU_C1));
        z = _mm256_mul_ps(x, z);
        x = half8(_mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1), exp8(z))));
        return _mm256_andnot_ps(under, _mm256_blendv_ps(x, whole, over));
}

KERN_INLINE __m256 gate8(enum kern_activation a, __m256 x) {
        __m256 z = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));

        switch (a) {
        case KERN_RELU2:
                x = _mm256_max_ps(_mm256_setzero_ps(), x);
                return _mm256_mul_ps(x, x);
        case KERN_GELU:
                return gelu8(x);
        case KERN_SWIGLU_OAI:
                x = _mm256_min_ps(_mm256_set1_ps(KERN_OAI_LIMIT), x);
                z = _mm256_mul_ps(x, _mm256_set1_ps(-KERN_OAI_ALPHA));
                break;
        default:
                break;
        }
        return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1), exp8(z)));
}

KERN_INLINE __m256 up8(enum kern_activation a, __m256 x) {
        if (a != KERN_SWIGLU_OAI)
                return x;
        x = _mm256_min_ps(_mm256_set1_ps(KERN_OAI_LIMIT), x);
        x = _mm256_max_ps(_mm256_set1_ps(-KERN_OAI_LIMIT), x);
        return _mm256_add_ps(x, _mm256_set1_ps(1));
}

KERN_INLINE void activate(
        enum kern_activation a, const float *gate, const float *up, float *y, size_t n) {
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                __m256 v = gate8(a, _mm256_loadu_ps(gate + i));

                if (up)
                        v = _mm256_mul_ps(v, up8(a, _mm256_loadu_ps(up + i)));
                _mm256_storeu_ps(y + i, v);
        }
        for (; i < n; i++)
                y[i] = kern_activate1(a, gate[i], up ? up + i : NULL);
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
        __m256 beta = _mm256_set1_ps(k->beta), factor_n = _mm256_set1_ps(k->factor_n);
        __m256 near = _mm256_set1_ps(KERN_XIELU_NEAR), one = _mm256_set1_ps(1);
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                __m256 v = _mm256_loadu_ps(x + i), far, e, p;
                __m256 m = _mm256_min_ps(v, _mm256_set1_ps(k->eps));
                __m256 up = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ);

                p = _mm256_fmadd_ps(_mm256_set1_ps(KERN_EXP_C6), m, _mm256_set1_ps(KERN_EXP_C5));
                p = _mm256_fmadd_ps(p, m, _mm256_set1_ps(KERN_EXP_C4));
                p = _mm256_fmadd_ps(p, m, _mm256_set1_ps(KERN_EXP_C3));
                p = _mm256_fmadd_ps(p, m, _mm256_set1_ps(KERN_EXP_C2));
                e = _mm256_fmadd_ps(_mm256_mul_ps(m, m), p, _mm256_sub_ps(m, v));
                far = _mm256_sub_ps(_mm256_sub_ps(exp8(m), one), v);
                e = _mm256_blendv_ps(e, far, _mm256_cmp_ps(m, near, _CMP_LT_OQ));
                e = _mm256_fmadd_ps(e, factor_n, _mm256_mul_ps(beta, v));
                p = _mm256_mul_ps(v, _mm256_fmadd_ps(_mm256_set1_ps(k->alpha_p), v, beta));
                _mm256_storeu_ps(y + i, _mm256_blendv_ps(e, p, up));
        }
        for (; i < n; i++)
                y[i] = kern_xielu1(k, x[i]);
}

static void sigmoid(float *x, size_t n) {
        __m256 one = _mm256_set1_ps(1), minus = _mm256_set1_ps(-0.0f);
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                __m256 e = exp8(_mm256_xor_ps(_mm256_loadu_ps(x + i), minus));

                _mm256_storeu_ps(x + i, _mm256_div_ps(one, _mm256_add_ps(one, e)));
        }
        for (; i < n; i++)
                x[i] = kern_sigmoid1(x[i]);
}

static void softcap(float *x, float cap, size_t n) {
        size_t i = 0;

        for (; i + 8 <= n; i += 8)
                _mm256_storeu_ps(x + i, softcap8(_mm256_loadu_ps(x + i), cap));
        for (; i < n; i++)
                x[i] = kern_softcap1(x[i], cap);
}

void kern_avx2_activation(struct kern_ops *ops) {
        ops->activate[KERN_SILU] = silu;
        ops->activate[KERN_GELU] = gelu;
        ops->activate[KERN_RELU2] = relu2;
        ops->activate[KERN_SWIGLU_OAI] = swiglu_oai;
        ops->xielu = xielu;
        ops->sigmoid = sigmoid;
        ops->softcap = softcap;
}
