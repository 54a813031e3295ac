/* SPDX-License-Identifier: MIT */
/*
 * The kernels that go over rows of activations.
 *
 * Activations were written by the kernel before, so they lie in a cache: a row of one token in the first, those of 16
 * tokens in the second (128 KiB an array, four arrays at most). Memory is no roof for them. Theirs is the longer one of
 * two times: of a loop that reads and writes as many bytes in the same caches and does nothing else (roof_stream(), in
 * registers of the kernel's instruction set, measured in turn with the kernel), and of the kernel's products by the loop
 * of float products. Exponentials are many products, so activation functions have the second roof, most others the first.
 * All is of one thread: a call goes to more threads only when it has some tokens, and each thread then has rows of its own.
 *
 * Which bytes count: each array once, also where a kernel goes over a row twice (a norm), and weights of all tokens once.
 * Kernels in place read what they write. Of what is rounded, its int8, scales and sums count, not gaps of the layout.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench-kernels.h"
#include "bench.h"
#include "kern/kern.h"
#include "quant/quant.h"
#include "roof.h"

#define MAX_TOKENS 16
#define HEAD 64   /* values of a head */
#define GROUP 128 /* of what is normalised, and of a softmax: a router's experts */
#define BLOCK 32  /* tokens of a block of keys */
#define N_ARRAYS 10
#define GAP                                                                                        \
        272 /* floats between two arrays, so that they stand at different places of their pages */

struct row;
struct rows {
        struct kern *k;
        const struct row *row;
        size_t n, n_tokens;
        float *memory, *x, *x2, *x3, *w, *zeros, *ones, *minus, *y, *z, *state;
        uint8_t *scratch; /* of rounded rows; of a block of keys and values */
};

struct row {
        const char *name;
        void (*run)(void *arg);
        int what; /* the class, activation or type */
        bool in_place;
        float in, out;           /* rows read and written of a token, */
        float in_once, out_once; /* and of all tokens: weights, states */
        float products;          /* of a value */
};

/* --- activations for products, keys and values --- */

static void run_round(void *arg) {
        struct rows *r = arg;
        struct kern_act a;

        kern_act_prepare(r->k, &a, (enum kern_act_class)r->row->what, r->x, r->n, r->n, r->n_tokens,
                r->scratch);
}

static void write_kv(struct rows *r, bool latent) {
        const struct kern_kv_layout l = {.type = (enum kern_kv_type)r->row->what,
                .block_tokens = BLOCK,
                .n_kv_head = latent ? 1 : (uint32_t)(r->n / HEAD),
                .head_dim_k = latent ? (uint32_t)r->n : HEAD,
                .head_dim_v = latent ? (uint32_t)r->n : HEAD,
                .latent = latent};
        void *const blocks[] = {r->scratch};
        struct kern_attn_row rows[MAX_TOKENS];

        for (size_t t = 0; t < r->n_tokens; t++)
                rows[t] = (struct kern_attn_row){blocks, (uint32_t)t};
        kern_kv_write(r->k, &l, 0, kern_kv_k_size(&l), rows, r->n_tokens, r->x, r->n, r->x2, r->n);
}

static void run_kv(void *arg) {
        write_kv(arg, false);
}

static void run_latent(void *arg) {
        write_kv(arg, true);
}

/* --- rows and elements --- */

static size_t all(const struct rows *r) {
        return r->n * r->n_tokens;
}

static void run_rmsnorm(void *arg) {
        struct rows *r = arg;

        kern_rmsnorm(r->k, r->x, r->n, r->w, 1e-5f, r->n, r->n_tokens, r->y, r->n);
}

static void run_layernorm(void *arg) {
        struct rows *r = arg;

        kern_layernorm(r->k, r->x, r->n, r->w, r->w + r->n, 1e-5f, r->n, r->n_tokens, r->y, r->n);
}

static void run_rope(void *arg) {
        struct rows *r = arg;

        kern_rope(r->k, r->y, r->n, r->n / HEAD, HEAD, HEAD, r->row->what, r->ones, r->zeros,
                r->n_tokens);
}

static void run_add(void *arg) {
        struct rows *r = arg;

        kern_add(r->k, r->y, r->x, all(r));
}

static void run_add_scaled(void *arg) {
        struct rows *r = arg;

        kern_add_scaled(r->k, r->y, r->x, 0.5f, all(r));
}

static void run_add_scaled_rows(void *arg) {
        struct rows *r = arg;

        kern_add_scaled_rows(r->k, r->y, r->x, r->ones, HEAD, all(r) / HEAD);
}

static void run_mul(void *arg) {
        struct rows *r = arg;

        kern_mul(r->k, r->y, r->ones, all(r));
}

static void run_scale(void *arg) {
        struct rows *r = arg;

        kern_scale(r->k, r->y, -1, all(r));
}

static void run_scale_rows(void *arg) {
        struct rows *r = arg;

        kern_scale_rows(r->k, r->y, r->n, r->n, r->n_tokens, r->minus);
}

static void run_softmax(void *arg) {
        struct rows *r = arg;

        for (size_t i = 0; i < all(r); i += GROUP)
                kern_softmax(r->k, r->y + i, GROUP);
}

/* --- activation functions --- */

static void run_activate(void *arg) {
        struct rows *r = arg;

        kern_activate(r->k, (enum kern_activation)r->row->what, r->x, r->x2, r->y, all(r));
}

static void run_xielu(void *arg) {
        struct rows *r = arg;

        kern_xielu(r->k, r->x, r->y, all(r), 0.8f, 0.8f, 0.5f, -1e-6f);
}

static void run_sigmoid(void *arg) {
        struct rows *r = arg;

        kern_sigmoid(r->k, r->y, all(r));
}

static void run_softcap(void *arg) {
        struct rows *r = arg;

        kern_softcap(r->k, r->y, 30, all(r));
}

static void run_softplus(void *arg) {
        struct rows *r = arg;

        kern_softplus(r->k, r->x, r->n, r->w, r->n, r->n_tokens, r->y, r->n);
}

/* --- what recurrent layers make of their rows --- */

static void run_conv(void *arg) {
        struct rows *r = arg;
        const struct kern_conv c = {
                .n_channels = r->n, .n_taps = 4, .w = r->w, .bias = r->w + 4 * r->n, .silu = true};
        const struct kern_run run = {
                .n = r->n_tokens, .state = r->state, .next = r->state + 3 * r->n};

        kern_conv(r->k, &c, &run, 1, r->x, r->n, r->y, r->n);
}

static void run_token_shift(void *arg) {
        struct rows *r = arg;
        const struct kern_run run = {.n = r->n_tokens, .state = r->state, .next = r->state + r->n};

        kern_token_shift(r->k, &run, 1, 0, r->x, r->n, r->y);
}

static void run_lerp(void *arg) {
        struct rows *r = arg;

        kern_lerp(r->k, r->x, r->x2, r->w, r->row->what ? r->x3 : NULL, r->n, r->n_tokens, r->y);
}

static void run_blend(void *arg) {
        struct rows *r = arg;

        kern_blend(r->k, r->y, r->x, r->ones, all(r));
}

static void run_exp_scaled(void *arg) {
        struct rows *r = arg;

        kern_exp_scaled(r->k, r->y, r->minus, r->row->what ? r->n : 1, r->n, r->n_tokens);
}

static void run_l2norm(void *arg) {
        struct rows *r = arg;

        kern_l2norm(r->k, r->y, r->n, r->n / GROUP, GROUP, 1e-6f, r->n_tokens);
}

static void run_group_norm(void *arg) {
        struct rows *r = arg;

        kern_group_norm(r->k, r->y, r->n / HEAD, HEAD, r->ones, r->w, 1e-5f, r->n_tokens);
}

/* With an a of 1 keys stay what they are. */
static void run_wkv7_keys(void *arg) {
        struct rows *r = arg;
        const struct kern_wkv wkv = {.n_head = r->n / HEAD, .n_key = HEAD};
        const struct kern_wkv7_keys keys = {.k_k = r->w,
                .k_a = r->w + r->n,
                .r_k = r->w + 2 * r->n,
                .r = r->x,
                .a = r->ones,
                .k = r->y,
                .kk = r->z,
                .bonus = r->state};

        kern_wkv7_keys(r->k, &wkv, r->n_tokens, &keys);
}

/* --- all --- */

/* An int8 and its part of a block's float scale; those of larger blocks have sums, too. */
#define Q8 ((1 + 4.f / 32) / 4)
#define Q8K ((1 + 4.f / 256 + 2.f / 16) / 4)
#define KV_Q8 ((1 + 2.f / 32) / 4)

static const struct row rows[] = {
        {"round to Q8", run_round, KERN_ACT_Q8, false, 1, Q8, 0, 0, 1},
        {"round to Q8K", run_round, KERN_ACT_Q8K, false, 1, Q8K, 0, 0, 1},
        {"round to Q8*", run_round, KERN_ACT_Q8_REPACKED, false, 1, Q8, 0, 0, 1},
        {"round to Q8K*", run_round, KERN_ACT_Q8K_REPACKED, false, 1, Q8K, 0, 0, 1},
        {"keys, values: f32", run_kv, KERN_KV_F32, false, 2, 2, 0, 0, 0},
        {"keys, values: f16", run_kv, KERN_KV_F16, false, 2, 1, 0, 0, 0},
        {"keys, values: q8_0", run_kv, KERN_KV_Q8_0, false, 2, 2 * KV_Q8, 0, 0, 2},
        {"latent rows: f16", run_latent, KERN_KV_F16, false, 1, .5f, 0, 0, 0},
        {"latent rows: q8_0", run_latent, KERN_KV_Q8_0, false, 1, KV_Q8, 0, 0, 1},
        {"rmsnorm", run_rmsnorm, 0, false, 1, 1, 1, 0, 3},
        {"layernorm", run_layernorm, 0, false, 1, 1, 2, 0, 3},
        {"rope", run_rope, false, true, 1, 1, 0, 0, 2},
        {"rope, neox", run_rope, true, true, 1, 1, 0, 0, 2},
        {"add", run_add, 0, true, 2, 1, 0, 0, 0},
        {"add scaled", run_add_scaled, 0, true, 2, 1, 0, 0, 1},
        {"add scaled rows, of 64", run_add_scaled_rows, 0, true, 2, 1, 0, 0, 1},
        {"mul", run_mul, 0, true, 2, 1, 0, 0, 1},
        {"scale", run_scale, 0, true, 1, 1, 0, 0, 1},
        {"scale rows", run_scale_rows, 0, true, 1, 1, 0, 0, 1},
        {"softmax, of 128", run_softmax, 0, true, 1, 1, 0, 0, 10},
        {"silu x up", run_activate, KERN_SILU, false, 2, 1, 0, 0, 11},
        {"gelu x up", run_activate, KERN_GELU, false, 2, 1, 0, 0, 14},
        {"relu2 x up", run_activate, KERN_RELU2, false, 2, 1, 0, 0, 2},
        {"swiglu-oai", run_activate, KERN_SWIGLU_OAI, false, 2, 1, 0, 0, 12},
        {"xielu", run_xielu, 0, false, 1, 1, 0, 0, 19},
        {"sigmoid", run_sigmoid, 0, true, 1, 1, 0, 0, 10},
        {"softcap", run_softcap, 0, true, 1, 1, 0, 0, 12},
        {"softplus", run_softplus, 0, false, 1, 1, 1, 0, 17},
        {"conv, 4 taps, silu", run_conv, 0, false, 1, 1, 8, 3, 14},
        {"token shift", run_token_shift, 0, false, 1, 1, 1, 1, 0},
        {"lerp", run_lerp, false, false, 2, 1, 1, 0, 1},
        {"lerp, mu of each token", run_lerp, true, false, 3, 1, 1, 0, 1},
        {"blend", run_blend, 0, true, 3, 1, 0, 0, 1},
        {"exp scaled", run_exp_scaled, true, true, 1, 1, 0, 0, 10},
        {"exp scaled, each", run_exp_scaled, false, true, 1, 1, 1, 0, 10},
        {"l2norm, heads of 128", run_l2norm, 0, true, 1, 1, 0, 0, 2},
        {"group norm, of 64", run_group_norm, 0, true, 1, 1, 2, 0, 3},
        {"wkv7 keys, heads of 64", run_wkv7_keys, 0, true, 3, 2, 3, 0, 7},
};

static void bench_row(struct rows *r) {
        const struct row *row = r->row;
        double time = 1e300, stream = 0, seconds = kernels_options.seconds / 8;
        double size = (double)(r->n * sizeof(float)), n = (double)r->n_tokens;
        double in = row->in * n + row->in_once, out = row->out * n + row->out_once;
        double bytes = (in + out) * size, per_written = in / out + 0.5;
        struct roof_stream s = {.in_place = row->in_place};
        char name[128];

        s.n_read = (unsigned)MIN(MAX(per_written, 1), ROOF_STREAM_READS);
        s.size = (size_t)(bytes / (s.n_read + 1));
        snprintf(name, sizeof(name), "row %s %zu %zu %s", kern_isa_name(kern_isa(r->k)), r->n,
                r->n_tokens, row->name);
        for (int i = 0; i < 2; i++) {
                time = MIN(time, kernels_best(row->run, r, seconds));
                stream = MAX(stream, roof_stream(r->k, &s, seconds));
        }
        bench_put(name,
                (const double[]){time, bytes, row->products * size / sizeof(float) * n, stream}, 4);
}

/* What kernels in place multiply again and again must neither grow nor vanish: hence the ones. */
static void make_arrays(struct rows *r) {
        float **const arrays[N_ARRAYS] = {&r->x, &r->x2, &r->x3, &r->w, &r->y, &r->z, &r->state,
                &r->zeros, &r->ones, &r->minus};
        size_t n = r->n * MAX_TOKENS;

        r->memory = kernels_floats(N_ARRAYS * (n + GAP));
        for (size_t i = 0; i < N_ARRAYS; i++)
                *arrays[i] = r->memory + i * (n + GAP);
        for (size_t i = 0; i < n; i++) {
                r->zeros[i] = 0;
                r->ones[i] = 1;
                r->minus[i] = -1;
        }
}

void kernels_rows(struct kern *k) {
        struct rows r = {.k = k, .n = kernels_options.quick ? 256 : 2048};
        const struct kern_mat any = {.type = QUANT_Q8_0,
                .n_in = r.n,
                .n_out = r.n,
                .row_size = quant_row_size(QUANT_Q8_0, r.n)};
        bool repacks = kern_repacked_size(k, &any) > 0;

        make_arrays(&r);
        r.scratch = bench_alloc(2 * BLOCK * r.n * sizeof(float));
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct row *row = &rows[i];

                if (row->run == run_round && row->what >= KERN_ACT_Q8_REPACKED && !repacks)
                        continue;
                r.row = row;
                for (r.n_tokens = 1; r.n_tokens <= MAX_TOKENS; r.n_tokens *= MAX_TOKENS) {
                        memcpy(r.y, r.x, r.n * MAX_TOKENS * sizeof(float));
                        bench_row(&r);
                }
        }
        free(r.scratch);
        free(r.memory);
}
