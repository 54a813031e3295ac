/* SPDX-License-Identifier: MIT */
/*
 * The sections of blocks for the spill store, class by class. A section is a group of whole layers, so
 * that the memory of the first layers can be read, checked and used for computing while the other layers
 * still arrive. A section has at least 128 KiB of a block, so that reading and decoding it is worth
 * a call; a block of a small model is one section. The layout is a part of spill records and of
 * nothing else: the model decides how the bytes lie in RAM.
 *
 * The classes have different sections. A stage is a section of the class that has the most of them, and with
 * it those of the other classes that its layers need: so a layer may compute when a stage has arrived.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/disk/state.h"

#define MIN_SECTION ((uint64_t)128 << 10)

/* The numbers of classes stand in records, links and the register. */
_Static_assert((int)SEQ_ALL == (int)STORE_CLASS_ALL, "class");
_Static_assert((int)SEQ_WINDOW == (int)STORE_CLASS_WINDOW, "class");
_Static_assert((int)SEQ_STATE == (int)STORE_CLASS_STATE, "class");
_Static_assert((int)SEQ_N_CLASSES == (int)STORE_N_CLASSES, "classes");
_Static_assert((int)SEQ_N_CLASSES <= (int)SPILL_MAX_CLASSES, "classes");

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
static bool ends_section(const struct sections *x, const struct model_kv_array *a, size_t i,
        uint64_t start, uint64_t size) {
        return i > 0 && a[i].layer != a[i - 1].layer && a[i].offset - start >= MIN_SECTION &&
               size - a[i].offset >= MIN_SECTION && x->n + 1 < SPILL_MAX_SECTIONS;
}

static int make_class(struct engine *engine, enum seq_class c, struct err *e) {
        struct sections *x = &engine->disk->sections[c];
        uint64_t start = 0, size = engine->info.shape.size[c];
        const struct model_kv_array *a;
        size_t n = model_kv_arrays(engine->model, c, &a);

        if (size == 0)
                return 0;
        x->arrays = calloc(n + 1, sizeof(*x->arrays));
        x->ends = calloc(SPILL_MAX_SECTIONS, sizeof(*x->ends));
        x->of_layer = malloc(((size_t)engine->info.n_layer + 1) * sizeof(*x->of_layer));
        if (!x->arrays || !x->ends || !x->of_layer)
                return err_set(e, ERR_NOMEM, "no memory for the layout of blocks");
        memset(x->of_layer, 0xff, ((size_t)engine->info.n_layer + 1) * sizeof(*x->of_layer));
        for (size_t i = 0; i < n; i++) {
                if (ends_section(x, a, i, start, size)) {
                        x->ends[x->n++] = a[i].offset;
                        start = a[i].offset;
                }
                x->arrays[i] = (struct spill_array){.element = element(a[i].element),
                        .section = (uint32_t)x->n,
                        .offset = a[i].offset,
                        .n_tiles = a[i].n_tiles,
                        .n_channels = a[i].n_channels,
                        .n_tokens = a[i].n_tokens,
                        .channel_major = a[i].channel_major};
                if (a[i].layer < engine->info.n_layer)
                        x->of_layer[a[i].layer] = (uint32_t)x->n;
        }
        x->ends[x->n++] = size;
        x->n_arrays = n;
        return 0;
}

/* The first sections of the class that layers up to @layer need. */
static size_t sections_to(const struct disk *d, enum seq_class c, uint32_t layer) {
        const struct sections *x = &d->sections[c];
        size_t n = 0;

        for (uint32_t i = 0; x->n > 0 && i <= layer; i++)
                if (x->of_layer[i] != UINT32_MAX)
                        n = MAX(n, (size_t)x->of_layer[i] + 1);
        return n;
}

/* Do the first @n stages have all that layers up to @layer need? */
static bool suffices(const struct disk *d, size_t n, uint32_t layer) {
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                if (d->stages[n - 1].n_sections[c] < sections_to(d, (enum seq_class)c, layer))
                        return false;
        return true;
}

static void fill_stages(struct disk *d, enum seq_class lead, uint32_t n_layer) {
        uint32_t layer = 0;

        for (size_t i = 0; i < d->n_stages; i++) {
                while (layer + 1 < n_layer && sections_to(d, lead, layer + 1) <= i + 1)
                        layer++;
                for (int c = 0; c < SEQ_N_CLASSES; c++)
                        d->stages[i].n_sections[c] = sections_to(d, (enum seq_class)c, layer);
                d->stages[i].n_sections[lead] = i + 1;
        }
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                d->stages[d->n_stages - 1].n_sections[c] = d->sections[c].n;
        for (layer = 0; layer < n_layer; layer++) {
                d->stages_of[layer] = 1;
                while (!suffices(d, d->stages_of[layer], layer))
                        d->stages_of[layer]++;
        }
}

static int make_stages(struct engine *engine, struct err *e) {
        struct disk *d = engine->disk;
        enum seq_class lead = SEQ_ALL;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                if (d->sections[c].n > d->sections[lead].n)
                        lead = (enum seq_class)c;
        d->n_stages = d->sections[lead].n;
        d->stages = calloc(d->n_stages, sizeof(*d->stages));
        d->stages_of = calloc(engine->info.n_layer, sizeof(*d->stages_of));
        if (!d->stages || !d->stages_of)
                return err_set(e, ERR_NOMEM, "no memory for the layout of blocks");
        fill_stages(d, lead, engine->info.n_layer);
        return 0;
}

int layout_make(struct engine *engine, struct err *e) {
        int r = 0;

        for (int c = 0; r == 0 && c < SEQ_N_CLASSES; c++)
                r = make_class(engine, (enum seq_class)c, e);
        return r < 0 ? r : make_stages(engine, e);
}

struct spill_layout layout_of(const struct engine *engine, enum seq_class c) {
        const struct sections *x = &engine->disk->sections[c];

        return (struct spill_layout){.arrays = x->arrays,
                .n_arrays = x->n_arrays,
                .section_ends = x->ends,
                .n_sections = x->n};
}

size_t layout_n_stages(const struct engine *engine) {
        return engine->disk->n_stages;
}

size_t layout_stage_sections(const struct engine *engine, enum seq_class c, size_t n) {
        return n > 0 ? engine->disk->stages[n - 1].n_sections[c] : 0;
}

size_t layout_stages_of(const struct engine *engine, uint32_t layer) {
        return engine->disk->stages_of[layer];
}
