/* SPDX-License-Identifier: MIT */
/* Kernels on rows and elements, the definition. */
#include "kern/kern-isa.h"
#include "kern/kern-math.h"
#include "quant/quant.h"

float kern_exp_f32(float x) {
        return kern_exp(x);
}

static void rmsnorm(const float *x, const float *w, float eps, size_t n, float *y) {
        float acc[16] = {0}, inv;

        for (size_t i = 0; i < n; i++)
                acc[i % 16] = fmaf(x[i], x[i], acc[i % 16]);
        inv = 1 / sqrtf(kern_tree16(acc) / (float)n + eps);
        for (size_t i = 0; i < n; i++)
                y[i] = w ? (x[i] * inv) * w[i] : x[i] * inv;
}

static void layernorm(
        const float *x, const float *w, const float *b, float eps, size_t n, float *y) {
        float sum[16] = {0}, square[16] = {0}, mean, inv;

        for (size_t i = 0; i < n; i++)
                sum[i % 16] += x[i];
        mean = kern_tree16(sum) / (float)n;
        for (size_t i = 0; i < n; i++)
                square[i % 16] = fmaf(x[i] - mean, x[i] - mean, square[i % 16]);
        inv = 1 / sqrtf(kern_tree16(square) / (float)n + eps);
        for (size_t i = 0; i < n; i++) {
                float v = (x[i] - mean) * inv;

                v = w ? v * w[i] : v;
                y[i] = b ? v + b[i] : v;
        }
}

static void rope(float *x, size_t n_heads, size_t head_dim, size_t n_rot, bool neox,
        const float *cos, const float *sin) {
        size_t half = n_rot / 2;

        for (size_t h = 0; h < n_heads; h++, x += head_dim)
                for (size_t i = 0; i < half; i++) {
                        float *pa = neox ? x + i : x + 2 * i, *pb = neox ? pa + half : pa + 1;
                        float a = *pa, b = *pb;

                        *pa = fmaf(a, cos[i], -(b * sin[i]));
                        *pb = fmaf(a, sin[i], b * cos[i]);
                }
}

static void add(float *y, const float *x, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] += x[i];
}

static void add_scaled(float *y, const float *x, float s, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = fmaf(s, x[i], y[i]);
}

static void scale(float *x, float s, size_t n) {
        for (size_t i = 0; i < n; i++)
                x[i] *= s;
}

static void mul(float *y, const float *x, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] *= x[i];
}

static void softmax(float *x, size_t n) {
        float m[16], acc[16] = {0}, max, scale;

        for (int l = 0; l < 16; l++)
                m[l] = -INFINITY;
        for (size_t i = 0; i < n; i++)
                m[i % 16] = kern_max2(m[i % 16], x[i]);
        max = kern_maxtree16(m);
        for (size_t i = 0; i < n; i++) {
                x[i] = kern_exp(x[i] - max);
                acc[i % 16] += x[i];
        }
        scale = 1 / kern_tree16(acc);
        for (size_t i = 0; i < n; i++)
                x[i] *= scale;
}

static void f32_to_f16(const float *x, uint16_t *y, size_t n) {
        for (size_t i = 0; i < n; i++)
                y[i] = quant_f32_to_f16(x[i]);
}

void kern_generic_vector(struct kern_ops *ops) {
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
