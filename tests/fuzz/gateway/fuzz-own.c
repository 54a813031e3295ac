/* SPDX-License-Identifier: MIT */
/*
 * One byte for the verb, then a body of /confab/v1, or text for its queries and places. Whatever it is:
 *
 * 1. reading it ends, with a request or with an error that has words, which are UTF-8;
 * 2. a request is one that libconfab can be given: texts are there where there are sizes, lists where there are counts, and
 *    what is given in place of JSON is JSON, if it was not a text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "client/gateway/own-read.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const struct confab_message *message) {
        check(message->role > CONFAB_ROLE_NONE && message->role <= CONFAB_ROLE_TOOL);
        check(message->text_size == (message->text ? strlen(message->text) : 0));
        check_text(message->text);
        check_text(message->reasoning);
        for (size_t i = 0; i < message->n_calls; i++) {
                check_text(message->calls[i].id);
                check(message->calls[i].name != NULL);
                check_text(message->calls[i].arguments);
        }
        for (size_t i = 0; i < message->n_results; i++)
                check(message->results[i].call_id && message->results[i].text);
}

static void check_request(const struct own_asked *asked) {
        const struct confab_request *request = &asked->request;

        check(request->size == sizeof(*request));
        check(request->text || request->text_size == 0);
        check(request->input != CONFAB_INPUT_MESSAGE ||
                utf8_valid(request->text, request->text_size));
        check(!request->sampling || request->sampling == &asked->sampling);
        check(!request->about || request->about == &asked->about);
        check(request->role <= CONFAB_ROLE_TOOL && request->order <= CONFAB_ORDER_UPDATED);
        for (size_t i = 0; i < request->n_stops; i++)
                check(request->stops[i] != NULL);
        for (size_t i = 0; i < request->n_tokens; i++)
                check(request->tokens[i] >= 0);
        for (size_t i = 0; i < request->n_messages; i++)
                check_message(&request->messages[i]);
        for (size_t i = 0; i < request->n_results; i++)
                check(request->results[i].call_id && request->results[i].text);
        for (size_t i = 0; i < request->n_calls; i++)
                check(request->calls[i].name != NULL);
        for (size_t i = 0; i < asked->about.n_tags; i++)
                check_text(asked->about.tags[i]);
        check_text(asked->about.metadata);
        check_text(request->tools);
        check_text(request->json_schema);
}

static void read_body(enum confab_verb verb, const json_t *body) {
        struct fields fields = FIELDS_NULL;
        struct form *memory = NULL;
        struct own_asked asked;
        struct err e = {0};
        int r;

        check(form_new(&memory, NULL) == 0);
        r = own_read(memory, &fields, verb, body, &asked, &e);
        if (r == 0)
                check_request(&asked);
        else
                check(r == -ERR_INVALID && e.msg[0] && utf8_valid(e.msg, strlen(e.msg)));
        form_free(memory);
}

/* Every parameter has this value. */
static const char *get(void *userdata, const char *name) {
        return userdata;
}

static void read_text(enum confab_verb verb, char *text) {
        struct confab_request request = {};
        json_t *body = NULL;
        int r = own_read_place(text, &request, NULL);

        check(r == 1 || r == -ERR_INVALID || (r == 0 && request.has_expect_revision));
        request = (struct confab_request){};
        if (own_read_ref(text, &request) == 0)
                check((request.conversation_id != 0) != (request.conversation != NULL));
        if (!utf8_valid(text, strlen(text))) /* which http_query() does not give */
                return;
        check(own_read_query(&body, verb, get, text, NULL) == 0);
        read_body(verb, body);
        json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        enum confab_verb verb;
        json_t *body = NULL;
        struct err e = {0};
        char *text;

        if (size < 1)
                return 0;
        verb = CONFAB_OPEN + data[0] % CONFAB_QUOTA;
        if (fields_parse(&body, (const char *)data + 1, size - 1, &e) == 0)
                read_body(verb, body);
        else
                check(e.msg[0]);
        json_decref(body);
        text = malloc(size);
        check(text != NULL);
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
        read_text(verb, text);
        free(text);
        return 0;
}
