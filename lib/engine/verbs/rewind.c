/* SPDX-License-Identifier: MIT */
/* Rewind: drop everything behind a turn, or behind a place inside a turn. */
#include "engine/verbs/verbs.h"

static void rewind_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_gone gone = {0};
        struct store_turn last;
        unsigned tries = 0;

        chain_kept(engine, request->sc.id, &request->keep);
        do {
                j->r = store_rewind(engine->store, request->sc.id, request->keep.n_turns,
                        keep_last(&request->keep, &last), &request->keep.gap, &request->revision,
                        &gone, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        j->r = store_conv_get(
                engine->store, request->r.owner, request->sc.id, NULL, &request->sc, &j->err);
        request_read_noted(engine, request);
}

/* Tokens and memory of the kept part. On failure the conversation must be loaded anew. */
static int keep_memory(
        struct engine *engine, struct conv *c, const struct keep *keep, struct err *e) {
        uint32_t bt = engine->info.block_tokens, n = gap_to_memory(&keep->gap, keep->n_tokens);
        uint32_t common = gap_common(&c->gap, c->n_tokens, &keep->gap, n);
        struct transcript all = conv_transcript(c);
        struct conv_tokens x = {0};
        int r = 0;

        if (!gap_equal(&keep->gap, &c->gap))
                r = conv_arrange(engine, &x, &all, keep->n_tokens, &keep->gap, e);
        if (r < 0)
                return r;
        if (x.capacity > 0)
                conv_swap_tokens(engine, c, &x);
        conv_free_tokens(engine, &x);
        c->n_tokens = c->n_all = n;
        c->n_known = MIN(c->n_known, common);
        c->n_entered = MIN(c->n_entered, (size_t)(common / bt));
        conv_cut(c, common);
        recs_cut(engine, &c->recs, common);
        return 0;
}

static void rewind_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;

        if (request->revision > 0) /* committed, even if reading it back failed */
                notice_conv(engine, ENGINE_NOTICE_REWOUND, c->owner, c->id, request->revision);
        if (j->r < 0) {
                c->stale = true; /* committed perhaps, but the result was not read back */
                if (request->revision > 0)
                        request_fail_done(engine, request, &j->err);
                else
                        request_fail(engine, request, &j->err);
                return;
        }
        register_removed(engine);
        conv_forget_damage(engine, c); /* the damage lay behind the cut */
        c->n_turns = request->keep.n_turns;
        if (request->keep.inside)
                c->turns[c->n_turns - 1] = request->keep.last;
        c->revision = request->revision;
        /* Committed, but RAM could not follow: load it anew next time. */
        if (keep_memory(engine, c, &request->keep, &j->err) < 0)
                c->stale = true;
        if (c->n_published > request->sc.n_published) {
                c->n_published = request->sc.n_published;
                share_unpublish(engine);
        }
        request_finish_conv(engine, request);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        int r = keep_resolve(engine, request->conv, &request->r, &request->keep, e);

        request->told = r == -ERR_CORRUPT;
        if (r == 0)
                r = request_charge_records(request, e);
        if (r == 0)
                request_submit(engine, request, rewind_run, rewind_done);
        return r;
}

const struct verb verb_rewind = {.act = act, .after = AFTER_LINKS, .removes = true};
