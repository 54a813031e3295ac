/* SPDX-License-Identifier: MIT */
#include "model/block-ffn.h"

#include <stdio.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

struct ffn_part {
        const char *name;
        struct kern_mat *mat;
        const float **bias;
        size_t n_in, n_out;
};

/* "ffn_@name@suffix" and its bias. */
static int ffn_load_part(struct model *m, const struct ffn_part *part, const char *suffix,
        uint32_t layer, struct err *e) {
        char full[64];
        int r;

        snprintf(full, sizeof(full), "ffn_%s%s.weight", part->name, suffix);
        r = weights_mat(&m->weights, part->mat, (int)layer, full, part->n_in, part->n_out, e);
        if (r < 0)
                return r;
        snprintf(full, sizeof(full), "ffn_%s%s.bias", part->name, suffix);
        r = weights_bias(&m->weights, part->bias, (int)layer, full, part->n_out,
                m->arch->biases == ARCH_BIASES_ALL, e);
        if (r < 0)
                return r;
        work_dims_mat(&m->dims, part->mat);
        return 0;
}

static int ffn_load_parts(struct model *m, struct ffn *f, const char *suffix, uint32_t layer,
        size_t n_ff, struct err *e) {
        size_t n_embd = m->hparams.n_embd, n_up = f->kind == ARCH_FFN_FUSED ? 2 * n_ff : n_ff;
        const struct ffn_part part[] = {
                {"down", &f->down, &f->down_bias, n_ff, n_embd},
                {"up", &f->up, &f->up_bias, n_embd, n_up},
                {"gate", &f->gate, &f->gate_bias, n_embd, n_ff},
        };

        for (size_t i = 0; i < (f->kind == ARCH_FFN_GATED ? 3 : 2); i++) {
                int r = ffn_load_part(m, &part[i], suffix, layer, e);

                if (r < 0)
                        return r;
        }
        if (f->kind == ARCH_FFN_FUSED) {
                struct kern_mat both = f->up;

                f->gate = weights_rows(&both, 0, n_ff);
                f->up = weights_rows(&both, n_ff, n_ff);
                if (f->up_bias) {
                        f->gate_bias = f->up_bias;
                        f->up_bias += n_ff;
                }
        }
        m->dims.n_ff = MAX(m->dims.n_ff, n_ff);
        return 0;
}

int ffn_load(struct model *m, struct ffn *ret, uint32_t layer, struct err *e) {
        struct ffn f = {.kind = m->arch->ffn, .activation = m->arch->activation};
        int r = ffn_load_parts(m, &f, "", layer, m->hparams.n_ff[layer], e);

        if (r < 0)
                return r;
        *ret = f;
        return 0;
}

int ffn_load_shared(struct model *m, struct ffn *ret, uint32_t layer, struct err *e) {
        bool plain = m->arch->ffn == ARCH_FFN_PLAIN;
        struct ffn f = {
                .kind = plain ? ARCH_FFN_PLAIN : ARCH_FFN_GATED, .activation = m->arch->activation};
        size_t n_ff;
        int r;

        r = weights_n_in(
                &m->weights, &n_ff, (int)layer, "ffn_down_shexp.weight", HPARAMS_MAX_FF, e);
        if (r < 0)
                return r;
        r = ffn_load_parts(m, &f, "_shexp", layer, n_ff, e);
        if (r < 0)
                return r;
        *ret = f;
        return 0;
}

void ffn_down(const struct ffn *f, struct model_work *w, const struct work_input *in, float *out) {
        struct work_input hidden = work_input(w->gate, f->down.n_in, in->n, w->act[1]);

        work_matmul(w, &hidden, &f->down, f->down_bias, out);
}

void ffn_forward(const struct ffn *f, struct model_work *w, struct work_input *in, float *out) {
        size_t n = in->n * f->up.n_out;

        if (f->kind == ARCH_FFN_PLAIN) {
                work_matmul(w, in, &f->up, f->up_bias, w->gate);
                kern_activate(w->kern, f->activation, w->gate, NULL, w->gate, n);
        } else {
                const struct work_product both[] = {
                        {&f->gate, f->gate_bias, w->gate}, {&f->up, f->up_bias, w->up}};

                work_matmul_all(w, in, both, ARRAY_SIZE(both));
                kern_activate(w->kern, f->activation, w->gate, w->up, w->gate, n);
        }
        ffn_down(f, w, in, out);
}
