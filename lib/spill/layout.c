/* SPDX-License-Identifier: MIT */
/* How blocks are divided: checking and copying the layout, and the buffers that follow from it. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/record.h"
#include "spill/shared.h"

/* The ring's least and greatest size, in blocks. */
enum { RING_MIN_BLOCKS = 8, RING_MAX_BLOCKS = 64, LARGE_PAGE = 2 << 20 };

static int check_arrays(const struct spill_layout *l, size_t section, size_t *at, struct err *e) {
        uint64_t start = section > 0 ? l->section_ends[section - 1] : 0;
        uint64_t end = l->section_ends[section];

        while (*at < l->n_arrays && l->arrays[*at].section == section) {
                const struct spill_array *a = &l->arrays[(*at)++];

                /* The codec knows what an array may look like (spill_codec_check()). */
                if (a->offset < start || a->offset >= end)
                        return err_set(e, ERR_INVALID, "array %zu is not in its section", *at - 1);
        }
        return 0;
}

int spill_layout_check(const struct spill_layout *l, size_t max_raw_size, struct err *e) {
        uint64_t end = 0;
        size_t at = 0;
        int r;

        if (l->n_sections > SPILL_MAX_SECTIONS || l->n_arrays > SPILL_MAX_ARRAYS ||
                (l->n_sections == 0 && l->n_arrays > 0))
                return err_set(e, ERR_INVALID, "blocks cannot have %zu sections and %zu arrays",
                        l->n_sections, l->n_arrays);
        for (size_t i = 0; i < l->n_sections; i++) {
                if (l->section_ends[i] <= end || l->section_ends[i] > max_raw_size)
                        return err_set(e, ERR_INVALID, "section %zu cannot end at %" PRIu64, i,
                                l->section_ends[i]);
                r = check_arrays(l, i, &at, e);
                if (r < 0)
                        return r;
                end = l->section_ends[i];
        }
        if (at != l->n_arrays)
                return err_set(e, ERR_INVALID, "array %zu is in no section or out of order", at);
        return 0;
}

static int open_class(struct spill_class *c, const struct spill_layout *l, struct err *e) {
        size_t at = 0, n;

        c->section_ends = calloc(l->n_sections, sizeof(*c->section_ends));
        c->first_array = calloc(l->n_sections + 1, sizeof(*c->first_array));
        c->arrays = calloc(l->n_arrays + 1, sizeof(*c->arrays));
        if (!c->section_ends || !c->first_array || !c->arrays)
                return err_set(e, ERR_NOMEM,
                        "no memory for the layout of %zu sections and %zu "
                        "arrays",
                        l->n_sections, l->n_arrays);
        for (size_t i = 0; i < l->n_sections; i++) {
                uint64_t start = i > 0 ? l->section_ends[i - 1] : 0;

                c->section_ends[i] = l->section_ends[i];
                c->first_array[i] = at;
                for (; at < l->n_arrays && l->arrays[at].section == i; at++) {
                        c->arrays[at] = l->arrays[at];
                        c->arrays[at].offset -= start;
                }
                n = at - c->first_array[i];
                if (!spill_codec_check(n > 0 ? &c->arrays[c->first_array[i]] : NULL, n,
                            l->section_ends[i] - start))
                        return err_set(e, ERR_INVALID,
                                "the arrays of section %zu overlap, or do "
                                "not fit into it",
                                i);
        }
        c->first_array[l->n_sections] = at;
        c->raw_size = l->section_ends[l->n_sections - 1];
        c->n_sections = l->n_sections;
        return 0;
}

int spill_layouts_open(struct spill *s, const struct spill_options *o, struct err *e) {
        for (size_t i = 0; i < SPILL_MAX_CLASSES; i++) {
                int r = o->layouts[i].n_sections > 0 ? open_class(&s->classes[i], &o->layouts[i], e)
                                                     : 0;

                if (r < 0)
                        return r;
                s->options.layouts[i] = (struct spill_layout){0};
                s->max_sections = MAX(s->max_sections, s->classes[i].n_sections);
        }
        if (s->max_sections == 0) {
                s->any_class = true;
                s->max_sections = s->classes[0].n_sections = 1;
        }
        return 0;
}

void spill_layouts_close(struct spill *s) {
        for (size_t i = 0; i < SPILL_MAX_CLASSES; i++) {
                free(s->classes[i].section_ends);
                free(s->classes[i].first_array);
                free(s->classes[i].arrays);
        }
}

static size_t ring_size(const struct spill *s, size_t max_section) {
        size_t block = align_up(s->options.max_raw_size, SPILL_ALIGN), size = SPILL_RING_SIZE;

        if (s->options.ring_size > 0)
                size = MIN(size, s->options.ring_size);
        size = MIN(MAX(size, RING_MIN_BLOCKS * block), RING_MAX_BLOCKS * block);
        size = MIN(size, (size_t)SPILL_RING_SIZE);
        size -= size % (size >= LARGE_PAGE ? LARGE_PAGE : SPILL_ALIGN);
        /* The largest section has room with a page on each side. */
        if (max_section + 2 * SPILL_ALIGN > size)
                size = align_up(2 * (max_section + 2 * SPILL_ALIGN), LARGE_PAGE);
        return size;
}

void spill_layout_size_scratch(struct spill *s) {
        size_t max = 0, block = 0;

        for (const struct spill_class *c = s->classes; c < s->classes + SPILL_MAX_CLASSES; c++) {
                size_t size = c->raw_size > 0 ? c->raw_size : s->options.max_raw_size;

                for (size_t i = 0; i < c->n_sections; i++)
                        max = MAX(max, (size_t)(spill_section_start(c, i + 1, size) -
                                                spill_section_start(c, i, size)));
                block = MAX(block, c->n_sections > 0 ? size : 0);
        }
        s->ring_size = ring_size(s, max);
        s->window_size = MIN(s->ring_size / 4, (size_t)SPILL_WINDOW_SIZE);
        /* For writing: all encoded sections of a record at once. */
        s->buffer_size = align_up(MAX(block, s->ring_size),
                s->ring_size % LARGE_PAGE == 0 ? LARGE_PAGE : SPILL_ALIGN);
        s->codec_size = spill_codec_scratch_size(max);
}
