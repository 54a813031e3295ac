/* SPDX-License-Identifier: MIT */
#include "model/block-moe.h"

#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

/* Keeps the division defined when every chosen probability underflowed (smallest normal half). */
#define MOE_MIN_SUM 6.103515625e-5f

/* One matrix per expert with the rows of gate, then up. 0, 1 absent, or an error. */
static int moe_load_fused(struct model *m, struct moe *moe, int layer, size_t n_embd, size_t n_ff,
        size_t n, struct err *e) {
        struct weights_stack fused;
        int r = weights_stack_opt(
                &m->weights, &fused, layer, "ffn_gate_up_exps.weight", n_embd, 2 * n_ff, n, e);

        if (r)
                return r;
        moe->gate = moe->up = fused;
        moe->gate.first = weights_rows(&fused.first, 0, n_ff);
        moe->up.first = weights_rows(&fused.first, n_ff, n_ff);
        return 0;
}

int moe_load(struct model *m, struct moe *ret, uint32_t layer, struct err *e) {
        const struct hparams *h = &m->hparams;
        struct moe moe = {.n_used = h->n_expert_used, .scale = h->expert_scale};
        struct weights *ws = &m->weights;
        struct work_dims *d = &m->dims;
        size_t n_embd = h->n_embd, n_ff = h->n_ff_expert, n = h->n_expert;
        int l = (int)layer, r;

        r = weights_mat(ws, &moe.router, l, "ffn_gate_inp.weight", n_embd, n, e);
        if (r < 0)
                return r;
        r = moe_load_fused(m, &moe, l, n_embd, n_ff, n, e);
        if (r == 1) {
                r = weights_stack(ws, &moe.gate, l, "ffn_gate_exps.weight", n_embd, n_ff, n, e);
                if (r < 0)
                        return r;
                r = weights_stack(ws, &moe.up, l, "ffn_up_exps.weight", n_embd, n_ff, n, e);
        }
        if (r < 0)
                return r;
        r = weights_stack(ws, &moe.down, l, "ffn_down_exps.weight", n_ff, n_embd, n, e);
        if (r < 0)
                return r;
        d->n_ff = MAX(d->n_ff, n_ff);
        d->n_expert = MAX(d->n_expert, n);
        d->n_expert_used = MAX(d->n_expert_used, (size_t)h->n_expert_used);
        work_dims_mat(d, &moe.router);
        work_dims_mat(d, &moe.gate.first);
        work_dims_mat(d, &moe.up.first);
        work_dims_mat(d, &moe.down.first);
        *ret = moe;
        return 0;
}

void moe_choose(const float *probs, uint32_t n, uint32_t n_used, float scale, uint32_t *ret_expert,
        float *ret_weight) {
        float sum = 0.0f;

        for (uint32_t j = 0; j < n_used; j++) {
                uint32_t best = UINT32_MAX;

                for (uint32_t i = 0; i < n; i++) {
                        bool taken = false;

                        for (uint32_t p = 0; p < j; p++)
                                taken |= ret_expert[p] == i;
                        /* The first free one stands in when all are NaN (a broken model). */
                        if (!taken && (best == UINT32_MAX || probs[i] > probs[best]))
                                best = i;
                }
                ret_expert[j] = best;
                ret_weight[j] = probs[best];
                sum += probs[best];
        }
        if (!(sum > MOE_MIN_SUM))
                sum = MOE_MIN_SUM;
        for (uint32_t j = 0; j < n_used; j++) {
                ret_weight[j] /= sum;
                if (scale != 1.0f)
                        ret_weight[j] *= scale;
        }
}

/* Counting sort of the choices by expert: fills start, slot and token. */
static void moe_group(struct work_moe *s, size_t n, uint32_t n_expert, uint32_t n_used) {
        size_t n_choices = n * n_used;

        memset(s->start, 0, (n_expert + 1) * sizeof(*s->start));
        for (size_t c = 0; c < n_choices; c++)
                s->start[s->expert[c] + 1]++;
        for (uint32_t i = 0; i < n_expert; i++)
                s->start[i + 1] += s->start[i];
        for (size_t c = 0; c < n_choices; c++) {
                uint32_t slot = s->start[s->expert[c]]++;

                s->slot[c] = slot;
                s->token[slot] = (uint32_t)(c / n_used);
        }
        /* Each start has moved to the next expert's: shift back. */
        for (uint32_t i = n_expert; i > 0; i--)
                s->start[i] = s->start[i - 1];
        s->start[0] = 0;
}

static void moe_expert(
        const struct moe *moe, struct model_work *w, struct work_input *all, uint32_t expert) {
        struct work_moe *s = &w->moe;
        struct kern_mat gate = weights_stack_at(&moe->gate, expert);
        struct kern_mat up = weights_stack_at(&moe->up, expert);
        struct kern_mat down = weights_stack_at(&moe->down, expert);
        size_t from = s->start[expert], n = s->start[expert + 1] - from, n_embd = all->n_in;
        struct work_input some = work_input(s->x, n_embd, n, w->act[1]), *in = &some;
        struct work_input hidden = work_input(w->gate, down.n_in, n, w->act[1]);

        if (!n)
                return;
        /* An expert of every token sees the batch as it is (always so with one token). */
        if (n == all->n)
                in = all;
        else
                for (size_t i = 0; i < n; i++)
                        memcpy(s->x + i * n_embd, all->x + s->token[from + i] * n_embd,
                                n_embd * sizeof(float));
        work_matmul(w, in, &gate, NULL, w->gate);
        work_matmul(w, in, &up, NULL, w->up);
        kern_activate(w->kern, KERN_SILU, w->gate, w->up, w->gate, n * gate.n_out);
        work_matmul(w, &hidden, &down, NULL, s->out + from * n_embd);
}

void moe_forward(const struct moe *moe, struct model_work *w, struct work_input *in, float *out) {
        struct work_moe *s = &w->moe;
        uint32_t n_expert = (uint32_t)moe->router.n_out, n_used = moe->n_used;
        size_t n_embd = in->n_in;

        work_matmul(w, in, &moe->router, NULL, s->probs);
        for (size_t t = 0; t < in->n; t++) {
                kern_softmax(w->kern, s->probs + t * n_expert, n_expert);
                moe_choose(s->probs + t * n_expert, n_expert, n_used, moe->scale,
                        s->expert + t * n_used, s->weight + t * n_used);
        }
        moe_group(s, in->n, n_expert, n_used);
        for (uint32_t i = 0; i < n_expert; i++)
                moe_expert(moe, w, in, i);
        memset(out, 0, in->n * n_embd * sizeof(*out));
        for (size_t c = 0; c < in->n * n_used; c++)
                kern_add_scaled(w->kern, out + c / n_used * n_embd, s->out + s->slot[c] * n_embd,
                        s->weight[c], n_embd);
}
