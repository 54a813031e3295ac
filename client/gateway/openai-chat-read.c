/* SPDX-License-Identifier: MIT */
/* The body of /v1/chat/completions as a form. What OpenAI has and nobody here needs (store, user, service_tier,
 * reasoning_effort, ...) is ignored. */
#include "client/gateway/openai.h"
#include <string.h>

static int read_logprobs(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e) {
        int64_t top = 0;
        bool has = false;
        int r = fields_bool(fields, root, "logprobs", &options->want_logprobs, e);

        if (r == 0)
                r = fields_integer(
                        fields, root, "top_logprobs", 0, OPENAI_MAX_TOP_LOGPROBS, &top, &has, e);
        if (r < 0)
                return r;
        if (top > 0 && !options->want_logprobs)
                return fields_wrong(fields, "logprobs", "true, which top_logprobs needs", e);
        form_fields(form)->want_logprobs = options->want_logprobs;
        form_fields(form)->n_logprobs = (uint32_t)top;
        return 0;
}

/* A modality other than text can't be answered in. */
static int check_modalities(struct fields *fields, const json_t *root, struct err *e) {
        json_t *modalities, *item;
        const char *name;
        size_t i;
        int r = fields_array(fields, root, "modalities", &modalities, e);

        if (r < 0 || !modalities)
                return r;
        json_array_foreach(modalities, i, item) {
                size_t length = fields_enter(fields, "modalities", i);

                r = fields_be_string(fields, item, &name, e);
                if (r < 0)
                        return r;
                if (strcmp(name, "text") != 0)
                        return openai_unsupported(fields, "", "answers are text", e);
                fields_leave(fields, length);
        }
        return 0;
}

static int read_root(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e) {
        int r = openai_read_common(form, options, fields, root, e);

        if (r == 0)
                r = openai_read_messages(form, fields, root, e);
        if (r == 0)
                r = openai_read_limit(form, fields, root, "max_tokens", e);
        if (r == 0) /* the newer name wins */
                r = openai_read_limit(form, fields, root, "max_completion_tokens", e);
        if (r == 0)
                r = openai_read_tools(form, options, fields, root, e);
        if (r == 0)
                r = openai_read_response_format(form, fields, root, e);
        if (r == 0)
                r = read_logprobs(form, options, fields, root, e);
        if (r == 0)
                r = check_modalities(fields, root, e);
        return r;
}

int openai_read_chat(struct form *form, struct openai_options *options, struct fields *fields,
        const char *body, size_t size, struct err *e) {
        json_t *root;
        int r = fields_parse(&root, body, size, e);

        if (r < 0)
                return r;
        form_fields(form)->input = FORM_MESSAGES;
        r = read_root(form, options, fields, root, e);
        json_decref(root);
        return r;
}
