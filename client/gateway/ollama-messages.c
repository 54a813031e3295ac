/* SPDX-License-Identifier: MIT */
/*
 * Messages of Ollama's dialect to those of a form.
 *
 * Results need the id of the call that they answer, and many clients send none: ollama-python drops the ids of calls,
 * and older clients name the function at most. So:
 *
 * 1. A call without an id is given one by its place in its message ("call_0"), in each request the same.
 * 2. A result without an id answers the first call of the last message of the assistant that has no
 *    result yet, of the function that it names if it names one.
 */
#include "client/gateway/form-json.h"
#include "client/gateway/ollama.h"
#include <stdio.h>
#include <string.h>

#define CALLS_MAX 256 /* of one message: the daemon takes no more results */

/* The calls that may be answered now. */
struct asked {
        const struct confab_call *calls; /* [n], the form's */
        size_t n;
        bool answered[CALLS_MAX];
};

static int no_memory(struct err *e) {
        return err_set(e, ERR_NOMEM, "out of memory");
}

int ollama_refuse_images(struct fields *fields, const json_t *object, struct err *e) {
        json_t *images = NULL;
        int r = fields_array(fields, object, "images", &images, e);

        if (r < 0 || json_array_size(images) == 0)
                return r;
        return fields_wrong(fields, "images", "empty: confab takes no images", e);
}

static int parse_call(
        struct form *form, struct fields *fields, const json_t *value, size_t i, struct err *e) {
        json_t *function = NULL, *arguments = NULL;
        const char *id = NULL, *name = NULL;
        struct confab_call *call;
        char place[32];
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
        snprintf(place, sizeof(place), "call_%zu", i);
        call = form_add_call(form);
        if (!call)
                return no_memory(e);
        call->id = form_strdup(form, id && *id ? id : place);
        call->name = form_strdup(form, name);
        if (!call->id || !call->name)
                return no_memory(e);
        return arguments ? form_dump(form, arguments, &call->arguments, e) : 0;
}

static int parse_calls(
        struct form *form, struct fields *fields, const json_t *message, struct err *e) {
        json_t *calls = NULL, *call;
        size_t i;
        int r = fields_array(fields, message, "tool_calls", &calls, e);

        if (json_array_size(calls) > CALLS_MAX)
                return fields_wrong(fields, "tool_calls", "an array of at most 256 calls", e);
        json_array_foreach(calls, i, call) {
                size_t length = fields_enter(fields, "tool_calls", i);

                r = parse_call(form, fields, call, i, e);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return r;
}

static int parse_assistant(struct form *form, struct fields *fields, const json_t *value,
        const char *content, struct asked *asked, struct err *e) {
        struct confab_message *message = form_add_message(form, CONFAB_ROLE_ASSISTANT);
        const char *thinking = NULL;
        int r;

        if (!message)
                return no_memory(e);
        message->text = form_strdup(form, content);
        if (!message->text)
                return no_memory(e);
        message->text_size = strlen(content);
        r = fields_string(fields, value, "thinking", &thinking, e);
        if (r == 0 && thinking && *thinking) {
                message->reasoning = form_strdup(form, thinking);
                if (!message->reasoning)
                        return no_memory(e);
        }
        if (r == 0)
                r = parse_calls(form, fields, value, e);
        *asked = (struct asked){.calls = message->calls, .n = message->n_calls};
        return r;
}

/* The call that a result answers; NULL: none of those that were asked. */
static const struct confab_call *answer(struct asked *asked, const char *id, const char *name) {
        for (size_t i = 0; i < asked->n; i++) {
                const struct confab_call *call = &asked->calls[i];

                if (asked->answered[i] || (id && strcmp(call->id, id) != 0) ||
                        (!id && name && strcmp(call->name, name) != 0))
                        continue;
                asked->answered[i] = true;
                return call;
        }
        return NULL;
}

static int parse_result(struct form *form, struct fields *fields, const json_t *value,
        const char *content, struct asked *asked, struct err *e) {
        const char *id = NULL, *name = NULL;
        const struct confab_call *call;
        struct confab_result *result;
        int r = fields_string(fields, value, "tool_call_id", &id, e);

        if (r == 0)
                r = fields_string(fields, value, "tool_name", &name, e);
        if (r < 0)
                return r;
        call = answer(asked, id && *id ? id : NULL, name && *name ? name : NULL);
        if (!call)
                return fields_wrong(fields, "", "the result of a call that waits for one", e);
        result = form_add_message(form, CONFAB_ROLE_TOOL) ? form_add_result(form) : NULL;
        if (!result)
                return no_memory(e);
        result->call_id = call->id;
        result->text = form_strdup(form, content);
        return result->text ? 0 : no_memory(e);
}

static int parse_text(
        struct form *form, enum confab_role role, const char *content, struct err *e) {
        struct confab_message *message = form_add_message(form, role);
        char *copy = message ? form_strdup(form, content) : NULL;

        if (!copy)
                return no_memory(e);
        message->text = copy;
        message->text_size = strlen(content);
        return 0;
}

static int parse_message(struct form *form, struct fields *fields, const json_t *value,
        struct asked *asked, struct err *e) {
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
                return parse_assistant(form, fields, value, content, asked, e);
        if (role && strcmp(role, "tool") == 0)
                return parse_result(form, fields, value, content, asked, e);
        return fields_wrong(fields, "role", "system, user, assistant or tool", e);
}

int ollama_parse_messages(
        struct form *form, struct fields *fields, json_t *messages, struct err *e) {
        struct asked asked = {0};
        json_t *message;
        size_t i;

        json_array_foreach(messages, i, message) {
                size_t length = fields_enter(fields, "messages", i);
                int r = parse_message(form, fields, message, &asked, e);

                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return 0;
}
