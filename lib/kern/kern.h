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

/* A processor has the first, and some of its architecture: of x86-64, where VNNI is the dot products of int8
 * that AVX-512 mostly has, and that came to vectors of AVX2 by themselves; or of AArch64, where all have NEON,
 * and those of ARMv8.2 on mostly its dot products. A later one of an architecture is the better one. */
enum kern_isa {
        KERN_GENERIC,
        KERN_AVX2,
        KERN_AVX_VNNI,
        KERN_AVX512, /* F, BW, VL, DQ */
        KERN_AVX512_VNNI,
        KERN_NEON,
        KERN_NEON_DOTPROD,
        KERN_N_ISA
};
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
 * Any thread may run any task; thread < kern_n_threads(). Tasks side by side mostly run on one
 * thread, one behind the other. */
void kern_run(struct kern *k, size_t n_tasks, void (*fn)(void *arg, size_t task, unsigned thread),
        void *arg);

/* A weight matrix: n_out rows of n_in values, in the file's layout or repacked. Data is borrowed;
 * kernels assume no alignment. */
struct kern_mat {
        const void *data;
        uint32_t type; /* enum quant_type, one that kern_mat_supported() */
        bool repacked; /* as kern_repack() left it, for the same kern */
        size_t n_in, n_out;
        size_t row_size; /* bytes */
};
bool kern_mat_supported(uint32_t type);

/* What the product with a type does to its activations first. */
enum kern_act_class {
        KERN_ACT_FLOAT, /* nothing: weights are floats */
        KERN_ACT_Q8,    /* rounded in blocks of 32 */
        KERN_ACT_Q8K,   /* rounded in blocks of 256 */
        /* Those two in the layout that repacked weights want. */
        KERN_ACT_Q8_REPACKED,
        KERN_ACT_Q8K_REPACKED,
        KERN_N_ACT
};
/* Of a supported type, in the file's layout. */
enum kern_act_class kern_act_class(uint32_t type);
/* That of its repacked matrices; of types of floats, which nothing repacks, the same. */
enum kern_act_class kern_repacked_act_class(uint32_t type);
enum kern_act_class kern_mat_act_class(const struct kern_mat *w);

/*
 * Repacking: rows of blocks are rearranged, once, into the lanes of the registers that multiply them, so that few
 * tokens are computed as fast as many, and memory is read as one stream. Products are the same, bit for bit.
 * Bytes that a matrix takes repacked; 0: @k multiplies its type as it is in the file.
 */
size_t kern_repacked_size(const struct kern *k, const struct kern_mat *w);
/* Rows of a tile: rows [i * this, ...) of a repacked matrix begin i * this * row_size bytes behind its first, and are
 * a repacked matrix. */
size_t kern_repacked_rows(const struct kern *k);
/* Writes @w to @dst, kern_repacked_size() bytes with an alignment of 64; *ret is the matrix there. On @k's
 * threads. */
void kern_repack(struct kern *k, const struct kern_mat *w, void *dst, struct kern_mat *ret);

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
/* Some products of the same activations, at most KERN_PRODUCTS_MAX, for which threads meet once. No y is another's. */
#define KERN_PRODUCTS_MAX 4
struct kern_product {
        const struct kern_mat *w;
        const float *bias;
        float *y;
        size_t ldy;
};
void kern_matmul_all(
        struct kern *k, const struct kern_act *a, const struct kern_product *p, size_t n);

/*
 * One matrix for each head: matrix h begins h * stride bytes behind first.data. The activations of head
 * h are x[t] + h * step_x, its results y[t] + h * step_y. Rows of y must not overlap x.
 */
struct kern_heads {
        struct kern_mat first;
        size_t n, stride;
};
/* Bytes of scratch for kern_heads_matmul(); 64-byte aligned. */
size_t kern_heads_size(enum kern_act_class act_class, size_t n_heads, size_t n_in, size_t n_tokens);
/* For every head y[t][o] = dot(row o, x[t]), as kern_matmul() computes it. */
void kern_heads_matmul(struct kern *k, const struct kern_heads *w, const float *x, size_t ldx,
        size_t step_x, size_t n_tokens, float *y, size_t ldy, size_t step_y, void *scratch);
/* By the transposed matrix: y[t][i] = the sum over rows o of x[t][o] * (row o)[i], fmaf by rising o from
 * 0, with the weights as quant_dequantize() has them. */
void kern_heads_matmul_turned(struct kern *k, const struct kern_heads *w, const float *x,
        size_t ldx, size_t step_x, size_t n_tokens, float *y, size_t ldy, size_t step_y);

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
 * Latent rows (multi-head latent attention, MLA): all heads share one row per token, which is their
 * key, and whose first head_dim_v channels are their value. So it is kept once, and a row is
 * contiguous; n_kv_head is 1, head_dim_v is at most head_dim_k, V takes no room:
 *   K: [block_tokens][head_dim_k], with Q8_0 followed by [block_tokens][head_dim_k / KERN_KV_GROUP]
 * (head_dim_v is then a multiple of the group, too).
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
        bool latent;
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

/*
 * The rows of one sequence in a batch, which stand together, and its recurrent state: a kernel reads the
 * state before row `first` and writes the state after row first + n - 1. Layers have their state at
 * different offsets of the same two buffers.
 */
struct kern_run {
        size_t first, n;   /* n >= 1 */
        const void *state; /* NULL: the beginning of the sequence, all zeros */
        void *next;        /* another buffer than `state`; its content before does not matter */
};

/* Write k [n_tokens][ldk], v [n_tokens][ldv] of one layer to the rows' positions. Of latent rows @k is
 * all: v_offset, v and ldv are not used. */
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
 * out [n_tokens][ldo]. score_j: sequential fmaf over channels 0..head_dim_k-1 from 0, then * scale;
 * of latent rows the dot of float weights (above), then * scale.
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

/*
 * Recurrent layers. They work on runs (struct kern_run): the rows of each run in order, from the run's
 * state to its next state. However a sequence is cut into runs, states and results have the same bits
 * (I2): a state is the exact intermediate result, and one token is always one step.
 *
 * `state_offset` says where the layer's part is, in bytes, in both buffers of a run; it is a multiple of
 * 64, as are the buffers' addresses. All states are F32. Kernels write every byte of their part.
 */

/*
 * Causal convolution of each channel with its last inputs. With x[t-i] the input i rows before (in the
 * run, else in the state): y = 0, fmaf(w[i], x[t - n_taps + 1 + i], y) for i = 0, 1, ..., + bias if there
 * is one, and SILU of it as in kern_activate() if asked for.
 *
 * State: [n_taps - 1][n_channels], the last inputs, oldest first.
 */
#define KERN_CONV_TAPS_MIN 2
#define KERN_CONV_TAPS_MAX 8
struct kern_conv {
        size_t n_channels, n_taps;
        const float *w;    /* [n_taps][n_channels], oldest first */
        const float *bias; /* [n_channels] or NULL */
        bool silu;
        size_t state_offset;
};
/* x and y are [rows of the runs][ld]; y may be x. */
void kern_conv(struct kern *k, const struct kern_conv *c, const struct kern_run *runs,
        size_t n_runs, const float *x, size_t ldx, float *y, size_t ldy);

/* y[t] = softplus(x[t] + bias) (bias may be NULL), rows of n; y may be x. softplus(x) = max2(x, 0) +
 * log1p(exp(-|x|)), with log1p(e) = 2 artanh(h), h = e / (2 + e): fmaf(h * z, P(z), h + h), z = h * h. P
 * is a polynomial of degree 4; the relative error of all is below 1e-6 above -87. */
void kern_softplus(struct kern *k, const float *x, size_t ldx, const float *bias, size_t n,
        size_t n_tokens, float *y, size_t ldy);

/*
 * Selective scans (mamba). A channel p has n_state entries s[i]. A row with the channel's input x and
 * step dt, and with b and c for each entry, does, with dx = x * dt:
 *   s[i] = fmaf(b[i], dx, s[i] * decay)  for each i,
 *   y = 0, fmaf(s[i], c[i], y) for i = 0, 1, ...; y = fmaf(d, x, y).
 *
 * kern_scan_channels() (mamba 1): decay = exp(dt * a) with an `a` for each channel and entry; dt and d
 * for each channel. Channels lie in tiles of KERN_SCAN_LANES; `a` and the state are
 * [tiles][n_state][KERN_SCAN_LANES]. Lanes behind the last channel are 0 in states and ignored in `a`.
 *
 * kern_scan_heads() (mamba 2): a head has head_dim channels, one a, dt and d. Heads are dealt in order to
 * n_groups groups with one b and c each. State: [n_heads][n_state][row] with rows of head_dim rounded up
 * to KERN_SCAN_LANES, 0 behind head_dim.
 */
#define KERN_SCAN_LANES 16
struct kern_scan {
        size_t n_heads, head_dim; /* kern_scan_channels(): channels, 1 */
        size_t n_state;
        size_t n_groups; /* divides n_heads; kern_scan_channels(): 1 */
        const float *a;  /* in tiles as above, or [n_heads] */
        const float *d;  /* [n_heads] */
        size_t state_offset;
};
/* [rows of the runs][ld] each. y overlaps none of the others. */
struct kern_scan_rows {
        const float *x;     /* [n_heads][head_dim] */
        const float *dt;    /* [n_heads] */
        const float *b, *c; /* [n_groups][n_state] */
        float *y;           /* as x */
        size_t ldx, lddt, ldbc, ldy;
};
/* Floats of a scan's state. */
size_t kern_scan_channels_size(size_t n_channels, size_t n_state);
size_t kern_scan_heads_size(size_t n_heads, size_t head_dim, size_t n_state);
void kern_scan_channels(struct kern *k, const struct kern_scan *s, const struct kern_run *runs,
        size_t n_runs, const struct kern_scan_rows *r);
void kern_scan_heads(struct kern *k, const struct kern_scan *s, const struct kern_run *runs,
        size_t n_runs, const struct kern_scan_rows *r);

/*
 * Recurrence with a matrix for each head (linear attention). A layer keeps for each head s[key][value] in
 * floats at `state_offset` (bytes, a multiple of 64) in the states of the runs: [n_head][n_value /
 * panel][n_key][panel], where a panel is kern_state_panel(n_value) values, which stay in the cache while
 * all tokens of a run go by.
 * The tokens of a run go through it one after another, so cutting a run in two changes nothing (I2).
 *
 * Sums over keys are per value, fmaf in rising order of keys from 0. dot(a, b) is the sum over keys in
 * 16 lanes: acc[l] = fmaf(a[i], b[i], acc[l]), no terms for the missing end of the last group, tree16.
 * A token's result comes from the state before it: with s' = d s + k e^T the sum of s'[i] q[i] is that
 * of s[i] (d[i] q[i]) plus dot(k, q) e. So one pass over the state makes all sums, and a second one
 * updates it.
 */
#define KERN_STATE_KEYS 1024 /* the greatest n_key */
/* The greatest divisor that is at most 64. n_value >= 1. */
size_t kern_state_panel(size_t n_value);

/* The gated delta rule. */
struct kern_delta {
        size_t n_head;     /* of values and states */
        size_t n_key_head; /* of queries and keys; n_head is a multiple */
        /* Head h takes key head h % n_key_head, else h / (n_head / n_key_head). */
        bool interleaved;
        size_t n_key, n_value; /* head sizes */
        bool decay_per_key;
        float scale;
        size_t state_offset;
};
/* Rows of the runs; ld: floats from one row to the next. */
struct kern_delta_rows {
        const float *q, *k; /* heads of n_key */
        const float *v;     /* heads of n_value */
        size_t ldq, ldk, ldv;
        /* Factors of the state: [n_tokens][n_head], or with decay_per_key [n_tokens][n_head][n_key]. */
        const float *decay;
        const float *beta; /* [n_tokens][n_head] */
        float *out;        /* heads of n_value; overlaps none of the others */
        size_t ldo;
};
/*
 * Per token and head: d[i] = decay, p[i] = d[i]*k[i], r[i] = d[i]*q[i], c = dot(k, q). Per value:
 * a = sum of s[i] p[i], b = sum of s[i] r[i], e = (v - a)*beta, out = fmaf(c, e, b) * scale,
 * s[i] = fmaf(k[i], e, d[i]*s[i]).
 */
void kern_delta(struct kern *k, const struct kern_delta *d, const struct kern_run *runs,
        size_t n_runs, const struct kern_delta_rows *rows);

/* RWKV's matrices: keys and values have the same heads. */
struct kern_wkv {
        size_t n_head, n_key; /* n_key is also the number of values */
        size_t state_offset;
};
/* Rows of n_head * n_key floats without gaps. */
struct kern_wkv_rows {
        const float *r, *w, *k, *v; /* receptance, decay factor, key, value */
        float *out;                 /* overlaps none of the others */
        const float *u;      /* version 6: [n_head][n_key], the weight of the present token */
        const float *kk, *a; /* version 7: the key that is removed, and how much comes back */
};
/* Version 6. Per token and head: c = dot(r u, k), with r[i]*u[i] rounded. Per value: b = sum of s[i]
 * r[i], out = fmaf(c, v, b), s[i] = fmaf(k[i], v, w[i]*s[i]). */
void kern_wkv6(struct kern *k, const struct kern_wkv *x, const struct kern_run *runs, size_t n_runs,
        const struct kern_wkv_rows *rows);
/* Version 7. Per token and head: m[i] = kk[i]*a[i], p[i] = w[i]*r[i], c = dot(k, r), f = dot(m, r). Per
 * value: y = -(sum of s[i] kk[i]), b = sum of s[i] p[i], out = fmaf(f, y, fmaf(c, v, b)),
 * s[i] = fmaf(m[i], y, fmaf(k[i], v, w[i]*s[i])). */
void kern_wkv7(struct kern *k, const struct kern_wkv *x, const struct kern_run *runs, size_t n_runs,
        const struct kern_wkv_rows *rows);
/*
 * What version 7 makes of its keys. Per head: x = k*k_k, kk = x * (1 / max2(1e-12, sqrtf(dot(x, x)))),
 * k = k * fmaf(a - 1, k_a, 1), bonus = dot(r k, r_k) with the new k and r[i]*k[i] rounded. Rows as
 * above; k_k, k_a and r_k [n_head * n_key], bonus [n_tokens][n_head].
 */
struct kern_wkv7_keys {
        const float *k_k, *k_a, *r_k; /* weights */
        const float *r, *a;
        float *k; /* in place */
        float *kk, *bonus;
};
void kern_wkv7_keys(struct kern *k, const struct kern_wkv *x, size_t n_tokens,
        const struct kern_wkv7_keys *keys);

/* dx[t] = x[t-1] - x[t], rows of n without gaps. What stands before a run's first row is its state, [n]
 * at @state_offset; the run's last row becomes the next state. dx is not x. */
void kern_token_shift(struct kern *k, const struct kern_run *runs, size_t n_runs,
        size_t state_offset, const float *x, size_t n, float *dx);
/* y = fmaf(dx, mu, x), rows of n without gaps; with @m [n_tokens][n] fmaf(dx, mu + m, x). mu [n]. y may
 * be x, dx or m. */
void kern_lerp(struct kern *k, const float *x, const float *dx, const float *mu, const float *m,
        size_t n, size_t n_tokens, float *y);
/* y = fmaf(x - y, s, y), elementwise. */
void kern_blend(struct kern *k, float *y, const float *x, const float *s, size_t n);
/* In place: x[t][i] = exp(x[t][i] * s[i / group]), rows of n without gaps, n a multiple of the group. */
void kern_exp_scaled(
        struct kern *k, float *x, const float *s, size_t group, size_t n, size_t n_tokens);
/* In place: each head x *= 1 / max2(eps, sqrtf(dot(x, x))). x [n_tokens][ldx], heads of head_dim
 * starting at x. */
void kern_l2norm(struct kern *k, float *x, size_t ldx, size_t n_heads, size_t head_dim, float eps,
        size_t n_tokens);
/* kern_layernorm() of each head, in place: rows of n_heads * head_dim without gaps, w and b as long. */
void kern_group_norm(struct kern *k, float *x, size_t n_heads, size_t head_dim, const float *w,
        const float *b, float eps, size_t n_tokens);
/* y[t] = fmaf(s[t], x[t], y[t]), rows of n without gaps. */
void kern_add_scaled_rows(
        struct kern *k, float *y, const float *x, const float *s, size_t n, size_t n_rows);
