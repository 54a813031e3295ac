/* SPDX-License-Identifier: MIT */
/*
 * bench-kernels THREADS SECONDS [quick]: the program behind `tools/bench kernels`. Prints lines of JSON (bench.h):
 *
 *      matmul ISA TYPE IN OUT TOKENS      a call's seconds, bytes of weights, products; TYPE with '*': repacked
 *      repack ISA TYPE IN OUT             a call's seconds, bytes read and written, no products
 *      heads ISA TYPE HEADS IN OUT TOKENS                   as matmul, a matrix for each head; "-turned": transposed
 *      attention ISA TYPE HEADS KV-HEADS DIM KEYS TOKENS    the same, bytes of keys and values
 *      state ISA NAME HEADS KEY VALUE TOKENS                the same, bytes of states, read and written
 *      row ISA N TOKENS NAME              the same on one thread, rows of N values, bytes read and written; and bytes a
 *                                         second of a loop that moves as many (roof_stream())
 *      read                               bytes a second from memory
 *      copy                               bytes a second, read and written, of a plain copy from memory to memory
 *      loop ISA UNIT NAME                 products a second of a loop in registers (roof.h)
 *      alone ISA                          the same of float products on one thread
 *
 * Each figure takes about SECONDS. Weights, keys and states are those of as many layers as no cache holds, one after
 * another, as a forward call has them; rows stay in a cache. What bench-kern, for work by hand, measures of a matrix that
 * stays in the cache is something else.
 *
 * Products are what a kernel multiplies by its definition in kern.h: a multiplication, fused or not, a division (which
 * takes longer) and a root are one each, an exponential is nine. Sums, comparisons and conversions do not count: processors
 * have units of their own for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench-kernels.h"
#include "bench.h"
#include "kern/kern.h"
#include "quant/quant.h"
#include "roof.h"
#include "util/quantize.h"

#define MAX_TOKENS 256
#define HEAD_TOKENS 16
#define MAX_LOOPS 32
#define MAX_KEYS 4096
#define BLOCK_TOKENS 32

struct kernels_options kernels_options = {.seconds = 0.1, .spread = (size_t)256 << 20};

float *kernels_floats(size_t n) {
        float *p = bench_alloc(n * sizeof(*p));
        uint64_t state = 1;

        for (size_t i = 0; i < n; i++)
                p[i] = (float)(bench_random(&state) % 2001) / 1000 - 1;
        return p;
}

double kernels_best(void (*fn)(void *arg), void *arg, double seconds) {
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

void kernels_put(const char *name, double time, double bytes, double products) {
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
        const struct kern_mat first = p->w[0];
        size_t size = kern_repacked_size(p->k, &first);
        uint8_t *data = bench_alloc(size * p->n_layers);
        double best = 1e300;
        char name[128];

        for (size_t i = 0; i < p->n_layers; i++) {
                struct kern_mat from = p->w[i];
                double t0 = bench_now();

                kern_repack(p->k, &from, data + i * size, &p->w[i]);
                best = MIN(best, bench_now() - t0);
        }
        snprintf(name, sizeof(name), "repack %s %s %zu %zu", kern_isa_name(kern_isa(p->k)),
                quant_info(first.type)->name, first.n_in, first.n_out);
        kernels_put(name, best, (double)(first.row_size * first.n_out + size), 0);
        return data;
}

static void bench_layout(struct kern *k, bool repacked, uint32_t type, size_t n_in, size_t n_out) {
        static const size_t n_tokens[] = {1, 2, 4, 8, 16, 64, MAX_TOKENS};
        size_t row_size = quant_row_size(type, n_in), size = row_size * n_out;
        bool generic = kern_isa(k) == KERN_GENERIC;
        struct product p = {
                .k = k, .n_layers = generic ? 1 : MAX(kernels_options.spread / size, 1)};
        uint8_t *data = bench_alloc(size * p.n_layers);
        void *other = NULL;
        float *f = kernels_floats(n_in);

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
        p.x = kernels_floats(n_in * MAX_TOKENS);
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
                kernels_put(name, kernels_best(run_product, &p, kernels_options.seconds),
                        (double)size, (double)n_in * (double)(n_out * n_tokens[i]));
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

/* --- products with a matrix for each head --- */

struct head_product {
        struct kern *k;
        struct kern_heads w;
        const uint8_t *data; /* [n_layers] */
        size_t n_layers, layer, n_tokens;
        bool turned;
        const float *x;
        float *y;
        void *scratch;
};

static void run_heads(void *arg) {
        struct head_product *p = arg;
        struct kern_heads *w = &p->w;
        size_t in = w->first.n_in, out = w->first.n_out;

        w->first.data = p->data + p->layer++ % p->n_layers * w->n * w->stride;
        if (p->turned)
                kern_heads_matmul_turned(
                        p->k, w, p->x, w->n * out, out, p->n_tokens, p->y, w->n * in, in);
        else
                kern_heads_matmul(p->k, w, p->x, w->n * in, in, p->n_tokens, p->y, w->n * out, out,
                        p->scratch);
}

/* Those of latent attention: keys by the transposed matrix into the latent rows' space, values out of it. */
static void bench_heads(struct kern *k, uint32_t type, size_t n_head, size_t n_in, size_t n_out) {
        size_t row_size = quant_row_size(type, n_in), size = row_size * n_out * n_head;
        struct head_product p = {.k = k, .n_layers = MAX(kernels_options.spread / size, 1)};
        uint8_t *data = bench_alloc(size * p.n_layers);
        float *f = kernels_floats(n_in);

        test_quantize(type, f, data, n_in);
        for (size_t r = 1; r < n_out * n_head * p.n_layers; r++)
                memcpy(data + r * row_size, data, row_size);
        p.data = data;
        p.w = (struct kern_heads){
                .first = {.type = type, .n_in = n_in, .n_out = n_out, .row_size = row_size},
                .n = n_head,
                .stride = row_size * n_out};
        p.x = kernels_floats(n_head * MAX(n_in, n_out) * HEAD_TOKENS);
        p.y = bench_alloc(n_head * MAX(n_in, n_out) * HEAD_TOKENS * sizeof(float));
        p.scratch = bench_alloc(kern_heads_size(kern_act_class(type), n_head, n_in, HEAD_TOKENS));
        for (int turned = 0; turned < 2; turned++)
                for (p.n_tokens = 1; p.n_tokens <= HEAD_TOKENS; p.n_tokens *= HEAD_TOKENS) {
                        char name[128];

                        p.turned = turned;
                        snprintf(name, sizeof(name), "heads %s %s%s %zu %zu %zu %zu",
                                kern_isa_name(kern_isa(k)), quant_info(type)->name,
                                turned ? "-turned" : "", n_head, n_in, n_out, p.n_tokens);
                        kernels_put(name, kernels_best(run_heads, &p, kernels_options.seconds),
                                (double)size,
                                (double)(n_in * n_out) * (double)(n_head * p.n_tokens));
                }
        free(p.scratch);
        free(p.y);
        free((void *)(uintptr_t)p.x);
        free(f);
        free(data);
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
        struct attention p = {.k = k,
                .n_blocks = (generic || kernels_options.quick ? 256 : MAX_KEYS) / BLOCK_TOKENS};
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
        p.n_layers = generic ? 1 : MAX(kernels_options.spread / size, 1);
        data = bench_alloc(size * p.n_layers);
        memset(data, 0x3c, size * p.n_layers);
        p.blocks = bench_alloc(p.n_layers * p.n_blocks * sizeof(*p.blocks));
        for (size_t i = 0; i < p.n_layers * p.n_blocks; i++)
                p.blocks[i] = data + i * block;
        p.q = kernels_floats((size_t)h->n_head * h->dim_k * 64);
        p.out = kernels_floats((size_t)h->n_head * h->dim_v * 64);
        for (p.n_tokens = 1; p.n_tokens <= 64; p.n_tokens *= 8) {
                size_t n_keys = p.n_blocks * BLOCK_TOKENS;
                char name[128];

                if (generic && p.n_tokens > 1)
                        break;
                snprintf(name, sizeof(name), "attention %s %s%s %u %u %u %zu %zu",
                        kern_isa_name(kern_isa(k)), kern_kv_name(type), h->latent ? "-latent" : "",
                        h->n_head, h->n_kv, h->dim_k, n_keys, p.n_tokens);
                kernels_put(name, kernels_best(run_attention, &p, kernels_options.seconds),
                        (double)size,
                        (double)h->n_head * (h->dim_k + h->dim_v) * (double)(n_keys * p.n_tokens));
        }
        free(p.out);
        free(p.q);
        free(p.blocks);
        free(data);
}

/* --- all --- */

static void bench_set(struct kern *k) {
        /* of Llama-3.2-1B, Qwen2.5-0.5B, Gemma 3 1B, and the latent rows of DeepSeek-V2-Lite */
        static const struct heads heads[] = {{32, 8, 64, 64, false}, {14, 2, 64, 64, false},
                {4, 1, 256, 256, false}, {16, 1, 576, 512, true}};
        static const uint32_t of_heads[] = {QUANT_F16, QUANT_Q8_0, QUANT_Q4_K};
        bool quick = kernels_options.quick;
        size_t n_in = quick ? 256 : 2048, n_out = kern_isa(k) == KERN_GENERIC || quick ? 256 : 8192;

        for (size_t t = 0; t < test_n_quant_types; t += quick ? 5 : 1)
                bench_matmul(k, test_quant_types[t], n_in, n_out);
        for (size_t t = 0; t < (quick ? 1 : ARRAY_SIZE(of_heads)); t++)
                bench_heads(k, of_heads[t], 16, 512, 128); /* of DeepSeek-V2-Lite */
        for (size_t h = 0; h < (quick ? 1 : ARRAY_SIZE(heads)); h++)
                for (int t = 0; t < KERN_N_KV; t++)
                        bench_attention(k, (enum kern_kv_type)t, &heads[h]);
        kernels_states(k);
}

static struct kern *threads(unsigned n, enum kern_isa isa) {
        struct kern *k = NULL;
        struct err e;

        bench_check(kern_new(&k, n, isa, &e), &e, "threads");
        return k;
}

/* The best of all tries. Roofs are tried again beside each instruction set: on a virtual machine two processors may
 * share a core at one time, and have two at another. */
struct roofs {
        double read, copy, products[MAX_LOOPS], alone[MAX_LOOPS];
};

static void bench_roofs(struct kern *k, struct kern *alone, struct roofs *best) {
        const struct roof_stream copy = {.n_read = 1, .size = kernels_options.spread / 2};
        double s = kernels_options.seconds / 2;
        const struct roof_loop *l;

        best->read = MAX(best->read, roof_read(k, kernels_options.spread));
        best->copy = MAX(best->copy, roof_stream(k, &copy, s));
        for (size_t i = 0; i < MAX_LOOPS && (l = roof_loop(i)); i++) {
                best->products[i] = MAX(best->products[i], roof_products(k, l, s));
                if (l->unit == ROOF_MULTIPLY)
                        best->alone[i] = MAX(best->alone[i], roof_products(alone, l, s));
        }
}

static void put_roofs(const struct roofs *best) {
        static const char *const units[ROOF_N_UNITS] = {"narrow", "wide", "dot", "multiply"};
        const struct roof_loop *l;

        bench_put1("read", best->read);
        bench_put1("copy", best->copy);
        for (size_t i = 0; i < MAX_LOOPS && (l = roof_loop(i)); i++) {
                char name[128];

                snprintf(name, sizeof(name), "loop %s %s %s", l->isa, units[l->unit], l->name);
                bench_put1(name, best->products[i]);
                if (best->alone[i] == 0)
                        continue;
                snprintf(name, sizeof(name), "alone %s", l->isa);
                bench_put1(name, best->alone[i]);
        }
}

int main(int argc, char **argv) {
        struct roofs roofs = {0};
        unsigned n_threads;

        if (argc != 3 && (argc != 4 || strcmp(argv[3], "quick") != 0)) {
                fputs("usage: bench-kernels THREADS SECONDS [quick]\n", stderr);
                return 2;
        }
        n_threads = (unsigned)bench_number(argv[1]);
        kernels_options.seconds = atof(argv[2]);
        kernels_options.quick = argc == 4;
        if (kernels_options.quick)
                kernels_options.spread = (size_t)1 << 20;
        for (int isa = 0; isa < KERN_N_ISA; isa++) {
                struct kern *k = threads(n_threads, (enum kern_isa)isa);
                struct kern *alone = threads(1, (enum kern_isa)isa);

                if (kern_isa(k) == (enum kern_isa)isa) {
                        bench_note("kernels: %s", kern_isa_name(kern_isa(k)));
                        bench_roofs(k, alone, &roofs);
                        bench_set(k);
                        kernels_rows(alone);
                        bench_roofs(k, alone, &roofs);
                }
                kern_free(alone);
                kern_free(k);
        }
        put_roofs(&roofs);
        return 0;
}
