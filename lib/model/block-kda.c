/* SPDX-License-Identifier: MIT */
/*
 * The gated delta rule with a decay per key channel (Kimi Linear's KDA). Per token: queries, keys and
 * values, each through a causal convolution of its own and SILU; queries and keys of length 1; per head
 *
 *   decay = exp(ssm_a * softplus(ssm_f_b ssm_f_a x + ssm_dt)),  beta = sigmoid(ssm_beta x)
 *   S = diag(decay) S;  S += k ((v - S^T k) beta)^T;  o = S^T q / sqrt(size of a key)
 *
 * then the RMS norm of o with ssm_norm, times sigmoid(ssm_g_b ssm_g_a x), and attn_output.
 */
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-norm.h"
#include "model/block-pair.h"
#include "model/internal.h"
#include "model/mixer.h"
#include "model/ssm.h"

enum { Q, K, V, N_PARTS };

struct kda {
        uint32_t layer;
        struct kern_mat part[N_PARTS], beta, out;
        struct kern_conv conv[N_PARTS];
        struct pair decay, gate;
        const float *a, *dt; /* [n_head], [n] */
        struct norm norm;    /* of a head */
        struct kern_delta kern;
        size_t n; /* n_head * n_key */
};

static int load_sizes(struct model *m, struct kda *y, uint32_t *n_taps, struct err *e) {
        const struct hparams *h = &m->hparams;
        uint32_t n_head = h->n_head[y->layer], n_key;
        int r = hparams_u32(
                h, "ssm.conv_kernel", KERN_CONV_TAPS_MIN, KERN_CONV_TAPS_MAX, n_taps, e);

        if (r == 0)
                r = hparams_u32(h, "kda.head_dim", 1, KERN_STATE_KEYS, &n_key, e);
        if (r < 0)
                return r;
        if (!n_head)
                return err_set(e, ERR_FORMAT, "%s.attention.head_count is 0 for layer %u",
                        m->arch->name, y->layer);
        y->kern = (struct kern_delta){.n_head = n_head,
                .n_key_head = n_head,
                .n_key = n_key,
                .n_value = n_key,
                .decay_per_key = true,
                .scale = 1.0f / sqrtf((float)n_key)};
        y->n = (size_t)n_head * n_key;
        return 0;
}

/* Queries, keys and values with their convolutions. */
static int load_parts(struct model *m, struct kda *y, uint32_t n_taps, struct err *e) {
        static const char *const names[N_PARTS][2] = {
                {"attn_q.weight", "ssm_conv1d_q.weight"},
                {"attn_k.weight", "ssm_conv1d_k.weight"},
                {"attn_v.weight", "ssm_conv1d_v.weight"},
        };

        for (int i = 0; i < N_PARTS; i++) {
                int r = weights_mat(&m->weights, &y->part[i], (int)y->layer, names[i][0],
                        m->hparams.n_embd, y->n, e);

                if (r == 0)
                        r = conv_load(m, &y->conv[i], y->layer, names[i][1], NULL, false,
                                (uint32_t)y->n, n_taps, e);
                if (r < 0)
                        return r;
                y->conv[i].silu = true;
                work_dims_mat(&m->dims, &y->part[i]);
        }
        return 0;
}

/* A number per head, {1, n_head}. */
static int load_a(struct model *m, struct kda *y, struct err *e) {
        int r = weights_rows_vec_opt(
                &m->weights, &y->a, (int)y->layer, "ssm_a", 1, y->kern.n_head, e);

        return r == 1 ? weights_missing((int)y->layer, "ssm_a", e) : r;
}

static int load(struct model *m, struct kda *y, struct err *e) {
        struct weights *w = &m->weights;
        size_t n_embd = m->hparams.n_embd, panel;
        int layer = (int)y->layer, r;
        uint32_t n_taps;

        r = load_sizes(m, y, &n_taps, e);
        if (r == 0)
                r = load_parts(m, y, n_taps, e);
        if (r == 0)
                r = pair_load(m, &y->decay, layer, "ssm_f_a.weight", "ssm_f_b.weight", n_embd, 0,
                        y->n, e);
        if (r == 0)
                r = pair_load(
                        m, &y->gate, layer, "ssm_g_a.weight", "ssm_g_b.weight", n_embd, 0, y->n, e);
        if (r == 0)
                r = load_a(m, y, e);
        if (r == 0)
                r = weights_vec(w, &y->dt, layer, "ssm_dt.bias", y->n, e);
        if (r == 0)
                r = weights_mat(w, &y->beta, layer, "ssm_beta.weight", n_embd, y->kern.n_head, e);
        if (r == 0)
                r = norm_load(m, &y->norm, layer, "ssm_norm", y->kern.n_key, e);
        if (r == 0)
                r = weights_mat(w, &y->out, layer, "attn_output.weight", y->n, n_embd, e);
        if (r < 0)
                return r;
        panel = kern_state_panel(y->kern.n_value);
        return state_book(m, y->layer, (uint32_t)(y->n / panel), (uint32_t)panel,
                (uint32_t)y->kern.n_key, &y->kern.state_offset, e);
}

static int kda_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct kda *y = calloc(1, sizeof(*y));
        size_t rank;
        int r;

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        y->layer = layer;
        r = load(m, y, e);
        if (r < 0)
                return r;
        rank = MAX(y->decay.a.n_out, y->gate.a.n_out);
        m->dims.n_mix = MAX(m->dims.n_mix, 6 * y->n + y->kern.n_head + rank);
        work_dims_mat(&m->dims, &y->beta);
        work_dims_mat(&m->dims, &y->out);
        return 0;
}

static int kda_forward(const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct kda *y = own;
        size_t all = w->n * y->n, n_head = y->kern.n_head, n_key = y->kern.n_key;
        float *x[N_PARTS] = {w->mix, w->mix + all, w->mix + 2 * all}, *decay = w->mix + 3 * all;
        float *gate = decay + all, *o = gate + all, *beta = o + all, *low = beta + w->n * n_head;
        struct work_input mixed = work_input(o, y->n, w->n, w->act[1]);
        const struct kern_delta_rows rows = {.q = x[Q],
                .k = x[K],
                .v = x[V],
                .ldq = y->n,
                .ldk = y->n,
                .ldv = y->n,
                .decay = decay,
                .beta = beta,
                .out = o,
                .ldo = y->n};
        int r;

        for (int i = 0; i < N_PARTS; i++)
                work_matmul(w, in, &y->part[i], NULL, x[i]);
        pair_forward(&y->decay, w, in, NULL, low, decay);
        kern_softplus(w->kern, decay, y->n, y->dt, y->n, w->n, decay, y->n);
        kern_exp_scaled(w->kern, decay, y->a, n_key, y->n, w->n);
        pair_forward(&y->gate, w, in, NULL, low, gate);
        kern_sigmoid(w->kern, gate, all);
        work_matmul(w, in, &y->beta, NULL, beta);
        kern_sigmoid(w->kern, beta, w->n * n_head);
        r = work_wait(w, y->layer);
        if (r)
                return r;
        for (int i = 0; i < N_PARTS; i++)
                kern_conv(w->kern, &y->conv[i], w->runs, w->n_runs, x[i], y->n, x[i], y->n);
        for (int i = Q; i <= K; i++)
                kern_l2norm(w->kern, x[i], y->n, n_head, n_key, w->model->hparams.norm_eps, w->n);
        kern_delta(w->kern, &y->kern, w->runs, w->n_runs, &rows);
        norm_forward(&y->norm, w, o, o, n_key, w->n * n_head);
        kern_mul(w->kern, o, gate, all);
        work_matmul(w, &mixed, &y->out, NULL, out);
        return 0;
}

const struct mixer mixer_kda = {"Kimi delta attention", kda_load, NULL, kda_forward};
