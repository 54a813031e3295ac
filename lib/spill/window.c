/* SPDX-License-Identifier: MIT */
/* Reading sections of a load: windows in flight, as the top of load.c describes them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/load.h"

enum {
        /* Sections that are decoded side by side, two at a time. */
        MAX_JOBS = 16,
        /* A piece in up to two parts, and the gap in front of it. */
        MAX_IOV = 3 * SPILL_MAX_PIECES,
        /* Headers that are read separately are requested this many at a time, while the sections of
         * as many earlier records are in flight. */
        N_HEADERS = 4,
        /* The disk is late if a load spends more than this part of its time on waiting for it. */
        LATE_PART = 16,
        SPARE_PART = 4, /* of the ring: see take_place() */
};

/* A piece that is a record from its header on: up to the end of the wanted sections if those are
 * the first ones, or of as many of them as fit into a window; else the header alone. */
#define HEAD UINT32_MAX

/* What one call does. */
struct pass {
        struct spill_load *l;
        const struct spill_range *sections; /* [SPILL_MAX_CLASSES] */
        struct spill_scratch *scratch;
        bool is_small; /* there is nothing to read meanwhile */
        /* Windows in flight: scratch->windows[(oldest + i) % SPILL_QUEUE_MAX], i < n_windows; the
         * one behind them is being filled if open is set. */
        size_t oldest, n_windows;
        struct spill_window *open;
        uint64_t begun_usec; /* when the first window from the disk was there; 0: none was */
        uint64_t late_usec;  /* since then, the wait for others */
        struct spill_load_failure first_failure;
        /* for figures.c: what came from the disk, the wait for it; raw bytes and CPU time of what KV
         * had coded, and of what was raw */
        uint64_t read_size, waited_usec;
        bool from_cache;
        uint64_t kv_size, copy_size;
        double kv_usec, copy_usec;
        /* what waits to be decoded, out of the oldest window */
        size_t n_jobs;
        struct spill_codec_job jobs[MAX_JOBS];
        struct spill_piece job_of[MAX_JOBS];
};

/* The sections of item @i that are wanted. */
static struct spill_range wanted(const struct pass *p, uint32_t i) {
        const struct spill_load_item *st = &p->l->state[i];

        return st->layout ? p->sections[st->class] : (struct spill_range){0};
}

static void item_done(struct spill_load *l, size_t i) {
        struct spill *s = l->s;

        pthread_mutex_lock(&s->lock);
        s->stats.n_reads++;
        s->stats.read_size += l->items[i].ref.stored_size;
        s->stats.raw_out_size += l->items[i].ref.raw_size;
        pthread_mutex_unlock(&s->lock);
}

/* --- what was read --- */

static void section_fail(struct pass *p, uint32_t i, uint32_t k, int r, struct err *e) {
        err_wrap(e, r, "section %" PRIu32, k);
        spill_load_fail_item(p->l, i, r, e, &p->first_failure);
}

static void section_done(struct pass *p, uint32_t i, uint32_t k) {
        struct spill_load_item *st = &p->l->state[i];

        st->sections[k].is_read = true;
        if (--st->n_left == 0)
                item_done(p->l, i);
}

/* Decode what was checked, side by side. */
static void decode_flush(struct pass *p) {
        double t = p->n_jobs > 0 ? spill_thread_usec() : 0;
        uint64_t size = 0;

        spill_codec_decode_many(p->jobs, p->n_jobs, p->scratch->codec);
        for (size_t j = 0; j < p->n_jobs; j++)
                size += p->jobs[j].codec->id == SPILL_CODEC_KV ? p->jobs[j].dst_size : 0;
        if (size > 0) {
                p->kv_usec += spill_thread_usec() - t;
                p->kv_size += size;
        }
        for (size_t j = 0; j < p->n_jobs; j++) {
                uint32_t i = p->job_of[j].item, k = p->job_of[j].section;
                struct err e;

                if (p->l->items[i].r < 0)
                        continue;
                if (p->jobs[j].r == 0) {
                        section_done(p, i, k);
                        continue;
                }
                err_set(&e, ERR_CORRUPT, "the payload does not decode (codec %s)",
                        p->jobs[j].codec->name);
                section_fail(p, i, k, -ERR_CORRUPT, &e);
        }
        p->n_jobs = 0;
}

/* Where section @k of item @i belongs. */
static uint8_t *section_dst(const struct spill_load *l, uint32_t i, uint32_t k) {
        const struct spill_item *it = &l->items[i];

        return (uint8_t *)it->dst + spill_section_start(l->state[i].layout, k, it->ref.raw_size);
}

/* Whether a piece's payload goes straight to dst when it is read through the page cache. */
static bool goes_to_dst(const struct spill_load *l, const struct spill_piece *pc) {
        if (pc->section == HEAD)
                return spill_ref_is_raw(l->state[pc->item].layout, &l->items[pc->item].ref);
        return l->state[pc->item].sections[pc->section].codec == SPILL_CODEC_RAW;
}

/* The place in the file of the pages that a window touches. */
static uint64_t image_start(const struct spill_window *w) {
        return w->start - w->start % SPILL_ALIGN;
}

/* Where the byte at @offset of the file lies in the image. */
static uint8_t *image_at(const struct spill_window *w, uint64_t offset) {
        return w->image + (offset - image_start(w));
}

/* Check section @k, which came with piece @pc, and bring it into dst: at the latest with the next
 * decode_flush(). */
static void section_finish(
        struct pass *p, const struct spill_window *w, const struct spill_piece *pc, uint32_t k) {
        struct spill_load *l = p->l;
        struct spill_section *sec = &l->state[pc->item].sections[k];
        uint8_t *dst = section_dst(l, pc->item, k);
        const uint8_t *data = !w->is_direct && goes_to_dst(l, pc)
                                      ? dst
                                      : image_at(w, l->items[pc->item].ref.offset + sec->offset);
        double t = spill_thread_usec();
        struct spill_codec_job *job;
        struct err e;
        int r;

        r = spill_section_verify(sec, data, &e);
        if (r < 0) {
                section_fail(p, pc->item, k, r, &e);
                return;
        }
        if (sec->codec == SPILL_CODEC_RAW) {
                if (data != dst) {
                        memcpy(dst, data, sec->raw_size);
                        p->copy_usec += spill_thread_usec() - t;
                        p->copy_size += sec->raw_size;
                }
                section_done(p, pc->item, k);
                return;
        }
        if (sec->codec == SPILL_CODEC_KV)
                p->kv_usec += spill_thread_usec() - t;
        if (p->n_jobs == MAX_JOBS)
                decode_flush(p);
        p->job_of[p->n_jobs] = (struct spill_piece){.item = pc->item, .section = k};
        job = &p->jobs[p->n_jobs++];
        *job = (struct spill_codec_job){.codec = spill_codec_find(sec->codec),
                .dst = dst,
                .dst_size = sec->raw_size,
                .src = data,
                .n = sec->stored_size};
        job->arrays = spill_section_arrays(l->state[pc->item].layout, k, &job->n_arrays);
}

/* Whether section @k lies in a piece that is a record's beginning. */
static bool head_has(const struct spill_load *l, const struct spill_piece *pc, size_t k) {
        const struct spill_section *sec = &l->state[pc->item].sections[k];

        return (uint64_t)sec->offset + sec->stored_size <= pc->end - pc->start;
}

/* Check and decode what was read. */
static void piece_finish(
        struct pass *p, const struct spill_window *w, const struct spill_piece *pc) {
        struct spill_range want = wanted(p, pc->item);
        struct spill_load *l = p->l;
        struct err e;
        int r;

        if (l->items[pc->item].r < 0)
                return;
        if (pc->section != HEAD) {
                section_finish(p, w, pc, pc->section);
                return;
        }
        r = spill_load_parse(l, pc->item, image_at(w, pc->start), &e);
        if (r < 0) {
                spill_load_fail_item(l, pc->item, r, &e, &p->first_failure);
                return;
        }
        for (size_t k = want.first; k < want.first + want.n && l->items[pc->item].r == 0; k++)
                if (head_has(l, pc, k))
                        section_finish(p, w, pc, (uint32_t)k);
}

/* --- reading --- */

/* Drop pieces[from..to) of a window from the page cache. Only whole pages can go: the page in which
 * the next section begins stays until that section is read. */
static void drop_pieces(
        const struct spill_load *l, const struct spill_window *w, size_t from, size_t to) {
        const struct spill_piece *last = &w->pieces[to - 1];
        const struct spill_ref *ref = &l->items[last->item].ref;
        uint64_t start = w->pieces[from].start, end = last->end;
        bool is_end = ref->offset + ref->stored_size - end < SPILL_ALIGN;

        start -= start % SPILL_ALIGN;
        end = is_end ? align_up(end, SPILL_ALIGN) : end - end % SPILL_ALIGN;
        if (end > start)
                (void)posix_fadvise(w->fd, (off_t)start, (off_t)(end - start), POSIX_FADV_DONTNEED);
}

/* Read pieces[from..to) of a window through the page cache. Pages that only this read brought there
 * are dropped at once, the others when the load ends. */
static int read_pieces(
        struct pass *p, const struct spill_window *w, size_t from, size_t to, struct err *e) {
        uint64_t start = w->pieces[from].start, end = w->pieces[to - 1].end, at = start;
        struct spill_load *l = p->l;
        struct iovec iov[MAX_IOV];
        int n = 0, r;

        for (size_t i = from; i < to; i++) {
                const struct spill_piece *pc = &w->pieces[i];
                uint64_t payload = pc->start;

                if (!goes_to_dst(l, pc))
                        continue;
                if (pc->section == HEAD)
                        payload += spill_header_size(l->state[pc->item].layout->n_sections);
                if (payload > at)
                        iov[n++] = (struct iovec){image_at(w, at), payload - at};
                if (pc->end > payload)
                        iov[n++] = (struct iovec){
                                section_dst(l, pc->item, pc->section == HEAD ? 0 : pc->section),
                                pc->end - payload};
                at = pc->end;
        }
        if (end > at)
                iov[n++] = (struct iovec){image_at(w, at), end - at};
        r = spill_io_read(w->fd, iov, n, start, e);
        for (size_t i = from; i < to; i++)
                l->state[w->pieces[i].item].is_through = true;
        if (!w->is_cached && !l->s->options.keep_cached)
                drop_pieces(l, w, from, to);
        return r;
}

/* A window that cannot be read as a whole: read each piece separately. */
static void read_apart(struct pass *p, struct spill_window *w) {
        struct spill_load *l = p->l;

        w->is_direct = false;
        for (size_t i = 0; i < w->n_pieces; i++) {
                struct spill_piece *pc = &w->pieces[i];
                struct err e;
                int r;

                if (l->items[pc->item].r < 0)
                        continue;
                r = read_pieces(p, w, i, i + 1, &e);
                if (r < 0 && pc->section == HEAD) {
                        /* Its header may be good, and some sections. */
                        pc->end = pc->start +
                                  spill_header_size(l->state[pc->item].layout->n_sections);
                        r = read_pieces(p, w, i, i + 1, &e);
                }
                if (r < 0)
                        spill_load_fail_item(l, pc->item, r, &e, &p->first_failure);
                else
                        piece_finish(p, w, pc);
        }
}

static size_t image_size(const struct spill_window *w) {
        return align_up(w->end, SPILL_ALIGN) - image_start(w);
}

static void count(struct pass *p, const struct spill_window *w) {
        struct spill *s = p->l->s;

        pthread_mutex_lock(&s->lock);
        s->stats.n_preads++;
        s->stats.n_direct += w->is_direct;
        if (w->n_items > 1)
                s->stats.n_joined += w->n_items;
        pthread_mutex_unlock(&s->lock);
}

/* Whether the disk is late, now that a read was waited for: @usec. The wait for the first one does not count, since there
 * is nothing else to do before it is over. */
static void note_wait(struct pass *p, uint64_t usec) {
        uint64_t now = clock_monotonic_usec();

        if (p->begun_usec == 0) {
                p->begun_usec = now;
                return;
        }
        p->late_usec += usec;
        p->scratch->disk_is_late = p->late_usec * LATE_PART > now - p->begun_usec;
}

/* Wait for the end of a window's read in flight. */
static void await(struct pass *p, struct spill_window *w) {
        uint64_t t = clock_monotonic_usec();

        spill_queue_wait(&p->scratch->queue, &w->read);
        t = clock_monotonic_usec() - t;
        p->waited_usec += t;
        note_wait(p, t);
}

/* Whether the whole window was read without the page cache. */
static bool read_direct(struct pass *p, struct spill_window *w) {
        struct spill *s = p->l->s;
        long n;

        if (w->is_begun) {
                if (!w->read.is_over)
                        await(p, w);
                n = w->read.n;
        } else {
                uint64_t t = clock_monotonic_usec();

                n = pread(w->direct_fd, w->image, image_size(w), (off_t)image_start(w));
                n = n < 0 ? -errno : n;
                p->waited_usec += clock_monotonic_usec() - t;
                p->scratch->disk_is_late = true;
        }
        if (n == -EINVAL) {
                /* The file system opens files so, but does not read them. */
                pthread_mutex_lock(&s->lock);
                s->no_direct = true;
                pthread_mutex_unlock(&s->lock);
        }
        return n > 0 && (size_t)n == image_size(w);
}

/* The same through the page cache. */
static bool read_through(struct pass *p, struct spill_window *w) {
        uint64_t t = clock_monotonic_usec();
        struct err e;
        bool ok = read_pieces(p, w, 0, w->n_pieces, &e) == 0;

        if (w->is_cached)
                p->from_cache = true;
        else
                p->waited_usec += clock_monotonic_usec() - t;
        return ok;
}

/* Take the pages of dst that an item's sections will fill from the system, in one call: it saves two fifths of what
 * page faults cost, and while the disk is read it costs no time. If the kernel refuses (before 5.14), the page
 * faults remain. */
static void take_pages(struct pass *p, uint32_t i) {
        struct spill_load_item *st = &p->l->state[i];
        const struct spill_item *it = &p->l->items[i];
        struct spill_range want = wanted(p, i);
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start, end;

        if (!it->is_fresh || st->has_pages || want.n == 0)
                return;
        st->has_pages = true;
        start = (uintptr_t)it->dst + spill_section_start(st->layout, want.first, it->ref.raw_size);
        end = (uintptr_t)it->dst +
              spill_section_start(st->layout, want.first + want.n, it->ref.raw_size);
        start -= start % page;
        (void)madvise((void *)start, end - start, MADV_POPULATE_WRITE);
}

/* Read the oldest window, or wait for it, use its good pieces, and give its memory back. */
static void finish_oldest(struct pass *p) {
        struct spill_window *w = &p->scratch->windows[p->oldest];
        bool ok;

        count(p, w);
        for (size_t i = 0; i < w->n_pieces; i++)
                take_pages(p, w->pieces[i].item);
        ok = w->is_direct ? read_direct(p, w) : read_through(p, w);
        p->read_size += w->is_cached ? 0 : image_size(w);
        if (ok)
                for (size_t i = 0; i < w->n_pieces; i++)
                        piece_finish(p, w, &w->pieces[i]);
        else
                read_apart(p, w);
        decode_flush(p);
        for (size_t i = 0; i < w->n_pieces; i++)
                p->l->state[w->pieces[i].item].is_coming = false;
        if (w->is_direct && p->scratch->disk_is_late)
                spill_queue_evict(&p->scratch->queue, image_size(w));
        spill_queue_give(&p->scratch->queue, image_size(w));
        p->oldest = (p->oldest + 1) % SPILL_QUEUE_MAX;
        p->n_windows--;
}

/* --- windows --- */

/* Ring for a window that is to be read. A quarter of it is not in flight: a disk that tells of all reads together would
 * otherwise have nothing to do from then until the first of them is decoded. */
static void take_place(struct pass *p, struct spill_window *w) {
        struct spill_queue *q = &p->scratch->queue;
        size_t size = image_size(w), most = q->size - q->size / SPARE_PART;
        bool flies = !w->is_cached && w->direct_fd >= 0;

        for (;;) {
                struct spill_window *oldest = &p->scratch->windows[p->oldest];

                if (!flies || q->in_flight == 0 || q->in_flight + size <= most) {
                        w->image = spill_queue_take(q, size);
                        if (w->image)
                                return;
                }
                if (oldest->is_direct && oldest->is_begun && !oldest->read.is_over)
                        await(p, oldest);
                else
                        finish_oldest(p);
        }
}

/* Submit the open window. A window from the page cache is decoded right after it is read, while it
 * is still in the processor's cache. */
static void window_close(struct pass *p) {
        struct spill_window *w = TAKE_PTR(p->open);
        struct spill_queue *q = &p->scratch->queue;

        if (!w)
                return;
        take_place(p, w);
        w->is_direct = w->is_begun = false;
        if (!w->is_cached && w->direct_fd >= 0) {
                w->is_begun = !p->is_small && spill_queue_start(q, &w->read, w->direct_fd, w->image,
                                                      image_start(w), image_size(w));
                w->is_direct = p->is_small || w->is_begun;
        }
        if (!w->is_direct && !w->is_cached && !p->is_small)
                (void)posix_fadvise(
                        w->fd, (off_t)w->start, (off_t)(w->end - w->start), POSIX_FADV_WILLNEED);
        p->n_windows++;
        while (p->n_windows > 0 && p->scratch->windows[p->oldest].is_cached)
                finish_oldest(p);
}

static struct spill_window *window_open(struct pass *p, const struct spill_piece *pc) {
        const struct spill_load_item *st = &p->l->state[pc->item];
        struct spill_window *w;

        if (p->n_windows == SPILL_QUEUE_MAX)
                finish_oldest(p);
        w = &p->scratch->windows[(p->oldest + p->n_windows) % SPILL_QUEUE_MAX];
        w->fd = st->fd;
        w->direct_fd = st->direct_fd;
        w->is_cached = st->is_cached;
        w->start = w->end = pc->start;
        w->n_pieces = w->n_items = 0;
        return p->open = w;
}

/* Whether a piece may join the open window. A full window takes one more if that makes the number
 * of pieces even, since pieces are decoded in pairs. */
static bool window_takes(const struct pass *p, const struct spill_piece *pc) {
        const struct spill_load_item *st = &p->l->state[pc->item];
        const struct spill_window *w = p->open;
        uint64_t max = p->l->s->window_size;

        if (w->n_pieces % 2 == 1)
                max += max / 4;
        return w->n_pieces < SPILL_MAX_PIECES && st->fd == w->fd && st->is_cached == w->is_cached &&
               pc->start >= w->end && pc->start - w->end <= SPILL_GAP_MAX &&
               pc->end - w->start <= max;
}

static void window_add(struct pass *p, const struct spill_piece *pc) {
        struct spill_window *w = p->open;

        if (w && !window_takes(p, pc)) {
                window_close(p);
                w = NULL;
        }
        if (!w)
                w = window_open(p, pc);
        if (w->n_pieces == 0 || w->pieces[w->n_pieces - 1].item != pc->item)
                w->n_items++;
        w->pieces[w->n_pieces++] = *pc;
        w->end = pc->end;
}

/* --- a pass --- */

/* Bytes from a record's beginning to the end of its first @n sections: of a raw one exactly, else about. Its
 * sections shrink much alike; one that turns out to be longer is read again. */
static uint64_t first_size(const struct pass *p, uint32_t i, size_t n) {
        const struct spill_ref *ref = &p->l->items[i].ref;
        const struct spill_class *layout = p->l->state[i].layout;
        uint64_t header = spill_header_size(layout->n_sections);
        uint64_t raw = spill_section_start(layout, n, ref->raw_size);

        if (spill_ref_is_raw(layout, ref))
                return header + raw;
        raw = (uint64_t)((double)(ref->stored_size - header) * (double)raw / (double)ref->raw_size);
        return MIN(header + raw + raw / 16, ref->stored_size);
}

/* Bytes of a record whose header is not known yet that are read from its beginning; @ret_whole: all that is
 * wanted is certain to be among them. A read of the header alone would take a twentieth of a fast disk's time. */
static uint64_t head_size(const struct pass *p, uint32_t i, bool *ret_whole) {
        const struct spill_ref *ref = &p->l->items[i].ref;
        const struct spill_class *layout = p->l->state[i].layout;
        uint64_t header = spill_header_size(layout->n_sections), max = p->l->s->window_size, size;
        struct spill_range want = wanted(p, i);

        *ret_whole = false;
        if (want.first > 0)
                return header;
        /* A section takes no more than its raw size. */
        size = header + spill_section_start(layout, want.n, ref->raw_size);
        if (!spill_ref_is_raw(layout, ref))
                size = MIN(size, ref->stored_size);
        *ret_whole = size <= max;
        if (*ret_whole)
                return size;
        for (size_t n = want.n - 1; n > 0; n--) {
                size = first_size(p, i, n);
                if (size <= max + max / 4)
                        return size;
        }
        return header;
}

/* What is read of an item before its sections can be found. */
static void add_head(struct pass *p, uint32_t i) {
        struct spill_load_item *st = &p->l->state[i];
        struct spill_piece pc = {.item = i, .section = HEAD};

        if (p->l->items[i].r < 0 || st->is_known || wanted(p, i).n == 0)
                return;
        pc.start = p->l->items[i].ref.offset;
        pc.end = pc.start + head_size(p, i, &st->is_coming);
        window_add(p, &pc);
}

/* The wanted sections of an item that did not come with its head. */
static void add_sections(struct pass *p, uint32_t i) {
        struct spill_load_item *st = &p->l->state[i];
        const struct spill_item *it = &p->l->items[i];
        struct spill_range want = wanted(p, i);

        if (st->is_coming || want.n == 0)
                return;
        while (it->r == 0 && !st->is_known) {
                window_close(p);
                if (!st->is_known && it->r == 0)
                        finish_oldest(p);
        }
        /* An item may fail in the middle: its sections are in two windows. */
        for (size_t k = want.first; k < want.first + want.n && it->r == 0; k++) {
                const struct spill_section *sec = &st->sections[k];
                struct spill_piece pc = {.item = i, .section = (uint32_t)k};

                if (sec->is_read)
                        continue;
                pc.start = it->ref.offset + sec->offset;
                pc.end = pc.start + sec->stored_size;
                window_add(p, &pc);
        }
}

static void finish_all(struct pass *p) {
        window_close(p);
        while (p->n_windows > 0)
                finish_oldest(p);
}

static void run_pass(struct pass *p) {
        struct spill_load *l = p->l;

        for (size_t at = 0; at < l->n; at++)
                l->state[l->order[at]].has_pages = false;
        for (size_t at = 0; at < MIN(l->n, (size_t)N_HEADERS); at++)
                add_head(p, l->order[at]);
        for (size_t at = 0; at < l->n; at++) {
                for (size_t k = at + N_HEADERS; at % N_HEADERS == 0 && k < at + 2 * N_HEADERS; k++)
                        if (k < l->n)
                                add_head(p, l->order[k]);
                add_sections(p, l->order[at]);
        }
        finish_all(p);
        /* What should have come with its head, and could not be read with it. */
        for (size_t at = 0; at < l->n; at++)
                if (l->items[l->order[at]].r == 0)
                        add_sections(p, l->order[at]);
        finish_all(p);
}

static bool is_small(const struct spill_load *l) {
        uint64_t size = 0;

        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].r == 0)
                        size += l->items[i].ref.stored_size;
        return size <= SPILL_WINDOW_SIZE;
}

int spill_load_read_all(struct spill_load *l, struct err *e) {
        struct spill_range all[SPILL_MAX_CLASSES];

        for (size_t c = 0; c < SPILL_MAX_CLASSES; c++)
                all[c] = (struct spill_range){0, l->s->classes[c].n_sections};
        return spill_load_read(l, all, e);
}

int spill_load_read(
        struct spill_load *l, const struct spill_range sections[SPILL_MAX_CLASSES], struct err *e) {
        struct pass p;
        uint64_t t;
        int r;

        for (size_t c = 0; c < SPILL_MAX_CLASSES; c++) {
                size_t has = l->s->classes[c].n_sections;

                if (sections[c].first > has || sections[c].n > has - sections[c].first)
                        return err_set(e, ERR_INVALID, "no sections %zu to %zu of class %zu",
                                sections[c].first, sections[c].first + sections[c].n, c);
        }
        p.l = l;
        p.sections = sections;
        p.oldest = p.n_windows = p.n_jobs = 0;
        p.begun_usec = p.late_usec = 0;
        p.open = NULL;
        p.read_size = p.waited_usec = p.kv_size = p.copy_size = 0;
        p.from_cache = false;
        p.kv_usec = p.copy_usec = 0;
        p.is_small = is_small(l);
        p.first_failure.r = 0;
        r = spill_scratch_get(l->s, &p.scratch, e);
        if (r < 0) {
                /* None was read, so none may be taken for good. */
                for (size_t i = 0; i < l->n; i++)
                        l->items[i].r = l->items[i].r < 0 ? l->items[i].r : r;
                return r;
        }
        t = clock_monotonic_usec();
        spill_measure_begin(l->s);
        run_pass(&p);
        spill_measure_end(
                l->s, p.read_size, p.waited_usec, clock_monotonic_usec() - t, p.from_cache);
        if (p.kv_size > 0)
                spill_measure_decoded(l->s, true, p.kv_size, p.kv_usec);
        if (p.copy_size > 0)
                spill_measure_decoded(l->s, false, p.copy_size, p.copy_usec);
        spill_scratch_put(l->s, p.scratch);
        if (p.first_failure.r < 0 && e)
                *e = p.first_failure.err;
        return p.first_failure.r;
}
