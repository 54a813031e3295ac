/* SPDX-License-Identifier: MIT */
/*
 * The sections of blocks for the spill store. A section is a group of whole layers, so that the
 * memory of the first layers can be read, checked and used for computing while the other layers
 * still arrive. A section has at least 128 KiB of a block, so that reading and decoding it is worth
 * a call; a block of a small model is one section. The layout is a part of spill records and of
 * nothing else: the model decides how the bytes lie in RAM.
 */
#include <stdlib.h>

#include "engine/disk/state.h"

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

/* Does a section end before array @i? Only if @i begins a layer and the section is large enough. */
static bool ends_section(
        const struct engine *engine, const struct model_kv_array *a, size_t i, uint64_t start) {
        const struct disk *d = engine->disk;

        return i > 0 && a[i].layer != a[i - 1].layer && a[i].offset - start >= MIN_SECTION &&
               engine->info.block_size - a[i].offset >= MIN_SECTION &&
               d->n_sections + 1 < SPILL_MAX_SECTIONS;
}

int layout_make(struct engine *engine, struct err *e) {
        struct disk *d = engine->disk;
        const struct model_kv_array *a;
        size_t n = model_kv_arrays(engine->model, &a);
        uint64_t start = 0;

        d->arrays = calloc(n + 1, sizeof(*d->arrays));
        d->section_ends = calloc(SPILL_MAX_SECTIONS, sizeof(*d->section_ends));
        d->layer_section = calloc((size_t)engine->info.n_layer + 1, sizeof(*d->layer_section));
        if (!d->arrays || !d->section_ends || !d->layer_section)
                return err_set(e, ERR_NOMEM, "no memory for the layout of blocks");
        d->n_sections = 0;
        for (size_t i = 0; i < n; i++) {
                if (ends_section(engine, a, i, start)) {
                        d->section_ends[d->n_sections++] = a[i].offset;
                        start = a[i].offset;
                }
                d->arrays[i] = (struct spill_array){.element = element(a[i].element),
                        .section = (uint32_t)d->n_sections,
                        .offset = a[i].offset,
                        .n_tiles = a[i].n_tiles,
                        .n_channels = a[i].n_channels,
                        .n_tokens = a[i].n_tokens,
                        .channel_major = a[i].channel_major};
                if (a[i].layer < engine->info.n_layer)
                        d->layer_section[a[i].layer] = (uint32_t)d->n_sections;
        }
        d->section_ends[d->n_sections++] = engine->info.block_size;
        d->n_arrays = n;
        return 0;
}

struct spill_layout layout_of(const struct engine *engine) {
        const struct disk *d = engine->disk;

        return (struct spill_layout){.arrays = d->arrays,
                .n_arrays = d->n_arrays,
                .section_ends = d->section_ends,
                .n_sections = d->n_sections};
}

size_t layout_n_sections(const struct engine *engine) {
        return engine->disk->n_sections;
}

size_t layout_section_end(const struct engine *engine, size_t section) {
        return (size_t)engine->disk->section_ends[section];
}

size_t layout_section_of(const struct engine *engine, uint32_t layer) {
        return engine->disk->layer_section[layer];
}
