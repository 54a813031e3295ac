/* SPDX-License-Identifier: MIT */
#pragma once
/* The inside of openai-reply.h, for the files that write it. */
#include "base/json.h"
#include "client/gateway/openai-logprobs.h"
#include "client/gateway/openai-reply.h"

/* A call that is kept for the whole answer. */
struct openai_call {
        char *id, *name;
        struct buf arguments;
};

struct openai_choice {
        bool call_ended;     /* a proper one did */
        bool call_is_hidden; /* the one that comes is not told (one_call) */
        const char *finish;  /* the word for it, when done */
        size_t n_calls;      /* told */
        struct openai_tokens tokens;
        struct buf echo;
        /* in the whole answer only */
        struct buf text, reasoning;
        struct openai_call *calls; /* [n_calls] */
};

struct openai_reply {
        struct openai_reply_options options;
        char *model, *fingerprint;
        openai_emit emit;
        void *userdata;
        char id[80]; /* "" before the first choice was accepted */
        struct talk_usage usage;
        bool said_enough;
        struct buf chunk;               /* the one that is being written */
        struct openai_choice choices[]; /* [options.n] */
};

/* Begin a chunk with one choice, up to the choice's index: in openai_chunk_end() its logprobs and finish_reason
 * follow. Between them the writer puts the delta or the text. */
void openai_chunk_begin(struct openai_reply *reply, struct json *j, unsigned choice);
/* @with_tokens: the choice's listed tokens are told here, and forgotten. @finish NULL: null. */
int openai_chunk_end(struct openai_reply *reply, struct json *j, unsigned choice, bool with_tokens,
        const char *finish);
/* "logprobs" of a choice: the listed tokens, or null. */
void openai_put_logprobs(
        const struct openai_reply *reply, struct json *j, unsigned choice, bool with_tokens);

/* ---- by kind ---- */

int openai_chat_begin(struct openai_reply *reply, unsigned choice);
int openai_chat_delta(
        struct openai_reply *reply, unsigned choice, const struct confab_delta *delta);
int openai_chat_done(struct openai_reply *reply, unsigned choice);
void openai_chat_put_message(const struct openai_reply *reply, struct json *j, unsigned choice);
int openai_text_begin(struct openai_reply *reply, unsigned choice);
int openai_text_delta(
        struct openai_reply *reply, unsigned choice, const struct confab_delta *delta);
int openai_text_done(struct openai_reply *reply, unsigned choice);
