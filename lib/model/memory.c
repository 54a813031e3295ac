/* SPDX-License-Identifier: MIT */
#include "model/memory.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "model/internal.h"

/* Far above every published model; keeps sums of all layers inside 64 bits. */
#define MAX_STATE ((size_t)1 << 34)

enum seq_class memory_class(const struct model *m, uint32_t layer) {
        return m->hparams.local[layer] ? SEQ_WINDOW : SEQ_ALL;
}

size_t memory_book(struct model *m, enum seq_class c, size_t size) {
        size_t offset = m->memory[c].size;

        m->memory[c].size += align_up(size, 64);
        return offset;
}

int memory_describe(
        struct model *m, enum seq_class c, const struct model_kv_array *a, struct err *e) {
        struct memory_class *y = &m->memory[c];

        /* Room doubles; at a power of two it is used up. */
        if (!(y->n_arrays & (y->n_arrays - 1))) {
                size_t room = y->n_arrays ? 2 * y->n_arrays : 1;
                struct model_kv_array *grown = reallocarray(y->arrays, room, sizeof(*grown));

                if (!grown)
                        return err_set(e, ERR_NOMEM, "no memory for the layout of blocks");
                y->arrays = grown;
        }
        y->arrays[y->n_arrays++] = *a;
        return 0;
}

int state_book(struct model *m, uint32_t layer, uint32_t n_tiles, uint32_t n_channels,
        uint32_t n_tokens, size_t *ret_offset, struct err *e) {
        struct model_kv_array a = {
                .layer = layer,
                .element = MODEL_KV_F32,
                .offset = m->memory[SEQ_STATE].size,
                .n_tiles = n_tiles,
                .n_channels = n_channels,
                .n_tokens = n_tokens,
        };
        size_t size;
        int r;

        if (mul_overflow(n_tiles, n_channels, &size) || mul_overflow(size, n_tokens, &size) ||
                mul_overflow(size, sizeof(float), &size) || size > MAX_STATE)
                return err_set(e, ERR_LIMIT, "the state of layer %u, %u by %u by %u, is too large",
                        layer, n_tiles, n_channels, n_tokens);
        r = memory_describe(m, SEQ_STATE, &a, e);
        if (r < 0)
                return r;
        *ret_offset = memory_book(m, SEQ_STATE, size);
        return 0;
}

struct seq_shape memory_shape(const struct model *m) {
        const struct hparams *h = &m->hparams;
        struct seq_shape shape = {.block_tokens = MODEL_BLOCK_TOKENS};

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                shape.size[c] = m->memory[c].size;
        if (shape.size[SEQ_WINDOW]) {
                shape.window = h->window;
                shape.chunk = h->chunk;
        }
        return shape;
}

void memory_deinit(struct model *m) {
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                free(m->memory[c].arrays);
}
