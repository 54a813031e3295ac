/* SPDX-License-Identifier: MIT */
/*
 * bench-kernels THREADS SECONDS [quick]: the program behind `tools/bench kernels`. Prints lines of JSON (bench.h):
 *
 *      read                               bytes a second from memory
 *      loop ISA UNIT NAME                 products a second of a loop in registers (roof.h)
 *      matmul ISA TYPE IN OUT TOKENS      a call's seconds, bytes of weights, products; TYPE with '*': repacked
 *      attention ISA TYPE HEADS KV-HEADS DIM KEYS TOKENS    the same, bytes of keys and values
 *
 * Each figure takes about SECONDS. Weights and keys are those of as many layers as no cache holds, one after another, as a
 * forward call has them. What bench-kern, for work by hand, measures of a matrix that stays in the cache is something else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"
#include "kern/kern.h"
#include "quant/quant.h"
#include "roof.h"
#include "util/quantize.h"

#define MAX_TOKENS 256
#define MAX_KEYS 4096
#define BLOCK_TOKENS 32

static double seconds = 0.1;
static size_t spread = (size_t)256 << 20; /* bytes of all layers together */
static bool quick;

static float *floats(size_t n) {
        float *p = bench_alloc(n * sizeof(*p));
        uint64_t state = 1;

        for (size_t i = 0; i < n; i++)
                p[i] = (float)(bench_random(&state) % 2001) / 1000 - 1;
        return p;
}

/* The best time of a call. Calls of microseconds are timed together. */
static double best_call(void (*fn)(void *arg), void *arg) {
        double end = bench_now() + seconds, best = 1e300;

        fn(arg);
        do {
                double t0 = bench_now(), t;
                unsigned n = 0;

                do {
                        fn(arg);
                        n++;
                        t = bench_now() - t0;
                } while (t < 300e-6);
                best = MIN(best, t / n);
        } while (bench_now() < end);
        return best;
}

static void put(const char *name, double time, double bytes, double products) {
        const double values[] = {time, bytes, products};

        bench_put(name, values, 3);
}

/* --- products --- */

struct product {
        struct kern *k;
        struct kern_mat *w; /* [n_layers] */
        size_t n_layers, layer;
        struct kern_act a;
        const float *x;
        size_t n_tokens;
        void *scratch;
        float *y;
};

static void run_product(void *arg) {
        struct product *p = arg;
        const struct kern_mat *w = &p->w[p->layer++ % p->n_layers];

        kern_act_prepare(p->k, &p->a, kern_mat_act_class(w), p->x, w->n_in, w->n_in, p->n_tokens,
                p->scratch);
        kern_matmul(p->k, w, &p->a, NULL, p->y, w->n_out);
}

/* The matrices of all layers, repacked; the memory that they are in. */
static void *repack(struct product *p) {
        size_t size = kern_repacked_size(p->k, &p->w[0]);
        uint8_t *data = bench_alloc(size * p->n_layers);

        for (size_t i = 0; i < p->n_layers; i++) {
                struct kern_mat from = p->w[i];

                kern_repack(p->k, &from, data + i * size, &p->w[i]);
        }
        return data;
}

static void bench_layout(struct kern *k, bool repacked, uint32_t type, size_t n_in, size_t n_out) {
        static const size_t n_tokens[] = {1, 2, 4, 8, 16, 64, MAX_TOKENS};
        size_t row_size = quant_row_size(type, n_in), size = row_size * n_out;
        bool generic = kern_isa(k) == KERN_GENERIC;
        struct product p = {.k = k, .n_layers = generic ? 1 : MAX(spread / size, 1)};
        uint8_t *data = bench_alloc(size * p.n_layers);
        void *other = NULL;
        float *f = floats(n_in);

        test_quantize(type, f, data, n_in);
        for (size_t r = 1; r < n_out * p.n_layers; r++)
                memcpy(data + r * row_size, data, row_size);
        p.w = bench_alloc(p.n_layers * sizeof(*p.w));
        for (size_t i = 0; i < p.n_layers; i++)
                p.w[i] = (struct kern_mat){.data = data + i * size,
                        .type = type,
                        .n_in = n_in,
                        .n_out = n_out,
                        .row_size = row_size};
        if (repacked)
                other = repack(&p);
        p.x = floats(n_in * MAX_TOKENS);
        p.y = bench_alloc(n_out * MAX_TOKENS * sizeof(float));
        p.scratch = bench_alloc(kern_act_size(kern_mat_act_class(&p.w[0]), n_in, MAX_TOKENS));
        for (size_t i = 0; i < ARRAY_SIZE(n_tokens); i++) {
                char name[128];

                if (generic && n_tokens[i] > 1 && n_tokens[i] != 16)
                        continue;
                p.n_tokens = n_tokens[i];
                snprintf(name, sizeof(name), "matmul %s %s%s %zu %zu %zu",
                        kern_isa_name(kern_isa(k)), quant_info(type)->name, repacked ? "*" : "",
                        n_in, n_out, n_tokens[i]);
                put(name, best_call(run_product, &p), (double)size,
                        (double)n_in * (double)(n_out * n_tokens[i]));
        }
        free(p.scratch);
        free(p.y);
        free((void *)(uintptr_t)p.x);
        free(p.w);
        free(f);
        free(other);
        free(data);
}

static void bench_matmul(struct kern *k, uint32_t type, size_t n_in, size_t n_out) {
        const struct kern_mat any = {.type = type, .n_in = n_in, .n_out = n_out, .row_size = 1};

        bench_layout(k, false, type, n_in, n_out);
        if (kern_repacked_size(k, &any) > 0)
                bench_layout(k, true, type, n_in, n_out);
}

/* --- attention --- */

struct attention {
        struct kern *k;
        struct kern_attn a;
        struct kern_attn_row rows[64];
        void **blocks; /* [n_layers][n_blocks] */
        size_t n_layers, n_blocks, layer, n_tokens;
        float *q, *out;
};

static void run_attention(void *arg) {
        struct attention *p = arg;
        const struct kern_kv_layout *l = &p->a.layout;
        void **blocks = p->blocks + p->layer++ % p->n_layers * p->n_blocks;

        for (size_t i = 0; i < p->n_tokens; i++)
                p->rows[i] = (struct kern_attn_row){
                        blocks, (uint32_t)(p->n_blocks * BLOCK_TOKENS - p->n_tokens + i)};
        kern_attention(p->k, &p->a, p->rows, p->n_tokens, p->q, (size_t)p->a.n_head * l->head_dim_k,
                p->out, (size_t)p->a.n_head * l->head_dim_v);
}

struct heads {
        uint32_t n_head, n_kv, dim_k, dim_v;
        bool latent;
};

static void bench_attention(struct kern *k, enum kern_kv_type type, const struct heads *h) {
        bool generic = kern_isa(k) == KERN_GENERIC;
        struct attention p = {
                .k = k, .n_blocks = (generic || quick ? 256 : MAX_KEYS) / BLOCK_TOKENS};
        size_t size, block;
        uint8_t *data;

        p.a = (struct kern_attn){.layout = {.type = type,
                                         .block_tokens = BLOCK_TOKENS,
                                         .n_kv_head = h->n_kv,
                                         .head_dim_k = h->dim_k,
                                         .head_dim_v = h->dim_v,
                                         .latent = h->latent},
                .n_head = h->n_head,
                .scale = 0.1f};
        p.a.v_offset = kern_kv_k_size(&p.a.layout);
        block = (p.a.v_offset + kern_kv_v_size(&p.a.layout) + 63) / 64 * 64;
        size = block * p.n_blocks;
        p.n_layers = generic ? 1 : MAX(spread / size, 1);
        data = bench_alloc(size * p.n_layers);
        memset(data, 0x3c, size * p.n_layers);
        p.blocks = bench_alloc(p.n_layers * p.n_blocks * sizeof(*p.blocks));
        for (size_t i = 0; i < p.n_layers * p.n_blocks; i++)
                p.blocks[i] = data + i * block;
        p.q = floats((size_t)h->n_head * h->dim_k * 64);
        p.out = floats((size_t)h->n_head * h->dim_v * 64);
        for (p.n_tokens = 1; p.n_tokens <= 64; p.n_tokens *= 8) {
                size_t n_keys = p.n_blocks * BLOCK_TOKENS;
                char name[128];

                if (generic && p.n_tokens > 1)
                        break;
                snprintf(name, sizeof(name), "attention %s %s%s %u %u %u %zu %zu",
                        kern_isa_name(kern_isa(k)), kern_kv_name(type), h->latent ? "-latent" : "",
                        h->n_head, h->n_kv, h->dim_k, n_keys, p.n_tokens);
                put(name, best_call(run_attention, &p), (double)size,
                        (double)h->n_head * (h->dim_k + h->dim_v) * (double)(n_keys * p.n_tokens));
        }
        free(p.out);
        free(p.q);
        free(p.blocks);
        free(data);
}

/* --- all --- */

static void bench_isa(struct kern *k) {
        /* of Llama-3.2-1B, Qwen2.5-0.5B, Gemma 3 1B, and the latent rows of DeepSeek-V2-Lite */
        static const struct heads heads[] = {{32, 8, 64, 64, false}, {14, 2, 64, 64, false},
                {4, 1, 256, 256, false}, {16, 1, 576, 512, true}};
        size_t n_in = quick ? 256 : 2048, n_out = kern_isa(k) == KERN_GENERIC || quick ? 256 : 8192;

        for (size_t t = 0; t < test_n_quant_types; t += quick ? 5 : 1)
                bench_matmul(k, test_quant_types[t], n_in, n_out);
        for (size_t h = 0; h < (quick ? 1 : ARRAY_SIZE(heads)); h++)
                for (int t = 0; t < KERN_N_KV; t++)
                        bench_attention(k, (enum kern_kv_type)t, &heads[h]);
}

static struct kern *threads(unsigned n, enum kern_isa isa) {
        struct kern *k = NULL;
        struct err e;

        bench_check(kern_new(&k, n, isa, &e), &e, "threads");
        return k;
}

static void bench_roofs(unsigned n_threads) {
        struct kern *k = threads(n_threads, KERN_N_ISA);
        static const char *const units[ROOF_N_UNITS] = {"narrow", "wide", "dot", "multiply"};
        const struct roof_loop *l;

        bench_put1("read", roof_read(k, spread));
        for (size_t i = 0; (l = roof_loop(i)); i++) {
                char name[128];

                snprintf(name, sizeof(name), "loop %s %s %s", l->isa, units[l->unit], l->name);
                bench_put1(name, roof_products(k, l, seconds));
        }
        kern_free(k);
}

int main(int argc, char **argv) {
        unsigned n_threads;

        if (argc != 3 && (argc != 4 || strcmp(argv[3], "quick") != 0)) {
                fputs("usage: bench-kernels THREADS SECONDS [quick]\n", stderr);
                return 2;
        }
        n_threads = (unsigned)bench_number(argv[1]);
        seconds = atof(argv[2]);
        quick = argc == 4;
        if (quick)
                spread = (size_t)1 << 20;
        bench_roofs(n_threads);
        for (int isa = 0; isa < KERN_N_ISA; isa++) {
                struct kern *k = threads(n_threads, (enum kern_isa)isa);

                if (kern_isa(k) == (enum kern_isa)isa) {
                        bench_note("kernels: %s", kern_isa_name(kern_isa(k)));
                        bench_isa(k);
                }
                kern_free(k);
        }
        return 0;
}
