/* SPDX-License-Identifier: MIT */
#include "daemon/methods-private.h"
#include <stdlib.h>
#include <string.h>

/* An empty string in a message counts as none. */
static const char *some(const char *s) {
        return s && *s ? s : NULL;
}

static int take_role(const Confab__V1__Continue *m, struct engine_request *out, struct err *e) {
        if (!m->has_role || m->role == CONFAB__V1__ROLE__ROLE_UNSPECIFIED)
                return 0;
        switch (m->role) {
        case CONFAB__V1__ROLE__ROLE_SYSTEM:
                out->role = ENGINE_SYSTEM;
                return 0;
        case CONFAB__V1__ROLE__ROLE_USER:
                out->role = ENGINE_USER;
                return 0;
        case CONFAB__V1__ROLE__ROLE_ASSISTANT:
                out->role = ENGINE_ASSISTANT;
                return 0;
        default:
                return err_set(e, ERR_INVALID, "a message's role is system, user or assistant");
        }
}

static int take_results(
        const Confab__V1__ToolResults *m, struct engine_request *out, struct err *e) {
        struct engine_result *results;

        if (m->n_results == 0)
                return err_set(e, ERR_INVALID, "no result is given");
        if (m->n_results > ENGINE_MAX_CALLS)
                return err_set(
                        e, ERR_INVALID, "at most %d results are taken at a time", ENGINE_MAX_CALLS);
        results = calloc(m->n_results, sizeof(*results));
        if (!results)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        out->results = results;
        out->n_results = m->n_results;
        for (size_t i = 0; i < m->n_results; i++) {
                const Confab__V1__ToolResult *r = m->results[i];

                if (!r->call_id || !*r->call_id)
                        return err_set(e, ERR_INVALID,
                                "result %zu does not name the call that it answers", i + 1);
                results[i] =
                        (struct engine_result){r->call_id, some(r->name), r->text ? r->text : ""};
        }
        return 0;
}

static int take_given(const Confab__V1__Given *m, struct engine_request *out, struct err *e) {
        struct engine_call *calls;

        if (m->n_calls > ENGINE_MAX_CALLS)
                return err_set(e, ERR_INVALID, "a message has at most %d calls", ENGINE_MAX_CALLS);
        calls = calloc(m->n_calls + 1, sizeof(*calls));
        if (!calls)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        out->calls = calls;
        out->n_calls = m->n_calls;
        for (size_t i = 0; i < m->n_calls; i++) {
                const Confab__V1__Call *c = m->calls[i];

                if (!c->name || !*c->name)
                        return err_set(e, ERR_INVALID, "call %zu has no name", i + 1);
                calls[i] = (struct engine_call){
                        some(c->id), c->name, some(c->arguments) ? c->arguments : "{}"};
        }
        out->text = m->text ? m->text : "";
        out->text_size = strlen(out->text);
        out->reasoning = some(m->reasoning);
        return 0;
}

static int take_input(const Confab__V1__Continue *m, struct engine_request *out, struct err *e) {
        switch (m->input_case) {
        case CONFAB__V1__CONTINUE__INPUT_MESSAGE:
                out->input = ENGINE_INPUT_MESSAGE;
                out->text = m->message;
                out->text_size = strlen(m->message);
                return take_role(m, out, e);
        case CONFAB__V1__CONTINUE__INPUT_RAW:
                out->input = ENGINE_INPUT_RAW;
                out->text = m->raw.data;
                out->text_size = m->raw.len;
                return 0;
        case CONFAB__V1__CONTINUE__INPUT_TOKENS:
                out->input = ENGINE_INPUT_TOKENS;
                out->tokens = m->tokens->ids;
                out->n_tokens = m->tokens->n_ids;
                return 0;
        case CONFAB__V1__CONTINUE__INPUT_NOTHING:
                out->input = ENGINE_INPUT_NONE;
                return 0;
        case CONFAB__V1__CONTINUE__INPUT_RESULTS:
                out->input = ENGINE_INPUT_RESULTS;
                return take_results(m->results, out, e);
        case CONFAB__V1__CONTINUE__INPUT_GIVEN:
                out->input = ENGINE_INPUT_GIVEN;
                return take_given(m->given, out, e);
        case CONFAB__V1__CONTINUE__INPUT_MESSAGES:
                out->input = ENGINE_INPUT_MESSAGES;
                return methods_take_messages(
                        m->messages->messages, m->messages->n_messages, out, e);
        default:
                return err_set(e, ERR_INVALID,
                        "no input: give message, messages, raw, tokens, results, given, or say "
                        "nothing = true");
        }
}

static int take_stops(char *const *stops, size_t n, struct engine_request *out, struct err *e) {
        if (n > ENGINE_MAX_STOPS)
                return err_set(
                        e, ERR_INVALID, "at most %d stop strings are taken", ENGINE_MAX_STOPS);
        for (size_t i = 0; i < n; i++) {
                if (!*stops[i])
                        return err_set(e, ERR_INVALID, "a stop string is not empty");
                out->stops[i] = stops[i];
        }
        out->n_stops = n;
        return 0;
}

static int take_from(const Confab__V1__Continue *m, struct engine_request *out, struct err *e) {
        switch (m->from_case) {
        case CONFAB__V1__CONTINUE__FROM_AT_TURN:
                out->cuts = true;
                return methods_take_number(m->at_turn, &out->at_turn, "at_turn", e);
        case CONFAB__V1__CONTINUE__FROM_AT_POSITION:
                out->cuts = true;
                return methods_take_number(m->at_position, &out->at_position, "at_position", e);
        default:
                return 0;
        }
}

static void take_constraint(const Confab__V1__Continue *m, struct engine_request *out) {
        switch (m->constraint_case) {
        case CONFAB__V1__CONTINUE__CONSTRAINT_JSON_SCHEMA:
                out->constraint = ENGINE_CONSTRAINT_JSON_SCHEMA;
                out->constraint_text = m->json_schema;
                break;
        case CONFAB__V1__CONTINUE__CONSTRAINT_GBNF:
                out->constraint = ENGINE_CONSTRAINT_GBNF;
                out->constraint_text = m->gbnf;
                break;
        case CONFAB__V1__CONTINUE__CONSTRAINT_TOOL_CHOICE:
                out->constraint = ENGINE_CONSTRAINT_CALL;
                out->constraint_text = m->tool_choice->function ? m->tool_choice->function : "";
                break;
        default:
                return;
        }
        out->constraint_size = strlen(out->constraint_text);
}

int method_continue(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Continue *m = in->continue_;
        int r;

        r = methods_take_ref(m->conversation, out, e);
        if (r == 0)
                r = take_input(m, out, e);
        if (r == 0)
                r = take_stops(m->stop, m->n_stop, out, e);
        if (r == 0)
                r = methods_take_sampling(m->sampling, &out->sampling, e);
        if (r < 0)
                return r;
        if (m->logprobs > ENGINE_MAX_LOGPROBS)
                return err_set(e, ERR_INVALID, "at most %d alternatives per token are given",
                        ENGINE_MAX_LOGPROBS);
        out->n_logprobs = m->logprobs;
        out->want_logprobs = m->want_logprobs || m->logprobs;
        r = take_from(m, out, e);
        if (r == 0 && m->has_max_tokens)
                r = methods_take_number(m->max_tokens, &out->max_tokens, "max_tokens", e);
        if (r < 0)
                return r;
        out->has_expect_revision = m->has_expect_revision;
        out->expect_revision = m->expect_revision;
        take_constraint(m, out);
        out->tools = some(m->tools);
        out->want_parts = m->want_parts;
        out->ignore_eos = m->ignore_eos;
        out->background = m->background;
        out->wait = m->wait;
        return 0;
}

int method_attach(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Attach *m = in->attach;
        int r = methods_take_ref(m->conversation, out, e);

        if (r == 0)
                r = take_stops(m->stop, m->n_stop, out, e);
        if (r == 0 && m->has_position)
                r = methods_take_number(m->position, &out->at_position, "position", e);
        out->want_parts = m->want_parts;
        out->has_expect_revision = m->has_expect_revision;
        out->expect_revision = m->expect_revision;
        return r;
}
