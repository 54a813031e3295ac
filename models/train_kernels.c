/* SPDX-License-Identifier: MIT */
/*
 * The element-wise parts of the training step, for one CPU core.
 *
 * The matrix products of the model take little time in bfloat16; what PyTorch spends on softmax,
 * SiLU and norms between them takes several times as long. These loops are written so that the
 * compiler vectorises them, expf included (-O3 -march=native -ffast-math). train.py compiles this
 * file, and works without it, only slower.
 *
 * Activations are bfloat16 (the upper half of a float), norms and sums are float.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define MAX_ROW 4096

static inline float from_bf16(uint16_t x) {
        uint32_t bits = (uint32_t)x << 16;
        float f;

        memcpy(&f, &bits, sizeof(f));
        return f;
}

static inline uint16_t to_bf16(float f) {
        uint32_t bits;

        memcpy(&bits, &f, sizeof(bits));
        return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* y = x / rms(x) * w; rstd is kept for the way back. */
void rms_forward(
        const float *x, const float *w, uint16_t *y, float *rstd, int64_t n, int64_t d, float eps) {
        for (int64_t i = 0; i < n; i++) {
                const float *xi = x + i * d;
                float sum = 0;

                for (int64_t j = 0; j < d; j++)
                        sum += xi[j] * xi[j];
                float r = 1.0f / sqrtf(sum / d + eps);
                rstd[i] = r;
                for (int64_t j = 0; j < d; j++)
                        y[i * d + j] = to_bf16(xi[j] * r * w[j]);
        }
}

void rms_backward(const uint16_t *dy, const float *x, const float *w, const float *rstd, float *dx,
        float *dw, int64_t n, int64_t d) {
        for (int64_t i = 0; i < n; i++) {
                const float *xi = x + i * d;
                const uint16_t *g = dy + i * d;
                float r = rstd[i], dot = 0;

                for (int64_t j = 0; j < d; j++) {
                        float gj = from_bf16(g[j]);

                        dot += gj * w[j] * xi[j];
                        dw[j] += gj * xi[j] * r;
                }
                dot *= r * r * r / d;
                for (int64_t j = 0; j < d; j++)
                        dx[i * d + j] = from_bf16(g[j]) * w[j] * r - xi[j] * dot;
        }
}

/* gu is [n][2f], gate then up; y = silu(gate) * up. */
void swiglu_forward(const uint16_t *gu, uint16_t *y, int64_t n, int64_t f) {
        for (int64_t i = 0; i < n; i++) {
                const uint16_t *g = gu + i * 2 * f, *u = g + f;

                for (int64_t j = 0; j < f; j++) {
                        float x = from_bf16(g[j]);

                        y[i * f + j] = to_bf16(x / (1.0f + expf(-x)) * from_bf16(u[j]));
                }
        }
}

void swiglu_backward(const uint16_t *dy, const uint16_t *gu, uint16_t *dgu, int64_t n, int64_t f) {
        for (int64_t i = 0; i < n; i++) {
                const uint16_t *g = gu + i * 2 * f, *u = g + f;
                uint16_t *dg = dgu + i * 2 * f, *du = dg + f;

                for (int64_t j = 0; j < f; j++) {
                        float x = from_bf16(g[j]), d = from_bf16(dy[i * f + j]);
                        float s = 1.0f / (1.0f + expf(-x));

                        du[j] = to_bf16(d * x * s);
                        dg[j] = to_bf16(d * from_bf16(u[j]) * s * (1.0f + x * (1.0f - s)));
                }
        }
}

/* Rotates the pairs (2i, 2i+1) of one head by the angles of its position. */
static void rotate(const uint16_t *in, uint16_t *out, const float *c, const float *s, int64_t half,
        float sign) {
        for (int64_t i = 0; i < half; i++) {
                float a = from_bf16(in[2 * i]), b = from_bf16(in[2 * i + 1]), si = sign * s[i];

                out[2 * i] = to_bf16(a * c[i] - b * si);
                out[2 * i + 1] = to_bf16(a * si + b * c[i]);
        }
}

/* qkv [b][t][h + 2k][hd] -> q [b][h][t][hd], k and v [b][k][t][hd], with rotary positions. */
void split_forward(const uint16_t *qkv, const float *cosine, const float *sine, uint16_t *q,
        uint16_t *k, uint16_t *v, int64_t nb, int64_t nt, int64_t nh, int64_t nk, int64_t hd) {
        int64_t half = hd / 2;

        for (int64_t b = 0; b < nb; b++)
                for (int64_t t = 0; t < nt; t++) {
                        const uint16_t *in = qkv + (b * nt + t) * (nh + 2 * nk) * hd;
                        const float *c = cosine + t * half, *s = sine + t * half;

                        for (int64_t h = 0; h < nh; h++, in += hd)
                                rotate(in, q + ((b * nh + h) * nt + t) * hd, c, s, half, 1);
                        for (int64_t h = 0; h < nk; h++, in += hd)
                                rotate(in, k + ((b * nk + h) * nt + t) * hd, c, s, half, 1);
                        for (int64_t h = 0; h < nk; h++, in += hd)
                                memcpy(v + ((b * nk + h) * nt + t) * hd, in, hd * sizeof(*in));
                }
}

void split_backward(const uint16_t *dq, const float *dk, const float *dv, const float *cosine,
        const float *sine, uint16_t *dqkv, int64_t nb, int64_t nt, int64_t nh, int64_t nk,
        int64_t hd) {
        int64_t half = hd / 2;
        uint16_t row[1024];

        for (int64_t b = 0; b < nb; b++)
                for (int64_t t = 0; t < nt; t++) {
                        uint16_t *out = dqkv + (b * nt + t) * (nh + 2 * nk) * hd;
                        const float *c = cosine + t * half, *s = sine + t * half;

                        for (int64_t h = 0; h < nh; h++, out += hd)
                                rotate(dq + ((b * nh + h) * nt + t) * hd, out, c, s, half, -1);
                        for (int64_t h = 0; h < nk; h++, out += hd) {
                                const float *g = dk + ((b * nk + h) * nt + t) * hd;

                                for (int64_t i = 0; i < hd; i++)
                                        row[i] = to_bf16(g[i]);
                                rotate(row, out, c, s, half, -1);
                        }
                        for (int64_t h = 0; h < nk; h++, out += hd) {
                                const float *g = dv + ((b * nk + h) * nt + t) * hd;

                                for (int64_t i = 0; i < hd; i++)
                                        out[i] = to_bf16(g[i]);
                        }
                }
}

/* In place: rows of scores [n][rows][cols]; row r stands at position first + r % chunk. */
void softmax_forward(uint16_t *scores, int64_t n, int64_t rows, int64_t cols, int64_t first,
        int64_t chunk, float scale) {
        float e[MAX_ROW];

        for (int64_t i = 0; i < n * rows; i++) {
                uint16_t *s = scores + i * cols;
                int64_t valid = first + (i % rows) % chunk + 1;
                float max = -1e30f, sum = 0;

                for (int64_t j = 0; j < valid; j++) {
                        float x = from_bf16(s[j]);

                        max = x > max ? x : max;
                }
                for (int64_t j = 0; j < valid; j++) {
                        e[j] = expf((from_bf16(s[j]) - max) * scale);
                        sum += e[j];
                }
                sum = 1.0f / sum;
                for (int64_t j = 0; j < valid; j++)
                        s[j] = to_bf16(e[j] * sum);
                memset(s + valid, 0, (cols - valid) * sizeof(*s));
        }
}

/* In place: dp becomes the gradient of the unscaled scores. */
void softmax_backward(const uint16_t *p, uint16_t *dp, int64_t n, int64_t rows, int64_t cols,
        int64_t first, int64_t chunk, float scale) {
        for (int64_t i = 0; i < n * rows; i++) {
                const uint16_t *pi = p + i * cols;
                uint16_t *di = dp + i * cols;
                int64_t valid = first + (i % rows) % chunk + 1;
                float dot = 0;

                for (int64_t j = 0; j < valid; j++)
                        dot += from_bf16(pi[j]) * from_bf16(di[j]);
                for (int64_t j = 0; j < valid; j++)
                        di[j] = to_bf16(from_bf16(pi[j]) * (from_bf16(di[j]) - dot) * scale);
                memset(di + valid, 0, (cols - valid) * sizeof(*di));
        }
}

/* In place: logits [n][v] become the gradient of the weighted sum of losses, which is returned. */
float cross_entropy(
        uint16_t *logits, const int64_t *targets, const float *weights, int64_t n, int64_t v) {
        static float e[65536];
        double total = 0;

        for (int64_t i = 0; i < n; i++) {
                uint16_t *l = logits + i * v;
                float max = -1e30f, sum = 0, w = weights[i], target = from_bf16(l[targets[i]]);

                for (int64_t j = 0; j < v; j++) {
                        float x = from_bf16(l[j]);

                        max = x > max ? x : max;
                }
                for (int64_t j = 0; j < v; j++) {
                        e[j] = expf(from_bf16(l[j]) - max);
                        sum += e[j];
                }
                total += w * (logf(sum) + max - target);
                sum = w / sum;
                e[targets[i]] -= w / sum;
                for (int64_t j = 0; j < v; j++)
                        l[j] = to_bf16(e[j] * sum);
        }
        return (float)total;
}
