/* SPDX-License-Identifier: MIT */
/*
 * RWKV 6 and 7: stacks of time mix and channel mix (block-rwkv.h) without any attention. Embeddings are
 * normed. Version 6 may halve the residual after every n-th layer, to stay within half precision; its
 * file's weights are divided accordingly.
 */
#include <stdlib.h>

#include "base/err.h"
#include "model/block-norm.h"
#include "model/internal.h"
#include "model/mixer.h"
#include "model/stack.h"

struct rwkv {
        struct norm embedding;
        uint32_t halve_every; /* 0: never */
};

static int rwkv_load(struct model *m, struct err *e) {
        struct rwkv *y = calloc(1, sizeof(*y));
        int r;

        if (!y)
                return err_set(e, ERR_NOMEM, "no memory for a model");
        m->own = y;
        r = norm_load(m, &y->embedding, -1, "token_embd_norm", m->hparams.n_embd, e);
        if (r == 0 && m->arch->recurrent == &mixer_rwkv6)
                r = hparams_u32_or(&m->hparams, "rescale_every_n_layers", 0, HPARAMS_MAX_LAYERS, 0,
                        &y->halve_every, e);
        return r;
}

static void rwkv_begin(const struct model *m, struct model_work *w) {
        const struct rwkv *y = m->own;

        norm_forward(&y->embedding, w, w->x, w->x, m->hparams.n_embd, w->n);
}

static void rwkv_after(const struct model *m, struct model_work *w, uint32_t layer) {
        const struct rwkv *y = m->own;

        if (y->halve_every && (layer + 1) % y->halve_every == 0)
                kern_scale(w->kern, w->x, 0.5f, w->n * m->hparams.n_embd);
}

const struct arch_code arch_rwkv = {
        .load = rwkv_load, .free = free, .begin = rwkv_begin, .after = rwkv_after};
