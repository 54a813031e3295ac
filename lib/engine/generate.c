/* SPDX-License-Identifier: MIT */
/*
 * Continue and Warm: from input to Done.
 *
 * 1. History is never rendered or tokenised again (I1): input becomes tokens that are appended,
 * once.
 * 2. Until the commit the new tokens live behind conv->n_tokens; whatever goes wrong before cuts
 * back to it.
 * 3. Done is sent after the register has the turns (I4).
 * 4. Tokens are kept as they were sampled; a stop string only cuts the text.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/internal.h"

#define PROGRESS_USEC 100000

void gen_deinit(struct gen *g) {
        free(g->biases);
        buf_deinit(&g->held);
        buf_deinit(&g->text);
        free(g->restore);
        g->restore = NULL;
}

static bool is_warm(const struct ereq *rq) {
        return rq->r.verb == ENGINE_WARM;
}

/* --- input --- */

static int input_raw(struct engine *en, struct ereq *rq, size_t max, struct err *e) {
        bool first = rq->conv->n_tokens == 0;
        struct tok_fragment f = {.text = rq->r.text, .size = rq->r.text_size};
        int32_t bos = tok_bos(en->tok);
        int r;

        if (first && tok_add_bos(en->tok) && bos >= 0) {
                r = tok_ids_append(&rq->input, &bos, 1, e);
                if (r < 0)
                        return r;
        }
        return tok_encode(en->tok, &f, 1, false, first, max, &rq->input, e);
}

static int input_tokens(struct engine *en, struct ereq *rq, struct err *e) {
        for (size_t i = 0; i < rq->r.n_tokens; i++)
                if (rq->r.tokens[i] < 0 || (uint32_t)rq->r.tokens[i] >= en->info.n_vocab)
                        return err_set(e, ERR_INVALID,
                                "token %d at %zu is not in the vocabulary of %u", rq->r.tokens[i],
                                i, en->info.n_vocab);
        return tok_ids_append(&rq->input, rq->r.tokens, rq->r.n_tokens, e);
}

/* Fills rq->input and the roles of the turns. */
static int make_input(struct engine *en, struct ereq *rq, struct err *e) {
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;
        /* One more than could fit, so that the context error below can count. */
        size_t max = (size_t)en->info.context + 1;
        const struct conv_turn *last = c->n_turns ? &c->turns[c->n_turns - 1] : NULL;
        bool reply = rq->r.max_tokens != 0;
        int r = 0;

        g->input_turn.start = c->n_tokens;
        g->reply_turn.role = CHAT_ASSISTANT;
        g->has_input_turn = rq->r.input != ENGINE_INPUT_NONE;
        switch (rq->r.input) {
        case ENGINE_INPUT_MESSAGE:
                g->input_turn.role = (enum chat_role)rq->r.role;
                r = chat_append_message(en->chat, conv_chat_state(en, c), g->input_turn.role,
                        rq->r.text, rq->r.text_size, max, &rq->input, e);
                g->input_turn.end = c->n_tokens + (uint32_t)rq->input.n;
                if (r == 0 && reply)
                        r = chat_append_reply_start(en->chat, max + 64, &rq->input, e);
                break;
        case ENGINE_INPUT_RAW:
        case ENGINE_INPUT_TOKENS:
                g->input_turn.role = g->reply_turn.role = CHAT_RAW;
                r = rq->r.input == ENGINE_INPUT_RAW ? input_raw(en, rq, max, e)
                                                    : input_tokens(en, rq, e);
                g->input_turn.end = c->n_tokens + (uint32_t)rq->input.n;
                break;
        case ENGINE_INPUT_NONE:
                if (!last || !reply)
                        return err_set(e, ERR_INVALID,
                                last ? "nothing to do: no input and max_tokens 0"
                                     : "the conversation is empty: nothing to continue");
                g->input_turn.end = c->n_tokens;
                if (conv_chat_state(en, c) == CHAT_OPEN_SYSTEM)
                        return err_set(e, ERR_INVALID,
                                "only a system message was said: nothing to reply to");
                if (last->role == CHAT_RAW)
                        g->reply_turn.role = CHAT_RAW;
                else if (conv_chat_state(en, c) == CHAT_CLOSED)
                        r = chat_append_reply_start(en->chat, max + 64, &rq->input, e);
                break;
        }
        if (r == -ERR_LIMIT)
                return err_set(e, ERR_CONTEXT,
                        "the conversation has %u tokens, and the input alone more than the context "
                        "of %u",
                        c->n_tokens, en->info.context);
        if (r < 0)
                return r;
        if (g->has_input_turn && g->input_turn.end == g->input_turn.start)
                return err_set(e, ERR_INVALID, "the input is empty");
        return 0;
}

/* --- parameters --- */

static void params_of(struct sample_params *p, const struct sampling *s) {
#define TAKE(bit, field)                                                                           \
        if (s->has & (bit))                                                                        \
        p->field = s->field
        TAKE(SAMPLING_TEMPERATURE, temperature);
        TAKE(SAMPLING_TOP_K, top_k);
        TAKE(SAMPLING_TOP_P, top_p);
        TAKE(SAMPLING_MIN_P, min_p);
        TAKE(SAMPLING_REPETITION, repetition_penalty);
        TAKE(SAMPLING_PRESENCE, presence_penalty);
        TAKE(SAMPLING_FREQUENCY, frequency_penalty);
        TAKE(SAMPLING_LAST_N, penalty_last_n);
#undef TAKE
}

static int make_params(struct engine *en, struct ereq *rq, struct err *e) {
        struct gen *g = &rq->g;
        struct sampling s = rq->conv->sampling;
        const int32_t *suppressed;
        size_t n_suppressed = tok_suppressed(en->tok, &suppressed), n = 0;
        size_t n_eog = rq->r.ignore_eos ? en->n_eog : 0;

        sampling_merge(&s, &rq->r.sampling);
        g->params = SAMPLE_PARAMS_DEFAULT;
        params_of(&g->params, &s);
        if (s.has & SAMPLING_SEED)
                g->seed = s.seed;
        else if (getrandom(&g->seed, sizeof(g->seed), 0) != sizeof(g->seed))
                return err_set(e, ERR_SYS, "cannot draw a seed");
        g->params.seed = g->seed;
        if (!(s.has & SAMPLING_BIASES))
                s.n_biases = 0;
        g->biases = calloc(s.n_biases + n_suppressed + n_eog + 1, sizeof(*g->biases));
        if (!g->biases)
                return err_set(e, ERR_NOMEM, "no memory for logit biases");
        for (uint32_t i = 0; i < s.n_biases; i++)
                g->biases[n++] = (struct sample_bias){s.biases[i].token, s.biases[i].bias};
        for (size_t i = 0; i < n_suppressed; i++)
                g->biases[n++] = (struct sample_bias){suppressed[i], -INFINITY};
        for (size_t i = 0; i < n_eog; i++)
                g->biases[n++] = (struct sample_bias){en->eog[i], -INFINITY};
        g->params.biases = g->biases;
        g->params.n_biases = n;
        return sample_params_validate(&g->params, en->info.n_vocab, e);
}

/* How much may be generated, and does it fit at all? */
static int make_bounds(struct engine *en, struct ereq *rq, struct err *e) {
        struct gen *g = &rq->g;
        uint32_t bt = en->info.block_tokens, wanted;
        size_t n_prompt = (size_t)rq->conv->n_tokens + rq->input.n;
        size_t capacity = residency_capacity(en);
        /* One block for the copy of a shared tail. */
        size_t room = capacity > 1 ? (capacity - 1) * bt : 0;

        wanted = rq->r.max_tokens == ENGINE_UNSET ? en->o.default_max_tokens : rq->r.max_tokens;
        if (is_warm(rq))
                wanted = 0;
        if (n_prompt + (wanted > 0) > en->info.context)
                return err_set(e, ERR_CONTEXT,
                        "the conversation has %u tokens, the input %zu: together %zu of a context "
                        "of %u",
                        rq->conv->n_tokens, rq->input.n, n_prompt, en->info.context);
        if (n_prompt + (wanted > 0) > room)
                return err_set(e, ERR_LIMIT,
                        "%zu tokens need more memory than the whole budget of %zu has", n_prompt,
                        ledger_budget(&en->ledger));
        g->n_prompt = (uint32_t)n_prompt;
        g->max_new = MIN(wanted, en->info.context - g->n_prompt);
        if (g->max_new > room - n_prompt)
                g->max_new = (uint32_t)(room - n_prompt);
        g->context_bound = g->max_new < wanted;
        g->need_blocks = (n_prompt + g->max_new + bt - 1) / bt + 1;
        return 0;
}

static int check_stops(const struct engine_request *r, struct err *e) {
        for (size_t i = 0; i < r->n_stops; i++)
                if (!r->stops[i][0] || !utf8_valid(r->stops[i], strlen(r->stops[i])))
                        return err_set(
                                e, ERR_INVALID, "stop string %zu is empty or not UTF-8", i + 1);
        return 0;
}

void generate_start(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;
        struct err e;
        int r;

        g->n_input_start = c->n_tokens;
        if (c->foreign_vocab)
                r = err_set(&e, ERR_STATE,
                        "the conversation's tokens belong to another model's vocabulary");
        else
                r = is_warm(rq) ? 0 : make_input(en, rq, &e);
        if (r == 0)
                r = check_stops(&rq->r, &e);
        if (r == 0)
                r = make_params(en, rq, &e);
        if (r == 0)
                r = make_bounds(en, rq, &e);
        if (r == 0)
                r = conv_reserve_tokens(en, c, g->n_prompt + g->max_new, &e);
        if (r < 0) {
                verb_fail(en, rq, &e);
                return;
        }
        if (rq->input.n > 0)
                memcpy(c->tokens + c->n_tokens, rq->input.ids, rq->input.n * sizeof(*c->tokens));
        c->n_all = g->n_prompt;
        g->reply_turn.start = g->input_turn.end;
        g->has_reply_turn = g->max_new > 0;
        /* Behind a special token a text starts anew: SPM's own space before its first word isn't
         * the reply's. */
        tok_stream_init(&g->stream, en->tok,
                g->n_prompt > 0 && tok_is_special(en->tok, c->tokens[g->n_prompt - 1]), false);
        sched_queue(en, rq);
}

/* --- events --- */

static void send_accepted(struct engine *en, struct ereq *rq) {
        struct event_node *n = event_new(rq->r.handle, ENGINE_ACCEPTED, false);
        struct gen *g = &rq->g;

        if (!n)
                return; /* Done repeats the figures */
        n->ev.accepted.conv = rq->conv->id;
        n->ev.accepted.revision = rq->conv->revision;
        n->ev.accepted.n_prompt = g->n_prompt;
        n->ev.accepted.n_ram = g->n_ram;
        n->ev.accepted.n_disk = g->n_disk;
        n->ev.accepted.n_computed = g->n_prompt - g->n_ram - g->n_disk;
        event_send(en, n);
}

static void send_progress(struct engine *en, struct ereq *rq) {
        struct gen *g = &rq->g;
        uint64_t now = clock_monotonic_usec();
        struct event_node *n;

        if (now - g->t_last_progress < PROGRESS_USEC)
                return;
        g->t_last_progress = now;
        n = event_new(rq->r.handle, ENGINE_PROGRESS, false);
        if (!n)
                return;
        n->ev.progress.total = g->n_prompt - g->n_ram - g->n_disk;
        n->ev.progress.done = seq_n_tokens(rq->conv->seq) - g->n_ram - g->n_disk;
        event_send(en, n);
}

static void fill_piece(
        struct engine *en, struct engine_logprob *out, int32_t token, float logprob) {
        out->token = token;
        out->logprob = logprob;
        out->text_size =
                (uint8_t)MIN(tok_piece(en->tok, token, true, (char *)out->text, sizeof(out->text)),
                        sizeof(out->text));
}

static int fill_logprobs(struct engine *en, struct ereq *rq, struct engine_event *ev, int32_t token,
        const float *logits) {
        size_t top = MIN((size_t)rq->r.n_logprobs, (size_t)en->info.n_vocab);
        _cleanup_(freep) struct sample_logprob *best = NULL;

        ev->delta.has_logprob = true;
        ev->delta.logprob = sample_logprob(logits, en->info.n_vocab, token);
        if (top == 0)
                return 0;
        best = calloc(top, sizeof(*best));
        ev->delta.top = calloc(top, sizeof(*ev->delta.top));
        if (!best || !ev->delta.top)
                return -ERR_NOMEM;
        sample_top_logprobs(en->sampler, logits, en->info.n_vocab, top, best);
        for (size_t i = 0; i < top; i++)
                fill_piece(en, &ev->delta.top[i], best[i].token, best[i].logprob);
        ev->delta.n_top = top;
        return 0;
}

/* Send the first @n bytes of the held text (with @token if there is one). */
static int send_delta(
        struct engine *en, struct ereq *rq, size_t n, const int32_t *token, const float *logits) {
        struct gen *g = &rq->g;
        struct event_node *node;

        if (n == 0 && !token)
                return 0;
        if (n > 0 && buf_append(&g->text, g->held.data, n) < 0)
                return -ERR_NOMEM;
        node = event_new(rq->r.handle, ENGINE_DELTA, false);
        if (!node)
                return -ERR_NOMEM;
        node->ev.delta.text = malloc(n + 1);
        if (!node->ev.delta.text)
                goto fail;
        if (n > 0)
                memcpy(node->ev.delta.text, g->held.data, n);
        node->ev.delta.text[n] = '\0';
        node->ev.delta.text_size = n;
        if (token) {
                node->ev.delta.has_token = true;
                node->ev.delta.token = *token;
                if ((rq->r.want_logprobs || rq->r.n_logprobs > 0) &&
                        fill_logprobs(en, rq, &node->ev, *token, logits) < 0)
                        goto fail;
        }
        buf_consume(&g->held, n);
        event_send(en, node);
        return 0;
fail:
        engine_event_free(&node->ev);
        return -ERR_NOMEM;
}

/* --- stop strings --- */

/* Earliest end-cutting match in the held text; returns its position or SIZE_MAX. */
static size_t find_stop(const struct ereq *rq, const char **ret) {
        const struct buf *h = &rq->g.held;
        size_t best = SIZE_MAX;

        for (size_t i = 0; i < rq->r.n_stops; i++) {
                size_t n = strlen(rq->r.stops[i]);
                const uint8_t *p = h->size ? memmem(h->data, h->size, rq->r.stops[i], n) : NULL;

                if (p && (size_t)(p - h->data) < best) {
                        best = (size_t)(p - h->data);
                        *ret = rq->r.stops[i];
                }
        }
        return best;
}

/* Bytes at the end of the held text that may be the beginning of a stop string. */
static size_t partial_stop(const struct ereq *rq) {
        const struct buf *h = &rq->g.held;
        size_t most = 0;

        for (size_t i = 0; i < rq->r.n_stops; i++) {
                size_t n = strlen(rq->r.stops[i]);

                for (size_t k = MIN(n - 1, h->size); k > most; k--)
                        if (memcmp(h->data + h->size - k, rq->r.stops[i], k) == 0) {
                                most = k;
                                break;
                        }
        }
        return most;
}

/* --- stepping --- */

void generate_restored(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;
        uint32_t kept = seq_n_tokens(c->seq);

        /* The logits of the last token are wanted: it is computed again if all is remembered. */
        if (g->max_new > 0 && kept >= g->n_prompt)
                kept = seq_cut(c->seq, g->n_prompt - 1);
        g->n_disk = MIN(g->n_disk, kept);
        g->n_ram = kept - g->n_disk;
        g->t_restored = clock_monotonic_usec();
        en->count.reused_ram += g->n_ram;
        en->count.reused_disk += g->n_disk;
        if (!is_warm(rq))
                send_accepted(en, rq);
        rq->phase = PHASE_PREFILL;
        en->again = true;
        if (kept == g->n_prompt) {
                g->t_prefilled = g->t_restored;
                generate_finish(en, rq, ENGINE_FINISH_LENGTH);
        }
}

/* The token's text behind the held one. NUL is a character that strings can't have: it becomes
 * U+FFFD. */
static int push_text(struct engine *en, struct gen *g, int32_t token) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        int r = tok_stream_push(&g->stream, en->tok, token, &text);

        for (size_t i = 0; r == 0 && i < text.size; i++)
                r = text.data[i] ? buf_append(&g->held, &text.data[i], 1)
                                 : buf_append_str(&g->held, "\xef\xbf\xbd");
        return r;
}

/* Take one more token from @logits. */
static void generate_token(struct engine *en, struct ereq *rq, const float *logits) {
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;
        size_t n_recent = MIN((size_t)c->n_all, (size_t)g->params.penalty_last_n), cut;
        int32_t token = sample_token(en->sampler, &g->params, logits,
                c->tokens + c->n_all - n_recent, n_recent, c->n_all);
        struct err e;
        int r;

        c->tokens[c->n_all++] = token;
        g->n_generated++;
        if (tok_is_eog(en->tok, token) && !rq->r.ignore_eos) {
                if (send_delta(en, rq, 0, &token, logits) < 0)
                        goto nomem;
                generate_finish(en, rq, ENGINE_FINISH_STOP);
                return;
        }
        r = push_text(en, g, token);
        if (r < 0)
                goto nomem;
        cut = find_stop(rq, &g->stop);
        if (cut != SIZE_MAX)
                g->held.size = cut;
        else
                cut = g->held.size - partial_stop(rq);
        if (send_delta(en, rq, cut, &token, logits) < 0)
                goto nomem;
        if (g->stop)
                generate_finish(en, rq, ENGINE_FINISH_STOP_STRING);
        else if (g->n_generated == g->max_new)
                generate_finish(
                        en, rq, g->context_bound ? ENGINE_FINISH_CONTEXT : ENGINE_FINISH_LENGTH);
        return;
nomem:
        err_set(&e, ERR_NOMEM, "no memory for the reply");
        generate_abort(en, rq, &e);
}

void generate_advance(struct engine *en, struct ereq *rq, const float *logits) {
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;

        if (rq->phase == PHASE_PREFILL) {
                uint32_t end = seq_n_tokens(c->seq), start = end - g->in_batch;

                en->count.tokens_prefilled += g->in_batch;
                if (start < c->n_known)
                        en->count.tokens_recomputed += MIN(end, c->n_known) - start;
                c->n_known = MAX(c->n_known, end);
                if (end < g->n_prompt) {
                        send_progress(en, rq);
                        return;
                }
                g->t_prefilled = clock_monotonic_usec();
                if (g->max_new == 0) {
                        generate_finish(en, rq, ENGINE_FINISH_LENGTH);
                        return;
                }
                rq->phase = PHASE_DECODE;
        } else {
                en->count.tokens_decoded += g->in_batch;
                c->n_known = MAX(c->n_known, seq_n_tokens(c->seq));
        }
        generate_token(en, rq, logits);
}

/* --- the end --- */

void generate_abort(struct engine *en, struct ereq *rq, const struct err *e) {
        residency_restore_abandon(en, rq);
        sched_leave(en, rq);
        verb_fail(en, rq, e);
}

static void warm_run(struct engine *en, struct job *j) {
        struct ereq *rq = container_of(j, struct ereq, job);

        j->r = store_conv_get(en->store, rq->r.uid, rq->conv->id, NULL, &rq->sc, &j->err);
}

static void warm_done(struct engine *en, struct job *j) {
        struct ereq *rq = container_of(j, struct ereq, job);

        if (j->r < 0)
                verb_fail(en, rq, &j->err);
        else
                verb_finish_conv(en, rq);
}

static void commit_run(struct engine *en, struct job *j) {
        struct ereq *rq = container_of(j, struct ereq, job);
        struct gen *g = &rq->g;
        struct conv *c = rq->conv; /* held by this request: tokens and id don't change */
        struct store_turn turns[2];
        uint64_t now = clock_realtime_usec();
        bool text = rq->r.input != ENGINE_INPUT_TOKENS;
        size_t n = 0;

        if (g->has_input_turn)
                turns[n++] = (struct store_turn){.role = g->input_turn.role,
                        .start = g->input_turn.start,
                        .end = g->input_turn.end,
                        .text = text ? rq->r.text : "",
                        .text_size = text ? rq->r.text_size : 0,
                        .created_usec = now};
        if (g->has_reply_turn)
                turns[n++] = (struct store_turn){.role = g->reply_turn.role,
                        .start = g->reply_turn.start,
                        .end = c->n_all,
                        .finish = g->finish,
                        .text = g->text.size ? (const char *)g->text.data : "",
                        .text_size = g->text.size,
                        .created_usec = now};
        j->r = store_append(en->store, c->id, turns, n, c->tokens + g->n_input_start,
                c->n_all - g->n_input_start, &rq->revision, &j->err);
}

static struct event_node *done_event(struct ereq *rq) {
        struct gen *g = &rq->g;
        struct event_node *n = event_new(rq->r.handle, ENGINE_DONE, true);
        uint64_t now = clock_monotonic_usec();

        if (!n)
                return NULL;
        if (g->stop) {
                n->ev.done.stop = strdup(g->stop);
                if (!n->ev.done.stop) {
                        engine_event_free(&n->ev);
                        return NULL;
                }
        }
        n->ev.done.finish = g->finish;
        n->ev.done.revision = rq->revision;
        n->ev.done.seed = g->seed;
        n->ev.done.n_prompt = g->n_prompt;
        n->ev.done.n_generated = g->n_generated;
        n->ev.done.n_ram = g->n_ram;
        n->ev.done.n_disk = g->n_disk;
        n->ev.done.n_computed = g->n_prompt - g->n_ram - g->n_disk;
        n->ev.done.queued_usec = g->t_admitted - rq->t_submitted;
        n->ev.done.restore_usec = g->t_restored - g->t_admitted;
        n->ev.done.prefill_usec = g->t_prefilled - g->t_restored;
        n->ev.done.decode_usec = now - g->t_prefilled;
        return n;
}

static void commit_done(struct engine *en, struct job *j) {
        struct ereq *rq = container_of(j, struct ereq, job);
        struct conv *c = rq->conv;
        struct gen *g = &rq->g;
        struct event_node *n;

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        c->n_tokens = c->n_all;
        c->revision = rq->revision;
        g->reply_turn.end = c->n_all;
        g->reply_turn.finish = g->finish;
        if ((g->has_input_turn && conv_add_turn(c, &g->input_turn, &j->err) < 0) ||
                (g->has_reply_turn && conv_add_turn(c, &g->reply_turn, &j->err) < 0)) {
                /* The register has it; RAM no longer agrees with it: load it anew next time. */
                c->stale = true;
        }
        n = done_event(rq);
        if (!n) {
                err_set(&j->err, ERR_NOMEM, "no memory for the final event; the turn was saved");
                verb_fail(en, rq, &j->err);
                return;
        }
        verb_finish(en, rq, n);
}

void generate_finish(struct engine *en, struct ereq *rq, enum engine_finish finish) {
        struct gen *g = &rq->g;
        struct err e;

        g->finish = finish;
        if (finish != ENGINE_FINISH_STOP_STRING &&
                (tok_stream_finish(&g->stream, &g->held) < 0 ||
                        send_delta(en, rq, g->held.size, NULL, NULL) < 0)) {
                err_set(&e, ERR_NOMEM, "no memory for the reply");
                generate_abort(en, rq, &e);
                return;
        }
        if (g->t_prefilled == 0)
                g->t_prefilled = clock_monotonic_usec();
        sched_leave(en, rq);
        seq_unreserve(rq->conv->seq);
        rq->phase = PHASE_COMMIT;
        rq->job.run = is_warm(rq) ? warm_run : commit_run;
        rq->job.done = is_warm(rq) ? warm_done : commit_done;
        io_submit(en, &rq->job);
}
