/* SPDX-License-Identifier: MIT */
/* Kernels on rows and elements. The elements left over at the end are computed one by one, by the
 * plain C that defines the result. */
#include "kern/x86/avx2.h"
#include "quant/quant.h"

static void rmsnorm(const float *x, const float *w, float eps, size_t n, float *y) {
        __m256 a = _mm256_setzero_ps(), b = a, v, scale;
        float inv, rest[16] = {0};
        size_t i = 0;

        for (; i + 16 <= n; i += 16) {
                v = _mm256_loadu_ps(x + i);
                a = _mm256_fmadd_ps(v, v, a);
                v = _mm256_loadu_ps(x + i + 8);
                b = _mm256_fmadd_ps(v, v, b);
        }
        if (i < n) {
                memcpy(rest, x + i, (n - i) * sizeof(*x));
                v = _mm256_loadu_ps(rest);
                a = _mm256_fmadd_ps(v, v, a);
                v = _mm256_loadu_ps(rest + 8);
                b = _mm256_fmadd_ps(v, v, b);
        }
        inv = 1 / sqrtf(tree16(a, b) / (float)n + eps);
        scale = _mm256_set1_ps(inv);
        for (i = 0; i + 8 <= n; i += 8) {
                v = _mm256_mul_ps(_mm256_loadu_ps(x + i), scale);
                if (w)
                        v = _mm256_mul_ps(v, _mm256_loadu_ps(w + i));
                _mm256_storeu_ps(y + i, v);
        }
        for (; i < n; i++)
                y[i] = w ? (x[i] * inv) * w[i] : x[i] * inv;
}

/* Sum of x in 16 lanes, then tree16. */
static float sum_of(const float *x, size_t n) {
        __m256 a = _mm256_setzero_ps(), b = a;
        float acc[16];
        size_t i = 0;

        for (; i + 16 <= n; i += 16) {
                a = _mm256_add_ps(a, _mm256_loadu_ps(x + i));
                b = _mm256_add_ps(b, _mm256_loadu_ps(x + i + 8));
        }
        _mm256_storeu_ps(acc, a);
        _mm256_storeu_ps(acc + 8, b);
        for (; i < n; i++)
                acc[i % 16] += x[i];
        return kern_tree16(acc);
}

/* The same of (x - mean)^2. */
static float square_sum_of(const float *x, float mean, size_t n) {
        __m256 a = _mm256_setzero_ps(), b = a, d, mv = _mm256_set1_ps(mean);
        float acc[16];
        size_t i = 0;

        for (; i + 16 <= n; i += 16) {
                d = _mm256_sub_ps(_mm256_loadu_ps(x + i), mv);
                a = _mm256_fmadd_ps(d, d, a);
                d = _mm256_sub_ps(_mm256_loadu_ps(x + i + 8), mv);
                b = _mm256_fmadd_ps(d, d, b);
        }
        _mm256_storeu_ps(acc, a);
        _mm256_storeu_ps(acc + 8, b);
        for (; i < n; i++)
                acc[i % 16] = fmaf(x[i] - mean, x[i] - mean, acc[i % 16]);
        return kern_tree16(acc);
}

static void layernorm(
        const float *x, const float *w, const float *b, float eps, size_t n, float *y) {
        float mean = sum_of(x, n) / (float)n;
        float inv = 1 / sqrtf(square_sum_of(x, mean, n) / (float)n + eps);
        __m256 mv = _mm256_set1_ps(mean), scale = _mm256_set1_ps(inv);
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                __m256 v = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), mv), scale);

                if (w)
                        v = _mm256_mul_ps(v, _mm256_loadu_ps(w + i));
                if (b)
                        v = _mm256_add_ps(v, _mm256_loadu_ps(b + i));
                _mm256_storeu_ps(y + i, v);
        }
        for (; i < n; i++) {
                float v = (x[i] - mean) * inv;

                v = w ? v * w[i] : v;
                y[i] = b ? v + b[i] : v;
        }
}

static inline void rotate1(float *pa, float *pb, float c, float s) {
        float a = *pa, b = *pb;

        *pa = fmaf(a, c, -(b * s));
        *pb = fmaf(a, s, b * c);
}

/* Pairs (i, i+half). */
static void rope_halves(float *x, size_t half, const float *cos, const float *sin) {
        size_t i = 0;

        for (; i + 8 <= half; i += 8) {
                __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i);
                __m256 c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i);

                _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
                _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
        }
        for (; i < half; i++)
                rotate1(x + i, x + half + i, cos[i], sin[i]);
}

/* Pairs (2i, 2i+1): fmaddsub subtracts in even lanes and adds in odd ones. */
static void rope_neighbours(float *x, size_t half, const float *cos, const float *sin) {
        size_t i = 0;

        for (; i + 4 <= half; i += 4) {
                __m128 c = _mm_loadu_ps(cos + i), s = _mm_loadu_ps(sin + i);
                __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
                __m256 sc = _mm256_permute_ps(cs, 0xb1), v = _mm256_loadu_ps(x + 2 * i);
                __m256 b = _mm256_mul_ps(_mm256_movehdup_ps(v), sc);

                _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, b));
        }
        for (; i < half; i++)
                rotate1(x + 2 * i, x + 2 * i + 1, cos[i], sin[i]);
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
        size_t i = 0;

        for (; i + 8 <= n; i += 8)
                _mm256_storeu_ps(
                        y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
        for (; i < n; i++)
                y[i] += x[i];
}

static void add_scaled(float *y, const float *x, float s, size_t n) {
        __m256 sv = _mm256_set1_ps(s);
        size_t i = 0;

        for (; i + 8 <= n; i += 8)
                _mm256_storeu_ps(
                        y + i, _mm256_fmadd_ps(sv, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
        for (; i < n; i++)
                y[i] = fmaf(s, x[i], y[i]);
}

static void scale(float *x, float s, size_t n) {
        __m256 sv = _mm256_set1_ps(s);
        size_t i = 0;

        for (; i + 8 <= n; i += 8)
                _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), sv));
        for (; i < n; i++)
                x[i] *= s;
}

static void mul(float *y, const float *x, size_t n) {
        size_t i = 0;

        for (; i + 8 <= n; i += 8)
                _mm256_storeu_ps(
                        y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
        for (; i < n; i++)
                y[i] *= x[i];
}

static float greatest(const float *x, size_t n) {
        __m256 a = _mm256_set1_ps(-INFINITY), b = a;
        float m[16];
        size_t i = 0;

        for (; i + 16 <= n; i += 16) {
                a = _mm256_max_ps(a, _mm256_loadu_ps(x + i));
                b = _mm256_max_ps(b, _mm256_loadu_ps(x + i + 8));
        }
        _mm256_storeu_ps(m, a);
        _mm256_storeu_ps(m + 8, b);
        for (; i < n; i++)
                m[i % 16] = kern_max2(m[i % 16], x[i]);
        return kern_maxtree16(m);
}

static void softmax(float *x, size_t n) {
        __m256 a = _mm256_setzero_ps(), b = a, v;
        float max = greatest(x, n), acc[16], scale;
        __m256 mv = _mm256_set1_ps(max);
        size_t i = 0;

        for (; i + 16 <= n; i += 16) {
                v = exp8(_mm256_sub_ps(_mm256_loadu_ps(x + i), mv));
                _mm256_storeu_ps(x + i, v);
                a = _mm256_add_ps(a, v);
                v = exp8(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), mv));
                _mm256_storeu_ps(x + i + 8, v);
                b = _mm256_add_ps(b, v);
        }
        _mm256_storeu_ps(acc, a);
        _mm256_storeu_ps(acc + 8, b);
        for (; i < n; i++) {
                x[i] = kern_exp(x[i] - max);
                acc[i % 16] += x[i];
        }
        scale = 1 / kern_tree16(acc);
        for (i = 0; i < n; i++)
                x[i] *= scale;
}

static void f32_to_f16(const float *x, uint16_t *y, size_t n) {
        size_t i = 0;

        for (; i + 8 <= n; i += 8)
                _mm_storeu_si128((__m128i *)(y + i),
                        _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
        for (; i < n; i++)
                y[i] = _cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}

void kern_avx2_vector(struct kern_ops *ops) {
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
