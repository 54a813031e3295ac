/* SPDX-License-Identifier: MIT */
/* Parameters of the feed-forward layers, of experts, and of the two ends of a model. */
#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"

static int hparams_read_router(struct hparams *h, struct hparams_experts *x, struct err *e) {
        static const enum arch_router by_number[] = {[1] = ARCH_ROUTER_SOFTMAX,
                [2] = ARCH_ROUTER_SIGMOID,
                [3] = ARCH_ROUTER_SOFTMAX_CHOSEN};
        bool fixed = h->arch->experts.router == ARCH_ROUTER_SIGMOID_INPUT ||
                     h->arch->experts.router == ARCH_ROUTER_SOFTMAX_CHOSEN;
        uint32_t number;
        int r;

        r = hparams_u32_or(h, "expert_gating_func", 0, ARRAY_SIZE(by_number) - 1, 0, &number, e);
        if (r < 0)
                return r;
        x->router = number && !fixed ? by_number[number] : h->arch->experts.router;
        if (x->router == ARCH_ROUTER_BY_KEY)
                return hparams_missing(h, "expert_gating_func", e);
        x->renormalise = h->arch->experts.renormalise == ARCH_RENORMALISE;
        if (h->arch->experts.renormalise == ARCH_RENORMALISE_BY_KEY)
                return hparams_bool_or(h, "expert_weights_norm", false, &x->renormalise, e);
        return 0;
}

static int hparams_read_groups(struct hparams *h, struct hparams_experts *x, struct err *e) {
        int r;

        r = hparams_u32_or(h, "expert_group_count", 0, x->n, 1, &x->n_group, e);
        if (r < 0)
                return r;
        x->n_group = MAX(x->n_group, 1u);
        x->n_group_used = 1;
        if (x->n_group == 1)
                return 0;
        r = hparams_u32(h, "expert_group_used_count", 1, x->n_group, &x->n_group_used, e);
        if (r < 0)
                return r;
        if (x->n % x->n_group || x->n / x->n_group * x->n_group_used < x->n_used)
                return err_set(e, ERR_FORMAT,
                        "%s has %u experts in %u groups, which give no %u in %u groups",
                        h->arch->name, x->n, x->n_group, x->n_used, x->n_group_used);
        return 0;
}

/* Whether there is a feed-forward beside the experts. Its size is that of its tensors. */
static int hparams_read_shared(struct hparams *h, struct hparams_experts *x, struct err *e) {
        uint32_t count, size;
        int r;

        x->shared = h->arch->experts.shared >= ARCH_SHARED;
        if (h->arch->experts.shared != ARCH_SHARED_IF_COUNTED)
                return 0;
        r = hparams_u32_or(h, "expert_shared_count", 0, HPARAMS_MAX_EXPERTS, 0, &count, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "expert_shared_feed_forward_length", 0, HPARAMS_MAX_FF, 0, &size, e);
        x->shared = count || size;
        return r;
}

static int hparams_read_expert_size(struct hparams *h, struct hparams_experts *x, struct err *e) {
        uint32_t fallback = h->n_ff[h->n_layer - 1];
        int r = 0;

        if (h->arch->experts.size_is_ff)
                x->n_ff = fallback;
        else
                r = hparams_u32_or(
                        h, "expert_feed_forward_length", 1, HPARAMS_MAX_FF, fallback, &x->n_ff, e);
        if (r < 0)
                return r;
        return x->n_ff ? 0 : hparams_missing(h, "expert_feed_forward_length", e);
}

static int hparams_read_experts(struct hparams *h, struct hparams_experts *x, struct err *e) {
        int r;

        r = hparams_u32(h, "expert_used_count", 1, x->n, &x->n_used, e);
        if (r < 0)
                return r;
        r = hparams_read_expert_size(h, x, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(
                h, "leading_dense_block_count", 0, HPARAMS_MAX_LAYERS, 0, &x->n_leading_dense, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "interleave_moe_layer_step", 1, HPARAMS_MAX_LAYERS, 1, &x->step, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "moe_latent_size", 0, h->n_embd, 0, &x->n_latent, e);
        if (r < 0)
                return r;
        r = hparams_f32_or(h, "expert_weights_scale", 0.0f, 1e6f, 0.0f, &x->scale, e);
        if (r < 0)
                return r;
        if (x->scale == 0.0f)
                x->scale = 1.0f;
        r = hparams_read_router(h, x, e);
        if (r < 0)
                return r;
        r = hparams_read_groups(h, x, e);
        return r < 0 ? r : hparams_read_shared(h, x, e);
}

static bool has_experts_tensors(const struct hparams *h, uint32_t layer) {
        static const char *const names[] = {"ffn_gate_inp", "ffn_down_exps"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                char name[64];

                snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, names[i]);
                if (gguf_tensor(h->gguf, name))
                        return true;
        }
        return false;
}

static bool layer_has_experts(const struct hparams *h, uint32_t layer) {
        const struct hparams_experts *x = &h->experts;

        if (h->arch->experts.where_tensors)
                return x->n && hparams_layer_feeds(h, layer) && has_experts_tensors(h, layer);
        return x->n && layer >= x->n_leading_dense && (layer + 1) % x->step == 0;
}

bool hparams_layer_has_experts(const struct hparams *h, uint32_t layer) {
        return h->sparse[layer];
}

bool hparams_layer_mixes(const struct hparams *h, uint32_t layer) {
        return h->arch->order != ARCH_EITHER || !h->n_ff[layer];
}

bool hparams_layer_feeds(const struct hparams *h, uint32_t layer) {
        if (h->arch->order == ARCH_FIRST_ALONE)
                return false;
        return h->arch->order != ARCH_EITHER || h->n_ff[layer];
}

int hparams_read_ffn(struct hparams *h, struct err *e) {
        int r;

        r = hparams_u32_layers(h, "feed_forward_length", 0, HPARAMS_MAX_FF, h->n_ff, e);
        if (r == 1)
                memset(h->n_ff, 0, sizeof(h->n_ff));
        if (r < 0)
                return r;
        h->experts = (struct hparams_experts){0};
        r = hparams_u32_or(h, "expert_count", 0, HPARAMS_MAX_EXPERTS, 0, &h->experts.n, e);
        if (r < 0)
                return r;
        if (h->experts.n)
                r = hparams_read_experts(h, &h->experts, e);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < h->n_layer; i++)
                h->sparse[i] = layer_has_experts(h, i);
        for (uint32_t i = 0; i < h->n_layer; i++)
                if (hparams_layer_feeds(h, i) && !h->n_ff[i] && !hparams_layer_has_experts(h, i))
                        return hparams_missing(h, "feed_forward_length", e);
        return 0;
}

int hparams_read_ends(struct hparams *h, struct err *e) {
        float logit_scale = 1.0f, embedding_scale = 1.0f, residual_scale = 1.0f;
        const struct hparams_number numbers[] = {
                {"embedding_scale", -1e6f, 1e6f, 0.0f, &embedding_scale},
                {"residual_scale", -1e6f, 1e6f, 0.0f, &residual_scale},
                {"logit_scale", -1e6f, 1e6f, 0.0f, &logit_scale},
                {"final_logit_softcapping", 0.0f, 1e6f, h->arch->final_softcap, &h->final_softcap},
        };
        int r = hparams_numbers(h, numbers, ARRAY_SIZE(numbers), e);

        if (r < 0)
                return r;
        h->embedding_scale = h->residual_scale = h->logit_scale = 1.0f;
        if (h->arch->embedding_scale == ARCH_SCALE_SQRT_WIDTH)
                h->embedding_scale = sqrtf((float)h->n_embd);
        else if (h->arch->embedding_scale == ARCH_SCALE_BY_KEY && embedding_scale != 0.0f)
                h->embedding_scale = embedding_scale;
        if (h->arch->embedding_scale == ARCH_SCALE_BY_KEY && residual_scale != 0.0f)
                h->residual_scale = residual_scale;
        if (h->arch->logit_scale == ARCH_LOGITS_MULTIPLIED) {
                if (logit_scale == 0.0f)
                        return hparams_missing(h, "logit_scale", e);
                h->logit_scale = logit_scale;
        } else if (h->arch->logit_scale == ARCH_LOGITS_DIVIDED && logit_scale != 0.0f) {
                h->logit_scale = 1.0f / logit_scale;
        }
        return 0;
}
