/* SPDX-License-Identifier: MIT */
#include "unit/chat/tool-forms.h"

#include <stdlib.h>
#include <string.h>

#include "util/test.h"

#define CONTROL                                                                                    \
        "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",    \
                "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]",    \
                "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "<|start|>", "<|message|>", "<|channel|>",    \
                "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|calls_begin|>",           \
                "<|calls_end|>", "<|call_begin|>", "<|call_end|>", "<|outputs_begin|>",            \
                "<|outputs_end|>", "<|output_begin|>", "<|output_end|>", "<|tool|>", "<|/tool|>",  \
                "<|turn>", "<turn|>", "<tool_response|>"
const char *const tool_control[N_TOKENS][TOOL_MAX_TOKENS] = {
        {CONTROL, NULL},
        {CONTROL, "<|return|>", "<|call|>", NULL},
        {CONTROL, "<|tool_response>", NULL},
};
const char *const tool_added[] = {"<tool_call>", "</tool_call>", "<think>", "</think>",
        "<tool_response>", "</tool_response>", "<|tool_call>", "<tool_call|>", "<tools>", NULL};

const struct form tool_forms[] = {
        {.name = "in the system message",
                .text = IN_SYSTEM(""),
                .can = TELL_SYSTEM | TELL_USER | CALL | CALLS | ANSWER,
                .end = "<|im_end|>",
                .reply_end = "<|im_end|>",
                .notes = {"results of one reply together"}},
        {.name = "in the system message, thinking",
                .text = IN_SYSTEM(THINK),
                .can = TELL_SYSTEM | TELL_USER | CALL | CALLS | ANSWER,
                .reasoning_key = "reasoning_content",
                .end = "<|im_end|>",
                .reply_end = "<|im_end|>",
                .notes = {"results of one reply together"}},
        {.name = "in the first message of the user",
                .text = IN_FIRST_USER,
                .can = TELL_SYSTEM | TELL_USER | CALL | ANSWER,
                .opens_with_tools = true,
                .end = "<|eot_id|>",
                .reply_end = "<|eot_id|>",
                .notes = {"one call in a message"}},
        {.name = "before the last message of the user",
                .text = IN_LAST_USER,
                .can = TELL_SYSTEM | TELL_USER | TELL_LATER | CALL | CALLS | ANSWER,
                .opens = true,
                .opens_with_tools = true,
                .end = "</s>",
                .reply_end = "</s>",
                .notes = {"moves the system text", "in a row", "moves the definitions",
                        "nine letters"}},
        {.name = "names",
                .text = NAMES,
                .tokens = WITH_CALL,
                .can = TELL_SYSTEM | TELL_USER | CALL | ANSWER,
                .reasoning_key = "thinking",
                .end = "<|call|>",
                .reply_end = "<|end|>",
                .notes = {"another token"}},
        {.name = "arguments as text",
                .text = AS_TEXT,
                .can = CALL | CALLS | ANSWER,
                .arguments_as_text = true,
                .content_none = true,
                .end = "</s>",
                .reply_end = "</s>"},
        {.name = "a block of their own",
                .text = OWN_BLOCK,
                .can = TELL_SYSTEM | TELL_USER | CALL | CALLS | ANSWER,
                .end = "<|end|>",
                .reply_end = "<|end|>"},
        {.name = "a key of the system message",
                .text = AS_KEY,
                .can = TELL_SYSTEM | TELL_USER | ANSWER,
                .end = "<|end|>",
                .reply_end = "<|end|>"},
        {.name = "the reply goes on",
                .text = GOES_ON,
                .tokens = WITH_RESPONSE,
                .can = TELL_SYSTEM | TELL_USER | CALL | CALLS | ANSWER,
                .end = "<|tool_response>",
                .reply_end = "<turn|>"},
        {.name = "ids",
                .text = IDS,
                .can = TELL_SYSTEM | TELL_USER | CALL | CALLS | ANSWER,
                .end = "<|end|>",
                .reply_end = "<|end|>"},
        {.name = "plain",
                .text = PLAIN,
                .can = ANSWER,
                .end = "<|im_end|>",
                .reply_end = "<|im_end|>"},
};
#define N_FORMS (sizeof(tool_forms) / sizeof(tool_forms[0]))

struct vocabulary {
        const char *model;
        bool add_bos;
};
static const struct vocabulary vocabularies[TOOL_N_VOCABULARIES] = {
        {"gpt2", true}, {"gpt2", false}, {"llama", true}, {"llama", false}};

/* What a model says is cut into tokens as its text is. */
bool tool_by_bytes;

void tool_forms_each(
        void (*f)(const struct vocab_build *v, const struct form *form, const struct chat *c),
        size_t n_vocabularies) {
        for (size_t i = 0; i < n_vocabularies * N_TOKENS; i++) {
                const struct vocabulary *x = &vocabularies[i / N_TOKENS];
                struct vocab_build v;

                whole_vocabulary(&v, x->model, x->add_bos, tool_control[i % N_TOKENS], tool_added);
                tool_by_bytes = strcmp(x->model, "gpt2") == 0;
                for (size_t k = 0; k < N_FORMS; k++) {
                        struct chat *c;

                        if (tool_forms[k].tokens != i % N_TOKENS)
                                continue;
                        c = whole_chat(&v, tool_forms[k].text);
                        f(&v, &tool_forms[k], c);
                        chat_free(c);
                }
                vocab_build_deinit(&v);
        }
}

int tool_try(const struct vocab_build *v, const struct chat *c, const struct chat_tail *tail,
        const struct chat_input *in, char **ret, struct err *e) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        int r = chat_append(c, tail, in, 0, &ids, e);

        *ret = whole_text_of(v->tok, &ids, "");
        assert_true(r == 0 || ids.n == 0);
        return r;
}

void tool_assert_text(const struct vocab_build *v, const struct chat *c,
        const struct chat_tail *tail, const struct chat_message *m, size_t n, const char *want) {
        const struct chat_input in = {.messages = m, .n = n};
        _cleanup_(freep) char *text = NULL;
        struct err e = {0};

        if (tool_try(v, c, tail, &in, &text, &e) < 0)
                fail_msg("%s", e.msg);
        assert_string_equal(text, want);
}

void tool_assert_refused(const struct vocab_build *v, const struct chat *c,
        const struct chat_tail *tail, const struct chat_input *in, enum err_code code,
        const char *sentence) {
        _cleanup_(freep) char *text = NULL;
        struct err e = {0};
        int r = tool_try(v, c, tail, in, &text, &e);

        if (r != -(int)code || !strstr(e.msg, sentence))
                fail_msg("%d: %s, not: %s (%s)", r, r < 0 ? e.msg : "", sentence, text);
}

struct vocab_build tool_form_open(size_t tokens, const char *text, struct chat **ret) {
        struct vocab_build v;

        whole_vocabulary(&v, "gpt2", false, tool_control[tokens], tool_added);
        *ret = whole_chat(&v, text);
        return v;
}

void tool_form_close(struct vocab_build *v, struct chat *c) {
        chat_free(c);
        vocab_build_deinit(v);
}
