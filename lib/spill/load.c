/* SPDX-License-Identifier: MIT */
/*
 * Reading records, many at a time.
 *
 * A load goes through its items in the order in which they lie on disk. What is wanted of them is
 * collected into a window: pieces (one section of one item) that follow one another in one file
 * with at most a small gap, up to a size that the processor's cache holds. A window is read with
 * one call: raw sections straight to where they belong, encoded ones behind each other into
 * scratch, gaps into a bin. Then each piece is checked and decoded for itself. Where all sections
 * are wanted at once, a record that is not larger than a window is one piece together with its
 * header; else the header is read when its record's turn comes, so that the disk only goes forward.
 *
 * 1. Nothing of a record counts before its header was found right: checksum, fingerprint, identity,
 *    division into sections, and that the sizes make up exactly the ref's. So the place and the
 *    size of every section are known and lie within the live record, and the bytes of dst that a
 *    section fills are its own.
 * 2. A section counts (is_read) after its payload's checksum was found right and, if encoded, the
 *    codec made exactly its raw bytes of it.
 * 3. One item's fault is its own: if a joined read fails, its pieces are read again one by one.
 * 4. An item whose record is released meanwhile is either whole all the same (its bytes were still
 *    there, and verified) or fails as not found; never as damaged.
 * 5. Memory is bounded by what spill_load_size() and spill_scratch_size() say.
 *
 * Read-ahead. Where whole records are read and the kernel's own reaches far (the disk's
 * read_ahead_kb is 1 MiB or more) it is left to the kernel, which sees reads that go forward,
 * allocates large pages and is cheapest. Elsewhere the disk would wait for us between two windows:
 * 128 KiB are usual, and sections that are wanted one after the other are read in strides. There
 * the ranges of the pieces that come next, up to SPILL_AHEAD_SIZE in front of the window, are
 * announced with POSIX_FADV_WILLNEED: first those of this call, then the same number of sections
 * behind them, which the next call will want. On a disk whose read-ahead is short it is switched
 * off (POSIX_FADV_RANDOM).
 *
 * What was read is dropped from the page cache (POSIX_FADV_DONTNEED) window by window, so that a
 * large restore takes up no more of it than that.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/util.h"
#include "spill/load.h"

/* --- shared with window.c --- */

void spill_load_fail_item(
        struct spill_load *l, size_t i, int r, struct err *e, struct spill_load_failure *first) {
        const struct spill_ref *ref = &l->items[i].ref;
        struct spill *s = l->s;

        pthread_mutex_lock(&s->lock);
        /* Gone while it was read: so it is no wonder, and nothing is damaged. */
        if (l->state[i].file && spill_find_record(s, ref) != l->state[i].file)
                r = spill_not_found(ref, e);
        else
                spill_wrap(r, ref, e);
        if (r == -ERR_CORRUPT)
                s->stats.n_corrupt++;
        pthread_mutex_unlock(&s->lock);
        l->items[i].r = r;
        if (first->r == 0)
                *first = (struct spill_load_failure){r, *e};
}

void spill_load_announce(int fd, uint64_t offset, uint64_t size) {
        (void)posix_fadvise(fd, (off_t)offset, (off_t)size, POSIX_FADV_WILLNEED);
}

/* --- a load --- */

size_t spill_n_sections(struct spill *s) {
        return s->n_sections;
}

/* Bytes per item, of the parts of a load's allocation. */
static size_t size_per_item(const struct spill *s) {
        return sizeof(struct spill_load_item) + s->n_sections * sizeof(struct spill_section) +
               sizeof(uint32_t);
}

size_t spill_load_size(struct spill *s, size_t n) {
        return sizeof(struct spill_load) + n * size_per_item(s);
}

static int compare_places(const void *a, const void *b, void *items) {
        const struct spill_ref *x = &((struct spill_item *)items)[*(const uint32_t *)a].ref;
        const struct spill_ref *y = &((struct spill_item *)items)[*(const uint32_t *)b].ref;

        if (x->file_key != y->file_key)
                return x->file_key < y->file_key ? -1 : 1;
        return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int load_alloc(struct spill_load **ret, struct spill *s, struct spill_item *items, size_t n,
        struct err *e) {
        struct spill_section *sections;
        struct spill_load *l;

        if (n < 1 || n > UINT32_MAX || n > (SIZE_MAX - sizeof(*l)) / size_per_item(s))
                return err_set(e, ERR_INVALID, "cannot load %zu records", n);
        l = calloc(1, spill_load_size(s, n));
        if (!l)
                return err_set(e, ERR_NOMEM, "no memory to load %zu records", n);
        l->s = s;
        l->items = items;
        l->n = n;
        l->state = (struct spill_load_item *)(l + 1);
        sections = (struct spill_section *)(l->state + n);
        l->order = (uint32_t *)(sections + n * s->n_sections);
        for (size_t i = 0; i < n; i++) {
                items[i].r = 0;
                l->state[i] = (struct spill_load_item){.fd = -1,
                        .n_left = (uint32_t)s->n_sections,
                        .sections = sections + i * s->n_sections};
                l->order[i] = (uint32_t)i;
        }
        qsort_r(l->order, n, sizeof(*l->order), compare_places, items);
        *ret = l;
        return 0;
}

/* Find the items' records and open their files. */
static void load_pin(struct spill_load *l, struct spill_load_failure *first) {
        struct spill *s = l->s;

        for (size_t k = 0; k < l->n; k++) {
                size_t i = l->order[k];
                struct spill_load_item *st = &l->state[i];
                struct spill_file *f;
                struct err e;
                int r;

                pthread_mutex_lock(&s->lock);
                f = spill_find_record(s, &l->items[i].ref);
                r = f ? spill_file_pin(s, f, false, &e) : 0;
                if (f && r == 0) {
                        /* f->fd stays, but f itself belongs to the lock. */
                        st->file = f;
                        st->fd = f->fd;
                }
                pthread_mutex_unlock(&s->lock);
                if (!f)
                        r = spill_not_found(&l->items[i].ref, &e);
                if (r == -ERR_NOT_FOUND) {
                        l->items[i].r = r;
                        if (first->r == 0)
                                *first = (struct spill_load_failure){r, e};
                } else if (r < 0)
                        spill_load_fail_item(l, i, r, &e, first);
        }
}

/* Announce the headers, and of the first sections as much as is good. How long those are stands in
 * the headers: taken to be encoded as well as the whole. */
void spill_load_announce_first(struct spill_load *l) {
        size_t header = spill_header_size(l->s->n_sections);
        uint64_t ahead = 0;

        for (size_t k = 0; k < l->n; k++) {
                size_t i = l->order[k];
                const struct spill_ref *ref = &l->items[i].ref;
                uint64_t size = header;

                if (l->items[i].r < 0)
                        continue;
                if (ahead < SPILL_AHEAD_SIZE)
                        size += spill_section_start(l->s, 1, ref->raw_size) * ref->stored_size /
                                ref->raw_size;
                size = MIN(size, ref->stored_size);
                spill_load_announce(l->state[i].fd, ref->offset, size);
                ahead += size;
        }
}

int spill_load_parse(struct spill_load *l, size_t i, const uint8_t *data, struct err *e) {
        const struct spill_item *it = &l->items[i];
        struct spill_load_item *st = &l->state[i];
        struct spill *s = l->s;
        struct spill_record rec;
        int r;

        r = spill_record_parse(
                data, spill_header_size(s->n_sections), st->sections, s->n_sections, &rec, e);
        if (r == 0 && rec.n_sections != s->n_sections)
                r = err_set(e, ERR_CORRUPT, "a record of %zu sections, not %zu", rec.n_sections,
                        s->n_sections);
        if (r == 0)
                r = spill_record_match(
                        &rec, &s->options.fingerprint, &it->meta, &it->ref, s->section_ends, e);
        st->is_known = r == 0;
        return r;
}

int spill_load_header(struct spill_load *l, size_t i, struct err *e) {
        uint8_t header[SPILL_HEADER_MAX];
        struct iovec iov = {header, spill_header_size(l->s->n_sections)};
        int r;

        r = spill_io_read(l->state[i].fd, &iov, 1, l->items[i].ref.offset, e);
        pthread_mutex_lock(&l->s->lock);
        l->s->stats.n_preads++;
        pthread_mutex_unlock(&l->s->lock);
        return r < 0 ? r : spill_load_parse(l, i, header, e);
}

int spill_load_new(struct spill_load **ret, struct spill *s, struct spill_item *items, size_t n,
        struct err *e) {
        struct spill_load *l = NULL;
        struct spill_load_failure first = {0};
        int r;

        r = load_alloc(&l, s, items, n, e);
        if (r < 0)
                return r;
        load_pin(l, &first);
        l->announce = s->announce;
        if (l->announce)
                spill_load_announce_first(l);
        if (first.r < 0 && e)
                *e = first.err;
        *ret = l;
        return first.r;
}

/* Drop from the page cache what is left of items order[from..to), all of one file. If nobody else
 * reads there, what lies between them goes too: read-ahead brought it, and nobody wants it. */
static void load_drop(struct spill_load *l, size_t from, size_t to, bool alone) {
        int fd = l->state[l->order[from]].fd;
        uint64_t start, end;

        while (from < to) {
                start = end = l->items[l->order[from]].ref.offset;
                while (from < to && (alone || l->items[l->order[from]].ref.offset == end)) {
                        const struct spill_ref *ref = &l->items[l->order[from++]].ref;

                        end = ref->offset + ref->stored_size;
                }
                (void)posix_fadvise(fd, (off_t)start, (off_t)(end - start), POSIX_FADV_DONTNEED);
        }
}

/* Let the items order[from..to) go, all of one file. */
static void load_unpin(struct spill_load *l, size_t from, size_t to) {
        struct spill_file *f = l->state[l->order[from]].file;
        struct spill *s = l->s;
        bool alone;

        if (!f)
                return;
        if (!s->options.keep_cached) {
                pthread_mutex_lock(&s->lock);
                alone = f->n_users == to - from;
                pthread_mutex_unlock(&s->lock);
                load_drop(l, from, to, alone);
        }
        spill_file_let_go(s, f, (unsigned)(to - from));
}

struct spill_load *spill_load_free(struct spill_load *l) {
        size_t from, to;

        if (!l)
                return NULL;
        for (from = 0; from < l->n; from = to) {
                to = from + 1;
                while (to < l->n && l->state[l->order[to]].file == l->state[l->order[from]].file)
                        to++;
                load_unpin(l, from, to);
        }
        free(l);
        return NULL;
}

/* --- at once --- */

int spill_read_batch(struct spill *s, struct spill_item *items, size_t n, struct err *e) {
        struct spill_load *l = NULL;
        struct err why;
        int r, k;

        if (n == 0)
                return 0;
        r = spill_load_new(&l, s, items, n, e);
        if (!l)
                return r;
        k = spill_load_read(l, 0, s->n_sections, &why);
        spill_load_free(l);
        if (r == 0 && k < 0) {
                if (e)
                        *e = why;
                r = k;
        }
        return r;
}

int spill_read(struct spill *s, const struct spill_ref *ref, const struct spill_meta *meta,
        void *dst, size_t dst_size, struct err *e) {
        struct spill_item item = {.ref = *ref, .meta = *meta, .dst = dst};

        if (dst_size != ref->raw_size)
                return err_set(e, ERR_INVALID, "%zu bytes for a record of %" PRIu64, dst_size,
                        ref->raw_size);
        return spill_read_batch(s, &item, 1, e);
}
