/* SPDX-License-Identifier: MIT */
/*
 * How blocks are cut into sections for the spill store: groups of whole layers, so that the memory
 * of the first layers can be read, checked and computed with while that of the others still
 * arrives. A section has 128 KiB of a block at least, so that reading and decoding it is worth a
 * call; blocks of small models are one section. The layout is part of what a record says, and of
 * nothing else: the bytes in RAM are the model's business.
 */
#include <stdlib.h>

#include "engine/internal.h"

#define MIN_SECTION ((uint64_t)128 << 10)

static enum spill_element element(enum model_kv_element e) {
        switch (e) {
        case MODEL_KV_F16:
                return SPILL_F16;
        case MODEL_KV_F32:
                return SPILL_F32;
        case MODEL_KV_I8:
                return SPILL_I8;
        }
        return SPILL_BYTES;
}

/* Ends the present section in front of array @i, which begins a layer, if it is large enough. */
static bool ends_section(
        const struct engine *engine, const struct model_kv_array *a, size_t i, uint64_t start) {
        return i > 0 && a[i].layer != a[i - 1].layer && a[i].offset - start >= MIN_SECTION &&
               engine->info.block_size - a[i].offset >= MIN_SECTION &&
               engine->n_sections + 1 < SPILL_MAX_SECTIONS;
}

int layout_make(struct engine *engine, struct err *e) {
        const struct model_kv_array *a;
        size_t n = model_kv_arrays(engine->model, &a);
        uint64_t start = 0;

        engine->arrays = calloc(n + 1, sizeof(*engine->arrays));
        engine->section_ends = calloc(SPILL_MAX_SECTIONS, sizeof(*engine->section_ends));
        engine->layer_section =
                calloc((size_t)engine->info.n_layer + 1, sizeof(*engine->layer_section));
        if (!engine->arrays || !engine->section_ends || !engine->layer_section)
                return err_set(e, ERR_NOMEM, "no memory for the layout of blocks");
        engine->n_sections = 0;
        for (size_t i = 0; i < n; i++) {
                if (ends_section(engine, a, i, start)) {
                        engine->section_ends[engine->n_sections++] = a[i].offset;
                        start = a[i].offset;
                }
                engine->arrays[i] = (struct spill_array){.element = element(a[i].element),
                        .section = (uint32_t)engine->n_sections,
                        .offset = a[i].offset,
                        .n_tiles = a[i].n_tiles,
                        .n_channels = a[i].n_channels,
                        .n_tokens = a[i].n_tokens,
                        .channel_major = a[i].channel_major};
                if (a[i].layer < engine->info.n_layer)
                        engine->layer_section[a[i].layer] = (uint32_t)engine->n_sections;
        }
        engine->section_ends[engine->n_sections++] = engine->info.block_size;
        engine->n_arrays = n;
        return 0;
}

struct spill_layout layout_of(const struct engine *engine) {
        return (struct spill_layout){.arrays = engine->arrays,
                .n_arrays = engine->n_arrays,
                .section_ends = engine->section_ends,
                .n_sections = engine->n_sections};
}
