/* SPDX-License-Identifier: MIT */
/*
 * One byte for the endpoint, then a body. Whatever it is:
 *
 * 1. reading it ends, with a form or with an error that has words;
 * 2. what is said to be wrong is UTF-8 and is named inside of the message;
 * 3. a form has messages or a prompt, every pointer with a size behind it, and numbers within their bounds;
 * 4. the error's own JSON is written.
 */
#include <string.h>

#include "base/err.h"
#include "client/gateway/openai-reply.h"
#include "fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct fields *fields, const struct err *e) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        json_t *json;

        check(e->code == ERR_INVALID || e->code == ERR_UNSUPPORTED);
        check(e->msg[0] && strlen(fields->wrong) < sizeof(fields->wrong));
        check(strncmp(e->msg, fields->wrong, strlen(fields->wrong)) == 0);
        check(openai_error_body(&out, 400, "invalid", e->msg, fields->wrong) == 0);
        json = json_loadb((const char *)out.data, out.size, 0, NULL);
        check(json != NULL);
        json_decref(json);
}

static size_t sum(const char *s) {
        return s ? strlen(s) : 0;
}

static void check_message(const struct confab_message *message) {
        size_t n = sum(message->reasoning);

        check(message->role >= CONFAB_ROLE_SYSTEM && message->role <= CONFAB_ROLE_TOOL);
        check(!memchr(message->text ? message->text : "", 0, message->text_size));
        for (size_t i = 0; i < message->n_calls; i++)
                n += sum(message->calls[i].id) + strlen(message->calls[i].name) +
                     strlen(message->calls[i].arguments);
        for (size_t i = 0; i < message->n_results; i++)
                n += strlen(message->results[i].call_id) + strlen(message->results[i].text);
        check(message->role == CONFAB_ROLE_ASSISTANT || message->n_calls == 0);
        check((message->role == CONFAB_ROLE_TOOL) == (message->n_results > 0));
        check(message->role != CONFAB_ROLE_ASSISTANT || n + message->text_size > 0);
}

static void check_form(struct form *form) {
        const struct form_fields *is = form_fields(form);

        check(is->n >= 1 && is->n <= OPENAI_MAX_CHOICES);
        check(is->n_logprobs <= OPENAI_MAX_TOP_LOGPROBS);
        check(sum(is->session) <= 256 && sum(is->metadata) <= 16 << 10);
        for (size_t i = 0; i < is->n_stops; i++)
                check(is->stops[i][0]);
        for (size_t i = 0; i < is->n_messages; i++)
                check_message(&is->messages[i]);
        for (size_t i = 0; i < is->n_tokens; i++)
                check(is->tokens[i] >= 0);
        check((is->input == FORM_MESSAGES) == (is->n_messages > 0));
        check((is->input == FORM_RAW) == (is->raw != NULL));
        check((is->input == FORM_TOKENS) == (is->n_tokens > 0));
}

static void read_chat(const char *body, size_t size) {
        struct openai_options options = {};
        struct fields fields = FIELDS_NULL;
        struct form *form;
        struct err e = {};

        check(form_new(&form, &e) == 0);
        if (openai_read_chat(form, &options, &fields, body, size, &e) < 0)
                check_error(&fields, &e);
        else
                check_form(form);
        form_free(form);
}

static void read_text(const char *body, size_t size) {
        struct openai_prompts prompts = {};
        struct openai_options options = {};
        struct fields fields = FIELDS_NULL;
        struct err e = {};

        if (openai_read_text(&prompts, &options, &fields, body, size, &e) < 0)
                check_error(&fields, &e);
        else
                for (size_t i = 0; i < prompts.n_forms; i++)
                        check_form(prompts.forms[i]);
        openai_prompts_deinit(&prompts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size < 1)
                return 0;
        if (data[0] & 1)
                read_text((const char *)data + 1, size - 1);
        else
                read_chat((const char *)data + 1, size - 1);
        return 0;
}
