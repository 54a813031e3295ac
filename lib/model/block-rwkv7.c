/* SPDX-License-Identifier: MIT */
/*
 * The time mix of RWKV 7. With the token shift's difference dx, r, w, k, v, a and g have inputs of their
 * own, x_j = x + dx * lerp_j:
 *
 *   decay = exp(-0.606531 sigmoid(w0 + w2 tanh(w1 x_w)))
 *   v += (first layer's v - v) * sigmoid(v0 + v2 v1 x_v)       (not in the first layer)
 *   a = sigmoid(a0 + a2 a1 x_a);  g = g2 sigmoid(g1 x_g)       (some models have no g)
 *   kk = k * k_k, of length 1 in each head;  k *= 1 + (a - 1) * k_a
 *   y = norm of each head(wkv7(r, decay, k, v, kk, a)) + v * (sum over the head of r k r_k)
 *   output = o (y * g)
 *
 * The first layer's v stays in w->own (arch-rwkv.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/block-pair.h"
#include "model/block-rwkv.h"
#include "model/internal.h"
#include "model/mixer.h"

/* In the order of the fused tensor. */
enum { R, W, K, V, A, G, N_USES };

#define DECAY (-0.606531f) /* -exp(-1/2) */

struct rwkv7 {
        struct rwkv_time time;
        const float *lerp[N_USES];                     /* [n_embd] */
        struct pair decay, value, a, gate;             /* gate: n_in of 0: none */
        const float *decay_bias, *value_bias, *a_bias; /* [n_embd] */
        const float *k_k, *k_a, *r_k;                  /* [n_embd] */
        size_t rank;                                   /* the greatest */
};

/* All layers have a gate, or none: one that is missing must not pass. */
static bool has_gate(const struct model *m) {
        for (uint32_t i = 0; i < m->hparams.n_layer; i++)
                if (weights_has(&m->weights, (int)i, "time_mix_g1.weight") ||
                        weights_has(&m->weights, (int)i, "time_mix_g2.weight"))
                        return true;
        return false;
}

static int load_pairs(struct model *m, struct rwkv7 *y, struct err *e) {
        const struct {
                const char *rank, *bias, *first, *second;
                struct pair *pair;
                const float **bias_vec;
                enum pair_middle middle;
        } part[] = {
                {"attention.decay_lora_rank", "time_mix_w0.weight", "time_mix_w1.weight",
                        "time_mix_w2.weight", &y->decay, &y->decay_bias, PAIR_TANH},
                {"attention.iclr_lora_rank", "time_mix_a0.weight", "time_mix_a1.weight",
                        "time_mix_a2.weight", &y->a, &y->a_bias, PAIR_PLAIN},
                /* The first layer of a file has them, of any rank, and does not use them. */
                {"attention.value_residual_mix_lora_rank", "time_mix_v0.weight",
                        "time_mix_v1.weight", "time_mix_v2.weight", &y->value, &y->value_bias,
                        PAIR_PLAIN},
                {"attention.gate_lora_rank", NULL, "time_mix_g1.weight", "time_mix_g2.weight",
                        &y->gate, NULL, PAIR_SIGMOID},
        };
        size_t n_parts = has_gate(m) ? ARRAY_SIZE(part) : ARRAY_SIZE(part) - 1;
        size_t n = m->hparams.n_embd;
        int layer = (int)y->time.layer, r = 0;

        for (size_t i = 0; i < n_parts; i++) {
                uint32_t rank;

                r = hparams_u32(&m->hparams, part[i].rank, 1, HPARAMS_MAX_EMBD, &rank, e);
                if (r == 0 && part[i].bias)
                        r = weights_vec(&m->weights, part[i].bias_vec, layer, part[i].bias, n, e);
                if (part[i].pair == &y->value && layer == 0)
                        rank = 0;
                if (r == 0)
                        r = pair_load(m, part[i].pair, layer, part[i].first, part[i].second, n,
                                rank, n, e);
                if (r < 0)
                        return r;
                part[i].pair->middle = part[i].middle;
                y->rank = MAX(y->rank, part[i].pair->a.n_out);
        }
        return 0;
}

static int load(struct model *m, struct rwkv7 *y, uint32_t layer, struct err *e) {
        int r = rwkv_time_load(m, &y->time, layer, e);
        size_t n = m->hparams.n_embd;

        if (r == 0)
                r = rwkv_lerps(m, y->lerp, layer, N_USES, e);
        if (r == 0)
                r = load_pairs(m, y, e);
        if (r == 0)
                r = rwkv_vector(m, &y->time, &y->k_k, "time_mix_k_k.weight", e);
        if (r == 0)
                r = rwkv_vector(m, &y->time, &y->k_a, "time_mix_k_a.weight", e);
        if (r == 0)
                r = rwkv_vector(m, &y->time, &y->r_k, "time_mix_r_k.weight", e);
        if (r < 0)
                return r;
        m->dims.n_own = MAX(m->dims.n_own, n);
        m->dims.n_mix = MAX(m->dims.n_mix, (4 + N_USES) * n + y->time.wkv.n_head + y->rank);
        return 0;
}

static int rwkv7_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        struct rwkv7 *y = calloc(1, sizeof(*y));

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        return load(m, y, layer, e);
}

/* Rows in w->mix. */
struct rwkv7_rows {
        float *dx, *x, *kk, *y, *use[N_USES], *bonus, *low;
};

static struct rwkv7_rows place(const struct rwkv7 *y, const struct model_work *w, size_t n) {
        size_t all = n * y->time.wkv.n_head * y->time.wkv.n_key;
        float *p = w->mix;
        struct rwkv7_rows rows = {.dx = p, .x = p + all, .kk = p + 2 * all, .y = p + 3 * all};

        for (size_t i = 0; i < N_USES; i++)
                rows.use[i] = p + (4 + i) * all;
        rows.bonus = p + (4 + N_USES) * all;
        rows.low = rows.bonus + n * y->time.wkv.n_head;
        return rows;
}

/* The values of the first layer are kept, those of others mixed with them. */
static void mix_values(const struct rwkv7 *y, struct model_work *w, struct work_input *x,
        const struct rwkv7_rows *p) {
        size_t all = x->n * x->n_in;

        if (y->time.layer == 0) {
                memcpy(w->own, p->use[V], all * sizeof(*w->own));
                return;
        }
        pair_forward(&y->value, w, x, y->value_bias, p->low, p->y);
        kern_sigmoid(w->kern, p->y, all);
        kern_blend(w->kern, p->use[V], w->own, p->y, all);
}

static void uses(const struct rwkv7 *y, struct model_work *w, const struct work_input *in,
        const struct rwkv7_rows *p) {
        const struct kern_mat *const mats[N_USES] = {
                [R] = &y->time.r, [K] = &y->time.k, [V] = &y->time.v};
        const struct pair *const pairs[N_USES] = {[W] = &y->decay, [A] = &y->a, [G] = &y->gate};
        const float *const biases[N_USES] = {[W] = y->decay_bias, [A] = y->a_bias};
        static const float decay = DECAY;
        size_t d = in->n_in, n = in->n;

        for (int i = 0; i < N_USES; i++) {
                struct work_input x = work_input(p->x, d, n, w->act[0]);

                if (i == G && !y->gate.a.n_in)
                        continue;
                kern_lerp(w->kern, in->x, p->dx, y->lerp[i], NULL, d, n, p->x);
                if (mats[i])
                        work_matmul(w, &x, mats[i], NULL, p->use[i]);
                else
                        pair_forward(pairs[i], w, &x, biases[i], p->low, p->use[i]);
                if (i == V)
                        mix_values(y, w, &x, p);
        }
        kern_sigmoid(w->kern, p->use[W], n * d);
        kern_exp_scaled(w->kern, p->use[W], &decay, d, d, n);
        kern_sigmoid(w->kern, p->use[A], n * d);
}

static int rwkv7_forward(const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct rwkv7 *y = own;
        const struct kern_wkv *wkv = &y->time.wkv;
        size_t d = in->n_in, n = in->n;
        const struct rwkv7_rows p = place(y, w, n);
        struct work_input mixed = work_input(p.y, d, n, w->act[0]);
        const struct kern_wkv7_keys keys = {
                y->k_k, y->k_a, y->r_k, p.use[R], p.use[A], p.use[K], p.kk, p.bonus};
        const struct kern_wkv_rows rows = {.r = p.use[R],
                .w = p.use[W],
                .k = p.use[K],
                .v = p.use[V],
                .out = p.y,
                .kk = p.kk,
                .a = p.use[A]};
        int r = work_wait(w, y->time.layer);

        if (r)
                return r;
        kern_token_shift(w->kern, w->runs, w->n_runs, y->time.shift_offset, in->x, d, p.dx);
        uses(y, w, in, &p);
        kern_wkv7_keys(w->kern, wkv, n, &keys);
        kern_wkv7(w->kern, wkv, w->runs, w->n_runs, &rows);
        kern_group_norm(w->kern, p.y, wkv->n_head, wkv->n_key, y->time.norm_weight,
                y->time.norm_bias, RWKV_HEAD_EPS, n);
        kern_add_scaled_rows(w->kern, p.y, p.use[V], p.bonus, wkv->n_key, n * wkv->n_head);
        if (y->gate.a.n_in)
                kern_mul(w->kern, p.y, p.use[G], n * d);
        work_matmul(w, &mixed, &y->time.out, NULL, out);
        return 0;
}

const struct mixer mixer_rwkv7 = {"time mix 7", rwkv7_load, NULL, rwkv7_forward};
