/* SPDX-License-Identifier: MIT */
#pragma once
/* Plain C of the encoder that each instruction set's file compiles for itself. */
#include <string.h>

#include "spill/codec/kernels.h"

static void symbols(
        enum kv_kind kind, const uint8_t *restrict src, size_t n, uint8_t *restrict dst) {
        if (kind == KV_F16)
                for (size_t i = 0; i < n; i++)
                        dst[i] = src[2 * i + 1];
        else if (kind == KV_F32)
                for (size_t i = 0; i < n; i++)
                        dst[i] = src[4 * i + 3];
        else
                memcpy(dst, src, n);
}

static void keep(enum kv_kind kind, const uint8_t *restrict src, size_t n, uint8_t *restrict dst) {
        if (kind == KV_F16)
                for (size_t i = 0; i < n; i++)
                        dst[i] = src[2 * i];
        if (kind == KV_F32) {
                for (size_t i = 0; i < n; i++) {
                        dst[2 * i] = src[4 * i];
                        dst[2 * i + 1] = src[4 * i + 1];
                }
                for (size_t i = 0; i < n; i++)
                        dst[2 * n + i] = src[4 * i + 2];
        }
}

static void places(
        const struct kv_tile *t, const uint8_t *classes, unsigned base, kv_place *restrict ret) {
        const uint8_t *restrict from = t->symbols;
        size_t n = t->n_tokens;

        if (!t->channel_major) {
                for (; n > 0; n--, from += t->n_channels, ret += t->n_channels)
                        for (size_t c = 0; c < t->n_channels; c++)
                                ret[c] = (kv_place)(base | (unsigned)classes[c] << 8 | from[c]);
                return;
        }
        for (size_t c = 0; c < t->n_channels; c++, from += n, ret += n) {
                kv_place first = (kv_place)(base | (unsigned)classes[c] << 8);

                for (size_t i = 0; n == 32 && i < 32; i++)
                        ret[i] = first | from[i];
                for (size_t i = 0; n != 32 && i < n; i++)
                        ret[i] = first | from[i];
        }
}
