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
#define TASKS_PER_THREAD 6

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

enum kern_act_class kern_mat_act_class(const struct kern_mat *w) {
        return w->repacked ? KERN_ACT_Q8_REPACKED : kern_act_class(w->type);
}

/* Bytes of one token, rounded. */
static size_t act_row_size(enum kern_act_class act_class, size_t n_in) {
        switch (act_class) {
        case KERN_ACT_Q8:
        case KERN_ACT_Q8_REPACKED:
                return kern_act_n_blocks8(n_in) * KERN_ACT_BLOCK_SIZE;
        case KERN_ACT_Q8K:
                return kern_act_super_size(n_in);
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
        kern_matmul_fn *fn;
        const struct kern_mat *w;
        const struct kern_act *a;
        const float *bias;
        float *y;
        size_t ldy;
        size_t n_rows; /* per task */
};

/* What all tasks of a product read, and the rows that this one writes. */
static void tell_tsan(const struct matmul_job *j, size_t row0, size_t row1) {
        const struct kern_act *a = j->a;

        if (a->quantised)
                kern_tsan_reads(
                        a->quantised, align_up(a->n_tokens, KERN_ACT_UNIT) * a->quantised_row_size);
        for (size_t t = 0; t < a->n_tokens; t++) {
                if (!a->quantised)
                        kern_tsan_reads(a->x + t * a->ldx, a->n_in * sizeof(float));
                kern_tsan_writes(j->y + t * j->ldy + row0, (row1 - row0) * sizeof(float));
        }
}

static void matmul_task(void *arg, size_t task, unsigned thread) {
        struct matmul_job *j = arg;
        size_t row0 = task * j->n_rows, row1 = MIN(row0 + j->n_rows, j->w->n_out);

        tell_tsan(j, row0, row1);
        j->fn(j->w, j->a, row0, row1, j->y, j->ldy);
        if (!j->bias)
                return;
        for (size_t t = 0; t < j->a->n_tokens; t++)
                for (size_t o = row0; o < row1; o++)
                        j->y[t * j->ldy + o] += j->bias[o];
}

void kern_matmul(struct kern *k, const struct kern_mat *w, const struct kern_act *a,
        const float *bias, float *y, size_t ldy) {
        kern_matmul_fn *fn = w->repacked ? k->ops.matmul_repacked[w->type] : k->ops.matmul[w->type];
        struct matmul_job job = {fn, w, a, bias, y, ldy, w->n_out};
        size_t n_threads = kern_n_threads(k);

        assert(fn && a->act_class == kern_mat_act_class(w) && a->n_in == w->n_in);
        if (w->n_out == 0 || a->n_tokens == 0)
                return;
        if (n_threads > 1 && w->n_in * a->n_tokens >= PARALLEL_MIN / w->n_out)
                job.n_rows = align_up(
                        MAX(w->n_out / (n_threads * TASKS_PER_THREAD), (size_t)1), ROW_STEP);
        kern_run(k, (w->n_out + job.n_rows - 1) / job.n_rows, matmul_task, &job);
}
