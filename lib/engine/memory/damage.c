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
        struct unlink_job *uj = container_of(j, struct unlink_job, job);
        struct store_gone gone = {0};

        if (uj->record)
                j->r = store_forget_record(engine->store, uj->record, &uj->got, &j->err);
        if (j->r < 0)
                return;
        records_release(engine, &uj->got.gone);
        j->r = store_unlink_from(engine->store, uj->conv_id, uj->from, &gone, &j->err);
        if (j->r < 0)
                return;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
}

static void unlink_done(struct engine *engine, struct job *j) {
        struct unlink_job *uj = container_of(j, struct unlink_job, job);

        if (j->r < 0 && j->r != -ERR_NOT_FOUND)
                event_log(engine, LOG_WARNING, &j->err);
        records_cut(engine, uj->got.cuts, uj->got.n_cuts);
        store_reclaimed_deinit(&uj->got);
        conv_io_over(engine, uj->c);
        free(uj);
}

void cut_damaged(struct engine *engine, struct conv *c, uint32_t index, uint64_t record) {
        struct unlink_job *uj;

        seq_cut(c->seq, MIN(index * engine->info.block_tokens, seq_n_tokens(c->seq)));
        conv_forget_recs(engine, c, index);
        uj = calloc(1, sizeof(*uj));
        if (!uj)
                return; /* the links stay, and fail again next time */
        uj->job.run = unlink_run;
        uj->job.done = unlink_done;
        uj->conv_id = c->id;
        uj->c = c;
        uj->from = index;
        uj->record = record;
        c->n_io++; /* no eviction may link new records before the old ones are forgotten */
        conv_use(engine, c);
        io_submit(engine, &uj->job);
}
