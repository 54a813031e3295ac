/* SPDX-License-Identifier: MIT */
/*
 * The time mix of RWKV 6. With the token shift's difference dx, w, k, v, r and g have inputs of their own:
 *
 *   x_j = x + dx * (lerp_j + w2_j tanh(w1_j (x + dx * lerp_x)))
 *   decay = exp(-exp(decay + decay_w2 tanh(decay_w1 x_w)))
 *   y = wkv6(r x_r, decay, k x_k, v x_v);  output = o (norm of each head(y) * silu(g x_g))
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-pair.h"
#include "model/block-rwkv.h"
#include "model/internal.h"
#include "model/mixer.h"

/* In the order of the fused tensors. */
enum { W, K, V, R, G, N_USES };

struct rwkv6 {
        struct rwkv_time time;
        const float *lerp_x, *lerp[N_USES]; /* [n_embd] */
        struct pair delta[N_USES], decay;
        const float *decay_bias, *first; /* [n_embd] */
        struct kern_mat gate;
};

/* A model, not a layer, has them in one tensor: one that is missing must not pass. */
static bool is_fused(const struct model *m) {
        for (uint32_t i = 0; i < m->hparams.n_layer; i++)
                if (weights_has(&m->weights, (int)i, "time_mix_lerp_fused.weight"))
                        return true;
        return false;
}

static int load_lerps(struct model *m, struct rwkv6 *y, struct err *e) {
        static const char *const names[N_USES] = {"time_mix_lerp_w.weight",
                "time_mix_lerp_k.weight", "time_mix_lerp_v.weight", "time_mix_lerp_r.weight",
                "time_mix_lerp_g.weight"};
        size_t n = m->hparams.n_embd;
        int layer = (int)y->time.layer;
        int r = weights_vec(&m->weights, &y->lerp_x, layer, "time_mix_lerp_x.weight", n, e);

        if (r == 0 && is_fused(m))
                return rwkv_lerps(m, y->lerp, y->time.layer, N_USES, e);
        for (int i = 0; r == 0 && i < N_USES; i++)
                r = weights_vec(&m->weights, &y->lerp[i], layer, names[i], n, e);
        return r;
}

/* All uses' first matrices are one, and their second ones are a stack. */
static int load_deltas(struct model *m, struct rwkv6 *y, struct err *e) {
        size_t n = m->hparams.n_embd;
        int layer = (int)y->time.layer, r;
        struct weights_stack second;
        struct kern_mat first;
        uint32_t rank;

        r = hparams_u32(&m->hparams, "time_mix_extra_dim", 1, HPARAMS_MAX_EMBD, &rank, e);
        if (r == 0)
                r = weights_mat(&m->weights, &first, layer, "time_mix_w1.weight", n,
                        (size_t)N_USES * rank, e);
        if (r == 0)
                r = weights_stack(
                        &m->weights, &second, layer, "time_mix_w2.weight", rank, n, N_USES, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < N_USES; i++)
                y->delta[i] = (struct pair){.a = weights_rows(&first, i * rank, rank),
                        .b = weights_stack_at(&second, i),
                        .middle = PAIR_TANH};
        work_dims_mat(&m->dims, &first);
        work_dims_stack(&m->dims, &second);
        return 0;
}

static int load(struct model *m, struct rwkv6 *y, uint32_t layer, struct err *e) {
        size_t n = m->hparams.n_embd;
        struct weights *w = &m->weights;
        uint32_t rank;
        int r;

        r = rwkv_time_load(m, &y->time, layer, e);
        if (r == 0)
                r = load_lerps(m, y, e);
        if (r == 0)
                r = load_deltas(m, y, e);
        if (r == 0)
                r = hparams_u32(&m->hparams, "time_decay_extra_dim", 1, HPARAMS_MAX_EMBD, &rank, e);
        if (r == 0)
                r = pair_load(m, &y->decay, (int)layer, "time_mix_decay_w1.weight",
                        "time_mix_decay_w2.weight", n, rank, n, e);
        y->decay.middle = PAIR_TANH;
        if (r == 0)
                r = weights_vec(w, &y->decay_bias, (int)layer, "time_mix_decay.weight", n, e);
        if (r == 0)
                r = rwkv_vector(m, &y->time, &y->first, "time_mix_first.weight", e);
        if (r == 0)
                r = weights_mat(w, &y->gate, (int)layer, "time_mix_gate.weight", n, n, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, &y->gate);
        rank = MAX(rank, (uint32_t)y->delta[0].a.n_out);
        m->dims.n_mix = MAX(m->dims.n_mix, 9 * n + rank);
        return 0;
}

static int rwkv6_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct rwkv6 *y = calloc(1, sizeof(*y));

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        return load(m, y, layer, e);
}

/* The rows of one run of the mixer in w->mix. */
struct rwkv6_rows {
        float *dx, *xx, *x, *use[N_USES], *y, *low;
};

static struct rwkv6_rows place(const struct model_work *w, size_t all) {
        float *p = w->mix;
        struct rwkv6_rows rows = {.dx = p, .xx = p + all, .x = p + 2 * all, .y = p + 3 * all};

        for (size_t i = 0; i < N_USES; i++)
                rows.use[i] = p + (4 + i) * all;
        rows.low = p + 9 * all;
        return rows;
}

/* What the use @i sees, to p->x. */
static struct work_input use_input(const struct rwkv6 *y, struct model_work *w,
        const struct work_input *in, struct work_input *xx, const struct rwkv6_rows *p, int i) {
        pair_forward(&y->delta[i], w, xx, NULL, p->low, p->x);
        kern_lerp(w->kern, in->x, p->dx, y->lerp[i], p->x, in->n_in, in->n, p->x);
        return work_input(p->x, in->n_in, in->n, w->act[1]);
}

static void uses(const struct rwkv6 *y, struct model_work *w, const struct work_input *in,
        const struct rwkv6_rows *p) {
        const struct kern_mat *const mats[N_USES] = {
                [K] = &y->time.k, [V] = &y->time.v, [R] = &y->time.r, [G] = &y->gate};
        static const float one = 1.0f, minus = -1.0f;
        size_t d = in->n_in, n = in->n;
        struct work_input xx = work_input(p->xx, d, n, w->act[0]), x;

        kern_lerp(w->kern, in->x, p->dx, y->lerp_x, NULL, d, n, p->xx);
        for (int i = K; i < N_USES; i++) {
                x = use_input(y, w, in, &xx, p, i);
                work_matmul(w, &x, mats[i], NULL, p->use[i]);
        }
        /* Last, because it needs the scratch of xx. */
        x = use_input(y, w, in, &xx, p, W);
        x.scratch = w->act[0];
        pair_forward(&y->decay, w, &x, y->decay_bias, p->low, p->use[W]);
        kern_exp_scaled(w->kern, p->use[W], &one, d, d, n);
        kern_exp_scaled(w->kern, p->use[W], &minus, d, d, n);
        kern_activate(w->kern, KERN_SILU, p->use[G], NULL, p->use[G], n * d);
}

static int rwkv6_forward(const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct rwkv6 *y = own;
        const struct kern_wkv *wkv = &y->time.wkv;
        size_t d = in->n_in, n = in->n;
        const struct rwkv6_rows p = place(w, n * d);
        struct work_input mixed = work_input(p.y, d, n, w->act[0]);
        const struct kern_wkv_rows rows = {.r = p.use[R],
                .w = p.use[W],
                .k = p.use[K],
                .v = p.use[V],
                .out = p.y,
                .u = y->first};
        int r = work_wait(w, y->time.layer);

        if (r)
                return r;
        kern_token_shift(w->kern, w->runs, w->n_runs, y->time.shift_offset, in->x, d, p.dx);
        uses(y, w, in, &p);
        kern_wkv6(w->kern, wkv, w->runs, w->n_runs, &rows);
        kern_group_norm(w->kern, p.y, wkv->n_head, wkv->n_key, y->time.norm_weight,
                y->time.norm_bias, RWKV_HEAD_EPS, n);
        kern_mul(w->kern, p.y, p.use[G], n * d);
        work_matmul(w, &mixed, &y->time.out, NULL, out);
        return 0;
}

const struct mixer mixer_rwkv6 = {"time mix 6", rwkv6_load, NULL, rwkv6_forward};
