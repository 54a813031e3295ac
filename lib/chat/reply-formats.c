/* SPDX-License-Identifier: MIT */
/*
 * How models write calls and reasoning, as data, after the models' published templates. The first row
 * whose literals are all in the template is taken, so rows with more particular literals come first;
 * if there is none, the first whose tokens are all special tokens of the vocabulary. Calls, reasoning
 * and marks around text are chosen independently of each other.
 */
#include <string.h>

#include "base/util.h"
#include "chat/chat-internal.h"
#include "chat/reply-internal.h"

const struct reply_calls reply_calls[] = {
        {
                .name = "gpt-oss",
                .models = "gpt-oss",
                .choice = {.marks = {"<|channel|>", "<|message|>", "<|start|>"},
                        .tokens = {"<|channel|>", "<|message|>", "<|constrain|>"}},
                .kind = REPLY_KIND_CHANNELS,
        },
        {
                .name = "hermes",
                .models =
                        "Qwen 2.5 and 3, Hermes 2 and 3, SmolLM 3, EXAONE 4, Granite 4, ERNIE 4.5",
                .choice = {.marks = {"<tool_call>", "</tool_call>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<tool_call>"},
                .each_end = "</tool_call>",
        },
};
const size_t reply_n_calls = ARRAY_SIZE(reply_calls);

const struct reply_thinking reply_thinking[] = {
        {
                .name = "think",
                .choice = {.marks = {"</think>"}, .tokens = {"<think>", "</think>"}},
                .open = "<think>",
                .close = "</think>",
        },
};
const size_t reply_n_thinking = ARRAY_SIZE(reply_thinking);

const struct reply_wrap reply_wraps[] = {
        {
                .choice = {.marks = {"<answer>", "</answer>"}},
                .open = "<answer>",
                .close = "</answer>",
        },
};
const size_t reply_n_wraps = ARRAY_SIZE(reply_wraps);

/* --- the choice --- */

static bool in_template(const struct reply_choice *c, const char *text, size_t size) {
        if (!c->marks[0] || size == 0 || (c->unless && chat_has(text, size, c->unless)))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(c->marks) && c->marks[i]; i++)
                if (!chat_has(text, size, c->marks[i]))
                        return false;
        return true;
}

static bool in_vocabulary(const struct reply_choice *c, const struct tok *t) {
        if (!c->tokens[0])
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(c->tokens) && c->tokens[i]; i++) {
                int32_t token = tok_find(t, c->tokens[i], strlen(c->tokens[i]));

                if (token < 0 || !tok_is_special(t, token))
                        return false;
        }
        return true;
}

/* The row out of @n that @choice_of finds, or NULL. */
#define CHOOSE(rows, n, t, text, size)                                                             \
        ({                                                                                         \
                const __typeof__(*(rows)) *_row = NULL;                                            \
                for (size_t _i = 0; !_row && _i < (n); _i++)                                       \
                        if (in_template(&(rows)[_i].choice, (text), (size)))                       \
                                _row = &(rows)[_i];                                                \
                for (size_t _i = 0; !_row && _i < (n); _i++)                                       \
                        if (in_vocabulary(&(rows)[_i].choice, (t)))                                \
                                _row = &(rows)[_i];                                                \
                _row;                                                                              \
        })

void reply_choose(struct reply_rules *ret, const struct tok *t, const char *text, size_t size) {
        ret->tok = t;
        ret->calls = CHOOSE(reply_calls, reply_n_calls, t, text, size);
        ret->thinking = CHOOSE(reply_thinking, reply_n_thinking, t, text, size);
        ret->wrap = CHOOSE(reply_wraps, reply_n_wraps, t, text, size);
}
