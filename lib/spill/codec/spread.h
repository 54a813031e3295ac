/* SPDX-License-Identifier: MIT */
#pragma once
/* Plain C that each instruction set's file compiles for itself: copies in its widest registers. */
#include <string.h>

#include "spill/codec/kernels.h"

static void spread(uint8_t *tables, const uint8_t *classes, size_t n_tiles, size_t n_channels,
        size_t n_tokens, bool channel_major) {
        if (channel_major) {
                for (size_t c = 0; c < n_tiles * n_channels; c++, tables += n_tokens) {
                        uint8_t table = (uint8_t)(classes[c]);

                        for (size_t i = 0; n_tokens == 32 && i < 32; i++)
                                tables[i] = table;
                        for (size_t i = 0; n_tokens != 32 && i < n_tokens; i++)
                                tables[i] = table;
                }
                return;
        }
        for (size_t t = 0; t < n_tiles; t++, classes += n_channels) {
                const uint8_t *row = tables;

                for (size_t c = 0; c < n_channels; c++)
                        tables[c] = (uint8_t)(classes[c]);
                tables += n_channels;
                for (size_t i = 1; i < n_tokens; i++, tables += n_channels) {
                        size_t c = 0;

                        for (; n_channels - c >= 64; c += 64)
                                memcpy(tables + c, row + c, 64);
                        for (; c < n_channels; c++)
                                tables[c] = row[c];
                }
        }
}
