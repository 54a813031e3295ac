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

int spill_layout_open(struct spill *s, const struct spill_layout *l, struct err *e) {
        size_t at = 0, n;

        s->n_sections = MAX(l->n_sections, (size_t)1);
        s->options.layout = (struct spill_layout){0};
        if (l->n_sections == 0)
                return 0;
        s->section_ends = calloc(l->n_sections, sizeof(*s->section_ends));
        s->first_array = calloc(l->n_sections + 1, sizeof(*s->first_array));
        s->arrays = calloc(l->n_arrays + 1, sizeof(*s->arrays));
        if (!s->section_ends || !s->first_array || !s->arrays)
                return err_set(e, ERR_NOMEM,
                        "no memory for the layout of %zu sections and %zu "
                        "arrays",
                        l->n_sections, l->n_arrays);
        for (size_t i = 0; i < l->n_sections; i++) {
                uint64_t start = i > 0 ? l->section_ends[i - 1] : 0;

                s->section_ends[i] = l->section_ends[i];
                s->first_array[i] = at;
                for (; at < l->n_arrays && l->arrays[at].section == i; at++) {
                        s->arrays[at] = l->arrays[at];
                        s->arrays[at].offset -= start;
                }
                n = at - s->first_array[i];
                if (!spill_codec_check(n > 0 ? &s->arrays[s->first_array[i]] : NULL, n,
                            l->section_ends[i] - start))
                        return err_set(e, ERR_INVALID,
                                "the arrays of section %zu overlap, or do "
                                "not fit into it",
                                i);
        }
        s->first_array[l->n_sections] = at;
        s->raw_size = l->section_ends[l->n_sections - 1];
        return 0;
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
        size_t max = 0;

        for (size_t i = 0; i < s->n_sections; i++)
                max = MAX(max, (size_t)(spill_section_start(s, i + 1, s->options.max_raw_size) -
                                        spill_section_start(s, i, s->options.max_raw_size)));
        s->ring_size = ring_size(s, max);
        s->window_size = MIN(s->ring_size / 4, (size_t)SPILL_WINDOW_SIZE);
        /* For writing: all encoded sections of a record at once. */
        s->buffer_size =
                align_up(MAX(s->raw_size > 0 ? s->raw_size : s->options.max_raw_size, s->ring_size),
                        s->ring_size % LARGE_PAGE == 0 ? LARGE_PAGE : SPILL_ALIGN);
        s->codec_size = spill_codec_scratch_size(max);
}
