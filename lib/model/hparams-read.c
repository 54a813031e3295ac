/* SPDX-License-Identifier: MIT */
/* All parameters, group by group. */
#include "base/util.h"
#include "model/hparams.h"

int hparams_read(struct hparams *h, struct err *e) {
        static int (*const groups[])(struct hparams * h, struct err * e) = {hparams_read_base,
                hparams_read_attention, hparams_read_latent, hparams_read_recurrence,
                hparams_read_windows, hparams_read_ffn, hparams_read_rope, hparams_scale_latent,
                hparams_read_ends};
        const struct arch_code *code = h->arch->code;

        for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
                int r = groups[i](h, e);

                if (r < 0)
                        return r;
        }
        return code && code->settle ? code->settle(h, e) : 0;
}
