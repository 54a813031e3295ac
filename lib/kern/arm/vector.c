/* SPDX-License-Identifier: MIT */
/* Kernels on rows and elements. The elements left over at the end are computed one by one, by the
 * plain C that defines the result. */
#include "kern/arm/neon.h"
#include "quant/quant.h"

static void rmsnorm(const float *x, const float *w, float eps, size_t n, float *y) {
        float32x4_t a[4], v;
        float inv, rest[16] = {0};
        size_t i = 0;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) a[l] = vdupq_n_f32(0);
        for (; i + 16 <= n; i += 16)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        v = vld1q_f32(x + i + 4 * l);
                        a[l] = vfmaq_f32(a[l], v, v);
                }
        if (i < n) {
                memcpy(rest, x + i, (n - i) * sizeof(*x));
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        v = vld1q_f32(rest + 4 * l);
                        a[l] = vfmaq_f32(a[l], v, v);
                }
        }
        inv = 1 / sqrtf(tree16(a) / (float)n + eps);
        for (i = 0; i + 4 <= n; i += 4) {
                v = vmulq_n_f32(vld1q_f32(x + i), inv);
                if (w)
                        v = vmulq_f32(v, vld1q_f32(w + i));
                vst1q_f32(y + i, v);
        }
        for (; i < n; i++)
                y[i] = w ? (x[i] * inv) * w[i] : x[i] * inv;
}

/* Sum of x in 16 lanes, then tree16. */
static float sum_of(const float *x, size_t n) {
        float32x4_t a[4];
        float acc[16];
        size_t i = 0;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) a[l] = vdupq_n_f32(0);
        for (; i + 16 <= n; i += 16)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) a[l] =
                        vaddq_f32(a[l], vld1q_f32(x + i + 4 * l));
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) vst1q_f32(acc + 4 * l, a[l]);
        for (; i < n; i++)
                acc[i % 16] += x[i];
        return kern_tree16(acc);
}

/* The same of (x - mean)^2. */
static float square_sum_of(const float *x, float mean, size_t n) {
        float32x4_t a[4], d, mv = vdupq_n_f32(mean);
        float acc[16];
        size_t i = 0;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) a[l] = vdupq_n_f32(0);
        for (; i + 16 <= n; i += 16)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        d = vsubq_f32(vld1q_f32(x + i + 4 * l), mv);
                        a[l] = vfmaq_f32(a[l], d, d);
                }
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) vst1q_f32(acc + 4 * l, a[l]);
        for (; i < n; i++)
                acc[i % 16] = fmaf(x[i] - mean, x[i] - mean, acc[i % 16]);
        return kern_tree16(acc);
}

static void layernorm(
        const float *x, const float *w, const float *b, float eps, size_t n, float *y) {
        float mean = sum_of(x, n) / (float)n;
        float inv = 1 / sqrtf(square_sum_of(x, mean, n) / (float)n + eps);
        float32x4_t mv = vdupq_n_f32(mean);
        size_t i = 0;

        for (; i + 4 <= n; i += 4) {
                float32x4_t v = vmulq_n_f32(vsubq_f32(vld1q_f32(x + i), mv), inv);

                if (w)
                        v = vmulq_f32(v, vld1q_f32(w + i));
                if (b)
                        v = vaddq_f32(v, vld1q_f32(b + i));
                vst1q_f32(y + i, v);
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

static inline void rotate4(float32x4_t *a, float32x4_t *b, float32x4_t c, float32x4_t s) {
        float32x4_t x = *a, y = *b;

        *a = vfmaq_f32(vnegq_f32(vmulq_f32(y, s)), x, c);
        *b = vfmaq_f32(vmulq_f32(y, c), x, s);
}

/* Pairs (i, i+half). */
static void rope_halves(float *x, size_t half, const float *cos, const float *sin) {
        size_t i = 0;

        for (; i + 4 <= half; i += 4) {
                float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + half + i);

                rotate4(&a, &b, vld1q_f32(cos + i), vld1q_f32(sin + i));
                vst1q_f32(x + i, a);
                vst1q_f32(x + half + i, b);
        }
        for (; i < half; i++)
                rotate1(x + i, x + half + i, cos[i], sin[i]);
}

/* Pairs (2i, 2i+1): a load of two registers parts them, a store joins them. */
static void rope_neighbours(float *x, size_t half, const float *cos, const float *sin) {
        size_t i = 0;

        for (; i + 4 <= half; i += 4) {
                float32x4x2_t v = vld2q_f32(x + 2 * i);

                rotate4(&v.val[0], &v.val[1], vld1q_f32(cos + i), vld1q_f32(sin + i));
                vst2q_f32(x + 2 * i, v);
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

        for (; i + 4 <= n; i += 4)
                vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
        for (; i < n; i++)
                y[i] += x[i];
}

static void add_scaled(float *y, const float *x, float s, size_t n) {
        size_t i = 0;

        for (; i + 4 <= n; i += 4)
                vst1q_f32(y + i, vfmaq_n_f32(vld1q_f32(y + i), vld1q_f32(x + i), s));
        for (; i < n; i++)
                y[i] = fmaf(s, x[i], y[i]);
}

static void scale(float *x, float s, size_t n) {
        size_t i = 0;

        for (; i + 4 <= n; i += 4)
                vst1q_f32(x + i, vmulq_n_f32(vld1q_f32(x + i), s));
        for (; i < n; i++)
                x[i] *= s;
}

static void mul(float *y, const float *x, size_t n) {
        size_t i = 0;

        for (; i + 4 <= n; i += 4)
                vst1q_f32(y + i, vmulq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
        for (; i < n; i++)
                y[i] *= x[i];
}

static float greatest(const float *x, size_t n) {
        float32x4_t a[4];
        float m[16];
        size_t i = 0;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) a[l] = vdupq_n_f32(-INFINITY);
        for (; i + 16 <= n; i += 16)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) a[l] =
                        max2(a[l], vld1q_f32(x + i + 4 * l));
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) vst1q_f32(m + 4 * l, a[l]);
        for (; i < n; i++)
                m[i % 16] = kern_max2(m[i % 16], x[i]);
        return kern_maxtree16(m);
}

static void softmax(float *x, size_t n) {
        float32x4_t a[4], v;
        float max = greatest(x, n), acc[16];
        float32x4_t mv = vdupq_n_f32(max);
        size_t i = 0;

        KERN_UNROLL for (unsigned l = 0; l < 4; l++) a[l] = vdupq_n_f32(0);
        for (; i + 16 <= n; i += 16)
                KERN_UNROLL for (unsigned l = 0; l < 4; l++) {
                        v = exp4(vsubq_f32(vld1q_f32(x + i + 4 * l), mv));
                        vst1q_f32(x + i + 4 * l, v);
                        a[l] = vaddq_f32(a[l], v);
                }
        KERN_UNROLL for (unsigned l = 0; l < 4; l++) vst1q_f32(acc + 4 * l, a[l]);
        for (; i < n; i++) {
                x[i] = kern_exp(x[i] - max);
                acc[i % 16] += x[i];
        }
        scale(x, 1 / kern_tree16(acc), n);
}

static void f32_to_f16(const float *x, uint16_t *y, size_t n) {
        size_t i = 0;

        for (; i + 8 <= n; i += 8) {
                float16x8_t h =
                        vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(x + i)), vld1q_f32(x + i + 4));

                vst1q_u16(y + i, vreinterpretq_u16_f16(h));
        }
        for (; i < n; i++)
                y[i] = to_half(x[i]);
}

void kern_neon_vector(struct kern_ops *ops) {
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
