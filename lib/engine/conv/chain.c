/* SPDX-License-Identifier: MIT */
/*
 * Chains of whole conversations, of new turns, and of what a cut keeps. teller.c has the invariants.
 *
 * The register is read in a job, and what it takes is charged to the budget of requests. None of these can
 * fail a request: what there is no memory for is unknown, and the next start makes up for it.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/conv/conv.h"

/* --- of what was read --- */

int told_init(struct told *x, struct engine *engine, const struct store_reading *reading,
        struct charge *charge, struct err *e) {
        uint32_t n = MIN((uint32_t)reading->turns.n, reading->n_sound_turns);
        size_t size = ((size_t)n + 1) * sizeof(*x->turns);
        int r = charge ? charge_take(charge, size, "turns", e) : 0;

        *x = (struct told){.n = n,
                .teller = {.engine = engine,
                        .charge = charge,
                        .turns = reading->turns.turns,
                        .tools = reading->first_tools,
                        .tools_size = reading->first_tools_size,
                        .foreign = reading->conv.vocab != engine->vocab_hash,
                        .owner = reading->conv.owner}};
        if (r < 0)
                return r;
        x->charged = size;
        x->turns = calloc(n + 1, sizeof(*x->turns));
        if (!x->turns)
                return err_set(e, ERR_NOMEM, "no memory for turns");
        for (uint32_t i = 0; i < n; i++)
                x->turns[i] = teller_turn(&reading->turns.turns[i]);
        x->teller.said =
                (struct said){{.memory = reading->tokens}, x->turns, reading->conv.created_usec};
        return 0;
}

void told_deinit(struct told *x) {
        free(x->turns);
        if (x->teller.charge)
                charge_give(x->teller.charge, x->charged);
        *x = (struct told){0};
}

int chain_reading(struct engine *engine, const struct store_reading *reading, struct charge *charge,
        uint64_t *ret, struct err *e) {
        struct told x;
        int r = told_init(&x, engine, reading, charge, e);

        if (r == 0)
                r = teller_chain_all(&x.teller, x.n, ret, e);
        for (uint32_t i = x.n; r == 0 && i < reading->conv.n_turns; i++)
                ret[i] = STORE_CHAIN_NEVER;
        told_deinit(&x);
        return r;
}

/* --- new turns --- */

/* Where the chain goes on from: in front of turn @i of the teller, which is turn first + i of conversation
 * @id, and all before it are in the register. */
static int begin(struct teller *t, uint64_t id, uint32_t first, uint32_t i, struct err *e) {
        struct store *store = t->engine->store;
        struct said_reply at;
        int goes_on = teller_goes_on(t, i, e), r = MIN(goes_on, 0);

        t->begun = first + i > 0;
        if (r == 0 && t->begun)
                r = store_chain(store, id, first + i, &t->chain, e);
        if (r < 0 || !goes_on)
                return r;
        r = said_find_reply(t->engine, &t->said, i, &at, e);
        if (r < 0)
                return r;
        if (first + at.turn == 0)
                return chain_seed(
                        t->owner, t->tools, t->tools_size, t->charge, &t->before_reply, e);
        return store_chain(store, id, first + at.turn, &t->before_reply, e);
}

/* The last turns of a conversation, and new ones behind them. */
struct window {
        struct conv_turn *turns; /* [n], owned */
        struct store_turn *rows; /* [n], owned; only those from n_old on are filled in */
        uint32_t first;          /* number of turns[0] in the conversation */
        uint32_t n_old, n;
        struct charge charge;
};

static void window_deinit(struct window *w) {
        free(w->turns);
        free(w->rows);
        charge_deinit(&w->charge);
}

/* The first @n_old turns of @c stay. Of these the window has those that a reply behind them may go on
 * with, and one more, whose role tells what invites a reply. */
static int window_make(
        struct window *w, const struct conv *c, uint32_t n_old, size_t n_new, struct err *e) {
        w->first = n_old;
        while (w->first > 0 && c->turns[w->first - 1].role == CHAT_ASSISTANT)
                w->first--;
        if (w->first > 0)
                w->first--;
        w->n_old = n_old - w->first;
        w->n = w->n_old + (uint32_t)n_new;
        if (charge_take(&w->charge, ((size_t)w->n + 1) * (sizeof(*w->turns) + sizeof(*w->rows)),
                    "what was said", e) < 0)
                return -(int)e->code;
        w->turns = calloc(w->n + 1, sizeof(*w->turns));
        w->rows = calloc(w->n + 1, sizeof(*w->rows));
        if (!w->turns || !w->rows)
                return err_set(e, ERR_NOMEM, "no memory for turns");
        if (w->n_old > 0)
                memcpy(w->turns, c->turns + w->first, w->n_old * sizeof(*w->turns));
        return 0;
}

static int admit(void *arg, size_t n, struct err *e) {
        return charge_take(arg, n, "definitions of tools", e);
}

static int window_tell(
        struct engine *engine, const struct conv *c, struct window *w, struct err *e) {
        struct teller t = {.engine = engine,
                .charge = &w->charge,
                .said = {conv_transcript(c), w->turns, c->created_usec},
                .turns = w->rows,
                .owner = c->owner};
        char *tools = NULL;
        int r = 0;

        if (c->opened_with_tools || conv_has_tools(c))
                r = store_tools(engine->store, c->id, w->first + w->n_old, admit, &w->charge,
                        &tools, &t.tools_size, e);
        t.tools = tools;
        if (r == 0)
                r = begin(&t, c->id, w->first, w->n_old, e);
        for (uint32_t i = w->n_old; r == 0 && i < w->n; i++) {
                r = teller_chain(&t, i, e);
                w->rows[i].chain = t.chain;
        }
        free(tools);
        return r;
}

void chain_new_turns(struct engine *engine, const struct conv *c, struct keep *cut,
        struct store_turn *turns, size_t n) {
        /* A charge of its own: the request's may be in use by another thread. */
        struct window w = {.charge = {.ledger = &engine->budget->requests}};
        struct store_turn row;
        bool inside = cut && keep_last(cut, &row);
        struct store_turn *last = inside ? &row : NULL;
        size_t n_new = n + inside;
        struct err e;
        int r;

        if (n_new == 0)
                return;
        r = window_make(&w, c, c->n_turns - inside, n_new, &e);
        for (size_t i = 0; r == 0 && i < n_new; i++) {
                struct store_turn *from = inside && i == 0 ? last : &turns[i - inside];

                from->chain = STORE_CHAIN_UNKNOWN;
                w.rows[w.n_old + i] = *from;
                w.turns[w.n_old + i] = teller_turn(from);
        }
        if (r == 0)
                (void)window_tell(engine, c, &w, &e); /* the rest is unknown */
        for (size_t i = 0; i < n_new; i++) {
                uint64_t chain = r == 0 ? w.rows[w.n_old + i].chain : STORE_CHAIN_UNKNOWN;

                if (inside && i == 0)
                        cut->chain = chain;
                else
                        turns[i - inside].chain = chain;
        }
        window_deinit(&w);
}

/* --- a cut --- */

static int tell_kept(struct engine *engine, struct store_reading *reading, struct keep *keep,
        struct charge *charge, struct err *e) {
        struct store_turn *row, last;
        struct told x;
        int r;

        if (reading->damaged || reading->turns.n != keep->n_turns)
                return err_set(e, ERR_CORRUPT, "the history is damaged");
        row = &reading->turns.turns[keep->n_turns - 1];
        keep_last(keep, &last);
        last.extra = row->extra;
        last.extra_size = row->extra_size;
        r = told_init(&x, engine, reading, charge, e);
        if (r == 0) {
                const struct store_turn whole = *row;

                *row = last; /* texts are borrowed */
                x.turns[x.n - 1] = teller_turn(row);
                r = begin(&x.teller, reading->conv.id, 0, x.n - 1, e);
                if (r == 0)
                        r = teller_chain(&x.teller, x.n - 1, e);
                if (r == 0)
                        keep->chain = x.teller.chain;
                *row = whole;
        }
        told_deinit(&x);
        return r;
}

void chain_kept(struct engine *engine, uint64_t id, struct keep *keep) {
        _cleanup_(store_reading_deinit) struct store_reading reading = {0};
        struct charge charge = {.ledger = &engine->budget->requests};
        struct err e;

        if (!keep->inside)
                return;
        keep->chain = STORE_CHAIN_UNKNOWN;
        if (store_read_head(
                    engine->store, OWNER_ANY, id, keep->n_turns, admit, &charge, &reading, &e) == 0)
                (void)tell_kept(engine, &reading, keep, &charge, &e);
        charge_deinit(&charge);
}
