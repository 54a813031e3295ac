/* SPDX-License-Identifier: MIT */
/*
 * The messages of a chat completion as messages of a form.
 *
 *   system, developer     system
 *   user                  user; parts of text are one text, joined as they are
 *   assistant             text (a refusal is one), reasoning_content (or reasoning), tool_calls, function_call
 *   tool, function        results; those that follow each other are one message
 *
 * An assistant's message that says nothing is left out: clients keep them after a stream that broke. Images, audio
 * and files are refused with the path of their part. A deprecated function_call has no id: it gets one of
 * its place, by which the next message of role `function` answers it.
 */
#include "client/gateway/openai.h"
#include "base/buf.h"
#include "client/gateway/form-json.h"
#include <stdio.h>
#include <string.h>

struct reader {
        struct form *form;
        struct fields *fields;
        struct err *e;
        const char *function_id; /* of the last function_call, or NULL */
};

/* ---- contents ---- */

static int read_part(struct reader *reader, const json_t *part, struct buf *text) {
        struct fields *fields = reader->fields;
        const char *type = NULL, *said = NULL;
        int r = fields_be_object(fields, part, reader->e);

        if (r == 0)
                r = fields_string(fields, part, "type", &type, reader->e);
        if (r < 0)
                return r;
        if (!type || strcmp(type, "text") == 0)
                r = fields_string(fields, part, "text", &said, reader->e);
        else if (strcmp(type, "refusal") == 0)
                r = fields_string(fields, part, "refusal", &said, reader->e);
        else if (strcmp(type, "image_url") == 0)
                r = openai_unsupported(fields, "", "the model does not take images", reader->e);
        else if (strcmp(type, "input_audio") == 0)
                r = openai_unsupported(fields, "", "the model does not take audio", reader->e);
        else if (strcmp(type, "file") == 0)
                r = openai_unsupported(fields, "", "files are not taken", reader->e);
        else
                return fields_wrong(fields, "type", "a known type of content", reader->e);
        if (r < 0)
                return r;
        if (!said)
                return fields_wrong(fields, "text", "a string", reader->e);
        return buf_append_str(text, said) < 0 ? err_no_memory(reader->e) : 0;
}

static int read_parts(struct reader *reader, const json_t *parts, struct buf *text) {
        json_t *part;
        size_t i;

        if (json_array_size(parts) > OPENAI_MAX_CONTENT_PARTS)
                return fields_wrong(reader->fields, "content", "of at most 4096 parts", reader->e);
        json_array_foreach(parts, i, part) {
                size_t length = fields_enter(reader->fields, "content", i);
                int r = read_part(reader, part, text);

                if (r < 0)
                        return r;
                fields_leave(reader->fields, length);
        }
        return 0;
}

/* The field `content`: a string, parts, or null. *ret is "" for null. */
static int read_content(
        struct reader *reader, const json_t *message, const char **ret, size_t *ret_size) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        json_t *content = json_object_get(message, "content");
        const char *said = NULL;
        char *copy;
        int r = 0;

        if (json_is_array(content))
                r = read_parts(reader, content, &text);
        else if (content && !json_is_null(content) && !json_is_string(content))
                r = fields_wrong(
                        reader->fields, "content", "a string or an array of parts", reader->e);
        else
                r = fields_string(reader->fields, message, "content", &said, reader->e);
        if (r < 0)
                return r;
        copy = said ? form_strdup(reader->form, said)
                    : form_text(reader->form, text.data, text.size);
        if (!copy)
                return err_no_memory(reader->e);
        *ret = copy;
        *ret_size = said ? strlen(said) : text.size;
        return 0;
}

/* ---- the assistant ---- */

/* {"name", "arguments"}: arguments are a string of JSON; an object is taken as well, nothing is {}. */
static int read_function(struct reader *reader, const json_t *function, const char *id) {
        json_t *value = json_object_get(function, "arguments");
        const char *name, *arguments = NULL;
        struct confab_call *call;
        int r = fields_string(reader->fields, function, "name", &name, reader->e);

        if (r == 0 && !json_is_object(value))
                r = fields_string(reader->fields, function, "arguments", &arguments, reader->e);
        if (r < 0)
                return r;
        if (!name)
                return fields_wrong(reader->fields, "name", "a string", reader->e);
        call = form_add_call(reader->form);
        if (!call)
                return err_no_memory(reader->e);
        call->id = id;
        call->name = form_strdup(reader->form, name);
        if (call->name && json_is_object(value))
                return form_dump(reader->form, value, &call->arguments, reader->e);
        call->arguments = form_strdup(reader->form, arguments && arguments[0] ? arguments : "{}");
        return call->name && call->arguments ? 0 : err_no_memory(reader->e);
}

static int read_call(struct reader *reader, const json_t *call) {
        struct fields *fields = reader->fields;
        const char *type, *id, *copy = NULL;
        json_t *function;
        size_t length;
        int r = fields_be_object(fields, call, reader->e);

        if (r == 0)
                r = fields_string(fields, call, "type", &type, reader->e);
        if (r == 0 && type && strcmp(type, "function") != 0)
                r = openai_unsupported(fields, "type", "only functions can be called", reader->e);
        if (r == 0)
                r = fields_string(fields, call, "id", &id, reader->e);
        if (r == 0)
                r = fields_object(fields, call, "function", &function, reader->e);
        if (r < 0)
                return r;
        if (!function)
                return fields_wrong(fields, "function", "an object", reader->e);
        if (id && id[0]) {
                copy = form_strdup(reader->form, id);
                if (!copy)
                        return err_no_memory(reader->e);
        }
        length = fields_enter_name(fields, "function");
        r = read_function(reader, function, copy);
        if (r == 0)
                fields_leave(fields, length);
        return r;
}

static int read_calls(struct reader *reader, const json_t *message) {
        json_t *calls, *call;
        size_t i;
        int r = fields_array(reader->fields, message, "tool_calls", &calls, reader->e);

        if (r < 0 || !calls)
                return r;
        json_array_foreach(calls, i, call) {
                size_t length = fields_enter(reader->fields, "tool_calls", i);

                r = read_call(reader, call);
                if (r < 0)
                        return r;
                fields_leave(reader->fields, length);
        }
        return 0;
}

/* The deprecated function_call. */
static int read_function_call(struct reader *reader, const json_t *message, size_t index) {
        json_t *function;
        size_t length;
        char id[40];
        int r = fields_object(reader->fields, message, "function_call", &function, reader->e);

        if (r < 0 || !function)
                return r;
        snprintf(id, sizeof(id), "function_%zu", index);
        reader->function_id = form_strdup(reader->form, id);
        if (!reader->function_id)
                return err_no_memory(reader->e);
        length = fields_enter_name(reader->fields, "function_call");
        r = read_function(reader, function, reader->function_id);
        if (r < 0)
                return r;
        fields_leave(reader->fields, length);
        return 0;
}

static int read_reasoning(struct reader *reader, const json_t *message, struct confab_message *to) {
        const char *reasoning;
        int r = fields_string(reader->fields, message, "reasoning_content", &reasoning, reader->e);

        if (r == 0 && !reasoning)
                r = fields_string(reader->fields, message, "reasoning", &reasoning, reader->e);
        if (r < 0 || !reasoning || !reasoning[0])
                return r;
        to->reasoning = form_strdup(reader->form, reasoning);
        return to->reasoning ? 0 : err_no_memory(reader->e);
}

static int read_assistant(struct reader *reader, const json_t *message, size_t index) {
        struct form_fields *fields = form_fields(reader->form);
        struct confab_message *to = form_add_message(reader->form, CONFAB_ROLE_ASSISTANT);
        const char *text, *refusal;
        size_t size;
        int r;

        if (!to)
                return err_no_memory(reader->e);
        r = read_content(reader, message, &text, &size);
        if (r == 0)
                r = fields_string(reader->fields, message, "refusal", &refusal, reader->e);
        if (r == 0 && size == 0 && refusal) {
                size = strlen(refusal);
                text = form_strdup(reader->form, refusal);
                r = text ? 0 : err_no_memory(reader->e);
        }
        if (r < 0)
                return r;
        to->text = text;
        to->text_size = size;
        r = read_reasoning(reader, message, to);
        if (r == 0)
                r = read_calls(reader, message);
        if (r == 0)
                r = read_function_call(reader, message, index);
        if (r < 0)
                return r;
        if (size == 0 && !to->reasoning && to->n_calls == 0)
                fields->n_messages--;
        return 0;
}

/* ---- the other roles ---- */

static int read_text(struct reader *reader, const json_t *message, enum confab_role role) {
        struct confab_message *to = form_add_message(reader->form, role);
        const char *text;
        size_t size;
        int r;

        if (!to)
                return err_no_memory(reader->e);
        r = read_content(reader, message, &text, &size);
        if (r < 0)
                return r;
        to->text = text;
        to->text_size = size;
        return 0;
}

static int add_result(struct reader *reader, const json_t *message, const char *call_id) {
        struct form_fields *fields = form_fields(reader->form);
        size_t n = fields->n_messages, size;
        struct confab_result *result;
        const char *text;
        int r;

        if (n == 0 || fields->messages[n - 1].role != CONFAB_ROLE_TOOL)
                if (!form_add_message(reader->form, CONFAB_ROLE_TOOL))
                        return err_no_memory(reader->e);
        result = form_add_result(reader->form);
        if (!result)
                return err_no_memory(reader->e);
        r = read_content(reader, message, &text, &size);
        if (r < 0)
                return r;
        result->text = text;
        result->call_id = form_strdup(reader->form, call_id);
        return result->call_id ? 0 : err_no_memory(reader->e);
}

static int read_tool(struct reader *reader, const json_t *message) {
        const char *call_id;
        int r = fields_string(reader->fields, message, "tool_call_id", &call_id, reader->e);

        if (r < 0)
                return r;
        if (!call_id)
                return fields_wrong(reader->fields, "tool_call_id", "a string", reader->e);
        return add_result(reader, message, call_id);
}

/* The deprecated result: answers the last function_call. */
static int read_function_result(struct reader *reader, const json_t *message) {
        const char *id = reader->function_id;

        if (!id)
                return fields_wrong(
                        reader->fields, "role", "\"function\" behind a function_call", reader->e);
        reader->function_id = NULL;
        return add_result(reader, message, id);
}

static int read_message(struct reader *reader, const json_t *message, size_t index) {
        const char *role;
        int r = fields_be_object(reader->fields, message, reader->e);

        if (r == 0)
                r = fields_string(reader->fields, message, "role", &role, reader->e);
        if (r < 0)
                return r;
        if (!role)
                return fields_wrong(reader->fields, "role", "a string", reader->e);
        if (strcmp(role, "user") == 0)
                return read_text(reader, message, CONFAB_ROLE_USER);
        if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)
                return read_text(reader, message, CONFAB_ROLE_SYSTEM);
        if (strcmp(role, "assistant") == 0)
                return read_assistant(reader, message, index);
        if (strcmp(role, "tool") == 0)
                return read_tool(reader, message);
        if (strcmp(role, "function") == 0)
                return read_function_result(reader, message);
        return fields_wrong(reader->fields, "role",
                "one of developer, system, user, assistant, tool", reader->e);
}

int openai_read_messages(
        struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        struct reader reader = {.form = form, .fields = fields, .e = e};
        json_t *messages, *message;
        size_t i;
        int r = fields_array(fields, root, "messages", &messages, e);

        if (r < 0)
                return r;
        if (!messages)
                return fields_wrong(fields, "messages", "an array", e);
        json_array_foreach(messages, i, message) {
                size_t length = fields_enter(fields, "messages", i);

                r = read_message(&reader, message, i);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        if (form_fields(form)->n_messages == 0)
                return fields_wrong(fields, "messages", "a list with a message in it", e);
        return 0;
}
