/* SPDX-License-Identifier: MIT */
/*
 * Where the cells of a conversation's memory lie on disk: a sorted list for each class.
 *
 * 1. An entry is of this conversation's tokens in its first n_valid tokens. The record may have more:
 *    after a cut inside the cell these belong to another history.
 * 2. A linked entry is in the register as well, so the record lives as long as the conversation. Others
 *    live only as long as their other owners.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "engine/conv/conv.h"

/* The first entry that is not below @index. */
static size_t find(const struct recs *recs, uint32_t index) {
        size_t low = 0, high = recs->n;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (recs->list[mid].index < index)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

static bool is_at(const struct recs *recs, size_t i, uint32_t index) {
        return i < recs->n && recs->list[i].index == index;
}

struct conv_rec *recs_at(const struct recs_all *all, enum seq_class class, uint32_t index) {
        const struct recs *recs = &all->of[class];
        size_t i = find(recs, index);

        return is_at(recs, i, index) ? &recs->list[i] : NULL;
}

static int grow(struct recs *recs, size_t n, struct err *e) {
        size_t capacity = MAX(n, recs->capacity * 2);
        struct conv_rec *p;

        if (n <= recs->capacity)
                return 0;
        p = reallocarray(recs->list, capacity, sizeof(*p));
        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for a conversation's records");
        recs->list = p;
        recs->capacity = capacity;
        return 0;
}

int recs_set(struct engine *engine, struct recs_all *all, enum seq_class class,
        const struct conv_rec *entry, struct err *e) {
        struct recs *recs = &all->of[class];
        size_t i = find(recs, entry->index);
        int r;

        if (is_at(recs, i, entry->index)) {
                rec_put(engine, recs->list[i].rec);
                recs->list[i] = *entry;
                return 0;
        }
        r = grow(recs, recs->n + 1, e);
        if (r < 0)
                return r;
        memmove(recs->list + i + 1, recs->list + i, (recs->n - i) * sizeof(*recs->list));
        recs->list[i] = *entry;
        recs->n++;
        return 0;
}

/* Entries [i, i + n) go. */
static void take_out(struct engine *engine, struct recs *recs, size_t i, size_t n) {
        for (size_t k = i; k < i + n; k++)
                rec_put(engine, recs->list[k].rec);
        if (n > 0)
                memmove(recs->list + i, recs->list + i + n,
                        (recs->n - i - n) * sizeof(*recs->list));
        recs->n -= n;
}

void recs_drop(struct engine *engine, struct recs_all *all, enum seq_class class, uint32_t from,
        uint32_t to) {
        struct recs *recs = &all->of[class];
        size_t i = find(recs, from);

        take_out(engine, recs, i, find(recs, to) - i);
}

void recs_drop_unlinked(struct engine *engine, struct recs_all *all) {
        for (int class = 0; class < SEQ_N_CLASSES; class ++) {
                struct recs *recs = &all->of[class];
                size_t n = 0;

                for (size_t i = 0; i < recs->n; i++) {
                        if (recs->list[i].linked)
                                recs->list[n++] = recs->list[i];
                        else
                                rec_put(engine, recs->list[i].rec);
                }
                recs->n = n;
        }
}

void recs_cut(struct engine *engine, struct recs_all *all, uint32_t from) {
        for (int class = 0; class < SEQ_N_CLASSES; class ++) {
                uint32_t ct = seq_cell_tokens(&engine->info.shape, (enum seq_class) class);
                struct recs *recs = &all->of[class];
                size_t i = find(recs, from / ct);

                if (is_at(recs, i, from / ct) && from % ct > 0) {
                        recs->list[i].n_valid = MIN(recs->list[i].n_valid, from % ct);
                        i++;
                }
                take_out(engine, recs, i, recs->n - i);
        }
}

void recs_free(struct engine *engine, struct recs_all *all) {
        recs_cut(engine, all, 0);
        for (int class = 0; class < SEQ_N_CLASSES; class ++)
                free(all->of[class].list);
        *all = (struct recs_all){0};
}

int recs_copy(struct engine *engine, struct recs_all *ret, const struct recs_all *from, uint32_t n,
        struct err *e) {
        struct recs_all copy = {0};

        for (int class = 0; class < SEQ_N_CLASSES; class ++) {
                const struct recs *recs = &from->of[class];
                struct recs *to = &copy.of[class];

                if (recs->n > 0 && grow(to, recs->n, e) < 0) {
                        recs_free(engine, &copy);
                        return -ERR_NOMEM;
                }
                for (; to->n < recs->n; to->n++) {
                        to->list[to->n] = recs->list[to->n];
                        to->list[to->n].rec->n_refs++;
                }
        }
        recs_cut(engine, &copy, n);
        *ret = copy;
        return 0;
}

size_t recs_count(const struct recs_all *all) {
        size_t n = 0;

        for (int class = 0; class < SEQ_N_CLASSES; class ++)
                n += all->of[class].n;
        return n;
}

uint64_t recs_stored_size(const struct recs_all *all) {
        uint64_t n = 0;

        for (int class = 0; class < SEQ_N_CLASSES; class ++)
                for (size_t i = 0; i < all->of[class].n; i++)
                        n += all->of[class].list[i].rec->r.stored_size;
        return n;
}
