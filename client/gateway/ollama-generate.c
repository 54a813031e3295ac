/* SPDX-License-Identifier: MIT */
/*
 * /api/generate: a prompt, and the list of tokens (`context`) by which the next one goes on.
 *
 * The list is the conversation's tokens, so it says everything, and needs nobody to remember it: a conversation of those
 * tokens is made when it comes back, and the prompt is said behind them. Their memory is shared with the conversation that they
 * came from, as equal beginnings are, so it is not computed again but for a last part of a block.
 *
 *   1. with `context`: a talk takes the tokens in, without a reply (prime)
 *   2. a talk answers the prompt
 *   3. the tokens are asked for, and the last line tells them. They are told only if nobody changed the conversation
 *      meanwhile; else the last line has no context.
 */
#include "base/util.h"
#include "client/gateway/answer.h"
#include "client/gateway/ollama-handle.h"
#include "client/gateway/ollama.h"
#include <string.h>

struct generating {
        struct gateway_call *call;
        char *model;           /* as the client named it, or NULL */
        struct writer *writer; /* the answer's */
        /* priming: */
        struct talk *talk;
        struct form *form;     /* of the prompt, owned until its answer starts */
        struct writer *unused; /* likewise the writer */
        struct talk_place place;
        /* asking for tokens: */
        struct answer *answer;
        struct line *line;
};

static void generating_free(void *userdata) {
        struct generating *g = userdata;

        talk_free(g->talk);
        line_put(g->line);
        form_free(g->form);
        writer_free(g->unused);
        free(g->model);
        free(g);
}

/* --- the tokens --- */

static void on_tokens(void *userdata, const struct confab_event *event) {
        struct generating *g = userdata;
        const struct confab_conversation *conversation =
                event->kind == CONFAB_EVENT_CONVERSATION ? event->conversation : NULL;
        bool same = conversation && conversation->revision == answer_revision(g->answer);

        if (event->final)
                answer_complete(
                        g->answer, ollama_writer_end(g->writer, same ? conversation->tokens : NULL,
                                           same ? conversation->n_token_list : 0));
}

/* The reply is whole: without tokens it can end as well. */
static void finish(void *userdata, struct answer *answer) {
        struct generating *g = userdata;
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct backends *backends = gateway_call_backends(g->call);
        struct backend *backend = backends_find(backends, g->model);

        g->answer = answer;
        request.verb = CONFAB_GET;
        request.conversation_id = answer_place(answer)->conversation;
        request.want_tokens = true;
        if (!backend || line_get(&g->line, backend, &g->call->owner, NULL) < 0 ||
                line_submit(g->line, &request, on_tokens, g, NULL, NULL) < 0)
                answer_complete(answer, ollama_writer_end(g->writer, NULL, 0));
}

static const struct answer_kind kind = {
        .dialect = &gateway_ollama,
        .lines = true,
        .finish = finish,
        .ended = generating_free,
};

static void answer_prompt(struct generating *g) {
        g->writer = g->unused;
        answer_start(g->call, &kind, g, TAKE_PTR(g->form), TAKE_PTR(g->unused));
}

/* --- the tokens of `context` --- */

static void on_closed(void *userdata) {
        generating_free(userdata);
}

static void on_accepted(void *userdata, unsigned choice, const struct talk_place *place,
        const struct talk_usage *usage) {
        ((struct generating *)userdata)->place = *place;
}

static void on_delta(void *userdata, unsigned choice, const struct confab_delta *delta) {
}

static void on_done(void *userdata, unsigned choice, const struct confab_done *done,
        const struct talk_usage *usage) {
}

static void on_ended(void *userdata, const struct talk_error *error) {
        struct generating *g = userdata;

        if (error) {
                answer_refuse(g->call, &kind, error);
                generating_free(g);
                return;
        }
        g->talk = talk_free(g->talk);
        form_fields(g->form)->place = FORM_AT;
        form_fields(g->form)->conversation_id = g->place.conversation;
        form_fields(g->form)->at_turn = g->place.input_turn + 1;
        answer_prompt(g);
}

/* A form that takes the tokens in and asks for no reply. */
static int context_form(struct form **ret, const struct ollama_wish *wish,
        const struct generating *g, struct err *e) {
        size_t size = wish->n_context * sizeof(*wish->context);
        struct form *form = NULL;
        struct form_fields *fields;
        void *tokens;
        int r = form_new(&form, e);

        if (r < 0)
                return r;
        fields = form_fields(form);
        tokens = form_alloc(form, size);
        fields->model = g->model ? form_strdup(form, g->model) : NULL;
        if (!tokens || (g->model && !fields->model)) {
                form_free(form);
                return err_no_memory(e);
        }
        memcpy(tokens, wish->context, size);
        fields->input = FORM_TOKENS;
        fields->place = FORM_NEW;
        fields->tokens = tokens;
        fields->n_tokens = wish->n_context;
        fields->has_max_tokens = true;
        fields->tag = form_fields(g->form)->tag;
        fields->shift = form_fields(g->form)->shift;
        *ret = form;
        return 0;
}

static int prime(struct generating *g, const struct ollama_wish *wish, struct err *e) {
        static const struct http_answer_ops http_ops = {on_closed, NULL};
        static const struct talk_ops ops = {
                .accepted = on_accepted, .delta = on_delta, .done = on_done, .ended = on_ended};
        struct gateway *gateway = g->call->gateway;
        struct form *form = NULL;
        int r = context_form(&form, wish, g, e);

        if (r == 0)
                r = talk_new(&g->talk, gateway_call_backends(g->call),
                        &gateway_settings(gateway)->talk, &g->call->owner, form, &ops, g, e);
        if (r == 0)
                http_set_ops(g->call->exchange, &http_ops, g);
        return r;
}

void ollama_generate(struct gateway_call *call, struct form *form, const struct ollama_wish *wish) {
        const struct form_fields *fields = form_fields(form);
        struct generating *g = calloc(1, sizeof(*g));
        struct err e = {0};
        int r = 0;

        if (!g) {
                form_free(form);
                err_no_memory(&e);
                gateway_refuse_err(call, &gateway_ollama, &e);
                return;
        }
        *g = (struct generating){.call = call, .form = form};
        g->unused = ollama_writer_new(OLLAMA_GENERATE, fields->stream, wish, fields->want_logprobs);
        if (fields->model)
                g->model = text_dup(fields->model, strlen(fields->model));
        if (!g->unused || (fields->model && !g->model))
                r = err_no_memory(&e);
        if (r == 0 && wish->context)
                r = prime(g, wish, &e);
        else if (r == 0)
                answer_prompt(g);
        if (r < 0) {
                generating_free(g);
                gateway_refuse_err(call, &gateway_ollama, &e);
        }
}
