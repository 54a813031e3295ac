/* SPDX-License-Identifier: MIT */
/*
 * The parts of a reply while it is generated, for a client that wants them in place of the text.
 *
 * 1. Wanting parts changes nothing of the reply. Where it ends, its tokens, and the text of its turn
 *    are those of a request that wants none.
 * 2. The text is held back while it may be the beginning of a stop string, and the parts with it: a
 *    token is read only when all of its text may be sent. At a stop string the last token is read as
 *    far as its text goes. So no part has anything of the stop string.
 * 3. A request that goes on with an open reply reads the reply from its beginning, in silence. Parts
 *    keep their numbers.
 * 4. What is read is charged to the request, and handed to the event with its charge.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/run/state.h"

#define FIRST_BYTES 1024 /* set aside at the beginning */

/* A token that waits, with the bytes of its text. */
struct waiting {
        int32_t token;
        uint32_t n_text;
        bool joined; /* its last character is not complete: it goes with the next token */
};

void reply_parts_init(struct reply_parts *p, struct charge *charge) {
        parts_init(&p->parts, charge);
        p->waiting.charge = charge;
}

void reply_parts_deinit(struct reply_parts *p) {
        p->reader = chat_reply_free(p->reader);
        parts_deinit(&p->parts);
        buf_deinit(&p->waiting);
}

/* When the open reply ended, the reader gave out what it had held back. If the same turns out to be text,
 * it is not given out again. */
static int skip_given(struct engine *engine, struct reply_parts *p, const struct reply_from *from,
        const struct said_reply *at, struct err *e) {
        const struct said said = conv_said(from->conv);
        struct parts given = {.silent = true};
        struct chat_reply *reader = NULL;
        int r = chat_reply_new(
                &reader, engine->chat, from->tools, from->tools_size, from->charge, e);

        if (r == 0)
                r = said_feed_header(&said, at, reader, e);
        if (r == 0)
                r = said_feed(&said, at->begin, from->begin, reader, &given, e);
        if (r == 0)
                r = chat_reply_finish(reader, parts_add, &given, e);
        chat_reply_free(reader);
        p->parts.skip_index = given.index;
        p->parts.skip = given.index_size;
        if (given.index == p->parts.index)
                p->parts.skip -= MIN(given.index_size, p->parts.index_size);
        return r;
}

/* Read what the open reply already has. */
static int read_open_reply(struct engine *engine, struct reply_parts *p,
        const struct reply_from *from, struct err *e) {
        const struct said said = conv_said(from->conv);
        struct said_reply at;
        int r = said_find_reply(engine, &said, from->n_turns - 1, &at, e);

        if (r == 0)
                r = said_feed_header(&said, &at, p->reader, e);
        if (r < 0)
                return r;
        p->parts.at = at.begin;
        p->parts.silent = true;
        r = said_feed(&said, at.begin, from->begin, p->reader, &p->parts, e);
        p->parts.silent = false;
        return r == 0 && chat_reply_holds(p->reader) ? skip_given(engine, p, from, &at, e) : r;
}

int reply_parts_open(struct engine *engine, struct reply_parts *p, const struct reply_from *from,
        struct err *e) {
        const struct said said = conv_said(from->conv);
        int32_t last;
        int r = chat_reply_new(
                &p->reader, engine->chat, from->tools, from->tools_size, from->charge, e);

        if (r == 0 && (buf_reserve(&p->parts.bytes, FIRST_BYTES) < 0 ||
                              buf_reserve(&p->parts.items, FIRST_BYTES) < 0))
                r = err_set(e, ERR_LIMIT, "requests have no memory for the parts of a reply");
        if (r < 0)
                return r;
        if (from->goes_on)
                return read_open_reply(engine, p, from, e);
        p->parts.at = from->begin;
        if (from->n_header > 0)
                return chat_reply_header(p->reader, from->header, from->n_header, e);
        last = transcript_token(&said.tokens, from->begin - 1);
        return chat_reply_header(p->reader, &last, 1, e);
}

int reply_parts_begin(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        const struct conv *c = request->conv;
        /* A raw text has no tokens that invite a reply; its last one may open reasoning. */
        size_t n = g->reply_turn.role == CHAT_RAW ? MIN(g->input.n, (size_t)1) : g->n_invites;
        const struct reply_from from = {.conv = c,
                .tools = g->tools,
                .tools_size = g->tools_size,
                .charge = &request->charge,
                .n_turns = c->n_turns,
                .begin = request->keep.n_tokens + (uint32_t)g->input.n,
                .header = n > 0 ? g->input.ids + g->input.n - n : NULL,
                .n_header = n,
                .goes_on = request->r.input == ENGINE_INPUT_NONE &&
                           (g->reply_turn.role == CHAT_RAW
                                           ? c->turns[c->n_turns - 1].finish != ENGINE_FINISH_NONE
                                           : conv_chat_tail(engine, c).state == CHAT_OPEN_REPLY)};

        g->goes_on = from.goes_on;
        if (!request->r.want_parts || g->wanted == 0 || g->reply.parts.reader)
                return 0;
        return reply_parts_open(engine, &g->reply.parts, &from, e);
}

void reply_parts_drop(struct reply_parts *p) {
        parts_clear(&p->parts);
        p->waiting.size = 0;
        p->ended = true;
}

int reply_parts_wait(struct reply_parts *p, int32_t token, size_t n_text, bool joined) {
        const struct waiting w = {token, (uint32_t)n_text, joined};

        return buf_append(&p->waiting, &w, sizeof(w));
}

static int read_token(struct reply_parts *p, int32_t token, struct err *e) {
        return chat_reply_push(p->reader, token, parts_add, &p->parts, e);
}

/* The number of tokens at the beginning of the queue that belong together; 0: not all are here. */
static size_t unit(const struct waiting *w, size_t n, size_t *ret_text) {
        *ret_text = 0;
        for (size_t i = 0; i < n; i++) {
                *ret_text += w[i].n_text;
                if (!w[i].joined)
                        return i + 1;
        }
        return 0;
}

int reply_parts_release(struct reply_parts *p, size_t n_text, struct err *e) {
        const struct waiting *w = (const void *)p->waiting.data;
        size_t n = p->waiting.size / sizeof(*w), done = 0, n_unit, size;
        int r = 0;

        p->released += n_text;
        while (r == 0 && (n_unit = unit(w + done, n - done, &size)) > 0 && size <= p->released) {
                for (size_t i = 0; r == 0 && i < n_unit; i++)
                        r = read_token(p, w[done + i].token, e);
                p->released -= size;
                done += n_unit;
        }
        buf_consume(&p->waiting, done * sizeof(*w));
        return r;
}

int reply_parts_end(struct reply_parts *p, const struct buf *text, bool stopped, struct err *e) {
        size_t n = MIN(p->released, text->size);
        const struct waiting *w = (const void *)p->waiting.data;
        size_t n_waiting = p->waiting.size / sizeof(*w);
        int r = 0;

        for (size_t i = 0; r == 0 && !stopped && i < n_waiting; i++)
                r = read_token(p, w[i].token, e);
        /* Of the token in which the stop string begins, what is in front of it. */
        if (stopped && n > 0)
                r = chat_reply_push_text(p->reader, (const char *)text->data + text->size - n, n,
                        parts_add, &p->parts, e);
        if (r == 0)
                r = chat_reply_finish(p->reader, parts_add, &p->parts, e);
        p->waiting.size = 0;
        p->ended = true;
        return r;
}

static void *alloc(void *arg, size_t n, struct err *e) {
        struct reply_parts *p = arg;
        void *block;

        p->taken = 0;
        if (charge_take(p->parts.bytes.charge, n, "the parts of a reply", e) < 0)
                return NULL;
        block = malloc(MAX(n, (size_t)1));
        if (!block) {
                charge_give(p->parts.bytes.charge, n);
                err_set(e, ERR_NOMEM, "no memory for the parts of a reply");
                return NULL;
        }
        p->taken = n;
        return block;
}

int reply_parts_take(struct reply_parts *p, struct engine_part **ret, size_t *ret_n,
        size_t *ret_size, struct err *e) {
        int r = 0;

        *ret = NULL;
        *ret_n = *ret_size = 0;
        if (!parts_any(&p->parts))
                return 0;
        r = parts_take(&p->parts, alloc, p, ret, ret_n, e);
        *ret_size = r < 0 ? 0 : p->taken;
        return r;
}
