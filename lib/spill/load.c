/* SPDX-License-Identifier: MIT */
/*
 * Reading records, many at a time.
 *
 * A load goes through its items in their order on disk. It collects the wanted parts into windows.
 * A window is a run of pieces (a piece is a section of an item, or a record from its header on)
 * that follow one another in one file with small gaps at most, up to a size that fits the
 * processor's cache. A window is read with one call, into a ring of memory (queue.h). While the
 * oldest window is checked and decoded to its destination, the disk reads the next ones: so a load
 * takes as long as the disk or as decoding, whichever is longer, not the sum of both.
 *
 * 1. No part of a record is used before its header was found correct: checksum, fingerprint,
 *    identity, division into sections, and sizes that add up exactly to the ref's. After that the
 *    place and size of every section are known and lie within the live record, and no two sections
 *    fill the same bytes of dst.
 * 2. A section counts as read (is_read) once its payload's checksum is correct and, if encoded, the
 *    codec has decoded it to exactly its raw size.
 * 3. A faulty item spoils no other item: if a window cannot be read, its pieces are read again one
 *    by one.
 * 4. An item whose record is released during the load is either complete (its bytes were still
 *    there, and verified) or fails as not found; it never fails as damaged.
 * 5. Memory is bounded by spill_load_size() and spill_scratch_size().
 * 6. While the disk is late (note_wait() in window.c), what was read goes out of the processor's caches before the disk
 *    fills its place anew (queue.h). It is not free, a tenth of the time of decoding: so not while decoding is what
 *    takes the time.
 *
 * How a window is read:
 *
 *      it is in the page cache   from the cache, when its turn comes, raw sections straight to
 *      (just written, or kept    their destination; dropped from the cache when the load ends
 *      there on request)
 *      otherwise                 with O_DIRECT, at once: it bypasses the page cache, so it takes
 *                                no pages there and no copying. (If the window is the whole load,
 *                                there is nothing to do meanwhile: it is then read when its turn
 *                                comes, without AIO.)
 *      otherwise, if the file    announced at once (POSIX_FADV_WILLNEED), read through the page
 *      system lacks O_DIRECT     cache when its turn comes, and dropped
 *
 * mincore(2) on a record's first and last page tells whether the record is in the page cache. The
 * answer is only a hint: either way of reading gives the right bytes. The kernel's own read-ahead
 * is switched off (POSIX_FADV_RANDOM): it would read bytes that nobody wants, or that O_DIRECT
 * reads anyway.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* --- a load --- */

/* Bytes per item, of the parts of a load's allocation. */
static size_t size_per_item(const struct spill *s) {
        return sizeof(struct spill_load_item) + s->max_sections * sizeof(struct spill_section) +
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
        l->order = (uint32_t *)(sections + n * s->max_sections);
        for (size_t i = 0; i < n; i++) {
                size_t class = spill_class_find(s, items[i].meta.class_id);

                items[i].r = 0;
                l->state[i] = (struct spill_load_item){.class = class,
                        .layout = class < SPILL_MAX_CLASSES ? &s->classes[class] : NULL,
                        .fd = -1,
                        .direct_fd = -1,
                        .sections = sections + i * s->max_sections};
                if (l->state[i].layout)
                        l->state[i].n_left = (uint32_t)l->state[i].layout->n_sections;
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
                f = st->layout && spill_ref_fits(s, st->layout, &l->items[i].ref)
                            ? spill_find_record(s, &l->items[i].ref)
                            : NULL;
                r = f ? spill_file_pin(s, f, false, &e) : 0;
                if (f && r == 0) {
                        /* The descriptors stay, but f itself belongs to the lock. */
                        st->file = f;
                        st->fd = f->fd;
                        st->direct_fd = spill_file_direct(s, f);
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

/* Items order[from..*ret) are of one file. */
static size_t same_file(const struct spill_load *l, size_t from) {
        const struct spill_file *f = l->state[l->order[from]].file;
        size_t to = from + 1;

        while (to < l->n && l->state[l->order[to]].file == f)
                to++;
        return to;
}

static bool is_resident(uint8_t *map, uint64_t at, size_t page) {
        unsigned char resident = 0;

        return mincore(map + at - at % page, 1, &resident) == 0 && (resident & 1);
}

/* Which of the items order[from..to), all of one file, are in the page cache. */
static void look_into_cache(struct spill_load *l, size_t from, size_t to) {
        const struct spill_ref *ref = &l->items[l->order[from]].ref;
        const struct spill_ref *last = &l->items[l->order[to - 1]].ref;
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        uint64_t start = ref->offset - ref->offset % page;
        size_t size = last->offset + last->stored_size - start;
        uint8_t *map;

        map = mmap(NULL, size, PROT_READ, MAP_SHARED, l->state[l->order[from]].fd, (off_t)start);
        if (map == MAP_FAILED)
                return;
        for (; from < to; from++) {
                ref = &l->items[l->order[from]].ref;
                l->state[l->order[from]].is_cached =
                        is_resident(map, ref->offset - start, page) &&
                        is_resident(map, ref->offset + ref->stored_size - 1 - start, page);
        }
        munmap(map, size);
}

int spill_load_parse(struct spill_load *l, size_t i, const uint8_t *data, struct err *e) {
        const struct spill_item *it = &l->items[i];
        struct spill_load_item *st = &l->state[i];
        struct spill *s = l->s;
        struct spill_record rec;
        int r;

        r = spill_record_parse(data, spill_header_size(st->layout->n_sections), st->sections,
                st->layout->n_sections, &rec, e);
        if (r == 0 && rec.n_sections != st->layout->n_sections)
                r = err_set(e, ERR_CORRUPT, "a record of %zu sections, not %zu", rec.n_sections,
                        st->layout->n_sections);
        if (r == 0)
                r = spill_record_match(&rec, &s->options.fingerprint, &it->meta, &it->ref,
                        st->layout->section_ends, e);
        st->is_known = r == 0;
        return r;
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
        for (size_t from = 0, to; from < n; from = to) {
                to = same_file(l, from);
                if (l->state[l->order[from]].file)
                        look_into_cache(l, from, to);
        }
        if (first.r < 0 && e)
                *e = first.err;
        *ret = l;
        return first.r;
}

/* Drop from the page cache what was read through it of the items order[from..to), all of one file.
 * Adjacent ranges are dropped with one call: a large page goes only as a whole, and each call that
 * meets one that cannot go waits for all processors. */
static void drop_read(const struct spill_load *l, size_t from, size_t to) {
        int fd = l->state[l->order[from]].fd;

        while (from < to) {
                uint64_t start = l->items[l->order[from]].ref.offset, end = start;

                for (; from < to && l->items[l->order[from]].ref.offset <= end &&
                        l->state[l->order[from]].is_through;
                        from++)
                        end = l->items[l->order[from]].ref.offset +
                              l->items[l->order[from]].ref.stored_size;
                if (end > start)
                        (void)posix_fadvise(
                                fd, (off_t)start, (off_t)(end - start), POSIX_FADV_DONTNEED);
                else
                        from++;
        }
}

struct spill_load *spill_load_free(struct spill_load *l) {
        if (!l)
                return NULL;
        for (size_t from = 0, to; from < l->n; from = to) {
                struct spill_file *f = l->state[l->order[from]].file;

                to = same_file(l, from);
                if (!f)
                        continue;
                if (!l->s->options.keep_cached)
                        drop_read(l, from, to);
                spill_file_let_go(l->s, f, (unsigned)(to - from));
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
        k = spill_load_read_all(l, &why);
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
