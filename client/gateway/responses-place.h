/* SPDX-License-Identifier: MIT */
#pragma once
/* Handlers of /v1/responses and /v1/conversations, and what they have in common: looking at what an id names. */
#include "client/gateway/asker.h"
#include "client/gateway/responses.h"

/* Routes of other files than responses-handle.c: each handles one. */
void responses_handle_create(struct gateway_call *call);
void responses_handle_count(struct gateway_call *call);
void conversations_handle_create(struct gateway_call *call);
void conversations_handle_get(struct gateway_call *call);
void conversations_handle_update(struct gateway_call *call);
void conversations_handle_delete(struct gateway_call *call);
void conversations_handle_list(struct gateway_call *call);
void conversations_handle_add(struct gateway_call *call);
void conversations_handle_item(struct gateway_call *call);
void conversations_handle_remove(struct gateway_call *call);

/* The daemon of an id, or NULL. */
struct backend *responses_backend(struct backends *backends, const struct responses_id *id);

/* What has become of a response. */
enum responses_fate {
        RESPONSES_GONE,       /* or never was */
        RESPONSES_WRITING,    /* its reply is being written */
        RESPONSES_UNANSWERED, /* its reply was ended before it said anything */
        RESPONSES_STORED
};
/* A Get that looks for the response @id (of turn 1 or later), with the parts of its reply. */
void responses_fill_look(struct confab_request *request, const struct responses_id *id);
/* What that Get has found. *ret_turn: the reply, if it is stored. */
enum responses_fate responses_look(const struct responses_id *id,
        const struct confab_conversation *c, const struct confab_turn **ret_turn);
/* A Get of turns [from, before). */
void responses_fill_turns(
        struct confab_request *request, uint64_t conversation, uint32_t from, uint32_t before);
/* The conversation is the one that @id (conv_) names. */
bool responses_is_conversation(const struct responses_id *id, const struct confab_conversation *c);
/* The id of a conversation. */
void responses_name_conversation(
        uint32_t daemon, const struct confab_conversation *c, char ret[RESPONSES_ID_SIZE]);

/* 404: there is no @what (response, conversation, item) of this id. @param: or NULL. */
void responses_refuse_unknown(
        struct asker *asker, const char *what, const char *id, const char *param);
/* 400 with words of ours. */
void responses_refuse(struct asker *asker, const char *param, const char *message);
/* What is wrong with a body; @fields has the name of it. */
void responses_refuse_body(struct asker *asker, const struct fields *fields, const struct err *e);

/* The call's `*` as an id of @kind; decoded ids have a daemon that is known. False: the call was refused. */
bool responses_take_arg(struct asker *asker, unsigned number, enum responses_id_kind kind,
        const char *what, struct responses_id *ret, struct backend **ret_backend);
