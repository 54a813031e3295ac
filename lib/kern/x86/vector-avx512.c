/* SPDX-License-Identifier: MIT */
/* Kernels on rows and elements. */
#include "kern/x86/avx512.h"

static void rmsnorm(const float *x, const float *w, float eps, size_t n, float *y) {
        __m512 acc = _mm512_setzero_ps(), inv;

        for (size_t i = 0; i < n; i += 16) {
                __m512 v = _mm512_maskz_loadu_ps(lanes_at(i, n), x + i);

                acc = _mm512_fmadd_ps(v, v, acc);
        }
        inv = _mm512_set1_ps(1 / sqrtf(tree16(acc) / (float)n + eps));
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), inv);

                if (w)
                        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, w + i));
                _mm512_mask_storeu_ps(y + i, m, v);
        }
}

static void layernorm(
        const float *x, const float *w, const float *b, float eps, size_t n, float *y) {
        __m512 sum = _mm512_setzero_ps(), square = sum, mean, inv;

        for (size_t i = 0; i < n; i += 16)
                sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes_at(i, n), x + i));
        mean = _mm512_set1_ps(tree16(sum) / (float)n);
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 d = _mm512_maskz_sub_ps(m, _mm512_maskz_loadu_ps(m, x + i), mean);

                square = _mm512_fmadd_ps(d, d, square);
        }
        inv = _mm512_set1_ps(1 / sqrtf(tree16(square) / (float)n + eps));
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(m, x + i), mean);

                v = _mm512_mul_ps(v, inv);
                if (w)
                        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, w + i));
                if (b)
                        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, b + i));
                _mm512_mask_storeu_ps(y + i, m, v);
        }
}

/* Pairs (i, i+half). */
static void rope_halves(float *x, size_t half, const float *cos, const float *sin) {
        for (size_t i = 0; i < half; i += 16) {
                __mmask16 m = lanes_at(i, half);
                __m512 a = _mm512_maskz_loadu_ps(m, x + i);
                __m512 b = _mm512_maskz_loadu_ps(m, x + half + i);
                __m512 c = _mm512_maskz_loadu_ps(m, cos + i);
                __m512 s = _mm512_maskz_loadu_ps(m, sin + i);

                _mm512_mask_storeu_ps(x + i, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
                _mm512_mask_storeu_ps(x + half + i, m, _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
        }
}

/* Pairs (2i, 2i+1), 8 at a time: fmaddsub subtracts in even lanes and adds in odd ones. */
static void rope_neighbours(float *x, size_t half, const float *cos, const float *sin) {
        const __m512i cs = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

        for (size_t i = 0; i < half; i += 8) {
                __mmask8 mp = half - i < 8 ? (__mmask8)((1u << (half - i)) - 1) : 0xff;
                __mmask16 m = half - i < 8 ? first_lanes(2 * (half - i)) : 0xffff;
                __m512 c = _mm512_castps256_ps512(_mm256_maskz_loadu_ps(mp, cos + i));
                __m512 s = _mm512_castps256_ps512(_mm256_maskz_loadu_ps(mp, sin + i));
                __m512 v = _mm512_maskz_loadu_ps(m, x + 2 * i);
                __m512 b = _mm512_mul_ps(_mm512_movehdup_ps(v), _mm512_permutex2var_ps(s, cs, c));

                v = _mm512_fmaddsub_ps(_mm512_moveldup_ps(v), _mm512_permutex2var_ps(c, cs, s), b);
                _mm512_mask_storeu_ps(x + 2 * i, m, v);
        }
}

static void rope(float *x, size_t n_heads, size_t head_dim, size_t n_rot, bool neox,
        const float *cos, const float *sin) {
        for (size_t h = 0; h < n_heads; h++, x += head_dim)
                if (neox)
                        rope_halves(x, n_rot / 2, cos, sin);
                else
                        rope_neighbours(x, n_rot / 2, cos, sin);
}

static void add(float *y, const float *x, size_t n) {
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = _mm512_maskz_loadu_ps(m, y + i);

                _mm512_mask_storeu_ps(y + i, m, _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, x + i)));
        }
}

static void add_scaled(float *y, const float *x, float s, size_t n) {
        __m512 sv = _mm512_set1_ps(s);

        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = _mm512_maskz_loadu_ps(m, y + i);

                _mm512_mask_storeu_ps(
                        y + i, m, _mm512_fmadd_ps(sv, _mm512_maskz_loadu_ps(m, x + i), v));
        }
}

static void scale(float *x, float s, size_t n) {
        __m512 sv = _mm512_set1_ps(s);

        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);

                _mm512_mask_storeu_ps(x + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), sv));
        }
}

static void mul(float *y, const float *x, size_t n) {
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);
                __m512 v = _mm512_maskz_loadu_ps(m, y + i);

                _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, x + i)));
        }
}

static void softmax(float *x, size_t n) {
        __m512 m = _mm512_set1_ps(-INFINITY), acc = _mm512_setzero_ps(), v;

        for (size_t i = 0; i < n; i += 16)
                m = _mm512_mask_max_ps(
                        m, lanes_at(i, n), m, _mm512_maskz_loadu_ps(lanes_at(i, n), x + i));
        m = _mm512_set1_ps(maxtree16(m));
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 k = lanes_at(i, n);

                v = exp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, x + i), m));
                _mm512_mask_storeu_ps(x + i, k, v);
                acc = _mm512_mask_add_ps(acc, k, acc, v);
        }
        v = _mm512_set1_ps(1 / tree16(acc));
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 k = lanes_at(i, n);

                _mm512_mask_storeu_ps(x + i, k, _mm512_mul_ps(_mm512_maskz_loadu_ps(k, x + i), v));
        }
}

static void f32_to_f16(const float *x, uint16_t *y, size_t n) {
        for (size_t i = 0; i < n; i += 16) {
                __mmask16 m = lanes_at(i, n);

                _mm256_mask_storeu_epi16(y + i, m,
                        _mm512_cvtps_ph(
                                _mm512_maskz_loadu_ps(m, x + i), _MM_FROUND_TO_NEAREST_INT));
        }
}

void kern_avx512_vector(struct kern_ops *ops) {
        ops->rmsnorm = rmsnorm;
        ops->rope = rope;
        ops->layernorm = layernorm;
        ops->add = add;
        ops->add_scaled = add_scaled;
        ops->scale = scale;
        ops->mul = mul;
        ops->softmax = softmax;
        ops->f32_to_f16 = f32_to_f16;
}
