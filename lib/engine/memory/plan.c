/* SPDX-License-Identifier: MIT */
/*
 * What a recall reads from disk: the holes that the end of the sequence needs, or, where another conversation
 * has a longer prefix, what of it the position behind it needs.
 *
 * Recalling must not be much slower than recomputing. Running sums tell how fast memory was lately
 * read from disk and how fast it was computed. If reading is expected to take more than twice as
 * long as computing (a slow disk, a fast model), the memory is cut at the first hole instead; its
 * records stay and are used again once the blocks are computed. The sums decide only after they
 * have seen a good deal, so never for small models. The bits are the same either way (I2).
 */
#include "engine/memory/restore.h"
#include "engine/memory/state.h"

#define RATES_RESTORES 8
#define RATES_BYTES (64.0 * (1 << 20))
#define RATES_TOKENS 1024.0
#define RATES_FADE 0.9

/* --- rates --- */

void restore_note(struct engine *engine, const struct restore *restore) {
        struct rates *r = &engine->memory->rates;

        r->restored_bytes = r->restored_bytes * RATES_FADE + (double)restore_size(engine, restore);
        r->restore_usec =
                r->restore_usec * RATES_FADE + (double)(restore->t_end - restore->t_start);
        r->n_restores++;
}

void recall_note_computed(struct engine *engine, size_t n_tokens, uint64_t usec) {
        struct rates *r = &engine->memory->rates;

        r->computed_tokens = r->computed_tokens * RATES_FADE + (double)n_tokens;
        r->compute_usec = r->compute_usec * RATES_FADE + (double)usec;
}

double rates_token_usec(const struct engine *engine) {
        const struct rates *r = &engine->memory->rates;

        return r->computed_tokens > 0 ? r->compute_usec / r->computed_tokens : 0;
}

/* --- what is read --- */

/* At most so many cells are read: all holes, and what was found behind the end. */
static size_t count_reads(const struct engine *engine, const struct recall *recall) {
        const struct conv *c = recall->conv;
        const struct seq_shape *shape = &engine->info.shape;
        uint32_t bt = shape->block_tokens, have = seq_n_tokens(c->seq);
        size_t n = seq_n_cells(c->seq) - seq_n_resident(c->seq), found = recall->found.n;

        if (found * bt <= have)
                return n;
        if (shape->size[SEQ_ALL])
                n += found - have / bt;
        if (shape->size[SEQ_WINDOW])
                n += found - seq_window_start(shape, (uint32_t)found * bt) / bt;
        return n + (shape->size[SEQ_STATE] > 0);
}

/* A restore of so many reads, whose bookkeeping is charged; NULL if there is no room for it. */
static struct restore *new_restore(struct engine *engine, size_t n) {
        struct restore *restore;
        size_t size = sizeof(*restore) +
                      (n + 1) * (sizeof(*restore->items) + sizeof(*restore->reads)) +
                      spill_load_size(engine->spill, n);

        if (conv_charge(engine, size) != 0)
                return NULL;
        restore = restore_new(n);
        if (restore)
                restore->charged = size;
        else
                conv_discharge(engine, size);
        return restore;
}

static void add_item(struct restore *restore, enum seq_class class, uint32_t index, uint32_t end,
        bool appended, const struct store_record *r) {
        restore->items[restore->n++] = (struct restore_item){
                .class = class, .index = index, .end = end, .appended = appended, .record = *r};
}

/* Where computing would begin without reading: about the last position that is whole in RAM. */
static uint32_t computed_from(const struct engine *engine, const struct restore *restore) {
        const struct seq *s = restore->recall->conv->seq;
        uint32_t from = seq_n_tokens(s), state = 0;
        struct seq_cell cell;
        size_t it = 0;
        bool lacks_state = false;

        for (size_t i = 0; i < restore->n; i++) {
                const struct restore_item *item = &restore->items[i];

                if (item->class == SEQ_STATE)
                        lacks_state = true;
                else
                        from = MIN(from, item->index * engine->info.block_tokens);
        }
        if (!lacks_state)
                return from;
        while (seq_next_cell(s, SEQ_STATE, &it, &cell))
                if (cell.block && cell.end <= from)
                        state = cell.end;
        return state;
}

/* Is reading better than computing? */
static bool worth_reading(const struct engine *engine, const struct restore *restore) {
        const struct rates *r = &engine->memory->rates;
        uint32_t end = restore_end(engine, restore);
        double tokens = end - MIN(end, computed_from(engine, restore));
        double bytes = (double)restore_size(engine, restore);

        if (r->n_restores < RATES_RESTORES || r->restored_bytes < RATES_BYTES ||
                r->computed_tokens < RATES_TOKENS)
                return true;
        return bytes * r->restore_usec / r->restored_bytes <=
               2 * tokens * r->compute_usec / r->computed_tokens;
}

/* The own holes that the sequence needs as far as position @most. False if a record was removed since
 * gather() saw it. */
static bool add_own(struct engine *engine, struct conv *c, struct restore *restore,
        enum seq_class class, uint32_t most) {
        struct seq_cell cell;
        size_t it = 0;

        while (seq_next_cell(c->seq, class, &it, &cell)) {
                const struct conv_rec *entry = recs_at(&c->recs, class, cell.index);

                if (cell.block || !cell.needed || cell.end > most)
                        continue;
                if (!entry || !conv_cell_on_disk(c, class, &cell)) {
                        cut_damaged(engine, c, class, cell.index, 0);
                        return false;
                }
                add_item(restore, class, cell.index, cell.end, false, &entry->rec->r);
        }
        return true;
}

static void add_all_own(struct engine *engine, struct conv *c, struct restore *restore) {
        bool whole;

        do {
                restore->n = 0;
                whole = true;
                for (int class = 0; whole && class < SEQ_N_CLASSES; class ++)
                        whole = add_own(engine, c, restore, (enum seq_class) class, UINT32_MAX);
        } while (!whole);
}

/* Another conversation has a longer prefix on disk: what of it the position behind it needs, and the
 * own blocks before. */
static void add_found(struct engine *engine, struct recall *recall, struct restore *restore) {
        const struct seq_shape *shape = &engine->info.shape;
        const struct store_prefix *found = &recall->found;
        uint32_t bt = shape->block_tokens, end = (uint32_t)found->n * bt;
        struct conv *c = recall->conv;
        uint32_t from = shape->size[SEQ_WINDOW] ? seq_window_start(shape, end) : 0;
        uint32_t own = seq_n_tokens(c->seq) / bt * bt;

        if (shape->size[SEQ_ALL] && !add_own(engine, c, restore, SEQ_ALL, own)) {
                restore->n = 0; /* the own beginning is damaged: it was cut */
                return;
        }
        for (uint32_t i = 0; i < found->n; i++) {
                struct seq_cell cell;

                if (shape->size[SEQ_ALL] && i * bt >= own)
                        add_item(restore, SEQ_ALL, i, (i + 1) * bt, true,
                                &found->records[SEQ_ALL][i]);
                if (shape->size[SEQ_WINDOW] && (i + 1) * bt > from &&
                        !(seq_cell_at(c->seq, SEQ_WINDOW, i, &cell) && cell.block &&
                                cell.n_tokens == bt))
                        add_item(restore, SEQ_WINDOW, i, (i + 1) * bt, true,
                                &found->records[SEQ_WINDOW][i]);
        }
        if (shape->size[SEQ_STATE])
                add_item(restore, SEQ_STATE, end - 1, end, true,
                        &found->records[SEQ_STATE][found->n - 1]);
}

void restore_give_up(struct engine *engine, struct conv *c) {
        while (seq_n_missing(c->seq) > 0) {
                uint32_t at = seq_n_tokens(c->seq) - 1;
                struct seq_cell cell;
                size_t it = 0;

                for (int i = SEQ_ALL; i <= SEQ_WINDOW; i++, it = 0)
                        while (seq_next_cell(c->seq, (enum seq_class)i, &it, &cell))
                                if (!cell.block && cell.needed) {
                                        at = MIN(at, cell.index * engine->info.block_tokens);
                                        break;
                                }
                seq_cut(c->seq, at);
        }
}

/* List the cells to read: holes, or what was found behind the end. */
static void list_reads(struct engine *engine, struct recall *recall, struct restore *restore) {
        if (recall->found.n * engine->info.block_tokens > seq_n_tokens(recall->conv->seq))
                add_found(engine, recall, restore);
        if (restore->n == 0)
                add_all_own(engine, recall->conv, restore);
        else
                restore->n_found = recall->found.n;
}

void restore_plan(struct engine *engine, struct recall *recall) {
        struct restore *restore = NULL;

        if (count_reads(engine, recall) == 0)
                return;
        restore = new_restore(engine, count_reads(engine, recall));
        if (restore) {
                restore->recall = recall;
                list_reads(engine, recall, restore);
        }
        if (restore && restore->n > 0 && worth_reading(engine, restore)) {
                recall->restore = restore;
                return;
        }
        if (!restore || restore->n > 0) {
                restore_give_up(engine, recall->conv);
                engine->count.restores_skipped++;
        }
        if (restore)
                restore_let_go(engine, restore);
}
