/* SPDX-License-Identifier: MIT */
#include "model/block-rwkv.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"
#include "model/mixer.h"

static int load_heads(struct model *m, struct rwkv_time *y, struct err *e) {
        uint32_t n_embd = m->hparams.n_embd, size, n_shift, panel;
        int r = hparams_u32(&m->hparams, "wkv.head_size", 1, KERN_STATE_KEYS, &size, e);

        if (r < 0)
                return r;
        if (n_embd % size)
                return err_set(e, ERR_FORMAT,
                        "%s.embedding_length %u is no multiple of wkv.head_size %u", m->arch->name,
                        n_embd, size);
        /* One row in each of the two branches. */
        r = hparams_u32_or(&m->hparams, "token_shift_count", 2, 2, 2, &n_shift, e);
        if (r < 0)
                return r;
        y->wkv.n_head = n_embd / size;
        y->wkv.n_key = size;
        panel = (uint32_t)kern_state_panel(size);
        r = state_book(m, y->layer, 1, n_embd, 1, &y->shift_offset, e);
        return r < 0 ? r
                     : state_book(
                               m, y->layer, n_embd / panel, panel, size, &y->wkv.state_offset, e);
}

int rwkv_time_load(struct model *m, struct rwkv_time *ret, uint32_t layer, struct err *e) {
        struct rwkv_time y = {.layer = layer};
        size_t n = m->hparams.n_embd;
        const struct {
                const char *name;
                struct kern_mat *mat;
        } part[] = {
                {"time_mix_receptance.weight", &y.r},
                {"time_mix_key.weight", &y.k},
                {"time_mix_value.weight", &y.v},
                {"time_mix_output.weight", &y.out},
        };
        int r = load_heads(m, &y, e);

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(part); i++) {
                r = weights_mat(&m->weights, part[i].mat, (int)layer, part[i].name, n, n, e);
                if (r == 0)
                        work_dims_mat(&m->dims, part[i].mat);
        }
        if (r == 0)
                r = weights_vec(
                        &m->weights, &y.norm_weight, (int)layer, "time_mix_ln.weight", n, e);
        if (r == 0)
                r = weights_vec(&m->weights, &y.norm_bias, (int)layer, "time_mix_ln.bias", n, e);
        if (r == 0)
                *ret = y;
        return r;
}

int rwkv_lerps(struct model *m, const float **ret, uint32_t layer, size_t n, struct err *e) {
        static const char name[] = "time_mix_lerp_fused.weight";
        const size_t shape[4] = {m->hparams.n_embd, 1, 1, n};
        const float *fused;
        int r = weights_vec_shaped_opt(&m->weights, &fused, (int)layer, name, shape, e);

        if (r)
                return r == 1 ? weights_missing((int)layer, name, e) : r;
        for (size_t i = 0; i < n; i++)
                ret[i] = fused + i * m->hparams.n_embd;
        return 0;
}

int rwkv_vector(struct model *m, const struct rwkv_time *y, const float **ret, const char *name,
        struct err *e) {
        size_t n = m->hparams.n_embd, size = y->wkv.n_key, row;
        int layer = (int)y->layer, r;

        r = weights_n_in(&m->weights, &row, layer, name, HPARAMS_MAX_EMBD, e);
        if (r < 0)
                return r;
        return row == size ? weights_rows_vec_opt(&m->weights, ret, layer, name, size, n / size, e)
                           : weights_vec(&m->weights, ret, layer, name, n, e);
}

/* The second branch: wv relu(wk x_k)^2, in version 6 times sigmoid(wr x_r). */
struct channel_mix {
        struct kern_mat key, value, receptance; /* n_in of 0: none */
        const float *lerp_k, *lerp_r;           /* [n_embd] */
        size_t shift_offset;
};

static int channel_mix_load(
        struct model *m, void **ret, uint32_t layer, bool receptance, struct err *e) {
        size_t n = m->hparams.n_embd, n_ff = m->hparams.n_ff[layer];
        struct channel_mix *y = calloc(1, sizeof(*y));
        struct weights *w = &m->weights;
        int i = (int)layer, r;

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for layer %u", layer);
        *ret = y;
        r = weights_mat(w, &y->key, i, "channel_mix_key.weight", n, n_ff, e);
        if (r == 0)
                r = weights_mat(w, &y->value, i, "channel_mix_value.weight", n_ff, n, e);
        if (r == 0)
                r = weights_vec(w, &y->lerp_k, i, "channel_mix_lerp_k.weight", n, e);
        if (r == 0 && receptance)
                r = weights_mat(w, &y->receptance, i, "channel_mix_receptance.weight", n, n, e);
        if (r == 0 && receptance)
                r = weights_vec(w, &y->lerp_r, i, "channel_mix_lerp_r.weight", n, e);
        if (r == 0)
                r = state_book(m, layer, 1, m->hparams.n_embd, 1, &y->shift_offset, e);
        if (r < 0)
                return r;
        m->dims.n_ff = MAX(m->dims.n_ff, n_ff);
        m->dims.n_mix = MAX(m->dims.n_mix, 3 * n);
        work_dims_mat(&m->dims, &y->key);
        work_dims_mat(&m->dims, &y->value);
        if (receptance)
                work_dims_mat(&m->dims, &y->receptance);
        return 0;
}

static int channel_mix6_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        return channel_mix_load(m, ret, layer, true, e);
}

static int channel_mix7_load(struct model *m, void **ret, uint32_t layer, struct err *e) {
        return channel_mix_load(m, ret, layer, false, e);
}

/* The layer's memory is there: the time mix has waited for it. */
static int channel_mix_forward(
        const void *own, struct model_work *w, struct work_input *in, float *out) {
        const struct channel_mix *y = own;
        size_t n = in->n, d = in->n_in, n_ff = y->key.n_out;
        float *dx = w->mix, *x = dx + n * d, *gate = x + n * d;
        struct work_input mixed = work_input(x, d, n, w->act[0]);
        struct work_input hidden = work_input(w->gate, n_ff, n, w->act[1]);

        kern_token_shift(w->kern, w->runs, w->n_runs, y->shift_offset, in->x, d, dx);
        kern_lerp(w->kern, in->x, dx, y->lerp_k, NULL, d, n, x);
        work_matmul(w, &mixed, &y->key, NULL, w->gate);
        kern_activate(w->kern, KERN_RELU2, w->gate, NULL, w->gate, n * n_ff);
        work_matmul(w, &hidden, &y->value, NULL, out);
        if (!y->receptance.n_in)
                return 0;
        kern_lerp(w->kern, in->x, dx, y->lerp_r, NULL, d, n, x);
        mixed = work_input(x, d, n, w->act[0]);
        work_matmul(w, &mixed, &y->receptance, NULL, gate);
        kern_sigmoid(w->kern, gate, n * d);
        kern_mul(w->kern, out, gate, n * d);
        return 0;
}

const struct mixer mixer_channel_mix6 = {
        "channel mix 6", channel_mix6_load, NULL, channel_mix_forward};
const struct mixer mixer_channel_mix7 = {
        "channel mix 7", channel_mix7_load, NULL, channel_mix_forward};
