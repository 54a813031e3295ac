/* SPDX-License-Identifier: MIT */
/* Reading sections of a load: windows and read-ahead, as the top of load.c describes them. */
#include <fcntl.h>
#include <inttypes.h>

#include "base/util.h"
#include "spill/load.h"

enum {
        MAX_PIECES = 128,
        /* A piece, and the gap in front of it. */
        MAX_IOV = 2 * MAX_PIECES,
};

struct piece {
        uint32_t item, section;
        uint8_t *data; /* where the payload is read to */
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

/* Check and decode what was read. */
static void piece_finish(struct pass *p, const struct piece *pc) {
        struct spill_load *l = p->l;
        struct spill_load_item *st = &l->state[pc->item];
        struct spill_item *it = &l->items[pc->item];
        struct spill_section *sec = &st->sections[pc->section];
        const struct spill_array *arrays;
        size_t n_arrays;
        struct err e;
        int r;

        if (it->r < 0)
                return;
        r = spill_section_verify(sec, pc->data, &e);
        if (r == 0 && sec->codec != SPILL_CODEC_RAW) {
                arrays = spill_section_arrays(l->s, pc->section, &n_arrays);
                r = spill_section_decode(sec, pc->data,
                        (uint8_t *)it->dst +
                                spill_section_start(l->s, pc->section, it->ref.raw_size),
                        arrays, n_arrays, p->scratch->codec, &e);
        }
        if (r < 0) {
                err_wrap(&e, r, "section %" PRIu32, pc->section);
                spill_load_fail_item(l, pc->item, r, &e, &p->first_failure);
                return;
        }
        sec->is_read = true;
        if (--st->n_left == 0)
                item_done(l, pc->item);
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

/* Read each piece of a window again, alone. */
static void window_split(struct pass *p) {
        for (size_t k = 0; k < p->n_pieces; k++) {
                const struct piece *pc = &p->pieces[k];
                struct spill_item *it = &p->l->items[pc->item];
                struct spill_load_item *st = &p->l->state[pc->item];
                struct spill_section *sec = &st->sections[pc->section];
                struct err e;
                int r;

                if (it->r < 0)
                        continue;
                p->start = it->ref.offset + sec->offset;
                p->end = p->start + sec->stored_size;
                p->iov[0] = (struct iovec){pc->data, sec->stored_size};
                p->n_iov = p->n_items = 1;
                r = window_read(p, &e);
                if (r < 0)
                        spill_load_fail_item(p->l, pc->item, r, &e, &p->first_failure);
                else
                        piece_finish(p, pc);
        }
}

static void window_flush(struct pass *p) {
        struct err e;
        int r;

        if (p->n_pieces == 0)
                return;
        p->done_size += p->end - p->start;
        r = window_read(p, &e);
        if (r == 0)
                for (size_t k = 0; k < p->n_pieces; k++)
                        piece_finish(p, &p->pieces[k]);
        else if (p->n_pieces > 1)
                window_split(p);
        else
                spill_load_fail_item(p->l, p->pieces[0].item, r, &e, &p->first_failure);
        window_clear(p);
}

/* Whether a piece may come into the window, which is not empty. */
static bool window_takes(const struct pass *p, int fd, uint64_t at, uint64_t size, size_t scratch) {
        return p->n_pieces < MAX_PIECES && fd == p->fd && at >= p->end &&
               at - p->end <= SPILL_GAP_MAX && at + size - p->start <= SPILL_WINDOW_SIZE &&
               scratch <= p->l->s->payload_size - p->used;
}

static void window_add(struct pass *p, uint32_t i, uint32_t k) {
        struct spill_item *it = &p->l->items[i];
        struct spill_load_item *st = &p->l->state[i];
        const struct spill_section *sec = &st->sections[k];
        uint64_t at = it->ref.offset + sec->offset;
        size_t scratch = sec->codec == SPILL_CODEC_RAW ? 0 : sec->stored_size;
        struct piece *pc;

        if (p->n_pieces > 0 && !window_takes(p, st->fd, at, sec->stored_size, scratch))
                window_flush(p);
        if (p->n_pieces == 0) {
                p->fd = st->fd;
                p->start = p->end = at;
        }
        if (at > p->end)
                p->iov[p->n_iov++] = (struct iovec){p->scratch->gap, at - p->end};
        if (p->n_pieces == 0 || p->pieces[p->n_pieces - 1].item != i)
                p->n_items++;
        pc = &p->pieces[p->n_pieces++];
        *pc = (struct piece){i, k,
                scratch > 0
                        ? p->scratch->payload + p->used
                        : (uint8_t *)it->dst + spill_section_start(p->l->s, k, it->ref.raw_size)};
        p->used += scratch;
        p->iov[p->n_iov++] = (struct iovec){pc->data, sec->stored_size};
        p->end = at + sec->stored_size;
}

/* --- read-ahead --- */

/* Announce what comes next, as far as SPILL_AHEAD_SIZE allows. */
static void look_ahead(struct pass *p) {
        struct spill_load *l = p->l;

        while (l->s->announce && p->ahead_round < 2 &&
                p->ahead_size < p->done_size + SPILL_AHEAD_SIZE) {
                size_t from = p->first + p->ahead_round * p->n;
                size_t to = MIN(from + p->n, l->s->n_sections);
                size_t i = l->order[p->ahead_at];
                const struct spill_load_item *st = &l->state[i];

                if (from < to && l->items[i].r == 0 && !st->sections[from].is_read) {
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
        window_clear(&p);
        r = spill_scratch_get(l->s, &p.scratch, e);
        if (r < 0) {
                /* None was read, so none may be taken for good. */
                for (size_t i = 0; i < l->n; i++)
                        l->items[i].r = l->items[i].r < 0 ? l->items[i].r : r;
                return r;
        }
        for (size_t at = 0; at < l->n; at++) {
                uint32_t i = l->order[at];

                look_ahead(&p);
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
