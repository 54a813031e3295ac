/* SPDX-License-Identifier: MIT */
#pragma once
/* What tests of the OpenAI dialect share: reading a body, and writing a reply without a talk. */
#include "client/gateway/openai-reply.h"

/* Read @body as a chat. *ret (may be NULL) is to be freed. Returns what openai_read_chat() does. */
struct openai_read {
        struct form *form;
        struct form_fields *is;
        struct openai_options options;
        struct openai_prompts prompts; /* of openai_rig_text() */
        struct fields fields;
        struct err e;
};
int openai_rig_chat(struct openai_read *ret, const char *body);
int openai_rig_text(struct openai_read *ret, const char *body);
void openai_rig_free(struct openai_read *read);

/* A reply whose chunks are collected, one a line, without what all of them begin with. */
struct openai_said {
        struct openai_reply *reply;
        struct buf lines;
        char head[400]; /* of the first chunk, up to "choices" */
        int refuse_at;  /* emit fails at this chunk; -1: never */
        int n_chunks;
};
void openai_said_new(struct openai_said *ret, const struct openai_reply_options *options);
void openai_said_free(struct openai_said *said);

struct openai_rig_token {
        const char *text;
        float logprob;
};
/* Deltas of one part, with one token (NULL: none). All return what openai_reply_delta() does. */
int openai_rig_part(struct openai_said *said, unsigned choice, enum confab_part_kind kind,
        const char *text, const struct openai_rig_token *token);
int openai_rig_token_only(
        struct openai_said *said, unsigned choice, const struct openai_rig_token *token);
int openai_rig_call(struct openai_said *said, unsigned choice, const char *id, const char *name,
        const char *text, bool ends, const char *broken);
int openai_rig_plain(struct openai_said *said, unsigned choice, const char *text,
        const struct openai_rig_token *token);
