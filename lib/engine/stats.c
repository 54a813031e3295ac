/* SPDX-License-Identifier: MIT */
/* Figures of the engine, by stable names (docs/protocol.md lists them). */
#include <stdlib.h>

#include "engine/internal.h"

struct figures {
        struct seq_pool_stats pool;
        struct spill_stats spill;
        struct seq_index_stats index;
        size_t n_resident, n_queued, n_turns;
};

static void gather(struct engine *engine, struct figures *f) {
        struct conv *c;
        struct list *l;
        size_t it = 0;

        *f = (struct figures){0};
        seq_pool_stats(engine->pool, &f->pool);
        spill_stats(engine->spill, &f->spill);
        seq_index_stats(engine->index, &f->index);
        while ((c = map_next(engine->convs, &it)))
                f->n_resident += seq_n_resident(c->seq) > 0;
        list_for_each (l, &engine->queue)
                f->n_queued++;
        list_for_each (l, &engine->turns)
                f->n_turns++;
}

static size_t fill(struct engine *engine, const struct figures *f, struct engine_stat *out) {
        const struct counters *c = &engine->count;
        const struct engine_stat all[] = {
                {"budget", ledger_budget(&engine->ledger)},
                {"budget_asked", engine->budget_want},
                {"budget_max", engine->budget_most},
                {"budget_shrunk", c->budget_shrunk},
                {"ledger_used", ledger_used(&engine->ledger)},
                {"ledger_peak", ledger_peak(&engine->ledger)},
                {"ledger_requests_used", ledger_used(&engine->req_ledger)},
                {"ledger_meta_used", ledger_used(&engine->meta_ledger)},
                {"ledger_index_used", ledger_used(&engine->index_ledger)},
                {"pool_capacity_blocks", residency_capacity(engine)},
                {"pool_blocks", f->pool.n_blocks},
                {"pool_idle_bytes", atomic_load(&engine->idle_size)},
                {"pool_spare_blocks", f->pool.spare_size / engine->slot_size},
                {"block_bytes", engine->info.block_size},
                {"block_tokens", engine->info.block_tokens},
                {"blocks_allocated", f->pool.n_allocated},
                {"blocks_copied_on_write", f->pool.n_copied_on_write},
                {"conversations_loaded", map_count(engine->convs)},
                {"conversations_resident", f->n_resident},
                {"requests", c->requests},
                {"requests_active", engine->n_active},
                {"requests_queued", f->n_queued},
                {"requests_waiting", f->n_turns},
                {"requests_parked", c->parked},
                {"forks", c->forks},
                {"steps", c->steps},
                {"tokens_prefilled", c->tokens_prefilled},
                {"tokens_decoded", c->tokens_decoded},
                {"tokens_recomputed", c->tokens_recomputed},
                {"tokens_reused_ram", c->reused_ram},
                {"tokens_reused_disk", c->reused_disk},
                {"tokens_reused_shared", c->reused_shared},
                {"blocks_merged", f->index.n_merged},
                {"index_entries", f->index.n_entries},
                {"exports", c->exports},
                {"imports", c->imports},
                {"evictions", c->evictions},
                {"restores", c->restores},
                {"restore_failures", c->restore_failures},
                {"blocks_spilled", c->blocks_spilled},
                {"writebehind_blocks", c->writebehind_blocks},
                {"evict_blocks_written", c->evict_blocks_written},
                {"blocks_linked", c->blocks_linked},
                {"blocks_lost", c->blocks_lost},
                {"reclaimed_bytes", c->reclaimed},
                {"register_scrubs", c->scrubs},
                {"restores_skipped", c->restores_skipped},
                {"restores_overlapped", c->restores_overlapped},
                {"blocks_restored", c->blocks_restored},
                {"spill_failures", c->spill_failures},
                {"unspilled_drops", c->unspilled_drops},
                {"spill_disk_bytes", f->spill.disk_size},
                {"spill_files", f->spill.n_files},
                {"spill_records", f->spill.n_records},
                {"bytes_spill_written", f->spill.written_size},
                {"bytes_spill_read", f->spill.read_size},
                {"bytes_spill_punched", f->spill.punched_size},
                {"bytes_spill_today", f->spill.written_today},
                {"spill_raw_in_bytes", f->spill.raw_in_size},
                {"spill_raw_out_bytes", f->spill.raw_out_size},
                {"spill_reads", f->spill.n_preads},
                {"spill_reads_direct", f->spill.n_direct},
                {"spill_refused", f->spill.n_refused},
                {"spill_corrupt", f->spill.n_corrupt},
        };

        if (out)
                for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                        out[i] = all[i];
        return ARRAY_SIZE(all);
}

void stats_answer(struct engine *engine, struct request *request) {
        struct engine_event *ev = verb_answer(request, ENGINE_STATS_RESULT);
        struct figures f;
        struct err e;

        gather(engine, &f);
        ev->stats.stats = event_calloc(
                request->final, fill(engine, &f, NULL), sizeof(struct engine_stat), &e);
        if (!ev->stats.stats) {
                verb_fail(engine, request, &e);
                return;
        }
        ev->stats.n = fill(engine, &f, ev->stats.stats);
        verb_finish(engine, request);
}
