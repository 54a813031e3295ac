/* SPDX-License-Identifier: MIT */
/* Memory on disk that turned out to be damaged is forgotten, in RAM and in the register. What lies behind
 * a damaged block of SEQ_ALL goes with it; a state or a block of a window goes alone. */
#include <stdlib.h>
#include <syslog.h>

#include "engine/memory/state.h"

struct unlink_job {
        struct job job;
        struct conv *c;
        uint64_t conv_id;
        uint32_t from; /* cells with tokens from this position on; UINT32_MAX: only `cell` */
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
                event_log(engine, LOG_WARNING, &j->err);
        records_cut(engine, cut->got.cuts, cut->got.n_cuts);
        store_reclaimed_deinit(&cut->got);
        conv_io_over(engine, cut->c);
        free(cut);
}

void cut_damaged(struct engine *engine, struct conv *c, enum seq_class class, uint32_t index,
        uint64_t record) {
        uint32_t from = index * engine->info.block_tokens;
        struct unlink_job *cut;

        for (int other = 0; class == SEQ_ALL && other < SEQ_N_CLASSES; other++)
                conv_forget_recs(engine, c, (enum seq_class)other,
                        from / seq_cell_tokens(&engine->info.shape, (enum seq_class)other),
                        UINT32_MAX);
        if (class != SEQ_ALL)
                conv_forget_recs(engine, c, class, index, index + 1);
        seq_forget(c->seq, class, index);
        cut = calloc(1, sizeof(*cut));
        if (!cut)
                return; /* the links stay, and fail again next time */
        cut->job.run = unlink_run;
        cut->job.done = unlink_done;
        cut->conv_id = c->id;
        cut->c = c;
        cut->from = class == SEQ_ALL ? from : UINT32_MAX;
        cut->cell = (struct store_cell){.block_class = class, .index = index};
        cut->record = record;
        c->n_io++; /* no eviction may link new records before the old ones are forgotten */
        conv_use(engine, c);
        io_submit(engine, &cut->job);
}
