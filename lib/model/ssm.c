/* SPDX-License-Identifier: MIT */
#include "model/ssm.h"

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

#define MAX_STATE (1u << 12)

int ssm_read(const struct hparams *h, struct ssm *ret, bool heads, struct err *e) {
        struct ssm s = {.n_group = 1};
        const struct {
                const char *key;
                uint32_t min, max;
                uint32_t *ret;
        } numbers[] = {
                {"ssm.conv_kernel", KERN_CONV_TAPS_MIN, KERN_CONV_TAPS_MAX, &s.n_taps},
                {"ssm.inner_size", 1, HPARAMS_MAX_EMBD, &s.n_inner},
                {"ssm.state_size", 1, MAX_STATE, &s.n_state},
                {"ssm.time_step_rank", 1, HPARAMS_MAX_EMBD, &s.rank},
                {"ssm.group_count", 1, HPARAMS_MAX_EMBD, &s.n_group},
        };

        for (size_t i = 0; i < ARRAY_SIZE(numbers) - !heads; i++) {
                int r = hparams_u32(
                        h, numbers[i].key, numbers[i].min, numbers[i].max, numbers[i].ret, e);

                if (r < 0)
                        return r;
        }
        if (heads && (s.n_inner % s.rank || s.rank % s.n_group))
                return err_set(e, ERR_FORMAT,
                        "%s.ssm.inner_size %u, time_step_rank %u and group_count %u are not "
                        "multiples "
                        "of each other",
                        h->arch->name, s.n_inner, s.rank, s.n_group);
        *ret = s;
        return 0;
}

int conv_load(struct model *m, struct kern_conv *ret, uint32_t layer, const char *name,
        const char *bias, bool required, uint32_t n_channels, uint32_t n_taps, struct err *e) {
        struct kern_conv c = {.n_channels = n_channels, .n_taps = n_taps};
        int r;

        r = weights_tiles(&m->weights, &c.w, (int)layer, name, n_taps, n_channels, n_channels, e);
        if (r == 0 && bias)
                r = weights_bias(&m->weights, &c.bias, (int)layer, bias, n_channels, required, e);
        if (r == 0)
                r = state_book(m, layer, 1, n_channels, n_taps - 1, &c.state_offset, e);
        if (r == 0)
                *ret = c;
        return r;
}
