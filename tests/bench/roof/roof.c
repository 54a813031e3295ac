/* SPDX-License-Identifier: MIT */
#include "roof.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdint.h>
#include <stdlib.h>

#include "bench.h"
#include "kern/kern.h"
#include "roof-isa.h"

#define READ_TASKS 64
#define READ_REPEAT 3
#define MIN_SECONDS 0.001 /* of one try of a loop: its start and end do not count then */

/* --- which loops there are --- */

#ifdef __x86_64__
static bool has_avx2(void) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
}
#if ROOF_HAVE_AVX_VNNI
static bool has_avx_vnni(void) {
        unsigned a, b, c, d;

        /* clang 14 has no name for it */
        return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}
#endif
static bool has_avx512_vnni(void) {
        return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

static const struct {
        bool (*here)(void);
        const struct roof_loop *loops;
} sets[] = {
#ifdef __x86_64__
        {has_avx2, roof_avx2},
#if ROOF_HAVE_AVX_VNNI
        {has_avx_vnni, roof_avx_vnni},
#endif
        {has_avx512, roof_avx512},
        {has_avx512_vnni, roof_avx512_vnni},
#endif
        {NULL, NULL},
};

const struct roof_loop *roof_loop(size_t i) {
        for (size_t s = 0; sets[s].here; s++)
                for (const struct roof_loop *l = sets[s].loops; sets[s].here() && l->name; l++)
                        if (i-- == 0)
                                return l;
        return NULL;
}

/* --- measuring --- */

struct loop_task {
        const struct roof_loop *loop;
        size_t n_rounds;
};

static void run_loop(void *arg, size_t task, unsigned thread) {
        const struct loop_task *t = arg;

        t->loop->run(t->n_rounds);
}

double roof_products(struct kern *k, const struct roof_loop *loop, double seconds) {
        struct loop_task t = {loop, 1000};
        double end = bench_now() + seconds, best = 0;

        do {
                double t0 = bench_now(), rate;

                kern_run(k, kern_n_threads(k), run_loop, &t);
                t0 = bench_now() - t0;
                if (t0 < MIN_SECONDS) {
                        t.n_rounds *= 2;
                        continue;
                }
                rate = loop->n_products * (double)t.n_rounds * kern_n_threads(k) / t0;
                best = rate > best ? rate : best;
        } while (best == 0 || bench_now() < end);
        return best;
}

struct reading {
        const uint8_t *data;
        size_t size; /* of one task */
};

static volatile uint64_t sink;

static void read_part(void *arg, size_t task, unsigned thread) {
        typedef uint64_t vector __attribute__((vector_size(64)));
        const struct reading *r = arg;
        const vector *p = (const vector *)(r->data + task * r->size);
        vector a = {0}, b = {0};

        for (size_t i = 0; i < r->size / sizeof(*p); i += 2) {
                a ^= p[i];
                b ^= p[i + 1];
        }
        a ^= b;
        sink = a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}

double roof_read(struct kern *k, size_t size) {
        static uint8_t *memory;
        static size_t memory_size;
        struct reading r;
        double best = 0;

        if (size != memory_size) {
                free(memory);
                memory = bench_alloc(size);
                memory_size = size;
        }
        r = (struct reading){memory, size / READ_TASKS / 128 * 128};
        for (int i = 0; i < READ_REPEAT; i++) {
                double t0 = bench_now(), rate;

                kern_run(k, READ_TASKS, read_part, &r);
                rate = (double)(r.size * READ_TASKS) / (bench_now() - t0);
                best = rate > best ? rate : best;
        }
        return best;
}
