/* SPDX-License-Identifier: MIT */
/* One call: what its machine says of it, and where it begins and ends among the marks. */
#include <string.h>

#include "base/err.h"
#include "chat/reply-internal.h"

/* --- what machines say --- */

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

/* --- its beginning and end --- */

void reply_call_leave(struct chat_reply *r) {
        r->skip_spaces = r->at_start = true;
        reply_enter(r, r->in_section ? REPLY_SECTION : REPLY_TEXT);
}

void reply_call_start(struct chat_reply *r) {
        uint32_t token = r->call.token;

        r->call = (struct reply_call){.machine = r->machine, .empty = true};
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
                reply_call_leave(r);
                break;
        case REPLY_MARK_EACH:
                reply_call_start(r);
                break;
        case REPLY_MARK_EACH_END:
                /* The mark that closes a section may follow though none opened it. */
                if (r->calls->section && !r->in_section)
                        reply_enter(r, REPLY_AFTER);
                else
                        reply_call_leave(r);
                break;
        default: /* of no meaning */
                break;
        }
}
