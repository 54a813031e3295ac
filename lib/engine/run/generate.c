/* SPDX-License-Identifier: MIT */
/*
 * Continue and Warm: turning computed tokens into a reply. commit.c puts input and reply into the
 * register.
 *
 * 1. History is never rendered or tokenised again (I1): input becomes tokens that are appended,
 *    once.
 * 2. Tokens are kept as they were sampled; a stop string cuts only the text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/run/state.h"

#define PROGRESS_USEC 100000

/* --- events --- */

static void send_accepted(struct engine *engine, struct request *request) {
        struct event_node *n =
                event_new_stream(engine, request->credit, request->r.handle, ENGINE_ACCEPTED, 0);

        if (!n)
                return; /* Done has the figures, too */
        generate_fill_accepted(request, &n->ev);
        commit_tell(engine, request, n);
}

static void send_progress(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        uint64_t now = clock_monotonic_usec();
        struct event_node *n;

        /* Warm has one event, its result: clients take anything else for a broken daemon. */
        if (request_is_warm(request))
                return;
        /* A parked request first computes again what its client already knows of. */
        if (now - g->t_last_progress < PROGRESS_USEC || g->n_generated > 0 ||
                seq_n_tokens(request->conv->seq) < g->n_kept)
                return;
        g->t_last_progress = now;
        n = event_new_stream(engine, request->credit, request->r.handle, ENGINE_PROGRESS, 0);
        if (!n)
                return;
        n->ev.progress.total = g->n_prompt - g->n_kept;
        n->ev.progress.done = seq_n_tokens(request->conv->seq) - g->n_kept;
        commit_tell(engine, request, n);
}

static int fill_logprobs(struct engine *engine, struct request *request, struct engine_event *ev,
        int32_t token, const float *logits) {
        size_t top = MIN((size_t)request->r.n_logprobs, (size_t)engine->info.n_vocab);
        _cleanup_(freep) struct sample_logprob *best = NULL;

        ev->delta.has_logprob = true;
        event_fill_piece(engine, &ev->delta.token_text, token);
        if (top == 0) {
                ev->delta.logprob = sample_logprob(logits, engine->info.n_vocab, token);
                return 0;
        }
        best = calloc(top, sizeof(*best));
        ev->delta.top = calloc(top, sizeof(*ev->delta.top));
        if (!best || !ev->delta.top)
                return -ERR_NOMEM;
        ev->delta.logprob = sample_top_logprobs(
                engine->run->sampler, logits, engine->info.n_vocab, token, top, best);
        for (size_t i = 0; i < top; i++) {
                ev->delta.top[i].token = best[i].token;
                ev->delta.top[i].logprob = best[i].logprob;
                event_fill_piece(engine, &ev->delta.top[i].text, best[i].token);
        }
        ev->delta.n_top = top;
        return 0;
}

/* Bytes that fill_logprobs() takes. */
static size_t tops_size(const struct engine *engine, const struct engine_request *r) {
        size_t top = MIN((size_t)r->n_logprobs, (size_t)engine->info.n_vocab);

        return top * (sizeof(struct engine_logprob) + sizeof(struct sample_logprob));
}

/* What was read of the parts, for the event. */
static int put_parts(struct request *request, struct event_node *node) {
        struct reply_parts *p = &generation_of(request)->reply.parts;
        struct err e;
        size_t size;
        int r = reply_parts_take(p, &node->ev.delta.parts, &node->ev.delta.n_parts, &size, &e);

        if (r == 0)
                event_adopt(node, &request->charge, size);
        return r;
}

/* Send the first @n bytes of the held text, or the parts that were read of them (with @token if there
 * is one). */
static int send_delta(struct engine *engine, struct request *request, size_t n,
        const int32_t *token, const float *logits) {
        struct generation *g = generation_of(request);
        size_t size, n_sent = g->reply.parts.reader ? 0 : n;
        struct event_node *node;
        int r;

        if (n == 0 && !token && !parts_any(&g->reply.parts.parts))
                return 0;
        size = n_sent + 1 + (token ? tops_size(engine, &request->r) : 0);
        r = reply_text_release(&g->reply, n);
        if (r < 0)
                return r;
        node = event_new_stream(engine, request->credit, request->r.handle, ENGINE_DELTA, size);
        if (!node)
                return -ERR_NOMEM;
        r = put_parts(request, node);
        if (r < 0) {
                engine_event_free(&node->ev);
                return r;
        }
        node->ev.delta.text = malloc(n_sent + 1);
        if (!node->ev.delta.text)
                goto fail;
        if (n_sent > 0)
                memcpy(node->ev.delta.text, g->reply.text.data + g->reply.text.size - n, n_sent);
        node->ev.delta.text[n_sent] = '\0';
        node->ev.delta.text_size = n_sent;
        if (token) {
                node->ev.delta.has_token = true;
                node->ev.delta.token = *token;
                if ((request->r.want_logprobs || request->r.n_logprobs > 0) &&
                        fill_logprobs(engine, request, &node->ev, *token, logits) < 0)
                        goto fail;
        }
        node->ev.delta.position = request->conv->n_all + gap_size(&request->conv->gap);
        commit_tell(engine, request, node);
        return 0;
fail:
        engine_event_free(&node->ev);
        return -ERR_NOMEM;
}

/* --- stepping --- */

/* Count where the first @kept tokens came from. */
static void count_sources(struct engine *engine, struct generation *g, uint32_t kept) {
        uint32_t n[N_SOURCES];

        recall_count(engine, &g->recall, kept, n);
        g->n_ram = n[SOURCE_RAM];
        g->n_disk = n[SOURCE_DISK];
        g->n_shared = n[SOURCE_SHARED];
        engine->count.reused_ram += g->n_ram;
        engine->count.reused_disk += g->n_disk;
        engine->count.reused_shared += g->n_shared;
}

/* Tokens before n_reached are counted already, and keep their source: after parking, a request's
 * own memory looks as if it had been found. */
void generate_adopted(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        uint32_t end = MIN(seq_n_tokens(request->conv->seq), g->n_prompt), branch;

        if (end <= g->n_reached)
                return;
        checkpoint_reached(engine, request->conv, &g->plan);
        g->n_shared += end - g->n_reached;
        engine->count.reused_shared += end - g->n_reached;
        g->n_reached = end;
        g->differs_why =
                share_explain(engine, &g->recall, g->n_prompt, end, &g->differs_at, &branch);
}

/* Its memory is there. */
static void measure_start(struct engine *engine, const struct request *request) {
        const struct generation *g = generation_in(request);

        meters_time(engine, request, ENGINE_LATENCY_QUEUE, g->t_admitted - request->t_submitted, 1);
        if (g->n_disk > 0)
                meters_time(
                        engine, request, ENGINE_LATENCY_RESTORE, g->t_restored - g->t_admitted, 1);
}

/* A step has computed so many tokens of the prompt. */
static void measure_prompt(struct engine *engine, struct request *request, bool whole) {
        struct generation *g = generation_of(request);
        uint64_t now = clock_monotonic_usec();

        meters_count(engine, request, RATE_PREFILLED, g->in_batch, now);
        if (!whole || g->t_prefilled != 0)
                return;
        g->t_prefilled = now;
        meters_time(engine, request, ENGINE_LATENCY_PREFILL, now - g->t_restored, 1);
}

void generate_measure(struct engine *engine, struct request *request, uint32_t n) {
        struct generation *g = generation_of(request);
        uint64_t now = clock_monotonic_usec();
        bool waited = atomic_exchange(&request->was_paused, false);

        meters_count(engine, request, RATE_DECODED, n, now);
        if (g->t_token == 0)
                meters_time(
                        engine, request, ENGINE_LATENCY_FIRST_TOKEN, now - request->t_submitted, 1);
        else if (!waited)
                meters_time(engine, request, ENGINE_LATENCY_TOKEN, (now - g->t_token) / n, n);
        g->t_token = now;
}

void generate_restored(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;
        struct generation *g = generation_of(request);
        uint32_t kept = seq_n_tokens(c->seq);

        if (g->t_restored == 0) {
                count_sources(engine, g, kept);
                g->differs_why = share_explain(
                        engine, &g->recall, g->n_prompt, kept, &g->differs_at, &g->plan.branch);
                checkpoint_reached(engine, c, &g->plan);
                g->n_kept = g->n_reached = kept;
                g->t_restored = g->recall.t_read ? g->recall.t_read : clock_monotonic_usec();
                measure_start(engine, request);
                if (!request_is_warm(request)) {
                        speculate_begin(engine, request); /* before an old end is forgotten */
                        commit_input(engine, request);
                        send_accepted(engine, request);
                        if (g->storing != STORING)
                                commit_accepted(engine, request);
                }
        } else {
                /* The request was parked, and its client has heard all of this. Only tokens that
                 * others have computed meanwhile are new. */
                generate_adopted(engine, request);
        }
        /* Parked between two tokens, and no memory was lost: there is no prompt to compute. */
        request->phase = g->n_generated > 0 && kept + 1 == c->n_all ? PHASE_DECODE : PHASE_PREFILL;
        engine->again = true;
        if (kept == c->n_all)
                generate_end(request, ENGINE_FINISH_LENGTH);
}

/* The share of all requests is full: the reply ends here, and is kept. The text of the last token
 * could not be sent, so the token is taken back. */
static void end_without_room(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct err e;

        request->conv->n_all--;
        g->n_generated--;
        account_take_back(request, 1);
        if (g->n_generated == 0) {
                err_set(&e, ERR_LIMIT, "requests have no memory for a reply");
                generate_fail(request, &e);
                return;
        }
        reply_text_drop(engine, &g->reply);
        generate_end(request, ENGINE_FINISH_LENGTH);
}

/* Choose the next token. False if the reply ends without one. */
static bool next_token(
        struct engine *engine, struct request *request, const float *logits, int32_t *ret) {
        struct err e;
        int r;

        if (!generation_of(request)->constraint) {
                *ret = constraint_choose(engine, request, logits, NULL);
                return true;
        }
        r = constraint_sample(engine, request, logits, ret, &e);
        if (r < 0)
                generate_fail(request, &e);
        else if (r == 1)
                generate_end(request, ENGINE_FINISH_LENGTH);
        return r == 0;
}

/* Sample one more token from @logits. */
static void generate_token(struct engine *engine, struct request *request, const float *logits) {
        struct conv *c = request->conv;
        struct generation *g = generation_of(request);
        int32_t token;
        struct err e;
        bool ends;
        size_t n;
        int r;

        if (g->n_generated > 0 && account_is_full(request)) {
                generate_end(request,
                        ENGINE_FINISH_LENGTH); /* another reply of the owner took the rest */
                return;
        }
        if (!next_token(engine, request, logits, &token))
                return;
        c->tokens[c->n_all++] = token;
        g->n_generated++;
        account_add(request, 1);
        account_worked(request, 1);
        ends = tok_is_eog(engine->tok, token) && !request->r.ignore_eos;
        r = reply_text_push(engine, &g->reply, token, ends, &n);
        if (r < 0)
                goto nomem;
        r = send_delta(engine, request, n, &token, logits);
        if (r == -ERR_LIMIT || r == -ERR_TOO_LARGE) {
                end_without_room(engine, request);
                return;
        }
        if (r < 0)
                goto nomem;
        attach_token(request, token);
        if (ends)
                generate_end(request, ENGINE_FINISH_STOP);
        else if (g->reply.stop)
                generate_end(request, ENGINE_FINISH_STOP_STRING);
        else if (g->n_generated == g->max_new)
                generate_end(
                        request, g->context_bound ? ENGINE_FINISH_CONTEXT : ENGINE_FINISH_LENGTH);
        else if (account_is_full(request))
                generate_end(request, ENGINE_FINISH_LENGTH);
        return;
nomem:
        err_set(&e, ERR_NOMEM, "no memory for the reply");
        generate_fail(request, &e);
}

void generate_advance(struct engine *engine, struct request *request, const float *logits) {
        struct conv *c = request->conv;
        struct generation *g = generation_of(request);

        if (request->phase == PHASE_PREFILL) {
                uint32_t end = seq_n_tokens(c->seq), start = end - g->in_batch;

                engine->count.tokens_prefilled += g->in_batch;
                account_worked(request, g->in_batch);
                if (start < c->n_known)
                        engine->count.tokens_recomputed += MIN(end, c->n_known) - start;
                c->n_known = MAX(c->n_known, end);
                g->n_reached = MAX(g->n_reached, end);
                measure_prompt(engine, request, end == c->n_all);
                if (end < c->n_all) {
                        send_progress(engine, request);
                        return;
                }
                if (g->max_new == 0) {
                        generate_end(request, ENGINE_FINISH_LENGTH);
                        return;
                }
                request->phase = PHASE_DECODE;
        } else {
                engine->count.tokens_decoded += g->in_batch;
                c->n_known = MAX(c->n_known, seq_n_tokens(c->seq));
        }
        generate_token(engine, request, logits);
}

/* --- the end --- */

int generate_flush(struct engine *engine, struct request *request) {
        size_t n;
        int r = reply_text_finish(&generation_of(request)->reply, &n);

        return r < 0 ? r : send_delta(engine, request, n, NULL, NULL);
}
