/* SPDX-License-Identifier: MIT */
/*
 * Bodies of /api/chat and /api/generate, but for the messages (ollama-messages.c).
 *
 * 1. A field that confab does not know is ignored, and so are options that are about how a model runs (num_ctx, num_gpu,
 *    num_thread, ...) or that Ollama itself has given up (mirostat, tfs_z, typical_p). keep_alive is taken and
 *    changes nothing: the daemon decides what stays in RAM.
 * 2. A field that confab knows and can't honour is refused: images, suffix, a template of the client's.
 * 3. Replies have no limit unless num_predict is one: -1 (endless) and -2 (until the context is full) are none. Old messages
 *    make room when the context is full, unless `truncate` or `shift` says no. Sampling that is left out is the daemon's default.
 * 4. think: false does not keep a model from reasoning; what it reasons is not told then.
 */
#include "base/util.h"
#include "client/gateway/form-json.h"
#include "client/gateway/ollama.h"
#include <string.h>

/* --- options --- */

static int parse_numbers(struct fields *fields, const json_t *options,
        struct confab_sampling *sampling, struct err *e) {
        const struct {
                const char *name;
                uint32_t has;
                float *to;
                double min, max;
        } numbers[] = {
                {"temperature", CONFAB_HAS_TEMPERATURE, &sampling->temperature, 0, 1000},
                {"top_p", CONFAB_HAS_TOP_P, &sampling->top_p, 0, 1},
                {"min_p", CONFAB_HAS_MIN_P, &sampling->min_p, 0, 1},
                {"repeat_penalty", CONFAB_HAS_REPETITION_PENALTY, &sampling->repetition_penalty, 0,
                        1000},
                {"presence_penalty", CONFAB_HAS_PRESENCE_PENALTY, &sampling->presence_penalty,
                        -1000, 1000},
                {"frequency_penalty", CONFAB_HAS_FREQUENCY_PENALTY, &sampling->frequency_penalty,
                        -1000, 1000},
        };

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                double number = 0;
                bool has;
                int r = fields_number(fields, options, numbers[i].name, numbers[i].min,
                        numbers[i].max, &number, &has, e);

                if (r < 0)
                        return r;
                if (has) {
                        *numbers[i].to = (float)number;
                        sampling->has |= numbers[i].has;
                }
        }
        return 0;
}

/* A whole number; negative ones have a meaning of their own. */
static int parse_integer(struct fields *fields, const json_t *options, const char *name,
        int64_t *ret, bool *ret_has, struct err *e) {
        return fields_integer(fields, options, name, INT64_MIN, INT64_MAX, ret, ret_has, e);
}

static int parse_integers(
        struct fields *fields, const json_t *options, struct form_fields *form, struct err *e) {
        struct confab_sampling *sampling = &form->sampling;
        int64_t top_k = 0, last_n = 0, seed = 0, predict = 0;
        bool has_top_k, has_last_n, has_seed, has_predict;
        int r = parse_integer(fields, options, "top_k", &top_k, &has_top_k, e);

        if (r == 0)
                r = parse_integer(fields, options, "repeat_last_n", &last_n, &has_last_n, e);
        if (r == 0)
                r = parse_integer(fields, options, "seed", &seed, &has_seed, e);
        if (r == 0)
                r = parse_integer(fields, options, "num_predict", &predict, &has_predict, e);
        if (r < 0)
                return r;
        if (has_top_k) { /* 0 and less: all tokens */
                sampling->has |= CONFAB_HAS_TOP_K;
                sampling->top_k = (uint32_t)MAX(MIN(top_k, (int64_t)UINT32_MAX), (int64_t)0);
        }
        if (has_last_n) { /* -1: all of the context */
                sampling->has |= CONFAB_HAS_PENALTY_LAST_N;
                sampling->penalty_last_n =
                        last_n < 0 || last_n > INT32_MAX ? INT32_MAX : (uint32_t)last_n;
        }
        if (has_seed && seed >= 0) { /* -1: another one each time */
                sampling->has |= CONFAB_HAS_SEED;
                sampling->seed = (uint64_t)seed;
        }
        form->has_max_tokens = has_predict && predict > 0;
        if (form->has_max_tokens)
                form->max_tokens = (uint32_t)MIN(predict, (int64_t)UINT32_MAX);
        return 0;
}

/* A list, or a single one. Empty ones stop nothing. */
static int parse_stops(
        struct form *form, struct fields *fields, const json_t *options, struct err *e) {
        json_t *value = json_object_get(options, "stop"), *stops = NULL, *stop;
        const char *text = NULL;
        size_t i;
        int r;

        if (json_is_string(value)) {
                r = fields_string(fields, options, "stop", &text, e);
                return r < 0 || !*text ? r : form_add_stop(form, text) < 0 ? err_no_memory(e) : 0;
        }
        r = fields_array(fields, options, "stop", &stops, e);
        json_array_foreach(stops, i, stop) {
                size_t length = fields_enter(fields, "stop", i);

                r = fields_be_string(fields, stop, &text, e);
                if (r == 0 && *text && form_add_stop(form, text) < 0)
                        r = err_no_memory(e);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return r;
}

static int parse_options(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        struct form_fields *f = form_fields(form);
        json_t *options = NULL;
        size_t length;
        int r = fields_object(fields, body, "options", &options, e);

        if (r < 0)
                return r;
        length = fields_enter_name(fields, "options");
        r = parse_numbers(fields, options, &f->sampling, e);
        if (r == 0)
                r = parse_integers(fields, options, f, e);
        if (r == 0)
                r = parse_stops(form, fields, options, e);
        if (r == 0)
                fields_leave(fields, length);
        return r;
}

/* --- what both have --- */

/* "json" is any object, as it is Ollama's grammar; "" is nothing. */
static int parse_format(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        json_t *format = json_object_get(body, "format");
        const char *word = json_string_value(format);

        if (!format || json_is_null(format) || (word && !*word))
                return 0;
        if (json_is_object(format))
                return form_dump(form, format, &form_fields(form)->json_schema, e);
        if (!word || strcmp(word, "json") != 0)
                return fields_wrong(fields, "format", "\"json\" or a JSON schema", e);
        form_fields(form)->json_schema = "{\"type\":\"object\"}";
        return 0;
}

/* true, false, or how much. */
static int parse_think(struct fields *fields, const json_t *body, bool *ret, struct err *e) {
        json_t *think = json_object_get(body, "think");

        *ret = !json_is_false(think);
        if (think && !json_is_null(think) && !json_is_boolean(think) && !json_is_string(think))
                return fields_wrong(fields, "think", "true, false or a level", e);
        return 0;
}

static int parse_logprobs(
        struct form_fields *form, struct fields *fields, const json_t *body, struct err *e) {
        int64_t n = 0;
        int r = fields_bool(fields, body, "logprobs", &form->want_logprobs, e);

        if (r == 0)
                r = fields_integer(fields, body, "top_logprobs", 0, 20, &n, NULL, e);
        if (r == 0)
                form->n_logprobs = form->want_logprobs ? (uint32_t)n : 0;
        return r;
}

/* keep_alive 0, which unloads: a number of seconds or a duration. */
static bool unloads(const json_t *body) {
        json_t *value = json_object_get(body, "keep_alive");
        const char *text = json_string_value(value);

        if (text)
                return *text == '0' && strspn(text, "0hms") == strlen(text);
        return json_is_number(value) && !(json_number_value(value) > 0) &&
               !(json_number_value(value) < 0);
}

static int parse_room(
        struct form_fields *form, struct fields *fields, const json_t *body, struct err *e) {
        bool truncates = true, shifts = true;
        int r = fields_bool(fields, body, "truncate", &truncates, e);

        if (r == 0)
                r = fields_bool(fields, body, "shift", &shifts, e);
        form->shift = truncates && shifts;
        return r;
}

static int parse_common(struct form *form, struct fields *fields, const json_t *body,
        struct ollama_wish *wish, struct err *e) {
        struct form_fields *f = form_fields(form);
        const char *model = NULL;
        int r = fields_string(fields, body, "model", &model, e);

        f->tag = "ollama";
        f->stream = true;
        if (r == 0 && model)
                r = (f->model = form_strdup(form, model)) ? 0 : err_no_memory(e);
        if (r == 0)
                r = fields_bool(fields, body, "stream", &f->stream, e);
        if (r == 0)
                r = parse_options(form, fields, body, e);
        if (r == 0)
                r = parse_format(form, fields, body, e);
        if (r == 0)
                r = parse_think(fields, body, &wish->thinking, e);
        if (r == 0)
                r = parse_logprobs(f, fields, body, e);
        if (r == 0)
                r = parse_room(f, fields, body, e);
        wish->unloads = wish->loads && unloads(body);
        return r;
}

/* --- chat --- */

/* Functions as they are; other kinds of tools are left out. */
static int parse_tools(
        struct form *form, struct fields *fields, const json_t *body, struct err *e) {
        json_t *tools = NULL, *tool, *list;
        size_t i;
        int r = fields_array(fields, body, "tools", &tools, e);

        if (r < 0 || !tools)
                return r;
        list = json_array();
        if (!list)
                return err_no_memory(e);
        json_array_foreach(tools, i, tool) {
                size_t length = fields_enter(fields, "tools", i);
                const char *type = NULL;

                r = fields_be_object(fields, tool, e);
                if (r == 0)
                        r = fields_string(fields, tool, "type", &type, e);
                if (r == 0 && (!type || strcmp(type, "function") == 0) &&
                        json_array_append(list, tool) < 0)
                        r = err_no_memory(e);
                if (r < 0)
                        break;
                fields_leave(fields, length);
        }
        if (r == 0 && json_array_size(list) > 0)
                r = form_dump(form, list, &form_fields(form)->tools, e);
        json_decref(list);
        return r;
}

int ollama_parse_chat(
        struct form *form, const json_t *body, struct ollama_wish *ret, struct err *e) {
        struct fields fields = FIELDS_NULL;
        struct ollama_wish wish = {0};
        json_t *messages = NULL;
        int r = fields_array(&fields, body, "messages", &messages, e);

        wish.loads = json_array_size(messages) == 0;
        if (r == 0)
                r = parse_common(form, &fields, body, &wish, e);
        if (r == 0)
                r = ollama_parse_messages(form, &fields, messages, e);
        if (r == 0)
                r = parse_tools(form, &fields, body, e);
        if (r == 0)
                *ret = wish;
        return r;
}

/* --- generate --- */

static int parse_context(struct form *form, struct fields *fields, const json_t *body,
        struct ollama_wish *wish, struct err *e) {
        json_t *context = NULL, *token;
        int32_t *tokens;
        size_t i;
        int r = fields_array(fields, body, "context", &context, e);

        if (r < 0 || json_array_size(context) == 0)
                return r;
        tokens = form_alloc(form, json_array_size(context) * sizeof(*tokens));
        if (!tokens)
                return err_no_memory(e);
        json_array_foreach(context, i, token) {
                json_int_t value = json_integer_value(token);

                if (!json_is_integer(token) || value < 0 || value > INT32_MAX) {
                        fields_enter(fields, "context", i);
                        return fields_wrong(fields, "", "a token", e);
                }
                tokens[i] = (int32_t)value;
        }
        wish->context = tokens;
        wish->n_context = json_array_size(context);
        return 0;
}

/* Text in a field that must be empty here. */
static int refuse_text(struct fields *fields, const json_t *body, const char *name,
        const char *what, struct err *e) {
        const char *text = NULL;
        int r = fields_string(fields, body, name, &text, e);

        return r < 0 || !text || !*text ? r : fields_wrong(fields, name, what, e);
}

static int add_text(struct form *form, enum confab_role role, const char *text, struct err *e) {
        struct confab_message *message = form_add_message(form, role);
        char *copy = message ? form_strdup(form, text) : NULL;

        if (!copy)
                return err_no_memory(e);
        message->text = copy;
        message->text_size = strlen(text);
        return 0;
}

/* The prompt by the model's template, behind the system's message; or, raw, as it is. */
static int put_prompt(
        struct form *form, const char *prompt, const char *system, bool raw, struct err *e) {
        struct form_fields *f = form_fields(form);
        int r = 0;

        if (!raw) {
                if (system && *system)
                        r = add_text(form, CONFAB_ROLE_SYSTEM, system, e);
                return r < 0 ? r : add_text(form, CONFAB_ROLE_USER, prompt, e);
        }
        f->input = FORM_RAW;
        f->place = FORM_NEW;
        f->raw = form_strdup(form, prompt);
        f->raw_size = strlen(prompt);
        return f->raw ? 0 : err_no_memory(e);
}

int ollama_parse_generate(
        struct form *form, const json_t *body, struct ollama_wish *ret, struct err *e) {
        struct fields fields = FIELDS_NULL;
        struct ollama_wish wish = {0};
        const char *prompt = NULL, *system = NULL;
        bool raw = false;
        int r = fields_string(&fields, body, "prompt", &prompt, e);

        wish.loads = !prompt || !*prompt;
        if (r == 0)
                r = parse_common(form, &fields, body, &wish, e);
        if (r == 0)
                r = fields_string(&fields, body, "system", &system, e);
        if (r == 0)
                r = fields_bool(&fields, body, "raw", &raw, e);
        if (r == 0)
                r = refuse_text(
                        &fields, body, "suffix", "empty: confab has no models that fill gaps", e);
        if (r == 0)
                r = refuse_text(&fields, body, "template",
                        "empty: confab uses the model's template; send raw text for another", e);
        if (r == 0)
                r = ollama_refuse_images(&fields, body, e);
        if (r == 0)
                r = parse_context(form, &fields, body, &wish, e);
        if (r == 0 && raw && wish.context)
                r = fields_wrong(&fields, "context", "possible with raw text", e);
        if (r == 0 && !wish.loads)
                r = put_prompt(form, prompt, system, raw, e);
        wish.gives_context = !raw;
        if (r == 0)
                *ret = wish;
        return r;
}
