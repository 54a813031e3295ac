/* SPDX-License-Identifier: MIT */
/* Inspecting single records, for tools that check or audit another program's store and so do not
 * know how its blocks are divided. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/record.h"
#include "spill/shared.h"

struct inspection {
        const struct spill_array *arrays;
        size_t n_arrays;
        uint8_t *data;                /* the record; NULL before, unless somebody wants it */
        bool is_borrowed;             /* data is the caller's */
        struct spill_array *selected; /* [n_arrays], of one section */
        void *scratch;
        struct spill_record rec;
        struct spill_section sections[SPILL_MAX_SECTIONS];
};

/* The arrays that lie in [start, end), counted from there. */
static size_t select_arrays(struct inspection *in, uint64_t start, uint64_t end) {
        size_t n = 0;

        for (size_t i = 0; i < in->n_arrays; i++)
                if (in->arrays[i].offset >= start && in->arrays[i].offset < end) {
                        in->selected[n] = in->arrays[i];
                        in->selected[n++].offset -= start;
                }
        return n;
}

static int decode(struct inspection *in, const struct spill_section *sec, uint64_t start,
        uint8_t *dst, struct err *e) {
        const uint8_t *payload = in->data + sec->offset;
        size_t n;

        if (sec->codec == SPILL_CODEC_RAW) {
                memcpy(dst + start, payload, sec->raw_size);
                return 0;
        }
        n = select_arrays(in, start, start + sec->raw_size);
        if (!spill_codec_check(in->selected, n, sec->raw_size))
                return err_set(e, ERR_CORRUPT, "it is not divided between arrays");
        free(in->scratch);
        in->scratch = aligned_alloc(64, spill_codec_scratch_size(sec->raw_size));
        if (!in->scratch)
                return err_set(
                        e, ERR_NOMEM, "no memory to decode %" PRIu32 " bytes", sec->raw_size);
        return spill_section_decode(sec, payload, dst + start, in->selected, n, in->scratch, e);
}

static int inspect(struct inspection *in, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta, uint8_t *dst, struct err *e) {
        uint64_t start = 0;
        int r;

        r = spill_record_parse(
                in->data, ref->stored_size, in->sections, SPILL_MAX_SECTIONS, &in->rec, e);
        if (r == 0)
                r = spill_record_match(&in->rec, fingerprint, meta, ref, NULL, e);
        for (size_t k = 0; r == 0 && k < in->rec.n_sections; k++) {
                const struct spill_section *sec = &in->sections[k];

                /* The match has made sure that all payloads lie within stored_size. */
                r = spill_section_verify(sec, in->data + sec->offset, e);
                if (r == 0 && dst)
                        r = decode(in, sec, start, dst, e);
                err_wrap(e, r, "section %zu", k);
                start += sec->raw_size;
        }
        return r;
}

static int inspect_file(struct spill *s, int fd, struct inspection *in,
        const struct fingerprint *fingerprint, const struct spill_ref *ref,
        const struct spill_meta *meta, uint8_t *dst, struct err *e) {
        struct iovec iov;
        int r;

        if (!in->is_borrowed)
                in->data = malloc(ref->stored_size);
        in->selected = calloc(in->n_arrays + 1, sizeof(*in->selected));
        if (!in->data || !in->selected)
                return err_set(e, ERR_NOMEM, "no memory for a record of %" PRIu64 " bytes",
                        ref->stored_size);
        iov = (struct iovec){in->data, ref->stored_size};
        r = spill_io_read(fd, &iov, 1, ref->offset, e);
        if (r == 0)
                r = inspect(in, fingerprint, ref, meta, dst, e);
        pthread_mutex_lock(&s->lock);
        s->stats.n_preads++;
        if (r == -ERR_CORRUPT)
                s->stats.n_corrupt++;
        pthread_mutex_unlock(&s->lock);
        return r;
}

/* The record is read once, while its file is pinned. */
static int look(struct spill *s, struct inspection *in, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta, void *dst, struct err *e) {
        struct spill_file *f;
        int r;

        pthread_mutex_lock(&s->lock);
        f = spill_find_record(s, ref);
        r = f ? spill_file_pin(s, f, false, e) : spill_not_found(ref, e);
        pthread_mutex_unlock(&s->lock);
        if (r == -ERR_NOT_FOUND)
                return r;
        if (r == 0) {
                r = inspect_file(s, f->fd, in, fingerprint, ref, meta, dst, e);
                if (!s->options.keep_cached)
                        (void)posix_fadvise(f->fd, (off_t)ref->offset, (off_t)ref->stored_size,
                                POSIX_FADV_DONTNEED);
                spill_file_let_go(s, f, 1);
        }
        if (!in->is_borrowed)
                free(in->data);
        free(in->selected);
        free(in->scratch);
        return spill_wrap(r, ref, e);
}

int spill_inspect(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta,
        const struct spill_array *arrays, size_t n_arrays, void *dst, struct err *e) {
        struct inspection in = {.arrays = arrays, .n_arrays = n_arrays};

        if (n_arrays > SPILL_MAX_ARRAYS)
                return err_set(e, ERR_INVALID, "blocks cannot have %zu arrays", n_arrays);
        return look(s, &in, fingerprint, ref, meta, dst, e);
}

int spill_read_stored(struct spill *s, const struct fingerprint *fingerprint,
        const struct spill_ref *ref, const struct spill_meta *meta, void *dst, struct err *e) {
        struct inspection in = {.data = dst, .is_borrowed = true};

        return look(s, &in, fingerprint, ref, meta, NULL, e);
}
