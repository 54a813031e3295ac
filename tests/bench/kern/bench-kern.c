/* SPDX-License-Identifier: MIT */
/*
 * Speed of the kernels: bench-kern [THREADS [SECONDS-PER-LINE [WHAT...]]]. Prints, for each
 * instruction set, matrix products of each type (GB/s of weights for one token, GMAC/s for many),
 * attention, the recurrent kernels (GB/s of states, read and written, for one token; millions of state
 * entries a second for many) and the vector kernels. A type with '*': repacked. WHAT: names of types, "small" (products), "memory"
 * (products with more weights than caches hold), "attention", "scan", "state", "vector"; all if none is given. This is not a test: nothing passes or fails.
 */
#include "base/clock.h"
#include "base/err.h"
#include "kern/kern.h"
#include "quant/quant.h"
#include "util/quantize.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_TOKENS_MAX 512

static uint64_t budget_usec = 200000;
static clockid_t work_clock = CLOCK_MONOTONIC;

static void *alloc(size_t n) {
        void *p = NULL;

        if (posix_memalign(&p, 64, n ? n : 1) != 0)
                exit(1);
        memset(p, 1, n);
        return p;
}

static float *floats(size_t n) {
        float *p = alloc(n * sizeof(*p));

        for (size_t i = 0; i < n; i++)
                p[i] = (float)((i * 2654435761u >> 7) % 2001) / 1000 - 1;
        return p;
}

/* One thread is timed by the CPU time it takes, so that others on the machine disturb less. */
static uint64_t work_usec(void) {
        struct timespec ts;

        clock_gettime(work_clock, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Best microseconds of one call of fn. */
static double best_usec(void (*fn)(void *arg), void *arg) {
        uint64_t end = clock_monotonic_usec() + budget_usec;
        double best = 1e300;

        fn(arg);
        do {
                uint64_t t0 = work_usec(), t1;
                unsigned n = 0;

                do {
                        fn(arg);
                        n++;
                        t1 = work_usec();
                } while (t1 - t0 < 300);
                best = (double)(t1 - t0) / n < best ? (double)(t1 - t0) / n : best;
        } while (clock_monotonic_usec() < end);
        return best;
}

struct product {
        struct kern *k;
        struct kern_mat w;
        struct kern_act a;
        const float *x;
        size_t n_tokens;
        void *scratch;
        float *y;
};

static void run_product(void *arg) {
        struct product *p = arg;

        kern_act_prepare(p->k, &p->a, kern_mat_act_class(&p->w), p->x, p->w.n_in, p->w.n_in,
                p->n_tokens, p->scratch);
        kern_matmul(p->k, &p->w, &p->a, NULL, p->y, p->w.n_out);
}

/* Of the matrix as it is in the file, or repacked. */
static void bench_layout(struct kern *k, bool repacked, uint32_t type, size_t n_in, size_t n_out) {
        static const size_t n_tokens[] = {1, 2, 4, 8, 16, 32, 128, N_TOKENS_MAX};
        float *x = floats(n_in * N_TOKENS_MAX), *f = floats(n_in);
        struct product p = {.k = k, .x = x};
        size_t row_size = quant_row_size(type, n_in);
        uint8_t *data = alloc(row_size * n_out), *other = NULL;

        for (size_t o = 0; o < n_out; o++)
                test_quantize(type, f, data + o * row_size, n_in);
        p.w = (struct kern_mat){
                .data = data, .type = type, .n_in = n_in, .n_out = n_out, .row_size = row_size};
        if (repacked) {
                other = alloc(kern_repacked_size(k, &p.w));
                kern_repack(k, &p.w, other, &p.w);
        }
        p.y = alloc(n_out * N_TOKENS_MAX * sizeof(float));
        p.scratch = alloc(kern_act_size(kern_mat_act_class(&p.w), n_in, N_TOKENS_MAX));
        printf("%-11s %-6s%c %5zux%-6zu", kern_isa_name(kern_isa(k)), quant_info(type)->name,
                repacked ? '*' : ' ', n_out, n_in);
        for (size_t i = 0; i < 8; i++) {
                double usec;

                if (kern_isa(k) == KERN_GENERIC && n_tokens[i] > 1)
                        break;
                p.n_tokens = n_tokens[i];
                usec = best_usec(run_product, &p);
                if (i == 0)
                        printf("  1: %6.2f GB/s", (double)(row_size * n_out) / usec / 1e3);
                else
                        printf("  %zu: %6.1f", n_tokens[i],
                                (double)n_in * (double)(n_out * n_tokens[i]) / usec / 1e3);
                fflush(stdout);
        }
        printf("  GMAC/s\n");
        free(p.scratch);
        free(p.y);
        free(other);
        free(data);
        free(f);
        free(x);
}

static void bench_matmul(struct kern *k, uint32_t type, size_t n_in, size_t n_out) {
        const struct kern_mat any = {.type = type, .n_in = n_in, .n_out = n_out, .row_size = 1};

        bench_layout(k, false, type, n_in, n_out);
        if (kern_repacked_size(k, &any) > 0)
                bench_layout(k, true, type, n_in, n_out);
}

struct attn {
        struct kern *k;
        struct kern_attn a;
        struct kern_attn_row *rows;
        size_t n_tokens;
        float *q, *out;
};

static void run_attn(void *arg) {
        struct attn *p = arg;
        size_t ld = (size_t)p->a.n_head * p->a.layout.head_dim_k;

        kern_attention(p->k, &p->a, p->rows, p->n_tokens, p->q, ld, p->out, ld);
}

static void bench_attention(
        struct kern *k, enum kern_kv_type type, uint32_t n_head, uint32_t n_kv, uint32_t hd) {
        size_t n_keys = kern_isa(k) == KERN_GENERIC ? 256 : 2048;
        struct kern_attn_row rows[64];
        struct attn p = {.k = k, .rows = rows};
        void *blocks[2048 / 32];
        size_t n_blocks = n_keys / 32;

        p.a = (struct kern_attn){.layout = {.type = type,
                                         .block_tokens = 32,
                                         .n_kv_head = n_kv,
                                         .head_dim_k = hd,
                                         .head_dim_v = hd},
                .n_head = n_head,
                .scale = 0.1f};
        p.a.v_offset = kern_kv_k_size(&p.a.layout);
        for (size_t i = 0; i < n_blocks; i++) {
                blocks[i] = alloc(p.a.v_offset + kern_kv_v_size(&p.a.layout));
                memset(blocks[i], 0x3c, p.a.v_offset + kern_kv_v_size(&p.a.layout));
        }
        p.q = floats((size_t)n_head * hd * 64);
        p.out = floats((size_t)n_head * hd * 64);
        for (size_t i = 0; i < 64; i++)
                rows[i] = (struct kern_attn_row){blocks, (uint32_t)(n_keys - 64 + i)};
        printf("%-11s attention %s %u/%u heads of %u, %zu keys", kern_isa_name(kern_isa(k)),
                kern_kv_name(type), n_head, n_kv, hd, n_keys);
        for (p.n_tokens = 1; p.n_tokens <= 64; p.n_tokens *= 64) {
                double usec = best_usec(run_attn, &p);
                double bytes =
                        (double)n_blocks * (double)(p.a.v_offset + kern_kv_v_size(&p.a.layout));

                printf("  %zu: %.1f us, %.2f GB/s, %.1f GMAC/s", p.n_tokens, usec,
                        bytes / usec / 1e3,
                        2. * n_head * hd * (double)(n_keys * p.n_tokens) / usec / 1e3);
        }
        printf("\n");
        for (size_t i = 0; i < n_blocks; i++)
                free(blocks[i]);
        free(p.q);
        free(p.out);
}

/* As many layers as no cache holds, one after another, as a forward call has them. */
#define SCAN_LAYERS 24
struct scan {
        struct kern *k;
        enum { SCAN_CONV, SCAN_CHANNELS, SCAN_HEADS } kind;
        struct kern_conv conv;
        struct kern_scan scan;
        struct kern_scan_rows rows;
        size_t n_state, layer; /* floats; the next layer to run */
        struct kern_run run;
};

static void run_scan(void *arg) {
        struct scan *s = arg;
        size_t offset = s->layer++ % SCAN_LAYERS * s->n_state * sizeof(float);

        s->conv.state_offset = s->scan.state_offset = offset;
        if (s->kind == SCAN_CONV)
                kern_conv(
                        s->k, &s->conv, &s->run, 1, s->rows.x, s->rows.ldx, s->rows.y, s->rows.ldy);
        else if (s->kind == SCAN_CHANNELS)
                kern_scan_channels(s->k, &s->scan, &s->run, 1, &s->rows);
        else
                kern_scan_heads(s->k, &s->scan, &s->run, 1, &s->rows);
}

/* @n_heads channels if the head size is 1; @n_state of 0: a convolution of 4 taps. */
static void bench_scan(struct kern *k, size_t n_heads, size_t dim, size_t n_state) {
        static const char *const names[] = {"conv", "scan of channels", "scan of heads"};
        size_t width = n_heads * dim, max = kern_isa(k) == KERN_GENERIC ? 1 : N_TOKENS_MAX;
        struct scan s = {.k = k,
                .kind = !n_state  ? SCAN_CONV
                        : dim > 1 ? SCAN_HEADS
                                  : SCAN_CHANNELS};
        float *x = floats(width * max), *dt = floats(n_heads * max), *y = floats(width * max);
        float *bc = floats(2 * n_state * max), *a = floats(width * (n_state + 8));

        s.n_state = s.kind == SCAN_CONV    ? 3 * width
                    : s.kind == SCAN_HEADS ? kern_scan_heads_size(n_heads, dim, n_state)
                                           : kern_scan_channels_size(n_heads, n_state);
        s.conv = (struct kern_conv){
                .n_channels = width, .n_taps = 4, .w = a, .bias = a, .silu = true};
        for (size_t i = 0; i < n_heads * max; i++)
                dt[i] = dt[i] * dt[i];
        for (size_t i = 0; s.kind != SCAN_CONV && i < width * n_state; i++)
                a[i] = -1 - a[i];
        s.scan = (struct kern_scan){n_heads, dim, n_state, 1, a, y, 0};
        s.rows = (struct kern_scan_rows){
                x, dt, bc, bc + n_state, y, width, n_heads, 2 * n_state, width};
        s.run.state = floats(s.n_state * SCAN_LAYERS);
        s.run.next = floats(s.n_state * SCAN_LAYERS);
        printf("%-11s %s, %zu x %zu, %zu entries", kern_isa_name(kern_isa(k)), names[s.kind],
                n_heads, dim, n_state);
        for (s.run.n = 1; s.run.n <= max; s.run.n *= 8) {
                double usec = best_usec(run_scan, &s);

                printf("  %zu: %.1f us,", s.run.n, usec);
                if (s.run.n == 1)
                        printf(" %.2f GB/s", 8. * (double)s.n_state / usec / 1e3);
                else
                        printf(" %.0f M/s", (double)(s.n_state * s.run.n) / usec);
                fflush(stdout);
        }
        printf("\n");
        free((void *)(uintptr_t)s.run.state);
        free(s.run.next);
        free(a);
        free(bc);
        free(y);
        free(dt);
        free(x);
}

struct vector {
        struct kern *k;
        float *x, *y;
        size_t n;
};

static void run_rmsnorm(void *arg) {
        struct vector *v = arg;

        kern_rmsnorm(v->k, v->x, v->n, v->x, 1e-5f, v->n, 1, v->y, v->n);
}

static void run_layernorm(void *arg) {
        struct vector *v = arg;

        kern_layernorm(v->k, v->x, v->n, v->x, v->x, 1e-5f, v->n, 1, v->y, v->n);
}

static void run_silu(void *arg) {
        struct vector *v = arg;

        kern_activate(v->k, KERN_SILU, v->x, v->x, v->y, v->n);
}

static void run_gelu(void *arg) {
        struct vector *v = arg;

        kern_activate(v->k, KERN_GELU, v->x, v->x, v->y, v->n);
}

static void run_oai(void *arg) {
        struct vector *v = arg;

        kern_activate(v->k, KERN_SWIGLU_OAI, v->x, v->x, v->y, v->n);
}

static void run_softplus(void *arg) {
        struct vector *v = arg;

        kern_softplus(v->k, v->x, v->n, v->x, v->n, 1, v->y, v->n);
}

static void run_xielu(void *arg) {
        struct vector *v = arg;

        kern_xielu(v->k, v->x, v->y, v->n, 0.8f, 0.8f, 0.5f, -1e-6f);
}

static void run_rope(void *arg) {
        struct vector *v = arg;

        kern_rope(v->k, v->y, v->n, v->n / 64, 64, 64, false, v->x, v->x, 1);
}

static void run_l2norm(void *arg) {
        struct vector *v = arg;

        kern_l2norm(v->k, v->y, v->n, v->n / 128, 128, 1e-6f, 1);
}

static void run_lerp(void *arg) {
        struct vector *v = arg;

        kern_lerp(v->k, v->x, v->x, v->x, v->x, v->n, 1, v->y);
}

static void run_keys(void *arg) {
        struct vector *v = arg;
        struct kern_wkv wkv = {v->n / 64, 64, 0};
        float bonus[128];
        const struct kern_wkv7_keys keys = {v->x, v->x, v->x, v->x, v->x, v->y, v->y + v->n, bonus};

        kern_wkv7_keys(v->k, &wkv, 1, &keys);
}

static void empty_task(void *arg, size_t task, unsigned thread) {
}

static void run_region(void *arg) {
        struct vector *v = arg;

        kern_run(v->k, 8, empty_task, NULL);
}

static void bench_vector(struct kern *k) {
        static const struct {
                const char *name;
                void (*fn)(void *arg);
        } kernels[] = {{"rmsnorm", run_rmsnorm}, {"layernorm", run_layernorm}, {"silu", run_silu},
                {"gelu", run_gelu}, {"swiglu_oai", run_oai}, {"xielu", run_xielu},
                {"softplus", run_softplus}, {"rope", run_rope}, {"l2norm", run_l2norm},
                {"lerp", run_lerp}, {"wkv7 keys", run_keys}};
        struct vector v = {.k = k, .n = 8192};

        v.x = floats(v.n);
        v.y = floats(2 * v.n);
        printf("%-11s", kern_isa_name(kern_isa(k)));
        for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
                printf("  %s: %.2f G/s", kernels[i].name,
                        (double)v.n / best_usec(kernels[i].fn, &v) / 1e3);
        printf("  empty region: %.2f us\n", best_usec(run_region, &v));
        free(v.x);
        free(v.y);
}

struct state {
        struct kern *k;
        struct kern_delta delta;
        struct kern_delta_rows delta_rows;
        struct kern_wkv wkv;
        struct kern_wkv_rows wkv_rows;
        struct kern_run run;
};

static void run_delta(void *arg) {
        struct state *s = arg;

        kern_delta(s->k, &s->delta, &s->run, 1, &s->delta_rows);
}

static void run_wkv6(void *arg) {
        struct state *s = arg;

        kern_wkv6(s->k, &s->wkv, &s->run, 1, &s->wkv_rows);
}

static void run_wkv7(void *arg) {
        struct state *s = arg;

        kern_wkv7(s->k, &s->wkv, &s->run, 1, &s->wkv_rows);
}

/* Recurrence: microseconds per token, one at a time (bytes of state read and written), and many. */
static void bench_state(struct kern *k) {
        static const struct {
                const char *name;
                void (*fn)(void *arg);
                size_t n_head, n_key;
        } lines[] = {{"delta", run_delta, 32, 128}, {"wkv6", run_wkv6, 64, 64},
                {"wkv7", run_wkv7, 64, 64}};

        for (size_t i = 0; i < 3; i++) {
                size_t hd = lines[i].n_key, n = lines[i].n_head * hd, size = n * hd * sizeof(float);
                float *x = floats(n * 64), *out = floats(n * 64), *beta = floats(n * 64);
                struct state s = {.k = k};

                for (size_t j = 0; j < n * 64; j++) {
                        x[j] *= 0.1f;
                        beta[j] = 0.5f;
                }
                s.delta = (struct kern_delta){
                        .n_head = lines[i].n_head, .n_key_head = lines[i].n_head / 2};
                s.delta.n_key = s.delta.n_value = hd;
                s.delta.scale = 0.1f;
                s.delta_rows = (struct kern_delta_rows){x, x, x, n, n, n, beta, beta, out, n};
                s.wkv = (struct kern_wkv){lines[i].n_head, hd, 0};
                s.wkv_rows = (struct kern_wkv_rows){x, beta, x, x, out, beta, x, beta};
                s.run = (struct kern_run){.state = alloc(size), .next = alloc(size)};
                printf("%-11s %s %zu heads of %zu", kern_isa_name(kern_isa(k)), lines[i].name,
                        lines[i].n_head, hd);
                for (s.run.n = 1; s.run.n <= 64; s.run.n *= 64) {
                        double usec = best_usec(lines[i].fn, &s) / (double)s.run.n;

                        printf("  %zu: %.1f us/token, %.1f G values/s", s.run.n, usec,
                                (double)n * (double)hd / usec / 1e3);
                        if (s.run.n == 1)
                                printf(", %.1f GB/s", 2 * (double)size / usec / 1e3);
                }
                printf("\n");
                free((void *)(uintptr_t)s.run.state);
                free(s.run.next);
                free(beta);
                free(out);
                free(x);
        }
}

/* All, or what the arguments from the third on name. */
static bool wanted(int argc, char **argv, const char *what) {
        for (int i = 3; i < argc; i++)
                if (!strcasecmp(argv[i], what))
                        return true;
        return argc <= 3;
}

int main(int argc, char **argv) {
        static const struct {
                uint32_t n_head, n_kv, dim;
        } heads[] = {
                {32, 32, 64}, {32, 8, 128}, {32, 8, 64}, {14, 2, 64}, {16, 2, 512}, {8, 4, 512}};
        /* falcon-mamba 7B, granite 4 tiny, nemotron nano 9B, and heads of an uncommon size */
        static const struct {
                size_t n_heads, dim, n_state;
        } scans[] = {{8192, 1, 0}, {8192, 1, 16}, {48, 64, 128}, {128, 80, 128}, {48, 40, 128}};
        unsigned n_threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;

        if (n_threads == 1)
                work_clock = CLOCK_PROCESS_CPUTIME_ID;
        if (argc > 2)
                budget_usec = (uint64_t)(atof(argv[2]) * 1e6);
        for (int isa = KERN_N_ISA - 1; isa >= 0; isa--) {
                struct kern *k = NULL;
                struct err e;

                if (kern_new(&k, n_threads, (enum kern_isa)isa, &e) < 0) {
                        fprintf(stderr, "%s\n", e.msg);
                        return 1;
                }
                if (kern_isa(k) == (enum kern_isa)isa) {
                        for (size_t t = 0; t < test_n_quant_types; t++)
                                if (wanted(argc, argv, quant_info(test_quant_types[t])->name))
                                        bench_matmul(
                                                k, test_quant_types[t], 2048, isa ? 8192 : 512);
                        if (wanted(argc, argv, "small")) {
                                bench_matmul(k, QUANT_Q8_0, 256, 256);
                                /* rows that end inside a group of 8 blocks: Qwen2.5-0.5B's width */
                                bench_matmul(k, QUANT_Q8_0, 896, isa ? 4864 : 512);
                                bench_matmul(k, QUANT_Q4_0, 896, isa ? 4864 : 512);
                                /* the same of blocks of 256 */
                                bench_matmul(k, QUANT_Q4_K, 512, isa ? 8192 : 512);
                                bench_matmul(k, QUANT_Q4_K, 2560, isa ? 8192 : 512);
                        }
                        for (size_t t = 0; isa && t < 4 && wanted(argc, argv, "memory"); t++) {
                                static const uint32_t types[] = {
                                        QUANT_Q4_0, QUANT_Q8_0, QUANT_Q4_K, QUANT_Q6_K};

                                bench_matmul(k, types[t], 2048, 65536);
                                bench_matmul(k, types[t], 8192, 16384);
                        }
                        for (size_t s = 0; s < 6 && wanted(argc, argv, "attention"); s++)
                                for (int t = 0; t < KERN_N_KV; t++)
                                        bench_attention(k, (enum kern_kv_type)t, heads[s].n_head,
                                                heads[s].n_kv, heads[s].dim);
                        for (size_t s = 0; s < 5 && wanted(argc, argv, "scan"); s++)
                                bench_scan(k, scans[s].n_heads, scans[s].dim, scans[s].n_state);
                        if (wanted(argc, argv, "vector"))
                                bench_vector(k);
                        if (wanted(argc, argv, "state"))
                                bench_state(k);
                }
                kern_free(k);
        }
        return 0;
}
