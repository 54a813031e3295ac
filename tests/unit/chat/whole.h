/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Tests of templates: the whole rendering of a conversation, which the appended messages are compared
 * with. It is made here from the language alone, not by lib/chat.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/chat.h"
#include "unit/tok/vocab-build.h"

/* A message of role @r, whose text is the literal @t. */
#define MESSAGE(r, t)                                                                              \
        { .role = r, .text = t, .size = sizeof(t) - 1 }

struct whole {
        const struct chat_message *messages;
        size_t n;
        const char *tools; /* a list in OpenAI's form; NULL: none */
        bool invite;
        /* How the template wants calls: arguments as a string; content none beside calls. */
        bool arguments_as_text, content_none;
        const char *reasoning_key; /* NULL: reasoning is not given */
        const char *result_role;   /* NULL: "tool" */
        bool tools_as_key;         /* of the system message */
};
/* The tokens of the whole: one text, of which the template wrote some ranges. */
void whole_tokens(
        const struct tok *t, const char *text, const struct whole *whole, struct tok_ids *ids);

/* "gpt2", byte by byte but for some joins over the border between template and text, or "llama";
 * with @control as control tokens and @added as user-defined ones, each list ended by NULL. */
void whole_vocabulary(struct vocab_build *v, const char *model, bool add_bos,
        const char *const *control, const char *const *added);

char *whole_text_of(const struct tok *t, const struct tok_ids *ids, const char *between);
void whole_assert_same(const char *name, const struct tok *t, const struct tok_ids *got,
        const struct tok_ids *want);
/* A chat whose template can be used. */
struct chat *whole_chat(const struct vocab_build *v, const char *text);
