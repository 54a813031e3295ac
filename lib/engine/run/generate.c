/* SPDX-License-Identifier: MIT */
/*
 * Continue and Warm: turning computed tokens into a reply, and into turns in the register.
 *
 * 1. History is never rendered or tokenised again (I1): input becomes tokens that are appended,
 *    once.
 * 2. Until the commit the new tokens lie behind conv->n_tokens. Any earlier failure cuts back to
 *    n_tokens, and restores what was to be replaced or dropped (memory/edit.c).
 * 3. Done is sent after the register has the turns (I4).
 * 4. Tokens are kept as they were sampled; a stop string cuts only the text.
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
        struct generation *g = generation_of(request);

        if (!n)
                return; /* Done has the figures, too */
        n->ev.accepted.conv = request->conv->id;
        n->ev.accepted.revision = request->conv->revision;
        n->ev.accepted.n_prompt = g->n_prompt;
        n->ev.accepted.n_ram = g->n_ram;
        n->ev.accepted.n_disk = g->n_disk;
        n->ev.accepted.n_shared = g->n_shared;
        n->ev.accepted.n_computed = g->n_prompt - g->n_ram - g->n_disk - g->n_shared;
        n->ev.accepted.differs_at = g->differs_at;
        n->ev.accepted.differs_why = g->differs_why;
        n->ev.accepted.n_dropped = g->n_dropped;
        event_send(engine, n);
}

static void send_progress(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        uint64_t now = clock_monotonic_usec();
        struct event_node *n;

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
        event_send(engine, n);
}

static int fill_logprobs(struct engine *engine, struct request *request, struct engine_event *ev,
        int32_t token, const float *logits) {
        size_t top = MIN((size_t)request->r.n_logprobs, (size_t)engine->info.n_vocab);
        _cleanup_(freep) struct sample_logprob *best = NULL;

        ev->delta.has_logprob = true;
        ev->delta.logprob = sample_logprob(logits, engine->info.n_vocab, token);
        if (top == 0)
                return 0;
        best = calloc(top, sizeof(*best));
        ev->delta.top = calloc(top, sizeof(*ev->delta.top));
        if (!best || !ev->delta.top)
                return -ERR_NOMEM;
        sample_top_logprobs(engine->run->sampler, logits, engine->info.n_vocab, top, best);
        for (size_t i = 0; i < top; i++) {
                event_fill_piece(engine, &ev->delta.top[i], best[i].token);
                ev->delta.top[i].logprob = best[i].logprob;
        }
        ev->delta.n_top = top;
        return 0;
}

/* Bytes that fill_logprobs() takes. */
static size_t tops_size(const struct engine *engine, const struct engine_request *r) {
        size_t top = MIN((size_t)r->n_logprobs, (size_t)engine->info.n_vocab);

        return top * (sizeof(struct engine_logprob) + sizeof(struct sample_logprob));
}

/* @n more bytes of the text are sent: read the tokens that they are of, and at a stop string the rest. */
static int read_parts(struct generation *g, size_t n) {
        struct err e;
        int r;

        if (!g->parts.reader || g->parts.ended)
                return 0;
        r = reply_parts_release(&g->parts, n, &e);
        return r == 0 && g->stop ? reply_parts_end(&g->parts, &g->text, true, &e) : r;
}

/* What was read of the parts, for the event. */
static int put_parts(struct request *request, struct event_node *node) {
        struct reply_parts *p = &generation_of(request)->parts;
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
        size_t size, n_sent = g->parts.reader ? 0 : n;
        struct event_node *node;
        int r;

        if (n == 0 && !token && !parts_any(&g->parts.parts))
                return 0;
        size = n_sent + 1 + (token ? tops_size(engine, &request->r) : 0);
        r = n > 0 ? buf_append(&g->text, g->held.data, n) : 0;
        if (r == 0)
                r = read_parts(g, n);
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
                memcpy(node->ev.delta.text, g->held.data, n_sent);
        node->ev.delta.text[n_sent] = '\0';
        node->ev.delta.text_size = n_sent;
        if (token) {
                node->ev.delta.has_token = true;
                node->ev.delta.token = *token;
                if ((request->r.want_logprobs || request->r.n_logprobs > 0) &&
                        fill_logprobs(engine, request, &node->ev, *token, logits) < 0)
                        goto fail;
        }
        buf_consume(&g->held, n);
        event_send(engine, node);
        return 0;
fail:
        engine_event_free(&node->ev);
        return -ERR_NOMEM;
}

/* --- stop strings --- */

/* The earliest stop string in the held text: its position, or SIZE_MAX. */
static size_t find_stop(const struct request *request, const char **ret) {
        const struct buf *h = &generation_in(request)->held;
        size_t best = SIZE_MAX;

        for (size_t i = 0; i < request->r.n_stops; i++) {
                size_t n = strlen(request->r.stops[i]);
                const uint8_t *p =
                        h->size ? memmem(h->data, h->size, request->r.stops[i], n) : NULL;

                if (p && (size_t)(p - h->data) < best) {
                        best = (size_t)(p - h->data);
                        *ret = request->r.stops[i];
                }
        }
        return best;
}

/* Bytes at the end of the held text that may be the beginning of a stop string. */
static size_t partial_stop(const struct request *request) {
        const struct buf *h = &generation_in(request)->held;
        size_t most = 0;

        for (size_t i = 0; i < request->r.n_stops; i++) {
                size_t n = strlen(request->r.stops[i]);

                for (size_t k = MIN(n - 1, h->size); k > most; k--)
                        if (memcmp(h->data + h->size - k, request->r.stops[i], k) == 0) {
                                most = k;
                                break;
                        }
        }
        return most;
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
                if (!request_is_warm(request))
                        send_accepted(engine, request);
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

/* Append the token's text to the held text. A NUL, which strings cannot have, becomes U+FFFD. */
static int push_text(struct engine *engine, struct generation *g, int32_t token) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        size_t n = g->held.size;
        int r = tok_stream_push(&g->stream, engine->tok, token, &text);

        if (r == 0)
                r = buf_append_text(&g->held, text.data, text.size);
        if (r == 0 && g->parts.reader)
                r = reply_parts_wait(&g->parts, token, g->held.size - n, g->stream.n_held > 0);
        return r;
}

/* The share of all requests is full: the reply ends here, and is kept. The text of the last token
 * could not be sent, so the token is taken back. */
static void end_without_room(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        struct err e;

        request->conv->n_all--;
        g->n_generated--;
        if (g->n_generated == 0) {
                err_set(&e, ERR_LIMIT, "requests have no memory for a reply");
                generate_fail(request, &e);
                return;
        }
        g->held.size = 0;
        g->stop = NULL;
        reply_parts_drop(&g->parts);
        tok_stream_init(&g->stream, engine->tok, false, false);
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
        size_t cut;
        int r;

        if (!next_token(engine, request, logits, &token))
                return;
        c->tokens[c->n_all++] = token;
        g->n_generated++;
        if (tok_is_eog(engine->tok, token) && !request->r.ignore_eos) {
                if (g->parts.reader && reply_parts_wait(&g->parts, token, 0, false) < 0)
                        goto nomem;
                if (send_delta(engine, request, 0, &token, logits) < 0)
                        goto nomem;
                generate_end(request, ENGINE_FINISH_STOP);
                return;
        }
        r = push_text(engine, g, token);
        if (r < 0)
                goto nomem;
        cut = find_stop(request, &g->stop);
        if (cut != SIZE_MAX)
                g->held.size = cut;
        else
                cut = g->held.size - partial_stop(request);
        r = send_delta(engine, request, cut, &token, logits);
        if (r == -ERR_LIMIT || r == -ERR_TOO_LARGE) {
                end_without_room(engine, request);
                return;
        }
        if (r < 0)
                goto nomem;
        if (g->stop)
                generate_end(request, ENGINE_FINISH_STOP_STRING);
        else if (g->n_generated == g->max_new)
                generate_end(
                        request, g->context_bound ? ENGINE_FINISH_CONTEXT : ENGINE_FINISH_LENGTH);
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
                if (start < c->n_known)
                        engine->count.tokens_recomputed += MIN(end, c->n_known) - start;
                c->n_known = MAX(c->n_known, end);
                g->n_reached = MAX(g->n_reached, end);
                if (end < c->n_all) {
                        send_progress(engine, request);
                        return;
                }
                if (g->t_prefilled == 0)
                        g->t_prefilled = clock_monotonic_usec();
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

void generate_end(struct request *request, enum engine_finish finish) {
        struct generation *g = generation_of(request);

        g->end = ENDED;
        g->finish = finish;
}

void generate_fail(struct request *request, const struct err *e) {
        struct generation *g = generation_of(request);

        g->end = FAILED;
        g->why = *e;
}

void generate_cancel(struct request *request, const struct err *e) {
        if (generation_of(request)->n_generated > 0)
                generate_end(request, ENGINE_FINISH_CANCELLED);
        else
                generate_fail(request, e);
}

static void warm_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        j->r = store_conv_get(
                engine->store, request->r.owner, request->conv->id, NULL, &request->sc, &j->err);
}

static void warm_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0)
                request_fail(engine, request, &j->err);
        else
                request_finish_conv(engine, request);
}

static void commit_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct generation *g = generation_of(request);
        struct conv *c = request->conv; /* held by this request: tokens and id do not change */
        uint64_t now = clock_realtime_usec();
        unsigned tries = 0;
        size_t n = g->n_input_turns;

        input_fill_rows(request, now);
        if (g->has_reply_turn)
                g->rows[n++] = (struct store_turn){.role = g->reply_turn.role,
                        .start = g->reply_turn.start,
                        .end = c->n_all + gap_size(&c->gap),
                        .finish = g->finish,
                        .text = g->text.size ? (const char *)g->text.data : "",
                        .text_size = g->text.size,
                        .created_usec = now};
        do {
                if (c->edit)
                        j->r = edit_store(engine, c, g->rows, n, c->n_all - g->n_history,
                                &request->revision, &j->err);
                else
                        j->r = store_append(engine->store, c->id, g->rows, n,
                                c->tokens + g->n_history, c->n_all - g->n_history,
                                &request->revision, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
}

static void fill_done(struct request *request) {
        struct engine_event *ev = request_answer(request, ENGINE_DONE);
        struct generation *g = generation_of(request);
        uint64_t now = clock_monotonic_usec();

        /* Hand over the request's own copy, which was charged on arrival. */
        for (size_t i = 0; g->stop && i < request->r.n_stops; i++)
                if (request->r.stops[i] == g->stop) {
                        event_adopt(request->final, &request->charge, strlen(g->stop));
                        ev->done.stop = (char *)(uintptr_t)TAKE_PTR(request->r.stops[i]);
                        break;
                }
        ev->done.finish = g->finish;
        ev->done.revision = request->revision;
        ev->done.seed = g->seed;
        ev->done.n_prompt = g->n_prompt;
        ev->done.n_generated = g->n_generated;
        ev->done.has_n_calls = g->parts.reader != NULL;
        ev->done.n_calls = g->parts.parts.n_calls;
        ev->done.n_ram = g->n_ram;
        ev->done.n_disk = g->n_disk;
        ev->done.n_shared = g->n_shared;
        ev->done.n_computed = g->n_prompt - g->n_ram - g->n_disk - g->n_shared;
        ev->done.differs_at = g->differs_at;
        ev->done.differs_why = g->differs_why;
        ev->done.n_dropped = g->n_dropped;
        ev->done.queued_usec = g->t_admitted - request->t_submitted;
        ev->done.restore_usec = g->t_restored - g->t_admitted;
        ev->done.prefill_usec = g->t_prefilled - g->t_restored;
        ev->done.decode_usec = now - g->t_prefilled;
}

static void commit_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;
        struct generation *g = generation_of(request);

        if (j->r < 0) {
                /* Written, but into a file that was replaced: RAM may differ from the register. */
                c->stale = c->stale || j->r == -ERR_STATE;
                request_fail(engine, request, &j->err);
                return;
        }
        edit_done(engine, c);
        conv_link_again(engine, c, c->n_tokens);
        c->n_tokens = c->n_all;
        c->revision = request->revision;
        g->reply_turn.end = conv_n_transcript(c);
        g->reply_turn.finish = g->finish;
        if (input_add_turns(engine, request, &j->err) < 0 ||
                (g->has_reply_turn && conv_add_turn(engine, c, &g->reply_turn, &j->err) < 0)) {
                /* Committed, but RAM no longer agrees with the register: load it anew next time. */
                c->stale = true;
        }
        checkpoint_turn_ended(engine, c);
        fill_done(request);
        request_finish(engine, request);
}

/* The rest of the held text was no beginning of a stop string: send it. */
static int flush(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);
        int r = tok_stream_finish(&g->stream, &g->held);

        if (r == 0 && g->parts.reader && !g->parts.ended)
                r = reply_parts_end(&g->parts, &g->text, false, NULL);
        return r < 0 ? r : send_delta(engine, request, g->held.size, NULL, NULL);
}

void generate_close(struct engine *engine, struct request *request) {
        struct generation *g = generation_of(request);

        recall_abandon(engine, &g->recall);
        if (g->end == ENDED && g->finish != ENGINE_FINISH_STOP_STRING &&
                flush(engine, request) < 0) {
                err_set(&g->why, ERR_NOMEM, "no memory for the reply");
                g->end = FAILED;
        }
        if (g->end == FAILED) {
                request_fail(engine, request, &g->why);
                return;
        }
        if (g->t_prefilled == 0)
                g->t_prefilled = clock_monotonic_usec();
        seq_unreserve(request->conv->seq);
        request->phase = PHASE_COMMIT;
        request->job.kind = JOB_VERB;
        request->job.run = request_is_warm(request) ? warm_run : commit_run;
        request->job.done = request_is_warm(request) ? warm_done : commit_done;
        io_submit(engine, &request->job);
}
