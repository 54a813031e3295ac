/* SPDX-License-Identifier: MIT */
/*
 * One byte for the endpoint of Anthropic's or Ollama's dialect, then a body. Whatever it is:
 *
 * 1. reading it ends, with a form or with an error that has words, which are UTF-8;
 * 2. a form has what its input needs: messages with a text or results, a raw text, and numbers within their bounds;
 * 3. what is written as JSON (schemas, definitions, arguments) is JSON.
 */
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "client/gateway/anthropic.h"
#include "client/gateway/ollama.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(const char *text) {
        json_t *value;

        if (!text)
                return;
        value = json_loads(text, JSON_DECODE_ANY, NULL);
        check(value != NULL && !strchr(text, '\n'));
        json_decref(value);
}

static void check_message(const struct confab_message *message) {
        check(message->role >= CONFAB_ROLE_SYSTEM && message->role <= CONFAB_ROLE_TOOL);
        check((message->role == CONFAB_ROLE_TOOL) == (message->n_results > 0));
        check((message->role == CONFAB_ROLE_TOOL) == (message->text == NULL));
        check(message->text_size == (message->text ? strlen(message->text) : 0));
        check_text(message->text);
        check_text(message->reasoning);
        check(message->role == CONFAB_ROLE_ASSISTANT ||
                (message->n_calls == 0 && !message->reasoning));
        for (size_t i = 0; i < message->n_calls; i++) {
                check_text(message->calls[i].id);
                check(message->calls[i].name[0]);
                check_json(message->calls[i].arguments);
        }
        for (size_t i = 0; i < message->n_results; i++) {
                check_text(message->results[i].call_id);
                check(message->results[i].text != NULL);
        }
}

static void check_form(struct form *form, bool loads) {
        const struct form_fields *is = form_fields(form);

        check(is->n == 1 && is->n_logprobs <= 20);
        check(!is->session || (is->session[0] && strlen(is->session) <= 256));
        for (size_t i = 0; i < is->n_stops; i++)
                check(is->stops[i][0]);
        for (size_t i = 0; i < is->n_messages; i++)
                check_message(&is->messages[i]);
        check_json(is->tools);
        check_json(is->json_schema);
        check((is->input == FORM_RAW) == (is->raw != NULL));
        check(loads || is->raw || is->n_messages > 0);
}

static void read_body(struct form *form, uint8_t endpoint, const json_t *body) {
        struct anthropic_wish anthropic = {0};
        struct ollama_wish ollama = {0};
        struct err e = {0};
        int r;

        switch (endpoint % 4) {
        case 0:
                r = anthropic_parse(form, body, false, &anthropic, &e);
                break;
        case 1:
                r = anthropic_parse(form, body, true, &anthropic, &e);
                break;
        case 2:
                r = ollama_parse_chat(form, body, &ollama, &e);
                break;
        default:
                r = ollama_parse_generate(form, body, &ollama, &e);
        }
        if (r < 0)
                check((r == -ERR_INVALID || r == -ERR_NOT_FOUND) && e.msg[0] &&
                        utf8_valid(e.msg, strlen(e.msg)));
        else
                check_form(form, ollama.loads);
        for (size_t i = 0; r == 0 && i < ollama.n_context; i++)
                check(ollama.context[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct form *form = NULL;
        json_t *body = NULL;
        struct err e = {0};

        if (size < 1)
                return 0;
        if (fields_parse(&body, (const char *)data + 1, size - 1, &e) < 0) {
                check(e.msg[0]);
                return 0;
        }
        check(form_new(&form, NULL) == 0);
        read_body(form, data[0], body);
        form_free(form);
        json_decref(body);
        return 0;
}
