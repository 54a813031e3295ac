/* SPDX-License-Identifier: MIT */
#include "roof.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"
#include "kern/kern.h"
#include "roof-isa.h"
#include "roof-stream.h"

#define READ_TASKS 64
#define READ_REPEAT 3
#define MIN_SECONDS 0.001 /* of one try of a loop: its start and end do not count then */
/* Between two arrays, so that they do not stand at the same place of every page. */
#define STREAM_GAP ((size_t)17 * 64)

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
        roof_stream_fn *stream;
} sets[] = {
#ifdef __x86_64__
        {has_avx2, roof_avx2, roof_avx2_stream},
#if ROOF_HAVE_AVX_VNNI
        {has_avx_vnni, roof_avx_vnni, roof_avx_vnni_stream},
#endif
        {has_avx512, roof_avx512, roof_avx512_stream},
        {has_avx512_vnni, roof_avx512_vnni, roof_avx512_vnni_stream},
#endif
        {NULL, NULL, NULL},
};

const struct roof_loop *roof_loop(size_t i) {
        for (size_t s = 0; sets[s].here; s++)
                for (const struct roof_loop *l = sets[s].loops; sets[s].here() && l->name; l++)
                        if (i-- == 0)
                                return l;
        return NULL;
}

/* The loop of the same instruction set, or what any CPU of the architecture has. */
static roof_stream_fn *stream_fn(enum kern_isa isa) {
        for (size_t s = 0; sets[s].here; s++)
                if (strcmp(sets[s].loops->isa, kern_isa_name(isa)) == 0)
                        return sets[s].stream;
        return stream;
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

struct streaming {
        roof_stream_fn *fn;
        const uint8_t *x[ROOF_STREAM_READS];
        uint8_t *y;
        unsigned n;
        size_t size; /* of one task */
        uint64_t flip;
};

static void stream_part(void *arg, size_t task, unsigned thread) {
        const struct streaming *s = arg;
        const void *x[ROOF_STREAM_READS] = {NULL};

        for (unsigned i = 0; i < s->n; i++)
                x[i] = s->x[i] + task * s->size;
        s->fn(s->n, x, s->y + task * s->size, s->size, s->flip);
}

double roof_stream(struct kern *k, const struct roof_stream *s, double seconds) {
        size_t n_tasks = kern_n_threads(k) > 1 ? READ_TASKS : 1;
        struct streaming job = {.fn = stream_fn(kern_isa(k)), .n = s->n_read};
        double end, best = 0;
        uint8_t *memory;
        size_t step;

        job.size = align_up(MAX(s->size / n_tasks, (size_t)1), 64);
        step = job.size * n_tasks + STREAM_GAP;
        memory = bench_alloc(step * (s->n_read + 1));
        for (unsigned i = 0; i < job.n; i++)
                job.x[i] = memory + i * step;
        job.y = memory + (s->in_place ? 0 : job.n * step);
        kern_run(k, n_tasks, stream_part, &job);
        end = bench_now() + seconds;
        do {
                double t0 = bench_now(), t, rate;
                unsigned n = 0;

                do {
                        kern_run(k, n_tasks, stream_part, &job);
                        n++;
                        t = bench_now() - t0;
                } while (t < MIN_SECONDS);
                rate = (double)(job.size * n_tasks) * (job.n + 1) * n / t;
                best = rate > best ? rate : best;
        } while (bench_now() < end);
        free(memory);
        return best;
}
