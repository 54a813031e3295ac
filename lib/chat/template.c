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
 * 5. Definitions of tools are rendered with the message that they are told with, and with no other. The
 *    exception is the user's message behind a system message that these left open: its stand-ins
 *    have stand-ins for definitions. A message that does not differ by them is refused.
 * 6. A message that the template refuses in its place is written as in its regular place: a user's
 *    message behind a reply, an assistant's behind a user's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/charge.h"
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
                for (size_t k = 0; k < CHAT_N_KINDS; k++)
                        free(t->piece[i][k].drop);
                tok_ids_deinit(&t->reply[i]);
        }
        for (size_t i = 0; i < CHAT_N_KINDS; i++)
                free(t->closing[i].text);
        for (size_t i = 0; i < ARRAY_SIZE(t->open); i++)
                free(t->open[i].drop);
        free(t->bos);
        free(t->eos);
        free(t);
        return NULL;
}

/* --- definitions of tools --- */

static int check_tools(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, struct charge *charge, struct err *e) {
        enum chat_kind kind = chat_kind_of(&in->messages[0]);

        if (t->tools == CHAT_TOOLS_NOWHERE)
                return chat_tools_elsewhere(t, e);
        if (kind != CHAT_KIND_SYSTEM && kind != CHAT_KIND_USER)
                return err_set(e, ERR_STATE,
                        "tools are told with a message of the system or the user, not with one of "
                        "role %s",
                        chat_role_name(in->messages[0].role));
        if (tail->state == CHAT_EMPTY && !t->tools_with[kind])
                return chat_tools_elsewhere(t, e);
        return chat_definitions_check(in->tools, in->tools_size, charge, e);
}

/* --- messages --- */

/* A system message that begins the first message of the user. */
static int append_open_system(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, size_t max, struct tok_ids *out, struct err *e) {
        const struct chat_message *user = &chat_stand_ins[CHAT_KIND_USER];
        const struct chat_open *o = &t->open[in->tools != NULL];
        _cleanup_(jinja_out_deinit) struct jinja_out text = JINJA_OUT_NULL;
        _cleanup_(buf_deinit) struct buf joined = {.charge = out->charge};
        const struct chat_join join = {.bos = true, .starts = true, .skip = -1};
        struct chat_message messages[2] = {in->messages[0], *user};
        struct chat_rendering all = {.messages = messages,
                .n = 2,
                .tools = in->tools,
                .tools_size = in->tools_size,
                .created_usec = tail->created_usec,
                .charge = out->charge};
        size_t behind = user->size + o->drop_size;
        int r = 0;

        if (t->joins_system) {
                r = chat_join_system(&joined, &in->messages[0], user, &messages[0]);
                all.n = 1;
                out->refused = r == -ERR_LIMIT;
        }
        if (r < 0)
                return err_set(e, (enum err_code) - r, "no memory for a message");
        r = chat_render_for(t, &all, &text, out, e);
        if (r == 0 && in->tools)
                r = chat_check_told(t, &all, &text, out, e);
        if (r < 0)
                return r;
        if (text.size < behind ||
                memcmp(text.text + text.size - behind, user->text, user->size) != 0 ||
                memcmp(text.text + text.size - o->drop_size, o->drop, o->drop_size) != 0)
                return chat_differs(e);
        return chat_encode_rendering(t->tok, &text, 0, text.size - behind, &join, max, out, e);
}

static int append_system(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, size_t max, struct tok_ids *out, struct err *e) {
        const struct chat_place at = {chat_after_of(t, tail), CHAT_KIND_SYSTEM, tail->state};

        if (tail->state == CHAT_EMPTY && t->open[in->tools != NULL].opens)
                return append_open_system(t, tail, in, max, out, e);
        if (tail->state != CHAT_EMPTY && (t->open[0].opens || !t->piece[at.after][at.kind].works))
                return err_set(e, ERR_STATE,
                        "a system message must be the first of a conversation: the model's chat "
                        "template has no place for it here");
        if (!t->piece[at.after][at.kind].works)
                return err_set(e, ERR_INVALID, "the model's chat template takes no system message");
        return chat_append_at(t, &at, tail, in, max, out, e);
}

static int append_regular(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, size_t max, struct tok_ids *out, struct err *e) {
        enum chat_kind kind = chat_kind_of(&in->messages[0]);
        const struct chat_place at = {
                kind == CHAT_KIND_USER ? CHAT_AFTER_REPLY : CHAT_AFTER_USER, kind, CHAT_CLOSED};
        size_t n_before = out->n;
        int r = chat_close_tail(t, tail, max, out, e);

        if (r >= 0)
                r = chat_append_at(t, &at, tail, in, max, out, e);
        if (r >= 0 && max > 0 && out->n - n_before > max)
                r = err_set(e, ERR_LIMIT, "the message has more tokens than the limit allows");
        if (r < 0)
                out->n = n_before;
        return r;
}

/* Texts that are too long even without the white space at their ends, which templates take off: they
 * are refused before any memory is spent on them. */
static int check_size(
        const struct chat_template *t, const struct chat_input *in, size_t max, struct err *e) {
        size_t fewest = 0;

        if (max == 0)
                return 0;
        for (size_t i = 0; i < in->n && fewest <= max; i++) {
                const char *text = in->messages[i].text;
                size_t size = in->messages[i].size;

                if (in->messages[i].n_calls > 0)
                        continue; /* the text may be left out */
                if (tok_fewest(t->tok, size) > max)
                        utf8_trim(&text, &size);
                fewest += tok_fewest(t->tok, size);
        }
        if (fewest <= max)
                return 0;
        return err_set(e, ERR_LIMIT, "the message has more tokens than the limit allows");
}

int chat_template_append(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, size_t max, struct tok_ids *out, struct err *e) {
        struct chat_place at = {
                chat_after_of(t, tail), chat_kind_of(&in->messages[0]), tail->state};
        int r = check_size(t, in, max, e);

        if (r == 0 && in->tools) {
                r = check_tools(t, tail, in, out->charge, e);
                out->refused = r == -ERR_LIMIT;
        }
        if (r < 0)
                return r;
        if (at.kind == CHAT_KIND_SYSTEM)
                return append_system(t, tail, in, max, out, e);
        if (at.kind == CHAT_KIND_RESULTS)
                return chat_append_results(t, tail, in, max, out, e);
        if (tail->state == CHAT_OPEN_SYSTEM && at.kind != CHAT_KIND_USER) {
                /* The user's message has no other text: close it as one that is still open. */
                at.after = CHAT_AFTER_USER;
                at.state = CHAT_OPEN_REPLY;
        }
        if (at.kind == CHAT_KIND_CALLS)
                return chat_append_calls(t, &at, tail, &in->messages[0], max, out, e);
        r = -ERR_INVALID;
        if (t->piece[at.after][at.kind].works)
                r = chat_append_at(t, &at, tail, in, max, out, e);
        return r == -ERR_INVALID ? append_regular(t, tail, in, max, out, e) : r;
}

int chat_template_reply(const struct chat_template *t, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e) {
        enum chat_after after = tail->state == CHAT_CLOSED && tail->role != CHAT_RAW
                                        ? chat_after_of(t, tail)
                                        : CHAT_AFTER_USER;
        const struct tok_ids *ids = &t->reply[after];

        if (max > 0 && ids->n > max)
                return err_set(e, ERR_LIMIT, "the reply's beginning is longer than the limit");
        return tok_ids_append(out, ids->ids, ids->n, e);
}
