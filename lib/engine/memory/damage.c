/* SPDX-License-Identifier: MIT */
/* Memory on disk that turned out to be damaged is cut off, in RAM and in the register. */
#include <stdlib.h>
#include <syslog.h>

#include "engine/memory/state.h"

struct unlink_job {
        struct job job;
        struct conv *c;
        uint64_t conv_id;
        uint32_t from;
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

void cut_damaged(struct engine *engine, struct conv *c, uint32_t index, uint64_t record) {
        struct unlink_job *cut;

        seq_cut(c->seq, MIN(index * engine->info.block_tokens, seq_n_tokens(c->seq)));
        conv_forget_recs(engine, c, index);
        cut = calloc(1, sizeof(*cut));
        if (!cut)
                return; /* the links stay, and fail again next time */
        cut->job.run = unlink_run;
        cut->job.done = unlink_done;
        cut->conv_id = c->id;
        cut->c = c;
        cut->from = index;
        cut->record = record;
        c->n_io++; /* no eviction may link new records before the old ones are forgotten */
        conv_use(engine, c);
        io_submit(engine, &cut->job);
}
