/* SPDX-License-Identifier: MIT */
/* Reading records back, and letting go of them. */
#include <fcntl.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/util.h"
#include "spill/record.h"
#include "spill/shared.h"

/* A record that has the size of a raw one: header and payload come in one read, the payload to
 * where it is wanted. */
static int read_raw(struct spill *s, int fd, const struct spill_ref *ref,
        const struct spill_meta *meta, void *dst, struct err *e) {
        uint8_t header[SPILL_HEADER_SIZE];
        struct iovec iov[2] = {{header, sizeof(header)}, {dst, ref->raw_size}};
        struct spill_record rec;
        int r;

        r = spill_io_read(fd, iov, ARRAY_SIZE(iov), ref->offset, e);
        if (r == 0)
                r = spill_record_parse(header, sizeof(header), &rec, e);
        if (r == 0)
                r = spill_record_match(&rec, &s->options.fingerprint, meta, ref, e);
        if (r == 0)
                r = spill_record_verify(&rec, dst, e);
        return r;
}

static int read_encoded(struct spill *s, int fd, const struct spill_ref *ref,
        const struct spill_meta *meta, void *dst, struct err *e) {
        struct spill_record rec;
        struct iovec iov;
        void *scratch;
        const uint8_t *data;
        int r;

        r = spill_scratch_get(s, &scratch, e);
        if (r < 0)
                return r;
        data = scratch;
        iov = (struct iovec){scratch, ref->stored_size};
        r = spill_io_read(fd, &iov, 1, ref->offset, e);
        if (r == 0)
                r = spill_record_parse(data, ref->stored_size, &rec, e);
        if (r == 0)
                r = spill_record_match(&rec, &s->options.fingerprint, meta, ref, e);
        /* The match has made sure that the payload lies within stored_size. */
        if (r == 0)
                r = spill_record_verify(&rec, data + SPILL_HEADER_SIZE, e);
        if (r == 0)
                r = spill_record_decode(&rec, data + SPILL_HEADER_SIZE, dst, e);
        spill_scratch_put(s, scratch);
        return r;
}

int spill_read(struct spill *s, const struct spill_ref *ref, const struct spill_meta *meta,
        void *dst, size_t dst_size, struct err *e) {
        struct spill_file *f;
        int r;

        if (dst_size != ref->raw_size)
                return err_set(e, ERR_INVALID, "%zu bytes for a record of %" PRIu64, dst_size,
                        ref->raw_size);
        pthread_mutex_lock(&s->lock);
        f = spill_find_record(s, ref);
        r = f ? spill_file_pin(s, f, false, e) : spill_not_found(ref, e);
        pthread_mutex_unlock(&s->lock);
        if (r == -ERR_NOT_FOUND)
                return r;
        if (r == 0) {
                /* f->fd stays, but f itself belongs to the lock. */
                int fd = f->fd;

                if (ref->stored_size == spill_record_stored_size(ref->raw_size))
                        r = read_raw(s, fd, ref, meta, dst, e);
                else
                        r = read_encoded(s, fd, ref, meta, dst, e);
                if (!s->options.keep_cached)
                        (void)posix_fadvise(fd, (off_t)ref->offset, (off_t)ref->stored_size,
                                POSIX_FADV_DONTNEED);
        } else {
                f = NULL;
        }
        pthread_mutex_lock(&s->lock);
        if (f)
                spill_file_unpin(s, f);
        if (r == 0) {
                s->stats.n_reads++;
                s->stats.read_size += ref->stored_size;
                s->stats.raw_out_size += ref->raw_size;
        } else if (r == -ERR_CORRUPT) {
                s->stats.n_corrupt++;
        }
        pthread_mutex_unlock(&s->lock);
        return spill_wrap(r, ref, e);
}

/* --- release --- */

int spill_release(struct spill *s, const struct spill_ref *ref, struct err *e) {
        struct spill_file *f;
        bool pinned, punched;

        pthread_mutex_lock(&s->lock);
        f = spill_find_record(s, ref);
        if (!f) {
                pthread_mutex_unlock(&s->lock);
                return spill_not_found(ref, e);
        }
        spill_pages_remove(&f->pages, spill_first_page(ref), spill_n_pages(ref));
        f->n_records--;
        s->stats.n_records--;
        pinned = false;
        if (spill_file_drop_if_empty(s, f))
                s->stats.punched_size += ref->stored_size;
        else
                /* If it cannot be opened, the space stays accounted for until the file goes. */
                pinned = spill_file_pin(s, f, false, NULL) == 0;
        pthread_mutex_unlock(&s->lock);
        if (!pinned)
                return 0;
        punched = spill_io_punch(f->fd, ref->offset, ref->stored_size);
        pthread_mutex_lock(&s->lock);
        if (punched) {
                s->stats.punched_size += ref->stored_size;
                if (!f->gone)
                        spill_file_discharge(s, f, ref->stored_size);
        }
        spill_file_unpin(s, f);
        pthread_mutex_unlock(&s->lock);
        return 0;
}
