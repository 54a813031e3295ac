/* SPDX-License-Identifier: MIT */
/*
 * Making up for chains that are unknown (store/chain.c, 2): of turns from before the upgrade that brought
 * them, and of those for which there was no memory. At the start, when nobody changes conversations; an
 * index tells at once that there is nothing to do, which is so at nearly every start.
 *
 * What is done is durable after each CHAINS_AT_ONCE turns, so a stop in the middle loses little. A
 * conversation that can't be read is passed over: whoever uses it will hear of it.
 */
#include <stdlib.h>

#include "engine/main/main.h"

#define CONVS_AT_ONCE 256
#define CHAINS_AT_ONCE 16384

struct work {
        struct engine *engine;
        struct buf chains; /* struct store_chain_of: computed, and not stored */
        uint64_t done;     /* conversations */
};

static int store_all(struct work *w, struct err *e) {
        size_t n = w->chains.size / sizeof(struct store_chain_of);
        int r = n > 0 ? store_chains_set(w->engine->store, (const void *)w->chains.data, n, e) : 0;

        w->chains.size = 0;
        return r;
}

static int put_chains(
        struct work *w, uint64_t conv, const uint64_t *chains, uint32_t n, struct err *e) {
        int r = 0;

        for (uint32_t i = 0; r == 0 && i < n; i++) {
                const struct store_chain_of one = {conv, i, chains[i]};

                r = buf_append(&w->chains, &one, sizeof(one));
        }
        if (r < 0)
                return err_set(e, ERR_NOMEM, "no memory for the chains of turns");
        return w->chains.size >= CHAINS_AT_ONCE * sizeof(struct store_chain_of) ? store_all(w, e)
                                                                                : 0;
}

static int one_conversation(struct work *w, uint64_t id, struct err *e) {
        _cleanup_(store_reading_deinit) struct store_reading reading = {0};
        _cleanup_(freep) uint64_t *chains = NULL;
        int r = store_read_head(
                w->engine->store, OWNER_ANY, id, UINT32_MAX, NULL, NULL, &reading, e);

        if (r < 0)
                return r == -ERR_CORRUPT ? 0 : r;
        chains = calloc((size_t)reading.conv.n_turns + 1, sizeof(*chains));
        if (!chains)
                return err_set(e, ERR_NOMEM, "no memory for the chains of turns");
        r = chain_reading(w->engine, &reading, NULL, chains, e);
        return r < 0 ? r : put_chains(w, id, chains, reading.conv.n_turns, e);
}

static int tell(const struct work *w, struct err *e) {
        const struct engine_opening now = {.stage = ENGINE_STAGE_CHAINS, .done = w->done};

        return engine_tell(w->engine, &now, e);
}

static int all(struct work *w, struct err *e) {
        uint64_t ids[CONVS_AT_ONCE], after = 0;
        size_t n = 0;
        int r;

        do {
                r = store_chains_missing(w->engine->store, after, ids, CONVS_AT_ONCE, &n, e);
                for (size_t i = 0; r == 0 && i < n; i++) {
                        if (w->done % 64 == 0)
                                r = tell(w, e);
                        if (r == 0)
                                r = one_conversation(w, ids[i], e);
                        after = ids[i];
                        w->done++;
                }
        } while (r == 0 && n == CONVS_AT_ONCE);
        return r < 0 ? r : store_all(w, e);
}

int chains_make_up(struct engine *engine, struct err *e) {
        struct work w = {.engine = engine};
        int r = all(&w, e);

        buf_deinit(&w.chains);
        return r < 0 ? err_wrap(e, r, "reading what was said") : 0;
}
