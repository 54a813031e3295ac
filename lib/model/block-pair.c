/* SPDX-License-Identifier: MIT */
#include "model/block-pair.h"

#include "model/internal.h"

int pair_load(struct model *m, struct pair *ret, int layer, const char *a, const char *b,
        size_t n_in, size_t rank, size_t n_out, struct err *e) {
        int r = 0;

        if (!rank)
                r = weights_n_in(&m->weights, &rank, layer, b, HPARAMS_MAX_EMBD, e);
        if (r == 0)
                r = weights_mat(&m->weights, &ret->a, layer, a, n_in, rank, e);
        if (r == 0)
                r = weights_mat(&m->weights, &ret->b, layer, b, rank, n_out, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, &ret->a);
        work_dims_mat(&m->dims, &ret->b);
        return 0;
}

void pair_forward(const struct pair *p, struct model_work *w, struct work_input *in,
        const float *bias, float *low, float *out) {
        struct work_input second = work_input(low, p->a.n_out, in->n, w->act[1]);

        work_matmul(w, in, &p->a, NULL, low);
        if (p->middle == PAIR_TANH)
                kern_softcap(w->kern, low, 1.0f, in->n * p->a.n_out);
        else if (p->middle == PAIR_SIGMOID)
                kern_sigmoid(w->kern, low, in->n * p->a.n_out);
        work_matmul(w, &second, &p->b, bias, out);
}
