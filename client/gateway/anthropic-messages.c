/* SPDX-License-Identifier: MIT */
/*
 * `system` and `messages` of Anthropic's dialect to messages of a form.
 *
 * The same history has to become the same messages each time it is sent, however its clients vary it:
 *
 * 1. A string and a list with one block of that text are the same. Texts of several blocks of a message follow each
 *    other with nothing between them, as parts of replies do; those of `system`, which are texts of their own, with a
 *    line break. Marks (cache_control) and citations are not read.
 * 2. A message of the user with results of tools becomes a message of tools, and behind it one of the user with its
 *    text, if it has any. Results come first, whatever the order of the blocks, for they answer the message before.
 * 3. A failed result (is_error) says so to the model in words: "Error: " is put in front, unless it is there.
 * 4. Thinking that is sent back is the message's reasoning, whoever signed it: if it is not what the model
 *    thought, Find sees the difference. Redacted thinking, which nobody can read, is left out.
 * 5. Claude Code begins `system` with a line for Anthropic's accounting, whose checksum is another one in each session.
 *    It is not told to the model: the sessions would have no beginning in common, and each would compute its system
 *    message and its tools anew.
 */
#include "base/buf.h"
#include "client/gateway/anthropic.h"
#include "client/gateway/form-json.h"
#include <string.h>

#define ERROR_WORD "Error: "
#define BILLING "x-anthropic-billing-header:"

/* What the blocks of one message say, until it is whole. */
struct said {
        struct buf text, reasoning;
        bool has_text;
};

static void said_deinit(struct said *said) {
        buf_deinit(&said->text);
        buf_deinit(&said->reasoning);
}

static int put(struct buf *out, const char *text, struct err *e) {
        return buf_append_str(out, text) < 0 ? err_no_memory(e) : 0;
}

/* A block's field of a text that must be there. */
static int put_field(struct buf *out, struct fields *fields, const json_t *block, const char *name,
        struct err *e) {
        const char *text = NULL;
        int r = fields_string(fields, block, name, &text, e);

        if (r == 0 && !text)
                r = fields_wrong(fields, name, "given", e);
        return r < 0 ? r : put(out, text, e);
}

static int block_type(struct fields *fields, const json_t *block, const char **ret, struct err *e) {
        int r = fields_be_object(fields, block, e);

        if (r == 0)
                r = fields_string(fields, block, "type", ret, e);
        if (r == 0 && !*ret)
                r = fields_wrong(fields, "type", "given", e);
        return r;
}

/* A value that is a string or a list of text blocks, joined by @between. */
static int put_texts(struct buf *out, struct fields *fields, const json_t *object, const char *name,
        const char *between, struct err *e) {
        json_t *value = json_object_get(object, name), *blocks = NULL, *block;
        size_t i;
        int r;

        if (json_is_string(value))
                return put_field(out, fields, object, name, e);
        if (value && !json_is_null(value) && !json_is_array(value))
                return fields_wrong(fields, name, "a string or an array of blocks", e);
        r = fields_array(fields, object, name, &blocks, e);
        json_array_foreach(blocks, i, block) {
                size_t length = fields_enter(fields, name, i);
                const char *type = NULL;

                r = block_type(fields, block, &type, e);
                if (r == 0 && strcmp(type, "text") != 0)
                        r = fields_wrong(
                                fields, "type", "text, which is all that confab takes here", e);
                if (r == 0 && i > 0)
                        r = put(out, between, e);
                if (r == 0)
                        r = put_field(out, fields, block, "text", e);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return r;
}

/* One more message of @role with this text. */
static int add_text(
        struct form *form, enum confab_role role, const struct buf *text, struct err *e) {
        struct confab_message *message = form_add_message(form, role);
        char *copy = message ? form_text(form, text->data, text->size) : NULL;

        if (!copy)
                return err_no_memory(e);
        message->text = copy;
        message->text_size = text->size;
        return 0;
}

/* "Error: " in front of the text of a failed result. */
static int put_error_word(struct buf *text, struct err *e) {
        const size_t n = strlen(ERROR_WORD);
        struct buf whole = BUF_NULL;

        if (text->size >= n && memcmp(text->data, ERROR_WORD, n) == 0)
                return 0;
        if (buf_append(&whole, ERROR_WORD, n) < 0 ||
                buf_append(&whole, text->data, text->size) < 0) {
                buf_deinit(&whole);
                return err_no_memory(e);
        }
        buf_deinit(text);
        *text = whole;
        return 0;
}

static int parse_result(
        struct form *form, struct fields *fields, const json_t *block, struct err *e) {
        struct buf text = BUF_NULL;
        struct confab_result *result;
        const char *id = NULL;
        bool failed = false;
        int r = fields_string(fields, block, "tool_use_id", &id, e);

        if (r == 0 && (!id || !*id))
                r = fields_wrong(fields, "tool_use_id", "given", e);
        if (r == 0)
                r = fields_bool(fields, block, "is_error", &failed, e);
        if (r == 0)
                r = put_texts(&text, fields, block, "content", "", e);
        if (r == 0 && failed)
                r = put_error_word(&text, e);
        if (r == 0) {
                result = form_add_result(form);
                if (result) {
                        result->call_id = form_strdup(form, id);
                        result->text = form_text(form, text.data, text.size);
                }
                if (!result || !result->call_id || !result->text)
                        r = err_no_memory(e);
        }
        buf_deinit(&text);
        return r;
}

static int parse_call(
        struct form *form, struct fields *fields, const json_t *block, struct err *e) {
        const char *id = NULL, *name = NULL;
        struct confab_call *call;
        json_t *input = NULL;
        int r = fields_string(fields, block, "id", &id, e);

        if (r == 0 && (!id || !*id))
                r = fields_wrong(fields, "id", "given", e);
        if (r == 0)
                r = fields_string(fields, block, "name", &name, e);
        if (r == 0 && (!name || !*name))
                r = fields_wrong(fields, "name", "given", e);
        if (r == 0)
                r = fields_object(fields, block, "input", &input, e);
        if (r < 0)
                return r;
        call = form_add_call(form);
        if (!call)
                return err_no_memory(e);
        call->id = form_strdup(form, id);
        call->name = form_strdup(form, name);
        if (!call->id || !call->name)
                return err_no_memory(e);
        return input ? form_dump(form, input, &call->arguments, e) : 0;
}

/* Blocks of the user: results at once, into a message of tools; texts for later. */
static int parse_user_block(struct form *form, struct fields *fields, const json_t *block,
        struct said *said, bool *in_tools, struct err *e) {
        const char *type = NULL;
        int r = block_type(fields, block, &type, e);

        if (r < 0)
                return r;
        if (strcmp(type, "text") == 0) {
                said->has_text = true;
                return put_field(&said->text, fields, block, "text", e);
        }
        if (strcmp(type, "tool_result") != 0)
                return fields_wrong(fields, "type",
                        "text or tool_result: confab takes no images and no documents", e);
        if (!*in_tools && !form_add_message(form, CONFAB_ROLE_TOOL))
                return err_no_memory(e);
        *in_tools = true;
        return parse_result(form, fields, block, e);
}

static int parse_user(struct form *form, struct fields *fields, json_t *blocks, struct said *said,
        struct err *e) {
        bool in_tools = false;
        json_t *block;
        size_t i;

        json_array_foreach(blocks, i, block) {
                size_t length = fields_enter(fields, "content", i);
                int r = parse_user_block(form, fields, block, said, &in_tools, e);

                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        if (in_tools && !said->has_text)
                return 0;
        return add_text(form, CONFAB_ROLE_USER, &said->text, e);
}

static int parse_assistant_block(struct form *form, struct fields *fields, const json_t *block,
        struct said *said, struct err *e) {
        const char *type = NULL;
        int r = block_type(fields, block, &type, e);

        if (r < 0)
                return r;
        if (strcmp(type, "text") == 0)
                return put_field(&said->text, fields, block, "text", e);
        if (strcmp(type, "thinking") == 0)
                return put_field(&said->reasoning, fields, block, "thinking", e);
        if (strcmp(type, "tool_use") == 0)
                return parse_call(form, fields, block, e);
        if (strcmp(type, "redacted_thinking") == 0)
                return 0;
        return fields_wrong(fields, "type", "text, thinking or tool_use", e);
}

static int parse_assistant(struct form *form, struct fields *fields, json_t *blocks,
        struct said *said, struct err *e) {
        struct confab_message *message = form_add_message(form, CONFAB_ROLE_ASSISTANT);
        json_t *block;
        size_t i;

        if (!message)
                return err_no_memory(e);
        json_array_foreach(blocks, i, block) {
                size_t length = fields_enter(fields, "content", i);
                int r = parse_assistant_block(form, fields, block, said, e);

                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        if (said->reasoning.size > 0) {
                message->reasoning = form_text(form, said->reasoning.data, said->reasoning.size);
                if (!message->reasoning)
                        return err_no_memory(e);
        }
        message->text = form_text(form, said->text.data, said->text.size);
        message->text_size = said->text.size;
        return message->text ? 0 : err_no_memory(e);
}

static int parse_role(
        struct fields *fields, const json_t *message, enum confab_role *ret, struct err *e) {
        const char *role = NULL;
        int r = fields_string(fields, message, "role", &role, e);

        if (r < 0)
                return r;
        if (role && strcmp(role, "user") == 0)
                *ret = CONFAB_ROLE_USER;
        else if (role && strcmp(role, "assistant") == 0)
                *ret = CONFAB_ROLE_ASSISTANT;
        else if (role && strcmp(role, "system") == 0)
                *ret = CONFAB_ROLE_SYSTEM;
        else
                return fields_wrong(fields, "role", "user, assistant or system", e);
        return 0;
}

static int parse_message(
        struct form *form, struct fields *fields, const json_t *message, struct err *e) {
        enum confab_role role = CONFAB_ROLE_NONE;
        struct said said = {0};
        json_t *content;
        int r = fields_be_object(fields, message, e);

        if (r == 0)
                r = parse_role(fields, message, &role, e);
        if (r < 0)
                return r;
        content = json_object_get(message, "content");
        if (!content || json_is_null(content))
                r = fields_wrong(fields, "content", "given", e);
        else if (role != CONFAB_ROLE_SYSTEM && json_is_array(content))
                r = role == CONFAB_ROLE_USER ? parse_user(form, fields, content, &said, e)
                                             : parse_assistant(form, fields, content, &said, e);
        else if ((r = put_texts(&said.text, fields, message, "content", "", e)) == 0)
                r = add_text(form, role, &said.text, e);
        said_deinit(&said);
        return r;
}

static void skip_billing(struct buf *text) {
        const size_t n = strlen(BILLING);
        const char *end;

        if (text->size < n || memcmp(text->data, BILLING, n) != 0)
                return;
        end = memchr(text->data, '\n', text->size);
        buf_consume(text, end ? (size_t)(end + 1 - (const char *)text->data) : text->size);
}

static int parse_system(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        struct buf text = BUF_NULL;
        int r = put_texts(&text, fields, body, "system", "\n", e);

        skip_billing(&text);
        if (r == 0 && text.size > 0)
                r = add_text(form, CONFAB_ROLE_SYSTEM, &text, e);
        buf_deinit(&text);
        return r;
}

int anthropic_parse_messages(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        json_t *messages = NULL, *message;
        size_t i;
        int r = parse_system(form, fields, body, e);

        if (r == 0)
                r = fields_array(fields, body, "messages", &messages, e);
        if (r == 0 && json_array_size(messages) == 0)
                r = fields_wrong(fields, "messages", "an array of at least one message", e);
        json_array_foreach(messages, i, message) {
                size_t length;

                if (r < 0)
                        break;
                length = fields_enter(fields, "messages", i);
                r = parse_message(form, fields, message, e);
                if (r == 0)
                        fields_leave(fields, length);
        }
        return r;
}
