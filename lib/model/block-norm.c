/* SPDX-License-Identifier: MIT */
#include "model/block-norm.h"

#include <stdio.h>

#include "base/err.h"
#include "model/internal.h"

int norm_load_opt(
        struct model *m, struct norm *ret, int layer, const char *name, size_t n, struct err *e) {
        struct norm norm = {.n = n, .eps = m->hparams.norm_eps, .kind = m->arch->norm};
        char full[64];
        int r;

        snprintf(full, sizeof(full), "%s.weight", name);
        r = weights_vec_opt(&m->weights, &norm.weight, layer, full, n, e);
        if (r)
                return r;
        if (norm.kind == ARCH_LAYER_NORM) {
                snprintf(full, sizeof(full), "%s.bias", name);
                r = weights_vec(&m->weights, &norm.bias, layer, full, n, e);
                if (r < 0)
                        return r;
        }
        *ret = norm;
        return 0;
}

int norm_load(
        struct model *m, struct norm *ret, int layer, const char *name, size_t n, struct err *e) {
        int r = norm_load_opt(m, ret, layer, name, n, e);
        char full[64];

        if (r != 1)
                return r;
        snprintf(full, sizeof(full), "%s.weight", name);
        return weights_missing(layer, full, e);
}

int norm_load_bare(
        struct model *m, struct norm *ret, int layer, const char *name, size_t n, struct err *e) {
        struct norm norm = {.n = n, .eps = m->hparams.norm_eps, .kind = ARCH_RMS};
        int r = weights_vec(&m->weights, &norm.weight, layer, name, n, e);

        if (r == 0)
                *ret = norm;
        return r;
}

struct norm norm_plain(const struct model *m, size_t n) {
        return (struct norm){.n = n, .eps = m->hparams.norm_eps, .kind = ARCH_RMS};
}

void norm_forward(const struct norm *norm, const struct model_work *w, const float *x, float *y,
        size_t stride, size_t n_rows) {
        if (norm->kind == ARCH_RMS)
                kern_rmsnorm(
                        w->kern, x, stride, norm->weight, norm->eps, norm->n, n_rows, y, stride);
        else
                kern_layernorm(w->kern, x, stride, norm->weight, norm->bias, norm->eps, norm->n,
                        n_rows, y, stride);
}
