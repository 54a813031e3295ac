/* SPDX-License-Identifier: MIT */
/*
 * Publish: all users' conversations may use the beginning of an administrator's own conversation as
 * memory, if they begin with the same tokens (a system prompt, few-shot examples for everybody).
 * Others can learn from that only whether their own tokens begin like it (I6).
 *
 * The register has the truth (n_published, in tokens, at a turn's end). The index in RAM follows
 * after the transaction (memory/share.c). A rewind to a place inside the published part, or the end
 * of the conversation, takes it back in its own transaction.
 */
#include "engine/verbs/verbs.h"

/* Whether the register has the change, even if reading it back failed. */
static bool *changed_of(struct request *request) {
        return request_own(request);
}

static void publish_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        uint64_t id = request->sc.id;

        j->r = store_conv_publish(engine->store, id, request->keep.n_tokens, &j->err);
        *changed_of(request) = j->r == 0;
        if (j->r == 0)
                j->r = store_conv_get(
                        engine->store, request->r.owner, id, NULL, &request->sc, &j->err);
        request_read_noted(engine, request);
}

static void publish_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;
        uint32_t before = c->n_published;

        if (*changed_of(request))
                notice_conv(engine, ENGINE_NOTICE_CHANGED, c->owner, c->id, c->revision);
        if (j->r < 0) {
                c->stale = true; /* committed perhaps, but the result was not read back */
                if (*changed_of(request))
                        request_fail_done(engine, request, &j->err);
                else
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
        if (request->r.publish && n > 0 && !gap_is_none(&c->gap) &&
                c->turns[n - 1].end > c->gap.from)
                return err_set(e, ERR_STATE,
                        "the memory leaves out tokens %u to %u: only turns that end before them "
                        "can "
                        "be published",
                        c->gap.from, c->gap.to);
        if (request->r.publish && n == 0)
                return err_set(e, ERR_INVALID, "there are no turns to publish");
        request->keep.n_turns = request->r.publish ? n : 0;
        request->keep.n_tokens = request->keep.n_turns > 0 ? c->turns[n - 1].end : 0;
        request_submit(engine, request, publish_run, publish_done);
        return 0;
}

const struct verb verb_publish = {.own_size = sizeof(bool), .act = act};
