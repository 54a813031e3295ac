/* SPDX-License-Identifier: MIT */
/*
 * Calls with parameters between tags: <function=f><parameter=key>value</parameter></function>.
 *
 * Values are written as text, and the tag mostly does not say of which type. It is
 *
 * 1. a string if the definitions say so, or the tag;
 * 2. else what it is as JSON, if it is JSON and no string (True, False and None, as Python writes them,
 *    where the definitions have another type than string);
 * 3. else a string.
 *
 * A value waits in `value` while it may be JSON, and is given out as soon as it is known to be a
 * string. A value that has its closing tag as text ends there: no row has a way to write it.
 */
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "chat/reply-internal.h"

enum step { NAME, BETWEEN, KEY, BEFORE_VALUE, VALUE };
enum value { FIRST /* nothing of it was read */, WAITING, STRING };

static void make_sets(struct chat_reply *r) {
        const struct reply_calls *c = r->calls;
        struct reply_marks *sets = r->sets;

        reply_marks_add(&sets[REPLY_SET_NAME], c->name_end, REPLY_MARK_NAME_END);
        if (!c->name_end) {
                reply_marks_add(&sets[REPLY_SET_NAME], c->key, REPLY_MARK_KEY);
                reply_marks_add(&sets[REPLY_SET_NAME], c->each_end, REPLY_MARK_EACH_END);
        }
        reply_marks_add(&sets[REPLY_SET_BETWEEN], c->key, REPLY_MARK_KEY);
        reply_marks_add(&sets[REPLY_SET_BETWEEN], c->each_end, REPLY_MARK_EACH_END);
        reply_marks_add(&sets[REPLY_SET_BETWEEN], c->section_end, REPLY_MARK_SECTION_END);
        reply_marks_add(&sets[REPLY_SET_KEY], c->key_end, REPLY_MARK_KEY_END);
        reply_marks_add(&sets[REPLY_SET_KEY], c->key_end_text, REPLY_MARK_KEY_END_TEXT);
        reply_marks_add(&sets[REPLY_SET_VALUE_BEGINS], c->value, REPLY_MARK_VALUE);
        reply_marks_add(&sets[REPLY_SET_VALUE], c->value_end, REPLY_MARK_VALUE_END);
}

static void start(struct chat_reply *r) {
        if (!r->has_sets)
                make_sets(r);
        r->has_sets = true;
        r->call.step = NAME;
        reply_look_for(r, REPLY_SET_NAME);
}

static void between(struct chat_reply *r) {
        r->call.step = BETWEEN;
        reply_look_for(r, REPLY_SET_BETWEEN);
}

static bool end_name(struct chat_reply *r) {
        reply_string_trim(&r->call.name);
        if (!reply_call_named(r))
                return false;
        reply_call_begin(r);
        between(r);
        return true;
}

static enum reply_took name_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;

        if (call->name.size == 0 && (c == '{' || c == '[')) {
                reply_call_object(r);
                return REPLY_AGAIN;
        }
        if (c == '\n' && !r->calls->name_end) {
                end_name(r);
                return REPLY_TOOK;
        }
        reply_string_add(&call->name, (char)c);
        if (call->name.too_long)
                reply_call_broken(r, "its name is too long");
        return REPLY_TOOK;
}

/* --- values --- */

static void string_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;

        if (call->newline)
                reply_call_string_byte(r, '\n');
        call->newline = c == '\n' && r->calls->value_lines;
        if (!call->newline)
                reply_call_string_byte(r, c);
}

/* It is a string after all. */
static void become_string(struct chat_reply *r) {
        r->call.value = STRING;
        reply_call_arguments(r, "\"", 1);
        for (size_t i = 0; i < r->value.size; i++)
                string_byte(r, r->value.data[i]);
        r->value.size = 0;
}

static bool has_python_word(const struct buf *value, const char **ret) {
        static const char *const words[][2] = {
                {"True", "true"}, {"False", "false"}, {"None", "null"}};
        const char *text = (const char *)value->data;
        size_t size = value->size;

        utf8_trim(&text, &size);
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (size == strlen(words[i][0]) && memcmp(text, words[i][0], size) == 0) {
                        *ret = words[i][1];
                        return true;
                }
        return false;
}

/* Whether the bytes that wait may still become one of the words: they are few. */
static bool may_be_python(const struct chat_reply *r) {
        const char *text = (const char *)r->value.data;
        size_t n = r->value.size;

        if (r->call.type != REPLY_TYPE_OTHER || n > 16)
                return false;
        utf8_trim(&text, &n);
        return n <= 5 && (strncmp(text, "True", n) == 0 || strncmp(text, "False", n) == 0 ||
                                 strncmp(text, "None", n) == 0);
}

static void waiting_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;
        bool any_string = call->type == REPLY_TYPE_ANY && c == '"' && call->json.depth == 0;
        int code = buf_append(&r->value, &c, 1);

        if (code == -ERR_LIMIT && r->value.size == r->value.max) {
                reply_call_broken(r, "the value of a parameter is too long");
                return;
        }
        if (code < 0) {
                reply_fail(r, code, "the value of a parameter");
                return;
        }
        if ((any_string || reply_json_byte(&call->json, c) & REPLY_JSON_ERROR) && !may_be_python(r))
                become_string(r);
}

static void value_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;

        if (call->value == FIRST) {
                call->value = WAITING;
                if (call->type == REPLY_TYPE_STRING)
                        become_string(r);
                if (c == '\n' && r->calls->value_lines)
                        return;
        }
        if (call->value == WAITING)
                waiting_byte(r, c);
        else
                string_byte(r, c);
}

/* The value that waited is JSON: give it out, with control characters as escapes. */
static void give_json(struct chat_reply *r) {
        struct reply_json j;
        const char *text = (const char *)r->value.data;
        size_t n = r->value.size;

        utf8_trim(&text, &n);
        reply_json_init(&j);
        for (size_t i = 0; i < n; i++) {
                reply_json_byte(&j, (uint8_t)text[i]);
                reply_call_json_byte(r, &j, (uint8_t)text[i]);
        }
}

static void end_value(struct chat_reply *r) {
        struct reply_call *call = &r->call;
        const char *word;

        if (call->value == FIRST && call->type == REPLY_TYPE_STRING)
                become_string(r);
        if (call->value != STRING && reply_json_finish(&call->json))
                give_json(r);
        else if (call->value != STRING && call->type == REPLY_TYPE_OTHER &&
                 has_python_word(&r->value, &word))
                reply_call_arguments(r, word, strlen(word));
        else {
                if (call->value != STRING)
                        become_string(r);
                reply_call_arguments(r, "\"", 1);
        }
        r->value.size = 0;
        between(r);
}

static void begin_value(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        call->step = VALUE;
        call->value = FIRST;
        call->newline = false;
        reply_json_init(&call->json);
        r->value.size = 0;
        reply_look_for(r, REPLY_SET_VALUE);
}

static void end_key(struct chat_reply *r, bool is_text) {
        struct reply_call *call = &r->call;
        const struct reply_string *key = &call->key;

        reply_string_trim(&call->key);
        if (call->n_keys++ > 0)
                reply_call_arguments(r, ", \"", 3);
        else
                reply_call_arguments(r, "{\"", 2);
        for (size_t i = 0; i < key->size; i++)
                reply_call_string_byte(r, (uint8_t)key->text[i]);
        reply_call_arguments(r, "\": ", 3);
        call->type = is_text ? REPLY_TYPE_STRING
                     : r->calls->key_end_text
                             ? REPLY_TYPE_OTHER
                             : reply_tools_type(r->tools, call->name.text, key->text, key->size);
        if (!r->calls->value) {
                begin_value(r);
                return;
        }
        call->step = BEFORE_VALUE;
        reply_look_for(r, REPLY_SET_VALUE_BEGINS);
}

/* --- the machine --- */

static enum reply_took byte(struct chat_reply *r, const struct reply_byte *b) {
        struct reply_call *call = &r->call;

        if (b->origin != REPLY_VISIBLE && call->step == VALUE)
                return REPLY_TOOK;
        if (b->origin != REPLY_VISIBLE) {
                reply_call_broken(r, "it has a control token between its parameters");
                return REPLY_AGAIN;
        }
        switch (call->step) {
        case NAME:
                return name_byte(r, b->c);
        case KEY:
                reply_string_add(&call->key, (char)b->c);
                if (call->key.too_long)
                        reply_call_broken(r, "the name of a parameter is too long");
                return REPLY_TOOK;
        case VALUE:
                value_byte(r, b->c);
                return REPLY_TOOK;
        default:
                if (reply_is_space(b->c))
                        return REPLY_TOOK;
                reply_call_broken(r, "it has text between its parameters");
                return REPLY_AGAIN;
        }
}

static void mark(struct chat_reply *r, enum reply_mark_id id) {
        struct reply_call *call = &r->call;

        if (call->step == NAME && !end_name(r)) {
                reply_call_mark(r, id);
                return;
        }
        switch (id) {
        case REPLY_MARK_NAME_END:
                break;
        case REPLY_MARK_KEY:
                call->step = KEY;
                call->key = (struct reply_string){.size = 0};
                reply_look_for(r, REPLY_SET_KEY);
                break;
        case REPLY_MARK_KEY_END:
        case REPLY_MARK_KEY_END_TEXT:
                end_key(r, id == REPLY_MARK_KEY_END_TEXT);
                break;
        case REPLY_MARK_VALUE:
                begin_value(r);
                break;
        case REPLY_MARK_VALUE_END:
                end_value(r);
                break;
        default:
                reply_call_arguments(r, call->n_keys ? "}" : "{}", call->n_keys ? 1 : 2);
                reply_call_done(r);
                reply_call_mark(r, id);
        }
}

const struct reply_machine reply_tags = {start, byte, mark};
