/* SPDX-License-Identifier: MIT */
/*
 * Publish: the beginning of an administrator's own conversation (a system prompt, few-shot examples
 * for everybody) may serve as memory for equal beginnings of all users' conversations. What others
 * can learn of it is whether their own tokens begin like it (I6).
 *
 * The register has the truth (n_published, in tokens, at a turn's end); RAM's index follows after
 * the transaction (memory/share.c). A rewind below it and the end of the conversation take it back, each
 * in its own transaction.
 */
#include "engine/verbs/verbs.h"

static void publish_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        uint64_t id = request->sc.id;

        j->r = store_conv_publish(engine->store, id, request->keep.n_tokens, &j->err);
        if (j->r == 0)
                j->r = store_conv_get(
                        engine->store, request->r.uid, id, NULL, &request->sc, &j->err);
}

static void publish_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;
        uint32_t before = c->n_published;

        if (j->r < 0) {
                c->stale = true; /* it may have happened, but not all of it came back */
                request_fail(engine, request, &j->err);
                return;
        }
        c->n_published = request->sc.n_published;
        if (c->n_published < before)
                share_unpublish(engine);
        if (c->n_published > 0)
                share_publish(engine, c);
        request_finish_conv(engine, request);
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        struct conv *c = request->conv;
        uint32_t n = request->r.at_turn == ENGINE_UNSET ? c->n_turns : request->r.at_turn;

        if (request->r.publish && c->damage) {
                request->told = true;
                *e = *c->damage;
                return -ERR_CORRUPT;
        }
        if (!request->r.admin)
                return err_set(e, ERR_PERMISSION, "only administrators publish a conversation");
        if (n > c->n_turns)
                return err_set(e, ERR_INVALID, "turn %u of %u", n, c->n_turns);
        if (request->r.publish && c->private_memory)
                return err_set(e, ERR_STATE,
                        "the conversation was imported: its memory is not for others");
        if (request->r.publish && n == 0)
                return err_set(e, ERR_INVALID, "there are no turns to publish");
        request->keep.n_turns = request->r.publish ? n : 0;
        request->keep.n_tokens = request->keep.n_turns > 0 ? c->turns[n - 1].end : 0;
        request_submit(engine, request, publish_run, publish_done);
        return 0;
}

const struct verb verb_publish = {.act = act};
