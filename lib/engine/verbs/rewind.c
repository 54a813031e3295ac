/* SPDX-License-Identifier: MIT */
/* Rewind: drop everything behind a turn, or behind a place inside a turn. */
#include "engine/verbs/verbs.h"

static void rewind_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_gone gone = {0};
        struct store_turn last;
        unsigned tries = 0;

        do {
                j->r = store_rewind(engine->store, request->sc.id, request->keep.n_turns,
                        keep_last(&request->keep, &last), engine->info.block_tokens,
                        &request->revision, &gone, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        j->r = store_conv_get(
                engine->store, request->r.uid, request->sc.id, NULL, &request->sc, &j->err);
}

static void rewind_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;
        uint32_t bt = engine->info.block_tokens;

        if (j->r < 0) {
                c->stale = true; /* committed perhaps, but the result was not read back */
                request_fail(engine, request, &j->err);
                return;
        }
        register_removed(engine);
        conv_forget_damage(engine, c); /* the damage lay behind the cut */
        c->n_turns = request->keep.n_turns;
        if (request->keep.inside)
                c->turns[c->n_turns - 1] = request->keep.last;
        c->n_tokens = c->n_all = request->sc.n_tokens;
        c->revision = request->revision;
        c->n_known = MIN(c->n_known, c->n_tokens);
        c->n_entered = MIN(c->n_entered, (size_t)(c->n_tokens / bt));
        if (seq_n_tokens(c->seq) > c->n_tokens)
                seq_cut(c->seq, c->n_tokens);
        conv_drop_recs(engine, c, (c->n_tokens + bt - 1) / bt);
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
                request_submit(engine, request, rewind_run, rewind_done);
        return r;
}

const struct verb verb_rewind = {.act = act, .after = AFTER_LINKS, .removes = true};
