/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Tests of tools in templates: templates that write them in each way in which published ones do, and
 * messages for a talk.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "unit/chat/whole.h"

/* --- templates; written for these tests --- */

#define FOR "{% for m in messages %}"
#define END "{% endfor %}"
#define INVITE(text) "{% if add_generation_prompt %}{{ '" text "' }}{% endif %}"

/* Definitions in the system message, which is there because of them; results of one reply are grouped
 * in a message of the user. @think: what stands in front of the assistant's text. */
#define IN_SYSTEM(think)                                                                           \
        "{% if tools %}{{ '<|im_start|>system\\n' }}{% if messages[0].role == 'system' %}"         \
        "{{ messages[0].content + '\\n\\n' }}{% endif %}{{ '# Tools\\n<tools>' }}"                 \
        "{% for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{% endfor %}"                        \
        "{{ '\\n</tools><|im_end|>\\n' }}{% elif messages[0].role == 'system' %}"                  \
        "{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}"         \
        "{% set ns = namespace(last=-1) %}" FOR                                                    \
        "{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}" END FOR              \
        "{% if m.role == 'user' or (m.role == 'system' and not loop.first) %}"                     \
        "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"                      \
        "{% elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}" think                   \
        "{{ m.content }}{% if m.tool_calls %}{% for call in m.tool_calls %}"                       \
        "{% if not loop.first or m.content %}{{ '\\n' }}{% endif %}"                               \
        "{% if call.function %}{% set call = call.function %}{% endif %}"                          \
        "{{ '<tool_call>\\n{\"name\": \"' }}{{ call.name }}{{ '\", \"arguments\": ' }}"            \
        "{% if call.arguments is string %}{{ call.arguments }}{% else %}"                          \
        "{{ call.arguments | tojson }}{% endif %}{{ '}\\n</tool_call>' }}" END                     \
        "{% endif %}{{ '<|im_end|>\\n' }}{% elif m.role == 'tool' %}"                              \
        "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}"                          \
        "{{ '<|im_start|>user' }}{% endif %}{{ '\\n<tool_response>\\n' + m.content + "             \
        "'\\n</tool_response>' }}{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}"   \
        "{{ '<|im_end|>\\n' }}{% endif %}{% endif %}" END INVITE("<|im_start|>assistant\\n")
/* Reasoning of what was said behind the last message of the user; the last message has marks even
 * without. */
#define THINK                                                                                      \
        "{% if loop.index0 > ns.last and (loop.last or m.reasoning_content) %}"                    \
        "{{ '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}"

/* Definitions in the first message of the user, behind the system message. */
#define IN_FIRST_USER                                                                              \
        "{{ bos_token }}{% if messages[0].role == 'system' %}{% set s = messages[0].content %}"    \
        "{% set rest = messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}"         \
        "{% endif %}{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"                      \
        "{% if tools %}{{ 'Environment: python\\n' }}{% endif %}{{ s + '<|eot_id|>' }}"            \
        "{% if tools %}{% if not rest %}{{ raise_exception('no first user message') }}{% endif %}" \
        "{{ '<|start_header_id|>user<|end_header_id|>\\n\\nThese functions:\\n\\n' }}"             \
        "{% for tool in tools %}{{ tool | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}"           \
        "{{ rest[0].content | trim + '<|eot_id|>' }}{% set rest = rest[1:] %}{% endif %}"          \
        "{% for m in rest %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}"              \
        "{{ raise_exception('one call at once') }}{% endif %}"                                     \
        "{% set call = m.tool_calls[0].function %}"                                                \
        "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n{\"name\": \"' + call.name + "     \
        "'\", \"parameters\": ' }}{{ call.arguments | tojson }}{{ '}<|eot_id|>' }}"                \
        "{% elif m.role == 'tool' %}"                                                              \
        "{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{{ m.content | tojson }}"        \
        "{{ '<|eot_id|>' }}{% else %}{{ '<|start_header_id|>' + m.role + "                         \
        "'<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endif %}" END INVITE(    \
                "<|start_header_id|>assistant<|end_header_id|>\\n\\n")

/* Definitions before the last message of the user, with the system text; ids of nine letters; no text
 * beside calls; roles alternate, but for calls and results. */
#define IN_LAST_USER                                                                               \
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}"                   \
        "{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}"              \
        "{% set users = rest | selectattr('role', 'equalto', 'user') | list %}"                    \
        "{% set ns = namespace(i=0) %}{% for m in rest %}"                                         \
        "{% if not (m.role == 'tool' or m.tool_calls) %}"                                          \
        "{% if (m.role == 'user') != (ns.i % 2 == 0) %}{{ raise_exception('alternate') }}"         \
        "{% endif %}{% set ns.i = ns.i + 1 %}{% endif %}" END                                      \
        "{{ bos_token }}{% for m in rest %}{% if m.role == 'user' %}"                              \
        "{% if tools and m == users[-1] %}{{ '[AVAILABLE_TOOLS] ' }}{{ tools | tojson }}"          \
        "{{ '[/AVAILABLE_TOOLS]' }}{% endif %}{{ '[INST] ' }}"                                     \
        "{% if m == users[-1] and s is defined %}{{ s + '\\n\\n' }}{% endif %}"                    \
        "{{ m.content + '[/INST]' }}{% elif m.tool_calls %}{{ '[TOOL_CALLS] [' }}"                 \
        "{% for call in m.tool_calls %}{{ (call.function | tojson)[:-1] }}"                        \
        "{% if call.id is not defined or call.id | length != 9 %}"                                 \
        "{{ raise_exception('ids of nine letters') }}{% endif %}"                                  \
        "{{ ', \"id\": \"' + call.id + '\"}' }}{% if not loop.last %}{{ ', ' }}{% else %}"         \
        "{{ ']' + eos_token }}{% endif %}" END                                                     \
        "{% elif m.role == 'assistant' %}{{ ' ' + m.content | trim + eos_token }}"                 \
        "{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS] {\"content\": ' + m.content | string }}"    \
        "{% if m.tool_call_id is not defined or m.tool_call_id | length != 9 %}"                   \
        "{{ raise_exception('ids of nine letters') }}{% endif %}"                                  \
        "{{ ', \"call_id\": \"' + m.tool_call_id + '\"}[/TOOL_RESULTS]' }}{% endif %}" END

/* Definitions in a message of their own behind the system's; the result tells the name of its call,
 * which the template takes from there; one call in a message, with an end token of its own. */
#define NAMES                                                                                      \
        "{{ '<|start|>system<|message|>You help.<|end|>' }}"                                       \
        "{% if messages[0].role == 'system' or tools %}{{ '<|start|>developer<|message|>' }}"      \
        "{% if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}"     \
        "{% for tool in tools or [] %}{{ 'type ' + tool.function.name + ' = (' }}"                 \
        "{% for key, v in tool.function.parameters.properties | items %}"                          \
        "{{ key + ': ' + v.type + ',' }}" END "{{ ') => any;\\n' }}" END                           \
        "{{ '<|end|>' }}{% endif %}{% set last = namespace(name=none) %}" FOR                      \
        "{% if m.role == 'user' %}{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}"        \
        "{% elif m.role == 'assistant' and m.tool_calls %}"                                        \
        "{% if m.thinking %}{{ '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + " \
        "'<|end|>' }}{% endif %}{% set call = m.tool_calls[0].function %}"                         \
        "{{ '<|start|>assistant to=functions.' + call.name + "                                     \
        "'<|channel|>commentary json<|message|>' }}{{ call.arguments | tojson }}{{ '<|call|>' }}"  \
        "{% set last.name = call.name %}{% elif m.role == 'assistant' %}"                          \
        "{% if loop.last and m.thinking %}{{ '<|start|>assistant<|channel|>analysis<|message|>' "  \
        "+ m.thinking + '<|end|>' }}{% endif %}"                                                   \
        "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content }}"                        \
        "{% if loop.last and not add_generation_prompt %}{{ '<|return|>' }}{% else %}"             \
        "{{ '<|end|>' }}{% endif %}{% elif m.role == 'tool' %}{% if not last.name %}"              \
        "{{ raise_exception('a result without call') }}{% endif %}"                                \
        "{{ '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' "  \
        "}}{{ m.content | tojson }}{{ '<|end|>' }}{% endif %}" END INVITE("<|start|>assistant")

/* No definitions; calls only where the content is none, with arguments as a string, and no end token
 * behind the first; results in one block that the next message closes. */
#define AS_TEXT                                                                                    \
        "{{ bos_token }}{% set ns = namespace(tool=false, first=true) %}"                          \
        "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}" FOR            \
        "{% if m.role == 'user' %}{% set ns.tool = false %}{{ '<|user|>' + m.content }}"           \
        "{% elif m.role == 'assistant' and m.content is none %}{% set ns.tool = false %}"          \
        "{% set ns.first = true %}{{ '<|assistant|><|calls_begin|>' }}"                            \
        "{% for call in m.tool_calls %}{% if not loop.first %}{{ '\\n' }}{% endif %}"              \
        "{{ '<|call_begin|>' + call.function.name + '\\n' + call.function.arguments + "            \
        "'<|call_end|>' }}" END "{{ '<|calls_end|></s>' }}{% elif m.role == 'assistant' %}"        \
        "{% if ns.tool %}{{ '<|outputs_end|>' + m.content + '</s>' }}{% set ns.tool = false %}"    \
        "{% else %}{{ '<|assistant|>' + m.content + '</s>' }}{% endif %}"                          \
        "{% elif m.role == 'tool' %}{% set ns.tool = true %}{% if ns.first %}"                     \
        "{{ '<|outputs_begin|><|output_begin|>' + m.content + '<|output_end|>' }}"                 \
        "{% set ns.first = false %}{% else %}"                                                     \
        "{{ '\\n<|output_begin|>' + m.content + '<|output_end|>' }}{% endif %}{% endif %}" END     \
        "{% if ns.tool %}{{ '<|outputs_end|>' }}{% elif add_generation_prompt %}"                  \
        "{{ '<|assistant|>' }}{% endif %}"

/* Definitions in a block of their own, which the system message alone has as well. */
#define OWN_BLOCK                                                                                  \
        "{% if messages[0].role == 'system' %}{{ '<|start|>system<|message|>' + "                  \
        "messages[0].content + '<|end|>\\n' }}{% set rest = messages[1:] %}{% else %}"             \
        "{% set rest = messages %}{% endif %}{% if tools %}{{ '<|start|>tools<|message|>' }}"      \
        "{{ tools | tojson(indent=2) }}{{ '<|end|>\\n' }}{% endif %}{% for m in rest %}"           \
        "{{ '<|start|>' + ('answer' if m.role == 'tool' else m.role) + '<|message|>' }}"           \
        "{% if m.tool_calls %}{% for call in m.tool_calls %}{{ '<tool_call>' }}"                   \
        "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}"        \
        "{% endfor %}{% else %}{{ m.content }}{% endif %}{{ '<|end|>\\n' }}" END INVITE(           \
                "<|start|>assistant<|message|>")

/* Definitions are a key of the system message, as text; no calls and no results are known. */
#define AS_KEY                                                                                     \
        FOR "{% if m.role == 'system' and 'tools' in m and m.tools is not none %}"                 \
            "{{ '<|' + m.role + '|>' + m.content + '<|tool|>' + m.tools + '<|/tool|><|end|>' }}"   \
            "{% else %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endif %}" END          \
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

/* The reply that asked goes on behind the results, which its end token opens. */
#define GOES_ON                                                                                    \
        "{{ bos_token }}{% if tools or messages[0].role == 'system' %}{{ '<|turn>system\\n' }}"    \
        "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"                \
        "{% for tool in tools or [] %}{{ '<|tool>declaration:' + tool.function.name + '<tool|>' "  \
        "}}"                                                                                       \
        "{% endfor %}{{ '<turn|>\\n' }}{% endif %}" FOR                                            \
        "{% set before = messages[loop.index0 - 1].role if loop.index0 > 0 else '' %}"             \
        "{% if m.role == 'user' %}{{ '<|turn>user\\n' + m.content + '<turn|>\\n' }}"               \
        "{% elif m.role == 'assistant' %}"                                                         \
        "{% if before != 'tool' %}{{ '<|turn>model\\n' }}{% endif %}{{ m.content }}"               \
        "{% if m.tool_calls %}{% for call in m.tool_calls %}"                                      \
        "{{ '<|tool_call>call:' + call.function.name }}{{ call.function.arguments | tojson }}"     \
        "{{ '<tool_call|>' }}" END "{% else %}{{ '<turn|>\\n' }}{% endif %}"                       \
        "{% elif m.role == 'tool' %}{{ '<|tool_response>response:' + m.name + '{' + m.content + "  \
        "'}<tool_response|>' }}{% endif %}" END                                                    \
        "{% if add_generation_prompt and messages[-1].role != 'tool' %}{{ '<|turn>model\\n' }}"    \
        "{% endif %}"

/* Ids of any form in front of arguments and results; definitions in front of all. */
#define IDS                                                                                        \
        "{% if tools %}{{ '<|start|>tools<|message|>' }}{{ tools | tojson(separators=(',', ':')) " \
        "}}"                                                                                       \
        "{{ '<|end|>' }}{% endif %}" FOR                                                           \
        "{{ '<|start|>' + m.role + '<|message|>' }}{% if m.role == 'tool' %}"                      \
        "{{ '## Return of ' + m.tool_call_id + '\\n' }}{% endif %}{{ m.content }}"                 \
        "{% if m.tool_calls %}{{ '<|calls_begin|>' }}{% for call in m.tool_calls %}"               \
        "{{ '<|call_begin|>' + call.id + '<|message|>' }}"                                         \
        "{% if call.function.arguments is string %}{{ call.function.arguments }}{% else %}"        \
        "{{ call.function.arguments | tojson }}{% endif %}{{ '<|call_end|>' }}" END                \
        "{{ '<|calls_end|>' }}{% endif %}{{ '<|end|>' }}" END INVITE(                              \
                "<|start|>assistant<|message|>")

#define PLAIN                                                                                      \
        FOR "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}" END INVITE(      \
                "<|im_start|>assistant\\n")

/* Some tokens change what other ones are, so they are in vocabularies of their own. */
enum tokens { COMMON, WITH_CALL, WITH_RESPONSE, N_TOKENS };
enum { TOOL_MAX_TOKENS = 48, TOOL_N_VOCABULARIES = 4 };
extern const char *const tool_control[N_TOKENS][TOOL_MAX_TOKENS]; /* each ended by NULL */
extern const char *const tool_added[];                            /* user-defined tokens */

enum can {
        TELL_SYSTEM = 1, /* definitions with the system message */
        TELL_USER = 2,   /* with the first message, if it is the user's */
        TELL_LATER = 4,
        CALL = 8,    /* calls are written */
        CALLS = 16,  /* several in a message */
        ANSWER = 32, /* results are */
};

struct form {
        const char *name, *text;
        enum tokens tokens;
        unsigned can;
        bool opens, opens_with_tools; /* the system text is in the user's message */
        bool arguments_as_text, content_none;
        const char *reasoning_key;
        const char *end; /* of a reply that calls */
        const char *reply_end;
        const char *notes[4];
};

/* What a model says is cut into tokens as its text is: in the vocabulary of this form. */
extern bool tool_by_bytes;
/* Call @f for all forms, with the first @n_vocabularies. */
void tool_forms_each(
        void (*f)(const struct vocab_build *v, const struct form *form, const struct chat *c),
        size_t n_vocabularies);
/* A vocabulary without begin token, and a chat. */
struct vocab_build tool_form_open(size_t tokens, const char *text, struct chat **ret);
void tool_form_close(struct vocab_build *v, struct chat *c);

/* --- messages --- */

#define ARGUMENTS(t) .arguments = t, .arguments_size = sizeof(t) - 1
#define TOOLS                                                                                      \
        "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": "        \
        "\"The \\\"weather\\\" at a place\", \"parameters\": {\"type\": \"object\", "              \
        "\"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}}, "        \
        "{\"type\": \"function\", \"function\": {\"name\": \"time\", \"parameters\": "             \
        "{\"type\": \"object\", \"properties\": {}}}}]"

static const struct chat_call calls[] = {
        {.id = "call1abcd",
                .name = "weather",
                ARGUMENTS("{\"city\": \"Bern\", \"days\": [1, 2.5]}")},
        {.id = "call2abcd", .name = "time", ARGUMENTS("{}")},
};
static const struct chat_message results[] = {
        {.role = CHAT_TOOL,
                .text = "{\"sky\": \"grey\"}",
                .size = sizeof("{\"sky\": \"grey\"}") - 1,
                .call_id = "call1abcd",
                .name = "weather"},
        {.role = CHAT_TOOL,
                .text = "12:00",
                .size = sizeof("12:00") - 1,
                .call_id = "call2abcd",
                .name = "time"},
};

static const struct chat_message help = MESSAGE(CHAT_SYSTEM, "Help."),
                                 hello = MESSAGE(CHAT_USER, "Hello"),
                                 weather = MESSAGE(CHAT_USER, "And?"),
                                 well = MESSAGE(CHAT_ASSISTANT, "Grey."),
                                 one = {.role = CHAT_ASSISTANT, .calls = calls, .n_calls = 1},
                                 two = {.role = CHAT_ASSISTANT, .calls = calls, .n_calls = 2};

static const struct chat_tail ended = {
        .state = CHAT_ENDED_REPLY, .role = CHAT_ASSISTANT, .has_tools = true};

/* --- one input --- */

/* Append; the text of the tokens is in @ret, to be freed. */
int tool_try(const struct vocab_build *v, const struct chat *c, const struct chat_tail *tail,
        const struct chat_input *in, char **ret, struct err *e);
void tool_assert_text(const struct vocab_build *v, const struct chat *c,
        const struct chat_tail *tail, const struct chat_message *m, size_t n, const char *want);
void tool_assert_refused(const struct vocab_build *v, const struct chat *c,
        const struct chat_tail *tail, const struct chat_input *in, enum err_code code,
        const char *sentence);
