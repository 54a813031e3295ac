/* SPDX-License-Identifier: MIT */
#include "model/block-ffn.h"

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

int ffn_load(struct model *m, struct ffn *ret, uint32_t layer, struct err *e) {
        size_t n_embd = m->hparams.n_embd, n_ff = m->hparams.n_ff[layer];
        struct ffn f = {0};
        const struct {
                const char *weight, *bias;
                struct kern_mat *mat;
                const float **vec;
                size_t n_in, n_out;
        } part[] = {
                {"ffn_gate.weight", "ffn_gate.bias", &f.gate, &f.gate_bias, n_embd, n_ff},
                {"ffn_up.weight", "ffn_up.bias", &f.up, &f.up_bias, n_embd, n_ff},
                {"ffn_down.weight", "ffn_down.bias", &f.down, &f.down_bias, n_ff, n_embd},
        };

        for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
                int r = weights_mat(&m->weights, part[i].mat, (int)layer, part[i].weight,
                        part[i].n_in, part[i].n_out, e);

                if (r < 0)
                        return r;
                r = weights_vec_opt(
                        &m->weights, part[i].vec, (int)layer, part[i].bias, part[i].n_out, e);
                if (r < 0)
                        return r;
                work_dims_mat(&m->dims, part[i].mat);
        }
        m->dims.n_ff = MAX(m->dims.n_ff, n_ff);
        *ret = f;
        return 0;
}

void ffn_forward(const struct ffn *f, struct model_work *w, struct work_input *in, float *out) {
        struct work_input hidden = work_input(w->gate, f->down.n_in, in->n, w->act[1]);

        work_matmul(w, in, &f->gate, f->gate_bias, w->gate);
        work_matmul(w, in, &f->up, f->up_bias, w->up);
        kern_activate(w->kern, KERN_SILU, w->gate, w->up, w->gate, in->n * f->gate.n_out);
        work_matmul(w, &hidden, &f->down, f->down_bias, out);
}
