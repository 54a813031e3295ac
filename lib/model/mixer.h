/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What a layer does with the tokens before it, where that is not the common attention (block-attn.h):
 * its first branch. The row of an architecture names its mixers (arch.attention, arch.recurrent), and
 * the parameters say which layers have which (hparams.recurrent).
 *
 * 1. A layer's norms stand outside: a mixer takes the normed residual and gives what is added to it.
 * 2. load() checks the layer's tensors, books its memory (memory.h) and its scratch (model.dims; floats
 *    of the mixer's own: dims.n_mix, in model_work.mix).
 * 3. Rows of a batch are independent of each other, but for what memory holds (I2).
 * 4. A mixer calls work_wait() once per forward call, before it touches sequence memory, also when
 *    the layer has none.
 * 5. A recurrent mixer computes the runs of the batch (model_work.runs): it reads the state of each at
 *    its offset, and writes the state after the run's last row, all of it.
 */
#include <stdint.h>

struct err;
struct model;
struct model_work;
struct work_input;

struct mixer {
        const char *name;
        /* *ret: what forward() is given; one piece of memory that is freed with free(), also after a
         * failure. 0 or a negative error. */
        int (*load)(struct model *m, void **ret, uint32_t layer, struct err *e);
        /* Writes the memory of all rows, before forward(). With it the last layer's forward() is given
         * only the rows that want logits. NULL: forward() does all, for all rows. Not 0: what
         * work_wait() returned. */
        int (*store)(const void *own, struct model_work *w, struct work_input *in);
        /* out [n][n_embd] from the rows of @in, the normed residual. Not 0: what work_wait() returned. */
        int (*forward)(const void *own, struct model_work *w, struct work_input *in, float *out);
};

extern const struct mixer mixer_mla;
extern const struct mixer mixer_mamba, mixer_mamba2, mixer_short_conv;
/* Common attention and mamba 2 side by side. */
extern const struct mixer mixer_attn_mamba2;
extern const struct mixer mixer_delta, mixer_kda, mixer_rwkv6, mixer_rwkv7;
/* Second branches (arch.second). The first one of the layer has waited for its memory. */
extern const struct mixer mixer_channel_mix6, mixer_channel_mix7;
