/* SPDX-License-Identifier: MIT */
/*
 * Appending records. A write has these steps; the lock is held only in those marked with *:
 *
 *    * reserve   admit and charge the write by its largest size; from here on the file stays
 *      encode    section by section into scratch; sections that gain too little stay raw, in place
 *    * place     charge the real size, choose a place at the end of the file, pin the file
 *      write     header, payloads and padding with one call
 *    * publish   make the pages live; or, if anything failed, undo all steps (giving back the
 *                bytes themselves without the lock)
 *      settle    drop earlier writes that have reached the disk from the page cache
 */
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/err.h"
#include "base/owner.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/codec/checksum.h"
#include "spill/record.h"
#include "spill/shared.h"

static const uint8_t padding[SPILL_ALIGN];

struct writing {
        const struct spill_block *block;
        const struct spill_class *layout;
        struct spill_ref ref;
        struct spill_file *file;
        bool pinned;
        uint64_t charged; /* what this write has of disk_size and pending_size */
        uint64_t day_charged;
        unsigned codec;
        /* of the sections that codec KV has coded */
        uint64_t kv_raw, kv_stored;
        double kv_usec;
        struct spill_section sections[SPILL_MAX_SECTIONS];
        const uint8_t *payloads[SPILL_MAX_SECTIONS]; /* in the raw block or in scratch */
        struct spill_record rec;
        enum spill_refusal why;
};

/* --- reserve --- */

static int reserve(struct spill *s, struct writing *w, struct err *e) {
        uint64_t size = spill_record_stored_size(w->layout->n_sections, w->block->raw_size);
        struct spill_file *f;
        int r;

        if (!s->swept || s->options.read_only)
                return err_set(e, ERR_STATE,
                        s->options.read_only ? "the spill store is open for reading only"
                                             : "the spill store has not been swept");
        f = spill_file_find(s, w->block->file_key);
        if (f && f->owner->number != w->block->owner)
                return err_set(e, ERR_INVALID,
                        "spill file %016" PRIx64 ".kv belongs to %s, not to %s", f->key,
                        OWNER_TEXT(f->owner->number), OWNER_TEXT(w->block->owner));
        r = spill_admit(s, w->block, size, &w->why, e);
        if (r < 0)
                return r;
        if (!f) {
                r = spill_file_new(s, w->block->file_key, w->block->owner, &f, e);
                if (r < 0)
                        return r;
        }
        f->n_pending++;
        spill_file_charge(s, f, size);
        s->pending_size += size;
        s->day_pending_size += size;
        w->charged = w->day_charged = size;
        w->file = f;
        w->codec = spill_codec_now(s, w->block);
        return 0;
}

/* --- encode --- */

static void use_raw(struct writing *w, size_t k) {
        uint64_t start = spill_section_start(w->layout, k, w->block->raw_size);
        uint64_t end = spill_section_start(w->layout, k + 1, w->block->raw_size);

        w->payloads[k] = (const uint8_t *)w->block->raw + start;
        w->sections[k] = (struct spill_section){.codec = SPILL_CODEC_RAW,
                .raw_size = (uint32_t)(end - start),
                .stored_size = (uint32_t)(end - start)};
}

/* Sum of the payloads. */
static uint64_t payload_size(const struct writing *w) {
        uint64_t size = 0;

        for (size_t k = 0; k < w->rec.n_sections; k++)
                size += w->sections[k].stored_size;
        return size;
}

/* Encode section @k, which is raw so far, to @to. Returns the size, 0: it stays raw. */
static size_t encode_section(
        struct spill *s, struct writing *w, size_t k, uint8_t *to, void *scratch) {
        const struct spill_section *sec = &w->sections[k];
        size_t n_arrays, max = spill_section_encoded_max(sec->raw_size), size;
        const struct spill_array *arrays = spill_section_arrays(w->layout, k, &n_arrays);
        unsigned id = w->codec;
        double t;

        /* Where raw is the choice, what is mostly zeros is not (rule 5 of choice.c). */
        if (id == SPILL_CODEC_RAW && s->options.codec == SPILL_CODEC_AUTO) {
                id = SPILL_CODEC_LZ4;
                max = sec->raw_size / 4 * 3;
        }
        if (id == SPILL_CODEC_RAW || max == 0)
                return 0;
        t = spill_thread_usec();
        size = spill_codec_find(id)->encode(
                to, max, w->payloads[k], sec->raw_size, arrays, n_arrays, scratch);
        if (id == SPILL_CODEC_KV) {
                w->kv_raw += sec->raw_size;
                w->kv_stored += size > 0 ? size : sec->raw_size;
                w->kv_usec += spill_thread_usec() - t;
        }
        if (size > 0)
                w->sections[k].codec = (uint16_t)id;
        return size;
}

static void encode(struct spill *s, struct writing *w, struct spill_scratch *scratch) {
        size_t used = 0, n = w->rec.n_sections;

        for (size_t k = 0; k < n; k++) {
                size_t size = 0;

                use_raw(w, k);
                if (scratch)
                        size = encode_section(s, w, k, scratch->buffer + used, scratch->codec);
                if (size == 0)
                        continue;
                w->payloads[k] = scratch->buffer + used;
                w->sections[k].stored_size = (uint32_t)size;
                used += size;
        }
        /* What saves no page is not worth decoding. */
        if (spill_record_stored_size(n, payload_size(w)) >=
                spill_record_stored_size(n, w->block->raw_size))
                for (size_t k = 0; k < n; k++)
                        use_raw(w, k);
        for (size_t k = 0; k < n; k++)
                w->sections[k].hash = spill_checksum(w->payloads[k], w->sections[k].stored_size);
        w->rec.payload_size = payload_size(w);
        w->ref.stored_size = spill_record_stored_size(n, w->rec.payload_size);
}

/* --- place, publish --- */

/* Give back what the real size leaves of the reservation. */
static void settle_charge(struct spill *s, struct writing *w, uint64_t size) {
        spill_file_discharge(s, w->file, w->charged - size);
        s->pending_size -= w->charged - size;
        w->charged = size;
}

static int place(struct spill *s, struct writing *w, struct err *e) {
        struct spill_file *f = w->file;
        int r;

        settle_charge(s, w, w->ref.stored_size);
        while (f->cutting)
                pthread_cond_wait(&s->cut, &s->lock);
        if (w->ref.stored_size > SPILL_FILE_MAX - f->end) {
                w->why = SPILL_REFUSED_FULL;
                return err_set(e, ERR_LIMIT, "the file cannot grow further");
        }
        w->ref.offset = f->end;
        r = spill_pages_grow(&f->pages, spill_first_page(&w->ref) + spill_n_pages(&w->ref), e);
        if (r == 0)
                r = spill_file_pin(s, f, true, e);
        if (r == -ERR_LIMIT)
                w->why = SPILL_REFUSED_FULL;
        if (r < 0)
                return r;
        f->end += w->ref.stored_size;
        w->pinned = true;
        return 0;
}

/* Undo the placing of a failed write. True if none of its range is left in the file. The lock is
 * released meanwhile; the file stays, because the write is still pending. While the end is being cut
 * off, no write is given a place behind it (place()), or the cut would take that write too. */
static bool unplace(struct spill *s, struct spill_file *f, const struct spill_ref *ref) {
        bool done = false;

        if (f->end == ref->offset + ref->stored_size) {
                f->cutting = true;
                pthread_mutex_unlock(&s->lock);
                done = ftruncate(f->fd, (off_t)ref->offset) == 0;
                pthread_mutex_lock(&s->lock);
                f->cutting = false;
                if (done)
                        f->end = ref->offset;
                pthread_cond_broadcast(&s->cut);
        }
        if (!done) {
                pthread_mutex_unlock(&s->lock);
                done = spill_io_punch(f->fd, ref->offset, ref->stored_size);
                pthread_mutex_lock(&s->lock);
        }
        return done;
}

static void finish(struct spill *s, struct writing *w, int r, uint64_t written) {
        struct spill_file *f = w->file;

        if (w->kv_raw > 0)
                spill_measure_encoded(s, w->kv_raw, w->kv_stored, w->kv_usec);
        s->day_pending_size -= w->day_charged;
        spill_turn_day(s);
        s->day_written_size += written;
        s->pending_size -= w->charged;
        spill_measure_written(s);
        if (r < 0 && (!w->pinned || unplace(s, f, &w->ref)))
                spill_file_discharge(s, f, w->charged);
        f->n_pending--;
        if (r == 0) {
                spill_pages_add(&f->pages, spill_first_page(&w->ref), spill_n_pages(&w->ref));
                f->n_records++;
                s->stats.n_records++;
                s->stats.n_writes++;
                s->stats.written_size += w->ref.stored_size;
                s->stats.raw_in_size += w->ref.raw_size;
        } else {
                spill_file_drop_if_empty(s, f);
        }
}

static int write_record(struct spill *s, struct writing *w, uint64_t *ret_written, struct err *e) {
        struct iovec iov[SPILL_MAX_SECTIONS + 2];
        uint8_t header[SPILL_HEADER_MAX];
        size_t n = w->rec.n_sections;
        size_t size = spill_header_size(n);

        spill_record_format(&w->rec, header);
        iov[0] = (struct iovec){header, size};
        /* iovec has no const; pwritev() does not write to memory. */
        for (size_t k = 0; k < n; k++)
                iov[k + 1] = (struct iovec){
                        (void *)(uintptr_t)w->payloads[k], w->sections[k].stored_size};
        iov[n + 1] = (struct iovec){
                (void *)(uintptr_t)padding, w->ref.stored_size - size - w->rec.payload_size};
        return spill_io_write(w->file->fd, iov, (int)n + 2, w->ref.offset, ret_written, e);
}

/* --- settle --- */

/* Start the write-out of the new record. If too much is unsettled, wait for the oldest write-outs
 * and drop their pages: this bounds what one file can displace from the page cache. The file is
 * pinned. */
static void settle_some(struct spill *s, struct spill_file *f, const struct spill_ref *ref) {
        uint64_t from, to;

        if (s->options.keep_cached)
                return;
        (void)sync_file_range(
                f->fd, (off_t)ref->offset, (off_t)ref->stored_size, SYNC_FILE_RANGE_WRITE);
        pthread_mutex_lock(&s->lock);
        from = to = f->settled;
        if (f->end > from && f->end - from > SPILL_UNSETTLED_MAX)
                f->settled = to = f->end - SPILL_UNSETTLED_MAX / 2;
        pthread_mutex_unlock(&s->lock);
        if (to == from)
                return;
        (void)sync_file_range(f->fd, (off_t)from, (off_t)(to - from),
                SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        /* From the start: what did not go the last time goes now, and an empty range costs nothing.
         */
        (void)posix_fadvise(f->fd, 0, (off_t)to, POSIX_FADV_DONTNEED);
}

void spill_settle(struct spill *s, uint64_t file_key) {
        struct spill_file *f;

        if (s->options.keep_cached || s->options.read_only)
                return;
        pthread_mutex_lock(&s->lock);
        f = spill_file_find(s, file_key);
        /* A file that nobody opened since the start has nothing to settle. */
        if (f && (f->settled == f->end || spill_file_pin(s, f, false, NULL) < 0))
                f = NULL;
        if (f)
                f->settled = f->end;
        pthread_mutex_unlock(&s->lock);
        if (!f)
                return;
        (void)sync_file_range(f->fd, 0, 0,
                SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
        pthread_mutex_lock(&s->lock);
        spill_measure_written(s);
        pthread_mutex_unlock(&s->lock);
        spill_file_let_go(s, f, 1);
}

/* --- all of it --- */

uint64_t spill_stored_max(struct spill *s, size_t raw_size) {
        return spill_record_stored_size(s->max_sections, raw_size);
}

static void refuse(struct spill *s, const struct writing *w) {
        s->stats.n_refused++;
        s->stats.n_refused_by[w->why]++;
}

static int write_block(
        struct spill *s, struct writing *w, struct spill_scratch *scratch, struct err *e) {
        uint64_t written = 0;
        int r;

        pthread_mutex_lock(&s->lock);
        r = reserve(s, w, e);
        if (w->why != SPILL_REFUSED_NOT)
                refuse(s, w);
        pthread_mutex_unlock(&s->lock);
        if (r < 0)
                return r;
        encode(s, w, scratch);
        pthread_mutex_lock(&s->lock);
        r = place(s, w, e);
        pthread_mutex_unlock(&s->lock);
        if (r == 0) {
                r = write_record(s, w, &written, e);
                if (r == -ERR_LIMIT)
                        w->why = SPILL_REFUSED_FULL;
        }
        pthread_mutex_lock(&s->lock);
        finish(s, w, r, written);
        if (w->why != SPILL_REFUSED_NOT)
                refuse(s, w);
        pthread_mutex_unlock(&s->lock);
        if (r == 0)
                settle_some(s, w->file, &w->ref);
        if (w->pinned)
                spill_file_let_go(s, w->file, 1);
        return spill_wrap(r, &w->ref, e);
}

int spill_write(struct spill *s, const struct spill_block *b, struct spill_ref *ret,
        enum spill_refusal *ret_why, struct err *e) {
        size_t class = spill_class_find(s, b->meta.class_id);
        struct spill_scratch *scratch = NULL;
        struct writing w;
        int r;

        if (ret_why)
                *ret_why = SPILL_REFUSED_NOT;
        if (class == SPILL_MAX_CLASSES || b->raw_size < 1 ||
                b->raw_size > s->options.max_raw_size ||
                (s->classes[class].raw_size > 0 && b->raw_size != s->classes[class].raw_size))
                return err_set(e, ERR_INVALID,
                        "cannot spill a block of class %" PRIu32 ", %zu bytes", b->meta.class_id,
                        b->raw_size);
        w.block = b;
        w.layout = &s->classes[class];
        w.file = NULL;
        w.pinned = false;
        w.kv_raw = w.kv_stored = 0;
        w.kv_usec = 0;
        w.why = SPILL_REFUSED_NOT;
        w.ref = (struct spill_ref){
                .file_key = b->file_key, .raw_size = b->raw_size, .owner = b->owner};
        w.rec = (struct spill_record){.fingerprint = s->options.fingerprint,
                .meta = b->meta,
                .raw_size = b->raw_size,
                .n_sections = w.layout->n_sections,
                .sections = w.sections};
        if (s->options.codec != SPILL_CODEC_RAW) {
                r = spill_scratch_get(s, &scratch, e);
                if (r < 0)
                        return r;
        }
        r = write_block(s, &w, scratch, e);
        spill_scratch_put(s, scratch);
        if (ret_why)
                *ret_why = w.why;
        if (r < 0)
                return r;
        *ret = w.ref;
        return 0;
}
