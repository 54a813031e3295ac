/* SPDX-License-Identifier: MIT */
/* Appending records: admitted, counted and placed under the lock, written without it. */
#include <inttypes.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <fcntl.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/record.h"
#include "spill/shared.h"

static const uint8_t padding[SPILL_ALIGN];

/* Whether @size more bytes may go to disk. Lock held. */
static int admit(struct spill *s, uint64_t size, struct err *e) {
        const struct spill_options *o = &s->options;
        struct statvfs v;
        uint64_t avail;

        if (o->max_disk_size > 0 &&
                (size > o->max_disk_size || s->stats.disk_size > o->max_disk_size - size))
                return err_set(e, ERR_LIMIT,
                        "the spill store holds %" PRIu64 " of %" PRIu64
                        " bytes and cannot take %" PRIu64 " more",
                        s->stats.disk_size, o->max_disk_size, size);
        if (o->min_free_size == 0)
                return 0;
        if (fstatvfs(s->dir_fd, &v) < 0)
                return err_set(e, ERR_SYS, "cannot tell the free space of the spill folder");
        if (__builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, &avail))
                avail = UINT64_MAX;
        /* Writes in progress may not have taken their space yet. */
        avail = avail > s->pending_size ? avail - s->pending_size : 0;
        if (avail < size || avail - size < o->min_free_size)
                return err_set(e, ERR_LIMIT,
                        "spilling %" PRIu64 " bytes would leave less than %" PRIu64
                        " of the %" PRIu64 " bytes free",
                        size, o->min_free_size, avail);
        return 0;
}

/* Admit, count and place a record at the end of its file, which is pinned. Lock held. */
static int write_begin(
        struct spill *s, struct spill_ref *ref, struct spill_file **ret, struct err *e) {
        struct spill_file *f = spill_file_find(s, ref->file_key);
        int r;

        r = admit(s, ref->stored_size, e);
        if (r < 0)
                return r;
        if (!f) {
                r = spill_file_new(s, ref->file_key, &f, e);
                if (r < 0)
                        return r;
        }
        if (ref->stored_size > SPILL_FILE_MAX - f->end)
                return err_set(e, ERR_LIMIT, "the file cannot grow further");
        ref->offset = f->end;
        r = spill_pages_grow(&f->pages, spill_first_page(ref) + spill_n_pages(ref), e);
        if (r == 0)
                r = spill_file_pin(s, f, true, e);
        if (r < 0) {
                spill_file_drop_if_empty(s, f);
                return r;
        }
        f->end += ref->stored_size;
        f->n_pending++;
        spill_file_charge(s, f, ref->stored_size);
        s->pending_size += ref->stored_size;
        *ret = f;
        return 0;
}

/* Publish the record, or undo write_begin(). Lock held. */
static void write_end(struct spill *s, struct spill_file *f, const struct spill_ref *ref, int r) {
        uint64_t end = ref->offset + ref->stored_size;

        f->n_pending--;
        s->pending_size -= ref->stored_size;
        if (r == 0) {
                spill_pages_add(&f->pages, spill_first_page(ref), spill_n_pages(ref));
                f->n_records++;
                s->stats.n_records++;
                s->stats.n_writes++;
                s->stats.written_size += ref->stored_size;
                s->stats.raw_in_size += ref->raw_size;
        } else {
                if (r == -ERR_LIMIT)
                        s->stats.n_refused++;
                if (f->end == end && ftruncate(f->fd, (off_t)ref->offset) == 0) {
                        f->end = ref->offset;
                        spill_file_discharge(s, f, ref->stored_size);
                } else if (spill_io_punch(f->fd, ref->offset, ref->stored_size)) {
                        spill_file_discharge(s, f, ref->stored_size);
                }
                spill_file_drop_if_empty(s, f);
        }
        spill_file_unpin(s, f);
}

static int write_record(struct spill *s, struct spill_ref *ref, struct spill_record *rec,
        const void *payload, struct err *e) {
        uint8_t header[SPILL_HEADER_SIZE];
        /* iovec has no const; pwritev() does not write to memory. */
        struct iovec iov[3] = {
                {header, sizeof(header)},
                {(void *)(uintptr_t)payload, rec->payload_size},
                {(void *)(uintptr_t)padding, ref->stored_size - sizeof(header) - rec->payload_size},
        };
        struct spill_file *f = NULL;
        int r;

        rec->payload_hash = hash64(payload, rec->payload_size, 0);
        spill_record_format(rec, header);
        pthread_mutex_lock(&s->lock);
        r = write_begin(s, ref, &f, e);
        if (r == -ERR_LIMIT)
                s->stats.n_refused++;
        pthread_mutex_unlock(&s->lock);
        if (r < 0)
                return r;
        r = spill_io_write(f->fd, iov, ARRAY_SIZE(iov), ref->offset, e);
        if (r == 0 && !s->options.keep_cached)
                (void)posix_fadvise(
                        f->fd, 0, (off_t)(ref->offset + ref->stored_size), POSIX_FADV_DONTNEED);
        pthread_mutex_lock(&s->lock);
        write_end(s, f, ref, r);
        pthread_mutex_unlock(&s->lock);
        return spill_wrap(r, ref, e);
}

/* Refuse before the work of encoding what cannot fit in any case. */
static int admit_any(struct spill *s, struct err *e) {
        int r;

        pthread_mutex_lock(&s->lock);
        r = s->swept ? admit(s, SPILL_ALIGN, e)
                     : err_set(e, ERR_STATE, "the spill store has not been swept");
        if (r == -ERR_LIMIT)
                s->stats.n_refused++;
        pthread_mutex_unlock(&s->lock);
        return r;
}

int spill_write(struct spill *s, uint64_t file_key, const struct spill_meta *meta, const void *raw,
        size_t raw_size, struct spill_ref *ret, struct err *e) {
        struct spill_record rec = {
                .fingerprint = s->options.fingerprint,
                .meta = *meta,
                .codec = SPILL_CODEC_RAW,
                .raw_size = raw_size,
                .payload_size = raw_size,
        };
        struct spill_ref ref = {.file_key = file_key, .raw_size = raw_size};
        void *scratch = NULL;
        size_t max, n = 0;
        int r;

        if (raw_size < 1 || raw_size > s->options.max_raw_size)
                return err_set(e, ERR_INVALID, "cannot spill a block of %zu bytes", raw_size);
        r = admit_any(s, e);
        if (r < 0)
                return r;
        max = spill_record_encoded_max(raw_size);
        if (s->options.codec != SPILL_CODEC_RAW && max > 0) {
                r = spill_scratch_get(s, &scratch, e);
                if (r < 0)
                        return r;
                n = spill_codec_find(s->options.codec)->encode(scratch, max, raw, raw_size);
        }
        if (n > 0) {
                rec.codec = s->options.codec;
                rec.payload_size = n;
        }
        ref.stored_size = spill_record_stored_size(rec.payload_size);
        r = write_record(s, &ref, &rec, n > 0 ? scratch : raw, e);
        spill_scratch_put(s, scratch);
        if (r < 0)
                return r;
        *ret = ref;
        return 0;
}
