/* SPDX-License-Identifier: MIT */
/* Parameters of latent attention (block-mla.h). */
#include <math.h>

#include "base/dmath.h"
#include "base/err.h"
#include "model/hparams.h"

#define MAX_RANK (1u << 14)

/* Files from before latent rows were kept have no *_mla keys: there key_length is that of a head, and
 * the matrices are in one. */
static int read_head_sizes(struct hparams *h, struct err *e) {
        uint32_t size;
        int r;

        r = hparams_u32_or(h, "attention.key_length_mla", 0, HPARAMS_MAX_HEAD_DIM, 0, &size, e);
        if (r < 0)
                return r;
        h->latent.split = size != 0;
        if (size)
                h->head_dim_k = size;
        return hparams_u32_or(h, "attention.value_length_mla", 1, HPARAMS_MAX_HEAD_DIM,
                h->head_dim_v, &h->head_dim_v, e);
}

int hparams_read_latent(struct hparams *h, struct err *e) {
        struct hparams_latent *l = &h->latent;
        int r;

        *l = (struct hparams_latent){0};
        if (h->arch->latent == ARCH_LATENT_NONE)
                return 0;
        r = read_head_sizes(h, e);
        if (r < 0)
                return r;
        r = hparams_u32(h, "attention.kv_lora_rank", 1, MAX_RANK, &l->rank, e);
        if (r < 0)
                return r;
        r = hparams_u32_or(h, "attention.q_lora_rank", 0, MAX_RANK, 0, &l->q_rank, e);
        if (r < 0)
                return r;
        r = hparams_u32(h, "rope.dimension_count", 2, HPARAMS_MAX_HEAD_DIM, &l->rope, e);
        if (r < 0)
                return r;
        if (l->rope >= h->head_dim_k)
                return err_set(e, ERR_FORMAT,
                        "%s.rope.dimension_count %u is not below the head size %u", h->arch->name,
                        l->rope, h->head_dim_k);
        l->nope = h->head_dim_k - l->rope;
        h->temperature_length = 1; /* divides positions, also where the scale is 0 */
        if (h->arch->temperature != ARCH_TEMPERATURE_LENGTH || h->temperature_scale == 0.0f)
                return 0;
        return hparams_u32(h, "attention.temperature_length", 1, HPARAMS_MAX_CONTEXT,
                &h->temperature_length, e);
}

int hparams_scale_latent(struct hparams *h, struct err *e) {
        double multiplier = h->rope.log_multiplier * 10.0, growth = 1.0;

        if (h->arch->latent == ARCH_LATENT_NONE)
                return 0;
        h->rope.log_multiplier = multiplier;
        h->rope.plain_magnitude = h->arch->latent == ARCH_LATENT && multiplier != 0.0;
        if (h->arch->latent == ARCH_LATENT_TEMPERED || multiplier == 0.0)
                multiplier = 1.0;
        if (hparams_has_positions(h) && h->rope.scaling == HPARAMS_ROPE_YARN &&
                h->rope.factor > 1.0)
                growth = 1.0 + 0.1 * multiplier * dmath_log(h->rope.factor);
        h->attn_scale = (float)(growth * growth / sqrt((double)h->head_dim_k));
        return 0;
}
