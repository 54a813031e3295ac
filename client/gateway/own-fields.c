/* SPDX-License-Identifier: MIT */
/* The fields of all verbs. A new field of the protocol is a row here, and nothing else. */
#include "base/util.h"
#include "client/gateway/own-read.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define V(verb) (1u << CONFAB_##verb)
#define AT(field) .at = offsetof(struct own_asked, request.field)
#define HAS(field)                                                                                 \
        .at = offsetof(struct own_asked, request.field),                                           \
        .has = offsetof(struct own_asked, request.has_##field)

const char *const own_roles[] = {"system", "user", "assistant", "raw", "tool", NULL};
static const char *const overflows[] = {"error", "shift", NULL};
static const char *const orders[] = {"id", "updated", NULL};

/* ---- parts that verbs share ---- */

#define NUMBER(field, BIT)                                                                         \
        .at = offsetof(struct confab_sampling, field),                                             \
        .has = offsetof(struct confab_sampling, has), .bit = CONFAB_HAS_##BIT

/* A seed has 64 bits: a number as far as JSON's reach, or a text of digits. */
static int read_seed(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e) {
        const json_t *value = json_object_get(object, field->name);
        const char *text = json_string_value(value);
        struct confab_sampling *sampling = base;
        char *end = NULL;

        if (json_is_integer(value)) {
                sampling->seed = (uint64_t)json_integer_value(value);
        } else {
                size_t n = text ? json_string_length(value) : 0;

                errno = 0;
                if (n > 0 && strspn(text, "0123456789") == n)
                        sampling->seed = strtoull(text, &end, 10);
                if (!end || *end || errno)
                        return fields_wrong(reader->fields, field->name,
                                "a whole number, or one as a string of digits", e);
        }
        sampling->has |= CONFAB_HAS_SEED;
        return 0;
}

static int read_biases(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e);

static const struct own_field sampling_fields[] = {
        {"temperature", OWN_FLOAT, NUMBER(temperature, TEMPERATURE)},
        {"top_k", OWN_U32, NUMBER(top_k, TOP_K)},
        {"top_p", OWN_FLOAT, NUMBER(top_p, TOP_P)},
        {"min_p", OWN_FLOAT, NUMBER(min_p, MIN_P)},
        {"repetition_penalty", OWN_FLOAT, NUMBER(repetition_penalty, REPETITION_PENALTY)},
        {"presence_penalty", OWN_FLOAT, NUMBER(presence_penalty, PRESENCE_PENALTY)},
        {"frequency_penalty", OWN_FLOAT, NUMBER(frequency_penalty, FREQUENCY_PENALTY)},
        {"penalty_last_n", OWN_U32, NUMBER(penalty_last_n, PENALTY_LAST_N)},
        {"seed", OWN_OTHER, .read = read_seed},
        {"logit_bias", OWN_OTHER, .read = read_biases},
        {},
};

/* null, or no bias, is minus infinity: so it is written, since JSON has no word for it. */
static int read_bias(
        struct own_reader *reader, const json_t *item, struct confab_bias *ret, struct err *e) {
        double bias = -INFINITY;
        int64_t token = 0;
        bool has = false;
        int r = fields_be_object(reader->fields, item, e);

        if (r == 0)
                r = fields_integer(reader->fields, item, "token", 0, INT32_MAX, &token, &has, e);
        if (r == 0 && !has)
                r = fields_wrong(reader->fields, "token", "given", e);
        if (r == 0)
                r = fields_number(reader->fields, item, "bias", -1e30, 1e30, &bias, NULL, e);
        if (r == 0)
                *ret = (struct confab_bias){(int32_t)token, (float)bias};
        return r;
}

static int read_biases(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct confab_sampling *sampling = base;
        struct confab_bias *biases;
        json_t *list = NULL;
        int r = fields_array(reader->fields, object, field->name, &list, e);
        size_t n = json_array_size(list);

        if (r < 0 || n == 0)
                return r;
        biases = form_alloc(reader->memory, n * sizeof(*biases));
        if (!biases)
                return err_no_memory(e);
        for (size_t i = 0; r == 0 && i < n; i++) {
                size_t length = fields_enter(reader->fields, field->name, i);

                r = read_bias(reader, json_array_get(list, i), &biases[i], e);
                fields_leave(reader->fields, length);
        }
        sampling->biases = biases;
        sampling->n_biases = n;
        return r;
}

/* An object with a table of its own. */
static int read_part(struct own_reader *reader, const char *name, const struct own_field *table,
        const json_t *object, void *base, struct err *e) {
        json_t *part = NULL;
        size_t length;
        int r = fields_object(reader->fields, object, name, &part, e);

        if (r < 0)
                return r;
        length = fields_enter_name(reader->fields, name);
        r = own_read_table(reader, table, 0, part, base, e);
        fields_leave(reader->fields, length);
        return r;
}

static int read_sampling(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct own_asked *asked = reader->asked;

        asked->request.sampling = &asked->sampling;
        return read_part(reader, field->name, sampling_fields, object, &asked->sampling, e);
}

/* A list of texts, or one text. */
static int read_texts(struct own_reader *reader, const char *name, const json_t *object,
        const char *const **ret, size_t *ret_n, struct err *e) {
        const json_t *value = json_object_get(object, name);
        size_t n = json_is_array(value) ? json_array_size(value) : 1;
        const char **texts;
        int r = 0;

        if (!json_is_array(value) && !json_is_string(value))
                return fields_wrong(reader->fields, name, "an array", e);
        texts = form_alloc(reader->memory, (n + 1) * sizeof(*texts));
        if (!texts)
                return err_no_memory(e);
        if (json_is_string(value))
                r = fields_string(reader->fields, object, name, &texts[0], e);
        for (size_t i = 0; json_is_array(value) && r == 0 && i < n; i++) {
                size_t length = fields_enter(reader->fields, name, i);

                r = fields_be_string(reader->fields, json_array_get(value, i), &texts[i], e);
                fields_leave(reader->fields, length);
        }
        *ret = texts;
        *ret_n = n;
        return r;
}

static int read_tags(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e) {
        struct confab_about *about = base;

        about->has_tags = true;
        return read_texts(reader, field->name, object, &about->tags, &about->n_tags, e);
}

static int read_metadata(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        return own_read_json(
                reader, object, field->name, &((struct confab_about *)base)->metadata, e);
}

static const struct own_field about_fields[] = {
        {"title", OWN_TEXT, .at = offsetof(struct confab_about, title)},
        {"session", OWN_TEXT, .at = offsetof(struct confab_about, session)},
        {"tags", OWN_OTHER, .read = read_tags},
        {"metadata", OWN_OTHER, .read = read_metadata},
        {"expires_after", OWN_U32, .at = offsetof(struct confab_about, expires_after),
                .has = offsetof(struct confab_about, has_expires_after)},
        {},
};

static int read_about(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct own_asked *asked = reader->asked;

        asked->request.about = &asked->about;
        return read_part(reader, field->name, about_fields, object, &asked->about, e);
}

/* ---- fields that are not simply put somewhere ---- */

static int read_stops(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;

        return read_texts(reader, field->name, object, &request->stops, &request->n_stops, e);
}

static int read_json(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e) {
        return own_read_json(
                reader, object, field->name, (const char **)((char *)base + field->at), e);
}

static const struct own_field choice_fields[] = {
        {"function", OWN_TEXT, .at = offsetof(struct confab_request, call_of)},
        {},
};

static int read_choice(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        reader->asked->request.call_of = "";
        return read_part(reader, field->name, choice_fields, object, base, e);
}

static int read_stream(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        bool stream = true;
        int r = fields_bool(reader->fields, object, field->name, &stream, e);

        reader->asked->whole = !stream;
        return r;
}

static int read_conversation(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        const json_t *value = json_object_get(object, field->name);
        int64_t id = 0;
        int r;

        if (json_is_string(value))
                return fields_string(
                        reader->fields, object, field->name, &request->conversation, e);
        r = fields_integer(reader->fields, object, field->name, 1, INT64_MAX, &id, NULL, e);
        request->conversation_id = (uint64_t)id;
        return r;
}

/* ---- inputs ---- */

static int read_message(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        const char *text = NULL;
        bool is_raw = strcmp(field->name, "raw") == 0;
        int r = fields_string(reader->fields, object, field->name, &text, e);

        if (r == 0)
                r = own_take_input(
                        reader, field->name, is_raw ? CONFAB_INPUT_RAW : CONFAB_INPUT_MESSAGE, e);
        request->text = text;
        request->text_size = text ? strlen(text) : 0;
        return r;
}

static int digit_of(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes that JSON's text can't have, in the form that turns are told in. */
static int read_raw_hex(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        const char *text = NULL;
        char *bytes;
        size_t n;
        int r = fields_string(reader->fields, object, field->name, &text, e);

        if (r == 0)
                r = own_take_input(reader, field->name, CONFAB_INPUT_RAW, e);
        if (r < 0)
                return r;
        n = strlen(text);
        if (n % 2 != 0 || strspn(text, "0123456789abcdef") != n)
                return fields_wrong(reader->fields, field->name,
                        "pairs of hexadecimal digits in lower case", e);
        bytes = form_alloc(reader->memory, n / 2 + 1);
        if (!bytes)
                return err_no_memory(e);
        for (size_t i = 0; i < n / 2; i++)
                bytes[i] = (char)(digit_of(text[2 * i]) << 4 | digit_of(text[2 * i + 1]));
        request->text = bytes;
        request->text_size = n / 2;
        return 0;
}

static int read_nothing(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        bool nothing = false;
        int r = fields_bool(reader->fields, object, field->name, &nothing, e);

        return r < 0 || !nothing ? r : own_take_input(reader, field->name, CONFAB_INPUT_NONE, e);
}

static int read_tokens(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        json_t *list = NULL;
        int32_t *tokens;
        int r = fields_array(reader->fields, object, field->name, &list, e);
        size_t n = json_array_size(list);

        if (r == 0)
                r = own_take_input(reader, field->name, CONFAB_INPUT_TOKENS, e);
        if (r < 0)
                return r;
        tokens = form_alloc(reader->memory, (n + 1) * sizeof(*tokens));
        if (!tokens)
                return err_no_memory(e);
        for (size_t i = 0; i < n; i++) {
                const json_t *value = json_array_get(list, i);
                json_int_t token = json_integer_value(value);

                if (!json_is_integer(value) || token < 0 || token > INT32_MAX) {
                        size_t length = fields_enter(reader->fields, field->name, i);

                        r = fields_wrong(reader->fields, "", "a token", e);
                        fields_leave(reader->fields, length);
                        return r;
                }
                tokens[i] = (int32_t)token;
        }
        request->tokens = tokens;
        request->n_tokens = n;
        return 0;
}

/* The text that is tokenised may have any length, and is told with it. */
static int read_text(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e) {
        struct confab_request *request = &reader->asked->request;
        const char *text = NULL;
        int r = fields_string(reader->fields, object, field->name, &text, e);

        request->text = text;
        request->text_size = text ? strlen(text) : 0;
        return r;
}

/* ---- the table ---- */

const struct own_field own_fields[] = {
        {"name", OWN_TEXT, V(OPEN) | V(FORK) | V(UPDATE) | V(IMPORT), AT(name)},
        {"system", OWN_TEXT, V(OPEN), AT(system)},
        {"sampling", OWN_OTHER, V(OPEN) | V(UPDATE) | V(CONTINUE), .read = read_sampling},
        {"overflow", OWN_WORD, V(OPEN) | V(UPDATE), AT(overflow), .words = overflows},
        {"pinned", OWN_FLAG, V(UPDATE), HAS(pinned)},
        {"reset_sampling", OWN_FLAG, V(UPDATE), AT(reset_sampling)},
        {"tools", OWN_OTHER, V(OPEN) | V(CONTINUE) | V(FIND), AT(tools), .read = read_json},
        {"about", OWN_OTHER, V(OPEN) | V(FORK) | V(UPDATE), .read = read_about},

        {"message", OWN_OTHER, V(CONTINUE), .read = read_message},
        {"raw", OWN_OTHER, V(CONTINUE), .read = read_message},
        {"raw_hex", OWN_OTHER, V(CONTINUE), .read = read_raw_hex},
        {"nothing", OWN_OTHER, V(CONTINUE), .read = read_nothing},
        {"tokens", OWN_OTHER, V(CONTINUE), .read = read_tokens},
        {"results", OWN_OTHER, V(CONTINUE), .read = own_read_results},
        {"given", OWN_OTHER, V(CONTINUE), .read = own_read_given},
        {"messages", OWN_OTHER, V(CONTINUE) | V(FIND), .read = own_read_messages},
        {"role", OWN_WORD, V(CONTINUE), AT(role), .words = own_roles},
        {"max_tokens", OWN_U32, V(CONTINUE), HAS(max_tokens)},
        {"stop", OWN_OTHER, V(CONTINUE) | V(ATTACH), .read = read_stops},
        {"want_logprobs", OWN_FLAG, V(CONTINUE), AT(want_logprobs)},
        {"logprobs", OWN_U32, V(CONTINUE), AT(n_logprobs)},
        {"want_parts", OWN_FLAG, V(CONTINUE) | V(ATTACH), AT(want_parts)},
        {"json_schema", OWN_OTHER, V(CONTINUE), AT(json_schema), .read = read_json},
        {"gbnf", OWN_TEXT, V(CONTINUE), AT(gbnf)},
        {"tool_choice", OWN_OTHER, V(CONTINUE), AT(call_of), .read = read_choice},
        {"detach", OWN_FLAG, V(CONTINUE), AT(detach)},
        {"ignore_eos", OWN_FLAG, V(CONTINUE), AT(ignore_eos)},
        {"background", OWN_FLAG, V(CONTINUE), AT(background)},
        {"wait", OWN_FLAG, V(CONTINUE), AT(wait)},
        {"stream", OWN_OTHER, V(CONTINUE) | V(ATTACH), .read = read_stream},

        {"at_turn", OWN_U32, V(CONTINUE) | V(FORK) | V(REWIND) | V(PUBLISH), HAS(at_turn)},
        {"at_position", OWN_U32, V(CONTINUE) | V(FORK) | V(REWIND), HAS(at_position)},
        {"turns", OWN_U32, V(REWIND), AT(drop_turns)},
        {"expect_revision", OWN_U64, V(CONTINUE) | V(FORK) | V(REWIND) | V(CARRY) | V(ATTACH),
                HAS(expect_revision)},

        {"turns", OWN_FLAG, V(GET), AT(want_turns)},
        {"tokens", OWN_FLAG, V(GET), AT(want_tokens)},
        {"parts", OWN_FLAG, V(GET), AT(want_parts)},
        {"max_turns", OWN_U32, V(GET), AT(max_turns)},
        {"from_turn", OWN_U32, V(GET), HAS(from_turn)},
        {"before_turn", OWN_U32, V(GET), HAS(before_turn)},

        {"after_id", OWN_U64, V(LIST), AT(after_id)},
        {"limit", OWN_U32, V(LIST), AT(limit)},
        {"order", OWN_WORD, V(LIST), AT(order), .words = orders},
        {"cursor", OWN_TEXT, V(LIST) | V(WATCH), AT(cursor)},
        {"tag", OWN_TEXT, V(LIST), AT(tag)},
        {"search", OWN_TEXT, V(LIST), AT(search)},
        {"all_users", OWN_FLAG, V(LIST) | V(WATCH), AT(all_users)},
        {"with_users", OWN_FLAG, V(STATS), AT(want_users)},
        {"uid", OWN_U32, V(STATS), HAS(uid)},
        {"tenant", OWN_TEXT, V(STATS), AT(tenant)},

        {"position", OWN_U32, V(ATTACH), HAS(at_position)},
        {"off", OWN_FLAG, V(PUBLISH), AT(off)},
        {"without_memory", OWN_FLAG, V(EXPORT), AT(without_memory)},

        {"text", OWN_OTHER, V(TOKENIZE), .read = read_text},
        {"special", OWN_FLAG, V(TOKENIZE), AT(special)},
        {"add_bos", OWN_FLAG, V(TOKENIZE), AT(add_bos)},

        {"session", OWN_TEXT, V(FIND), AT(session)},
        {"conversation", OWN_OTHER, V(FIND), .read = read_conversation},
        {},
};
