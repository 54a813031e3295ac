/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Ids of /v1/responses and /v1/conversations. An id is a place in a conversation, so the gateway keeps no table, and
 * ids outlive restarts of the gateway and of the daemons.
 *
 *      resp_   a reply: its turn, what was said to it, and how it was asked for
 *      conv_   a conversation
 *      msg_ rs_ fc_ fco_   an item: a part of a turn (of the assistant), a text, or a result
 *
 * Behind the prefix come hexadecimal digits: four bytes that name the daemon, numbers as varints, and a check of four
 * bytes.
 *
 * 1. There is one text for each id: what is decoded and encoded again is the same text.
 * 2. The check says which turn it was that stood there: its seed if it is a reply, else the time when it was made.
 *    So the id of a turn that was taken back does not name the one that took its place.
 * 3. An id gives no right: what it names is looked up as the one who asks, and is "not found" for anybody else.
 * 4. Ids that other servers or clients have made are none (-ERR_NOT_FOUND).
 */
#include "client/confab.h"
#include <stddef.h>
#include <stdint.h>

#define RESPONSES_ID_SIZE 160 /* with the NUL */

enum responses_id_kind {
        RESPONSES_ID_RESPONSE,
        RESPONSES_ID_CONVERSATION,
        RESPONSES_ID_MESSAGE,
        RESPONSES_ID_REASONING,
        RESPONSES_ID_CALL,
        RESPONSES_ID_RESULT
};

/* What a response was asked with, as far as it is told again when it is retrieved. */
enum responses_flag {
        RESPONSES_IN_CONVERSATION = 1 << 0, /* of a `conversation` */
        RESPONSES_BACKGROUND = 1 << 1,
        RESPONSES_LATE_INSTRUCTIONS = 1
                                      << 2, /* they are the first new turn, not the first of all */
        RESPONSES_SUMMARY = 1 << 3,         /* reasoning is told as a summary */
        RESPONSES_NOT_STORED = 1 << 4,
        RESPONSES_TRUNCATES = 1 << 5,
        RESPONSES_ONE_CALL = 1 << 6, /* parallel_tool_calls is false */
        RESPONSES_ALL_FLAGS = (1 << 7) - 1
};

struct responses_id {
        enum responses_id_kind kind;
        uint32_t daemon; /* responses_daemon() */
        uint64_t conversation;
        uint32_t check; /* responses_check() */
        uint32_t turn;  /* of the reply, or of the item */
        uint32_t part;  /* items: the part of a reply, the result, or 0 */
        /* responses: */
        uint32_t n_input;  /* turns in front of the reply that its request gave, */
        uint32_t n_new;    /* and those of them that the conversation did not have */
        uint64_t revision; /* of the conversation, with the input */
        uint64_t created;  /* seconds since 1970 */
        uint32_t
                instructions_size; /* bytes of the text that the instructions are; 0: there were none */
        uint32_t flags;
};

void responses_id_encode(const struct responses_id *id, char ret[RESPONSES_ID_SIZE]);
/* -ERR_NOT_FOUND: it is no id of ours. */
int responses_id_decode(struct responses_id *ret, const char *text);
static inline bool responses_id_is_item(const struct responses_id *id) {
        return id->kind >= RESPONSES_ID_MESSAGE;
}
/* The number that stands for a daemon, by the path of its socket. */
uint32_t responses_daemon(const char *socket);
/* The check of a turn; of a reply without a seed that is known, and of a conversation, by the time. */
uint32_t responses_check(uint64_t value);
uint32_t responses_check_turn(const struct confab_turn *turn);
