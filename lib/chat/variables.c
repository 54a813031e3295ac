/* SPDX-License-Identifier: MIT */
/*
 * What the template can see. It gets the variables that HuggingFace gives: messages (role, content;
 * of the assistant also reasoning and tool_calls; of a tool also tool_call_id and name),
 * add_generation_prompt, bos_token and eos_token, tools, documents (none).
 *
 * 1. Keys, role names, the word "function" and the texts of tokens are trusted. What a user or a
 *    model wrote never is: contents, reasoning, ids, names, arguments, definitions.
 * 2. Templates differ in what they want to be given (a string or an object, under which key). How it
 *    is given was learned (learn-tools.c). So was the role of results, out of a fixed list.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "chat/chat-internal.h"

enum { SHORT_ID = 9 };

static bool is_short_id(const char *id) {
        size_t n = 0;

        for (; id[n] && n <= SHORT_ID; n++)
                if (!((id[n] >= '0' && id[n] <= '9') || (id[n] >= 'a' && id[n] <= 'z') ||
                            (id[n] >= 'A' && id[n] <= 'Z')))
                        return false;
        return n == SHORT_ID;
}

/* The id, or if the template takes only short ones, and this is none: nine letters in its place, the
 * same ones each time. */
static void put_id(struct jinja_data *d, const struct chat_template *t, const char *id) {
        static const char letters[] =
                "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        char in_place[SHORT_ID + 1];
        uint64_t h;

        if (!t->calls.short_ids || is_short_id(id)) {
                jinja_data_string(d, id, strlen(id), false);
                return;
        }
        h = hash64(id, strlen(id), 0);
        for (size_t i = 0; i < SHORT_ID; i++, h /= 62)
                in_place[i] = letters[h % 62];
        jinja_data_string(d, in_place, SHORT_ID, false);
}

const char *chat_result_name(const struct chat_message *m) {
        return m->name && *m->name ? m->name : "tool";
}

/* The id of the call with this index where none is given. */
static void put_call_id(
        struct jinja_data *d, const struct chat_template *t, const char *id, size_t index) {
        char counted[32];

        snprintf(counted, sizeof(counted), "call%05zu", index);
        put_id(d, t, id && *id ? id : counted);
}

/* As data; -ERR_INVALID if it is no JSON object. */
static int put_arguments(struct jinja_data *d, const struct chat_template *t,
        const struct chat_call *call, struct charge *charge, struct err *e) {
        const char *text = call->arguments_size > 0 ? call->arguments : "{}";
        size_t n = call->arguments_size > 0 ? call->arguments_size : 2, at = 0;
        struct err why = {0};
        int r;

        while (at < n && memchr(" \t\r\n", text[at], 4))
                at++;
        if (at == n || text[at] != '{')
                return err_set(e, ERR_INVALID,
                        "the arguments of the call of %.64s are no JSON object", call->name);
        jinja_data_key(d, "arguments", true);
        if (t->calls.as_text) {
                r = chat_json_check(text, n, charge, &why);
                jinja_data_string(d, text, n, false);
        } else
                r = jinja_data_json(d, text, n, &why);
        if (r == -ERR_FORMAT)
                return err_set(e, ERR_INVALID, "the arguments of the call of %.64s: %s", call->name,
                        why.msg);
        return r < 0 ? err_set(e, (enum err_code) - r, "%s", why.msg) : 0;
}

static int put_calls(struct jinja_data *d, const struct chat_template *t,
        const struct chat_message *m, struct charge *charge, struct err *e) {
        int r = 0;

        jinja_data_key(d, "tool_calls", true);
        jinja_data_list_begin(d);
        for (size_t i = 0; r == 0 && i < m->n_calls; i++) {
                const struct chat_call *call = &m->calls[i];

                jinja_data_dict_begin(d);
                jinja_data_key(d, "id", true);
                put_call_id(d, t, call->id, i);
                jinja_data_key(d, "type", true);
                jinja_data_string(d, "function", strlen("function"), true);
                jinja_data_key(d, "function", true);
                jinja_data_dict_begin(d);
                jinja_data_key(d, "name", true);
                jinja_data_string(d, call->name, strlen(call->name), false);
                r = put_arguments(d, t, call, charge, e);
                if (r < 0)
                        return r;
                jinja_data_dict_end(d);
                jinja_data_dict_end(d);
        }
        jinja_data_list_end(d);
        return 0;
}

static bool tools_are_key(const struct chat_template *t) {
        return t->tools == CHAT_TOOLS_KEY || t->tools == CHAT_TOOLS_KEY_TEXT;
}

/* In the system message. */
static int put_tools_key(struct jinja_data *d, const struct chat_template *t,
        const struct chat_rendering *in, struct err *e) {
        _cleanup_(buf_deinit) struct buf text = {.charge = in->charge};
        int r;

        jinja_data_key(d, "tools", true);
        if (t->tools == CHAT_TOOLS_KEY)
                return chat_definitions_put(d, in->tools, in->tools_size, e);
        r = chat_definitions_functions(&text, in->tools, in->tools_size);
        if (r < 0)
                return err_set(e, (enum err_code) - r, "no memory for the definitions of tools");
        jinja_data_string(d, (const char *)text.data, text.size, false);
        return 0;
}

/* @index: of the message among the results of one reply. */
static int put_message(struct jinja_data *d, const struct chat_template *t,
        const struct chat_rendering *in, const struct chat_message *m, size_t index,
        struct err *e) {
        const char *role =
                m->role == CHAT_TOOL && t->result_role ? t->result_role : chat_role_name(m->role);
        const char *name = chat_result_name(m);
        int r = 0;

        jinja_data_dict_begin(d);
        jinja_data_key(d, "role", true);
        jinja_data_string(d, role, strlen(role), true);
        jinja_data_key(d, "content", true);
        if (m->n_calls > 0 && m->size == 0 && t->calls.without_text)
                jinja_data_none(d);
        else
                jinja_data_string(d, m->size > 0 ? m->text : "", m->size, false);
        if (m->reasoning && t->reasoning_key) {
                jinja_data_key(d, t->reasoning_key, true);
                jinja_data_string(d, m->reasoning, m->reasoning_size, false);
        }
        if (m->n_calls > 0)
                r = put_calls(d, t, m, in->charge, e);
        if (m->role == CHAT_TOOL) {
                jinja_data_key(d, "tool_call_id", true);
                put_call_id(d, t, m->call_id, index);
                jinja_data_key(d, "name", true);
                jinja_data_string(d, name, strlen(name), false);
        }
        if (r == 0 && m->role == CHAT_SYSTEM && in->tools && tools_are_key(t))
                r = put_tools_key(d, t, in, e);
        if (r == 0)
                jinja_data_dict_end(d);
        return r;
}

/* Definitions that are a key of the system message need one: an empty one, if there is none. */
static int put_messages(struct jinja_data *d, const struct chat_template *t,
        const struct chat_rendering *in, struct err *e) {
        static const struct chat_message empty = {.role = CHAT_SYSTEM};
        size_t index = 0;
        int r = 0;

        jinja_data_key(d, "messages", true);
        jinja_data_list_begin(d);
        if (in->tools && tools_are_key(t) && in->n > 0 && in->messages[0].role != CHAT_SYSTEM)
                r = put_message(d, t, in, &empty, 0, e);
        for (size_t i = 0; r == 0 && i < in->n; i++) {
                r = put_message(d, t, in, &in->messages[i], index, e);
                index = in->messages[i].role == CHAT_TOOL ? index + 1 : 0;
        }
        if (r == 0)
                jinja_data_list_end(d);
        return r;
}

int chat_put_variables(struct jinja_data *d, const struct chat_template *t,
        const struct chat_rendering *in, struct err *e) {
        int r = put_messages(d, t, in, e);

        if (r < 0)
                return r;
        jinja_data_key(d, "add_generation_prompt", true);
        jinja_data_bool(d, in->invite);
        jinja_data_key(d, "bos_token", true);
        jinja_data_string(d, t->bos, strlen(t->bos), true);
        jinja_data_key(d, "eos_token", true);
        jinja_data_string(d, t->eos, strlen(t->eos), true);
        jinja_data_key(d, "tools", true);
        if (in->tools && t->tools == CHAT_TOOLS_VARIABLE)
                r = chat_definitions_put(d, in->tools, in->tools_size, e);
        else
                jinja_data_none(d);
        if (r == 0 && in->tools && t->tools == CHAT_TOOLS_XML_VARIABLE) {
                jinja_data_key(d, "xml_tools", true);
                r = chat_definitions_put(d, in->tools, in->tools_size, e);
        }
        jinja_data_key(d, "documents", true);
        jinja_data_none(d);
        return r;
}
