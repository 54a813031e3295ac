/* SPDX-License-Identifier: MIT */
/* Products with one matrix for each head. The matrices are small: all of them are one piece of work, not
 * each. */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "kern/kern-tsan.h"
#include "base/util.h"
#include "quant/quant.h"
#include <string.h>

/* Rows are dealt in multiples of this: no instruction set has larger tiles. */
#define ROW_STEP 16
#define TASKS_PER_THREAD 6
/* Multiplications of a product that take as long as one element elsewhere. */
#define PRODUCT_GAIN 6
/* Values of a row that are taken apart at a time; a multiple of every type's block. */
#define PIECE 256

struct heads_job {
        const struct kern *k;
        const struct kern_heads *w;
        const float *x;
        float *y;
        size_t ldx, step_x, n_tokens, ldy, step_y;
        enum kern_act_class act_class;
        uint8_t *scratch;
        size_t act_size; /* of one head */
        size_t row_size; /* of one token, rounded */
        size_t n_units, n_rows, n_row_tasks, n_pieces;
};

size_t kern_heads_size(
        enum kern_act_class act_class, size_t n_heads, size_t n_in, size_t n_tokens) {
        return n_heads * align_up(kern_act_size(act_class, n_in, n_tokens), 64);
}

static struct kern_act head_act(const struct heads_job *j, size_t head) {
        return (struct kern_act){.x = j->x + head * j->step_x,
                .n_tokens = j->n_tokens,
                .n_in = j->w->first.n_in,
                .ldx = j->ldx,
                .act_class = j->act_class,
                .quantised = j->scratch ? j->scratch + head * j->act_size : NULL,
                .quantised_row_size = j->row_size};
}

static struct kern_mat head_mat(const struct heads_job *j, size_t head) {
        struct kern_mat m = j->w->first;

        m.data = (const uint8_t *)m.data + head * j->w->stride;
        return m;
}

static void round_task(void *arg, size_t task, unsigned thread) {
        const struct heads_job *j = arg;
        size_t head = task / j->n_units, unit = task % j->n_units;
        struct kern_act a = head_act(j, head);
        uint8_t *to = j->scratch + head * j->act_size + unit * KERN_ACT_UNIT * j->row_size;

        for (size_t t = unit * KERN_ACT_UNIT; t < MIN((unit + 1) * KERN_ACT_UNIT, j->n_tokens); t++)
                kern_tsan_reads(a.x + t * a.ldx, a.n_in * sizeof(float));
        kern_tsan_writes(to, KERN_ACT_UNIT * j->row_size);
        j->k->ops.act_round[j->act_class](&a, unit, to);
}

/* Below a task's worth of elements waking a thread costs more than it brings. */
static void run_or_do(struct kern *k, size_t n_tasks, size_t n_elements,
        void (*fn)(void *arg, size_t task, unsigned thread), void *arg) {
        if (n_elements >= KERN_GRAIN)
                kern_run(k, n_tasks, fn, arg);
        else
                for (size_t i = 0; i < n_tasks; i++)
                        fn(arg, i, 0);
}

static void product_task(void *arg, size_t task, unsigned thread) {
        const struct heads_job *j = arg;
        size_t head = task / j->n_row_tasks, row0 = task % j->n_row_tasks * j->n_rows;
        struct kern_act a = head_act(j, head);
        struct kern_mat m = head_mat(j, head);
        size_t row1 = MIN(row0 + j->n_rows, m.n_out);
        float *y = j->y + head * j->step_y;

        if (a.quantised)
                kern_tsan_reads(a.quantised, j->act_size);
        for (size_t t = 0; t < j->n_tokens; t++) {
                if (!a.quantised)
                        kern_tsan_reads(a.x + t * a.ldx, a.n_in * sizeof(float));
                kern_tsan_writes(y + t * j->ldy + row0, (row1 - row0) * sizeof(float));
        }
        j->k->ops.matmul[m.type](&m, &a, row0, row1, y, j->ldy);
}

void kern_heads_matmul(struct kern *k, const struct kern_heads *w, const float *x, size_t ldx,
        size_t step_x, size_t n_tokens, float *y, size_t ldy, size_t step_y, void *scratch) {
        struct heads_job j = {.k = k, .w = w, .x = x, .y = y, .ldx = ldx, .step_x = step_x};
        size_t n_out = w->first.n_out, want = kern_n_threads(k) * TASKS_PER_THREAD;

        if (!n_tokens || !n_out || !w->n)
                return;
        j.n_tokens = n_tokens;
        j.ldy = ldy;
        j.step_y = step_y;
        j.act_class = kern_act_class(w->first.type);
        if (j.act_class != KERN_ACT_FLOAT) {
                j.n_units = align_up(n_tokens, KERN_ACT_UNIT) / KERN_ACT_UNIT;
                j.act_size = kern_heads_size(j.act_class, 1, w->first.n_in, n_tokens);
                j.row_size = kern_act_size(j.act_class, w->first.n_in, 1) / KERN_ACT_UNIT;
                j.scratch = scratch;
                run_or_do(k, w->n * j.n_units, w->n * w->first.n_in * n_tokens, round_task, &j);
        }
        j.n_rows = w->n >= want ? n_out : align_up(MAX(n_out * w->n / want, (size_t)1), ROW_STEP);
        j.n_row_tasks = (n_out + j.n_rows - 1) / j.n_rows;
        run_or_do(k, w->n * j.n_row_tasks, w->n * n_out * w->first.n_in * n_tokens / PRODUCT_GAIN,
                product_task, &j);
}

static void turned_task(void *arg, size_t task, unsigned thread) {
        const struct heads_job *j = arg;
        size_t head = task / j->n_pieces, from = task % j->n_pieces * PIECE;
        struct kern_mat m = head_mat(j, head);
        size_t n = MIN((size_t)PIECE, m.n_in - from), at = quant_row_size(m.type, from);
        const float *x = j->x + head * j->step_x;
        float *y = j->y + head * j->step_y + from, piece[PIECE];

        for (size_t t = 0; t < j->n_tokens; t++)
                memset(y + t * j->ldy, 0, n * sizeof(*y));
        for (size_t o = 0; o < m.n_out; o++) {
                quant_dequantize(m.type, (const uint8_t *)m.data + o * m.row_size + at, piece, n);
                for (size_t t = 0; t < j->n_tokens; t++)
                        j->k->ops.add_scaled(y + t * j->ldy, piece, x[t * j->ldx + o], n);
        }
}

void kern_heads_matmul_turned(struct kern *k, const struct kern_heads *w, const float *x,
        size_t ldx, size_t step_x, size_t n_tokens, float *y, size_t ldy, size_t step_y) {
        struct heads_job j = {.k = k, .w = w, .x = x, .y = y, .ldx = ldx, .step_x = step_x};

        j.n_tokens = n_tokens;
        j.ldy = ldy;
        j.step_y = step_y;
        j.n_pieces = (w->first.n_in + PIECE - 1) / PIECE;
        if (n_tokens)
                kern_run(k, w->n * j.n_pieces, turned_task, &j);
}
