/* SPDX-License-Identifier: MIT */
/* Cancel: stop what a conversation is doing, or is about to do. */
#include "engine/verbs/verbs.h"

/* Requests that wait for the conversation's I/O, or for their turn, are cancelled as well. */
static int act(struct engine *engine, struct request *request, struct err *e) {
        struct conv *c = request->conv;
        struct list *it, *turns = desk_turns(engine);

        (void)e;
        if (c->busy)
                atomic_store(&c->busy->cancel, true);
        list_for_each (it, &c->waiters)
                atomic_store(&list_entry(it, struct request, link)->cancel, true);
        list_for_each (it, turns)
                if (list_entry(it, struct request, link)->sc.id == c->id)
                        atomic_store(&list_entry(it, struct request, link)->cancel, true);
        engine->again = true;
        request_finish_empty(engine, request);
        return 0;
}

const struct verb verb_cancel = {
        .act = act, .hold = HOLD_NOT, .at_once = true, .by_admin = "cancels"};
