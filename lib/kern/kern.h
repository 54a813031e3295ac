/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Kernels with run-time dispatch, and the threads that they run on.
 *
 * The arithmetic contract (I2): for each output element every kernel performs one sequence of
 * floating-point operations that depends on shapes only, never on the instruction set, the number
 * of threads, or the other rows or tokens computed in the same call. All instruction sets produce
 * results that memcmp finds equal. KERN_ARITHMETIC_VERSION is part of the model fingerprint and
 * rises whenever a sequence changes. The generic implementations (lib/kern/generic/) define the
 * sequences.
 *
 * Sequences (L = 16 lanes):
 * - tree16(a): b[i] = a[i]+a[i+8] (i<8); c[i] = b[i]+b[i+4] (i<4); d[i] = c[i]+c[i+2]; d[0]+d[1].
 *   tree8(a) is the same from c on (c[i] = a[i]+a[i+4]). maxtree32 and maxtree16 have the same
 *   shape with max2, starting from 32 lanes (a[i], a[i+16]) or 16 lanes.
 * - dot of float weights (F32, F16, BF16 widened exactly to float): lane l accumulates
 *   acc[l] = fmaf(w[i], x[i], acc[l]) for i = l, l+16, ...; the last partial group is padded with
 *   zeros; result tree16(acc).
 * - dot of weights in blocks: the activation row is rounded to int8 blocks of as many values as the
 *   weights' blocks have, 32 or 256, with a float scale: amax = greatest |x| (NaN counts as
 *   greatest), d = amax/127 (float division), id = 1/d, q = clamp(round-to-nearest-even(x*id),
 *   -127, 127); all q = 0 if d is 0 or NaN or inf, or id is inf. Then for b = 0, 1, ... in order:
 *   acc[b%8] = fmaf((float)isum[b], dw*dx, acc[b%8]), for types with an offset followed by
 *   acc[b%8] = fmaf((float)msum[b], mw*dx, acc[b%8]); result tree8(acc).
 *   - Blocks of 32: isum[b] = the exact integer sum of w*q (w: the integers of quant.h), msum[b] =
 *     the sum of q; dw, mw = the block's scale and offset as floats.
 *   - Blocks of 256: isum[b] = the exact integer sum of scales[i/16]*w*q, msum[b] = that of
 *     mins[i/16]*q; dw, mw = the block's d and -dmin as floats. No sum leaves int32: the worst are
 *     Q6_K's, 256 * 128*32*127 < 2^27.
 *   (dw*dx is one float multiplication. There is one whole sum per block, so that a lane can be a
 *   block (one token: the weights are read once, in order) or a token (many tokens: the products
 *   of a lane need no shuffle). Within a block of 256 all is exact, so instruction sets may add in
 *   any order, apply a scale where 16-bit products are widened, and take offsets off at the end.)
 * - greatest value: max2(a, b) = a > b ? a : b, never fmaxf, so that NaN behaves the same
 *   everywhere.
 * - a bias, if given, is added last.
 * - exp: one polynomial, kern_exp_f32 below, identical per element everywhere.
 * - NaN and infinities in the inputs give NaN or infinities in the outputs they reach, in the same
 *   places for every instruction set; only the sign and payload of a NaN are unspecified.
 *
 * Threading: one caller at a time per struct kern (the engine thread). Work is split by output
 * rows, tokens and heads only.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct kern;

#define KERN_ARITHMETIC_VERSION 1
/* Attention walks keys in groups of this size, aligned to absolute positions; a block of sequence
 * memory is a multiple of the group. */
#define KERN_ATTN_GROUP 32

enum kern_isa { KERN_GENERIC, KERN_AVX2, KERN_AVX512, KERN_NEON, KERN_N_ISA };
/* How keys and values are kept. */
enum kern_kv_type { KERN_KV_F16, KERN_KV_F32, KERN_KV_Q8_0, KERN_N_KV };
/* "f16", "f32" or "q8_0". */
const char *kern_kv_name(enum kern_kv_type type);

/* The best instruction set of this CPU. */
enum kern_isa kern_cpu_isa(void);
const char *kern_isa_name(enum kern_isa isa);

/* @n_threads includes the caller (1: no threads are made). @max_isa caps the choice (tests). */
int kern_new(struct kern **ret, unsigned n_threads, enum kern_isa max_isa, struct err *e);
struct kern *kern_free(struct kern *k);
DEFINE_CLEANUP(struct kern *, kern_free);
enum kern_isa kern_isa(const struct kern *k);
unsigned kern_n_threads(const struct kern *k);

/* Run fn(arg, task, thread) for task = 0..n_tasks-1 on the pool; returns when all tasks are done.
 * Any thread may run any task; thread < kern_n_threads(). */
void kern_run(struct kern *k, size_t n_tasks, void (*fn)(void *arg, size_t task, unsigned thread),
        void *arg);

/* A weight matrix in the file's layout: n_out rows of n_in values. Data is borrowed (the map);
 * kernels assume no alignment. */
struct kern_mat {
        const void *data;
        uint32_t type; /* enum quant_type, one that kern_mat_supported() */
        size_t n_in, n_out;
        size_t row_size; /* bytes */
};
bool kern_mat_supported(uint32_t type);

/* What the product with a type does to its activations first. */
enum kern_act_class {
        KERN_ACT_FLOAT, /* nothing: weights are floats */
        KERN_ACT_Q8,    /* rounded in blocks of 32 */
        KERN_ACT_Q8K,   /* rounded in blocks of 256 */
        KERN_N_ACT
};
/* Of a supported type. */
enum kern_act_class kern_act_class(uint32_t type);

/* Activations prepared for weights of one class. Prepare once, use for several matrices of the same
 * n_in and class. */
struct kern_act {
        const float *x; /* [n_tokens][ldx], borrowed */
        size_t n_tokens, n_in, ldx;
        enum kern_act_class act_class;
        const void *quantised; /* in @scratch, or NULL */
        size_t quantised_row_size;
};
/* Bytes of scratch for n_tokens rows of n_in, a multiple of the class's block (0 if the class needs
 * none). 64-byte aligned. */
size_t kern_act_size(enum kern_act_class act_class, size_t n_in, size_t n_tokens);
void kern_act_prepare(struct kern *k, struct kern_act *a, enum kern_act_class act_class,
        const float *x, size_t ldx, size_t n_in, size_t n_tokens, void *scratch);

/* y[t][o] = dot(w row o, x row t) (+ bias[o] if not NULL). y [n_tokens][ldy]. */
void kern_matmul(struct kern *k, const struct kern_mat *w, const struct kern_act *a,
        const float *bias, float *y, size_t ldy);

/* y[t] = x[t] / sqrt(mean(x[t]^2) + eps) * w, rows of n; sum of squares in 16 lanes + tree16, then
 * inv = 1/sqrtf(sum/n + eps) and y = (x*inv)*w. y may be x. w may be NULL (all ones, no
 * multiplication). */
void kern_rmsnorm(struct kern *k, const float *x, size_t ldx, const float *w, float eps, size_t n,
        size_t n_tokens, float *y, size_t ldy);

/* y[t] = (x[t] - mean) / sqrt(variance + eps) * w + b, rows of n. mean = tree16 of 16 lane sums / n;
 * with d = x - mean, the variance is tree16 of 16 lanes fmaf(d, d, acc), / n (no terms for the
 * missing end of the last group). Then inv = 1/sqrtf(variance + eps), and y = (d*inv)*w, + b. y may
 * be x. w may be NULL (no multiplication) and b may be NULL (no addition). */
void kern_layernorm(struct kern *k, const float *x, size_t ldx, const float *w, const float *b,
        float eps, size_t n, size_t n_tokens, float *y, size_t ldy);

/* Rotate pairs of each head in place. x [n_tokens][ldx], heads of head_dim starting at x. cos/sin
 * [n_tokens][n_rot/2]. neox: pairs (i, i+n_rot/2), else (2i, 2i+1). Each: a*c - b*s as
 * fmaf(a, c, -(b*s)), and fmaf(a, s, b*c). Elements from n_rot on are untouched. */
void kern_rope(struct kern *k, float *x, size_t ldx, size_t n_heads, size_t head_dim, size_t n_rot,
        bool neox, const float *cos, const float *sin, size_t n_tokens);

/*
 * Activations a(x), elementwise:
 * - SILU: x / (1 + exp(-x)).
 * - GELU, the tanh form, 0.5 x (1 + tanh(c (x + 0.044715 x^3))) with c = sqrt(2/pi), rounded to half
 *   precision on the way in and out: h = half(x), half(h / (1 + exp(h * fmaf(h*h, -2 * 0.044715 c,
 *   -2c)))) with the two constants rounded to float; x itself from 10 on, 0 up to -10. The engines
 *   that these model files are made for look GELU up by the half of x, and what models are tried out
 *   with is part of what they are: without the rounding log-probabilities differ by up to 1e-2.
 * - RELU2: r*r, r = 0 > x ? 0 : x.
 * - SWIGLU_OAI (gpt-oss; always with up): g = 7 < gate ? 7 : gate, u = up within [-7, 7] in the same
 *   manner (7 < up ? 7 : up, then -7 > u ? -7 : u), y = g / (1 + exp(g * -1.702)) * (u + 1).
 */
enum kern_activation { KERN_SILU, KERN_GELU, KERN_RELU2, KERN_SWIGLU_OAI, KERN_N_ACTIVATION };
/* y = a(gate) * up, or a(gate) if up is NULL (not with SWIGLU_OAI), elementwise; y may be gate or
 * up. */
void kern_activate(struct kern *k, enum kern_activation a, const float *gate, const float *up,
        float *y, size_t n);
/*
 * The activation of apertus, elementwise; y may be x. alpha_p and alpha_n are the softplus of the
 * file's values, beta and eps are the file's.
 *   x > 0:  alpha_p x^2 + beta x, as x * fmaf(alpha_p, x, beta).
 *   else:   (expm1(min(x, eps)) - x) * (beta + alpha_n) + beta x, as fmaf(e, beta + alpha_n, beta*x)
 *           with m = x < eps ? x : eps. From -0.34 on e = fmaf(m*m, P(m), m - x), where P is the
 *           polynomial inside kern_exp_f32, 1 + m + m^2 P(m): nothing cancels near 0. Below, e =
 *           (exp(m) - 1) - x.
 */
void kern_xielu(struct kern *k, const float *x, float *y, size_t n, float alpha_p, float alpha_n,
        float beta, float eps);
/* In place: x = 1 / (1 + exp(-x)). */
void kern_sigmoid(struct kern *k, float *x, size_t n);
/* In place: x = cap * (1 - 2/(exp(x*(2/cap)) + 1)), i.e. cap * tanh(x/cap), as in attention. cap is
 * not 0. The error is below 3e-7 * cap, also near 0. */
void kern_softcap(struct kern *k, float *x, float cap, size_t n);
/* x *= s; x[t] *= s[t] for the rows of x [n_tokens][ldx], n values each; y *= x. */
void kern_scale(struct kern *k, float *x, float s, size_t n);
void kern_scale_rows(
        struct kern *k, float *x, size_t ldx, size_t n, size_t n_tokens, const float *s);
void kern_mul(struct kern *k, float *y, const float *x, size_t n);
/* y += x ; y = y + s*x with fmaf(s, x, y). */
void kern_add(struct kern *k, float *y, const float *x, size_t n);
void kern_add_scaled(struct kern *k, float *y, const float *x, float s, size_t n);
/* In place softmax over n values (router): max in 16 lanes from -inf, m[l] = max2(m[l], x[i]),
 * maxtree16; exp(x-max); 16-lane sum (no terms for the missing end of the last group) + tree16;
 * multiply by 1/sum. n of 0 does nothing. */
void kern_softmax(struct kern *k, float *x, size_t n);
/* The exponential of every kernel, per element. Relative error below 2 ulp on [-87, 88]; 0 below
 * -87.33, inf above 88.72; NaN stays NaN. */
float kern_exp_f32(float x);

/*
 * Sequence memory layout of one layer inside a block of `block_tokens` tokens, per KV head:
 *   K: [n_kv_head][head_dim_k][block_tokens]  (channel-major: 32 scores at a time)
 *   V: [n_kv_head][block_tokens][head_dim_v]
 * of kv type elements. Offsets in bytes from the block's start.
 *
 * Q8_0: the elements are int8, and each group of KERN_KV_GROUP channels of a token has an f16
 * scale (head sizes are multiples of the group). K and V are each followed by their scales:
 *   K: [n_kv_head][head_dim_k / KERN_KV_GROUP][block_tokens]
 *   V: [n_kv_head][block_tokens][head_dim_v / KERN_KV_GROUP]
 *
 * Writing a group: amax = greatest |x| (NaN counts as greatest); d = amax / 127 (float division)
 * rounded to f16, nearest even; D = d widened, id = 1/D; q = clamp(round-to-nearest-even(x*id),
 * -127, 127). If d is 0 (all are 0, or amax / 127 is not above 2^-25), all q are 0: the group reads
 * as zeros. If amax is NaN or infinite, or d does not fit f16 (amax from 127 * 65520 on), d is the
 * NaN 0x7e00 and all q are 0: the group reads as NaN, so that damage shows. Reading: (float)d *
 * (float)q, which is exact (18 bits), and then the same operations as with the other types.
 */
#define KERN_KV_GROUP 32
struct kern_kv_layout {
        enum kern_kv_type type;
        uint32_t block_tokens; /* multiple of KERN_ATTN_GROUP */
        uint32_t n_kv_head, head_dim_k, head_dim_v;
};
size_t kern_kv_k_size(const struct kern_kv_layout *l); /* bytes of K of one layer in one block */
size_t kern_kv_v_size(const struct kern_kv_layout *l);
/* Bytes before the scales inside K and V; equal to the size if the type has none. */
size_t kern_kv_k_scales(const struct kern_kv_layout *l);
size_t kern_kv_v_scales(const struct kern_kv_layout *l);

/* Where one token of the batch is stored. */
struct kern_attn_row {
        void *const *blocks; /* block pointers of its sequence, index pos / block_tokens */
        uint32_t pos;
};

/* Write k [n_tokens][ldk], v [n_tokens][ldv] of one layer to the rows' positions. */
void kern_kv_write(struct kern *k_, const struct kern_kv_layout *l, size_t k_offset,
        size_t v_offset, const struct kern_attn_row *rows, size_t n_tokens, const float *k,
        size_t ldk, const float *v, size_t ldv);

struct kern_attn {
        struct kern_kv_layout layout;
        size_t k_offset, v_offset; /* of this layer inside each block */
        uint32_t n_head;           /* query heads; head h reads KV head h*n_kv_head/n_head */
        float scale;
        float softcap;   /* 0: none; else s -> cap * (1 - 2/(exp(s*(2/cap)) + 1)), i.e. cap *
                            tanh(s/cap), before the mask */
        uint32_t window; /* 0: all; else keys with pos - j < window */
        uint32_t chunk;  /* 0: all; else keys with j >= pos - pos % chunk (and in the window) */
        /* [n_head], borrowed, or NULL: a logit per query head that takes part in the softmax's
         * maximum and sum and has no value. Neither scale nor softcap applies to it. */
        const float *sinks;
};
/*
 * out[t][h] = softmax(scale * q.K) V over keys 0..pos of the row's own sequence. q [n_tokens][ldq],
 * out [n_tokens][ldo]. score_j: sequential fmaf over channels 0..head_dim_k-1 from 0, then * scale.
 * Groups of KERN_ATTN_GROUP keys that hold a visible key, in rising order, with online softmax
 * from m = -inf, sum = 0, o = 0, or from m = sink, sum = 1, o = 0 (as if the sink were a first key
 * without value): mg = maxtree32 of the group's scores, -inf where masked; mn = max2(m, mg);
 * c = exp(m - mn); p_j = exp(s_j - mn), 0 where masked; sum = fmaf(sum, c, tree16 of
 * (p_j + p_{j+16})); o[d] = o[d]*c, then fmaf(p_j, v_j[d], o[d]) for the visible j rising (masked
 * keys are skipped, not multiplied by 0). At the end o[d] * (1/sum). out must not overlap q.
 * Query heads need not be a multiple of KV heads, but n_head >= n_kv_head > 0.
 */
void kern_attention(struct kern *k, const struct kern_attn *a, const struct kern_attn_row *rows,
        size_t n_tokens, const float *q, size_t ldq, float *out, size_t ldo);
