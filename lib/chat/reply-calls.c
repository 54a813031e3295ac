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

void reply_calls_marks(struct chat_reply *r) {
        const struct reply_calls *c = r->calls;

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

/* --- states --- */

static void leave(struct chat_reply *r) {
        r->skip_spaces = r->at_start = true;
        reply_enter(r, r->in_section ? REPLY_SECTION : REPLY_TEXT);
}

void reply_call_start(struct chat_reply *r) {
        uint32_t token = r->call.token;

        r->call = (struct reply_call){.machine = machines[r->calls->kind], .empty = true};
        r->call.token = token;
        r->early.size = r->value.size = 0;
        reply_enter(r, REPLY_CALL);
        r->call.machine->start(r);
}

void reply_call_mark(struct chat_reply *r, enum reply_mark_id id) {
        if (r->state == REPLY_TEXT || r->state == REPLY_REASONING)
                reply_end_plain(r);
        switch (id) {
        case REPLY_MARK_SECTION:
                r->in_section = true;
                reply_enter(r, REPLY_SECTION);
                break;
        case REPLY_MARK_SECTION_END:
                r->in_section = false;
                leave(r);
                break;
        case REPLY_MARK_EACH:
                reply_call_start(r);
                break;
        case REPLY_MARK_EACH_END:
                /* The mark that closes a section may follow though none opened it. */
                if (r->calls->section && !r->in_section)
                        reply_enter(r, REPLY_AFTER);
                else
                        leave(r);
                break;
        default: /* of no meaning */
                break;
        }
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
                leave(r);
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

/* --- what machines say --- */

void reply_call_object(struct chat_reply *r) {
        r->call.machine = &reply_object;
        reply_object.start(r);
}

bool reply_call_named(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (call->name.too_long)
                reply_call_broken(r, "its name is too long");
        else if (call->name.size == 0)
                reply_call_broken(r, "its name is empty");
        else
                call->named = true;
        return call->named;
}

void reply_call_begin(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (call->id.too_long || call->id.size == 0)
                call->has_id = false;
        reply_part_begin(r, CHAT_PART_CALL, call->token);
        call->begun = true;
        for (size_t i = 0; i < r->early.size; i++)
                reply_part_byte(r, (char)r->early.data[i]);
        r->early.size = 0;
}

void reply_call_arguments(struct chat_reply *r, const char *text, size_t n) {
        int code;

        if (r->call.begun) {
                for (size_t i = 0; i < n; i++)
                        reply_part_byte(r, text[i]);
                return;
        }
        code = buf_append(&r->early, text, n);
        if (code == -ERR_LIMIT && r->early.size + n > r->early.max)
                reply_call_broken(r, "too many bytes of arguments stand in front of its name");
        else if (code < 0)
                reply_fail(r, code, "the arguments of a call");
}

void reply_call_string_byte(struct chat_reply *r, uint8_t c) {
        static const char hex[] = "0123456789abcdef";
        char text[6] = {'\\', 'u', '0', '0'};

        if (c >= 0x20 && c != '"' && c != '\\') {
                reply_call_arguments(r, (const char *)&c, 1);
                return;
        }
        text[1] = c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : c < 0x20 ? 'u' : (char)c;
        text[4] = hex[c >> 4];
        text[5] = hex[c & 15];
        reply_call_arguments(r, text, text[1] == 'u' ? 6 : 2);
}

void reply_call_json_byte(struct chat_reply *r, const struct reply_json *j, uint8_t c) {
        if (c < 0x20 && reply_json_in_string(j))
                reply_call_string_byte(r, c);
        else
                reply_call_arguments(r, (const char *)&c, 1);
}

enum reply_took reply_call_body_byte(struct chat_reply *r, const struct reply_byte *b) {
        struct reply_json *j = &r->call.json;

        if (b->origin != REPLY_VISIBLE && reply_json_in_string(j))
                return REPLY_TOOK;
        if ((j->depth == 0 && b->c != '{') || reply_json_byte(j, b->c) & REPLY_JSON_ERROR) {
                reply_call_broken(r, "its arguments are no JSON object");
                return REPLY_AGAIN;
        }
        reply_call_json_byte(r, j, b->c);
        if (reply_json_done(j))
                reply_call_done(r);
        return REPLY_TOOK;
}

void reply_call_done(struct chat_reply *r) {
        reply_part_end(r, NULL);
        r->early.size = r->value.size = 0;
        reply_enter(r, REPLY_AFTER);
}

void reply_call_broken(struct chat_reply *r, const char *why) {
        struct reply_call *call = &r->call;

        if (r->state == REPLY_BROKEN)
                return;
        r->early.size = r->value.size = 0;
        if (!call->begun) {
                /* A name that was not read to its end is none. */
                if (!call->named)
                        call->name = call->id = (struct reply_string){.size = 0};
                reply_call_begin(r);
        }
        reply_part_end(r, why);
        reply_enter(r, REPLY_BROKEN);
}

void reply_call_finish(struct chat_reply *r) {
        if (r->call.begun || (!r->call.empty && !r->call.between))
                reply_call_broken(r, "the reply ended before the call did");
}
