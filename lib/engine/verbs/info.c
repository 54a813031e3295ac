/* SPDX-License-Identifier: MIT */
/*
 * Questions about the engine itself: its model, and its figures by stable names (docs/protocol.md
 * lists them).
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "kern/kern.h"
#include "spill/spill.h"

#include "engine/far/far.h"
#include "engine/verbs/walk.h"

/* Indexed by enum engine_kv. */
static const struct {
        const char *name;
        enum kern_kv_type type;
} kv_types[] = {
        [ENGINE_KV_F16] = {"f16", KERN_KV_F16},
        [ENGINE_KV_F32] = {"f32", KERN_KV_F32},
        [ENGINE_KV_Q8_0] = {"q8_0", KERN_KV_Q8_0},
};

enum kern_kv_type engine_kv_type(const struct engine *engine) {
        return kv_types[engine->o.kv_type].type;
}

/* The protocol's strings are UTF-8; names in model files and paths need not be. */
static const char *clean(const char *s) {
        return utf8_valid(s, strlen(s)) ? s : "(not UTF-8)";
}

void engine_describe_model(struct engine *engine, struct engine_model_info *ret) {
        const struct model_info *i = &engine->info;

        *ret = (struct engine_model_info){.name = clean(i->name),
                .arch = i->arch,
                .path = clean(engine->model_path),
                .chat_family = chat_family(engine->chat),
                .tokenizer = engine->tokenizer_name,
                .isa = kern_isa_name(kern_isa(engine->kern)),
                .kv_type = kv_types[engine->o.kv_type].name,
                .n_vocab = i->n_vocab,
                .n_layer = i->n_layer,
                .n_embd = i->n_embd,
                .context = i->context,
                .context_train = i->context_train,
                .block_tokens = i->block_tokens,
                .n_params = i->n_params,
                .weights_size = i->weights_size,
                .repacked_size = i->repacked_size,
                .block_size = i->shape.size[SEQ_ALL] + i->shape.size[SEQ_WINDOW],
                .window_block_size = i->shape.size[SEQ_WINDOW],
                .state_size = i->shape.size[SEQ_STATE],
                .window = MAX(i->shape.window, i->shape.chunk),
                .reply_format = chat_reply_format(engine->chat),
                .takes_tools = chat_takes_tools(engine->chat),
                .reasons = chat_reasons(engine->chat),
                .fingerprint = {i->fingerprint.weights, i->fingerprint.rules}};
}

static void model_info_start(struct engine *engine, struct request *request) {
        engine_describe_model(engine, &request_answer(request, ENGINE_INFO)->info);
        request_finish(engine, request);
}

const struct verb verb_model_info = {.start = model_info_start, .looks = true};

/* --- figures --- */

struct readings {
        struct memory_figures memory;
        struct run_figures run;
        struct spill_stats spill;
        struct engine_codec codec;
        struct far_figures far;
        size_t n_resident, n_pinned, n_turns;
};

static void gather(struct engine *engine, struct readings *f) {
        struct spill_choice choice;
        struct conv *c;
        struct list *l, *turns = desk_turns(engine);
        size_t it = 0;

        *f = (struct readings){0};
        memory_figures(engine, &f->memory);
        run_figures(engine, &f->run);
        spill_stats(engine->spill, &f->spill);
        spill_choice(engine->spill, &choice);
        f->codec = codec_tell(&choice);
        far_figures(engine, &f->far);
        while ((c = convs_next(engine, &it))) {
                f->n_resident += seq_n_resident(c->seq) > 0;
                f->n_pinned += c->pinned;
        }
        list_for_each (l, turns)
                f->n_turns++;
}

#define MOST_TOKENS (1u << 28)

static size_t fill_remote(
        struct engine *engine, const struct readings *f, struct engine_stat *out) {
        const struct engine_stat all[] = {
                {"remote", f->far.is_used},
                {"remote_up", far_is_up(engine)},
                {"remote_pending", far_n_pending(engine)},
                {"remote_blocks_read", f->far.n_read},
                {"remote_blocks_sent", f->far.n_sent},
                {"remote_damaged", f->far.n_damaged},
                {"remote_failures", f->far.n_failures},
                {"remote_skipped", engine->count.fetches_skipped},
                {"bytes_remote_read", f->far.read_size},
                {"bytes_remote_sent", f->far.sent_size},
                {"bytes_remote_today", f->far.written_today},
        };

        if (out)
                memcpy(out, all, sizeof(all));
        return ARRAY_SIZE(all);
}

static size_t fill(struct engine *engine, const struct readings *f, struct engine_stat *out) {
        const struct counters *c = &engine->count;
        struct budget *b = engine->budget;
        const struct engine_stat all[] = {
                {"budget", ledger_budget(&b->ledger)},
                {"budget_asked", b->want},
                {"budget_max", b->most},
                {"budget_shrunk", c->budget_shrunk},
                {"ledger_used", ledger_used(&b->ledger)},
                {"ledger_peak", ledger_peak(&b->ledger)},
                {"ledger_requests_used", ledger_used(&b->requests)},
                {"ledger_meta_used", ledger_used(&b->conversations)},
                {"ledger_index_used", ledger_used(&b->index)},
                {"pool_capacity_blocks", budget_capacity(b) / b->block_size},
                {"pool_capacity_tokens", memory_room(engine, budget_capacity(b), MOST_TOKENS)},
                {"pool_blocks", f->memory.pool.n_blocks[SEQ_ALL]},
                {"pool_window_blocks", f->memory.pool.n_blocks[SEQ_WINDOW]},
                {"pool_states", f->memory.pool.n_blocks[SEQ_STATE]},
                {"pool_live_bytes", f->memory.pool.live_size},
                {"pool_idle_bytes", atomic_load(&b->idle_size)},
                {"pool_spare_blocks", f->memory.pool.spare_size / b->block_size},
                {"block_bytes", engine->info.shape.size[SEQ_ALL]},
                {"window_block_bytes", engine->info.shape.size[SEQ_WINDOW]},
                {"state_bytes", engine->info.shape.size[SEQ_STATE]},
                {"block_tokens", engine->info.block_tokens},
                {"blocks_allocated", f->memory.pool.n_allocated},
                {"blocks_copied_on_write", f->memory.pool.n_copied_on_write},
                {"conversations_loaded", convs_count(engine)},
                {"conversations_resident", f->n_resident},
                {"conversations_pinned", f->n_pinned},
                {"requests", c->requests},
                {"requests_active", f->run.n_active},
                {"requests_queued", f->run.n_queued},
                {"requests_waiting", f->n_turns},
                {"draining", engine->verbs->draining},
                {"requests_parked", c->parked},
                {"forks", c->forks},
                {"steps", c->steps},
                {"tokens_prefilled", c->tokens_prefilled},
                {"tokens_decoded", c->tokens_decoded},
                {"tokens_recomputed", c->tokens_recomputed},
                {"tokens_drafted", c->tokens_drafted},
                {"tokens_accepted", c->tokens_accepted},
                {"tokens_reused_ram", c->reused_ram},
                {"tokens_reused_disk", c->reused_disk},
                {"tokens_reused_shared", c->reused_shared},
                {"blocks_merged", f->memory.index.n_merged},
                {"index_entries", f->memory.index.n_entries},
                {"watchers", engine->verbs->n_watchers},
                {"exports", c->exports},
                {"imports", c->imports},
                {"conversations_expired", c->expired},
                {"evictions", c->evictions},
                {"restores", c->restores},
                {"restore_failures", c->restore_failures},
                {"blocks_spilled", c->blocks_spilled},
                {"writebehind_blocks", c->writebehind_blocks},
                {"writebehind_running", f->memory.n_writing_behind},
                {"evict_blocks_written", c->evict_blocks_written},
                {"blocks_linked", c->blocks_linked},
                {"blocks_lost", c->blocks_lost},
                {"reclaimed_bytes", c->reclaimed},
                {"register_scrubs", c->scrubs},
                {"memory_shifts", c->shifts},
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
                {"spill_codec", f->codec.codec},
                {"spill_codec_why", f->codec.why},
                {"spill_disk_speed", f->codec.disk_speed},
                {"spill_decode_speed", f->codec.decode_speed},
                {"spill_copy_speed", f->codec.copy_speed},
                {"spill_encode_speed", f->codec.encode_speed},
                {"spill_ratio", f->codec.ratio},
                {"spill_kv_usec", f->codec.kv_usec},
                {"spill_raw_usec", f->codec.raw_usec},
        };

        if (out)
                memcpy(out, all, sizeof(all));
        return ARRAY_SIZE(all) + fill_remote(engine, f, out ? out + ARRAY_SIZE(all) : NULL);
}

/* --- Stats ---
 *
 *      stats() ─┬─ [want_meters] ─→ look_run(): what the register has of the owner ─→ measured() ─┬─ [want_users] ─→ a walk ─┐
 *               │                                                                                 │                        │
 *               └──────────────────────────────────────────────────────────────────────────────────→ answer() ←────────────┘
 *
 * Without want_meters the engine thread answers by itself: so the daemon sees that it is alive, whatever the disk does. */

/* In front of it, where the walk looks for itself. */
struct asked {
        struct walk walk;
        uint64_t owner; /* whose meter; OWNER_ANY: of a tenant that nobody has named yet */
        bool has_usage;
        struct store_usage usage;
};
static_assert(offsetof(struct asked, walk) == 0, "the walk looks for itself there");

static struct asked *asked_of(struct request *request) {
        return request_own(request);
}

static void stats_deinit(struct engine *engine, struct request *request) {
        (void)engine;
        walk_deinit(&asked_of(request)->walk);
}

/* Whom the request is about, but for a tenant. */
static uint64_t subject_of(const struct request *request) {
        return request->r.one_user ? request->r.uid : request->r.owner;
}

static void look_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct asked *asked = asked_of(request);

        j->r = tenant_find(engine, subject_of(request), request->r.tenant, &asked->owner, &j->err);
        if (j->r < 0 || asked->owner == OWNER_ANY)
                return;
        /* The figures are of use without this, most of all where the register can't be read. */
        asked->has_usage = store_usage(engine->store, asked->owner, &asked->usage, NULL) == 0;
}

static void fill_holding(struct engine *engine, struct request *request, struct engine_holding *h) {
        const struct asked *asked = asked_of(request);
        struct conv *c;
        size_t it = 0;

        *h = (struct engine_holding){.uid = owner_uid(subject_of(request)),
                .owner = asked->owner,
                .has_convs = asked->has_usage};
        snprintf(h->tenant, sizeof(h->tenant), "%s", request->r.tenant ? request->r.tenant : "");
        if (asked->owner == OWNER_ANY)
                return;
        h->n_convs = asked->usage.n_conversations;
        h->n_tokens = asked->usage.n_tokens;
        h->disk_size = spill_owner_size(engine->spill, asked->owner);
        h->n_requests = desk_n_requests_of(engine, asked->owner);
        while ((c = convs_next(engine, &it)))
                if (c->owner == asked->owner)
                        h->ram_size += seq_resident_size(c->seq);
}

static int fill_meters(struct engine *engine, struct request *request, struct err *e) {
        struct engine_meters *m = event_calloc(request->final, 1, sizeof(*m), e);

        if (!m)
                return -(int)e->code;
        request->final->ev.stats.meters = m;
        meters_read_all(engine, &m->all);
        if (asked_of(request)->owner != OWNER_ANY)
                meters_read(engine, asked_of(request)->owner, &m->own);
        fill_holding(engine, request, &m->holding);
        return 0;
}

static int fill_stats(struct engine *engine, struct request *request, struct err *e) {
        struct engine_event *ev = &request->final->ev;
        struct readings f;

        gather(engine, &f);
        ev->stats.stats =
                event_calloc(request->final, fill(engine, &f, NULL), sizeof(struct engine_stat), e);
        if (!ev->stats.stats)
                return -(int)e->code;
        ev->stats.n = fill(engine, &f, ev->stats.stats);
        return 0;
}

static void answer(struct engine *engine, struct request *request) {
        struct engine_event *ev = request_answer(request, ENGINE_STATS_RESULT);
        const struct walk *walk = &asked_of(request)->walk;
        struct err e;

        if (fill_stats(engine, request, &e) < 0 ||
                (request->r.want_meters && fill_meters(engine, request, &e) < 0)) {
                request_fail(engine, request, &e);
                return;
        }
        if (request->r.want_users) {
                ev->stats.n_users = walk->n;
                ev->stats.more_users = walk->more;
                ev->stats.users = walk_give(request);
        }
        request_finish(engine, request);
}

static void measured(struct engine *engine, struct request *request) {
        struct err e;

        if (!request->r.want_users)
                answer(engine, request);
        else if (walk_begin(engine, request, ENGINE_STATS_USERS, answer, &e) < 0)
                request_fail(engine, request, &e);
}

static void look_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                measured(engine, request_of(j));
}

static void stats(struct engine *engine, struct request *request) {
        request->r.user_order = ENGINE_USERS_BY_RAM;
        if (request->r.want_meters)
                request_submit(engine, request, look_run, look_done);
        else
                measured(engine, request);
}

const struct verb verb_stats = {
        .own_size = sizeof(struct asked), .deinit = stats_deinit, .start = stats, .looks = true};
