/* SPDX-License-Identifier: MIT */
/*
 * Messages with calls, and results of calls.
 *
 * Results answer a reply, whose calls were sampled: which ones is not known here, and need not be.
 * The results are rendered behind a stand-in reply that has a call of the same id and name for each:
 *
 *     <|user|>standinuser<|end|><|assistant|>{"name": "f"}<|end|><|tool|>18 degrees<|end|>
 *                                                          |
 *                                                  the reply's end
 *
 * 1. Where the reply ends depends on ids and names, so it can't be learned. It is found in a second
 *    rendering, with a stand-in for the text of the first result: the last end-of-generation token
 *    that the template wrote in front of that text. The stand-in's text occurs in no id and no name.
 * 2. The rendering with the results must begin like the second one as far as that place, so the texts
 *    of results can't move it.
 * 3. Behind an ended reply the end token is left out; behind an open reply it is written.
 * 4. A message with calls is followed by a result in its rendering, as it mostly is; it ends where the
 *    result's reply ends by rule 1. So its reasoning is written where a template writes that of replies
 *    which wait for results.
 * 5. A template that writes no end token there: the reply ends where the rendering without results
 *    ends, provided that the other begins with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "chat/chat-internal.h"

bool chat_find_end(const struct chat_template *t, const struct jinja_out *out,
        const struct tok_place *special, size_t n_special, size_t from, size_t to,
        struct chat_end *ret) {
        const struct chat_closing *c = &t->closing[CHAT_KIND_ASSISTANT];

        for (size_t i = n_special; i-- > 0;) {
                const struct tok_place *p = &special[i];
                size_t n;

                if (p->start < from || p->start + p->size > to || !tok_is_eog(t->tok, p->token))
                        continue;
                *ret = (struct chat_end){
                        p->token, p->start, p->start + p->size, p->start + p->size};
                /* What closes other replies, if it is what follows here. */
                n = c->text && t->end >= 0 && t->end_at < c->size ? c->size - t->end_at : 0;
                if (n > p->size && n <= to - p->start &&
                        memcmp(out->text + p->start, c->text + t->end_at, n) == 0)
                        ret->end = p->start + n;
                return true;
        }
        return false;
}

/* chat_find_end() in a rendering for @ids, whose memory is charged. 0, or what charge_take() returns;
 * -ERR_INVALID if there is none. */
static int find_end(const struct chat_template *t, const struct jinja_out *out, size_t from,
        size_t to, struct tok_ids *ids, struct chat_end *ret, struct err *e) {
        _cleanup_(freep) struct tok_place *special = NULL;
        size_t n_special = 0,
               size = tok_encode_trusted_memory(t->tok, out->text, out->size, out->n_spans + 1);
        int r = ids->charge ? charge_take(ids->charge, size, "calls of tools", e) : 0;

        ids->refused = r < 0;
        if (r < 0)
                return r;
        r = chat_find_special(t, out, &special, &n_special, e);
        if (r == 0 && !chat_find_end(t, out, special, n_special, from, to, ret))
                r = chat_differs(e);
        if (ids->charge)
                charge_give(ids->charge, size);
        return r;
}

/* --- a text that does not occur in the message --- */

enum { UNIQUE_SIZE = 40 };

static void hash_text(struct hash64 *h, const char *text) {
        if (text)
                hash64_update(h, text, strlen(text) + 1);
}

/* If it does all the same (a call's arguments may have it in another spelling), it is found twice in
 * the rendering, and the message is refused. */
static void make_unique(const struct chat_message *messages, size_t n, char ret[UNIQUE_SIZE]) {
        struct hash64 h;
        uint64_t v;
        size_t at;

        hash64_init(&h, 0);
        for (size_t i = 0; i < n; i++) {
                const struct chat_message *m = &messages[i];

                hash_text(&h, m->call_id);
                hash_text(&h, m->name);
                if (m->role == CHAT_TOOL)
                        continue;
                if (m->size > 0)
                        hash64_update(&h, m->text, m->size);
                if (m->reasoning_size > 0)
                        hash64_update(&h, m->reasoning, m->reasoning_size);
                for (size_t k = 0; k < m->n_calls; k++) {
                        hash_text(&h, m->calls[k].id);
                        hash_text(&h, m->calls[k].name);
                        if (m->calls[k].arguments_size > 0)
                                hash64_update(
                                        &h, m->calls[k].arguments, m->calls[k].arguments_size);
                }
        }
        at = (size_t)snprintf(ret, UNIQUE_SIZE, "standinresult");
        for (v = hash64_digest(&h); v > 0; v /= 26)
                ret[at++] = (char)('a' + v % 26);
        ret[at] = '\0';
}

/* --- results --- */

struct results {
        const struct chat_template *t;
        const struct chat_input *in;
        struct chat_call *calls;       /* owned; [in->n] */
        struct chat_message *messages; /* owned; [2 + in->n]: stand-ins, and the results */
        struct charge *charge;
        size_t charged;
};
#define RESULTS_NULL ((struct results){0})

static void results_deinit(struct results *x) {
        free(x->calls);
        free(x->messages);
        if (x->charge)
                charge_give(x->charge, x->charged);
}

static int results_init(struct results *x, const struct chat_template *t,
        const struct chat_input *in, struct tok_ids *out, struct err *e) {
        size_t size = (in->n + 2) * (sizeof(*x->calls) + sizeof(*x->messages));
        int r = out->charge ? charge_take(out->charge, size, "results of calls", e) : 0;

        out->refused = r < 0;
        if (r < 0)
                return r;
        *x = (struct results){.t = t, .in = in, .charge = out->charge, .charged = size};
        x->calls = calloc(in->n, sizeof(*x->calls));
        x->messages = calloc(in->n + 2, sizeof(*x->messages));
        if (!x->calls || !x->messages)
                return err_set(e, ERR_NOMEM, "no memory for results of calls");
        for (size_t i = 0; i < in->n; i++)
                x->calls[i] = (struct chat_call){.id = in->messages[i].call_id,
                        .name = chat_result_name(&in->messages[i]),
                        .arguments = "{}",
                        .arguments_size = 2};
        x->messages[0] = chat_stand_ins[CHAT_KIND_USER];
        x->messages[1] = chat_stand_ins[CHAT_KIND_CALLS];
        x->messages[1].calls = x->calls;
        memcpy(x->messages + 2, in->messages, in->n * sizeof(*x->messages));
        return 0;
}

/* Where the reply ends: in @front, the rendering with stand-ins for the results' texts. */
static int find_reply_end(struct results *x, struct jinja_out *front, struct tok_ids *out,
        struct chat_end *ret, struct err *e) {
        const struct chat_message *user = &chat_stand_ins[CHAT_KIND_USER];
        struct chat_rendering all = {
                .messages = x->messages, .n = x->in->n + 2, .charge = out->charge};
        _cleanup_(jinja_out_deinit) struct jinja_out alone = JINJA_OUT_NULL;
        char unique[UNIQUE_SIZE];
        const char *from;
        size_t at;
        int r;

        make_unique(x->in->messages, x->in->n, unique);
        for (size_t i = 0; i < x->in->n; i++) {
                x->messages[2 + i].text = i == 0 ? unique : "standinother";
                x->messages[2 + i].size = strlen(x->messages[2 + i].text);
        }
        r = chat_render_for(x->t, &all, front, out, e);
        if (r < 0)
                return r;
        from = memmem(front->text, front->size, user->text, user->size);
        if (!from || !chat_find_once(front, &x->messages[2], &at))
                return chat_differs(e);
        if (x->t->calls.end)
                return find_end(
                        x->t, front, (size_t)(from - front->text) + user->size, at, out, ret, e);
        all.n = 2;
        r = chat_render_for(x->t, &all, &alone, out, e);
        if (r == 0 && !chat_begins(front->text, at, alone.text, alone.size))
                r = chat_differs(e);
        *ret = (struct chat_end){-1, alone.size, alone.size, alone.size};
        return r;
}

/* @n_calls: of the stand-in reply. */
static int results_append(struct results *x, size_t n_calls, enum chat_state state, size_t max,
        struct tok_ids *out, struct err *e) {
        const struct chat_piece *p = &x->t->piece[CHAT_AFTER_REPLY][CHAT_KIND_RESULTS];
        struct chat_rendering all = {
                .messages = x->messages, .n = x->in->n + 2, .charge = out->charge};
        _cleanup_(jinja_out_deinit) struct jinja_out front = JINJA_OUT_NULL, text = JINJA_OUT_NULL;
        struct chat_join join = {.skip = -1, .starts = state == CHAT_ENDED_REPLY};
        struct chat_end end;
        size_t from;
        bool at_token;
        int r;

        x->messages[1].n_calls = n_calls;
        r = find_reply_end(x, &front, out, &end, e);
        if (r < 0)
                return r;
        memcpy(x->messages + 2, x->in->messages, x->in->n * sizeof(*x->messages));
        r = chat_render_for(x->t, &all, &text, out, e);
        if (r < 0)
                return r;
        if (!chat_begins(text.text, text.size, front.text, end.end) ||
                text.size - end.end < p->drop_size ||
                memcmp(text.text + text.size - p->drop_size, p->drop, p->drop_size) != 0)
                return chat_differs(e);
        at_token = state != CHAT_CLOSED || end.end == end.behind;
        from = at_token ? end.start : end.end;
        if (at_token && state != CHAT_OPEN_REPLY)
                join.skip = end.token;
        return chat_encode_rendering(
                x->t->tok, &text, from, text.size - p->drop_size, &join, max, out, e);
}

int chat_append_results(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, size_t max, struct tok_ids *out, struct err *e) {
        const struct chat_place behind = {CHAT_AFTER_RESULTS, CHAT_KIND_RESULTS, CHAT_CLOSED};
        _cleanup_(results_deinit) struct results x = RESULTS_NULL;
        bool closed = tail->state == CHAT_CLOSED;
        int r;

        if (!t->closing[CHAT_KIND_RESULTS].text)
                return err_set(
                        e, ERR_UNSUPPORTED, "the model's chat template takes no results of calls");
        if (tail->state == CHAT_EMPTY || tail->state == CHAT_OPEN_SYSTEM ||
                (closed && (tail->role == CHAT_SYSTEM || tail->role == CHAT_USER)))
                return err_set(e, ERR_STATE, "results stand behind a reply that calls tools");
        if (closed && tail->role == CHAT_TOOL &&
                t->piece[CHAT_AFTER_RESULTS][CHAT_KIND_RESULTS].works)
                return chat_append_at(t, &behind, tail, in, max, out, e);
        r = results_init(&x, t, in, out, e);
        if (r == 0)
                r = results_append(&x, in->n, tail->state, max, out, e);
        if (r == -ERR_INVALID && in->n > 1) /* some templates take one call in a message */
                r = results_append(&x, 1, tail->state, max, out, e);
        return r;
}

/* --- a message with calls --- */

static int append_calls_at(const struct chat_template *t, const struct chat_place *at,
        const struct chat_tail *tail, const struct chat_message *m, size_t max, struct tok_ids *out,
        struct err *e) {
        const struct chat_piece *p = &t->piece[at->after][CHAT_KIND_CALLS];
        _cleanup_(jinja_out_deinit) struct jinja_out text = JINJA_OUT_NULL, alone = JINJA_OUT_NULL;
        struct chat_message messages[CHAT_MAX_MESSAGES], *result;
        struct chat_rendering all = {.messages = messages, .charge = out->charge};
        struct chat_end end;
        struct chat_join join;
        char unique[UNIQUE_SIZE];
        size_t to;
        int r;

        if (!p->works)
                return err_set(e, ERR_INVALID, "the chat template does not write a message here");
        if (at->after == CHAT_AFTER_NOTHING)
                all.created_usec = tail->created_usec;
        all.n = chat_stand_ins_of(at->after, messages);
        messages[all.n++] = *m;
        make_unique(m, 1, unique);
        result = &messages[all.n];
        *result = (struct chat_message){.role = CHAT_TOOL,
                .text = unique,
                .size = strlen(unique),
                .call_id = m->calls[0].id,
                .name = m->calls[0].name};
        all.n += p->followed;
        r = chat_render_for(t, &all, &text, out, e);
        if (r < 0)
                return r;
        to = text.size;
        if (text.size < p->fixed || hash64(text.text, p->fixed, 0) != p->hash ||
                (p->followed && !chat_find_once(&text, result, &to)))
                return chat_differs(e);
        if (t->calls.end)
                r = find_end(t, &text, p->fixed, to, out, &end, e);
        else if (p->followed) {
                all.n--;
                r = chat_render_for(t, &all, &alone, out, e);
                if (r == 0 && (alone.size < p->fixed ||
                                      !chat_begins(text.text, to, alone.text, alone.size)))
                        r = chat_differs(e);
                end.end = alone.size;
        } else
                end.end = text.size;
        if (r < 0)
                return r;
        return chat_encode_rendering(
                t->tok, &text, chat_cut_of(t, at, &join), end.end, &join, max, out, e);
}

int chat_append_calls(const struct chat_template *t, const struct chat_place *at,
        const struct chat_tail *tail, const struct chat_message *m, size_t max, struct tok_ids *out,
        struct err *e) {
        const struct chat_place regular = {CHAT_AFTER_USER, CHAT_KIND_CALLS, CHAT_CLOSED};
        size_t n_before = out->n;
        int r = -ERR_INVALID;

        if (!t->calls.written)
                return err_set(e, ERR_UNSUPPORTED, "the model's chat template writes no calls");
        if (m->size > 0 && t->calls.without_text)
                return err_set(e, ERR_INVALID,
                        "the model's chat template writes either text or calls in a message, not "
                        "both");
        if (t->piece[at->after][CHAT_KIND_CALLS].works)
                r = append_calls_at(t, at, tail, m, max, out, e);
        if (r != -ERR_INVALID)
                return r;
        r = chat_close_tail(t, tail, max, out, e);
        if (r >= 0)
                r = append_calls_at(t, &regular, tail, m, max, out, e);
        if (r >= 0 && max > 0 && out->n - n_before > max)
                r = err_set(e, ERR_LIMIT, "the message has more tokens than the limit allows");
        if (r < 0)
                out->n = n_before;
        return r;
}
