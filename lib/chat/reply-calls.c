/* SPDX-License-Identifier: MIT */
/*
 * Where calls begin and end.
 *
 *   text --section--> SECTION --each--> CALL --the machine--> AFTER --each_end--> SECTION or text
 *   text --each-----------------------> CALL --it can't-----> BROKEN --a mark---> as that mark says
 *   text --each--> OPENING --an object--> CALL
 *                          --else--> text, the mark too
 *
 * OPENING is for rows whose calls are objects: replies that talk about the mark lose no text.
 * Rows leave out what their models do not write. The machine of the row's kind decides when a call is
 * over; a closing mark that is missing is not waited for: text behind a whole call is text again.
 */
#include <string.h>

#include "base/err.h"
#include "chat/reply-internal.h"

static const struct reply_machine *const machines[REPLY_N_KINDS] = {
        [REPLY_KIND_OBJECT] = &reply_object,
        [REPLY_KIND_NAMED] = &reply_named,
        [REPLY_KIND_TAGS] = &reply_tags,
        [REPLY_KIND_PYTHON] = &reply_loose,
        [REPLY_KIND_BRACES] = &reply_loose,
        [REPLY_KIND_CHANNELS] = &reply_channel_call,
};

static void add_same(
        struct reply_marks *m, const char *const text[REPLY_MAX_SAME], enum reply_mark_id id) {
        for (size_t i = 0; i < REPLY_MAX_SAME; i++)
                reply_marks_add(m, text[i], id);
}

static void add_opening(struct reply_marks *m, const struct reply_calls *c) {
        reply_marks_add(m, c->section, REPLY_MARK_SECTION);
        add_same(m, c->each, REPLY_MARK_EACH);
}

static void add_closing(struct reply_marks *m, const struct reply_calls *c) {
        reply_marks_add(m, c->section_end, REPLY_MARK_SECTION_END);
        reply_marks_add(m, c->each_end, REPLY_MARK_EACH_END);
}

void reply_calls_init(struct chat_reply *r) {
        const struct reply_calls *c = r->calls;

        r->machine = machines[c->kind];
        if (c->kind == REPLY_KIND_CHANNELS)
                reply_channel_marks(r);
        add_opening(&r->marks[REPLY_TEXT], c);
        r->marks[REPLY_OPENING] = r->marks[REPLY_TEXT];
        if (c->ends_reasoning)
                add_opening(&r->marks[REPLY_REASONING], c);
        for (enum reply_state s = REPLY_SECTION; s <= REPLY_BROKEN; s++) {
                add_opening(&r->marks[s], c);
                add_closing(&r->marks[s], c);
        }
        add_same(&r->marks[REPLY_AFTER], c->ignored, REPLY_MARK_IGNORED);
}

bool reply_call_waits(const struct chat_reply *r, enum reply_mark_id id) {
        return id == REPLY_MARK_EACH && r->calls->kind == REPLY_KIND_OBJECT &&
               (r->state == REPLY_TEXT || r->state == REPLY_OPENING);
}

enum reply_took reply_opening_byte(struct chat_reply *r, const struct reply_byte *b) {
        bool python = r->calls->bare && reply_is_name(b->c);

        if (b->origin == REPLY_END)
                return REPLY_TOOK;
        if (reply_is_space(b->c) && r->n_trial < REPLY_TRIAL) {
                r->trial[r->n_trial++] = *b;
                return REPLY_TOOK;
        }
        if (b->origin != REPLY_VISIBLE || (b->c != '{' && b->c != '[' && !python)) {
                reply_give_trial(r);
                return REPLY_AGAIN;
        }
        r->n_trial = 0;
        reply_end_plain(r);
        reply_call_start(r);
        return REPLY_AGAIN;
}

/* Behind a call: the next one of several between the same marks, or text. */
static enum reply_took after_byte(struct chat_reply *r, const struct reply_byte *b) {
        const struct reply_calls *c = r->calls;
        bool objects = c->kind == REPLY_KIND_OBJECT && (c->each_end || c->bare);

        if (b->origin != REPLY_VISIBLE || reply_is_space(b->c) || r->in_section)
                return REPLY_TOOK;
        if (objects && (b->c == ',' || b->c == ';'))
                return REPLY_TOOK;
        if (objects && b->c == '{' && !c->bare)
                reply_call_start(r);
        else
                reply_call_leave(r);
        return REPLY_AGAIN;
}

static enum reply_took section_byte(struct chat_reply *r, const struct reply_byte *b) {
        if (b->origin != REPLY_VISIBLE || reply_is_space(b->c))
                return REPLY_TOOK;
        reply_call_start(r);
        if (b->c == '{' || b->c == '[') {
                reply_call_object(r);
                return REPLY_AGAIN;
        }
        r->call.token = b->token;
        reply_call_broken(r, "it begins without its mark");
        return REPLY_AGAIN;
}

static enum reply_took call_byte(struct chat_reply *r, const struct reply_byte *b) {
        struct reply_call *call = &r->call;

        if (b->origin == REPLY_END || (call->empty && reply_is_space(b->c)))
                return REPLY_TOOK;
        if (call->empty)
                call->token = b->token;
        call->empty = false;
        return call->machine->byte(r, b);
}

enum reply_took reply_call_byte(struct chat_reply *r, const struct reply_byte *b) {
        switch (r->state) {
        case REPLY_CALL:
                return call_byte(r, b);
        case REPLY_AFTER:
                return after_byte(r, b);
        case REPLY_SECTION:
                return section_byte(r, b);
        default:
                return REPLY_TOOK;
        }
}

void reply_call_finish(struct chat_reply *r) {
        if (r->call.begun || (!r->call.empty && !r->call.between))
                reply_call_broken(r, "the reply ended before the call did");
}
