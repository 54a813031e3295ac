/* SPDX-License-Identifier: MIT */
/* The lowest floor of reading a reply: its state, and text and reasoning. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "chat/reply-internal.h"

void reply_fail(struct chat_reply *r, int code, const char *what) {
        if (r->failed < 0)
                return;
        r->failed = code;
        err_set(r->e, (enum err_code) - code, "no memory for %s", what);
}

/* --- strings of bounded length --- */

void reply_string_add(struct reply_string *s, char c) {
        if (c == 0) { /* which strings can't have */
                for (const char *at = REPLY_REPLACEMENT; *at; at++)
                        reply_string_add(s, *at);
                return;
        }
        if (s->size == sizeof(s->text) - 1) {
                s->too_long = true;
                return;
        }
        s->text[s->size++] = c;
        s->text[s->size] = 0;
}

void reply_string_trim(struct reply_string *s) {
        size_t n = 0;

        while (n < s->size && reply_is_space((uint8_t)s->text[n]))
                n++;
        s->size -= n;
        memmove(s->text, s->text + n, s->size);
        while (s->size > 0 && reply_is_space((uint8_t)s->text[s->size - 1]))
                s->size--;
        s->text[s->size] = 0;
}

/* --- states and their marks --- */

void reply_marks_add(struct reply_marks *m, const char *text, enum reply_mark_id id) {
        if (!text)
                return;
        assert(m->n < REPLY_MAX_MARKS && strlen(text) < REPLY_HOLD);
        m->mark[m->n++] = (struct reply_mark){text, strlen(text), id};
}

void reply_enter(struct chat_reply *r, enum reply_state state) {
        r->state = state;
        r->looked_for = &r->marks[state];
}

void reply_look_for(struct chat_reply *r, enum reply_set set) {
        r->looked_for = &r->sets[set];
}

/* --- text and reasoning --- */

static void give_byte(struct chat_reply *r, const struct reply_byte *b) {
        if (!r->open)
                reply_part_begin(r,
                        r->state == REPLY_REASONING ? CHAT_PART_REASONING : CHAT_PART_TEXT,
                        b->token);
        reply_part_byte(r, (char)b->c);
}

void reply_give_spaces(struct chat_reply *r) {
        for (size_t i = 0; i < r->n_spaces; i++)
                give_byte(r, &r->space[i]);
        r->n_spaces = 0;
}

void reply_plain_byte(struct chat_reply *r, const struct reply_byte *b) {
        if (reply_is_space(b->c)) {
                if (r->skip_spaces)
                        return;
                if (r->n_spaces == REPLY_SPACES)
                        reply_give_spaces(r);
                r->space[r->n_spaces++] = *b;
                return;
        }
        reply_give_spaces(r);
        r->skip_spaces = r->at_start = false;
        give_byte(r, b);
}

void reply_give_trial(struct chat_reply *r) {
        if (r->state == REPLY_OPENING)
                reply_enter(r, REPLY_TEXT);
        for (size_t i = 0; i < r->n_trial; i++)
                if (r->trial[i].origin == REPLY_VISIBLE)
                        reply_plain_byte(r, &r->trial[i]);
        r->n_trial = 0;
}

void reply_end_plain(struct chat_reply *r) {
        reply_give_trial(r);
        r->n_spaces = 0;
        reply_part_end(r, NULL);
        r->skip_spaces = true;
}
