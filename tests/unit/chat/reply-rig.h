/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Readers of replies, for tests: a vocabulary of bytes and of pieces of the replies, a chat format,
 * and what the reader says, written as text. Every event is checked: parts follow each other, all text
 * is UTF-8, the arguments of a call that is not broken are one JSON object.
 */
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "chat/reply.h"
#include "unit/tok/vocab-build.h"

struct reply_rig {
        struct vocab_build vocab; /* the token of byte b is b */
        struct chat *chat;
        const char *header; /* the invitation, or NULL */
        const char *tools;  /* definitions, or NULL */
        struct charge *charge;
        size_t n_pieces;
        bool marks; /* the pieces are marks */
        int32_t first_piece;
        int32_t head[256]; /* by first byte: a piece, or -1 */
        int32_t *next;     /* the next piece with the same first byte; by piece - first_piece */
};

/* Out of memory and other failures end the test program. @random: a seed. */
void reply_rig_init(struct reply_rig *rig);
/* Before loading: pieces of @text become tokens. */
void reply_rig_pieces(struct reply_rig *rig, const char *text, size_t size, uint64_t random);
/* Before loading. The token. */
int32_t reply_rig_control(struct reply_rig *rig, const char *text);
/* Before loading: the marks of all rows become control tokens, and are cut as such. */
void reply_rig_marks(struct reply_rig *rig);
void reply_rig_load(struct reply_rig *rig, const char *template_text);
void reply_rig_deinit(struct reply_rig *rig);

enum reply_cut { REPLY_CUT_BYTES, REPLY_CUT_RANDOM, REPLY_CUT_LONGEST };
/* The text as tokens: each byte one, or pieces where they fit. */
void reply_rig_cut(const struct reply_rig *rig, const char *text, size_t size, enum reply_cut cut,
        uint64_t random, struct tok_ids *ret);

/* What was heard. */
struct reply_heard {
        struct buf said; /* of each part: text<...> reasoning<...> call name#id<...> broken: why */
        bool open;
        uint32_t n_parts, n_calls, n_broken;
        int kind;
        uint32_t last_token;
        struct buf arguments;
        size_t n_events;
        long fail_at; /* the event that the receiver refuses; -1: none */
};
#define REPLY_HEARD_NULL ((struct reply_heard){.fail_at = -1})
void reply_heard_deinit(struct reply_heard *h);
int reply_heard_event(void *arg, const struct chat_part_event *event, struct err *e);
/* Read the tokens. @finish: the reply is over. The first error, or 0. */
int reply_rig_read(const struct reply_rig *rig, const int32_t *tokens, size_t n, bool finish,
        struct reply_heard *ret, uint64_t *ret_steps);
