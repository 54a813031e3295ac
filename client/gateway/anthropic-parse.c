/* SPDX-License-Identifier: MIT */
/*
 * Bodies of /v1/messages and /v1/messages/count_tokens, but for the messages (anthropic-messages.c).
 *
 * 1. A field that confab does not know is ignored, as agents send many: cache_control, context_management, betas,
 *    service_tier, effort. Definitions of tools that only Anthropic's servers have are left out.
 * 2. tool_choice "any" and "tool" make the reply a call; a format holds for other replies then.
 *    "disable_parallel_tool_use" is a wish that no model is held to otherwise.
 * 3. tool_choice "none" tells the model of no tools, since nothing else keeps it from calling one.
 * 4. What a request leaves out is the daemon's default, but max_tokens, which the dialect demands.
 */
#include "base/about.h"
#include "client/gateway/anthropic.h"
#include "client/gateway/form-json.h"
#include "client/gateway/jansson-read.h"
#include <string.h>

static int parse_sampling(
        struct form_fields *form, struct fields *fields, const json_t *body, struct err *e) {
        struct confab_sampling *sampling = &form->sampling;
        double temperature = 0, top_p = 0;
        int64_t top_k = 0;
        bool has;
        int r;

        r = fields_number(fields, body, "temperature", 0, 2, &temperature, &has, e);
        if (r < 0)
                return r;
        if (has)
                sampling->has |= CONFAB_HAS_TEMPERATURE;
        sampling->temperature = (float)temperature;
        r = fields_number(fields, body, "top_p", 0, 1, &top_p, &has, e);
        if (r < 0)
                return r;
        if (has)
                sampling->has |= CONFAB_HAS_TOP_P;
        sampling->top_p = (float)top_p;
        r = fields_integer(fields, body, "top_k", 0, UINT32_MAX, &top_k, &has, e);
        if (r < 0)
                return r;
        if (has)
                sampling->has |= CONFAB_HAS_TOP_K;
        sampling->top_k = (uint32_t)top_k;
        return 0;
}

static int parse_max_tokens(
        struct form_fields *form, struct fields *fields, const json_t *body, struct err *e) {
        int64_t max_tokens = 0;
        int r = fields_integer(fields, body, "max_tokens", 0, UINT32_MAX - 1, &max_tokens,
                &form->has_max_tokens, e);

        if (r < 0)
                return r;
        if (!form->has_max_tokens)
                return fields_wrong(fields, "max_tokens", "given", e);
        form->max_tokens = (uint32_t)max_tokens;
        return 0;
}

static int parse_stops(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        json_t *stops = NULL, *stop;
        size_t i;
        int r = fields_array(fields, body, "stop_sequences", &stops, e);

        json_array_foreach(stops, i, stop) {
                size_t length = fields_enter(fields, "stop_sequences", i);
                const char *text = NULL;

                r = fields_be_string(fields, stop, &text, e);
                if (r == 0 && !*text)
                        r = fields_wrong(fields, "", "a text of at least one character", e);
                if (r == 0)
                        r = form_add_stop(form, text) < 0 ? err_no_memory(e) : 0;
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return r;
}

/* {"name", "description", "input_schema"} to an item of OpenAI's "tools", which the daemon takes. */
static int put_tool(json_t *list, const char *name, const char *description, json_t *schema) {
        json_t *function = json_object();
        int r = 0;

        r |= json_object_set_new(function, "name", json_string(name));
        if (description)
                r |= json_object_set_new(function, "description", json_string(description));
        if (schema)
                r |= json_object_set(function, "parameters", schema);
        return r | json_array_append_new(
                           list, json_pack("{s:s, s:o}", "type", "function", "function", function));
}

static int parse_tool(json_t *list, struct fields *fields, const json_t *tool, struct err *e) {
        const char *type = NULL, *name = NULL, *description = NULL;
        json_t *schema = NULL;
        int r = fields_be_object(fields, tool, e);

        if (r == 0)
                r = fields_string(fields, tool, "type", &type, e);
        if (r < 0 || (type && strcmp(type, "custom") != 0))
                return r;
        r = fields_string(fields, tool, "name", &name, e);
        if (r == 0 && (!name || !*name))
                r = fields_wrong(fields, "name", "given", e);
        if (r == 0)
                r = fields_string(fields, tool, "description", &description, e);
        if (r == 0)
                r = fields_object(fields, tool, "input_schema", &schema, e);
        if (r < 0)
                return r;
        return put_tool(list, name, description, schema) == 0 ? 0 : err_no_memory(e);
}

static int parse_tools_into(
        json_t *list, struct form *form, struct fields *fields, json_t *tools, struct err *e) {
        json_t *tool;
        size_t i;

        json_array_foreach(tools, i, tool) {
                size_t length = fields_enter(fields, "tools", i);
                int r = parse_tool(list, fields, tool, e);

                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return json_array_size(list) > 0 ? form_dump(form, list, &form_fields(form)->tools, e) : 0;
}

/* {"type": "tool", "name"} */
static int parse_named(
        struct form *form, struct fields *fields, const json_t *choice, struct err *e) {
        const char *name = NULL;
        int r = fields_string(fields, choice, "name", &name, e);

        if (r < 0)
                return r;
        if (!name || !*name)
                return fields_wrong(fields, "name", "given", e);
        form_fields(form)->call_of = form_strdup(form, name);
        return form_fields(form)->call_of ? 0 : err_no_memory(e);
}

/* *ret: whether the model may be told of tools at all. */
static int parse_tool_choice(
        struct form *form, struct fields *fields, const json_t *body, bool *ret, struct err *e) {
        const char *type = NULL;
        json_t *choice = NULL;
        size_t length;
        int r = fields_object(fields, body, "tool_choice", &choice, e);

        *ret = true;
        if (r < 0 || !choice)
                return r;
        length = fields_enter_name(fields, "tool_choice");
        r = fields_string(fields, choice, "type", &type, e);
        if (r < 0)
                return r;
        if (type && strcmp(type, "none") == 0)
                *ret = false;
        else if (type && strcmp(type, "any") == 0)
                form_fields(form)->call_of = "";
        else if (type && strcmp(type, "tool") == 0)
                r = parse_named(form, fields, choice, e);
        else if (!type || strcmp(type, "auto") != 0)
                r = fields_wrong(fields, "type", "one of auto, any, tool, none", e);
        if (r < 0)
                return r;
        fields_leave(fields, length);
        return 0;
}

static int parse_tools(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        json_t *tools = NULL, *list;
        bool told = true;
        int r = parse_tool_choice(form, fields, body, &told, e);

        if (r == 0)
                r = fields_array(fields, body, "tools", &tools, e);
        if (r == 0 && tools && told) {
                list = json_array();
                r = list ? parse_tools_into(list, form, fields, tools, e) : err_no_memory(e);
                json_decref(list);
        }
        if (r == 0 && form_fields(form)->call_of && !form_fields(form)->tools)
                return fields_wrong(fields, "tool_choice", "possible: no tools are given", e);
        return r;
}

/* The schema of {"format": {"type": "json_schema", "schema": {}}}. */
static int parse_format(struct form *form, struct fields *fields, const json_t *object,
        const char *name, struct err *e) {
        json_t *format = NULL, *schema = NULL;
        const char *type = NULL;
        size_t length;
        int r = fields_object(fields, object, name, &format, e);

        if (r < 0 || !format)
                return r;
        length = fields_enter_name(fields, name);
        r = fields_string(fields, format, "type", &type, e);
        if (r == 0 && (!type || strcmp(type, "json_schema") != 0))
                r = fields_wrong(fields, "type", "json_schema", e);
        if (r == 0)
                r = fields_object(fields, format, "schema", &schema, e);
        if (r == 0 && !schema)
                r = fields_wrong(fields, "schema", "given", e);
        if (r == 0)
                r = form_dump(form, schema, &form_fields(form)->json_schema, e);
        if (r == 0)
                fields_leave(fields, length);
        return r;
}

/* output_config.format, and its earlier name output_format. */
static int parse_output(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        json_t *config = NULL;
        int r = fields_object(fields, body, "output_config", &config, e);

        if (r == 0 && config) {
                size_t length = fields_enter_name(fields, "output_config");

                r = parse_format(form, fields, config, "format", e);
                if (r == 0)
                        fields_leave(fields, length);
        }
        if (r == 0 && !form_fields(form)->json_schema)
                r = parse_format(form, fields, body, "output_format", e);
        return r;
}

static int parse_thinking(
        struct fields *fields, const json_t *body, struct anthropic_wish *ret, struct err *e) {
        const char *type = NULL, *display = NULL;
        json_t *thinking = NULL;
        size_t length;
        int r = fields_object(fields, body, "thinking", &thinking, e);

        if (r < 0 || !thinking)
                return r;
        length = fields_enter_name(fields, "thinking");
        r = fields_string(fields, thinking, "type", &type, e);
        if (r == 0)
                r = fields_string(fields, thinking, "display", &display, e);
        if (r < 0)
                return r;
        fields_leave(fields, length);
        ret->thinking = type && strcmp(type, "disabled") != 0 &&
                        (!display || strcmp(display, "omitted") != 0);
        return 0;
}

/* metadata.user_id is any text; Claude Code puts JSON there that names its session. What can't be read, for lack of memory too,
 * names none: then the messages alone tell the conversation. */
static int parse_session(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        const char *user = NULL, *session;
        json_t *metadata = NULL, *root = NULL;
        size_t length;
        int r = fields_object(fields, body, "metadata", &metadata, e);

        if (r < 0 || !metadata)
                return r;
        length = fields_enter_name(fields, "metadata");
        r = fields_string(fields, metadata, "user_id", &user, e);
        if (r < 0)
                return r;
        fields_leave(fields, length);
        if (user)
                (void)jansson_read(&root, user, strlen(user), NULL);
        session = json_string_value(json_object_get(root, "session_id"));
        if (session && *session && strlen(session) <= ABOUT_SESSION_MAX) {
                form_fields(form)->session = form_strdup(form, session);
                if (!form_fields(form)->session)
                        r = err_no_memory(e);
        }
        json_decref(root);
        return r;
}

static int parse_rest(struct form *form, struct fields *fields, const json_t *body,
        struct anthropic_wish *ret, struct err *e) {
        struct form_fields *f = form_fields(form);
        int r = parse_max_tokens(f, fields, body, e);

        if (r == 0)
                r = parse_sampling(f, fields, body, e);
        if (r == 0)
                r = parse_stops(form, fields, body, e);
        if (r == 0)
                r = parse_output(form, fields, body, e);
        if (r == 0)
                r = fields_bool(fields, body, "stream", &f->stream, e);
        if (r == 0)
                r = parse_thinking(fields, body, ret, e);
        return r;
}

/* A thread is a history that the server holds: once it is created, SDKs send the new messages alone. None is held here,
 * since conversations are found by what they say. An SDK that is told that its thread is lost creates another one, with the whole
 * history: that leads to the same conversation. */
static int check_thread(struct fields *fields, const json_t *body, struct err *e) {
        const char *type = NULL;
        json_t *thread = NULL;
        size_t length;
        int r = fields_object(fields, body, ANTHROPIC_THREAD, &thread, e);

        if (r < 0 || !thread)
                return r;
        length = fields_enter_name(fields, ANTHROPIC_THREAD);
        r = fields_string(fields, thread, "type", &type, e);
        if (r < 0)
                return r;
        if (!type || (strcmp(type, "create") != 0 && strcmp(type, "continue") != 0))
                return fields_wrong(fields, "type", "create or continue", e);
        fields_leave(fields, length);
        if (strcmp(type, "create") == 0)
                return 0;
        return err_set(e, ERR_NOT_FOUND,
                ANTHROPIC_THREAD " is not held here: send the whole history in messages");
}

int anthropic_parse(struct form *form, const json_t *body, bool counts, struct anthropic_wish *ret,
        struct err *e) {
        struct fields fields = FIELDS_NULL;
        struct anthropic_wish wish = {0};
        const char *model = NULL;
        int r = fields_string(&fields, body, "model", &model, e);

        form_fields(form)->tag = "anthropic";
        if (r == 0 && model)
                r = (form_fields(form)->model = form_strdup(form, model)) ? 0 : err_no_memory(e);
        if (r == 0)
                r = check_thread(&fields, body, e);
        if (r == 0)
                r = anthropic_parse_messages(form, &fields, body, e);
        if (r == 0)
                r = parse_tools(form, &fields, body, e);
        if (r == 0)
                r = parse_session(form, &fields, body, e);
        if (r == 0 && !counts)
                r = parse_rest(form, &fields, body, &wish, e);
        if (r == 0)
                *ret = wish;
        return r;
}
