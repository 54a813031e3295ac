/* SPDX-License-Identifier: MIT */
#include "client/gateway/own-read.h"
#include "base/util.h"
#include "client/gateway/form-json.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOAT_LIMIT 1e30

/* ---- types ---- */

static int read_word(struct own_reader *reader, const struct own_field *field, const json_t *object,
        int *ret, struct err *e) {
        const char *text = NULL;
        char what[100] = "one of";
        int r = fields_string(reader->fields, object, field->name, &text, e);

        if (r < 0)
                return r;
        for (int i = 0; field->words[i]; i++) {
                size_t n = strlen(what);

                if (strcmp(text, field->words[i]) == 0) {
                        *ret = i + 1;
                        return 0;
                }
                snprintf(what + n, sizeof(what) - n, "%s %s", i > 0 ? "," : "", field->words[i]);
        }
        return fields_wrong(reader->fields, field->name, what, e);
}

/* A whole number up to @max, or such a float. */
static int read_number(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *at, struct err *e) {
        int64_t max = field->type == OWN_U32 ? UINT32_MAX : INT64_MAX, number = 0;
        double real = 0;
        int r;

        if (field->type == OWN_FLOAT) {
                r = fields_number(reader->fields, object, field->name, -FLOAT_LIMIT, FLOAT_LIMIT,
                        &real, NULL, e);
                *(float *)at = (float)real;
                return r;
        }
        r = fields_integer(reader->fields, object, field->name, 0, max, &number, NULL, e);
        if (field->type == OWN_U32)
                *(uint32_t *)at = (uint32_t)number;
        else
                *(uint64_t *)at = (uint64_t)number;
        return r;
}

static int read_field(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        void *at = (char *)base + field->at;

        switch (field->type) {
        case OWN_FLAG:
                return fields_bool(reader->fields, object, field->name, at, e);
        case OWN_U32:
        case OWN_U64:
        case OWN_FLOAT:
                return read_number(reader, field, object, at, e);
        case OWN_TEXT:
                return fields_string(reader->fields, object, field->name, at, e);
        case OWN_WORD:
                return read_word(reader, field, object, at, e);
        case OWN_OTHER:
                break;
        }
        return field->read(reader, field, object, base, e);
}

static void note(const struct own_field *field, void *base) {
        void *has = (char *)base + field->has;

        if (field->bit)
                *(uint32_t *)has |= field->bit;
        else if (field->has)
                *(bool *)has = true;
}

static bool is_there(const json_t *object, const char *name) {
        const json_t *value = json_object_get(object, name);

        return value && !json_is_null(value);
}

int own_read_table(struct own_reader *reader, const struct own_field *table, enum confab_verb verb,
        const json_t *object, void *base, struct err *e) {
        for (const struct own_field *field = table; field->name; field++) {
                int r;

                if ((verb && !(field->verbs & 1u << verb)) || !is_there(object, field->name))
                        continue;
                r = read_field(reader, field, object, base, e);
                if (r < 0)
                        return r;
                note(field, base);
        }
        return 0;
}

int own_take_input(
        struct own_reader *reader, const char *name, enum confab_input input, struct err *e) {
        if (reader->input) {
                snprintf(reader->fields->wrong, sizeof(reader->fields->wrong), "%s", name);
                return err_set(e, ERR_INVALID,
                        "%s and %s are both given, and a request has one input", reader->input,
                        name);
        }
        reader->input = name;
        reader->asked->request.input = input;
        return 0;
}

int own_read_json(struct own_reader *reader, const json_t *object, const char *name,
        const char **ret, struct err *e) {
        const json_t *value = json_object_get(object, name);

        if (!value || json_is_null(value)) {
                *ret = NULL;
                return 0;
        }
        if (json_is_string(value))
                return fields_string(reader->fields, object, name, ret, e);
        if (!json_is_object(value) && !json_is_array(value) && !json_is_boolean(value))
                return fields_wrong(reader->fields, name, "JSON, or JSON as a string", e);
        return form_dump(reader->memory, value, ret, e);
}

/* ---- bodies ---- */

int own_read(struct form *memory, struct fields *fields, enum confab_verb verb, const json_t *body,
        struct own_asked *ret, struct err *e) {
        struct own_reader reader = {.memory = memory, .fields = fields, .asked = ret};
        int r;

        *ret = (struct own_asked){.request = {.size = sizeof(ret->request), .verb = verb}};
        r = own_read_table(&reader, own_fields, verb, body, ret, e);
        if (r == 0 && verb == CONFAB_CONTINUE && !reader.input)
                return err_set(e, ERR_INVALID,
                        "there is no input: message, messages, results, given, raw, tokens, or "
                        "\"nothing\": true");
        return r;
}

/* ---- queries ---- */

/* 1: it is a text. */
static int value_of(json_t **ret, const struct own_field *field, const char *text) {
        size_t n = strlen(text);

        switch (field->type) {
        case OWN_FLAG:
                if (n == 0 || strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
                        *ret = json_true();
                else if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
                        *ret = json_false();
                else
                        return 1;
                return 0;
        case OWN_U32:
        case OWN_U64:
                if (n == 0 || n > 18 || strspn(text, "0123456789") < n)
                        return 1;
                *ret = json_integer(strtoll(text, NULL, 10));
                return *ret ? 0 : -ERR_NOMEM;
        case OWN_OTHER: /* a list, or a flag that stands for something else */
                return fields_parse_value(ret, text);
        default:
                return 1;
        }
}

static int add_parameter(json_t *body, const struct own_field *field, const char *text) {
        json_t *value = NULL;
        int r = value_of(&value, field, text);

        if (r > 0)
                value = json_string(text);
        if (r < 0 || !value)
                return -ERR_NOMEM;
        return json_object_set_new(body, field->name, value) < 0 ? -ERR_NOMEM : 0;
}

int own_read_query(json_t **ret, enum confab_verb verb,
        const char *(*get)(void *userdata, const char *name), void *userdata, struct err *e) {
        json_t *body = json_object();

        for (const struct own_field *field = own_fields; body && field->name; field++) {
                const char *text = field->verbs & 1u << verb ? get(userdata, field->name) : NULL;

                if (text && add_parameter(body, field, text) < 0) {
                        json_decref(body);
                        body = NULL;
                }
        }
        if (!body)
                return err_no_memory(e);
        *ret = body;
        return 0;
}

/* ---- places ---- */

/* Digits as a number. */
static bool read_digits(const char *text, size_t n, uint64_t *ret) {
        char *end;

        if (n == 0 || strspn(text, "0123456789") < n)
                return false;
        errno = 0;
        *ret = strtoull(text, &end, 10);
        return end == text + n && errno == 0;
}

int own_read_ref(const char *text, struct confab_request *request) {
        size_t n = strlen(text);

        if (strspn(text, "0123456789") < n) {
                request->conversation = text;
                return 0;
        }
        return !read_digits(text, n, &request->conversation_id) || request->conversation_id == 0;
}

int own_read_place(const char *text, struct confab_request *request, struct err *e) {
        size_t n = strcspn(text, "-");
        const char *rest = text + n;
        uint64_t revision, position = 0;

        if (!read_digits(text, n, &revision))
                goto wrong;
        if (strcmp(rest, "-end") == 0)
                return 1;
        if (*rest && (!read_digits(rest + 1, strlen(rest + 1), &position) || position > UINT32_MAX))
                goto wrong;
        request->has_expect_revision = true;
        request->expect_revision = revision;
        request->has_at_position = *rest != '\0';
        request->at_position = (uint32_t)position;
        return 0;
wrong:
        return err_set(e, ERR_INVALID, "Last-Event-ID is not an id that a reply's events have");
}
