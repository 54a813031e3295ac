/* SPDX-License-Identifier: MIT */
/* Where the memory of a prompt came from (struct recall). */
#include <string.h>

#include "engine/memory/state.h"

void recall_note_source(const struct engine *engine, struct recall *recall, enum seq_class class,
        uint32_t end, enum source source) {
        size_t i = (end - 1) / engine->info.block_tokens;

        if (class == SEQ_STATE)
                recall->state_source = MAX(recall->state_source, (uint8_t)source);
        else if (i < recall->n_blocks)
                recall->sources[i] = MAX(recall->sources[i], (uint8_t)source);
}

/* Is anything of the block's own memory in the sequence, as its end needs it? */
static bool has_block(const struct engine *engine, const struct conv *c, size_t i) {
        struct seq_cell cell;

        return engine->info.shape.size[SEQ_ALL] > 0 ||
               (seq_cell_at(c->seq, SEQ_WINDOW, (uint32_t)i, &cell) && cell.needed);
}

void recall_count(const struct engine *engine, const struct recall *recall, uint32_t kept,
        uint32_t ret[N_SOURCES]) {
        uint32_t bt = engine->info.block_tokens;
        uint8_t rest = recall->state_source;

        memset(ret, 0, N_SOURCES * sizeof(*ret));
        /* Without states, tokens in front of the window came with it. */
        for (size_t i = 0; rest == SOURCE_NONE && i < recall->n_blocks && i * bt < kept; i++)
                if (has_block(engine, recall->conv, i))
                        rest = recall->sources[i];
        for (uint32_t i = 0; i < recall->n_blocks && i * bt < kept; i++) {
                bool own = recall->sources[i] && has_block(engine, recall->conv, i);

                ret[own ? recall->sources[i] : rest] += MIN(bt, kept - i * bt);
        }
}
