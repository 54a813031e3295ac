/* SPDX-License-Identifier: MIT */
#include "daemon/methods-private.h"
#include <string.h>

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
        default:
                return err_set(e, ERR_INVALID,
                        "no input: give message, raw, tokens, or say nothing = true");
        }
}

static int take_stops(const Confab__V1__Continue *m, struct engine_request *out, struct err *e) {
        if (m->n_stop > ENGINE_MAX_STOPS)
                return err_set(
                        e, ERR_INVALID, "at most %d stop strings are taken", ENGINE_MAX_STOPS);
        for (size_t i = 0; i < m->n_stop; i++) {
                if (!*m->stop[i])
                        return err_set(e, ERR_INVALID, "a stop string is not empty");
                out->stops[i] = m->stop[i];
        }
        out->n_stops = m->n_stop;
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
                r = take_stops(m, out, e);
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
        out->ignore_eos = m->ignore_eos;
        out->background = m->background;
        out->wait = m->wait;
        return 0;
}
