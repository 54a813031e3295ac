/* SPDX-License-Identifier: MIT */
/*
 * Calls in a notation that is not JSON, and becomes it on the way:
 *
 *     [f(key="value", n=1), g()]           as Python writes calls: literals, lists, dicts, tuples
 *     call:f{key:<|"|>value<|"|>,n:1}      bare keys, strings between marks
 *
 * A stack of one bit per level says whether a container is an object. The level of the parameters is
 * level 1. Strings are given out as they come; numbers and words when they end.
 */
#include <string.h>

#include "base/util.h"
#include "chat/reply-internal.h"

/* Llama 3 calls the functions that it was trained with by a method. */
#define OF_BUILT_IN ".call"

enum step { CALL, NAME, KEY, KEY_WORD, COLON, VALUE, WORD, BEHIND, TEXT, ESCAPE, HEX };

static bool braces(const struct chat_reply *r) {
        return r->calls->kind == REPLY_KIND_BRACES;
}

static void make_sets(struct chat_reply *r) {
        const struct reply_calls *c = r->calls;

        reply_marks_add(&r->sets[REPLY_SET_BETWEEN], c->each_end, REPLY_MARK_EACH_END);
        reply_marks_add(&r->sets[REPLY_SET_BETWEEN], c->section_end, REPLY_MARK_SECTION_END);
        reply_marks_add(&r->sets[REPLY_SET_VALUE_BEGINS], c->quote, REPLY_MARK_QUOTE);
        reply_marks_add(&r->sets[REPLY_SET_VALUE], c->quote, REPLY_MARK_QUOTE);
}

static void go(struct chat_reply *r, enum step step) {
        r->call.step = (uint8_t)step;
        reply_look_for(r, step == CALL || step == BEHIND ? REPLY_SET_BETWEEN
                          : step == KEY || step == VALUE ? REPLY_SET_VALUE_BEGINS
                          : step == TEXT && braces(r)    ? REPLY_SET_VALUE
                                                         : REPLY_SET_NONE);
}

static void start(struct chat_reply *r) {
        if (!r->has_sets)
                make_sets(r);
        r->has_sets = true;
        r->call.between = true;
        go(r, CALL);
}

static bool in_object(const struct reply_call *call) {
        return call->objects >> call->depth & 1;
}

static void give(struct chat_reply *r, const char *text) {
        reply_call_arguments(r, text, strlen(text));
}

static void broken(struct chat_reply *r) {
        reply_call_broken(r, "its arguments can't be read");
}

/* --- containers --- */

static void open_container(struct chat_reply *r, bool object) {
        struct reply_call *call = &r->call;

        if (call->depth == REPLY_JSON_DEPTH) {
                reply_call_broken(r, "its arguments are nested too deeply");
                return;
        }
        call->depth++;
        call->objects &= ~((uint64_t)1 << call->depth);
        call->objects |= (uint64_t)object << call->depth;
        call->first = true;
        give(r, object ? "{" : "[");
        go(r, object ? KEY : VALUE);
}

static void end_call(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        if (!call->list && (braces(r) || !r->calls->each_end)) {
                reply_call_done(r);
                return;
        }
        reply_part_end(r, NULL);
        call->begun = call->named = false;
        call->between = true;
        go(r, CALL);
}

static void close_container(struct chat_reply *r) {
        struct reply_call *call = &r->call;

        give(r, in_object(call) ? "}" : "]");
        call->depth--;
        call->first = false;
        if (call->depth == 0)
                end_call(r);
        else
                go(r, BEHIND);
}

/* The bracket that closes the innermost container: a tuple's is the ")". */
static bool closes(const struct chat_reply *r, uint8_t c) {
        const struct reply_call *call = &r->call;

        if (call->depth == 1 && !braces(r))
                return c == ')';
        if (in_object(call))
                return c == '}';
        return c == (call->tuples >> call->depth & 1 ? ')' : ']');
}

static void next_item(struct chat_reply *r) {
        if (!r->call.first)
                give(r, ", ");
        r->call.first = false;
}

/* --- names, keys --- */

static void end_name(struct chat_reply *r) {
        struct reply_call *call = &r->call;
        const char *prefix = r->calls->prefix;
        size_t n = prefix ? strlen(prefix) : 0;

        reply_string_trim(&call->name);
        if (prefix && strncmp(call->name.text, prefix, n) == 0) {
                call->name.size -= n;
                memmove(call->name.text, call->name.text + n, call->name.size + 1);
        }
        n = sizeof(OF_BUILT_IN) - 1;
        if (r->calls->kind == REPLY_KIND_OBJECT && call->name.size > n &&
                strcmp(call->name.text + call->name.size - n, OF_BUILT_IN) == 0)
                call->name.text[call->name.size -= n] = 0;
        if (!reply_call_named(r))
                return;
        reply_call_begin(r);
        call->depth = 0;
        open_container(r, true);
}

static void call_byte(struct chat_reply *r, const struct reply_byte *b) {
        struct reply_call *call = &r->call;

        if (reply_is_space(b->c) || (b->c == ',' && call->list))
                return;
        if (b->c == '[' && !call->list && !braces(r)) {
                call->list = true;
                return;
        }
        if (b->c == ']' && call->list) {
                reply_call_done(r);
                return;
        }
        if (b->c == '{' && call->list && call->depth == 0) { /* a list of objects after all */
                reply_call_object(r);
                call->list = false;
                reply_object.byte(r, &(struct reply_byte){'[', REPLY_VISIBLE, b->token});
                reply_object.byte(r, b);
                return;
        }
        call->token = b->token;
        call->between = false;
        call->name = (struct reply_string){.size = 0};
        reply_string_add(&call->name, (char)b->c);
        if (reply_is_name(b->c))
                go(r, NAME);
        else
                reply_call_broken(r, "it does not begin with a name");
}

static void name_byte(struct chat_reply *r, uint8_t c) {
        struct reply_string *name = &r->call.name;
        bool over = name->text[name->size - 1] == ' ';

        if (c == (braces(r) ? '{' : '('))
                end_name(r);
        else if (!over && (reply_is_name(c) || (braces(r) && c == ':')))
                reply_string_add(name, (char)c);
        else if (!reply_is_space(c))
                reply_call_broken(r, "its name is followed by no arguments");
        else if (!over)
                reply_string_add(name, ' ');
        if (name->too_long)
                reply_call_broken(r, "its name is too long");
}

static void begin_text(struct chat_reply *r, uint8_t quote, bool key) {
        next_item(r);
        r->call.is_key = key;
        r->call.quote = quote;
        give(r, "\"");
        go(r, TEXT);
}

static void end_text(struct chat_reply *r) {
        give(r, r->call.is_key ? "\": " : "\"");
        go(r, r->call.is_key ? COLON : BEHIND);
}

static void key_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;
        bool bare = braces(r) || call->depth == 1;

        if (reply_is_space(c))
                return;
        if (closes(r, c)) {
                close_container(r);
                return;
        }
        if (!braces(r) && call->depth > 1 && (c == '"' || c == '\'')) {
                begin_text(r, c, true);
                return;
        }
        if (!bare || (!reply_is_name(c) && c < 0x80)) {
                broken(r);
                return;
        }
        next_item(r);
        give(r, "\"");
        reply_call_string_byte(r, c);
        go(r, KEY_WORD);
}

static void key_word_byte(struct chat_reply *r, uint8_t c) {
        if (c == (braces(r) ? ':' : '=')) {
                give(r, "\": ");
                r->call.first = true; /* the value follows no comma */
                go(r, VALUE);
        } else if (reply_is_name(c) || c >= 0x80)
                reply_call_string_byte(r, c);
        else if (!reply_is_space(c))
                broken(r);
}

/* --- values --- */

static enum reply_took value_byte(struct chat_reply *r, uint8_t c) {
        struct reply_call *call = &r->call;

        if (reply_is_space(c))
                return REPLY_TOOK;
        if (!in_object(call) && closes(r, c)) {
                close_container(r);
                return REPLY_TOOK;
        }
        if (!braces(r) && (c == '"' || c == '\'')) {
                begin_text(r, c, false);
                return REPLY_TOOK;
        }
        if (c == '{' || c == '[' || (c == '(' && !braces(r))) {
                next_item(r);
                open_container(r, c == '{');
                call->tuples &= ~((uint64_t)1 << call->depth);
                call->tuples |= (uint64_t)(c == '(') << call->depth;
                return REPLY_TOOK;
        }
        next_item(r);
        call->word = (struct reply_string){.size = 0};
        go(r, WORD);
        return REPLY_AGAIN;
}

static bool is_number(const struct reply_string *s) {
        struct reply_json j;

        reply_json_init(&j);
        for (size_t i = 0; i < s->size; i++)
                if (reply_json_byte(&j, (uint8_t)s->text[i]) & REPLY_JSON_ERROR)
                        return false;
        return reply_json_finish(&j);
}

/* The number or word as JSON; NULL: it is neither. */
static const char *find_word(const struct reply_string *s) {
        static const char *const words[][2] = {{"True", "true"}, {"False", "false"},
                {"None", "null"}, {"true", "true"}, {"false", "false"}, {"null", "null"}};

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strcmp(s->text, words[i][0]) == 0)
                        return words[i][1];
        return !s->too_long && is_number(s) ? s->text : NULL;
}

static enum reply_took word_byte(struct chat_reply *r, uint8_t c) {
        const char *word;

        if (reply_is_name(c) || c == '+') {
                reply_string_add(&r->call.word, (char)c);
                return REPLY_TOOK;
        }
        word = find_word(&r->call.word);
        if (!word) {
                broken(r);
                return REPLY_AGAIN;
        }
        give(r, word);
        go(r, BEHIND);
        return REPLY_AGAIN;
}

static void behind_byte(struct chat_reply *r, uint8_t c) {
        if (reply_is_space(c))
                return;
        if (closes(r, c))
                close_container(r);
        else if (c == ',')
                go(r, in_object(&r->call) ? KEY : VALUE);
        else
                broken(r);
}

static void colon_byte(struct chat_reply *r, uint8_t c) {
        if (c == ':') {
                r->call.first = true;
                go(r, VALUE);
        } else if (!reply_is_space(c))
                broken(r);
}

/* --- strings --- */

static void text_byte(struct chat_reply *r, uint8_t c) {
        if (!braces(r) && c == r->call.quote)
                end_text(r);
        else if (!braces(r) && c == '\\')
                go(r, ESCAPE);
        else
                reply_call_string_byte(r, c);
}

/* Digits of hexadecimal escapes go on as JSON's. */
static void escape_byte(struct chat_reply *r, uint8_t c) {
        static const char from[] = "nrtbf\\'\"/", to[] = "\n\r\t\b\f\\'\"/";
        const char *at = c ? strchr(from, c) : NULL;

        go(r, TEXT);
        if (c == 'x' || c == 'u') {
                give(r, c == 'x' ? "\\u00" : "\\u");
                r->call.n_hex = c == 'x' ? 2 : 4;
                go(r, HEX);
        } else if (at)
                reply_call_string_byte(r, (uint8_t)to[at - from]);
        else if (c != '\n') { /* Python keeps what it does not know */
                reply_call_string_byte(r, '\\');
                reply_call_string_byte(r, c);
        }
}

static void hex_byte(struct chat_reply *r, uint8_t c) {
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'))) {
                broken(r);
                return;
        }
        reply_call_arguments(r, (const char *)&c, 1);
        if (--r->call.n_hex == 0)
                go(r, TEXT);
}

/* --- the machine --- */

static bool in_text(const struct reply_call *call) {
        return call->step == TEXT || call->step == ESCAPE || call->step == HEX;
}

static enum reply_took byte(struct chat_reply *r, const struct reply_byte *b) {
        static void (*const steps[])(struct chat_reply * r, uint8_t c) = {
                [NAME] = name_byte,
                [KEY] = key_byte,
                [KEY_WORD] = key_word_byte,
                [COLON] = colon_byte,
                [BEHIND] = behind_byte,
                [TEXT] = text_byte,
                [ESCAPE] = escape_byte,
                [HEX] = hex_byte,
        };

        if (b->origin != REPLY_VISIBLE) {
                if (in_text(&r->call))
                        return REPLY_TOOK;
                broken(r);
                return REPLY_AGAIN;
        }
        switch (r->call.step) {
        case CALL:
                call_byte(r, b);
                break;
        case VALUE:
                return value_byte(r, b->c);
        case WORD:
                return word_byte(r, b->c);
        default:
                steps[r->call.step](r, b->c);
        }
        /* The byte may belong to a mark that ends the call. */
        return r->state == REPLY_BROKEN ? REPLY_AGAIN : REPLY_TOOK;
}

static void mark(struct chat_reply *r, enum reply_mark_id id) {
        if (id == REPLY_MARK_QUOTE) {
                if (r->call.step == TEXT)
                        end_text(r);
                else
                        begin_text(r, 0, r->call.step == KEY);
                return;
        }
        if (r->call.between) /* nothing is open */
                reply_call_done(r);
        else
                reply_call_broken(r, "its arguments have no end");
        reply_call_mark(r, id);
}

const struct reply_machine reply_loose = {start, byte, mark};
