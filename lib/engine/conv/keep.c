/* SPDX-License-Identifier: MIT */
/*
 * Where Rewind, Fork and a Continue that cuts may cut a conversation: at the end of a turn, or at a
 * token inside an assistant's reply or a raw turn.
 *
 * 1. Other turns cannot be cut: their tokens are a template around a text, and half of a template
 *    or half of a message is something that nobody said. The same goes for the tokens that invite a
 *    reply: they belong to the reply's turn, and a cut inside the turn keeps at least all of them.
 * 2. A cut turn has the text of the kept tokens, whole characters only. A cut reply gets finish
 *    CANCELLED, since it is now a reply that was ended early. So it is open (CHAT_OPEN_REPLY): a
 *    Continue without input goes on after its last kept token.
 * 3. A damaged history can be cut only before the damage; turns and tokens are counted as if the
 *    history were whole.
 * 4. Nothing is tokenised again (I1): the kept tokens stay the same, and so does their memory, unless
 *    the place is inside of what the memory leaves out (shift.c).
 */
#include <stdlib.h>
#include <string.h>

#include "engine/conv/conv.h"
#include "tok/tok.h"

void keep_deinit(struct keep *k) {
        buf_deinit(&k->text);
}

int keep_reply_header(
        struct engine *engine, const struct conv *c, const struct conv_turn *t, uint32_t *ret) {
        const struct said said = conv_said(c);

        return said_reply_header(engine, &said, (uint32_t)(t - c->turns), ret);
}

/* The text as generation would have sent it: a NUL, which texts cannot have, becomes U+FFFD. */
static int detokenise(struct engine *engine, const struct conv *c, uint32_t from, uint32_t to,
        struct buf *out, struct err *e) {
        struct transcript t = conv_transcript(c);
        struct tok_stream s;
        int r = 0;

        tok_stream_init(&s, engine->tok,
                from == 0 || tok_is_special(engine->tok, transcript_token(&t, from - 1)), false);
        for (uint32_t i = from; r == 0 && i < to; i++) {
                _cleanup_(buf_deinit) struct buf text = BUF_NULL;

                r = tok_stream_push(&s, engine->tok, transcript_token(&t, i), &text);
                if (r == 0)
                        r = buf_append_text(out, text.data, text.size);
        }
        return r < 0 ? err_set(e, ERR_NOMEM, "no memory for the text of a turn") : 0;
}

static bool can_be_cut(const struct conv_turn *t) {
        return t->role == CHAT_RAW ||
               (t->role == CHAT_ASSISTANT && t->finish != ENGINE_FINISH_NONE);
}

/* Cut inside turn @i. */
static int cut_turn(struct engine *engine, const struct conv *c, uint32_t i, uint32_t pos,
        struct keep *ret, struct err *e) {
        const struct conv_turn *t = &c->turns[i];
        uint32_t header = 0, next = t->end;
        int r = 0;

        if (can_be_cut(t) && t->role == CHAT_ASSISTANT)
                r = keep_reply_header(engine, c, t, &header);
        if (r < 0)
                return err_set(e, ERR_NOMEM, "no memory to find a place in a reply");
        if (header > 0)
                next = t->start + header;
        if (!can_be_cut(t) || pos < t->start + header)
                return err_set(e, ERR_INVALID,
                        "position %u is inside turn %u (%s), which cannot be cut there: the "
                        "nearest places are %u and %u",
                        pos, i, chat_role_name(t->role), t->start, next);
        r = detokenise(engine, c, t->start + header, pos, &ret->text, e);
        if (r < 0)
                return r;
        ret->n_turns = i + 1;
        ret->inside = true;
        ret->last = *t;
        ret->last.end = pos;
        if (t->finish != ENGINE_FINISH_NONE)
                ret->last.finish = ENGINE_FINISH_CANCELLED;
        return 0;
}

static int behind_damage(const struct conv *c, struct err *e) {
        *e = *c->damage;
        return -ERR_CORRUPT;
}

static int keep_position(struct engine *engine, const struct conv *c, uint32_t pos,
        struct keep *ret, struct err *e) {
        uint32_t i = 0, n_tokens = conv_n_transcript(c);

        if (pos > n_tokens + c->n_lost_tokens)
                return err_set(e, ERR_INVALID, "position %u of a conversation with %u tokens", pos,
                        n_tokens + c->n_lost_tokens);
        if (pos > n_tokens)
                return behind_damage(c, e);
        ret->n_tokens = pos;
        while (i < c->n_turns && c->turns[i].end <= pos)
                i++;
        ret->n_turns = i;
        if (i == c->n_turns || c->turns[i].start == pos)
                return 0;
        if (c->foreign_vocab)
                return err_set(e, ERR_STATE,
                        "the conversation's tokens belong to another model's vocabulary: only "
                        "whole turns can be kept");
        return cut_turn(engine, c, i, pos, ret, e);
}

static int keep_turns(
        const struct conv *c, const struct engine_request *r, struct keep *ret, struct err *e) {
        uint32_t all = c->n_turns + c->n_lost_turns, n = all;

        if (r->at_turn != ENGINE_UNSET) {
                if (r->at_turn > all)
                        return err_set(e, ERR_INVALID, "turn %u of %u", r->at_turn, all);
                n = r->at_turn;
        } else if (r->verb == ENGINE_REWIND) {
                if (r->drop_turns > all)
                        return err_set(
                                e, ERR_INVALID, "cannot drop %u turns of %u", r->drop_turns, all);
                n = all - r->drop_turns;
        }
        if (n > c->n_turns)
                return behind_damage(c, e);
        ret->n_turns = n;
        ret->n_tokens = n > 0 ? c->turns[n - 1].end : 0;
        return 0;
}

int keep_resolve(struct engine *engine, const struct conv *c, const struct engine_request *r,
        struct keep *ret, struct err *e) {
        int k;

        if (r->at_turn == ENGINE_UNSET && r->at_position != ENGINE_UNSET)
                k = keep_position(engine, c, r->at_position, ret, e);
        else
                k = keep_turns(c, r, ret, e);
        if (k == 0)
                ret->gap = shift_kept(engine, c, ret);
        return k;
}

const struct store_turn *keep_last(const struct keep *k, struct store_turn *out) {
        if (!k->inside)
                return NULL;
        *out = (struct store_turn){.role = (uint32_t)k->last.role,
                .start = k->last.start,
                .end = k->last.end,
                .finish = (uint32_t)k->last.finish,
                .text = k->text.size ? (const char *)k->text.data : "",
                .text_size = k->text.size,
                .chain = k->chain};
        return out;
}
