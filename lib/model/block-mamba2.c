/* SPDX-License-Identifier: MIT */
#include "model/block-mamba2.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-attn.h"
#include "model/internal.h"
#include "model/mixer.h"

/* Channels of the convolution: x, b and c. */
static size_t n_conv(const struct mamba2 *y) {
        return y->s.n_inner + 2 * (size_t)y->s.n_group * y->s.n_state;
}

static int load_matrices(struct model *m, struct mamba2 *y, struct err *e) {
        size_t n_embd = m->hparams.n_embd, n = y->s.n_inner, n_x = n_conv(y), n_head = y->s.rank;
        struct weights *w = &m->weights;
        int layer = (int)y->layer, r;
        struct kern_mat in;

        r = weights_mat(w, &in, layer, "ssm_in.weight", n_embd, n + n_x + n_head, e);
        if (r == 0)
                r = weights_mat(w, &y->out, layer, "ssm_out.weight", n, n_embd, e);
        if (r < 0)
                return r;
        y->in_z = weights_rows(&in, 0, n);
        y->in_x = weights_rows(&in, n, n_x);
        y->in_dt = weights_rows(&in, n + n_x, n_head);
        work_dims_mat(&m->dims, &in);
        work_dims_mat(&m->dims, &y->out);
        return weights_vec(w, &y->dt_bias, layer, "ssm_dt.bias", n_head, e);
}

/* Of each group. */
static int load_norm(struct model *m, struct mamba2 *y, struct err *e) {
        static const char name[] = "ssm_norm.weight";
        int r = weights_rows_vec_opt(&m->weights, &y->norm, (int)y->layer, name,
                y->s.n_inner / y->s.n_group, y->s.n_group, e);

        y->eps = m->hparams.norm_eps;
        if (r == 1)
                return m->arch->ssm_norm_optional ? 0 : weights_missing((int)y->layer, name, e);
        return r;
}

static int load_recurrence(struct model *m, struct mamba2 *y, struct err *e) {
        struct weights *w = &m->weights;
        uint32_t n_head = y->s.rank, head_dim = y->s.n_inner / n_head;
        uint32_t row = (head_dim + KERN_SCAN_LANES - 1) / KERN_SCAN_LANES * KERN_SCAN_LANES;
        int layer = (int)y->layer, r;

        r = conv_load(m, &y->conv, y->layer, "ssm_conv1d.weight", "ssm_conv1d.bias",
                !m->arch->ssm_bias_optional, (uint32_t)n_conv(y), y->s.n_taps, e);
        if (r < 0)
                return r;
        y->conv.silu = true;
        y->scan = (struct kern_scan){.n_heads = n_head,
                .head_dim = head_dim,
                .n_state = y->s.n_state,
                .n_groups = y->s.n_group};
        /* Rows of one value each: turned or not is the same. */
        r = weights_tiles(w, &y->scan.a, layer, "ssm_a", 1, n_head, n_head, e);
        if (r == 0)
                r = weights_tiles(w, &y->scan.d, layer, "ssm_d", 1, n_head, n_head, e);
        if (r < 0)
                return r;
        return state_book(m, y->layer, n_head, row, y->s.n_state, &y->scan.state_offset, e);
}

int mamba2_load(struct model *m, struct mamba2 *ret, uint32_t layer, struct err *e) {
        struct mamba2 y = {.layer = layer};
        int r;

        r = ssm_read(&m->hparams, &y.s, true, e);
        if (r == 0)
                r = load_matrices(m, &y, e);
        if (r == 0)
                r = load_norm(m, &y, e);
        if (r == 0)
                r = load_recurrence(m, &y, e);
        if (r == 0)
                *ret = y;
        return r;
}

size_t mamba2_n_mix(const struct mamba2 *y) {
        return 2 * (size_t)y->s.n_inner + n_conv(y) + y->s.rank;
}

static void norm_groups(const struct mamba2 *y, struct model_work *w, float *x) {
        size_t n_inner = y->s.n_inner, n = n_inner / y->s.n_group;

        for (size_t i = 0; y->norm && i < n_inner; i += n)
                kern_rmsnorm(w->kern, x + i, n_inner, y->norm + i, y->eps, n, w->n, x + i, n_inner);
}

void mamba2_forward(const struct mamba2 *y, struct model_work *w, struct work_input *in, float *mix,
        float *out) {
        size_t n = w->n, n_inner = y->s.n_inner, n_x = n_conv(y), n_head = y->s.rank;
        float *x = mix, *z = x + n * n_x, *mixed = z + n * n_inner, *dt = mixed + n * n_inner;
        struct kern_scan_rows rows = {.x = x,
                .dt = dt,
                .b = x + n_inner,
                .c = x + n_inner + (size_t)y->s.n_group * y->s.n_state,
                .y = mixed,
                .ldx = n_x,
                .lddt = n_head,
                .ldbc = n_x,
                .ldy = n_inner};
        struct work_input gated = work_input(mixed, n_inner, n, w->act[1]);

        work_matmul(w, in, &y->in_z, NULL, z);
        work_matmul(w, in, &y->in_x, NULL, x);
        work_matmul(w, in, &y->in_dt, NULL, dt);
        kern_softplus(w->kern, dt, n_head, y->dt_bias, n_head, n, dt, n_head);
        kern_conv(w->kern, &y->conv, w->runs, w->n_runs, x, n_x, x, n_x);
        kern_scan_heads(w->kern, &y->scan, w->runs, w->n_runs, &rows);
        kern_activate(w->kern, KERN_SILU, z, mixed, mixed, n * n_inner);
        norm_groups(y, w, mixed);
        work_matmul(w, &gated, &y->out, NULL, out);
}

/* As all of the first branch. */

static int alone_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct mamba2 *y = calloc(1, sizeof(*y));
        int r;

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        r = mamba2_load(m, y, layer, e);
        if (r == 0)
                m->dims.n_mix = MAX(m->dims.n_mix, mamba2_n_mix(y));
        return r;
}

static int alone_forward(const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct mamba2 *y = own;
        int r = work_wait(w, y->layer);

        if (r == 0)
                mamba2_forward(y, w, in, w->mix, out);
        return r;
}

const struct mixer mixer_mamba2 = {"mamba2", alone_load, NULL, alone_forward};

/* Beside attention: both see the same, and what they give is added up. */
struct beside {
        struct attn attn;
        struct mamba2 mamba2;
        size_t n_embd;
};

static int beside_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct beside *y = calloc(1, sizeof(*y));
        int r;

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        y->n_embd = m->hparams.n_embd;
        r = attn_load(m, &y->attn, layer, NULL, e);
        if (r == 0)
                r = mamba2_load(m, &y->mamba2, layer, e);
        if (r == 0)
                m->dims.n_mix = MAX(m->dims.n_mix, mamba2_n_mix(&y->mamba2) + y->n_embd);
        return r;
}

static int beside_forward(
        const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct beside *y = own;
        float *other = w->mix + w->n * mamba2_n_mix(&y->mamba2);
        int r = attn_store(&y->attn, w, in); /* waits for the layer */

        if (r)
                return r;
        attn_attend(&y->attn, w, in, out);
        mamba2_forward(&y->mamba2, w, in, w->mix, other);
        kern_add(w->kern, out, other, w->n * y->n_embd);
        return 0;
}

const struct mixer mixer_attn_mamba2 = {"attention and mamba2", beside_load, NULL, beside_forward};
