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
