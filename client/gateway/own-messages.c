/* SPDX-License-Identifier: MIT */
/*
 * Inputs that are lists, in the form in which the daemon tells turns:
 *
 *      {"role": "user", "text": "..."}
 *      {"role": "assistant", "text": "...", "reasoning": "...", "calls": [{"id", "name", "arguments"}]}
 *      {"role": "tool", "results": [{"call_id", "name", "content"}]}
 *
 * `results` of a request are those of one such message, `given` is one of the assistant. Arguments are an object, or its text.
 */
#include "base/util.h"
#include "client/gateway/own-read.h"
#include <string.h>

static int read_call(
        struct own_reader *reader, const json_t *item, struct confab_call *call, struct err *e) {
        int r = fields_be_object(reader->fields, item, e);

        if (r == 0)
                r = fields_string(reader->fields, item, "id", &call->id, e);
        if (r == 0)
                r = fields_string(reader->fields, item, "name", &call->name, e);
        if (r == 0 && !call->name)
                r = fields_wrong(reader->fields, "name", "given", e);
        if (r == 0)
                r = own_read_json(reader, item, "arguments", &call->arguments, e);
        return r;
}

static int read_result(struct own_reader *reader, const json_t *item, struct confab_result *result,
        struct err *e) {
        int r = fields_be_object(reader->fields, item, e);

        if (r == 0)
                r = fields_string(reader->fields, item, "call_id", &result->call_id, e);
        if (r == 0 && !result->call_id)
                r = fields_wrong(reader->fields, "call_id", "given", e);
        if (r == 0)
                r = fields_string(reader->fields, item, "name", &result->name, e);
        if (r == 0)
                r = fields_string(reader->fields, item, "content", &result->text, e);
        if (r == 0 && !result->text)
                r = fields_wrong(reader->fields, "content", "given", e);
        return r;
}

/* The calls or results of the form's last message. */
static int read_items(struct own_reader *reader, const json_t *object, const char *name,
        bool are_calls, struct err *e) {
        json_t *list = NULL;
        int r = fields_array(reader->fields, object, name, &list, e);

        for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
                size_t length = fields_enter(reader->fields, name, i);
                void *item = are_calls ? (void *)form_add_call(reader->memory)
                                       : (void *)form_add_result(reader->memory);

                if (!item)
                        return err_no_memory(e);
                r = are_calls ? read_call(reader, json_array_get(list, i), item, e)
                              : read_result(reader, json_array_get(list, i), item, e);
                fields_leave(reader->fields, length);
        }
        return r;
}

static const struct own_field role_field[] = {
        {"role", OWN_WORD, .at = offsetof(struct confab_message, role), .words = own_roles}, {}};

/* What a message of the assistant, or of any role, has beside results. */
static int read_said(struct own_reader *reader, const json_t *object,
        struct confab_message *message, struct err *e) {
        const char *text = NULL;
        int r = fields_string(reader->fields, object, "text", &text, e);

        if (r == 0)
                r = fields_string(reader->fields, object, "reasoning", &message->reasoning, e);
        message->text = text;
        message->text_size = text ? strlen(text) : 0;
        return r < 0 ? r : read_items(reader, object, "calls", true, e);
}

static int read_message(struct own_reader *reader, const json_t *item, struct err *e) {
        struct confab_message *message = form_add_message(reader->memory, CONFAB_ROLE_NONE);
        int r;

        if (!message)
                return err_no_memory(e);
        r = fields_be_object(reader->fields, item, e);
        if (r == 0)
                r = own_read_table(reader, role_field, 0, item, message, e);
        if (r == 0 && !message->role)
                r = fields_wrong(reader->fields, "role", "given", e);
        if (r == 0)
                r = read_said(reader, item, message, e);
        return r < 0 ? r : read_items(reader, item, "results", false, e);
}

int own_read_messages(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        json_t *list = NULL;
        int r = fields_array(reader->fields, object, field->name, &list, e);

        if (r == 0 && request->verb == CONFAB_CONTINUE)
                r = own_take_input(reader, field->name, CONFAB_INPUT_MESSAGES, e);
        for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
                size_t length = fields_enter(reader->fields, field->name, i);

                r = read_message(reader, json_array_get(list, i), e);
                fields_leave(reader->fields, length);
        }
        request->messages = form_fields(reader->memory)->messages;
        request->n_messages = form_fields(reader->memory)->n_messages;
        return r;
}

/* The lists of results and given are those of a message that the form alone knows. */

int own_read_results(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        struct confab_message *message;
        int r = own_take_input(reader, field->name, CONFAB_INPUT_RESULTS, e);

        if (r < 0)
                return r;
        message = form_add_message(reader->memory, CONFAB_ROLE_TOOL);
        if (!message)
                return err_no_memory(e);
        r = read_items(reader, object, field->name, false, e);
        request->results = message->results;
        request->n_results = message->n_results;
        return r;
}

int own_read_given(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        struct confab_message *message;
        json_t *given = NULL;
        size_t length;
        int r = fields_object(reader->fields, object, field->name, &given, e);

        if (r == 0)
                r = own_take_input(reader, field->name, CONFAB_INPUT_GIVEN, e);
        if (r < 0)
                return r;
        message = form_add_message(reader->memory, CONFAB_ROLE_ASSISTANT);
        if (!message)
                return err_no_memory(e);
        length = fields_enter_name(reader->fields, field->name);
        r = read_said(reader, given, message, e);
        fields_leave(reader->fields, length);
        request->text = message->text;
        request->text_size = message->text_size;
        request->reasoning = message->reasoning;
        request->calls = message->calls;
        request->n_calls = message->n_calls;
        return r;
}
