/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The tokens of a choice with their log-probabilities, until they are told (openai-reply.h, 4).
 *
 * The first n_listed tokens belong to text that was told; those behind wait for the text that they become part of.
 */
#include "base/buf.h"
#include "base/json.h"
#include "client/confab.h"

struct openai_tokens {
        struct buf tokens, tops; /* arrays of struct openai_token, openai_top */
        struct buf text;
        size_t n_listed;
        uint64_t n_characters; /* of the text before the first token here */
};
#define OPENAI_TOKENS_NULL ((struct openai_tokens){})
void openai_tokens_deinit(struct openai_tokens *tokens);

/* One more that waits. -ERR_NOMEM. */
int openai_tokens_add(struct openai_tokens *tokens, const struct confab_token *token);
/* Those that wait belong to the text that is told now. */
void openai_tokens_list(struct openai_tokens *tokens);
/* Those that wait belong to no text. */
void openai_tokens_drop(struct openai_tokens *tokens);
/* The listed ones are told: forget them. None may wait. */
void openai_tokens_clear(struct openai_tokens *tokens);

/* The listed tokens as items of an array. */
void openai_tokens_write_items(const struct openai_tokens *tokens, struct json *j);
/* {"content": [...], "refusal": null} of the listed tokens. */
void openai_tokens_write_chat(const struct openai_tokens *tokens, struct json *j);
/* {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of completions; offsets are in characters. */
void openai_tokens_write_text(const struct openai_tokens *tokens, struct json *j);
/* The number of characters that begin in @text. */
uint64_t openai_count_characters(const void *text, size_t size);
