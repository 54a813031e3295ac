/* SPDX-License-Identifier: MIT */
/*
 * Replies to parts: tokens to characters, characters to marks, and what is between marks.
 *
 * Everything below works on bytes, one at a time, so how they were cut into tokens can't matter. A
 * byte goes through three stations:
 *
 * 1. Characters. Ill-formed bytes and NUL become U+FFFD, as in the text of a turn. The text of control tokens
 *    is read as well, since marks are mostly control tokens; its bytes print nothing.
 * 2. Marks (settle()). Bytes that are the beginning of a mark wait in `hold`. Each state looks for the
 *    marks that mean something in it. No mark is the beginning of another one of the same state, so
 *    the first that is complete is the one.
 * 3. The state. Text and reasoning give their bytes out, white space once something follows that is no
 *    mark. Calls are read by the machine of their kind (reply-calls.c).
 *
 * Each station holds back a bounded number of bytes: a mark, REPLY_SPACES, REPLY_TRIAL. Longer white
 * space than that belongs to the text, wherever it stands.
 */
#include "chat/reply.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "chat/reply-internal.h"

enum { MAX_AGAIN = 8 };

uint64_t reply_steps(const struct chat_reply *r) {
        return r->n_steps;
}

static void give_bytes(struct chat_reply *r, const struct reply_byte *b, size_t n);

/* The text may begin as a call without a mark. */
static void try_call(struct chat_reply *r, const struct reply_byte *b) {
        size_t n;
        int is;

        r->trial[r->n_trial++] = *b;
        r->n_steps += r->n_trial;
        is = reply_bare(r);
        if (is == 0 && r->n_trial < REPLY_TRIAL)
                return;
        if (is <= 0) {
                reply_give_trial(r);
                return;
        }
        n = r->n_trial;
        r->n_spaces = r->n_trial = 0;
        reply_call_start(r);
        r->call.empty = false;
        r->call.token = r->trial[0].token;
        give_bytes(r, r->trial, n); /* the call goes on behind them: none of them ends it */
}

static void text_byte(struct chat_reply *r, const struct reply_byte *b) {
        bool bare = r->state == REPLY_TEXT && r->calls->bare && r->tools;

        if (b->origin != REPLY_VISIBLE)
                return;
        if (bare && (r->n_trial > 0 || (r->at_start && (b->c == '{' || b->c == '['))))
                try_call(r, b);
        else
                reply_plain_byte(r, b);
}

/* --- marks --- */

static void plain_mark(struct chat_reply *r, enum reply_mark_id id) {
        if (r->state == REPLY_OPENING)
                reply_give_trial(r);
        switch (id) {
        case REPLY_MARK_THINK:
        case REPLY_MARK_THINK_END:
                reply_end_plain(r);
                r->at_start = true;
                reply_enter(r, id == REPLY_MARK_THINK ? REPLY_REASONING : REPLY_TEXT);
                break;
        case REPLY_MARK_IGNORED:
                reply_give_trial(r);
                r->n_spaces = 0;
                r->skip_spaces = true;
                break;
        case REPLY_MARK_CHANNEL:
        case REPLY_MARK_START:
        case REPLY_MARK_CONSTRAIN:
        case REPLY_MARK_MESSAGE:
        case REPLY_MARK_MESSAGE_END:
                reply_channel_mark(r, id);
                break;
        default:
                reply_call_mark(r, id);
        }
}

static void on_mark(struct chat_reply *r, enum reply_mark_id id) {
        if (r->state == REPLY_CALL)
                r->call.machine->mark(r, id);
        else
                plain_mark(r, id);
}

static enum reply_took on_byte(struct chat_reply *r, const struct reply_byte *b) {
        switch (r->state) {
        case REPLY_TEXT:
        case REPLY_REASONING:
                text_byte(r, b);
                return REPLY_TOOK;
        case REPLY_HEADER:
                reply_channel_byte(r, b);
                return REPLY_TOOK;
        case REPLY_OPENING:
                return reply_opening_byte(r, b);
        default:
                return reply_call_byte(r, b);
        }
}

/* How much of @m the held bytes are. */
static size_t agrees(struct chat_reply *r, const struct reply_mark *m) {
        size_t n = 0;

        while (n < r->n_hold && n < m->size && r->hold[n].c == (uint8_t)m->text[n])
                n++;
        r->n_steps += n + 1;
        return n;
}

static const struct reply_mark *find_mark(struct chat_reply *r, bool *ret_waits) {
        const struct reply_marks *marks = r->looked_for;

        *ret_waits = false;
        for (size_t i = 0; i < marks->n; i++) {
                size_t n = agrees(r, &marks->mark[i]);

                if (n == marks->mark[i].size)
                        return &marks->mark[i];
                if (n == r->n_hold)
                        *ret_waits = true;
        }
        return NULL;
}

static void drop_held(struct chat_reply *r, size_t n) {
        r->n_hold -= n;
        memmove(r->hold, r->hold + n, r->n_hold * sizeof(*r->hold));
        r->n_steps += r->n_hold;
}

/* An opening mark of @n bytes: it is text if no object follows. */
static void wait_for_object(struct chat_reply *r, size_t n) {
        reply_give_trial(r);
        memcpy(r->trial, r->hold, n * sizeof(*r->hold));
        r->n_trial = n;
        drop_held(r, n);
        reply_enter(r, REPLY_OPENING);
}

/* Do what the held bytes say, as far as that is known. @end: no more will come. */
static void settle(struct chat_reply *r, bool end) {
        unsigned n_again = 0;

        while (r->n_hold > 0 && r->failed == 0) {
                bool waits;
                const struct reply_mark *m = find_mark(r, &waits);

                r->n_steps++;
                if (!m && waits && !end)
                        return;
                if (m && reply_call_waits(r, m->id)) {
                        wait_for_object(r, m->size);
                        n_again = 0;
                } else if (m) {
                        r->call.token = r->hold[m->size - 1].token;
                        drop_held(r, m->size);
                        on_mark(r, m->id);
                        n_again = 0;
                } else if (on_byte(r, &r->hold[0]) == REPLY_TOOK) {
                        drop_held(r, 1);
                        n_again = 0;
                } else {
                        n_again++;
                        assert(n_again < MAX_AGAIN);
                }
        }
}

/* Bytes behind their marks. */
static void give_bytes(struct chat_reply *r, const struct reply_byte *b, size_t n) {
        for (size_t i = 0; i < n && r->failed == 0; i++)
                for (unsigned k = 0; on_byte(r, &b[i]) == REPLY_AGAIN; k++)
                        assert(k < MAX_AGAIN);
}

/* --- tokens --- */

static bool begins_character(char c) {
        return ((unsigned char)c & 0xC0) != 0x80;
}

static void feed_byte(struct chat_reply *r, char c, enum reply_origin origin) {
        r->hold[r->n_hold++] = (struct reply_byte){(uint8_t)c, (uint8_t)origin, r->held_token};
        settle(r, false);
}

/* The first character may have begun in an earlier token: in held_token. */
static void feed(struct chat_reply *r, const char *text, size_t n, enum reply_origin origin) {
        for (size_t i = 0; i < n && r->failed == 0; i++) {
                if (i > 0 && begins_character(text[i]))
                        r->held_token = r->n_tokens;
                if (text[i] != 0) {
                        feed_byte(r, text[i], origin);
                        continue;
                }
                for (const char *at = REPLY_REPLACEMENT; *at; at++)
                        feed_byte(r, *at, origin);
        }
}

static void feed_piece(struct chat_reply *r, int code) {
        if (code < 0) {
                reply_fail(r, code, "the text of a token");
                return;
        }
        feed(r, (const char *)r->piece.data, r->piece.size, REPLY_VISIBLE);
        if (r->piece.size > 0)
                r->held_token = r->n_tokens;
        r->piece.size = 0;
}

/* A token that prints nothing may still be a mark. */
static void push_silent(struct chat_reply *r, int32_t token) {
        const struct tok *t = r->rules->tok;
        size_t n = 0;
        const char *text = tok_text(t, token, &n);

        if (r->stream.n_held > 0)
                feed_piece(r, tok_stream_finish(&r->stream, &r->piece));
        r->held_token = r->n_tokens;
        feed(r, text, n, tok_is_eog(t, token) ? REPLY_END : REPLY_CONTROL);
}

static void push(struct chat_reply *r, int32_t token) {
        const struct tok *t = r->rules->tok;

        if (token < 0 || (uint32_t)token >= tok_n_vocab(t))
                return;
        if (r->stream.n_held == 0)
                r->held_token = r->n_tokens;
        if (!tok_is_eog(t, token) && tok_piece(t, token, false, NULL, 0) > 0)
                feed_piece(r, tok_stream_push(&r->stream, t, token, &r->piece));
        else
                push_silent(r, token);
        r->n_tokens++;
}

int chat_reply_push(
        struct chat_reply *r, int32_t token, chat_part_fn fn, void *arg, struct err *e) {
        r->fn = fn;
        r->arg = arg;
        r->e = e;
        push(r, token);
        reply_part_flush(r);
        return r->failed;
}

int chat_reply_push_text(struct chat_reply *r, const char *text, size_t n, chat_part_fn fn,
        void *arg, struct err *e) {
        r->fn = fn;
        r->arg = arg;
        r->e = e;
        if (r->stream.n_held > 0)
                feed_piece(r, tok_stream_finish(&r->stream, &r->piece));
        r->held_token = r->n_tokens;
        feed(r, text, n, REPLY_VISIBLE);
        r->n_tokens++;
        reply_part_flush(r);
        return r->failed;
}

bool chat_reply_holds(const struct chat_reply *r) {
        return r->n_hold > 0 || r->n_spaces > 0 || r->n_trial > 0 || r->stream.n_held > 0;
}

int chat_reply_header(struct chat_reply *r, const int32_t *tokens, size_t n, struct err *e) {
        const struct tok *t = r->rules->tok;

        r->muted = true;
        r->e = e;
        for (size_t i = 0; i < n && r->failed == 0; i++)
                push(r, tokens[i]);
        settle(r, true);
        if (r->state != REPLY_REASONING && r->state != REPLY_HEADER)
                reply_enter(r, REPLY_TEXT);
        tok_stream_init(&r->stream, t, n > 0 && tok_is_special(t, tokens[n - 1]), false);
        r->muted = r->open = r->begin_untold = false;
        r->at_start = true;
        r->header_marked = false;
        r->n_spaces = r->n_trial = r->n_out = 0;
        r->n_parts = r->n_tokens = 0;
        return r->failed;
}

bool chat_reply_reasoning(const struct chat_reply *r) {
        return r->state == REPLY_REASONING;
}

int chat_reply_finish(struct chat_reply *r, chat_part_fn fn, void *arg, struct err *e) {
        r->fn = fn;
        r->arg = arg;
        r->e = e;
        if (r->stream.n_held > 0)
                feed_piece(r, tok_stream_finish(&r->stream, &r->piece));
        if (r->state != REPLY_CALL) /* else what is held is of a call that has no end */
                settle(r, true);
        if (r->failed < 0)
                return r->failed;
        if (r->state == REPLY_HEADER)
                reply_channel_finish(r);
        else if (r->state == REPLY_CALL)
                reply_call_finish(r);
        else if (r->state == REPLY_OPENING) /* of a call that is cut off */
                r->n_trial = r->n_spaces = 0;
        reply_give_trial(r);
        reply_give_spaces(r);
        reply_part_end(r, NULL);
        return r->failed;
}

/* --- making --- */

static void make_marks(struct chat_reply *r) {
        const struct reply_thinking *thinking = r->rules->thinking;
        const struct reply_wrap *wrap = r->rules->wrap;

        if (thinking) {
                reply_marks_add(&r->marks[REPLY_TEXT], thinking->open, REPLY_MARK_THINK);
                reply_marks_add(&r->marks[REPLY_AFTER], thinking->open, REPLY_MARK_THINK);
                reply_marks_add(&r->marks[REPLY_REASONING], thinking->close, REPLY_MARK_THINK_END);
        }
        if (wrap) {
                reply_marks_add(&r->marks[REPLY_TEXT], wrap->open, REPLY_MARK_IGNORED);
                reply_marks_add(&r->marks[REPLY_TEXT], wrap->close, REPLY_MARK_IGNORED);
        }
        reply_calls_init(r);
}

int reply_new(struct chat_reply **ret, const struct reply_rules *rules, const char *tools,
        size_t tools_size, struct charge *charge, struct err *e) {
        static const struct reply_calls no_calls = {.name = "none"};
        _cleanup_(chat_reply_freep) struct chat_reply *r = NULL;
        int code = charge ? charge_take(charge, sizeof(*r), "a reader of replies", e) : 0;

        if (code < 0)
                return code;
        r = calloc(1, sizeof(*r));
        if (!r) {
                if (charge)
                        charge_give(charge, sizeof(*r));
                return err_set(e, ERR_NOMEM, "out of memory for a reader of replies");
        }
        r->charge = charge;
        r->rules = rules;
        r->calls = rules->calls ? rules->calls : &no_calls;
        r->piece.charge = r->early.charge = r->value.charge = charge;
        r->early.max = r->value.max = CHAT_REPLY_HELD;
        if (tools) {
                code = reply_tools_new(&r->tools, tools, tools_size, charge, e);
                if (code < 0)
                        return code;
        }
        tok_stream_init(&r->stream, r->rules->tok, false, false);
        make_marks(r);
        r->at_start = true;
        reply_enter(r, REPLY_TEXT);
        *ret = TAKE_PTR(r);
        return 0;
}

struct chat_reply *chat_reply_free(struct chat_reply *r) {
        if (!r)
                return NULL;
        reply_tools_free(r->tools);
        buf_deinit(&r->piece);
        buf_deinit(&r->early);
        buf_deinit(&r->value);
        if (r->charge)
                charge_give(r->charge, sizeof(*r));
        free(r);
        return NULL;
}
