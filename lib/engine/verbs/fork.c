/* SPDX-License-Identifier: MIT */
/* Fork: make a new conversation that begins like another one, and shares its memory. */
#include <stdlib.h>

#include "engine/verbs/create.h"

/* Taken from the parent: a snapshot from before the transaction. */
struct child {
        struct seq *seq;
        struct recs_all recs;
};

static struct child *child_of(struct request *request) {
        return request_own(request);
}

static void deinit(struct engine *engine, struct request *request) {
        struct child *child = child_of(request);

        recs_free(engine, &child->recs);
        seq_free(child->seq);
}

static void fork_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        uint64_t parent = request->sc.id;
        struct store_turn last;
        unsigned tries = 0;

        request->sc = (struct store_conv){.owner = request->r.owner, .about = request->r.about};
        j->r = create_copy_name(request->sc.name, request->r.name, &j->err);
        if (j->r < 0)
                return;
        chain_kept(engine, parent, &request->keep);
        pthread_mutex_lock(&engine->verbs->create_lock);
        do {
                j->r = create_check_quota(engine, request, request->keep.n_tokens, &j->err);
                if (j->r == 0)
                        j->r = store_conv_fork(engine->store, parent, request->keep.n_turns,
                                keep_last(&request->keep, &last), &request->keep.gap, &request->sc,
                                &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        pthread_mutex_unlock(&engine->verbs->create_lock);
        if (j->r == 0)
                request_read_noted(engine, request);
}

/* The child exists in the register: load it into RAM, too. If that fails it is loaded when needed.
 * Another request may be loading it already: its row is visible since the transaction. */
static void fork_adopt(struct engine *engine, struct request *request) {
        struct conv *p = request->conv, *c;
        struct transcript all = conv_transcript(p);
        struct store_turns none = {0};

        if (conv_loader(engine, request->sc.id) || convs_find(engine, request->sc.id) ||
                conv_new(&c, engine, &request->sc, &all, &none, NULL) < 0)
                return;
        conv_limit(c, &request->r.quotas);
        conv_use(engine, c); /* else adding its turns might unload it */
        for (uint32_t i = 0; i < request->keep.n_turns && !c->stale; i++) {
                bool cut = request->keep.inside && i + 1 == request->keep.n_turns;

                if (conv_add_turn(engine, c, cut ? &request->keep.last : &p->turns[i], NULL) < 0)
                        c->stale = true;
        }
        if (!c->stale) {
                seq_free(c->seq);
                c->seq = TAKE_PTR(child_of(request)->seq);
                conv_note_cut(c, p->seq, c->n_tokens);
                recs_free(engine, &c->recs);
                c->recs = child_of(request)->recs;
                child_of(request)->recs = (struct recs_all){0};
                c->n_known = MIN(p->n_known, c->n_tokens);
        }
        conv_unuse(engine, c);
}

static void fork_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        request->conv->n_forks--;
        conv_resume(engine, request->conv); /* a Continue may wait to drop old turns */
        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        engine->count.forks++;
        sweep_noted(engine, request);
        notice_push(engine, &(struct notice){.kind = ENGINE_NOTICE_FORKED,
                                    .owner = request->sc.owner,
                                    .conv = request->sc.id,
                                    .revision = request->sc.revision,
                                    .parent = request->sc.parent});
        fork_adopt(engine, request);
        request_finish_conv(engine, request);
}

/* Take the snapshot before the transaction, because the parent may grow meanwhile. */
static int fork_snapshot(struct engine *engine, struct request *request, struct err *e) {
        struct conv *p = request->conv;
        const struct keep *keep = &request->keep;
        /* The child's memory up to where it begins to differ from the parent's. */
        uint32_t pos = gap_common(
                &p->gap, p->n_tokens, &keep->gap, gap_to_memory(&keep->gap, keep->n_tokens));
        int r;

        /* Pays for the child's tables until the child is charged as a conversation. */
        r = charge_take(&request->charge,
                seq_n_cells(p->seq) * 4 * sizeof(void *) +
                        recs_count(&p->recs) * sizeof(struct conv_rec),
                "a fork", e);
        if (r < 0)
                return r;
        r = recs_copy(engine, &child_of(request)->recs, &p->recs, pos, e);
        if (r < 0)
                return r;
        return seq_fork(&child_of(request)->seq, p->seq, MIN(pos, seq_n_tokens(p->seq)), e);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        int r = keep_resolve(engine, request->conv, &request->r, &request->keep, e);

        request->told = r == -ERR_CORRUPT;
        if (r == 0)
                r = fork_snapshot(engine, request, e);
        if (r < 0)
                return r;
        request->sc.id = request->conv->id;
        request->conv->n_forks++;
        request_submit(engine, request, fork_run, fork_done);
        return 0;
}

const struct verb verb_fork = {.works = true,
        .own_size = sizeof(struct child),
        .deinit = deinit,
        .act = act,
        .hold = HOLD_NOT};
