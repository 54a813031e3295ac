/* SPDX-License-Identifier: MIT */
#pragma once
/* Conversations with wanted replies, and lists of messages as stateless clients send them. */
#include "tools-rig.h"

#define FIND_POOL (64 << 20)

/* A list of messages; texts are borrowed. */
struct list_of {
        struct engine_message m[64];
        size_t n;
        struct engine_call calls[64];
        struct engine_result results[64];
        size_t n_calls, n_results;
};
void put(struct list_of *l, enum engine_role role, const char *text);
/* A message of the assistant with everything; @name NULL: no call. */
void put_said(struct list_of *l, const char *text, const char *reasoning, const char *name,
        const char *arguments);
/* One more call of the last message. */
void put_call(struct list_of *l, const char *name, const char *arguments);
void put_result(struct list_of *l, const char *text);
/* One more result of the last message. */
void put_one_more(struct list_of *l, const char *text);

/* Say @message (NULL: nothing), with the reply @reply (NULL: none). */
void find_say(struct erig *r, uint64_t conv, const char *message, const char *reply);
/* Answer all calls of the last reply. */
void find_answer(
        struct erig *r, uint64_t conv, const char *const *texts, size_t n, const char *reply);

/* Of the last find(). */
extern struct answer found;
void find_as(struct erig *r, const struct list_of *l, const char *tools, const char *session);
/* The same in one conversation. */
void find_in(struct erig *r, uint64_t conv, const struct list_of *l, const char *tools);
/* The first @n messages are turns [0, at_turn) of @conv. conv 0: none is found. */
void expect(struct erig *r, const struct list_of *l, uint64_t conv, uint32_t at_turn, uint32_t n);
void expect_with(struct erig *r, const struct list_of *l, const char *tools, uint64_t conv,
        uint32_t at_turn, uint32_t n);
/* Of @conv itself the first @at_turn turns are the first @n messages. */
void expect_in(struct erig *r, uint64_t conv, const struct list_of *l, const char *tools,
        uint32_t at_turn, uint32_t n);

/* The chains that were computed turn by turn are those of the whole conversations, computed at a start
 * that finds none. Restarts the engine. */
void find_check_chains(struct erig *r);
/* SQL past the engine, while it runs or not. Returns the one number of a SELECT, else 0. */
int64_t find_sql(struct erig *r, const char *sql);
