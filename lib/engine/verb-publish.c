/* SPDX-License-Identifier: MIT */
/*
 * Publish: the beginning of an administrator's own conversation (a system prompt, few-shot examples
 * for everybody) may serve as memory for equal beginnings of all users' conversations. What others
 * can learn of it is whether their own tokens begin like it (I6).
 *
 * The register has the truth (n_published, in tokens, at a turn's end); RAM's index follows after
 * the transaction (share.c). A rewind below it and the end of the conversation take it back, each
 * in its own transaction.
 */
#include "engine/internal.h"

static void publish_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        uint64_t id = rq->sc.id;

        j->r = store_conv_publish(en->store, id, rq->keep.n_tokens, &j->err);
        if (j->r == 0)
                j->r = store_conv_get(en->store, rq->r.uid, id, NULL, &rq->sc, &j->err);
}

static void publish_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct conv *c = rq->conv;
        uint32_t before = c->n_published;

        if (j->r < 0) {
                c->stale = true; /* it may have happened, but not all of it came back */
                verb_fail(en, rq, &j->err);
                return;
        }
        c->n_published = rq->sc.n_published;
        if (c->n_published < before)
                share_unpublish(en, c);
        if (c->n_published > 0)
                share_publish(en, c);
        verb_finish_conv(en, rq);
}

int verb_publish(struct engine *en, struct ereq *rq, struct err *e) {
        struct conv *c = rq->conv;
        uint32_t n = rq->r.at_turn == ENGINE_UNSET ? c->n_turns : rq->r.at_turn;

        if (!rq->r.admin)
                return err_set(e, ERR_PERMISSION, "only administrators publish a conversation");
        if (n > c->n_turns)
                return err_set(e, ERR_INVALID, "turn %u of %u", n, c->n_turns);
        if (rq->r.publish && c->private_memory)
                return err_set(e, ERR_STATE,
                        "the conversation was imported: its memory is not for others");
        if (rq->r.publish && n == 0)
                return err_set(e, ERR_INVALID, "there are no turns to publish");
        rq->keep.n_turns = rq->r.publish ? n : 0;
        rq->keep.n_tokens = rq->keep.n_turns > 0 ? c->turns[n - 1].end : 0;
        verb_submit(en, rq, publish_run, publish_done);
        return 0;
}
