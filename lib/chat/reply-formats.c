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

#define QWEN_TAGS                                                                                  \
        .kind = REPLY_KIND_TAGS, .each = {"<function="}, .each_end = "</function>",                \
        .name_end = ">", .key = "<parameter=", .key_end = ">", .value_end = "</parameter>",        \
        .value_lines = true

const struct reply_calls reply_calls[] = {
        {
                .name = "gpt-oss",
                .models = "gpt-oss",
                .choice = {.marks = {"<|channel|>", "<|message|>", "<|start|>"},
                        .tokens = {"<|channel|>", "<|message|>", "<|constrain|>"}},
                .kind = REPLY_KIND_CHANNELS,
        },
        {
                .name = "gemma4",
                .models = "Gemma 4",
                .choice = {.marks = {"<|tool_call>", "<tool_call|>"},
                        .tokens = {"<|tool_call>", "<tool_call|>"}},
                .kind = REPLY_KIND_BRACES,
                .each = {"<|tool_call>"},
                .each_end = "<tool_call|>",
                .prefix = "call:",
                .quote = "<|\"|>",
                .ends_reasoning = true,
        },
        {
                .name = "functiongemma",
                .models = "FunctionGemma",
                .choice = {.marks = {"<start_function_call>"}, .tokens = {"<start_function_call>"}},
                .kind = REPLY_KIND_BRACES,
                .each = {"<start_function_call>"},
                .each_end = "<end_function_call>",
                .prefix = "call:",
                .quote = "<escape>",
        },
        {
                .name = "minimax-m2",
                .models = "MiniMax M2",
                .choice = {.marks = {"<minimax:tool_call>"}, .tokens = {"<minimax:tool_call>"}},
                .kind = REPLY_KIND_TAGS,
                .section = "<minimax:tool_call>",
                .section_end = "</minimax:tool_call>",
                .each = {"<invoke name=\""},
                .each_end = "</invoke>",
                .name_end = "\">",
                .key = "<parameter name=\"",
                .key_end = "\">",
                .value_end = "</parameter>",
                .value_lines = true,
        },
        {
                .name = "deepseek-dsml",
                .models = "DeepSeek V3.2",
                .choice = {.marks = {"｜DSML｜"}},
                .kind = REPLY_KIND_TAGS,
                .section = "<｜DSML｜function_calls>",
                .section_end = "</｜DSML｜function_calls>",
                .each = {"<｜DSML｜invoke name=\""},
                .each_end = "</｜DSML｜invoke>",
                .name_end = "\">",
                .key = "<｜DSML｜parameter name=\"",
                .key_end = "\" string=\"false\">",
                .key_end_text = "\" string=\"true\">",
                .value_end = "</｜DSML｜parameter>",
                .ends_reasoning = true,
        },
        {
                /* V3 and R1 write "function", the mark, the name, and a block of Markdown; V3.1 the
                 * name, the mark, and the arguments. */
                .name = "deepseek",
                .models = "DeepSeek V3, R1, V3.1",
                .choice = {.marks = {"<｜tool▁call▁begin｜>"},
                        .tokens = {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"}},
                .kind = REPLY_KIND_NAMED,
                .section = "<｜tool▁calls▁begin｜>",
                .section_end = "<｜tool▁calls▁end｜>",
                .each = {"<｜tool▁call▁begin｜>"},
                .each_end = "<｜tool▁call▁end｜>",
                .before_arguments = "<｜tool▁sep｜>",
                .type = "function",
                .ignored = {"```"},
                .ends_reasoning = true,
        },
        {
                .name = "kimi-k2",
                .models = "Kimi K2",
                .choice = {.marks = {"<|tool_call_argument_begin|>"},
                        .tokens = {"<|tool_call_argument_begin|>"}},
                .kind = REPLY_KIND_NAMED,
                .section = "<|tool_calls_section_begin|>",
                .section_end = "<|tool_calls_section_end|>",
                .each = {"<|tool_call_begin|>"},
                .each_end = "<|tool_call_end|>",
                .before_arguments = "<|tool_call_argument_begin|>",
                .id_prefix = "functions.",
                .ends_reasoning = true,
        },
        {
                /* Older models write a list of objects behind the mark. */
                .name = "mistral",
                .models = "Mistral 7B v0.3, Nemo, Small, Large, Devstral, Magistral, Ministral 3",
                .choice = {.marks = {"[TOOL_CALLS]"}, .tokens = {"[TOOL_CALLS]"}},
                .kind = REPLY_KIND_NAMED,
                .each = {"[TOOL_CALLS]"},
                .before_arguments = "[ARGS]",
                .before_id = "[CALL_ID]",
                .ends_reasoning = true,
        },
        {
                .name = "command-r7b",
                .models = "Command R7B, Command A",
                .choice = {.marks = {"<|START_ACTION|>"}, .tokens = {"<|START_ACTION|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<|START_ACTION|>"},
                .each_end = "<|END_ACTION|>",
                .ends_reasoning = true,
        },
        {
                .name = "command-r",
                .models = "Command R, R+",
                .choice = {.marks = {"Action:", "```json", "<|START_OF_TURN_TOKEN|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"Action: ```json", "Action:```json", "Action:\n```json"},
                .each_end = "```",
        },
        {
                .name = "seed-oss",
                .models = "Seed-OSS",
                .choice = {.marks = {"<seed:tool_call>"}, .tokens = {"<seed:tool_call>"}},
                .section = "<seed:tool_call>",
                .section_end = "</seed:tool_call>",
                QWEN_TAGS,
        },
        {
                .name = "qwen3-coder",
                .models = "Qwen3-Coder, Qwen 3.5, Nemotron 3",
                .choice = {.marks = {"<tool_call>", "<function=", "<parameter="}},
                .section = "<tool_call>",
                .section_end = "</tool_call>",
                QWEN_TAGS,
        },
        {
                .name = "glm",
                .models = "GLM 4.5 to 4.7",
                .choice = {.marks = {"<arg_key>", "<arg_value>"},
                        .tokens = {"<arg_key>", "<arg_value>"}},
                .kind = REPLY_KIND_TAGS,
                .each = {"<tool_call>"},
                .each_end = "</tool_call>",
                .key = "<arg_key>",
                .key_end = "</arg_key>",
                .value = "<arg_value>",
                .value_end = "</arg_value>",
        },
        {
                .name = "tool-calls",
                .models = "Hunyuan A13B, Jamba, Apriel",
                .choice = {.marks = {"<tool_calls>", "</tool_calls>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<tool_calls>"},
                .each_end = "</tool_calls>",
        },
        {
                .name = "apertus",
                .models = "Apertus",
                .choice = {.marks = {"<|tools_prefix|>"}, .tokens = {"<|tools_prefix|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<|tools_prefix|>"},
                .each_end = "<|tools_suffix|>",
                .name_is_key = true,
                .ends_reasoning = true,
        },
        {
                .name = "lfm2",
                .models = "LFM 2",
                .choice = {.marks = {"<|tool_list_start|>"}, .tokens = {"<|tool_call_start|>"}},
                .kind = REPLY_KIND_PYTHON,
                .each = {"<|tool_call_start|>"},
                .each_end = "<|tool_call_end|>",
        },
        {
                .name = "phi4-mini",
                .models = "Phi 4 mini",
                .choice = {.marks = {"<|tool|>", "<|/tool|>"},
                        .tokens = {"<|tool_call|>", "<|/tool_call|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<|tool_call|>"},
                .each_end = "<|/tool_call|>",
        },
        {
                .name = "granite",
                .models = "Granite 3",
                .choice = {.marks = {"<|tool_call|>", "<|start_of_role|>"},
                        .tokens = {"<|tool_call|>", "<|start_of_role|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<|tool_call|>", "<tool_call>"},
        },
        {
                .name = "nemotron",
                .models = "Nemotron Nano 2, Llama Nemotron",
                .choice = {.marks = {"<TOOLCALL>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<TOOLCALL>"},
                .each_end = "</TOOLCALL>",
        },
        {
                .name = "internlm",
                .models = "InternLM 2.5 and 3",
                .choice = {.marks = {"<|action_start|>"},
                        .tokens = {"<|action_start|>", "<|plugin|>", "<|action_end|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"},
                .each_end = "<|action_end|>",
        },
        {
                .name = "olmo3",
                .models = "OLMo 3",
                .choice = {.marks = {"<function_calls>"}},
                .kind = REPLY_KIND_PYTHON,
                .each = {"<function_calls>"},
                .each_end = "</function_calls>",
        },
        {
                .name = "function-tag",
                .models = "Functionary 3.1, Llama 3.1 with a prompt of its own",
                .choice = {.marks = {"<function=", "</function>"}},
                .kind = REPLY_KIND_NAMED,
                .each = {"<function="},
                .each_end = "</function>",
                .before_arguments = ">",
        },
        {
                .name = "hermes",
                .models =
                        "Qwen 2.5 and 3, Hermes 2 and 3, SmolLM 3, EXAONE 4, Granite 4, ERNIE 4.5, "
                        "Ling 2",
                .choice = {.marks = {"<tool_call>", "</tool_call>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<tool_call>"},
                .each_end = "</tool_call>",
        },
        {
                .name = "llama4",
                .models = "Llama 4",
                .choice = {.marks = {"<|python_start|>"}, .tokens = {"<|python_start|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<|python_start|>"},
                .each_end = "<|python_end|>",
                .bare = true,
        },
        {
                .name = "llama3",
                .models = "Llama 3.1 to 3.3",
                .choice = {.marks = {"<|python_tag|>"}, .tokens = {"<|python_tag|>"}},
                .kind = REPLY_KIND_OBJECT,
                .each = {"<|python_tag|>"},
                .bare = true,
        },
};
const size_t reply_n_calls = ARRAY_SIZE(reply_calls);

const struct reply_thinking reply_thinking[] = {
        {
                .name = "gemma4",
                .choice = {.marks = {"<channel|>"}, .tokens = {"<|channel>", "<channel|>"}},
                .open = "<|channel>thought",
                .close = "<channel|>",
        },
        {
                .name = "seed-oss",
                .choice = {.marks = {"seed:think>"}, .tokens = {"<seed:think>"}},
                .open = "<seed:think>",
                .close = "</seed:think>",
        },
        {
                .name = "mistral",
                .choice = {.marks = {"[/THINK]"}, .tokens = {"[THINK]", "[/THINK]"}},
                .open = "[THINK]",
                .close = "[/THINK]",
        },
        {
                .name = "command",
                .choice = {.marks = {"<|START_THINKING|>"}, .tokens = {"<|START_THINKING|>"}},
                .open = "<|START_THINKING|>",
                .close = "<|END_THINKING|>",
        },
        {
                .name = "apertus",
                .choice = {.marks = {"<|inner_prefix|>"}, .tokens = {"<|inner_prefix|>"}},
                .open = "<|inner_prefix|>",
                .close = "<|inner_suffix|>",
        },
        {
                .name = "granite",
                .choice = {.marks = {"Here is my thought process:"}},
                .open = "Here is my thought process:",
                .close = "Here is my response:",
        },
        {
                .name = "apriel",
                .choice = {.marks = {"[BEGIN FINAL RESPONSE]"}},
                .open = "Here are my reasoning steps:",
                .close = "[BEGIN FINAL RESPONSE]",
        },
        {
                .name = "thought",
                .choice = {.marks = {"</thought>"}, .tokens = {"<thought>", "</thought>"}},
                .open = "<thought>",
                .close = "</thought>",
        },
        {
                .name = "kimi-vl",
                .choice = {.marks = {"◁/think▷"}, .tokens = {"◁think▷", "◁/think▷"}},
                .open = "◁think▷",
                .close = "◁/think▷",
        },
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
                .choice = {.marks = {"<|START_RESPONSE|>"}, .tokens = {"<|START_RESPONSE|>"}},
                .open = "<|START_RESPONSE|>",
                .close = "<|END_RESPONSE|>",
        },
        {
                .choice = {.marks = {"[BEGIN FINAL RESPONSE]"}},
                .open = "[END FINAL RESPONSE]",
        },
        {
                .choice = {.marks = {"<answer>", "</answer>"}},
                .open = "<answer>",
                .close = "</answer>",
        },
        {
                .choice = {.marks = {"<response>", "</response>"}},
                .open = "<response>",
                .close = "</response>",
        },
};
const size_t reply_n_wraps = ARRAY_SIZE(reply_wraps);

/* --- the choice --- */

static bool in_template(const struct reply_choice *c, const char *text, size_t size) {
        if (!c->marks[0] || size == 0)
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
