/* SPDX-License-Identifier: MIT */
/*
 * Messages to tokens by the model's own template.
 *
 * A message is rendered behind stand-ins: short messages in place of the history. What the rendering
 * has behind the last stand-in's text is the closing of that message, then the message itself:
 *
 *     <|user|>standinuser<|end|><|assistant|>standinassistant<|end|><|user|>How are you?<|end|>
 *                                                            |      |
 *                              behind an open reply: from here      |
 *                                         behind a closed message: from here
 *
 * The offsets were learned when the template was loaded (learn.c).
 *
 * 1. What precedes the cut depends on the stand-ins alone, so its size is known, and the text of a
 *    message can't move the cut. This is checked in each rendering: a template that breaks it is an
 *    error, never a wrong cut.
 * 2. Behind a reply that ended by itself the history has an end token already: the cut is in front
 *    of the template's end token, which is left out. So is a special token in front of the cut: it
 *    is encoded with what follows, since the following text depends on it (SPM's space, white space
 *    that the token swallows).
 * 3. Stand-ins for an earlier message of the user and a reply serve for all that came before. So a
 *    conversation's tokens follow from its messages and replies, and appending costs the same
 *    however long the conversation is.
 * 4. A message of the user or the system is rendered as the last one: a reply follows it. One of the
 *    assistant is rendered with another stand-in behind it, since templates may write the last one
 *    as a reply that has reasoning, or another end. (A reply itself is sampled, not rendered.)
 * 5. A message that the template refuses in its place is written as in its regular place: a user's
 *    message behind a reply, an assistant's behind a user's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "base/util.h"
#include "chat/chat-internal.h"

static int token_text(const struct tok *tok, int32_t token, char **ret, struct err *e) {
        size_t n = 0;
        const char *text = token >= 0 ? tok_text(tok, token, &n) : "";

        *ret = strndup(text, n);
        return *ret ? 0 : err_set(e, ERR_NOMEM, "out of memory for a chat template");
}

int chat_template_new(
        struct chat_template **ret, struct tok *tok, const char *text, size_t size, struct err *e) {
        _cleanup_(chat_template_freep) struct chat_template *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        t->tok = tok;
        r = token_text(tok, tok_bos(tok), &t->bos, e);
        if (r == 0)
                r = token_text(tok, tok_eos(tok), &t->eos, e);
        if (r == 0)
                r = jinja_parse(&t->jinja, text, size, 0, e);
        if (r == 0)
                r = chat_learn(t, tok, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

struct chat_template *chat_template_free(struct chat_template *t) {
        if (!t)
                return NULL;
        jinja_free(t->jinja);
        for (size_t i = 0; i < CHAT_N_AFTER; i++) {
                for (size_t k = 0; k < CHAT_N_SPOKEN; k++)
                        free(t->piece[i][k].drop);
                tok_ids_deinit(&t->reply[i]);
        }
        for (size_t i = 0; i < CHAT_N_SPOKEN; i++)
                free(t->closing[i].text);
        free(t->system_drop);
        free(t->bos);
        free(t->eos);
        free(t);
        return NULL;
}

static enum chat_after after_of(const struct chat_tail *tail) {
        switch (tail->state) {
        case CHAT_EMPTY:
                return CHAT_AFTER_NOTHING;
        case CHAT_OPEN_SYSTEM:
                return CHAT_AFTER_OPEN_SYSTEM;
        case CHAT_OPEN_REPLY:
        case CHAT_ENDED_REPLY:
                return CHAT_AFTER_REPLY;
        case CHAT_CLOSED:
                break;
        }
        /* Behind raw text: the regular place of a user's message. */
        return tail->role == CHAT_SYSTEM ? CHAT_AFTER_SYSTEM
               : tail->role == CHAT_USER ? CHAT_AFTER_USER
                                         : CHAT_AFTER_REPLY;
}

/* Render, and remember in @out whether it was the charge that refused. */
static int render(const struct chat_template *t, const struct chat_rendering *in,
        struct jinja_out *ret, struct tok_ids *out, struct err *e) {
        int r = chat_render(t, in, ret, e);

        out->refused = r == -ERR_LIMIT; /* a limit of the rendering is -ERR_TOO_LARGE */
        return r;
}

static int differs(struct err *e) {
        return err_set(e, ERR_INVALID,
                "the chat template writes what precedes this message in another way than it did "
                "before");
}

/* What one message is cut out of. */
struct place {
        enum chat_after after;
        enum chat_role role;
        enum chat_state state; /* what the history ended with */
};

/* Where the message begins in the rendering, and how it joins the history. */
static size_t cut_of(
        const struct chat_template *t, const struct place *at, struct chat_join *join) {
        const struct chat_piece *p = &t->piece[at->after][at->role];
        const struct chat_closing *c;

        *join = (struct chat_join){.skip = -1};
        switch (at->state) {
        case CHAT_EMPTY:
                join->bos = join->starts = true;
                return 0;
        case CHAT_OPEN_SYSTEM:
                join->skip = t->opened;
                return t->opened >= 0 ? t->opened_at : p->text;
        case CHAT_OPEN_REPLY:
                return p->behind;
        case CHAT_ENDED_REPLY:
                join->starts = true;
                join->skip = t->end;
                return p->behind + (t->end >= 0 ? t->end_at : 0);
        case CHAT_CLOSED:
                break;
        }
        c = &t->closing[at->after == CHAT_AFTER_SYSTEM ? CHAT_SYSTEM
                        : at->after == CHAT_AFTER_USER ? CHAT_USER
                                                       : CHAT_ASSISTANT];
        join->skip = c->last;
        return p->behind + (c->last >= 0 ? c->last_at : c->size);
}

/* The message rendered at @at; -ERR_INVALID if the template does not write it there. */
static int append_at(const struct chat_template *t, const struct place *at,
        const struct chat_tail *tail, const struct chat_message *m, size_t max, struct tok_ids *out,
        struct err *e) {
        const struct chat_piece *p = &t->piece[at->after][at->role];
        _cleanup_(jinja_out_deinit) struct jinja_out text = JINJA_OUT_NULL;
        _cleanup_(buf_deinit) struct buf joined = {.charge = out->charge};
        struct chat_message messages[CHAT_MAX_STAND_INS + 2];
        struct chat_rendering in = {.messages = messages, .charge = out->charge};
        struct chat_join join;
        size_t cut, n;
        int r = 0;

        if (!p->works)
                return err_set(e, ERR_INVALID, "the chat template does not write a message here");
        if (at->after == CHAT_AFTER_NOTHING)
                in.created_usec = tail->created_usec;
        n = chat_stand_ins_of(at->after, messages);
        messages[n++] = *m;
        if (p->followed)
                messages[n++] = chat_stand_in_next;
        in.n = n;
        if (at->after == CHAT_AFTER_OPEN_SYSTEM && t->joins_system) {
                r = chat_join_system(&joined, &chat_stand_ins[CHAT_SYSTEM], m, &messages[0]);
                in.n = 1;
                out->refused = r == -ERR_LIMIT;
        }
        if (r < 0)
                return err_set(e, (enum err_code) - r, "no memory for a message");
        r = render(t, &in, &text, out, e);
        if (r < 0)
                return r;
        cut = cut_of(t, at, &join);
        if (text.size < p->fixed || text.size - p->fixed < p->drop_size ||
                text.size - p->drop_size < cut || hash64(text.text, p->fixed, 0) != p->hash ||
                memcmp(text.text + text.size - p->drop_size, p->drop, p->drop_size) != 0)
                return differs(e);
        return chat_encode_rendering(
                t->tok, &text, cut, text.size - p->drop_size, &join, max, out, e);
}

/* A system message that begins the first message of the user. */
static int append_open_system(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_message *m, size_t max, struct tok_ids *out, struct err *e) {
        const struct chat_message *user = &chat_stand_ins[CHAT_USER];
        _cleanup_(jinja_out_deinit) struct jinja_out text = JINJA_OUT_NULL;
        _cleanup_(buf_deinit) struct buf joined = {.charge = out->charge};
        const struct chat_join join = {.bos = true, .starts = true, .skip = -1};
        struct chat_message messages[2] = {*m, *user};
        struct chat_rendering in = {.messages = messages,
                .n = 2,
                .created_usec = tail->created_usec,
                .charge = out->charge};
        size_t behind = user->size + t->system_drop_size;
        int r = 0;

        if (t->joins_system) {
                r = chat_join_system(&joined, m, user, &messages[0]);
                in.n = 1;
                out->refused = r == -ERR_LIMIT;
        }
        if (r < 0)
                return err_set(e, (enum err_code) - r, "no memory for a message");
        r = render(t, &in, &text, out, e);
        if (r < 0)
                return r;
        if (text.size < behind ||
                memcmp(text.text + text.size - behind, user->text, user->size) != 0 ||
                memcmp(text.text + text.size - t->system_drop_size, t->system_drop,
                        t->system_drop_size) != 0)
                return differs(e);
        return chat_encode_rendering(t->tok, &text, 0, text.size - behind, &join, max, out, e);
}

static int append_system(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_message *m, size_t max, struct tok_ids *out, struct err *e) {
        const struct place at = {after_of(tail), CHAT_SYSTEM, tail->state};

        if (tail->state == CHAT_EMPTY && t->opens_system)
                return append_open_system(t, tail, m, max, out, e);
        if (tail->state != CHAT_EMPTY && (t->opens_system || !t->piece[at.after][at.role].works))
                return err_set(e, ERR_STATE,
                        "a system message must be the first of a conversation: the model's chat "
                        "template has no place for it here");
        if (!t->piece[at.after][at.role].works)
                return err_set(e, ERR_INVALID, "the model's chat template takes no system message");
        return append_at(t, &at, tail, m, max, out, e);
}

/* Close what the history left open, for a message that is then written in its regular place. */
static int close_tail(const struct chat_template *t, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e) {
        const struct chat_closing *c = &t->closing[CHAT_ASSISTANT];
        struct jinja_span span = {.trusted = true};
        struct jinja_out text = {.text = c->text, .spans = &span, .n_spans = 1};
        struct chat_join join = {.skip = -1};
        size_t from = 0;

        if (tail->state == CHAT_EMPTY) {
                const int32_t bos = tok_bos(t->tok);
                bool wants = bos >= 0 && (tok_add_bos(t->tok) || t->begins_with_bos);

                return wants ? tok_ids_append(out, &bos, 1, e) : 0;
        }
        if ((tail->state != CHAT_OPEN_REPLY && tail->state != CHAT_ENDED_REPLY) || !c->text)
                return 0;
        if (tail->state == CHAT_ENDED_REPLY) {
                join.skip = t->end;
                join.starts = true;
                from = t->end >= 0 ? MIN(t->end_at, c->size) : 0;
        }
        text.size = span.size = c->size;
        return chat_encode_rendering(t->tok, &text, from, c->size, &join, max, out, e);
}

static int append_regular(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_message *m, size_t max, struct tok_ids *out, struct err *e) {
        const struct place at = {
                m->role == CHAT_USER ? CHAT_AFTER_REPLY : CHAT_AFTER_USER, m->role, CHAT_CLOSED};
        size_t n_before = out->n;
        int r = close_tail(t, tail, max, out, e);

        if (r >= 0)
                r = append_at(t, &at, tail, m, max, out, e);
        if (r >= 0 && max > 0 && out->n - n_before > max)
                r = err_set(e, ERR_LIMIT, "the message has more tokens than the limit allows");
        if (r < 0)
                out->n = n_before;
        return r;
}

/* A text that is too long even without the white space at its ends, which templates take off: it is
 * refused before any memory is spent on it. */
static int check_size(
        const struct chat_template *t, const struct chat_message *m, size_t max, struct err *e) {
        const char *text = m->text;
        size_t size = m->size;

        if (max == 0 || tok_fewest(t->tok, size) <= max)
                return 0;
        utf8_trim(&text, &size);
        if (tok_fewest(t->tok, size) <= max)
                return 0;
        return err_set(e, ERR_LIMIT, "the message has more tokens than the limit allows");
}

int chat_template_append(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_message *m, size_t max, struct tok_ids *out, struct err *e) {
        struct place at = {after_of(tail), m->role, tail->state};
        int r = check_size(t, m, max, e);

        if (r < 0)
                return r;
        r = -ERR_INVALID;
        if (m->role == CHAT_SYSTEM)
                return append_system(t, tail, m, max, out, e);
        if (tail->state == CHAT_OPEN_SYSTEM && m->role == CHAT_ASSISTANT) {
                /* The user's message has no other text: close it as one that is still open. */
                at.after = CHAT_AFTER_USER;
                at.state = CHAT_OPEN_REPLY;
        }
        if (t->piece[at.after][at.role].works)
                r = append_at(t, &at, tail, m, max, out, e);
        return r == -ERR_INVALID ? append_regular(t, tail, m, max, out, e) : r;
}

int chat_template_reply(const struct chat_template *t, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e) {
        enum chat_after after = tail->state == CHAT_CLOSED && tail->role != CHAT_RAW
                                        ? after_of(tail)
                                        : CHAT_AFTER_USER;
        const struct tok_ids *ids = &t->reply[after];

        if (max > 0 && ids->n > max)
                return err_set(e, ERR_LIMIT, "the reply's beginning is longer than the limit");
        return tok_ids_append(out, ids->ids, ids->n, e);
}
