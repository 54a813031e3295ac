/* SPDX-License-Identifier: MIT */
/* Loading a model: its positions, its layers, its ends. */
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"
#include "model/stack.h"

/* The tensors of a layer's norms, by enum arch_order. */
struct norm_names {
        const char *pre_attn, *post_attn, *pre_ffn, *post_ffn; /* NULL: none */
};
static const struct norm_names norm_names[] = {
        [ARCH_PRE] = {"attn_norm", NULL, "ffn_norm", NULL},
        [ARCH_PRE_RENAMED] = {"attn_norm", NULL, "post_attention_norm", NULL},
        [ARCH_PRE_BARE] = {"attn_norm", NULL, "ffn_norm", NULL},
        [ARCH_PRE_NUMBERED] = {"attn_norm", NULL, "attn_norm_2", NULL},
        [ARCH_POST] = {NULL, "post_attention_norm", NULL, "post_ffw_norm"},
        [ARCH_PRE_AND_POST] = {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"},
        [ARCH_PARALLEL] = {"attn_norm", NULL, NULL, NULL},
        [ARCH_PARALLEL_OR_PRE] = {"attn_norm", NULL, "ffn_norm", NULL},
        [ARCH_FIRST_ALONE] = {"attn_norm", NULL, NULL, NULL},
        [ARCH_EITHER] = {"attn_norm", NULL, "attn_norm", NULL},
};

/* A model, not a layer, has the second norm or has none: one that is missing must not pass. */
static bool is_parallel(const struct model *m) {
        if (m->arch->order == ARCH_PARALLEL_OR_PRE) {
                for (uint32_t i = 0; i < m->hparams.n_layer; i++)
                        if (weights_has(&m->weights, (int)i, "ffn_norm.weight"))
                                return false;
                return true;
        }
        return m->arch->order == ARCH_PARALLEL;
}

static int load_norms(struct model *m, struct layer *y, uint32_t i, struct err *e) {
        const struct norm_names *n = &norm_names[m->arch->order];
        const struct {
                const char *name;
                struct norm *norm;
        } part[] = {
                {n->pre_attn, &y->pre_attn},
                {n->post_attn, &y->post_attn},
                {n->pre_ffn, &y->pre_ffn},
                {n->post_ffn, &y->post_ffn},
        };

        y->parallel = is_parallel(m);
        for (size_t k = 0; k < ARRAY_SIZE(part); k++) {
                bool is_second = k >= 2;
                int r;

                if (!part[k].name || (y->parallel && part[k].norm == &y->pre_ffn) ||
                        !(is_second ? y->feeds : y->mixes))
                        continue;
                if (is_second && m->arch->order == ARCH_PRE_BARE)
                        r = norm_load_bare(
                                m, part[k].norm, (int)i, part[k].name, m->hparams.n_embd, e);
                else
                        r = norm_load(m, part[k].norm, (int)i, part[k].name, m->hparams.n_embd, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Keys and values come from the last layer of the same kind before the first that has none. */
static const struct attn *kv_source(const struct model *m, uint32_t i) {
        const struct hparams *h = &m->hparams;

        if (i < h->first_shared_kv)
                return NULL;
        for (uint32_t j = h->first_shared_kv; j-- > 0;)
                if (h->local[j] == h->local[i])
                        return &m->stack->layers[j].attn;
        return NULL;
}

/* The layer's first branch. */
static int load_mixer(struct model *m, struct layer *y, uint32_t i, struct err *e) {
        y->mixer = m->hparams.recurrent[i] ? m->arch->recurrent : m->arch->attention;
        if (!y->mixer)
                return attn_load(m, &y->attn, i, kv_source(m, i), e);
        return y->mixer->load(m, &y->own, i, e);
}

static int load_layer(struct model *m, uint32_t i, struct err *e) {
        struct layer *y = &m->stack->layers[i];
        int r;

        y->mixes = hparams_layer_mixes(&m->hparams, i);
        y->feeds = hparams_layer_feeds(&m->hparams, i);
        r = load_norms(m, y, i, e);
        if (r == 0 && y->mixes)
                r = load_mixer(m, y, i, e);
        if (r < 0 || !y->feeds)
                return r;
        if (m->arch->second)
                return m->arch->second->load(m, &y->second, i, e);
        y->experts = hparams_layer_has_experts(&m->hparams, i);
        return y->experts ? moe_load(m, &y->moe, i, e) : ffn_load(m, &y->ffn, i, e);
}

/* The factors that divide the frequencies of the global layers' positions, if the file has any. */
static int load_rope_factors(struct model *m, const float **ret, struct err *e) {
        const struct hparams_rope *p = &m->hparams.rope;
        static const char *const names[] = {
                "rope_factors_short.weight", "rope_factors_long.weight"};
        const char *name = "rope_freqs.weight";
        uint32_t n = p->n_rot / 2;
        int r;

        if (m->arch->rope_longrope && weights_has(&m->weights, -1, names[0])) {
                const float *factors[2];

                m->variant = m->context > p->orig_context;
                name = names[m->variant];
                r = weights_vec(&m->weights, &factors[0], -1, names[0], n, e);
                if (r == 0)
                        r = weights_vec(&m->weights, &factors[1], -1, names[1], n, e);
                if (r == 0)
                        *ret = factors[m->variant];
        } else {
                r = weights_vec_opt(&m->weights, ret, -1, name, n, e);
        }
        if (r < 0)
                return r;
        for (uint32_t i = 0; *ret && i < n; i++)
                if (!((*ret)[i] >= 1e-6f))
                        return err_set(e, ERR_FORMAT, "%s has the factor %g at %u", name,
                                (double)(*ret)[i], i);
        return 0;
}

static int load_ropes(struct model *m, struct err *e) {
        const struct hparams *h = &m->hparams;
        bool neox = m->arch->rope == ARCH_ROPE_NEOX, is_local = h->window || h->chunk;
        const float *factors = NULL;
        int r;

        if (!hparams_has_positions(h))
                return 0;
        r = load_rope_factors(m, &factors, e);
        if (r == 0)
                r = rope_init(&m->ropes[0], &h->rope, neox, factors, m->context, e);
        if (h->local_rope.n_rot != h->rope.n_rot || m->arch->local.rope_unscaled)
                factors = NULL;
        if (r == 0 && is_local)
                r = rope_init(&m->ropes[1], &h->local_rope, neox, factors, m->context, e);
        return r;
}

int stack_load(struct model *m, struct err *e) {
        const struct arch_code *code = m->arch->code;
        uint32_t n_layer = m->hparams.n_layer;
        struct stack *s;
        int r;

        s = calloc(1, sizeof(*s) + n_layer * sizeof(*s->layers));
        if (!s)
                return err_set(e, ERR_NOMEM, "no memory for %u layers", n_layer);
        m->stack = s;
        s->n_layer = n_layer;
        r = embedding_load(m, &s->embedding, e);
        if (r == 0)
                r = load_ropes(m, e);
        for (uint32_t i = 0; r == 0 && i < n_layer; i++)
                r = load_layer(m, i, e);
        if (r == 0)
                r = output_load(m, &s->output, &s->embedding, e);
        if (r == 0 && code && code->load)
                r = code->load(m, e);
        return r;
}

struct stack *stack_free(struct stack *s) {
        for (uint32_t i = 0; s && i < s->n_layer; i++) {
                free(s->layers[i].own);
                free(s->layers[i].second);
        }
        free(s);
        return NULL;
}
