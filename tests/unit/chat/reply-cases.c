/* SPDX-License-Identifier: MIT */
#include "unit/chat/reply-cases.h"

const char reply_case_tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"number\"}, "
        "\"s\": {\"description\": \"a string\", \"type\": \"string\"}, \"x\": {}, \"o\": "
        "{\"type\": "
        "\"object\"}, \"b\": {\"type\": \"boolean\"}}, \"required\": [\"n\"]}}}, {\"parameters\": "
        "{\"properties\": {}}, \"name\": \"g\"}]";

/* What most replies have. */
#define SAID                                                                                       \
        "reasoning<I think.\n\nYes.> text<One moment.> call f<{\"n\": 1, \"s\": \"a "              \
        "\\\"b\\\"\\n\\u00e9é\"}> call g<{}> "
#define SAID_ID(a, b)                                                                              \
        "reasoning<I think.\n\nYes.> text<One moment.> call f#" a                                  \
        "<{\"n\": 1, \"s\": \"a \\\"b\\\"\\n\\u00e9é\"}> call g#" b "<{}> "
#define ARGUMENTS "{\"n\": 1, \"s\": \"a \\\"b\\\"\\n\\u00e9é\"}"
#define THINK "<think>\nI think.\n\nYes.\n</think>\n\nOne moment.\n\n"
/* Of formats without escapes: the string has its characters. */
#define TAGS_SAID                                                                                  \
        "reasoning<I think.\n\nYes.> text<One moment.> call f<{\"n\": 1.5, \"s\": \"12 "           \
        "\\\"<b>\\\"\\n\\té\", "                                                                  \
        "\"x\": [1, \"a\"], \"b\": true}> call g<{}> "

const struct reply_case reply_cases[] = {
        {"hermes", "<tool_call> </tool_call> </think>", "assistant\n",
                THINK "<tool_call>\n{\"name\": \"f\", \"arguments\": " ARGUMENTS
                      "}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n"
                      "</tool_call>",
                SAID},
        {"hermes", "<tool_call> </tool_call> </think>", "assistant\n<think>\n",
                "I think.\n\nYes.\n</think>\nOne moment.<tool_call>[{\"id\": \"x1\", \"type\": "
                "\"function\", \"function\": {\"arguments\": " ARGUMENTS
                ", \"name\": \"f\"}}, {\"name\": \"g\", \"parameters\": null, \"id\": 17}]"
                "</tool_call>",
                SAID_ID("x1", "17")},
        {"hermes", "<tool_call> </tool_call> </think>", "assistant\n<think>\n\n</think>\n\n",
                "One moment.<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"s\\\": "
                "\\\"\\\\\\\"\\ud83d\\ude00\\\"}\"}"
                "{\"arguments\": \"\", \"name\": \"g\"}</tool_call> Done.\n",
                "text<One moment.> call f<{\"s\": \"\\\"😀\"}> call g<{}> text<Done.\n> "},
        {"gpt-oss", "<|start|> <|channel|> <|message|>", "<|start|>assistant",
                "<|channel|>analysis<|message|>I think.\n\nYes.<|end|><|start|>assistant<|channel|>"
                "commentary<|message|>One moment.<|end|><|start|>assistant<|channel|>commentary "
                "to=functions.f <|constrain|>json<|message|>" ARGUMENTS
                "<|call|><|start|>assistant to=functions.g<|channel|>commentary json<|message|>{}"
                "<|call|>",
                SAID},
        {"gpt-oss", "<|start|> <|channel|> <|message|>", NULL,
                " to=functions.g<|channel|>commentary<|message|><|call|>",
                "text< to=functions.g> "},
        {"gpt-oss", "<|start|> <|channel|> <|message|>", "<|start|>assistant",
                " to=functions.g<|channel|>commentary<|message|><|call|><|start|>assistant<|"
                "channel|>"
                "final<|message|>Good <b>.<|return|>",
                "call g<{}> text<Good <b>.> "},
        {"gpt-oss", "<|start|> <|channel|> <|message|>", "<|start|>assistant", "Hello to all",
                "text<Hello to all> "},
        {"gemma4", "<|tool_call> <tool_call|> <channel|>", "<|turn>model\n",
                "<|channel>thought\nI think.\n\nYes.\n<channel|>One "
                "moment.<|tool_call>call:f{n:-1.5e3,"
                "s:<|\"|>a "
                "\"b\"\n{é<|\"|>,o:{k:[true,null,<|\"|>z<|\"|>],l:{}},b:false}<tool_call|>"
                "<|tool_call>call:g{}<tool_call|>",
                "reasoning<I think.\n\nYes.> text<One moment.> call f<{\"n\": -1.5e3, \"s\": \"a "
                "\\\"b\\\"\\n{é\", \"o\": {\"k\": [true, null, \"z\"], \"l\": {}}, \"b\": false}> "
                "call "
                "g<{}> "},
        {"functiongemma", "<start_function_call> </think>", NULL,
                THINK "<start_function_call>call:f{s:<escape>a b<escape>,n:1}<end_function_call>"
                      "<start_function_call>call:g{}<end_function_call>",
                "reasoning<I think.\n\nYes.> text<One moment.> call f<{\"s\": \"a b\", \"n\": 1}> "
                "call "
                "g<{}> "},
        {"minimax-m2", "<minimax:tool_call> </think>", "<think>\n",
                "I think.\n\nYes.\n</think>\n\nOne moment.\n\n<minimax:tool_call>\n<invoke "
                "name=\"f\">\n"
                "<parameter name=\"n\">1.5</parameter>\n<parameter name=\"s\">12 "
                "\"<b>\"\n\té</parameter>\n"
                "<parameter name=\"x\">[1, \"a\"]</parameter><parameter "
                "name=\"b\">True</parameter>\n"
                "</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
                TAGS_SAID},
        {"deepseek-dsml", "<｜DSML｜ </think>", NULL,
                THINK
                "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
                "name=\"n\" "
                "string=\"false\">1.5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"s\" string="
                "\"true\">12 \"<b>\"\n\té</｜DSML｜parameter>\n<｜DSML｜parameter name=\"x\" "
                "string="
                "\"false\">[1, \"a\"]</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" "
                "string=\"false\">"
                "true</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n"
                "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
                TAGS_SAID},
        {"deepseek", "<｜tool▁call▁begin｜> </think>", "<｜Assistant｜><think>\n",
                "I think.\n\nYes.\n</think>\n\nOne "
                "moment.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
                "function<｜tool▁sep｜>f\n```json\n" ARGUMENTS
                "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{"
                "}\n```"
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                SAID},
        {"deepseek", "<｜tool▁call▁begin｜> </think>", "<｜Assistant｜><think>",
                "I think.\n\nYes.</think>One moment.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f"
                "<｜tool▁sep｜>" ARGUMENTS
                "<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                "<｜tool▁calls▁end｜>",
                SAID},
        {"kimi-k2", "<|tool_call_argument_begin|> </think>", NULL,
                THINK
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
                "<|tool_call_argument_begin|>" ARGUMENTS
                "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}"
                "<|tool_call_end|><|tool_calls_section_end|>",
                SAID_ID("functions.f:0", "functions.g:1")},
        {"mistral", "[TOOL_CALLS] [/THINK]", NULL,
                "[THINK]I think.\n\nYes.[/THINK]One moment.[TOOL_CALLS]f[ARGS]" ARGUMENTS
                "[TOOL_CALLS]g[ARGS]{}",
                SAID},
        {"mistral", "[TOOL_CALLS] [/THINK]", NULL,
                "[THINK]I think.\n\nYes.[/THINK]One "
                "moment.[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]" ARGUMENTS
                "[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
                SAID_ID("abcdefghi", "123456789")},
        {"mistral", "[TOOL_CALLS] [/THINK]", NULL,
                "[THINK]I think.\n\nYes.[/THINK]One moment.\n[TOOL_CALLS] [{\"name\": \"f\", "
                "\"arguments\": " ARGUMENTS
                ", \"id\": \"abcdefghi\"}, {\"name\": \"g\", \"arguments\": {}}]",
                SAID},
        {"command-r7b", "<|START_ACTION|> <|START_THINKING|> <|START_RESPONSE|>", NULL,
                "<|START_THINKING|>I think.\n\nYes.<|END_THINKING|><|START_RESPONSE|>One moment."
                "<|END_RESPONSE|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
                "\"f\", "
                "\"parameters\": " ARGUMENTS
                "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"g\", \"parameters\": {}}\n]"
                "<|END_ACTION|>",
                SAID_ID("0", "1")},
        {"command-r", "Action: ```json <|START_OF_TURN_TOKEN|> </think>", NULL,
                THINK "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        "
                      "\"parameters\": " ARGUMENTS
                      "\n    },\n    {\n        \"tool_name\": \"g\",\n        \"parameters\": {}\n"
                      "    }\n]```",
                SAID},
        {"seed-oss", "<seed:tool_call> seed:think>", NULL,
                "<seed:think>I think.\n\nYes.</seed:think>One "
                "moment.<seed:tool_call>\n<function=f>\n"
                "<parameter=n>1.5</parameter>\n<parameter=s>12 "
                "\"<b>\"\n\té</parameter>\n<parameter=x>"
                "[1, \"a\"]</parameter>\n<parameter=b>true</parameter></function>\n<function=g>\n"
                "</function></seed:tool_call>",
                TAGS_SAID},
        {"qwen3-coder", "<tool_call> <function= <parameter= </think>", "<think>\n",
                "I think.\n\nYes.\n</think>\n\nOne "
                "moment.\n\n<tool_call>\n<function=f>\n<parameter=n>\n"
                "1.5\n</parameter>\n<parameter=s>\n12 "
                "\"<b>\"\n\té\n</parameter>\n<parameter=x>\n[1, "
                "\"a\"]\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n</function>\n</"
                "tool_call>\n"
                "<tool_call>\n<function=g>\n</function>\n</tool_call>",
                TAGS_SAID},
        {"qwen3-coder", "<tool_call> <function= <parameter=", NULL,
                "<function=f>\n<parameter=s>\n\n\n</parameter>\n<parameter=o>\n{\"a\": \"\n\"}\n"
                "</parameter>\n<parameter=x>\n\"q\"\n</parameter>\n<parameter=x2>\n{a\n</"
                "parameter>\n"
                "<parameter=n>\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n{\"name\": "
                "\"g\"}"
                "\n</tool_call>!",
                "call f<{\"s\": \"\\n\", \"o\": {\"a\": \"\\n\"}, \"x\": \"\\\"q\\\"\", \"x2\": "
                "\"{a\", \"n\": "
                "\"\"}> call g<{}> text<!> "},
        {"glm", "<tool_call> <arg_key> <arg_value> </think>", "<|assistant|>\n",
                THINK
                "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>1.5</arg_value>\n<arg_key>s"
                "</arg_key>\n<arg_value>12 \"<b>\"\n\té</arg_value>\n<arg_key>x</arg_key>\n"
                "<arg_value>[1, \"a\"]</arg_value><arg_key>b</arg_key><arg_value>true</arg_value>\n"
                "</tool_call>\n<tool_call>g\n</tool_call>",
                TAGS_SAID},
        {"glm", "<tool_call> <arg_key> <arg_value>", NULL,
                "<tool_call>g</tool_call><tool_call>f<arg_key>s</arg_key><arg_value>\n</arg_value>"
                "</tool_call>",
                "call g<{}> call f<{\"s\": \"\\n\"}> "},
        {"tool-calls", "<tool_calls> </tool_calls> <answer> </answer> </think>", NULL,
                "<think>\nI think.\n\nYes.\n</think>\n<answer>\nOne "
                "moment.\n</answer>\n<tool_calls>"
                "[{\"name\": \"f\", \"arguments\": " ARGUMENTS
                "}, {\"name\": \"g\", \"arguments\": {}}]</tool_calls>",
                SAID},
        {"tool-calls", "<tool_calls> </tool_calls> [BEGIN FINAL RESPONSE]",
                "Here are my reasoning steps:\n",
                "I think.\n\nYes.\n[BEGIN FINAL RESPONSE]\nOne moment.\n<tool_calls>[{\"name\": "
                "\"f\", \"arguments\": " ARGUMENTS
                "}, {\"name\": \"g\", \"arguments\": {}}]</tool_calls>\n[END FINAL RESPONSE]\n",
                SAID},
        {"apertus", "<|tools_prefix|> <|inner_prefix|>", NULL,
                "<|inner_prefix|>I think.\n\nYes.<|inner_suffix|>One "
                "moment.<|tools_prefix|>[{\"f\": " ARGUMENTS "}, {\"g\": {}}]<|tools_suffix|>",
                SAID},
        {"lfm2", "<|tool_list_start|> </think>", NULL,
                THINK "<|tool_call_start|>[f(n=1, s='a \"b\"\\n\\u00e9é'), g()]<|tool_call_end|>",
                SAID},
        {"lfm2", "<|tool_list_start|>", NULL,
                "<|tool_call_start|>[f(o={\"a\": [True, None, (1, -2.5)], 'b': {}}, x=[], s=\"it's "
                "\\x41 "
                "\\q\", b=False)]<|tool_call_end|>Good.",
                "call f<{\"o\": {\"a\": [true, null, [1, -2.5]], \"b\": {}}, \"x\": [], \"s\": "
                "\"it's \\u0041 "
                "\\\\q\", \"b\": false}> text<Good.> "},
        {"phi4-mini", "<|tool|> <|/tool|> </think>", NULL,
                THINK "<|tool_call|>[{\"name\": \"f\", \"arguments\": " ARGUMENTS
                      "}, {\"name\": \"g\", \"arguments\": {}}]<|/tool_call|>",
                SAID},
        {"granite", "<|tool_call|> <|start_of_role|> Here is my thought process:", NULL,
                "Here is my thought process:\n\nI think.\n\nYes.\n\nHere is my response:\nOne "
                "moment.\n"
                "<|tool_call|>[{\"name\": \"f\", \"arguments\": " ARGUMENTS
                "}, {\"name\": \"g\", \"arguments\": {}}]",
                SAID},
        {"nemotron", "<TOOLCALL> </think>", NULL,
                THINK "<TOOLCALL>[{\"name\": \"f\", \"arguments\": " ARGUMENTS
                      "}, {\"name\": \"g\", \"arguments\": {}}]</TOOLCALL>",
                SAID},
        {"internlm", "<|action_start|> </think>", NULL,
                THINK "<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": " ARGUMENTS
                      "}<|action_end|>\n<|action_start|> <|plugin|>{\"name\": \"g\"}<|action_end|>",
                SAID},
        {"olmo3", "<function_calls> </think>", NULL,
                THINK "<function_calls>f(n=1, s=\"a \\\"b\\\"\\n\\u00e9é\")\ng()</function_calls>",
                SAID},
        {"function-tag", "<function= </function> </think>", NULL,
                THINK "<function=f>" ARGUMENTS "</function>\n<function=g>{}</function>", SAID},
        {"llama4", "<|python_start|> </think>", "<|header_start|>assistant<|header_end|>\n\n",
                THINK "<|python_start|>[f(n=1, s=\"a \\\"b\\\"\\n\\u00e9é\"), g()]<|python_end|>",
                SAID},
        {"llama4", "<|python_start|>", NULL, "[f(n=1), g()] Good.",
                "call f<{\"n\": 1}> call g<{}> text<Good.> "},
        {"llama4", "<|python_start|>", NULL, "[h(n=1), g()]", "text<[h(n=1), g()]> "},
        {"llama3", "<|python_tag|> </think>", NULL,
                "<think>I think.\n\nYes.</think>One moment.<|python_tag|>{\"type\": \"function\", "
                "\"name\": \"f\", "
                "\"parameters\": " ARGUMENTS "}; {\"name\": \"g\", \"parameters\": {}}",
                SAID},
        {"llama3", "<|python_tag|>", NULL,
                " {\"name\": \"f\", \"parameters\": " ARGUMENTS
                "}\n{\"name\": \"g\", \"parameters\": {}}",
                "call f<" ARGUMENTS "> call g<{}> "},
        {"llama3", "<|python_tag|>", NULL, "{\"name\": \"h\", \"parameters\": {}}",
                "text<{\"name\": \"h\", \"parameters\": {}}> "},
        {"llama3", "<|python_tag|>", NULL, "<|python_tag|>brave_search.call(query=\"x\")",
                "call brave_search<{\"query\": \"x\"}> "},
        {"none", "", NULL, "<think> <tool_call> [", "text<<think> <tool_call> [> "},
};
const size_t reply_n_cases = sizeof(reply_cases) / sizeof(reply_cases[0]);
