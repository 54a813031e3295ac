/* SPDX-License-Identifier: MIT */
/*
 * The body of /v1/completions: one form for each prompt (a string, several, tokens, or several lists of tokens),
 * all alike but for that. A prompt is told without template, in a conversation of its own.
 */
#include "client/gateway/openai.h"
#include <string.h>

void openai_prompts_deinit(struct openai_prompts *prompts) {
        for (size_t i = 0; i < prompts->n_forms; i++)
                prompts->forms[i] = form_free(prompts->forms[i]);
        prompts->n_forms = 0;
}

static int read_logprobs(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e) {
        int64_t top = 0;
        bool has = false;
        int r;

        /* false is what some clients mean by none */
        if (json_is_false(json_object_get(root, "logprobs")))
                return 0;
        r = fields_integer(fields, root, "logprobs", 0, OPENAI_MAX_TOP_LOGPROBS, &top, &has, e);
        if (r < 0 || !has)
                return r;
        options->want_logprobs = true;
        form_fields(form)->want_logprobs = true;
        form_fields(form)->n_logprobs = (uint32_t)top;
        return 0;
}

/* What would change the answer, and can't be had. */
static int check_unsupported(const struct openai_options *options, unsigned n,
        struct fields *fields, const json_t *root, struct err *e) {
        const char *suffix;
        int64_t best_of = 1;
        int r = fields_string(fields, root, "suffix", &suffix, e);

        if (r == 0)
                r = fields_integer(
                        fields, root, "best_of", 1, OPENAI_MAX_CHOICES, &best_of, NULL, e);
        if (r < 0)
                return r;
        if (suffix && suffix[0])
                return openai_unsupported(
                        fields, "suffix", "text can't be inserted before other text", e);
        if (best_of > (int64_t)n)
                return openai_unsupported(fields, "best_of", "it can't be more than n", e);
        if (options->echo && options->want_logprobs)
                return openai_unsupported(
                        fields, "echo", "the log-probabilities of a prompt are not known", e);
        return 0;
}

/* All fields but the prompt. */
static int read_settings(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e) {
        int r = openai_read_common(form, options, fields, root, e);

        if (r == 0)
                r = openai_read_limit(form, fields, root, "max_tokens", e);
        if (r == 0)
                r = fields_bool(fields, root, "echo", &options->echo, e);
        if (r == 0)
                r = read_logprobs(form, options, fields, root, e);
        if (r == 0)
                r = check_unsupported(options, form_fields(form)->n, fields, root, e);
        return r;
}

/* One more form, with all but its prompt. */
static int add_form(struct openai_prompts *prompts, struct form **ret,
        struct openai_options *options, struct fields *fields, const json_t *root, struct err *e) {
        struct form *form;
        int r = form_new(&form, e);

        if (r < 0)
                return r;
        prompts->forms[prompts->n_forms++] = form;
        form_fields(form)->place = FORM_NEW;
        r = read_settings(form, options, fields, root, e);
        if (r < 0)
                return r;
        prompts->n = form_fields(form)->n;
        *ret = form;
        return 0;
}

static int put_string(struct form *form, struct fields *fields, const char *name,
        const json_t *value, struct err *e) {
        struct form_fields *to = form_fields(form);

        if (!json_is_string(value))
                return fields_wrong(fields, name, "a string", e);
        to->input = FORM_RAW;
        to->raw_size = json_string_length(value);
        to->raw = form_text(form, json_string_value(value), to->raw_size);
        return to->raw ? 0 : err_no_memory(e);
}

static int put_tokens(struct form *form, const struct openai_options *options,
        struct fields *fields, const json_t *array, const char *name, struct err *e) {
        struct form_fields *to = form_fields(form);
        int32_t *tokens;
        json_t *item;
        size_t i;

        if (options->echo)
                return openai_unsupported(fields, "echo", "the prompt is not given as text", e);
        if (json_array_size(array) == 0)
                return fields_wrong(fields, name, "a list with something in it", e);
        tokens = form_alloc(form, json_array_size(array) * sizeof(*tokens));
        if (!tokens)
                return err_no_memory(e);
        json_array_foreach(array, i, item) {
                json_int_t token = json_integer_value(item);

                if (!json_is_integer(item) || token < 0 || token > INT32_MAX)
                        return fields_wrong(fields, name, "a list of tokens", e);
                tokens[i] = (int32_t)token;
        }
        to->input = FORM_TOKENS;
        to->tokens = tokens;
        to->n_tokens = json_array_size(array);
        return 0;
}

/* One prompt of a list. */
static int put_item(struct form *form, const struct openai_options *options, struct fields *fields,
        const json_t *item, size_t i, struct err *e) {
        size_t length = fields_enter(fields, "prompt", i);
        int r;

        if (json_is_array(item))
                r = put_tokens(form, options, fields, item, "", e);
        else
                r = put_string(form, fields, "", item, e);
        if (r == 0)
                fields_leave(fields, length);
        return r;
}

static int read_prompts(struct openai_prompts *ret, struct openai_options *options,
        struct fields *fields, const json_t *root, struct err *e) {
        json_t *prompt = json_object_get(root, "prompt"), *item;
        struct form *form;
        size_t i;
        int r = 0;

        if (!json_is_string(prompt) && !json_is_array(prompt))
                return fields_wrong(fields, "prompt", "a string or an array", e);
        if (json_is_string(prompt) || json_is_integer(json_array_get(prompt, 0))) {
                r = add_form(ret, &form, options, fields, root, e);
                if (r < 0)
                        return r;
                return json_is_string(prompt)
                               ? put_string(form, fields, "prompt", prompt, e)
                               : put_tokens(form, options, fields, prompt, "prompt", e);
        }
        if (json_array_size(prompt) == 0 || json_array_size(prompt) > OPENAI_MAX_PROMPTS)
                return fields_wrong(fields, "prompt", "a list of 1 to 128 prompts", e);
        json_array_foreach(prompt, i, item) {
                r = add_form(ret, &form, options, fields, root, e);
                if (r == 0)
                        r = put_item(form, options, fields, item, i, e);
                if (r < 0)
                        return r;
        }
        if (ret->n_forms * ret->n > OPENAI_MAX_CHOICES)
                return fields_wrong(fields, "n", "small enough for 128 choices in all", e);
        return 0;
}

int openai_read_text(struct openai_prompts *ret, struct openai_options *options,
        struct fields *fields, const char *body, size_t size, struct err *e) {
        json_t *root;
        int r = fields_parse(&root, body, size, e);

        if (r < 0)
                return r;
        r = read_prompts(ret, options, fields, root, e);
        json_decref(root);
        return r;
}
