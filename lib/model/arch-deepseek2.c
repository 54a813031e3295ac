/* SPDX-License-Identifier: MIT */
/*
 * deepseek2 (DeepSeek V2, V3, R1, Kimi K2, GLM-4.7-Flash): what the keys leave open, and the sizes of
 * published models decide.
 */
#include "base/err.h"
#include "model/arch.h"
#include "model/hparams.h"

/* V2 Lite and its kin: queries are made from the residual, whatever q_lora_rank says. */
static bool is_lite(const struct hparams *h) {
        return h->n_layer == 26 || h->n_layer == 27 || (h->n_layer == 48 && h->n_vocab == 128256);
}

/* GLM-4.7-Flash has no expert_gating_func, and its router is a sigmoid. */
static bool is_glm_flash(const struct hparams *h) {
        return (h->n_layer == 47 || h->n_layer == 48) && h->n_vocab == 154880;
}

static int deepseek2_settle(struct hparams *h, struct err *e) {
        uint32_t gating;
        int r;

        if (is_lite(h))
                h->latent.q_rank = 0;
        r = hparams_u32_or(h, "expert_gating_func", 0, UINT32_MAX, 0, &gating, e);
        if (r < 0)
                return r;
        if (!gating && is_glm_flash(h))
                h->experts.router = ARCH_ROUTER_SIGMOID;
        return 0;
}

const struct arch_code arch_deepseek2 = {.settle = deepseek2_settle};
