/* SPDX-License-Identifier: MIT */
#include "client/gateway/responses-place.h"
#include <stdio.h>
#include <string.h>

struct backend *responses_backend(struct backends *backends, const struct responses_id *id) {
        for (size_t i = 0; i < backends_count(backends); i++) {
                struct backend *backend = backends_at(backends, i);

                if (responses_daemon(backend_model(backend)->socket) == id->daemon)
                        return backend;
        }
        return NULL;
}

/* ---- looking ---- */

void responses_fill_turns(
        struct confab_request *request, uint64_t conversation, uint32_t from, uint32_t before) {
        *request = (struct confab_request)CONFAB_REQUEST_INIT;
        request->verb = CONFAB_GET;
        request->conversation_id = conversation;
        request->want_turns = request->want_parts = true;
        request->has_from_turn = request->has_before_turn = true;
        request->from_turn = from;
        request->before_turn = before;
}

/* The turn in front of it is always there, also while the reply is being written. */
void responses_fill_look(struct confab_request *request, const struct responses_id *id) {
        responses_fill_turns(request, id->conversation, id->turn - 1, 0);
        request->has_before_turn = false;
        request->max_turns = 2;
}

enum responses_fate responses_look(const struct responses_id *id,
        const struct confab_conversation *c, const struct confab_turn **ret_turn) {
        const struct confab_turn *turn;

        /* Busy without a reply that is being written: it has just ended, and what was read is from before it was stored. */
        if (c->n_turns == id->turn && c->revision == id->revision)
                return c->writing || c->busy ? RESPONSES_WRITING : RESPONSES_UNANSWERED;
        if (c->revision <= id->revision || id->turn < c->first_turn ||
                id->turn - c->first_turn >= c->n_turn_list)
                return RESPONSES_GONE;
        turn = &c->turns[id->turn - c->first_turn];
        if (turn->role != CONFAB_ROLE_ASSISTANT || !turn->run ||
                responses_check_turn(turn) != id->check)
                return RESPONSES_GONE;
        *ret_turn = turn;
        return RESPONSES_STORED;
}

bool responses_is_conversation(const struct responses_id *id, const struct confab_conversation *c) {
        return c->id == id->conversation && responses_check(c->created_usec) == id->check;
}

void responses_name_conversation(
        uint32_t daemon, const struct confab_conversation *c, char ret[RESPONSES_ID_SIZE]) {
        const struct responses_id id = {.kind = RESPONSES_ID_CONVERSATION,
                .daemon = daemon,
                .conversation = c->id,
                .check = responses_check(c->created_usec)};

        responses_id_encode(&id, ret);
}

/* ---- refusals ---- */

void responses_refuse_unknown(
        struct asker *asker, const char *what, const char *id, const char *param) {
        char message[300];
        const struct talk_error error = {
                .status = 404, .code = CONFAB_NOT_FOUND, .message = message, .param = param};

        snprintf(message, sizeof(message), "there is no %s %.200s", what, id);
        asker_refuse(asker, &error);
}

void responses_refuse(struct asker *asker, const char *param, const char *message) {
        const struct talk_error error = {
                .status = 400, .code = CONFAB_INVALID, .message = message, .param = param};

        asker_refuse(asker, &error);
}

void responses_refuse_body(struct asker *asker, const struct fields *fields, const struct err *e) {
        struct talk_error error = {.status = 400, .message = e->msg, .param = fields->wrong};

        switch (e->code) {
        case ERR_INVALID:
                error.code = CONFAB_INVALID;
                break;
        case ERR_UNSUPPORTED:
                error.code = CONFAB_UNSUPPORTED;
                break;
        case ERR_NOT_FOUND:
                error.status = 404;
                error.code = CONFAB_NOT_FOUND;
                break;
        default:
                asker_refuse_err(asker, e);
                return;
        }
        asker_refuse(asker, &error);
}

bool responses_take_arg(struct asker *asker, unsigned number, enum responses_id_kind kind,
        const char *what, struct responses_id *ret, struct backend **ret_backend) {
        const char *text = asker->call->arg[number];
        bool is_item = kind == RESPONSES_ID_MESSAGE; /* of whichever kind */

        if (responses_id_decode(ret, text) == 0 &&
                (is_item ? responses_id_is_item(ret) : ret->kind == kind) &&
                (kind != RESPONSES_ID_RESPONSE || ret->turn > 0)) {
                *ret_backend = responses_backend(gateway_call_backends(asker->call), ret);
                if (*ret_backend)
                        return true;
        }
        responses_refuse_unknown(asker, what, text, NULL);
        return false;
}
