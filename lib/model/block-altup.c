/* SPDX-License-Identifier: MIT */
#include "model/block-altup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

static int load_layer(struct model *m, struct altup_layer *y, uint32_t i, struct err *e) {
        size_t d = m->hparams.n_embd;
        const struct {
                const char *name;
                struct kern_mat *mat;
                size_t n_in, n_out;
        } part[] = {
                {"altup_router.weight", &y->router, d, ALTUP_N},
                {"altup_predict_coef.weight", &y->predict, ALTUP_N, (size_t)ALTUP_N * ALTUP_N},
                {"altup_correct_coef.weight", &y->correct, ALTUP_N, ALTUP_N},
        };

        for (size_t k = 0; k < ARRAY_SIZE(part); k++) {
                int r = weights_mat(&m->weights, part[k].mat, (int)i, part[k].name, part[k].n_in,
                        part[k].n_out, e);

                if (r < 0)
                        return r;
                work_dims_mat(&m->dims, part[k].mat);
        }
        return norm_load(m, &y->router_norm, (int)i, "altup_router_norm", d, e);
}

int altup_load(struct model *m, struct altup *ret, struct err *e) {
        size_t d = m->hparams.n_embd;
        struct weights *w = &m->weights;
        struct altup a = {.n_embd = d};
        int r;

        r = weights_stack(w, &a.project, -1, "altup_proj.weight", d, d, ALTUP_N - 1, e);
        if (r == 0)
                r = weights_stack(
                        w, &a.unproject, -1, "altup_unembd_proj.weight", d, d, ALTUP_N - 1, e);
        if (r < 0)
                return r;
        work_dims_stack(&m->dims, &a.project);
        work_dims_stack(&m->dims, &a.unproject);
        a.layers = calloc(m->hparams.n_layer, sizeof(*a.layers));
        if (!a.layers)
                return err_set(e, ERR_NOMEM, "no memory for %u layers", m->hparams.n_layer);
        for (uint32_t i = 0; r == 0 && i < m->hparams.n_layer; i++)
                r = load_layer(m, &a.layers[i], i, e);
        if (r < 0) {
                altup_deinit(&a);
                return r;
        }
        a.at = m->dims.n_own;
        /* X, P, and the coefficients with what they are computed from. */
        m->dims.n_own += 2 * ALTUP_N * d + (ALTUP_N + 1) * ALTUP_N;
        *ret = a;
        return 0;
}

void altup_deinit(struct altup *a) {
        free(a->layers);
        *a = ALTUP_NULL;
}

float *altup_stream(const struct altup *a, struct model_work *w, size_t j) {
        return w->own + (a->at + j * a->n_embd) * w->n;
}

static float *predicted(const struct altup *a, struct model_work *w, size_t j) {
        return altup_stream(a, w, ALTUP_N + j);
}

/* The length of a vector, in double and in order: it is the same everywhere (I2). */
static double length(const float *x, size_t n) {
        double sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += (double)x[i] * (double)x[i];
        return sqrt(sum);
}

/* Each row of y is made as long as the row of x. */
static void keep_length(struct model_work *w, const float *x, float *y, size_t n) {
        for (size_t t = 0; t < w->n; t++) {
                double now = length(y + t * n, n);

                if (now > 0)
                        kern_scale(w->kern, y + t * n, (float)(length(x + t * n, n) / now), n);
        }
}

void altup_begin(const struct altup *a, struct model_work *w) {
        struct work_input in = work_input(w->x, a->n_embd, w->n, w->act[0]);

        memcpy(altup_stream(a, w, 0), w->x, w->n * a->n_embd * sizeof(*w->x));
        for (size_t j = 1; j < ALTUP_N; j++) {
                struct kern_mat mat = weights_stack_at(&a->project, j - 1);

                work_matmul(w, &in, &mat, NULL, altup_stream(a, w, j));
                keep_length(w, w->x, altup_stream(a, w, j), a->n_embd);
        }
}

void altup_end(const struct altup *a, struct model_work *w) {
        float *first = altup_stream(a, w, 0);
        size_t all = w->n * a->n_embd;

        memcpy(w->x, first, all * sizeof(*w->x));
        for (size_t j = 1; j < ALTUP_N; j++) {
                struct kern_mat mat = weights_stack_at(&a->unproject, j - 1);
                struct work_input in =
                        work_input(altup_stream(a, w, j), a->n_embd, w->n, w->act[0]);

                work_matmul(w, &in, &mat, NULL, w->branch);
                keep_length(w, first, w->branch, a->n_embd);
                kern_add(w->kern, w->x, w->branch, all);
        }
        kern_scale(w->kern, w->x, 1.0f / ALTUP_N, all);
}

/* Coefficients [n][mat->n_out] from router(y); y [n][d]. */
static float *coefficients(const struct altup *a, struct model_work *w, uint32_t layer,
        const float *y, const struct kern_mat *mat) {
        const struct altup_layer *l = &a->layers[layer];
        float *routed = altup_stream(a, w, (size_t)2 * ALTUP_N), *c = routed + w->n * ALTUP_N;
        struct work_input in = work_input(w->norm, a->n_embd, w->n, w->act[0]);
        struct work_input small = work_input(routed, ALTUP_N, w->n, w->act[1]);

        norm_forward(&l->router_norm, w, y, w->norm, a->n_embd, w->n);
        kern_scale(w->kern, w->norm, 1.0f / (float)a->n_embd, w->n * a->n_embd);
        work_matmul(w, &in, &l->router, NULL, routed);
        kern_softcap(w->kern, routed, 1.0f, w->n * ALTUP_N); /* tanh */
        work_matmul(w, &small, mat, NULL, c);
        return c;
}

void altup_predict(const struct altup *a, struct model_work *w, uint32_t layer) {
        size_t d = a->n_embd, n_c = (size_t)ALTUP_N * ALTUP_N;
        const float *c =
                coefficients(a, w, layer, altup_stream(a, w, 0), &a->layers[layer].predict);

        memcpy(predicted(a, w, 0), altup_stream(a, w, 0), ALTUP_N * w->n * d * sizeof(*w->x));
        for (size_t t = 0; t < w->n; t++)
                for (size_t j = 0; j < ALTUP_N; j++)
                        for (size_t k = 0; k < ALTUP_N; k++)
                                kern_add_scaled(w->kern, predicted(a, w, j) + t * d,
                                        altup_stream(a, w, k) + t * d, c[t * n_c + ALTUP_N * j + k],
                                        d);
        memcpy(w->x, predicted(a, w, 0), w->n * d * sizeof(*w->x));
}

void altup_correct(const struct altup *a, struct model_work *w, uint32_t layer) {
        const float *c = coefficients(a, w, layer, w->x, &a->layers[layer].correct);
        size_t d = a->n_embd;

        /* What is new: y - P_0. */
        kern_add_scaled(w->kern, w->x, predicted(a, w, 0), -1.0f, w->n * d);
        memcpy(altup_stream(a, w, 0), predicted(a, w, 0), ALTUP_N * w->n * d * sizeof(*w->x));
        for (size_t t = 0; t < w->n; t++)
                for (size_t j = 0; j < ALTUP_N; j++)
                        kern_add_scaled(w->kern, altup_stream(a, w, j) + t * d, w->x + t * d,
                                c[t * ALTUP_N + j] + 1.0f, d);
}
