/* SPDX-License-Identifier: MIT */
/*
 * Calls as JSON: {"name": ..., "arguments": {...}}, or a list of such objects.
 *
 * The object is read once, from front to back; the bytes of its arguments are given out as they are.
 * Members may stand in any order: arguments in front of the name wait for it. Arguments may be a
 * string that has the object, as OpenAI writes them, and {"function": {...}} may be around name and
 * arguments. Members of no meaning are read over.
 */
#include <string.h>

#include "base/util.h"
#include "chat/reply-internal.h"

enum field {
        FIELD_NONE,
        FIELD_NAME,
        FIELD_ID,
        FIELD_ARGUMENTS,        /* an object */
        FIELD_ARGUMENTS_STRING, /* a string that has one */
        FIELD_FUNCTION
};

static const struct {
        const char *key;
        enum field field;
} fields[] = {
        {"name", FIELD_NAME},
        {"tool_name", FIELD_NAME},
        {"function", FIELD_FUNCTION},
        {"arguments", FIELD_ARGUMENTS},
        {"parameters", FIELD_ARGUMENTS},
        {"id", FIELD_ID},
        {"call_id", FIELD_ID},
        {"tool_call_id", FIELD_ID},
};

static enum field find_field(const struct reply_string *key) {
        if (key->too_long)
                return FIELD_NONE;
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (key->size == strlen(fields[i].key) && strcmp(key->text, fields[i].key) == 0)
                        return fields[i].field;
        return FIELD_NONE;
}

static void start(struct chat_reply *r) {
        reply_json_init(&r->call.json);
        r->call.between = true;
        reply_look_for(r, REPLY_SET_NONE);
}

/* Another object of the list. */
static void start_object(struct chat_reply *r, uint32_t token) {
        struct reply_call *c = &r->call;

        c->token = token;
        c->between = c->begun = c->named = c->has_id = c->has_arguments = c->wrapped = false;
        c->field = FIELD_NONE;
        c->name = c->id = c->key = (struct reply_string){.size = 0};
        c->level = c->json.depth;
        r->early.size = 0;
}

static void begin_arguments(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;

        if (call->has_arguments) {
                reply_call_broken(r, "it has arguments twice");
                return;
        }
        if (c == 'n') { /* null */
                call->field = FIELD_NONE;
                return;
        }
        if (c != '{' && c != '"') {
                reply_call_broken(r, "its arguments are no JSON object");
                return;
        }
        call->has_arguments = true;
        if (call->named)
                reply_call_begin(r);
        call->field = c == '{' ? FIELD_ARGUMENTS : FIELD_ARGUMENTS_STRING;
        if (c == '"')
                reply_json_init(&call->inner);
        else
                reply_call_arguments(r, "{", 1);
}

/* A string or a number. An id behind the arguments comes too late to be told. */
static void begin_id(struct reply_call *call, uint8_t c) {
        if (call->begun || call->has_id || (c != '"' && (c < '0' || c > '9'))) {
                call->field = FIELD_NONE;
                return;
        }
        call->id = (struct reply_string){.size = 0};
        if (c != '"')
                reply_string_add(&call->id, (char)c);
}

/* The value of a member begins with @c. */
static void begin_member(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;

        switch (call->field) {
        case FIELD_FUNCTION:
                if (c == '{' && !call->wrapped) {
                        call->wrapped = true;
                        call->level++;
                        call->field = FIELD_NONE;
                        return;
                }
                call->field = FIELD_NAME;
                __attribute__((fallthrough));
        case FIELD_NAME:
                if (c != '"')
                        reply_call_broken(r, "its name is no string");
                else if (call->named)
                        reply_call_broken(r, "it has two names");
                return;
        case FIELD_ID:
                begin_id(call, c);
                return;
        case FIELD_ARGUMENTS:
                begin_arguments(r, c);
                return;
        default:
                return;
        }
}

static void end_object(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (!call->named) {
                reply_call_broken(r, "it has no name");
                return;
        }
        if (!call->begun)
                reply_call_begin(r);
        if (!call->has_arguments)
                reply_call_arguments(r, "{}", 2);
        reply_part_end(r, NULL);
        call->begun = call->named = false;
        call->between = true;
}

static void end_arguments_string(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (call->inner.state == 0 && call->inner.depth == 0)
                reply_call_arguments(r, "{}", 2); /* an empty string */
        else if (!reply_json_done(&call->inner))
                reply_call_broken(r, "its arguments are no JSON object");
}

static void end_name(struct chat_reply *r) {
        if (reply_call_named(r) && r->call.has_arguments)
                reply_call_begin(r);
}

/* A value ended, or an object: depth is that of what it stood in. */
static void end_value(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (call->json.depth + 1 == call->level) {
                if (call->wrapped) {
                        call->wrapped = false;
                        call->level--;
                        call->field = FIELD_NONE;
                } else
                        end_object(r);
                return;
        }
        if (call->json.depth != call->level)
                return;
        if (call->field == FIELD_NAME)
                end_name(r);
        else if (call->field == FIELD_ID)
                call->has_id = true;
        else if (call->field == FIELD_ARGUMENTS_STRING)
                end_arguments_string(r);
        if (r->state == REPLY_CALL)
                call->field = FIELD_NONE;
}

static void decoded_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;
        bool blank = call->inner.depth == 0 && call->inner.state == 0;
        unsigned flags;

        if (blank && c != '{' && !reply_is_space(c)) {
                reply_call_broken(r, "its arguments are no JSON object");
                return;
        }
        flags = reply_json_byte(&call->inner, c);
        if (flags & REPLY_JSON_ERROR)
                reply_call_broken(r, "its arguments are no JSON object");
        else if (!blank || c == '{')
                reply_call_json_byte(r, &call->inner, c);
}

/* The characters of a string or of a key. */
static void content(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (call->json.depth != call->level)
                return;
        for (size_t i = 0; i < call->json.n_decoded && r->state == REPLY_CALL; i++) {
                char c = call->json.decoded[i];

                if (call->json.key)
                        reply_string_add(&call->key, c);
                else if (call->field == FIELD_NAME)
                        reply_string_add(&call->name, c);
                else if (call->field == FIELD_ID)
                        reply_string_add(&call->id, c);
                else if (call->field == FIELD_ARGUMENTS_STRING)
                        decoded_byte(r, (uint8_t)c);
        }
}

static void find_member(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (r->calls->name_is_key && !call->wrapped && call->json.depth == call->level) {
                call->name = call->key;
                call->field = FIELD_ARGUMENTS;
                if (call->named)
                        reply_call_broken(r, "it has two names");
                else
                        end_name(r);
        } else
                call->field = find_field(&call->key);
}

/* What a byte means in the object: its @flags, and @depth before it. */
static void members(struct chat_reply *r, unsigned flags, unsigned depth, uint8_t c) {
        struct reply_call *call = &r->call;
        bool member = depth == call->level;

        if (flags & REPLY_JSON_KEY && member)
                call->key = (struct reply_string){.size = 0};
        if (flags & REPLY_JSON_CONTENT)
                content(r);
        if (r->state != REPLY_CALL)
                return;
        if (flags & REPLY_JSON_KEY_ENDS && member)
                find_member(r);
        else if (flags & REPLY_JSON_BEGINS && member)
                begin_member(r, c);
        else if (flags & REPLY_JSON_ENDED && member) {
                call->has_id = call->has_id || call->field == FIELD_ID;
                call->field = FIELD_NONE;
        } else if (member && call->field == FIELD_ID && reply_json_in_number(&call->json))
                reply_string_add(&call->id, (char)c);
        if (r->state == REPLY_CALL && flags & REPLY_JSON_ENDS)
                end_value(r);
}

static bool in_arguments(const struct reply_call *c) {
        return c->field == FIELD_ARGUMENTS && c->json.depth > c->level;
}

/* In front of an object: the list, or the object itself. */
static void outside(struct chat_reply *r, unsigned flags, const struct reply_byte *b) {
        if (!(flags & REPLY_JSON_BEGINS))
                return;
        if (b->c == '{')
                start_object(r, b->token);
        else if (r->call.json.depth == 1 && b->c == '[')
                r->call.outer = 1;
        else
                reply_call_broken(r, "it is no JSON object");
}

static enum reply_took byte(struct chat_reply *r, const struct reply_byte *b) {
        struct reply_call *call = &r->call;
        unsigned depth = call->json.depth, flags;
        bool arguments = in_arguments(call);

        if (b->origin != REPLY_VISIBLE && reply_json_in_string(&call->json))
                return REPLY_TOOK;
        if (call->level == 0 && call->json.depth == call->outer && reply_is_name(b->c) &&
                r->calls->bare) {
                call->machine = &reply_loose; /* f(key="value") */
                call->list = call->outer > 0;
                reply_loose.start(r);
                return REPLY_AGAIN;
        }
        flags = reply_json_byte(&call->json, b->c);
        if (flags & REPLY_JSON_ERROR) {
                reply_call_broken(
                        r, arguments ? "its arguments are no JSON object" : "it is no JSON object");
                return REPLY_AGAIN;
        }
        if (depth == call->outer)
                outside(r, flags, b);
        else if (arguments)
                reply_call_json_byte(r, &call->json, b->c);
        if (r->state == REPLY_CALL && call->level > 0 && depth >= call->level)
                members(r, flags, depth, b->c);
        if (r->state == REPLY_CALL && reply_json_done(&call->json))
                reply_call_done(r);
        return REPLY_TOOK;
}

static void mark(struct chat_reply *r, enum reply_mark_id id) {
        (void)r;
        (void)id;
}

const struct reply_machine reply_object = {start, byte, mark};

void reply_call_object(struct chat_reply *r) {
        r->call.machine = &reply_object;
        start(r);
}
