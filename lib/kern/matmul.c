/* SPDX-License-Identifier: MIT */
/* Matrix products: which kernel, and how the rows are dealt to threads. */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "kern/kern-tsan.h"
#include "base/util.h"
#include "quant/quant.h"
#include <assert.h>

/* Below this many multiplications waking a thread costs more than it brings. */
#define PARALLEL_MIN (96 * 1024)
/* Rows are dealt in multiples of this: no instruction set has larger tiles. */
#define ROW_STEP 32
#define TASKS_PER_THREAD 4

/* The types that have kernels. The generic ones cover all of them. */
static const struct {
        bool supported;
        enum kern_act_class act_class;
} types[QUANT_N_TYPES] = {
        [QUANT_F32] = {true, KERN_ACT_FLOAT},
        [QUANT_F16] = {true, KERN_ACT_FLOAT},
        [QUANT_BF16] = {true, KERN_ACT_FLOAT},
        [QUANT_Q4_0] = {true, KERN_ACT_Q8},
        [QUANT_Q4_1] = {true, KERN_ACT_Q8},
        [QUANT_Q5_0] = {true, KERN_ACT_Q8},
        [QUANT_Q5_1] = {true, KERN_ACT_Q8},
        [QUANT_Q8_0] = {true, KERN_ACT_Q8},
        [QUANT_IQ4_NL] = {true, KERN_ACT_Q8},
        [QUANT_MXFP4] = {true, KERN_ACT_Q8},
        [QUANT_Q2_K] = {true, KERN_ACT_Q8K},
        [QUANT_Q3_K] = {true, KERN_ACT_Q8K},
        [QUANT_Q4_K] = {true, KERN_ACT_Q8K},
        [QUANT_Q5_K] = {true, KERN_ACT_Q8K},
        [QUANT_Q6_K] = {true, KERN_ACT_Q8K},
        [QUANT_IQ4_XS] = {true, KERN_ACT_Q8K},
};

bool kern_mat_supported(uint32_t type) {
        return type < QUANT_N_TYPES && types[type].supported;
}

enum kern_act_class kern_act_class(uint32_t type) {
        assert(kern_mat_supported(type));
        return types[type].act_class;
}

enum kern_act_class kern_repacked_act_class(uint32_t type) {
        static const enum kern_act_class repacked[KERN_N_ACT] = {
                [KERN_ACT_FLOAT] = KERN_ACT_FLOAT,
                [KERN_ACT_Q8] = KERN_ACT_Q8_REPACKED,
                [KERN_ACT_Q8K] = KERN_ACT_Q8K_REPACKED,
        };

        return repacked[kern_act_class(type)];
}

enum kern_act_class kern_mat_act_class(const struct kern_mat *w) {
        return w->repacked ? kern_repacked_act_class(w->type) : kern_act_class(w->type);
}

/* Bytes of one token, rounded. */
static size_t act_row_size(enum kern_act_class act_class, size_t n_in) {
        switch (act_class) {
        case KERN_ACT_Q8:
        case KERN_ACT_Q8_REPACKED:
                return kern_act_n_blocks8(n_in) * KERN_ACT_BLOCK_SIZE;
        case KERN_ACT_Q8K:
                return kern_act_super_size(n_in);
        case KERN_ACT_Q8K_REPACKED:
                return n_in / KERN_ACT_SUPER * KERN_ACT_REPACKED_SUPER_SIZE;
        default:
                return 0;
        }
}

size_t kern_act_size(enum kern_act_class act_class, size_t n_in, size_t n_tokens) {
        return align_up(n_tokens, KERN_ACT_UNIT) * act_row_size(act_class, n_in);
}

struct act_job {
        const struct kern *k;
        const struct kern_act *a;
        uint8_t *scratch;
};

static void act_task(void *arg, size_t task, unsigned thread) {
        struct act_job *j = arg;
        size_t unit_size = KERN_ACT_UNIT * j->a->quantised_row_size;
        uint8_t *unit = j->scratch + task * unit_size;

        for (size_t t = task * KERN_ACT_UNIT; t < MIN((task + 1) * KERN_ACT_UNIT, j->a->n_tokens);
                t++)
                kern_tsan_reads(j->a->x + t * j->a->ldx, j->a->n_in * sizeof(float));
        kern_tsan_writes(unit, unit_size);
        j->k->ops.act_round[j->a->act_class](j->a, task, unit);
}

void kern_act_prepare(struct kern *k, struct kern_act *a, enum kern_act_class act_class,
        const float *x, size_t ldx, size_t n_in, size_t n_tokens, void *scratch) {
        struct act_job job = {k, a, scratch};
        size_t n_units = align_up(n_tokens, KERN_ACT_UNIT) / KERN_ACT_UNIT;

        *a = (struct kern_act){
                .x = x, .n_tokens = n_tokens, .n_in = n_in, .ldx = ldx, .act_class = act_class};
        if (act_class == KERN_ACT_FLOAT)
                return;
        a->quantised = scratch;
        a->quantised_row_size = act_row_size(act_class, n_in);
        kern_run(k, n_units, act_task, &job);
}

struct matmul_job {
        const struct kern *k;
        const struct kern_act *a;
        const struct kern_product *p;
        size_t n;
        size_t first[KERN_PRODUCTS_MAX + 1]; /* task of each product; behind the last: of all */
};

/* What all tasks of a product read, and the rows that this one writes. */
static void tell_tsan(
        const struct kern_act *a, const struct kern_product *p, size_t row0, size_t row1) {
        if (a->quantised)
                kern_tsan_reads(
                        a->quantised, align_up(a->n_tokens, KERN_ACT_UNIT) * a->quantised_row_size);
        for (size_t t = 0; t < a->n_tokens; t++) {
                if (!a->quantised)
                        kern_tsan_reads(a->x + t * a->ldx, a->n_in * sizeof(float));
                kern_tsan_writes(p->y + t * p->ldy + row0, (row1 - row0) * sizeof(float));
        }
}

static kern_matmul_fn *matmul_fn(const struct kern *k, const struct kern_mat *w) {
        return w->repacked ? k->ops.matmul_repacked[w->type] : k->ops.matmul[w->type];
}

static size_t n_steps(const struct kern_mat *w) {
        return (w->n_out + ROW_STEP - 1) / ROW_STEP;
}

/* The first row of one of n_tasks tasks, which have equally many steps, or one more: threads with equally many of
 * them end together. */
static size_t first_row(const struct kern_mat *w, size_t task, size_t n_tasks) {
        return MIN(task * n_steps(w) / n_tasks * ROW_STEP, w->n_out);
}

static void matmul_task(void *arg, size_t task, unsigned thread) {
        struct matmul_job *j = arg;
        const struct kern_product *p;
        size_t i = j->n - 1, n_tasks, row0, row1;

        while (task < j->first[i])
                i--;
        p = &j->p[i];
        n_tasks = j->first[i + 1] - j->first[i];
        row0 = first_row(p->w, task - j->first[i], n_tasks);
        row1 = first_row(p->w, task - j->first[i] + 1, n_tasks);
        tell_tsan(j->a, p, row0, row1);
        matmul_fn(j->k, p->w)(p->w, j->a, row0, row1, p->y, p->ldy);
        if (!p->bias)
                return;
        for (size_t t = 0; t < j->a->n_tokens; t++)
                for (size_t o = row0; o < row1; o++)
                        p->y[t * p->ldy + o] += p->bias[o];
}

void kern_matmul_all(
        struct kern *k, const struct kern_act *a, const struct kern_product *p, size_t n) {
        struct matmul_job job = {.k = k, .a = a, .p = p, .n = n};
        size_t n_threads = kern_n_threads(k), n_out = 0, steps = 0;
        bool parallel;

        assert(n <= KERN_PRODUCTS_MAX);
        for (size_t i = 0; i < n; i++) {
                assert(a->act_class == kern_mat_act_class(p[i].w) && a->n_in == p[i].w->n_in);
                n_out += p[i].w->n_out;
                steps += n_steps(p[i].w);
        }
        if (n_out == 0 || a->n_tokens == 0)
                return;
        parallel = n_threads > 1 && a->n_in * a->n_tokens >= PARALLEL_MIN / n_out;
        for (size_t i = 0; i < n; i++) {
                size_t own = n_steps(p[i].w), n_tasks = 1;

                /* its part of all tasks, to the nearest */
                if (parallel)
                        n_tasks = (n_threads * TASKS_PER_THREAD * own + steps / 2) / steps;
                /* each has rows */
                job.first[i + 1] = job.first[i] + MIN(MAX(n_tasks, (size_t)1), own);
        }
        if (parallel)
                kern_run(k, job.first[n], matmul_task, &job);
        else
                for (size_t i = 0; i < job.first[n]; i++)
                        matmul_task(&job, i, 0);
}

void kern_matmul(struct kern *k, const struct kern_mat *w, const struct kern_act *a,
        const float *bias, float *y, size_t ldy) {
        kern_matmul_all(k, a, &(struct kern_product){w, bias, y, ldy}, 1);
}
