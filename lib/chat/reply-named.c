/* SPDX-License-Identifier: MIT */
/*
 * Calls as a name and the arguments as JSON behind it: f[ARGS]{...}. Between both there may be a mark,
 * an id with a mark of its own, or a line of Markdown that opens a block of JSON. Where the row says so
 * the name stands within an id ("functions.f:0").
 */
#include <string.h>

#include "chat/reply-internal.h"

enum step { NAME, NAME_LINE /* it ends with the line */, ID, BEFORE_ARGUMENTS, ARGUMENTS };

static void make_sets(struct chat_reply *r) {
        const struct reply_calls *c = r->calls;
        struct reply_marks *sets = r->sets;

        reply_marks_add(&sets[REPLY_SET_NAME], c->before_arguments, REPLY_MARK_ARGUMENTS);
        reply_marks_add(&sets[REPLY_SET_ID], c->before_arguments, REPLY_MARK_ARGUMENTS);
        reply_marks_add(&sets[REPLY_SET_NAME], c->before_id, REPLY_MARK_ID);
        reply_marks_add(&sets[REPLY_SET_BETWEEN], c->each_end, REPLY_MARK_EACH_END);
        reply_marks_add(&sets[REPLY_SET_BETWEEN], c->section_end, REPLY_MARK_SECTION_END);
}

static void start(struct chat_reply *r) {
        r->call.step = NAME;
        if (!r->has_sets)
                make_sets(r);
        r->has_sets = true;
        reply_look_for(r, REPLY_SET_NAME);
}

/* The name out of "functions.f:0", which is the id. */
static void take_name_from_id(struct reply_call *call, const char *prefix) {
        size_t n = strlen(prefix);
        char *colon;

        call->id = call->name;
        call->has_id = true;
        if (strncmp(call->name.text, prefix, n) == 0) {
                call->name.size -= n;
                memmove(call->name.text, call->name.text + n, call->name.size + 1);
        }
        colon = strrchr(call->name.text, ':');
        if (colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1)) {
                *colon = 0;
                call->name.size = (size_t)(colon - call->name.text);
        }
}

static void before_arguments(struct chat_reply *r) {
        reply_call_begin(r);
        r->call.step = BEFORE_ARGUMENTS;
        reply_look_for(r, REPLY_SET_BETWEEN);
}

static bool end_name(struct chat_reply *r) {
        reply_string_trim(&r->call.name);
        if (r->calls->id_prefix)
                take_name_from_id(&r->call, r->calls->id_prefix);
        return reply_call_named(r);
}

static enum reply_took name_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;

        if (call->name.size == 0 && call->step == NAME && (c == '{' || c == '[')) {
                reply_call_object(r);
                return REPLY_AGAIN;
        }
        if (c == '{' || (c == '\n' && call->step == NAME_LINE && call->name.size > 0)) {
                if (end_name(r))
                        before_arguments(r);
                return c == '{' ? REPLY_AGAIN : REPLY_TOOK;
        }
        if (call->name.size > 0 || !reply_is_space(c))
                reply_string_add(&call->name, (char)c);
        if (call->name.too_long)
                reply_call_broken(r, "its name is too long");
        return REPLY_TOOK;
}

static enum reply_took before_arguments_byte(struct chat_reply *r, uint8_t c) {
        bool markdown = r->calls->type && c && strchr("`json", c);

        if (c == '{') {
                reply_json_init(&r->call.json);
                r->call.step = ARGUMENTS;
                reply_look_for(r, REPLY_SET_NONE);
                return REPLY_AGAIN;
        }
        if (markdown || reply_is_space(c))
                return REPLY_TOOK;
        reply_call_broken(r, "its arguments are no JSON object");
        return REPLY_AGAIN;
}

static enum reply_took byte(struct chat_reply *r, const struct reply_byte *b) {
        struct reply_call *call = &r->call;

        if (call->step == ARGUMENTS)
                return reply_call_body_byte(r, b);
        if (b->origin != REPLY_VISIBLE) {
                reply_call_broken(r, "it has a control token in its name");
                return REPLY_AGAIN;
        }
        if (call->step == BEFORE_ARGUMENTS)
                return before_arguments_byte(r, b->c);
        if (call->step == ID) {
                reply_string_add(&call->id, (char)b->c);
                return REPLY_TOOK;
        }
        return name_byte(r, b->c);
}

static void mark(struct chat_reply *r, enum reply_mark_id id) {
        struct reply_call *call = &r->call;

        switch (id) {
        case REPLY_MARK_ARGUMENTS:
                reply_string_trim(call->step == ID ? &call->id : &call->name);
                if (call->step == ID)
                        before_arguments(r);
                else if (r->calls->type && strcmp(call->name.text, r->calls->type) == 0) {
                        call->name = (struct reply_string){.size = 0};
                        call->step = NAME_LINE;
                } else if (end_name(r))
                        before_arguments(r);
                break;
        case REPLY_MARK_ID:
                reply_string_trim(&call->name);
                if (!end_name(r))
                        break;
                call->has_id = true;
                call->step = ID;
                reply_look_for(r, REPLY_SET_ID);
                break;
        default: /* no arguments */
                reply_call_arguments(r, "{}", 2);
                reply_call_done(r);
                reply_call_mark(r, id);
        }
}

const struct reply_machine reply_named = {start, byte, mark};
