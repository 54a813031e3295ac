/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What a talk tells, written as OpenAI's JSON. Pure: events of a talk go in, JSON comes out.
 *
 * A reply is told either in pieces (chunks, each handed to `emit`) or whole (openai_reply_whole()). Of a stream:
 *
 * 1. All chunks have the same id, model and time. The id names the place of the first choice that was accepted:
 *    KIND-FINGERPRINT-CONVERSATION-TURN-REVISION, the fingerprint's first eight digits, the others in
 *    hexadecimal.
 * 2. The first chunk of a choice of a chat has its role, the last one its finish_reason; nothing follows that.
 * 3. A chunk of usage has no choices and comes last, only if asked for; then all others have "usage": null.
 * 4. Log-probabilities are those of the tokens of the text, in order: a token whose text is held back (half a
 *    character, perhaps a stop string) stands with the text that it becomes part of, tokens of reasoning, of
 *    calls and of no text at all (the end) are left out.
 *
 * Functions return 0 or -ERR_NOMEM (or what emit returned); after a failure the reply can only be freed.
 */
#include "base/buf.h"
#include "base/json.h"
#include "client/confab.h"
#include "client/gateway/openai.h"
#include "client/gateway/talk.h"

struct openai_reply;

enum openai_kind { OPENAI_CHAT, OPENAI_TEXT };

struct openai_reply_options {
        enum openai_kind kind;
        bool in_pieces;
        bool include_usage;
        bool want_logprobs;
        bool one_call;    /* chat: only the first call is told */
        unsigned n;       /* choices: of all prompts together */
        uint64_t created; /* seconds since 1970 */
        const char *model, *fingerprint;
};

/* One chunk, without line breaks. Returns 0 or a negative error. */
typedef int (*openai_emit)(void *userdata, const struct buf *json);

/* The strings of @options are copied. @emit may be NULL if not in_pieces. */
int openai_reply_new(struct openai_reply **ret, const struct openai_reply_options *options,
        openai_emit emit, void *userdata);
/* NULL is harmless; returns NULL. */
struct openai_reply *openai_reply_free(struct openai_reply *reply);

/* Text that stands in front of a choice's text (the echo of a prompt). Before it is accepted. */
int openai_reply_echo(struct openai_reply *reply, unsigned choice, const void *text, size_t size);
int openai_reply_accepted(
        struct openai_reply *reply, unsigned choice, const struct talk_place *place);
int openai_reply_delta(
        struct openai_reply *reply, unsigned choice, const struct confab_delta *delta);
/* @usage is added to that of the others; the prompt counts for the first choice that tells it for this @prompt. */
int openai_reply_done(struct openai_reply *reply, unsigned choice, const struct confab_done *done,
        const struct talk_usage *usage, bool counts_prompt);
/* True once: a call of the only choice was told whole, and no other one may follow (one_call). */
bool openai_reply_is_enough(struct openai_reply *reply);
/* All choices are done: the chunk of usage, if asked for. */
int openai_reply_finish(struct openai_reply *reply);
/* The whole answer. */
int openai_reply_whole(struct openai_reply *reply, struct buf *out);

/* ---- other answers ---- */

/* As gateway_error_body. */
int openai_error_body(
        struct buf *out, unsigned status, const char *code, const char *message, const char *param);
/* The field that an error of the daemon or a talk is about: its own, or what its words begin with, or NULL. */
const char *openai_error_param(const struct talk_error *error);
/* {"object": "list", "data": [ : the items follow. */
void openai_list_begin(struct json *j);
int openai_write_model(struct buf *out, const struct backend_model *model);
int openai_write_models(
        struct buf *out, const struct backend_model *const *models, size_t n_models);
