/* SPDX-License-Identifier: MIT */
/* Records that came from elsewhere, as they are stored (spill_read_stored()): checked and decoded like those in files. */
#include <string.h>

#include "base/err.h"
#include "spill/shared.h"

static int unpack(const struct spill_class *c, const struct spill_record *rec, const uint8_t *data,
        struct spill_scratch *scratch, uint8_t *dst, struct err *e) {
        for (size_t i = 0; i < rec->n_sections; i++) {
                const struct spill_section *sec = &rec->sections[i];
                size_t n;
                const struct spill_array *arrays = spill_section_arrays(c, i, &n);
                /* The match has made sure that all payloads lie within the record. */
                int r = spill_section_verify(sec, data + sec->offset, e);

                if (r == 0)
                        r = spill_section_decode(sec, data + sec->offset,
                                dst + spill_section_start(c, i, rec->raw_size), arrays, n,
                                scratch->codec, e);
                if (r < 0)
                        return err_wrap(e, r, "section %zu", i);
        }
        return 0;
}

/* @size is that of the whole record: nothing is behind it. */
static int parse(struct spill *s, const struct spill_class *c, const struct spill_meta *meta,
        const void *data, size_t size, size_t dst_size, struct spill_record *rec,
        struct spill_section *sections, struct err *e) {
        const struct spill_ref ref = {.stored_size = size, .raw_size = dst_size};
        int r = spill_record_parse(data, size, sections, SPILL_MAX_SECTIONS, rec, e);

        if (r == 0 && rec->n_sections != c->n_sections)
                return err_set(e, ERR_CORRUPT, "has %zu sections, not %zu", rec->n_sections,
                        c->n_sections);
        return r < 0 ? r
                     : spill_record_match(
                               rec, &s->options.fingerprint, meta, &ref, c->section_ends, e);
}

int spill_unpack(struct spill *s, const struct spill_meta *meta, const void *data, size_t size,
        void *dst, size_t dst_size, struct err *e) {
        size_t k = spill_class_find(s, meta->class_id);
        const struct spill_class *c = k < SPILL_MAX_CLASSES ? &s->classes[k] : NULL;
        struct spill_section sections[SPILL_MAX_SECTIONS];
        struct spill_scratch *scratch = NULL;
        struct spill_record rec;
        int r;

        if (!c || (c->section_ends && dst_size != c->raw_size))
                return err_set(e, ERR_INVALID, "there are no blocks of class %u with %zu bytes",
                        meta->class_id, dst_size);
        r = parse(s, c, meta, data, size, dst_size, &rec, sections, e);
        if (r == 0)
                r = spill_scratch_get(s, &scratch, e);
        if (r == 0)
                r = unpack(c, &rec, data, scratch, dst, e);
        spill_scratch_put(s, scratch);
        pthread_mutex_lock(&s->lock);
        if (r == -ERR_CORRUPT)
                s->stats.n_corrupt++;
        pthread_mutex_unlock(&s->lock);
        return r;
}
