/* SPDX-License-Identifier: MIT */
/* Reading sections of a load: windows and read-ahead, as the top of load.c describes them. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "spill/codec.h"
#include "spill/load.h"

enum {
        MAX_PIECES = 128,
        /* Sections that are decoded side by side, two at a time. */
        MAX_JOBS = 16,
        /* A piece in up to two parts, and the gap in front of it. */
        MAX_IOV = 3 * MAX_PIECES,
};

/* One section of an item, or the record from its header on. */
#define WHOLE UINT32_MAX
struct piece {
        uint32_t item, section;
        uint8_t *data; /* where the payload is read to; of WHOLE the header, and what is encoded */
};

/* What one call does. */
struct pass {
        struct spill_load *l;
        size_t first, n; /* sections */
        struct spill_scratch *scratch;
        /* the window */
        int fd;
        uint64_t start, end; /* in the file */
        size_t n_pieces, n_items, n_iov, used;
        struct piece pieces[MAX_PIECES];
        struct iovec iov[MAX_IOV];
        /* read-ahead: announced up to (round, at) in rounds of all items */
        size_t ahead_round, ahead_at;
        uint64_t ahead_size, done_size;
        struct spill_load_failure first_failure;
        /* what waits to be decoded, out of scratch */
        size_t n_jobs;
        struct spill_codec_job jobs[MAX_JOBS];
        struct piece job_of[MAX_JOBS];
};

static void item_done(struct spill_load *l, size_t i) {
        struct spill *s = l->s;

        pthread_mutex_lock(&s->lock);
        s->stats.n_reads++;
        s->stats.read_size += l->items[i].ref.stored_size;
        s->stats.raw_out_size += l->items[i].ref.raw_size;
        pthread_mutex_unlock(&s->lock);
}

/* --- the window --- */

static void window_clear(struct pass *p) {
        p->n_pieces = p->n_items = p->n_iov = p->used = 0;
}

/* Where a piece lies in its file. */
static uint64_t piece_at(const struct spill_load *l, const struct piece *pc) {
        uint64_t at = l->items[pc->item].ref.offset;

        return pc->section == WHOLE ? at : at + l->state[pc->item].sections[pc->section].offset;
}

static uint64_t piece_size(const struct spill_load *l, const struct piece *pc) {
        const struct spill_ref *ref = &l->items[pc->item].ref;

        if (pc->section != WHOLE)
                return l->state[pc->item].sections[pc->section].stored_size;
        return spill_ref_is_raw(l->s, ref) ? spill_header_size(l->s->n_sections) + ref->raw_size
                                           : ref->stored_size;
}

/* How much of it goes to scratch; the rest goes to dst. */
static size_t piece_scratch(const struct spill_load *l, uint32_t i, uint32_t k) {
        const struct spill_ref *ref = &l->items[i].ref;

        if (k != WHOLE) {
                const struct spill_section *sec = &l->state[i].sections[k];

                return sec->codec == SPILL_CODEC_RAW ? 0 : sec->stored_size;
        }
        return spill_ref_is_raw(l->s, ref) ? spill_header_size(l->s->n_sections) : ref->stored_size;
}

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
        spill_codec_decode_many(p->jobs, p->n_jobs, p->scratch->codec);
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

/* Check section @k, whose payload is at @data, and bring it into dst: at the latest with the next
 * decode_flush(). */
static void section_finish(struct pass *p, uint32_t i, uint32_t k, const uint8_t *data) {
        struct spill_load *l = p->l;
        struct spill_item *it = &l->items[i];
        struct spill_section *sec = &l->state[i].sections[k];
        uint8_t *dst = (uint8_t *)it->dst + spill_section_start(l->s, k, it->ref.raw_size);
        struct spill_codec_job *job;
        struct err e;
        int r;

        r = spill_section_verify(sec, data, &e);
        if (r < 0) {
                section_fail(p, i, k, r, &e);
                return;
        }
        if (sec->codec == SPILL_CODEC_RAW) {
                if (data != dst)
                        memcpy(dst, data, sec->raw_size);
                section_done(p, i, k);
                return;
        }
        if (p->n_jobs == MAX_JOBS)
                decode_flush(p);
        p->job_of[p->n_jobs] = (struct piece){.item = i, .section = k};
        job = &p->jobs[p->n_jobs++];
        *job = (struct spill_codec_job){.codec = spill_codec_find(sec->codec),
                .dst = dst,
                .dst_size = sec->raw_size,
                .src = data,
                .n = sec->stored_size};
        job->arrays = spill_section_arrays(l->s, k, &job->n_arrays);
}

/* Check and decode what was read. */
static void piece_finish(struct pass *p, const struct piece *pc) {
        struct spill_load *l = p->l;
        struct spill_item *it = &l->items[pc->item];
        bool is_raw = spill_ref_is_raw(l->s, &it->ref);
        struct err e;
        int r;

        if (it->r < 0)
                return;
        if (pc->section != WHOLE) {
                section_finish(p, pc->item, pc->section, pc->data);
                return;
        }
        r = spill_load_parse(l, pc->item, pc->data, &e);
        if (r < 0)
                spill_load_fail_item(l, pc->item, r, &e, &p->first_failure);
        for (uint32_t k = 0; k < l->s->n_sections && it->r == 0; k++)
                section_finish(p, pc->item, k,
                        is_raw ? (uint8_t *)it->dst + spill_section_start(l->s, k, it->ref.raw_size)
                               : pc->data + l->state[pc->item].sections[k].offset);
}

/* The buffers that a piece is read to. */
static void piece_add_iov(struct pass *p, const struct piece *pc) {
        struct spill_load *l = p->l;
        uint64_t size = piece_size(l, pc), first = size;

        if (pc->section == WHOLE && spill_ref_is_raw(l->s, &l->items[pc->item].ref))
                first = spill_header_size(l->s->n_sections);
        p->iov[p->n_iov++] = (struct iovec){pc->data, first};
        if (first < size)
                p->iov[p->n_iov++] = (struct iovec){l->items[pc->item].dst, size - first};
}

static int window_read(struct pass *p, struct err *e) {
        struct spill *s = p->l->s;
        int r;

        r = spill_io_read(p->fd, p->iov, (int)p->n_iov, p->start, e);
        if (!s->options.keep_cached)
                (void)posix_fadvise(
                        p->fd, (off_t)p->start, (off_t)(p->end - p->start), POSIX_FADV_DONTNEED);
        pthread_mutex_lock(&s->lock);
        s->stats.n_preads++;
        if (r == 0 && p->n_items > 1)
                s->stats.n_joined += p->n_items;
        pthread_mutex_unlock(&s->lock);
        return r;
}

/* Read one piece again, alone, not even with the padding behind it. */
static void piece_again(struct pass *p, const struct piece *pc) {
        struct err e;
        int r;

        p->start = piece_at(p->l, pc);
        p->end = p->start + piece_size(p->l, pc);
        p->n_iov = 0;
        p->n_items = 1;
        piece_add_iov(p, pc);
        r = window_read(p, &e);
        if (r < 0)
                spill_load_fail_item(p->l, pc->item, r, &e, &p->first_failure);
        else
                piece_finish(p, pc);
}

/* The same for a record whose header was to come with it. */
static void whole_again(struct pass *p, const struct piece *whole) {
        struct spill_load *l = p->l;
        struct spill_item *it = &l->items[whole->item];
        struct err e;
        int r;

        r = spill_load_header(l, whole->item, &e);
        if (r < 0)
                spill_load_fail_item(l, whole->item, r, &e, &p->first_failure);
        for (uint32_t k = 0; k < l->s->n_sections && it->r == 0; k++)
                piece_again(p,
                        &(struct piece){whole->item, k,
                                piece_scratch(l, whole->item, k) > 0
                                        ? whole->data + l->state[whole->item].sections[k].offset
                                        : (uint8_t *)it->dst +
                                                  spill_section_start(l->s, k, it->ref.raw_size)});
}

static void window_split(struct pass *p) {
        for (size_t k = 0; k < p->n_pieces; k++) {
                const struct piece *pc = &p->pieces[k];

                if (p->l->items[pc->item].r < 0)
                        continue;
                if (pc->section == WHOLE)
                        whole_again(p, pc);
                else
                        piece_again(p, pc);
        }
}

static void window_flush(struct pass *p) {
        struct err e;
        int r;

        if (p->n_pieces == 0)
                return;
        p->done_size += p->end - p->start;
        r = window_read(p, &e);
        if (r < 0 && p->n_pieces == 1 && p->pieces[0].section != WHOLE)
                spill_load_fail_item(p->l, p->pieces[0].item, r, &e, &p->first_failure);
        else if (r < 0)
                window_split(p);
        else
                for (size_t k = 0; k < p->n_pieces; k++)
                        piece_finish(p, &p->pieces[k]);
        decode_flush(p);
        window_clear(p);
}

/* Whether a piece may come into the window, which is not empty. One more may, if that makes their
 * number even: two are decoded together. */
static bool window_takes(const struct pass *p, int fd, uint64_t at, uint64_t size, size_t scratch) {
        uint64_t max = p->n_pieces % 2 == 0 ? SPILL_WINDOW_SIZE
                                            : SPILL_WINDOW_SIZE + SPILL_WINDOW_SIZE / 4;

        return p->n_pieces < MAX_PIECES && fd == p->fd && at >= p->end &&
               at - p->end <= SPILL_GAP_MAX && at + size - p->start <= max &&
               scratch <= p->l->s->payload_size - p->used;
}

/* Section @k of item @i, or all of it. */
static void window_add(struct pass *p, uint32_t i, uint32_t k) {
        struct spill_item *it = &p->l->items[i];
        int fd = p->l->state[i].fd;
        size_t scratch = piece_scratch(p->l, i, k);
        struct piece pc = {.item = i, .section = k};
        uint64_t at = piece_at(p->l, &pc), size = piece_size(p->l, &pc);

        if (p->n_pieces > 0 && !window_takes(p, fd, at, size, scratch))
                window_flush(p);
        if (p->n_pieces == 0) {
                p->fd = fd;
                p->start = p->end = at;
        }
        if (at > p->end)
                p->iov[p->n_iov++] = (struct iovec){p->scratch->gap, at - p->end};
        if (p->n_pieces == 0 || p->pieces[p->n_pieces - 1].item != i)
                p->n_items++;
        pc.data = scratch > 0
                          ? p->scratch->payload + p->used
                          : (uint8_t *)it->dst + spill_section_start(p->l->s, k, it->ref.raw_size);
        piece_add_iov(p, &pc);
        p->pieces[p->n_pieces++] = pc;
        p->used += scratch;
        p->end = at + size;
}

/* The header alone, right in front of the sections. What is waiting is read first, so that the file
 * is read forwards. False: the item has failed. */
static bool need_header(struct pass *p, uint32_t i) {
        struct err e;
        int r;

        if (p->l->items[i].r < 0 || p->l->state[i].is_known)
                return p->l->items[i].r == 0;
        window_flush(p);
        r = spill_load_header(p->l, i, &e);
        if (r < 0)
                spill_load_fail_item(p->l, i, r, &e, &p->first_failure);
        return r == 0;
}

/* --- read-ahead --- */

/* Announce what comes next, as far as SPILL_AHEAD_SIZE allows. */
static void look_ahead(struct pass *p) {
        struct spill_load *l = p->l;

        while (l->announce && p->ahead_round < 2 &&
                p->ahead_size < p->done_size + SPILL_AHEAD_SIZE) {
                size_t from = p->first + p->ahead_round * p->n;
                size_t to = MIN(from + p->n, l->s->n_sections);
                size_t i = l->order[p->ahead_at];
                const struct spill_load_item *st = &l->state[i];

                if (from < to && l->items[i].r == 0 && !st->is_known) {
                        spill_load_announce(
                                st->fd, l->items[i].ref.offset, l->items[i].ref.stored_size);
                        p->ahead_size += l->items[i].ref.stored_size;
                } else if (from < to && l->items[i].r == 0 && !st->sections[from].is_read) {
                        const struct spill_section *last = &st->sections[to - 1];
                        uint64_t at = st->sections[from].offset;
                        uint64_t size = last->offset + last->stored_size - at;

                        spill_load_announce(st->fd, l->items[i].ref.offset + at, size);
                        p->ahead_size += size;
                }
                if (++p->ahead_at == l->n) {
                        p->ahead_at = 0;
                        p->ahead_round++;
                }
        }
}

/* --- a pass --- */

int spill_load_read(struct spill_load *l, size_t first, size_t n, struct err *e) {
        struct pass p;
        int r;

        if (first >= l->s->n_sections || n < 1 || n > l->s->n_sections - first)
                return err_set(e, ERR_INVALID, "no sections %zu to %zu", first, first + n);
        p.l = l;
        p.first = first;
        p.n = n;
        p.ahead_round = p.ahead_at = 0;
        p.ahead_size = p.done_size = 0;
        p.first_failure.r = 0;
        p.n_jobs = 0;
        window_clear(&p);
        r = spill_scratch_get(l->s, &p.scratch, e);
        if (r < 0) {
                /* None was read, so none may be taken for good. */
                for (size_t i = 0; i < l->n; i++)
                        l->items[i].r = l->items[i].r < 0 ? l->items[i].r : r;
                return r;
        }
        if (n < l->s->n_sections && !l->announce) {
                l->announce = true;
                spill_load_announce_first(l);
        }
        if (n < l->s->n_sections)
                for (size_t at = 0; at < l->n; at++)
                        (void)need_header(&p, l->order[at]);
        for (size_t at = 0; at < l->n; at++) {
                uint32_t i = l->order[at];

                look_ahead(&p);
                if (!l->state[i].is_known && l->items[i].r == 0 &&
                        l->items[i].ref.stored_size <= SPILL_WINDOW_SIZE) {
                        window_add(&p, i, WHOLE);
                        continue;
                }
                if (!need_header(&p, i))
                        continue;
                /* An item may fail in the middle: its sections are in two windows. */
                for (size_t k = first; k < first + n && l->items[i].r == 0; k++)
                        if (!l->state[i].sections[k].is_read)
                                window_add(&p, i, (uint32_t)k);
        }
        window_flush(&p);
        look_ahead(&p);
        spill_scratch_put(l->s, p.scratch);
        if (p.first_failure.r < 0 && e)
                *e = p.first_failure.err;
        return p.first_failure.r;
}
