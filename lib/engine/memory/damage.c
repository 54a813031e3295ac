/* SPDX-License-Identifier: MIT */
/* Memory on disk that turned out to be damaged is forgotten, in RAM and in the register. What lies behind
 * a damaged block of SEQ_ALL goes with it; a state or a block of a window goes alone. */
#include <stdlib.h>

#include "engine/memory/state.h"

struct unlink_job {
        struct job job;
        struct conv *c;
        uint64_t conv_id; /* forgets cells; 0: none */
        uint32_t from;    /* cells with tokens from this position on; UINT32_MAX: only `cell` */
        struct store_cell cell;
        uint64_t record; /* the damaged record: all conversations forget it; 0: none */
        struct store_reclaimed got;
};

static void unlink_run(struct engine *engine, struct job *j) {
        struct unlink_job *cut = container_of(j, struct unlink_job, job);
        struct store_gone gone = {0};

        if (cut->record)
                j->r = store_forget_record(engine->store, cut->record, &cut->got, &j->err);
        if (j->r < 0)
                return;
        records_release(engine, &cut->got.gone);
        if (cut->conv_id == 0)
                return;
        if (cut->from == UINT32_MAX)
                j->r = store_unlink_cells(
                        engine->store, cut->conv_id, &cut->cell, 1, &gone, &j->err);
        else
                j->r = store_unlink_from(engine->store, cut->conv_id, cut->from, &gone, &j->err);
        if (j->r < 0)
                return;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
}

static void unlink_done(struct engine *engine, struct job *j) {
        struct unlink_job *cut = container_of(j, struct unlink_job, job);

        if (j->r < 0 && j->r != -ERR_NOT_FOUND)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, cut->c->owner, cut->c->id, &j->err);
        records_cut(engine, cut->got.cuts, cut->got.n_cuts);
        store_reclaimed_deinit(&cut->got);
        conv_io_over(engine, cut->c);
        free(cut);
}

/* Without memory for the job the links stay, and fail again next time. */
static void unlink_start(struct engine *engine, struct conv *c, const struct unlink_job *what) {
        struct unlink_job *cut = malloc(sizeof(*cut));

        if (!cut)
                return;
        *cut = *what;
        cut->job.run = unlink_run;
        cut->job.done = unlink_done;
        cut->c = c;
        c->n_io++; /* no eviction may link new records before the old ones are forgotten */
        conv_use(engine, c);
        io_submit(engine, &cut->job);
}

void cut_damaged(struct engine *engine, struct conv *c, enum seq_class class, uint32_t index,
        uint64_t record) {
        uint32_t from = index * engine->info.block_tokens;
        const struct unlink_job what = {.conv_id = c->id,
                .from = class == SEQ_ALL ? from : UINT32_MAX,
                .cell = {.block_class = class, .index = index},
                .record = record};

        for (int other = 0; class == SEQ_ALL && other < SEQ_N_CLASSES; other++)
                conv_forget_recs(engine, c, (enum seq_class)other,
                        from / seq_cell_tokens(&engine->info.shape, (enum seq_class)other),
                        UINT32_MAX);
        if (class != SEQ_ALL)
                conv_forget_recs(engine, c, class, index, index + 1);
        seq_forget(c->seq, class, index);
        unlink_start(engine, c, &what);
}

void forget_damaged(struct engine *engine, struct conv *c, uint64_t record) {
        const struct unlink_job what = {.record = record};

        unlink_start(engine, c, &what);
}
