/* SPDX-License-Identifier: MIT */
/*
 * Mamba (1): a recurrence over n_inner channels with n_state entries each.
 *
 * Per token: x, z from ssm_in; a convolution of x with SILU; from it steps of `rank` values, and b and c,
 * in files that say so each RMS-normed (with weights or without); steps of all channels by ssm_dt and
 * softplus; the scan; times SILU of z; ssm_out.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-norm.h"
#include "model/internal.h"
#include "model/mixer.h"
#include "model/ssm.h"

struct mamba {
        uint32_t layer;
        struct ssm s;
        struct kern_mat in_x, in_z, to_dt, to_bc, dt, out;
        const float *dt_bias;
        struct norm dt_norm, b_norm, c_norm; /* n of 0: none */
        struct kern_conv conv;
        struct kern_scan scan;
};

static int load_matrices(struct model *m, struct mamba *y, struct err *e) {
        size_t n_embd = m->hparams.n_embd, n = y->s.n_inner, rank = y->s.rank;
        struct weights *w = &m->weights;
        struct kern_mat in, x;
        const struct {
                const char *name;
                struct kern_mat *mat;
                size_t n_in, n_out;
        } part[] = {
                {"ssm_in.weight", &in, n_embd, 2 * n},
                {"ssm_x.weight", &x, n, rank + 2 * (size_t)y->s.n_state},
                {"ssm_dt.weight", &y->dt, rank, n},
                {"ssm_out.weight", &y->out, n, n_embd},
        };

        for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
                int r = weights_mat(w, part[i].mat, (int)y->layer, part[i].name, part[i].n_in,
                        part[i].n_out, e);

                if (r < 0)
                        return r;
                work_dims_mat(&m->dims, part[i].mat);
        }
        y->in_x = weights_rows(&in, 0, n);
        y->in_z = weights_rows(&in, n, n);
        y->to_dt = weights_rows(&x, 0, rank);
        y->to_bc = weights_rows(&x, rank, 2 * (size_t)y->s.n_state);
        return weights_vec(w, &y->dt_bias, (int)y->layer, "ssm_dt.bias", n, e);
}

/* The file says that there are norms without weights, or the architecture that there are some with. */
static int load_norms(struct model *m, struct mamba *y, struct err *e) {
        const struct {
                const char *name;
                struct norm *norm;
                size_t n;
        } part[] = {
                {"ssm_dt_norm", &y->dt_norm, y->s.rank},
                {"ssm_b_norm", &y->b_norm, y->s.n_state},
                {"ssm_c_norm", &y->c_norm, y->s.n_state},
        };
        bool plain;
        int r;

        r = hparams_bool_or(&m->hparams, "ssm.dt_b_c_rms", false, &plain, e);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(part); i++)
                if (m->arch->ssm_norms)
                        r = norm_load(m, part[i].norm, (int)y->layer, part[i].name, part[i].n, e);
                else if (plain)
                        *part[i].norm = norm_plain(m, part[i].n);
        return r;
}

static int load_recurrence(struct model *m, struct mamba *y, struct err *e) {
        uint32_t n = y->s.n_inner, n_state = y->s.n_state;
        uint32_t n_tiles = (n + KERN_SCAN_LANES - 1) / KERN_SCAN_LANES;
        int r;

        r = conv_load(m, &y->conv, y->layer, "ssm_conv1d.weight", "ssm_conv1d.bias", true, n,
                y->s.n_taps, e);
        if (r < 0)
                return r;
        y->conv.silu = true;
        y->scan =
                (struct kern_scan){.n_heads = n, .head_dim = 1, .n_state = n_state, .n_groups = 1};
        r = weights_tiles(
                &m->weights, &y->scan.a, (int)y->layer, "ssm_a", n_state, n, KERN_SCAN_LANES, e);
        if (r == 0)
                r = weights_vec(&m->weights, &y->scan.d, (int)y->layer, "ssm_d", n, e);
        if (r < 0)
                return r;
        return state_book(m, y->layer, n_tiles, KERN_SCAN_LANES, n_state, &y->scan.state_offset, e);
}

static int mamba_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct mamba *y = calloc(1, sizeof(*y));
        int r;

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        y->layer = layer;
        r = ssm_read(&m->hparams, &y->s, false, e);
        if (r == 0)
                r = load_matrices(m, y, e);
        if (r == 0)
                r = load_norms(m, y, e);
        if (r == 0)
                r = load_recurrence(m, y, e);
        m->dims.n_mix =
                MAX(m->dims.n_mix, 4 * (size_t)y->s.n_inner + y->s.rank + 2 * (size_t)y->s.n_state);
        return r;
}

static void norm_part(const struct norm *norm, struct model_work *w, float *x, size_t stride) {
        if (norm->n)
                norm_forward(norm, w, x, x, stride, w->n);
}

/* Steps of all channels to @dt, and b and c to @bc, from the convolution's @x. */
static void make_steps(const struct mamba *y, struct model_work *w, const float *x, float *dt,
        float *bc, float *low) {
        size_t n = w->n, n_inner = y->s.n_inner, n_state = y->s.n_state;
        struct work_input in = work_input(x, n_inner, n, w->act[1]);
        struct work_input low_in = work_input(low, y->s.rank, n, w->act[1]);

        work_matmul(w, &in, &y->to_bc, NULL, bc);
        work_matmul(w, &in, &y->to_dt, NULL, low);
        norm_part(&y->dt_norm, w, low, y->s.rank);
        norm_part(&y->b_norm, w, bc, 2 * n_state);
        norm_part(&y->c_norm, w, bc + n_state, 2 * n_state);
        work_matmul(w, &low_in, &y->dt, y->dt_bias, dt);
        kern_softplus(w->kern, dt, n_inner, NULL, n_inner, n, dt, n_inner);
}

static int mamba_forward(const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct mamba *y = own;
        size_t n = w->n, n_inner = y->s.n_inner, all = n * n_inner, n_state = y->s.n_state;
        float *x = w->mix, *z = x + all, *dt = z + all, *mixed = dt + all, *bc = mixed + all;
        float *low = bc + n * 2 * n_state;
        struct kern_scan_rows rows = {.x = x,
                .dt = dt,
                .b = bc,
                .c = bc + n_state,
                .y = mixed,
                .ldx = n_inner,
                .lddt = n_inner,
                .ldbc = 2 * n_state,
                .ldy = n_inner};
        struct work_input gated = work_input(mixed, n_inner, n, w->act[1]);
        int r;

        work_matmul(w, in, &y->in_x, NULL, x);
        work_matmul(w, in, &y->in_z, NULL, z);
        r = work_wait(w, y->layer);
        if (r)
                return r;
        kern_conv(w->kern, &y->conv, w->runs, w->n_runs, x, n_inner, x, n_inner);
        make_steps(y, w, x, dt, bc, low);
        kern_scan_channels(w->kern, &y->scan, w->runs, w->n_runs, &rows);
        kern_activate(w->kern, KERN_SILU, z, mixed, mixed, all);
        work_matmul(w, &gated, &y->out, NULL, out);
        return 0;
}

const struct mixer mixer_mamba = {"mamba", mamba_load, NULL, mamba_forward};
