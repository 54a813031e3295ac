/* SPDX-License-Identifier: MIT */
/*
 * A short convolution between two gates (LFM2). Per token: b, c and x from shortconv.in_proj; a causal
 * convolution of b * x over the last few tokens, without bias; times c; shortconv.out_proj.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"
#include "model/mixer.h"
#include "model/ssm.h"

struct short_conv {
        uint32_t layer;
        struct kern_mat in_b, in_c, in_x, out;
        struct kern_conv conv;
};

static int load(struct model *m, struct short_conv *y, struct err *e) {
        uint32_t n = m->hparams.n_embd, n_taps;
        int layer = (int)y->layer, r;
        struct kern_mat in;

        r = hparams_u32(&m->hparams, "shortconv.l_cache", KERN_CONV_TAPS_MIN, KERN_CONV_TAPS_MAX,
                &n_taps, e);
        if (r == 0)
                r = weights_mat(
                        &m->weights, &in, layer, "shortconv.in_proj.weight", n, 3 * (size_t)n, e);
        if (r == 0)
                r = weights_mat(&m->weights, &y->out, layer, "shortconv.out_proj.weight", n, n, e);
        if (r == 0)
                r = conv_load(
                        m, &y->conv, y->layer, "shortconv.conv.weight", NULL, false, n, n_taps, e);
        if (r < 0)
                return r;
        y->in_b = weights_rows(&in, 0, n);
        y->in_c = weights_rows(&in, n, n);
        y->in_x = weights_rows(&in, 2 * (size_t)n, n);
        work_dims_mat(&m->dims, &in);
        work_dims_mat(&m->dims, &y->out);
        m->dims.n_mix = MAX(m->dims.n_mix, 2 * (size_t)n);
        return 0;
}

static int short_conv_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct short_conv *y = calloc(1, sizeof(*y));

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        y->layer = layer;
        return load(m, y, e);
}

static int short_conv_forward(
        const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct short_conv *y = own;
        size_t n = y->conv.n_channels, all = w->n * n;
        float *x = w->mix, *gate = x + all;
        struct work_input mixed = work_input(x, n, w->n, w->act[1]);
        int r;

        work_matmul(w, in, &y->in_x, NULL, x);
        work_matmul(w, in, &y->in_b, NULL, gate);
        kern_mul(w->kern, x, gate, all);
        r = work_wait(w, y->layer);
        if (r)
                return r;
        kern_conv(w->kern, &y->conv, w->runs, w->n_runs, x, n, x, n);
        work_matmul(w, in, &y->in_c, NULL, gate);
        kern_mul(w->kern, x, gate, all);
        work_matmul(w, &mixed, &y->out, NULL, out);
        return 0;
}

const struct mixer mixer_short_conv = {
        "short convolution", short_conv_load, NULL, short_conv_forward};
