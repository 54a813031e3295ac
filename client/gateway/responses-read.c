/* SPDX-License-Identifier: MIT */
/*
 * The body of /v1/responses, but for its input. What OpenAI has and nobody here needs (safety_identifier, service_tier,
 * reasoning.effort, text.verbosity, max_tool_calls, ...) is ignored. Tools of other types than functions are left out,
 * as nobody here could run them.
 */
#include "base/util.h"
#include "client/gateway/form-json.h"
#include "client/gateway/responses.h"
#include <string.h>

void responses_wish_deinit(struct responses_wish *wish) {
        wish->memory = form_free(wish->memory);
}

/* ---- what is told again ---- */

/* The field as it came. */
static int keep_json(struct responses_wish *wish, const json_t *root, const char *name,
        const char **ret, struct err *e) {
        const json_t *value = json_object_get(root, name);

        return value && !json_is_null(value) ? form_dump(wish->memory, value, ret, e) : 0;
}

static int keep_fields(struct responses_wish *wish, const json_t *root, struct err *e) {
        const struct {
                const char *name;
                const char **ret;
        } kept[] = {
                {"metadata", &wish->metadata},
                {"tools", &wish->tools},
                {"tool_choice", &wish->tool_choice},
                {"text", &wish->text},
                {"reasoning", &wish->reasoning},
                {"temperature", &wish->temperature},
                {"top_p", &wish->top_p},
                {"max_output_tokens", &wish->max_output_tokens},
                {"top_logprobs", &wish->top_logprobs},
                {"user", &wish->user},
                {"prompt_cache_key", &wish->cache_key},
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kept); i++)
                r = keep_json(wish, root, kept[i].name, kept[i].ret, e);
        return r;
}

static int keep_string(struct responses_wish *wish, struct fields *fields, const json_t *root,
        const char *name, const char **ret, struct err *e) {
        const char *text;
        int r = fields_string(fields, root, name, &text, e);

        if (r < 0 || !text)
                return r;
        *ret = form_strdup(wish->memory, text);
        return *ret ? 0 : err_no_memory(e);
}

/* ---- where it goes on ---- */

static int read_conversation(
        struct responses_wish *wish, struct fields *fields, const json_t *root, struct err *e) {
        const json_t *value = json_object_get(root, "conversation");
        size_t length;
        int r;

        if (!json_is_object(value))
                return keep_string(wish, fields, root, "conversation", &wish->conversation, e);
        length = fields_enter_name(fields, "conversation");
        r = keep_string(wish, fields, value, "id", &wish->conversation, e);
        if (r == 0 && !wish->conversation)
                r = fields_wrong(fields, "id", "a string", e);
        if (r == 0)
                fields_leave(fields, length);
        return r;
}

static int read_place(
        struct responses_wish *wish, struct fields *fields, const json_t *root, struct err *e) {
        json_t *prompt;
        int r = keep_string(wish, fields, root, "previous_response_id", &wish->previous, e);

        if (r == 0)
                r = read_conversation(wish, fields, root, e);
        if (r == 0 && wish->previous && wish->conversation)
                r = openai_unsupported(
                        fields, "previous_response_id", "it can't be given beside conversation", e);
        if (r == 0)
                r = fields_object(fields, root, "prompt", &prompt, e);
        if (r == 0 && prompt)
                r = openai_unsupported(fields, "prompt", "no prompts are stored here", e);
        return r;
}

/* ---- tools ---- */

/* {"type":"function","name",...} as {"type":"function","function":{"name",...}}, which chats have. (json_copy() would
 * leave out fields where memory ends.) */
static int add_function(json_t *functions, const json_t *tool, struct err *e) {
        json_t *function = json_object(), *nested;

        if (!function || json_object_update(function, (json_t *)(uintptr_t)tool) < 0) {
                json_decref(function);
                return err_no_memory(e);
        }
        (void)json_object_del(function, "type");
        nested = json_pack("{s:s,s:o}", "type", "function", "function", function);
        if (!nested || json_array_append_new(functions, nested) < 0)
                return err_no_memory(e);
        return 0;
}

static int read_tool(struct fields *fields, const json_t *tool, json_t *functions, struct err *e) {
        const char *type, *name;
        int r = fields_be_object(fields, tool, e);

        if (r == 0)
                r = fields_string(fields, tool, "type", &type, e);
        if (r < 0 || !type || strcmp(type, "function") != 0)
                return r;
        r = fields_string(fields, tool, "name", &name, e);
        if (r < 0)
                return r;
        if (!name || !name[0])
                return fields_wrong(fields, "name", "a name", e);
        return add_function(functions, tool, e);
}

static int collect_tools(struct form *form, struct fields *fields, const json_t *tools,
        json_t *functions, struct err *e) {
        json_t *tool;
        size_t i;

        json_array_foreach(tools, i, tool) {
                size_t length = fields_enter(fields, "tools", i);
                int r = read_tool(fields, tool, functions, e);

                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        if (json_array_size(functions) == 0)
                return 0;
        return form_dump(form, functions, &form_fields(form)->tools, e);
}

static int read_tools(struct form *form, struct responses_wish *wish, struct fields *fields,
        const json_t *root, struct err *e) {
        json_t *tools, *functions;
        bool parallel = true;
        int r = fields_array(fields, root, "tools", &tools, e);

        if (r == 0 && tools) {
                functions = json_array();
                r = functions ? collect_tools(form, fields, tools, functions, e) : err_no_memory(e);
                json_decref(functions);
        }
        if (r == 0)
                r = openai_read_tool_choice(form, fields, root, e);
        if (r == 0)
                r = fields_bool(fields, root, "parallel_tool_calls", &parallel, e);
        wish->options.one_call = !parallel;
        return r;
}

/* ---- what the reply is ---- */

static int read_schema(
        struct form *form, struct fields *fields, const json_t *format, struct err *e) {
        json_t *schema;
        int r = fields_object(fields, format, "schema", &schema, e);

        if (r < 0)
                return r;
        if (!schema)
                return fields_wrong(fields, "schema", "an object", e);
        return form_dump(form, schema, &form_fields(form)->json_schema, e);
}

static int read_text(struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        json_t *text;
        size_t length;
        int r = fields_object(fields, root, "text", &text, e);

        if (r < 0 || !text)
                return r;
        length = fields_enter_name(fields, "text");
        r = openai_read_format(form, fields, text, "format", read_schema, e);
        if (r == 0)
                fields_leave(fields, length);
        return r;
}

static int read_reasoning(
        struct responses_wish *wish, struct fields *fields, const json_t *root, struct err *e) {
        json_t *reasoning;
        const char *summary = NULL;
        size_t length;
        int r = fields_object(fields, root, "reasoning", &reasoning, e);

        if (r < 0 || !reasoning)
                return r;
        length = fields_enter_name(fields, "reasoning");
        r = fields_string(fields, reasoning, "summary", &summary, e);
        if (r < 0)
                return r;
        fields_leave(fields, length);
        wish->summary = summary != NULL;
        return 0;
}

/* Log-probabilities are asked for by `include`, or by a number of alternatives. */
static int read_logprobs(struct form *form, struct responses_wish *wish, struct fields *fields,
        const json_t *root, struct err *e) {
        json_t *include, *item;
        const char *name;
        int64_t top = 0;
        size_t i;
        int r = fields_array(fields, root, "include", &include, e);

        json_array_foreach(r == 0 ? include : NULL, i, item) {
                size_t length = fields_enter(fields, "include", i);

                r = fields_be_string(fields, item, &name, e);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
                if (strcmp(name, "message.output_text.logprobs") == 0)
                        wish->options.want_logprobs = true;
        }
        if (r == 0)
                r = fields_integer(
                        fields, root, "top_logprobs", 0, OPENAI_MAX_TOP_LOGPROBS, &top, NULL, e);
        wish->options.want_logprobs = wish->options.want_logprobs || top > 0;
        form_fields(form)->want_logprobs = wish->options.want_logprobs;
        form_fields(form)->n_logprobs = (uint32_t)top;
        return r;
}

static int read_truncation(struct form *form, struct responses_wish *wish, struct fields *fields,
        const json_t *root, struct err *e) {
        const char *word;
        int r = fields_string(fields, root, "truncation", &word, e);

        if (r < 0 || !word || strcmp(word, "disabled") == 0)
                return r;
        if (strcmp(word, "auto") != 0)
                return fields_wrong(fields, "truncation", "one of auto, disabled", e);
        form_fields(form)->shift = wish->truncates = true;
        return 0;
}

static int read_limit(struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        struct form_fields *to = form_fields(form);
        int64_t number;
        int r = fields_integer(
                fields, root, "max_output_tokens", 1, INT64_MAX, &number, &to->has_max_tokens, e);

        if (r == 0 && to->has_max_tokens)
                to->max_tokens = (uint32_t)MIN(number, (int64_t)UINT32_MAX);
        return r;
}

static int read_reply(struct form *form, struct responses_wish *wish, struct fields *fields,
        const json_t *root, struct err *e) {
        int r = read_limit(form, fields, root, e);

        if (r == 0)
                r = read_tools(form, wish, fields, root, e);
        if (r == 0)
                r = read_text(form, fields, root, e);
        if (r == 0)
                r = openai_read_grammar(form, fields, root, e);
        if (r == 0)
                r = read_reasoning(wish, fields, root, e);
        if (r == 0)
                r = read_logprobs(form, wish, fields, root, e);
        if (r == 0)
                r = read_truncation(form, wish, fields, root, e);
        return r;
}

int responses_read(struct form *form, struct responses_wish *wish, struct fields *fields,
        const json_t *root, struct err *e) {
        struct form_fields *to = form_fields(form);
        int r = wish->memory ? 0 : form_new(&wish->memory, e);

        if (r == 0)
                r = openai_read_common(form, &wish->options, fields, root, e);
        if (r == 0)
                r = read_reply(form, wish, fields, root, e);
        if (r == 0)
                r = read_place(wish, fields, root, e);
        if (r == 0)
                r = keep_string(wish, fields, root, "instructions", &wish->instructions, e);
        if (r == 0 && wish->instructions && !wish->instructions[0])
                wish->instructions = NULL;
        if (r == 0)
                r = fields_bool(fields, root, "store", &wish->store, e);
        if (r == 0)
                r = fields_bool(fields, root, "background", &wish->background, e);
        if (r == 0)
                r = keep_fields(wish, root, e);
        to->input = FORM_MESSAGES;
        to->n = 1; /* `n` and `stop` are no fields of responses */
        to->n_stops = 0;
        to->detach = wish->background;
        return r;
}
