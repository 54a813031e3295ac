/* SPDX-License-Identifier: MIT */
/* The state of this floor: making and freeing it, and its figures. */
#include <stdlib.h>

#include "engine/memory/state.h"

int memory_new(struct engine *engine, struct err *e) {
        struct memory *m = calloc(1, sizeof(*m));
        int r;

        if (!m)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        list_init(&m->waiting);
        list_init(&m->edits);
        r = seq_index_new(&m->index, engine->pool, &engine->budget->index, e);
        if (r < 0) {
                free(m);
                return r;
        }
        engine->memory = m;
        return 0;
}

struct memory *memory_free(struct memory *m) {
        if (!m)
                return NULL;
        seq_index_free(m->index);
        free(m);
        return NULL;
}

void memory_figures(struct engine *engine, struct memory_figures *ret) {
        seq_pool_stats(engine->pool, &ret->pool);
        seq_index_stats(engine->memory->index, &ret->index);
        ret->n_writing_behind = engine->memory->write_behind != NULL;
}

/* --- cells --- */

void memory_drop_cells(struct seq *seq,
        bool (*stays)(void *arg, enum seq_class class, const struct seq_cell *cell), void *arg) {
        for (int class = 0; class < SEQ_N_CLASSES; class ++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(seq, (enum seq_class) class, &it, &cell))
                        if (cell.block && !(stays && stays(arg, (enum seq_class) class, &cell)))
                                seq_drop(seq, (enum seq_class) class, cell.index);
        }
}

/* --- what memory needs --- */

size_t memory_need(const struct engine *engine, uint32_t n_tokens) {
        const struct seq_pool *pool = engine->pool;

        /* Besides, a copy of a shared tail. */
        return seq_need(pool, n_tokens, engine->o.batch_tokens) +
               seq_pool_slot_size(pool, SEQ_ALL) + seq_pool_slot_size(pool, SEQ_WINDOW);
}

uint32_t memory_room(const struct engine *engine, size_t size, uint32_t most) {
        uint32_t low = 0, high = most;

        while (low < high) {
                uint32_t mid = low + (high - low + 1) / 2;

                if (memory_need(engine, mid) <= size)
                        low = mid;
                else
                        high = mid - 1;
        }
        return low;
}
