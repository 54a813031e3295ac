/* SPDX-License-Identifier: MIT */
/*
 * Items of an input as messages of a form.
 *
 *   message                   user, system (developer), or text of the assistant; parts of text are one text
 *   reasoning, function_call  of the assistant
 *   function_call_output      a result
 *   item_reference            what the item says, if it is known
 *
 * What the assistant says in items that follow each other is one message, as far as the order stays: reasoning, text,
 * calls. So it is when the daemon has made it, and Find compares it. Ids that items have are theirs: nobody asks for
 * them, since the text is there. Items of types that only OpenAI's own tools make are refused with their path.
 */
#include "base/utf8.h"
#include "base/util.h"
#include "client/gateway/form-json.h"
#include "client/gateway/responses.h"
#include <stdlib.h>
#include <string.h>

struct reader {
        struct form *form;
        struct fields *fields;
        const struct responses_known *known;
        size_t n_references; /* read so far */
        struct err *e;
};

/* ---- messages ---- */

/* The assistant's message that goes on with reasoning, text or a call: the last one, or a new one. */
static struct confab_message *assistant(struct form *form, enum responses_id_kind kind) {
        struct form_fields *fields = form_fields(form);
        struct confab_message *last =
                fields->n_messages > 0 ? &fields->messages[fields->n_messages - 1] : NULL;
        bool goes_on = last && last->role == CONFAB_ROLE_ASSISTANT;

        if (goes_on && kind == RESPONSES_ID_REASONING)
                goes_on = false;
        if (goes_on && kind == RESPONSES_ID_MESSAGE)
                goes_on = !last->text && last->n_calls == 0;
        return goes_on ? last : form_add_message(form, CONFAB_ROLE_ASSISTANT);
}

static int add_text(struct form *form, const struct responses_item *item, struct err *e) {
        bool ours = item->role == CONFAB_ROLE_ASSISTANT;
        struct confab_message *to;
        char *text;

        if (ours && item->text_size == 0)
                return 0; /* clients keep them after streams that broke */
        to = ours ? assistant(form, RESPONSES_ID_MESSAGE) : form_add_message(form, item->role);
        text = form_text(form, item->text, item->text_size);
        if (!to || !text)
                return err_no_memory(e);
        to->text = text;
        to->text_size = item->text_size;
        return 0;
}

static int add_reasoning(struct form *form, const struct responses_item *item, struct err *e) {
        struct confab_message *to;
        char *text;

        if (item->text_size == 0)
                return 0;
        to = assistant(form, RESPONSES_ID_REASONING);
        text = form_text(form, item->text, item->text_size);
        if (!to || !text)
                return err_no_memory(e);
        to->reasoning = text;
        return 0;
}

static int add_call(struct form *form, const struct responses_item *item, struct err *e) {
        struct confab_message *to = assistant(form, RESPONSES_ID_CALL);
        struct confab_call *call = to ? form_add_call(form) : NULL;

        if (!call)
                return err_no_memory(e);
        call->id = item->call_id ? form_strdup(form, item->call_id) : NULL;
        call->name = form_strdup(form, item->name ? item->name : "");
        call->arguments = item->text_size > 0 ? form_text(form, item->text, item->text_size)
                                              : form_strdup(form, "{}");
        if (!call->name || !call->arguments || (item->call_id && !call->id))
                return err_no_memory(e);
        return 0;
}

static int add_result(struct form *form, const struct responses_item *item, struct err *e) {
        struct form_fields *fields = form_fields(form);
        size_t n = fields->n_messages;
        struct confab_result *result;

        if (n == 0 || fields->messages[n - 1].role != CONFAB_ROLE_TOOL)
                if (!form_add_message(form, CONFAB_ROLE_TOOL))
                        return err_no_memory(e);
        result = form_add_result(form);
        if (!result)
                return err_no_memory(e);
        result->text = form_text(form, item->text, item->text_size);
        result->call_id = form_strdup(form, item->call_id ? item->call_id : "");
        return result->text && result->call_id ? 0 : err_no_memory(e);
}

int responses_add_item(struct form *form, const struct responses_item *item, struct err *e) {
        switch (item->id.kind) {
        case RESPONSES_ID_REASONING:
                return add_reasoning(form, item, e);
        case RESPONSES_ID_CALL:
                return add_call(form, item, e);
        case RESPONSES_ID_RESULT:
                return add_result(form, item, e);
        case RESPONSES_ID_MESSAGE:
        case RESPONSES_ID_RESPONSE:
        case RESPONSES_ID_CONVERSATION:
                break;
        }
        return add_text(form, item, e);
}

int responses_add_instructions(struct form *form, const char *text, struct err *e) {
        const struct responses_item item = {.id = {.kind = RESPONSES_ID_MESSAGE},
                .role = CONFAB_ROLE_SYSTEM,
                .text = text,
                .text_size = strlen(text)};

        return responses_add_item(form, &item, e);
}

/* ---- contents ---- */

static int read_part(struct reader *reader, const json_t *part, struct buf *text) {
        static const struct {
                const char *type, *field;
        } texts[] = {{"input_text", "text"}, {"output_text", "text"}, {"text", "text"},
                {"summary_text", "text"}, {"reasoning_text", "text"}, {"refusal", "refusal"}};
        struct fields *fields = reader->fields;
        const char *type = NULL, *field = NULL, *said = NULL;
        int r = fields_be_object(fields, part, reader->e);

        if (r == 0)
                r = fields_string(fields, part, "type", &type, reader->e);
        for (size_t i = 0; r == 0 && type && i < ARRAY_SIZE(texts); i++)
                if (strcmp(type, texts[i].type) == 0)
                        field = texts[i].field;
        if (r < 0)
                return r;
        if (type && !field && strncmp(type, "input_", 6) == 0)
                return openai_unsupported(fields, "",
                        "the model takes neither images nor audio nor files", reader->e);
        if (!field)
                return fields_wrong(fields, "type", "a known type of content", reader->e);
        r = fields_string(fields, part, field, &said, reader->e);
        if (r < 0)
                return r;
        if (!said)
                return fields_wrong(fields, field, "a string", reader->e);
        return buf_append_str(text, said) < 0 ? err_no_memory(reader->e) : 0;
}

/* Parts one behind the other, with @between. */
static int read_parts(struct reader *reader, const json_t *parts, const char *name,
        const char *between, struct buf *text) {
        json_t *part;
        size_t i;

        if (json_array_size(parts) > OPENAI_MAX_CONTENT_PARTS)
                return fields_wrong(reader->fields, name, "of at most 4096 parts", reader->e);
        json_array_foreach(parts, i, part) {
                size_t length = fields_enter(reader->fields, name, i);
                int r = 0;

                if (i > 0 && buf_append_str(text, between) < 0)
                        return err_no_memory(reader->e);
                r = read_part(reader, part, text);
                if (r < 0)
                        return r;
                fields_leave(reader->fields, length);
        }
        return 0;
}

/* A string, or parts. 1: there is nothing. */
static int read_content(
        struct reader *reader, const json_t *item, const char *name, struct buf *text) {
        json_t *content = json_object_get(item, name);
        const char *said;
        int r;

        if (json_is_array(content))
                return read_parts(reader, content, name, "", text);
        if (content && !json_is_null(content) && !json_is_string(content))
                return fields_wrong(
                        reader->fields, name, "a string or an array of parts", reader->e);
        r = fields_string(reader->fields, item, name, &said, reader->e);
        if (r < 0)
                return r;
        if (!said)
                return 1;
        return buf_append_str(text, said) < 0 ? err_no_memory(reader->e) : 0;
}

/* ---- items ---- */

static int add(struct reader *reader, struct responses_item *item, const struct buf *text) {
        item->text = text->size > 0 ? (const char *)text->data : "";
        item->text_size = text->size;
        return responses_add_item(reader->form, item, reader->e);
}

static int read_message(struct reader *reader, const json_t *item) {
        static const struct {
                const char *name;
                enum confab_role role;
        } roles[] = {{"user", CONFAB_ROLE_USER}, {"assistant", CONFAB_ROLE_ASSISTANT},
                {"system", CONFAB_ROLE_SYSTEM}, {"developer", CONFAB_ROLE_SYSTEM}};
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        struct responses_item to = {.id = {.kind = RESPONSES_ID_MESSAGE}};
        const char *role;
        int r = fields_string(reader->fields, item, "role", &role, reader->e);

        if (r < 0)
                return r;
        for (size_t i = 0; role && i < ARRAY_SIZE(roles); i++)
                if (strcmp(role, roles[i].name) == 0)
                        to.role = roles[i].role;
        if (to.role == CONFAB_ROLE_NONE)
                return fields_wrong(reader->fields, "role",
                        "one of user, assistant, system, developer", reader->e);
        r = read_content(reader, item, "content", &text);
        if (r > 0 && to.role != CONFAB_ROLE_ASSISTANT)
                return fields_wrong(
                        reader->fields, "content", "a string or an array of parts", reader->e);
        return r < 0 ? r : add(reader, &to, &text);
}

/* Its content, or where there is none the summary. */
static int read_reasoning(struct reader *reader, const json_t *item) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        struct responses_item to = {.id = {.kind = RESPONSES_ID_REASONING}};
        json_t *summary;
        int r = read_content(reader, item, "content", &text);

        if (r >= 0 && text.size == 0) {
                r = fields_array(reader->fields, item, "summary", &summary, reader->e);
                if (r == 0 && summary)
                        r = read_parts(reader, summary, "summary", "\n\n", &text);
        }
        return r < 0 ? r : add(reader, &to, &text);
}

static int read_call(struct reader *reader, const json_t *item) {
        struct responses_item to = {.id = {.kind = RESPONSES_ID_CALL}};
        int r = fields_string(reader->fields, item, "name", &to.name, reader->e);

        if (r == 0)
                r = fields_string(reader->fields, item, "call_id", &to.call_id, reader->e);
        if (r == 0)
                r = fields_string(reader->fields, item, "arguments", &to.text, reader->e);
        if (r < 0)
                return r;
        if (!to.name || !to.name[0])
                return fields_wrong(reader->fields, "name", "a name", reader->e);
        if (!to.call_id)
                return fields_wrong(reader->fields, "call_id", "a string", reader->e);
        to.text_size = to.text ? strlen(to.text) : 0;
        return responses_add_item(reader->form, &to, reader->e);
}

static int read_result(struct reader *reader, const json_t *item) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        struct responses_item to = {.id = {.kind = RESPONSES_ID_RESULT}};
        int r = fields_string(reader->fields, item, "call_id", &to.call_id, reader->e);

        if (r < 0)
                return r;
        if (!to.call_id)
                return fields_wrong(reader->fields, "call_id", "a string", reader->e);
        r = read_content(reader, item, "output", &text);
        if (r > 0)
                return fields_wrong(
                        reader->fields, "output", "a string or an array of parts", reader->e);
        return r < 0 ? r : add(reader, &to, &text);
}

/* ---- references ---- */

/* An item of that type, or one that has an id and nothing else. 1: it is one, and *ret its id. */
static int is_reference(
        struct fields *fields, const json_t *item, const char **ret, struct err *e) {
        const char *type;
        int r = fields_string(fields, item, "type", &type, e);

        if (r < 0)
                return r;
        if (type ? strcmp(type, "item_reference") != 0 : json_object_get(item, "role") != NULL)
                return 0;
        if (!type && !json_object_get(item, "id"))
                return 0;
        r = fields_string(fields, item, "id", ret, e);
        if (r == 0 && !*ret)
                r = fields_wrong(fields, "id", "a string", e);
        return r < 0 ? r : 1;
}

static int read_reference(struct reader *reader, const char *text) {
        const struct responses_known *known = reader->known;
        struct responses_id id;
        size_t i = reader->n_references++;

        if (!known || i >= known->n || responses_id_decode(&id, text) < 0) {
                fields_wrong(reader->fields, "id", "known", NULL);
                return err_set(reader->e, ERR_NOT_FOUND, "there is no item %.150s", text);
        }
        return responses_add_item(reader->form, &known->items[i], reader->e);
}

static int read_item(struct reader *reader, const json_t *item) {
        const char *type, *id = NULL;
        int r = fields_be_object(reader->fields, item, reader->e);

        if (r == 0)
                r = is_reference(reader->fields, item, &id, reader->e);
        if (r != 0)
                return r < 0 ? r : read_reference(reader, id);
        r = fields_string(reader->fields, item, "type", &type, reader->e);
        if (r < 0)
                return r;
        if (!type || strcmp(type, "message") == 0)
                return read_message(reader, item);
        if (strcmp(type, "reasoning") == 0)
                return read_reasoning(reader, item);
        if (strcmp(type, "function_call") == 0)
                return read_call(reader, item);
        if (strcmp(type, "function_call_output") == 0)
                return read_result(reader, item);
        return openai_unsupported(
                reader->fields, "type", "items of this type are not known here", reader->e);
}

/* ---- all of them ---- */

/* The array, or NULL if there is none. */
static int get_items(
        struct fields *fields, const json_t *root, const char *name, json_t **ret, struct err *e) {
        json_t *value = json_object_get(root, name);

        *ret = NULL;
        if (!value || json_is_null(value) || json_is_string(value))
                return 0;
        if (!json_is_array(value))
                return fields_wrong(fields, name, "a string or an array of items", e);
        if (json_array_size(value) > RESPONSES_MAX_ITEMS)
                return fields_wrong(fields, name, "an array of at most 65536 items", e);
        *ret = value;
        return 0;
}

int responses_read_input(struct form *form, struct fields *fields, const json_t *root,
        const char *name, size_t from, const struct responses_known *known, struct err *e) {
        struct reader reader = {.form = form, .fields = fields, .known = known, .e = e};
        struct responses_item text = {
                .id = {.kind = RESPONSES_ID_MESSAGE}, .role = CONFAB_ROLE_USER};
        json_t *items, *item;
        size_t i;
        int r = get_items(fields, root, name, &items, e);

        if (r == 0 && !items)
                r = fields_string(fields, root, name, &text.text, e);
        if (r < 0)
                return r;
        if (text.text) {
                text.text_size = strlen(text.text);
                return responses_add_item(form, &text, e);
        }
        json_array_foreach(items, i, item) {
                size_t length;

                if (i < from)
                        continue;
                length = fields_enter(fields, name, i);
                r = read_item(&reader, item);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return 0;
}

/* The id of one reference. 1: it is one; 0: another item. */
static int read_id(
        struct fields *fields, const json_t *item, struct responses_id *ret, struct err *e) {
        const char *text = NULL;
        int r = fields_be_object(fields, item, e);

        if (r == 0)
                r = is_reference(fields, item, &text, e);
        if (r <= 0)
                return r;
        if (responses_id_decode(ret, text) < 0 || !responses_id_is_item(ret)) {
                fields_wrong(fields, "id", "known", NULL);
                return err_set(e, ERR_NOT_FOUND, "there is no item %.150s", text);
        }
        return 1;
}

int responses_read_references(struct fields *fields, const json_t *root, struct responses_id **ret,
        size_t *ret_n, struct err *e) {
        _cleanup_(freep) struct responses_id *ids = NULL;
        json_t *items, *item;
        size_t n = 0, i;
        int r = get_items(fields, root, "input", &items, e);

        if (r < 0)
                return r;
        ids = calloc(
                MIN(json_array_size(items), (size_t)RESPONSES_MAX_REFERENCES) + 1, sizeof(*ids));
        if (!ids)
                return err_no_memory(e);
        json_array_foreach(items, i, item) {
                size_t length = fields_enter(fields, "input", i);

                r = read_id(fields, item, &ids[n], e);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
                n += r > 0;
                if (n > RESPONSES_MAX_REFERENCES)
                        return fields_wrong(
                                fields, "input", "an array of at most 1024 references", e);
        }
        *ret = TAKE_PTR(ids);
        *ret_n = n;
        return 0;
}

size_t responses_leading_references(const json_t *root) {
        struct fields fields = FIELDS_NULL;
        struct responses_id last = {0}, id;
        json_t *items = json_object_get(root, "input"), *item;
        size_t i;

        if (!json_is_array(items))
                return 0;
        json_array_foreach(items, i, item) {
                if (read_id(&fields, item, &id, NULL) <= 0)
                        return i;
                if (i > 0 && (id.daemon != last.daemon || id.conversation != last.conversation ||
                                     id.turn < last.turn ||
                                     (id.turn == last.turn && id.part <= last.part)))
                        return 0;
                last = id;
        }
        return i;
}
