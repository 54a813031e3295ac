/* SPDX-License-Identifier: MIT */
/*
 * Attach: reading a reply that somebody else's request writes, or that is done.
 *
 * A follower is an Attach request. It has the reply's tokens for itself and reads them at the pace of
 * its own peer, so it holds up neither the reply nor other followers.
 *
 *      generation ── attach_accepted(), attach_token(), attach_done() ──→ follower.tokens
 *                                                                             │ attach_step(), each round
 *      register ── finished reply ─────────────────────────────────────→      ↓
 *                                                                  Accepted, Deltas, Done
 *
 * 1. A follower is told what the request itself was told, in the same pieces (text.c), behind the
 *    position that it names. Log-probabilities and Progress are told to the request alone.
 * 2. It is told nothing before the request is accepted.
 * 3. It misses nothing: what cannot be sent now is sent later, or the Attach fails.
 * 4. A follower ends when all is said, also after the request has ended. It holds no conversation.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/run/state.h"

#define PIECES 64          /* sent to one follower in one round */
#define SILENT_PIECES 4096 /* read in one round, where the peer has them */

struct follower {
        struct list link; /* in generation.followers, until that ends */
        struct list all;  /* in run.followers */
        struct request *request;
        bool opened; /* the reply was accepted; the following is set: */
        bool told;   /* Accepted was sent */
        bool ended;  /* `done` is set */
        bool failed; /* instead of it `why` */
        bool flushed;
        bool is_stored; /* the reply was done before */
        bool ignores_eos;
        bool has_piece, has_token; /* something was read, and not sent yet */
        uint32_t begin;            /* in the transcript */
        uint32_t from;             /* position that the peer has already */
        size_t limit;              /* bytes of the text; SIZE_MAX: the tokens tell */
        struct buf tokens;         /* int32_t, of the reply so far */
        size_t n_read, n_sent;     /* tokens; bytes of reply.text */
        struct reply_text reply;
        char *stops[ENGINE_MAX_STOPS]; /* [reply.n_stops] */
        struct engine_event accepted, done;
        struct err why;
        char *tools; /* definitions that hold, from the register */
        size_t tools_size;
        char *text; /* of the last turn, when the Attach came */
        size_t text_size;
        struct figures figures;
        uint32_t n_turns; /* of the conversation, then */
        uint64_t revision;
};

static struct follower *follower_of(struct request *request) {
        return request_own(request);
}
static struct follower *of_link(struct list *link) {
        return container_of(link, struct follower, link);
}

static void init(struct request *request) {
        struct follower *f = follower_of(request);

        list_init(&f->link);
        list_init(&f->all);
        f->request = request;
        f->tokens.charge = &request->charge;
        f->limit = SIZE_MAX;
        reply_text_init(&f->reply, &request->charge, request->r.stops, 0);
}

static void deinit(struct engine *engine, struct request *request) {
        struct follower *f = follower_of(request);

        if (!list_empty(&f->all))
                credit_set_active(engine, request->credit, false);
        list_unlink(&f->link);
        list_unlink(&f->all);
        buf_deinit(&f->tokens);
        reply_text_deinit(&f->reply);
        for (size_t i = 0; i < ENGINE_MAX_STOPS; i++)
                free(f->stops[i]);
        free(f->tools);
        free(f->text);
}

static void fail(struct follower *f, const struct err *e) {
        list_unlink(&f->link);
        f->ended = f->failed = true;
        f->why = *e;
}

/* --- the reply's side --- */

static int take_tokens(struct follower *f, const int32_t *tokens, size_t n) {
        int r = buf_append(&f->tokens, tokens, n * sizeof(*tokens));
        struct err e;

        if (r == 0)
                return 0;
        err_set(&e, (enum err_code) - r, "requests have no memory to attach to a reply");
        fail(f, &e);
        return r;
}

static int check_position(const struct follower *f, uint32_t start, uint32_t end, struct err *e) {
        uint32_t position = f->request->r.at_position;

        if (position != ENGINE_UNSET && (position < start || position > end))
                return err_set(e, ERR_INVALID, "position %u is not in the reply, [%u, %u]",
                        position, start, end);
        return 0;
}

/* Begin to read the reply. */
static int open_reading(
        struct engine *engine, struct follower *f, const struct reply_from *from, struct err *e) {
        const struct engine_request *r = &f->request->r;
        const struct said said = conv_said(from->conv);
        int32_t last = transcript_token(&said.tokens, from->begin - 1);

        tok_stream_init(&f->reply.stream, engine->tok, tok_is_special(engine->tok, last), false);
        f->begin = from->begin;
        f->from = r->at_position == ENGINE_UNSET ? 0 : r->at_position;
        f->opened = true;
        return r->want_parts ? reply_parts_open(engine, &f->reply.parts, from, e) : 0;
}

/* The request may be gone when its stop strings are needed. */
static int copy_stops(struct follower *f, const struct engine_request *r, struct err *e) {
        for (size_t i = 0; i < r->n_stops; i++) {
                size_t n = strlen(r->stops[i]) + 1;
                int k = charge_take(&f->request->charge, n, "stop strings", e);

                if (k < 0)
                        return k;
                f->stops[i] = malloc(n);
                if (!f->stops[i])
                        return err_set(e, ERR_NOMEM, "no memory for stop strings");
                memcpy(f->stops[i], r->stops[i], n);
                f->reply.n_stops = i + 1;
        }
        f->reply.stops = (const char *const *)f->stops;
        return 0;
}

/* Follow the request, which was accepted. */
static void open_running(struct engine *engine, struct follower *f, struct request *request) {
        struct generation *g = generation_of(request);
        struct conv *c = request->conv;
        uint32_t gap = gap_size(&c->gap), n = (uint32_t)g->n_invites;
        const struct reply_from from = {.conv = c,
                .tools = g->tools ? g->tools : f->tools,
                .tools_size = g->tools ? g->tools_size : f->tools_size,
                .charge = &f->request->charge,
                .n_turns = c->n_turns,
                .begin = g->n_prompt + gap,
                .header = c->tokens + g->n_prompt - n,
                .n_header = n,
                .goes_on = g->goes_on};
        struct err e;
        int r = check_position(f, from.begin - n, from.begin + g->n_generated, &e);

        f->ignores_eos = request->r.ignore_eos;
        generate_fill_accepted(request, &f->accepted);
        if (r == 0)
                r = copy_stops(f, &request->r, &e);
        if (r == 0)
                r = open_reading(engine, f, &from, &e);
        if (r == 0)
                (void)take_tokens(f, c->tokens + g->n_prompt, g->n_generated);
        else
                fail(f, &e);
}

void attach_accepted(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct list *it, *tmp;

        g->accepted = true;
        list_for_each_safe (it, tmp, &g->followers)
                open_running(engine, of_link(it), request);
}

void attach_token(struct request *request, int32_t token) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &generation_of(request)->followers)
                if (of_link(it)->opened)
                        (void)take_tokens(of_link(it), &token, 1);
}

void attach_done(struct engine *engine, struct request *request, const struct engine_event *done) {
        struct generation *g = generation_of(request);

        (void)engine;
        while (!list_empty(&g->followers)) {
                struct follower *f = of_link(g->followers.next);

                list_unlink(&f->link);
                f->ended = true;
                f->done = *done;
        }
}

void attach_lost(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct err e;

        (void)engine;
        if (g->end == FAILED)
                e = g->why;
        else
                err_set(&e, ERR_CANCELLED, "the request ended before its reply began");
        while (!list_empty(&g->followers))
                fail(of_link(g->followers.next), &e);
}

/* --- the follower's side --- */

/* Does the token end the generation? Of a reply that is done, only the last one can. */
static bool is_end(const struct engine *engine, const struct follower *f, int32_t token) {
        bool is_last = (f->n_read + 1) * sizeof(token) == f->tokens.size;

        if (f->is_stored)
                return is_last && f->done.done.finish == ENGINE_FINISH_STOP;
        return !f->ignores_eos && tok_is_eog(engine->tok, token);
}

/* Of a reply that is done and ended at a stop string, the register knows how far its text goes. */
static void limit(struct follower *f, size_t *n) {
        if (f->reply.text.size + *n <= f->limit)
                return;
        *n = f->limit - f->reply.text.size;
        f->reply.held.size = *n;
        if (!f->reply.stop)
                f->reply.stop = "";
}

static int read_token(const struct engine *engine, struct follower *f) {
        int32_t token = ((const int32_t *)(const void *)f->tokens.data)[f->n_read];
        size_t n = 0;
        int r = f->reply.stop
                        ? 0
                        : reply_text_push(engine, &f->reply, token, is_end(engine, f, token), &n);

        if (r == 0) {
                limit(f, &n);
                r = reply_text_release(&f->reply, n);
        }
        if (r < 0)
                return r;
        f->n_read++;
        f->has_piece = f->has_token = f->begin + f->n_read > f->from;
        if (!f->has_piece) { /* its peer has it */
                f->n_sent = f->reply.text.size;
                parts_clear(&f->reply.parts.parts);
        }
        return 0;
}

/* All tokens are read: what was held back is no beginning of a stop string. */
static int flush(struct follower *f) {
        size_t n = 0;
        int r = 0;

        f->flushed = true;
        if (f->done.done.finish != ENGINE_FINISH_STOP_STRING)
                r = reply_text_finish(&f->reply, &n);
        if (r == 0)
                r = reply_text_release(&f->reply, n);
        f->has_piece = f->reply.text.size > f->n_sent || parts_any(&f->reply.parts.parts);
        f->has_token = false;
        return r;
}

/* 1: not now. */
static int send_piece(struct engine *engine, struct follower *f) {
        struct request *request = f->request;
        const uint8_t *text = f->reply.text.data + f->n_sent;
        size_t n = f->reply.parts.reader ? 0 : f->reply.text.size - f->n_sent, size;
        struct event_node *node =
                event_new_stream(engine, request->credit, request->r.handle, ENGINE_DELTA, n + 1);
        struct err e;
        int r;

        if (!node)
                return 1;
        node->ev.delta.text = malloc(n + 1);
        r = node->ev.delta.text ? reply_parts_take(&f->reply.parts, &node->ev.delta.parts,
                                          &node->ev.delta.n_parts, &size, &e)
                                : -ERR_NOMEM;
        if (r < 0) {
                engine_event_free(&node->ev);
                return r;
        }
        event_adopt(node, &request->charge, size);
        if (n > 0)
                memcpy(node->ev.delta.text, text, n);
        node->ev.delta.text[n] = '\0';
        node->ev.delta.text_size = n;
        node->ev.delta.position = f->begin + (uint32_t)f->n_read;
        if (f->has_token) {
                node->ev.delta.has_token = true;
                node->ev.delta.token =
                        ((const int32_t *)(const void *)f->tokens.data)[f->n_read - 1];
        }
        f->n_sent = f->reply.text.size;
        f->has_piece = f->has_token = false;
        event_send(engine, node);
        return 0;
}

/* 1: not now. */
static int send_accepted(struct engine *engine, struct follower *f) {
        struct event_node *n = event_new_stream(
                engine, f->request->credit, f->request->r.handle, ENGINE_ACCEPTED, 0);

        if (!n)
                return 1;
        n->ev.accepted = f->accepted.accepted;
        f->told = true;
        event_send(engine, n);
        return 0;
}

static void finish(struct engine *engine, struct follower *f) {
        struct request *request = f->request;
        struct engine_event *ev = request_answer(request, ENGINE_DONE);
        const char *stop = f->reply.stop;

        ev->done = f->done.done;
        ev->done.stop = NULL;
        for (size_t i = 0; stop && i < ENGINE_MAX_STOPS; i++)
                if (f->stops[i] == stop) {
                        event_adopt(request->final, &request->charge, strlen(stop) + 1);
                        ev->done.stop = TAKE_PTR(f->stops[i]);
                }
        ev->done.has_n_calls = f->reply.parts.reader != NULL;
        ev->done.n_calls = f->reply.parts.parts.n_calls;
        request_finish(engine, request);
}

/* Tell what there is. 0: all of it; 1: there is more, for another round; or an error. */
static int follow(struct engine *engine, struct follower *f) {
        size_t n_tokens = f->tokens.size / sizeof(int32_t), silent = 0, sent = 0;
        int r = f->told ? 0 : send_accepted(engine, f);

        while (r == 0 && sent < PIECES && silent < SILENT_PIECES) {
                if (f->has_piece) {
                        r = send_piece(engine, f);
                        sent++;
                } else if (f->n_read < n_tokens) {
                        r = read_token(engine, f);
                        silent++;
                } else if (f->ended && !f->flushed) {
                        r = flush(f);
                } else {
                        return 0;
                }
        }
        return r < 0 ? r : 1;
}

static bool step(struct engine *engine, struct follower *f) {
        struct request *request = f->request;
        bool cancelled = atomic_load(&request->cancel);
        struct err e;
        int r;

        if (cancelled) {
                if (engine->stopping)
                        err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                else
                        err_set(&e, ERR_CANCELLED, "no longer attached; the reply goes on");
                request_fail(engine, request, &e);
                return false;
        }
        if (f->failed) {
                e = f->why;
                request_fail(engine, request, &e);
                return false;
        }
        if (!f->opened || request_is_paused(request))
                return false;
        r = follow(engine, f);
        if (r < 0) {
                err_set(&e, (enum err_code) - r, "requests have no memory for the reply");
                request_fail(engine, request, &e);
        } else if (r == 0 && f->flushed) {
                finish(engine, f);
        }
        return r > 0;
}

void attach_step(struct engine *engine) {
        struct list *it, *tmp;

        /* The bell rings when it is over. */
        if (list_empty(&engine->run->followers) || event_backlog(engine))
                return;
        list_for_each_safe (it, tmp, &engine->run->followers)
                if (step(engine, container_of(it, struct follower, all)) && !event_backlog(engine))
                        engine->again = true;
}

/* --- the verb --- */

static int follow_running(
        struct engine *engine, struct follower *f, struct request *writer, struct err *e) {
        const struct engine_request *r = &f->request->r;
        struct generation *g = generation_of(writer);

        if (r->has_expect_revision &&
                (!g->accepted || r->expect_revision != writer->conv->revision))
                return err_set(e, ERR_CONFLICT,
                        "the reply that is being written is another one, at revision %llu",
                        (unsigned long long)writer->conv->revision);
        list_append(&g->followers, &f->link);
        if (g->accepted)
                open_running(engine, f, writer);
        return 0;
}

/* The conversation's last turn, if it is a reply. */
static const struct conv_turn *last_reply(const struct conv *c) {
        const struct conv_turn *t = c->n_turns > 0 ? &c->turns[c->n_turns - 1] : NULL;

        return t && t->finish != ENGINE_FINISH_NONE ? t : NULL;
}

/* What the register has of how it was made. */
static void put_figures(struct follower *f) {
        const struct figures *from = &f->figures;

        f->accepted.accepted.n_prompt = f->done.done.n_prompt = from->n_prompt;
        f->accepted.accepted.n_ram = f->done.done.n_ram = from->n_ram;
        f->accepted.accepted.n_disk = f->done.done.n_disk = from->n_disk;
        f->accepted.accepted.n_shared = f->done.done.n_shared = from->n_shared;
        f->accepted.accepted.n_computed = f->done.done.n_computed = from->n_computed;
        f->accepted.accepted.differs_at = f->done.done.differs_at =
                from->n_prompt - from->n_computed;
        f->done.done.seed = from->seed;
        f->done.done.queued_usec = from->queued_usec;
        f->done.done.restore_usec = from->restore_usec;
        f->done.done.prefill_usec = from->prefill_usec;
        f->done.done.decode_usec = from->decode_usec;
}

/* The tokens of the reply, and its end. */
static int fill_stored(struct follower *f, const struct conv *c, const struct conv_turn *t,
        uint32_t begin, struct err *e) {
        struct transcript all = conv_transcript(c);
        size_t n = t->end - begin;
        int r = buf_reserve(&f->tokens, n * sizeof(int32_t) + 1);

        if (r < 0)
                return err_set(e, (enum err_code) - r, "requests have no memory to read a reply");
        transcript_copy(&all, begin, t->end, (int32_t *)(void *)f->tokens.data);
        f->tokens.size = n * sizeof(int32_t);
        f->is_stored = f->ended = true;
        f->done.done.finish = t->finish;
        f->done.done.revision = c->revision;
        f->done.done.n_generated = (uint32_t)n;
        f->accepted.accepted.conv = c->id;
        f->accepted.accepted.revision = c->revision - 1;
        put_figures(f);
        return 0;
}

static int follow_stored(
        struct engine *engine, struct follower *f, const struct conv *c, struct err *e) {
        const struct engine_request *r = &f->request->r;
        const struct conv_turn *t = last_reply(c);
        const struct said said = conv_said(c);
        _cleanup_(freep) int32_t *header = NULL;
        struct reply_from from = {.conv = c,
                .tools = f->tools,
                .tools_size = f->tools_size,
                .charge = &f->request->charge,
                .n_turns = c->n_turns - 1};
        uint32_t n = 0;
        int k;

        if (!t)
                return err_set(
                        e, ERR_STATE, "no reply is being written, and the last message has none");
        if (r->has_expect_revision && r->expect_revision + 1 != c->revision)
                return err_set(e, ERR_CONFLICT, "the last reply is of revision %llu, not of %llu",
                        (unsigned long long)c->revision,
                        (unsigned long long)r->expect_revision + 1);
        k = said_goes_on(engine, &said, c->n_turns - 1, &n);
        from.goes_on = k > 0;
        from.begin = t->start + n;
        from.n_header = n;
        from.header = header = k < 0 ? NULL : calloc((size_t)n + 1, sizeof(*header));
        if (!header)
                return err_set(e, ERR_NOMEM, "no memory to read a reply");
        transcript_copy(&said.tokens, t->start, from.begin, header);
        k = check_position(f, t->start, t->end, e);
        if (k == 0)
                k = fill_stored(f, c, t, from.begin, e);
        if (k == 0)
                k = copy_stops(f, r, e);
        if (t->finish == ENGINE_FINISH_STOP_STRING)
                f->limit = f->text_size;
        return k < 0 ? k : open_reading(engine, f, &from, e);
}

/* Find the reply: the one that is written now, or the last one. */
static void join(struct engine *engine, struct request *request) {
        struct follower *f = follower_of(request);
        struct conv *c = request->conv;
        struct err e;
        int r;

        if (c->stale)
                r = err_set(&e, ERR_BUSY, "the conversation is being closed or loaded anew");
        else if (c->busy && c->generates)
                r = follow_running(engine, f, c->busy, &e);
        else if (c->busy)
                r = err_set(&e, ERR_BUSY, "the conversation is being changed by another request");
        else if (f->n_turns != c->n_turns || f->revision != c->revision)
                r = err_set(&e, ERR_BUSY, "the conversation has changed meanwhile");
        else
                r = follow_stored(engine, f, c, &e);
        if (r < 0) {
                request_fail(engine, request, &e);
                return;
        }
        request_release(engine, request);
        request->phase = PHASE_WAITS;
        credit_set_active(engine, request->credit, true);
        list_append(&engine->run->followers, &f->all);
        engine->again = true;
}

static int admit(void *arg, size_t n, struct err *e) {
        struct request *request = arg;

        return charge_take(&request->charge, n, "reading a reply", e);
}

/* What only the register has: definitions of tools, where a stop string ended a text, figures. */
static void look_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct follower *f = follower_of(request);

        j->r = store_tools(engine->store, request->sc.id, f->n_turns, admit, request, &f->tools,
                &f->tools_size, &j->err);
        if (j->r == 0 && f->n_turns > 0)
                j->r = store_turn_part(engine->store, request->sc.id, f->n_turns - 1, false, admit,
                        request, &f->text, &f->text_size, &j->err);
        if (j->r == 0 && f->n_turns > 0)
                j->r = store_figures(
                        engine->store, request->sc.id, f->n_turns - 1, &f->figures, &j->err);
}

static void look_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                join(engine, request_of(j));
}

static int act(struct engine *engine, struct request *request, struct err *e) {
        struct follower *f = follower_of(request);
        const struct conv *c = request->conv;

        (void)e;
        f->n_turns = c->n_turns;
        f->revision = c->revision;
        request->sc.id = c->id;
        if ((request->r.want_parts && conv_has_tools(c)) || (last_reply(c) && !c->generates))
                request_submit(engine, request, look_run, look_done);
        else
                join(engine, request);
        return 0;
}

const struct verb verb_attach = {.own_size = sizeof(struct follower),
        .init = init,
        .deinit = deinit,
        .act = act,
        .at_once = true,
        .is_long = true,
        .in_pieces = true};
