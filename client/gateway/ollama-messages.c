/* SPDX-License-Identifier: MIT */
/*
 * Messages of Ollama's dialect to those of a form. Many clients drop the ids of calls (ollama-python), and older ones name
 * in results the function at most: such results have no id in the form either, and the talk finds their calls.
 */
#include "client/gateway/form-json.h"
#include "client/gateway/ollama.h"
#include <string.h>

int ollama_refuse_images(struct fields *fields, const json_t *object, struct err *e) {
        json_t *images = NULL;
        int r = fields_array(fields, object, "images", &images, e);

        if (r < 0 || json_array_size(images) == 0)
                return r;
        return fields_wrong(fields, "images", "empty: confab takes no images", e);
}

/* *ret: a copy, or NULL if there is nothing to copy. */
static int copy_text(struct form *form, const char *text, const char **ret, struct err *e) {
        *ret = text && *text ? form_strdup(form, text) : NULL;
        return *ret || !text || !*text ? 0 : err_no_memory(e);
}

static int parse_call(
        struct form *form, struct fields *fields, const json_t *value, struct err *e) {
        json_t *function = NULL, *arguments = NULL;
        const char *id = NULL, *name = NULL;
        struct confab_call *call;
        int r = fields_be_object(fields, value, e);

        if (r == 0)
                r = fields_string(fields, value, "id", &id, e);
        if (r == 0)
                r = fields_object(fields, value, "function", &function, e);
        if (r == 0 && !function)
                r = fields_wrong(fields, "function", "given", e);
        if (r < 0)
                return r;
        fields_enter_name(fields, "function");
        r = fields_string(fields, function, "name", &name, e);
        if (r == 0 && (!name || !*name))
                r = fields_wrong(fields, "name", "given", e);
        if (r == 0)
                r = fields_object(fields, function, "arguments", &arguments, e);
        if (r < 0)
                return r;
        call = form_add_call(form);
        if (!call)
                return err_no_memory(e);
        r = copy_text(form, id, &call->id, e);
        if (r == 0)
                r = copy_text(form, name, &call->name, e);
        if (r < 0)
                return r;
        return arguments ? form_dump(form, arguments, &call->arguments, e) : 0;
}

static int parse_calls(
        struct form *form, struct fields *fields, const json_t *message, struct err *e) {
        json_t *calls = NULL, *call;
        size_t i;
        int r = fields_array(fields, message, "tool_calls", &calls, e);

        json_array_foreach(calls, i, call) {
                size_t length = fields_enter(fields, "tool_calls", i);

                r = parse_call(form, fields, call, e);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return r;
}

static int parse_assistant(struct form *form, struct fields *fields, const json_t *value,
        const char *content, struct err *e) {
        struct confab_message *message = form_add_message(form, CONFAB_ROLE_ASSISTANT);
        const char *thinking = NULL;
        int r;

        if (!message)
                return err_no_memory(e);
        message->text = form_strdup(form, content);
        if (!message->text)
                return err_no_memory(e);
        message->text_size = strlen(content);
        r = fields_string(fields, value, "thinking", &thinking, e);
        if (r == 0)
                r = copy_text(form, thinking, &message->reasoning, e);
        return r < 0 ? r : parse_calls(form, fields, value, e);
}

static int parse_result(struct form *form, struct fields *fields, const json_t *value,
        const char *content, struct err *e) {
        const char *id = NULL, *name = NULL;
        struct confab_result *result;
        int r = fields_string(fields, value, "tool_call_id", &id, e);

        if (r == 0)
                r = fields_string(fields, value, "tool_name", &name, e);
        if (r < 0)
                return r;
        result = form_add_message(form, CONFAB_ROLE_TOOL) ? form_add_result(form) : NULL;
        if (!result)
                return err_no_memory(e);
        result->text = form_strdup(form, content);
        if (!result->text)
                return err_no_memory(e);
        r = copy_text(form, id, &result->call_id, e);
        return r < 0 ? r : copy_text(form, name, &result->name, e);
}

static int parse_text(
        struct form *form, enum confab_role role, const char *content, struct err *e) {
        struct confab_message *message = form_add_message(form, role);
        char *copy = message ? form_strdup(form, content) : NULL;

        if (!copy)
                return err_no_memory(e);
        message->text = copy;
        message->text_size = strlen(content);
        return 0;
}

static int parse_message(
        struct form *form, struct fields *fields, const json_t *value, struct err *e) {
        const char *role = NULL, *content = NULL;
        int r = fields_be_object(fields, value, e);

        if (r == 0)
                r = fields_string(fields, value, "role", &role, e);
        if (r == 0)
                r = fields_string(fields, value, "content", &content, e);
        if (r == 0)
                r = ollama_refuse_images(fields, value, e);
        if (r < 0)
                return r;
        content = content ? content : "";
        if (role && strcmp(role, "user") == 0)
                return parse_text(form, CONFAB_ROLE_USER, content, e);
        if (role && strcmp(role, "system") == 0)
                return parse_text(form, CONFAB_ROLE_SYSTEM, content, e);
        if (role && strcmp(role, "assistant") == 0)
                return parse_assistant(form, fields, value, content, e);
        if (role && strcmp(role, "tool") == 0)
                return parse_result(form, fields, value, content, e);
        return fields_wrong(fields, "role", "system, user, assistant or tool", e);
}

int ollama_parse_messages(
        struct form *form, struct fields *fields, json_t *messages, struct err *e) {
        json_t *message;
        size_t i;

        json_array_foreach(messages, i, message) {
                size_t length = fields_enter(fields, "messages", i);
                int r = parse_message(form, fields, message, e);

                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return 0;
}
