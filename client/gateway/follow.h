/* SPDX-License-Identifier: MIT */
#pragma once
/* Going where a conversation is held: follow.c has the rules. Thread of the event base. */
#include "base/list.h"
#include "client/gateway/gateway.h"

enum follow_mode {
        FOLLOW_NO,
        FOLLOW_YES,
        FOLLOW_AUTO /* bodies are kept only once a daemon has told that it shares its register */
};

struct follower;
/* What a call was refused with before it was followed. */
struct follow_refusal;

/* @ca_file: see follow-net.h. */
int follower_new(
        struct follower **ret, struct event_base *base, const char *ca_file, struct err *e);
/* When the gateway has no exchange any more. NULL is harmless; returns NULL. */
struct follower *follower_free(struct follower *follower);

/* A head was admitted, and the call is the route's: what is to be followed keeps its body, and call->refused is set. */
void follow_admit(struct gateway_call *call);
/* Whether a marked request acts for the one for whom it acted at the gateway that has followed: 0, -ERR_CONFLICT, -ERR_NOMEM. A
 * request without the mark is 0. */
int follow_check_owner(const struct gateway_call *call, struct err *e);
