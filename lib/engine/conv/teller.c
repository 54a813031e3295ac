/* SPDX-License-Identifier: MIT */
/*
 * What the turns of a conversation say, in normal form (normal.c), and the chains by which the register
 * finds them (store/chain.c).
 *
 * What a reply says is read from its tokens (parts.c), as in every other place. So the chain of a turn is
 * computed when its tokens are known and before its transaction: by the commit of a Continue, by Open and
 * Import, by a cut inside of a turn, and by Carry, which changes what can be read of replies.
 *
 * 1. The chain of a turn is that of all items up to its end. So it does not depend on how the history is
 *    cut into turns and messages.
 * 2. A turn that says nothing repeats the chain before it.
 * 3. A reply that goes on in several turns says one text. The chain of each of these turns is that of the
 *    reply so far, computed from the chain before the reply. So the first turn of the reply is found by
 *    a client that has only seen the first, and the last by one that has seen all.
 * 4. Between two items of different speakers (or of the user, or of the system) a turn ends, in every
 *    conversation that has both. So if a conversation has the chain at such a place of a list of messages,
 *    it has the chains at all such places before. That is what lets Find halve (store_chain_longest()).
 * 5. From a raw turn on, and from damage on, the chain is STORE_CHAIN_NEVER.
 * 6. If there is no memory to read a reply, its chain is unknown. The turn is written all the same, and
 *    the next start makes up for it (main/chains.c).
 *
 * A conversation whose tokens are of another vocabulary keeps its chains. Where they are unknown its
 * replies count by their texts, which is the same but for reasoning and calls.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/conv/conv.h"

/* --- what a turn says --- */

struct block {
        struct charge *charge;
        size_t size;
};

static void *take_block(void *arg, size_t n, struct err *e) {
        struct block *block = arg;
        void *p;

        if (block->charge && charge_take(block->charge, n, "comparing what was said", e) < 0)
                return NULL;
        block->size += n;
        p = malloc(MAX(n, (size_t)1));
        if (!p)
                err_set(e, ERR_NOMEM, "no memory to compare what was said");
        return p;
}

static void give_block(struct block *block, void *p) {
        free(p);
        if (block->charge)
                charge_give(block->charge, block->size);
}

/* News of a part. Broken calls count as far as they were told. */
static int put_part(void *arg, const struct chat_part_event *event, struct err *e) {
        struct normal *n = arg;
        int r = 0;

        switch (event->part) {
        case CHAT_PART_TEXT:
                return normal_put_text(n, event->text, event->size, e);
        case CHAT_PART_REASONING:
                return normal_put_reasoning(n, event->text, event->size, e);
        case CHAT_PART_CALL:
                if (event->begins)
                        r = normal_begin_call(n, event->name ? event->name : "", e);
                return r < 0 ? r : normal_put_arguments(n, event->text, event->size, e);
        case CHAT_N_PARTS:
                break;
        }
        return 0;
}

static int feed(struct teller *t, uint32_t from, uint32_t to, struct chat_reply *reader,
        struct normal *n, struct err *e) {
        int r = 0;

        for (uint32_t i = from; r == 0 && i < to; i++)
                r = chat_reply_push(reader, transcript_token(&t->said.tokens, i), put_part, n, e);
        return r;
}

/* From the beginning of the reply to the end of turn @i. */
static int read_reply(
        struct teller *t, uint32_t i, struct chat_reply *reader, struct normal *n, struct err *e) {
        const struct conv_turn *turn = &t->said.turns[i];
        const struct store_turn *row = &t->turns[i];
        struct said_reply at;
        uint32_t from;
        int r = said_find_reply(t->engine, &t->said, i, &at, e);

        if (r == 0)
                r = said_feed_header(&t->said, &at, reader, e);
        if (r < 0)
                return r;
        from = at.turn == i ? at.begin : turn->start;
        if (from > at.begin)
                r = feed(t, at.begin, from, reader, n, e);
        if (r == 0 && turn->finish == ENGINE_FINISH_STOP_STRING)
                r = said_feed_text(t->engine, &t->said, i, from, row->text, row->text_size, reader,
                        put_part, n, e);
        else if (r == 0)
                r = feed(t, from, turn->end, reader, n, e);
        return r < 0 ? r : chat_reply_finish(reader, put_part, n, e);
}

static int say_reply(struct teller *t, uint32_t i, struct normal *n, struct err *e) {
        struct chat_reply *reader = NULL;
        int r = chat_reply_new(&reader, t->engine->chat, t->tools, t->tools_size, t->charge, e);

        if (r == 0)
                r = read_reply(t, i, reader, n, e);
        chat_reply_free(reader);
        return r;
}

static int say_foreign_reply(struct teller *t, uint32_t i, struct normal *n, struct err *e) {
        uint32_t first = i;
        int r = 0;

        while ((r = teller_goes_on(t, first, e)) > 0)
                first--;
        for (; r == 0 && first <= i; first++)
                r = normal_put_text(n, t->turns[first].text, t->turns[first].text_size, e);
        return r;
}

/* A message that was given in place of a reply. What has not its form can only come from a damaged
 * register: it has no calls. */
static int say_given(struct teller *t, uint32_t i, struct normal *n, struct err *e) {
        struct block block = {.charge = t->charge};
        const struct said_memory memory = {take_block, &block, t->charge};
        const struct store_turn *row = &t->turns[i];
        struct given given = {0};
        int r = 0;

        if (row->extra)
                r = given_parse(row->extra, row->extra_size, &memory, &given, e);
        if (r == -ERR_INVALID) {
                given.n_calls = 0;
                given.reasoning = NULL;
                r = 0;
        }
        if (r == 0)
                r = normal_put_text(n, row->text, row->text_size, e);
        if (r == 0 && given.reasoning)
                r = normal_put_reasoning(n, given.reasoning, strlen(given.reasoning), e);
        for (size_t k = 0; r == 0 && k < given.n_calls; k++) {
                const struct engine_call *call = &given.calls[k];

                r = normal_begin_call(n, call->name, e);
                if (r == 0)
                        r = normal_put_arguments(n, call->arguments, strlen(call->arguments), e);
        }
        give_block(&block, given.calls);
        return r;
}

static int say_assistant(struct teller *t, uint32_t i, struct normal *n, struct err *e) {
        int r;

        normal_begin(n);
        if (t->turns[i].finish == ENGINE_FINISH_NONE)
                r = say_given(t, i, n, e);
        else if (t->foreign)
                r = say_foreign_reply(t, i, n, e);
        else
                r = say_reply(t, i, n, e);
        return r < 0 ? r : normal_end(n, e);
}

static int say_results(struct teller *t, uint32_t i, struct normal *n, struct err *e) {
        struct block block = {.charge = t->charge};
        const struct said_memory memory = {take_block, &block, t->charge};
        struct engine_message m = {.role = ENGINE_TOOL};
        struct engine_result *results = NULL;
        int r = results_parse(
                t->turns[i].text, t->turns[i].text_size, &memory, &results, &m.n_results, e);

        m.results = results;
        if (r == 0)
                r = normal_put_message(n, &m, e);
        give_block(&block, results);
        return r;
}

/* The definitions that turn @i tells. */
static bool tells_tools(const struct store_turn *row) {
        return row->role != CHAT_ASSISTANT && row->extra;
}

static int say(struct teller *t, uint32_t i, struct normal *n, struct err *e) {
        const struct store_turn *row = &t->turns[i];
        struct engine_message m = {.role = (enum engine_role)row->role,
                .text = row->text,
                .text_size = row->text_size};
        int r = 0;

        if (tells_tools(row) && t->begun)
                r = normal_put_tools(n, row->extra, row->extra_size, e);
        if (r < 0)
                return r;
        switch ((enum chat_role)row->role) {
        case CHAT_SYSTEM:
        case CHAT_USER:
                return normal_put_message(n, &m, e);
        case CHAT_ASSISTANT:
                return say_assistant(t, i, n, e);
        case CHAT_TOOL:
                return say_results(t, i, n, e);
        default:
                return 1;
        }
}

int teller_say(struct teller *t, uint32_t i, struct normal *to, struct err *e) {
        const struct store_turn *row = &t->turns[i];
        int r = say(t, i, to, e);

        if (tells_tools(row)) {
                t->tools = row->extra;
                t->tools_size = row->extra_size;
        }
        t->begun = true;
        /* What can't be read says nothing; what there is no memory for may do so another time. */
        return r < 0 && r != -ERR_NOMEM && r != -ERR_LIMIT && r != -ERR_TOO_LARGE ? 1 : r;
}

int teller_goes_on(struct teller *t, uint32_t i, struct err *e) {
        const struct conv_turn *turn = &t->said.turns[i];
        uint32_t header;
        int r = 0;

        if (turn->role == CHAT_ASSISTANT && turn->finish != ENGINE_FINISH_NONE)
                r = said_goes_on(t->engine, &t->said, i, &header);
        return r < 0 ? err_set(e, (enum err_code) - r, "no memory to read a reply") : r;
}

/* --- chains --- */

static int seed(struct teller *t, uint32_t i, struct err *e) {
        const struct store_turn *row = &t->turns[i];
        bool tells = tells_tools(row);

        return chain_seed(t->owner, tells ? row->extra : t->tools,
                tells ? row->extra_size : t->tools_size, t->charge, &t->chain, e);
}

int teller_chain(struct teller *t, uint32_t i, struct err *e) {
        struct normal n;
        int r = t->begun ? 0 : seed(t, i, e);

        if (r == 0)
                r = teller_goes_on(t, i, e);
        if (r >= 0) {
                t->before_reply = r > 0 ? t->before_reply : t->chain;
                normal_init(&n, t->before_reply, t->charge);
                r = teller_say(t, i, &n, e);
                if (r > 0 || t->before_reply == STORE_CHAIN_NEVER || t->chain == STORE_CHAIN_NEVER)
                        t->chain = STORE_CHAIN_NEVER;
                else
                        t->chain = n.chain;
                normal_deinit(&n);
        }
        if (r < 0 || t->before_reply == STORE_CHAIN_UNKNOWN)
                t->chain = STORE_CHAIN_UNKNOWN;
        return MIN(r, 0);
}

int teller_chain_all(struct teller *t, uint32_t n, uint64_t *ret, struct err *e) {
        int r = 0;

        for (uint32_t i = 0; i < n; i++) {
                r = r < 0 ? r : teller_chain(t, i, e);
                ret[i] = r < 0 ? STORE_CHAIN_UNKNOWN : t->chain;
        }
        return r;
}

struct conv_turn teller_turn(const struct store_turn *row) {
        return (struct conv_turn){(enum chat_role)row->role, row->start, row->end,
                (enum engine_finish)row->finish, row->extra != NULL};
}
