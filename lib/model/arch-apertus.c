/* SPDX-License-Identifier: MIT */
/*
 * apertus: the feed-forward is down(xielu(up x)), with an activation (Huang and Schlag 2024,
 * arXiv:2411.13010) whose parameters are keys with one value per layer and without the
 * architecture's prefix.
 */
#include <math.h>
#include <stdlib.h>

#include "base/dmath.h"
#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "model/internal.h"
#include "model/stack.h"

struct xielu {
        float alpha_p, alpha_n, beta, eps;
};

static float softplus(double x) {
        return (float)(x > 20.0 ? x : dmath_log(1.0 + dmath_exp(x)));
}

/* One value per layer into @ret, @stride floats apart. */
static int read_key(
        const struct model *m, const char *key, float *ret, size_t stride, struct err *e) {
        uint32_t n = m->hparams.n_block;
        struct gguf_array a;
        int r = gguf_get_array(m->hparams.gguf, key, &a, e);

        if (r < 0)
                return r;
        if (r == 1)
                return err_set(e, ERR_FORMAT, "%s is missing", key);
        if (a.type != GGUF_F32 || a.count != n)
                return err_set(e, ERR_FORMAT, "%s must be %u floats, one per layer", key, n);
        for (uint32_t i = 0; i < m->hparams.n_layer; i++) {
                double v = gguf_array_f64(&a, i);

                if (!(fabs(v) <= 1e6))
                        return err_set(e, ERR_FORMAT, "%s is %g for layer %u, outside -1e6 to 1e6",
                                key, v, i);
                ret[i * stride] = (float)v;
        }
        return 0;
}

static int apertus_load(struct model *m, struct err *e) {
        uint32_t n = m->hparams.n_layer;
        size_t stride = sizeof(struct xielu) / sizeof(float);
        struct xielu *x = calloc(n, sizeof(*x));
        const struct {
                const char *key;
                float *to;
        } keys[] = {
                {"xielu.alpha_p", &x->alpha_p},
                {"xielu.alpha_n", &x->alpha_n},
                {"xielu.beta", &x->beta},
                {"xielu.eps", &x->eps},
        };

        if (!x)
                return err_set(e, ERR_NOMEM, "no memory for %u layers", n);
        m->own = x;
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                int r = read_key(m, keys[i].key, keys[i].to, stride, e);

                if (r < 0)
                        return r;
        }
        for (uint32_t i = 0; i < n; i++) {
                x[i].alpha_p = softplus(x[i].alpha_p);
                x[i].alpha_n = softplus(x[i].alpha_n);
        }
        return 0;
}

static void apertus_ffn(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct xielu *x = (const struct xielu *)m->own + layer;
        const struct layer *y = &m->stack->layers[layer];
        size_t n_embd = m->hparams.n_embd;
        struct work_input in = work_input(w->norm, n_embd, w->n, w->act[0]);

        norm_forward(&y->pre_ffn, w, w->x, w->norm, n_embd, w->n);
        work_matmul(w, &in, &y->ffn.up, y->ffn.up_bias, w->gate);
        kern_xielu(w->kern, w->gate, w->gate, w->n * y->ffn.up.n_out, x->alpha_p, x->alpha_n,
                x->beta, x->eps);
        ffn_down(&y->ffn, w, &in, w->branch);
}

const struct arch_code arch_apertus = {.load = apertus_load, .free = free, .ffn = apertus_ffn};
