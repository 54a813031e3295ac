/* SPDX-License-Identifier: MIT */
/*
 * Tools by templates that run: one for each way in which published templates write definitions, calls
 * and results. Appended message by message, a conversation has the tokens of the whole rendering; and
 * no text of any field becomes a control token.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "chat/chat.h"
#include "unit/chat/whole.h"
#include "util/test.h"

/* --- templates; written for this test --- */

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

#define PLAIN                                                                                      \
        FOR "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}" END INVITE(      \
                "<|im_start|>assistant\\n")

/* Some tokens change what other ones are, so they are in vocabularies of their own. */
#define CONTROL                                                                                    \
        "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",    \
                "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]",    \
                "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "<|start|>", "<|message|>", "<|channel|>",    \
                "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|calls_begin|>",           \
                "<|calls_end|>", "<|call_begin|>", "<|call_end|>", "<|outputs_begin|>",            \
                "<|outputs_end|>", "<|output_begin|>", "<|output_end|>", "<|tool|>", "<|/tool|>",  \
                "<|turn>", "<turn|>", "<tool_response|>"
enum tokens { COMMON, WITH_CALL, WITH_RESPONSE, N_TOKENS };
static const char *const control[N_TOKENS][48] = {
        {CONTROL, NULL},
        {CONTROL, "<|return|>", "<|call|>", NULL},
        {CONTROL, "<|tool_response>", NULL},
};
static const char *const added[] = {"<tool_call>", "</tool_call>", "<think>", "</think>",
        "<tool_response>", "</tool_response>", "<|tool_call>", "<tool_call|>", "<tools>", NULL};

enum can {
        TELL_SYSTEM = 1, /* definitions with the system message */
        TELL_USER = 2,   /* with the first message, if it is the user's */
        TELL_LATER = 4,
        CALL = 8,    /* calls are written */
        CALLS = 16,  /* several in a message */
        ANSWER = 32, /* results are */
};

static const struct form {
        const char *name, *text;
        enum tokens tokens;
        unsigned can;
        bool opens, opens_with_tools; /* the system text is in the user's message */
        bool arguments_as_text, content_none;
        const char *reasoning_key;
        const char *end; /* of a reply that calls */
        const char *reply_end;
        const char *notes[4];
} forms[] = {
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
                .can = TELL_SYSTEM | ANSWER,
                .end = "<|end|>",
                .reply_end = "<|end|>"},
        {.name = "the reply goes on",
                .text = GOES_ON,
                .tokens = WITH_RESPONSE,
                .can = TELL_SYSTEM | TELL_USER | CALL | CALLS | ANSWER,
                .end = "<|tool_response>",
                .reply_end = "<turn|>"},
        {.name = "plain",
                .text = PLAIN,
                .can = ANSWER,
                .end = "<|im_end|>",
                .reply_end = "<|im_end|>"},
};
#define N_FORMS (sizeof(forms) / sizeof(forms[0]))

struct vocabulary {
        const char *model;
        bool add_bos;
};
static const struct vocabulary vocabularies[] = {
        {"gpt2", true}, {"gpt2", false}, {"llama", true}, {"llama", false}};

/* What a model says is cut into tokens as its text is. */
static bool by_bytes;

static void each(
        void (*f)(const struct vocab_build *v, const struct form *form, const struct chat *c),
        size_t n_vocabularies) {
        for (size_t i = 0; i < n_vocabularies * N_TOKENS; i++) {
                const struct vocabulary *x = &vocabularies[i / N_TOKENS];
                struct vocab_build v;

                whole_vocabulary(&v, x->model, x->add_bos, control[i % N_TOKENS], added);
                by_bytes = strcmp(x->model, "gpt2") == 0;
                for (size_t k = 0; k < N_FORMS; k++) {
                        struct chat *c;

                        if (forms[k].tokens != i % N_TOKENS)
                                continue;
                        c = whole_chat(&v, forms[k].text);
                        f(&v, &forms[k], c);
                        chat_free(c);
                }
                vocab_build_deinit(&v);
        }
}

/* --- a talk --- */

#define MESSAGE(r, t)                                                                              \
        { .role = r, .text = t, .size = sizeof(t) - 1 }
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

/* Appends to the conversation, and to the messages of the whole rendering. */
struct talk {
        const struct vocab_build *v;
        const struct form *form;
        const struct chat *c;
        struct chat_tail tail;
        struct tok_ids ids;
        struct chat_message messages[12];
        size_t n;
        const char *tools;
};

static struct talk talk_begin(
        const struct vocab_build *v, const struct form *form, const struct chat *c) {
        return (struct talk){.v = v, .form = form, .c = c};
}

static void talk_deinit(struct talk *x) {
        tok_ids_deinit(&x->ids);
}

static int talk_try(
        struct talk *x, const struct chat_message *m, size_t n, const char *tools, struct err *e) {
        const struct chat_input in = {
                .messages = m, .n = n, .tools = tools, .tools_size = tools ? strlen(tools) : 0};
        size_t n_before = x->ids.n;
        int r = chat_append(x->c, &x->tail, &in, 0, &x->ids, e);

        if (r < 0) {
                assert_int_equal(x->ids.n, n_before);
                return r;
        }
        memcpy(x->messages + x->n, m, n * sizeof(*m));
        x->n += n;
        if (tools) {
                x->tools = tools;
                x->tail.has_tools = true;
        }
        x->tail.state = chat_state_after(x->c, m->role, x->tail.has_tools);
        x->tail.role = m->role;
        return r;
}

static void talk_add(struct talk *x, const struct chat_message *m, size_t n, const char *tools) {
        struct err e = {0};

        if (talk_try(x, m, n, tools, &e) < 0)
                fail_msg("%s, %s: %s", x->form->name, chat_role_name(m->role), e.msg);
}

static struct whole talk_whole(const struct talk *x, size_t n, bool invite) {
        return (struct whole){.messages = x->messages,
                .n = n,
                .tools = x->tools,
                .invite = invite,
                .arguments_as_text = x->form->arguments_as_text,
                .content_none = x->form->content_none,
                .reasoning_key = x->form->reasoning_key};
}

/* The message as the model says it: what the whole rendering has between the invitation and the
 * reply's end token. @next: the message that follows in that rendering. @ended: with the end token. */
static void talk_say(
        struct talk *x, const struct chat_message *m, const struct chat_message *next, bool ended) {
        _cleanup_(tok_ids_deinit) struct tok_ids before = TOK_IDS_NULL, all = TOK_IDS_NULL;
        const char *end = m->n_calls > 0 ? x->form->end : x->form->reply_end;
        struct whole whole;
        size_t to;

        assert_int_equal(chat_append_reply_start(x->c, &x->tail, 0, &x->ids, NULL), 0);
        whole = talk_whole(x, x->n, true);
        whole_tokens(x->v->tok, x->form->text, &whole, &before);
        x->messages[x->n++] = *m;
        x->messages[x->n] = *next;
        whole = talk_whole(x, x->n + 1, false);
        whole_tokens(x->v->tok, x->form->text, &whole, &all);
        if (all.n <= before.n || memcmp(all.ids, before.ids, before.n * sizeof(*all.ids)) != 0)
                whole_assert_same(x->form->name, x->v->tok, &before, &all);
        for (to = before.n; to < all.n; to++) {
                size_t n;
                const char *text = tok_text(x->v->tok, all.ids[to], &n);

                if (n == strlen(end) && memcmp(text, end, n) == 0)
                        break;
        }
        if (to == all.n)
                whole_assert_same(end, x->v->tok, &before, &all);
        assert_int_equal(
                tok_ids_append(&x->ids, all.ids + before.n, to - before.n + ended, NULL), 0);
        x->tail.state = ended ? CHAT_ENDED_REPLY : CHAT_OPEN_REPLY;
        x->tail.role = CHAT_ASSISTANT;
}

static void talk_check(struct talk *x) {
        _cleanup_(tok_ids_deinit) struct tok_ids want = TOK_IDS_NULL;
        struct whole whole = talk_whole(x, x->n, true);

        if (x->tail.state != CHAT_OPEN_SYSTEM)
                assert_int_equal(chat_append_reply_start(x->c, &x->tail, 0, &x->ids, NULL), 0);
        whole_tokens(x->v->tok, x->form->text, &whole, &want);
        whole_assert_same(x->form->name, x->v->tok, &x->ids, &want);
}

static const struct chat_message help = MESSAGE(CHAT_SYSTEM, "Help."),
                                 hello = MESSAGE(CHAT_USER, "Hello"),
                                 weather = MESSAGE(CHAT_USER, "And?"),
                                 well = MESSAGE(CHAT_ASSISTANT, "Grey."),
                                 one = {.role = CHAT_ASSISTANT, .calls = calls, .n_calls = 1},
                                 two = {.role = CHAT_ASSISTANT, .calls = calls, .n_calls = 2};

/* --- as the whole rendering --- */

static bool can_begin(const struct form *form, bool system) {
        return form->can & (system ? TELL_SYSTEM : TELL_USER);
}

/* The messages with which the talk begins; @tools are told with the first, if they can be. */
static void begin(struct talk *x, bool system) {
        const char *tools = can_begin(x->form, system) ? TOOLS : NULL;

        if (system)
                talk_add(x, &help, 1, tools);
        talk_add(x, &hello, 1, system ? NULL : tools);
}

static bool is(const struct form *form, const char *name) {
        return strcmp(form->name, name) == 0;
}

static void check_whole(
        const struct vocab_build *v, const struct form *form, const struct chat *c) {
        const struct chat_message *said = form->can & CALLS ? &two : &one;

        for (int system = 0; system < 2; system++)
                for (int sampled = 0; sampled < 2; sampled++) {
                        _cleanup_(talk_deinit) struct talk x = talk_begin(v, form, c);

                        if (is(form, "a key of the system message"))
                                continue; /* the whole is given otherwise: test_key() */
                        begin(&x, system);
                        if (sampled && !by_bytes)
                                continue;
                        if (!(form->can & CALL)) {
                                talk_check(&x);
                                continue;
                        }
                        if (sampled)
                                talk_say(&x, said, &results[0], true);
                        else
                                talk_add(&x, said, 1, NULL);
                        talk_add(&x, results, said->n_calls, NULL);
                        if (is(form, "before the last message of the user")) {
                                talk_check(&x); /* it moves the definitions with the next message */
                                continue;
                        }
                        if (sampled)
                                talk_say(&x, &well, &weather, true);
                        else
                                talk_add(&x, &well, 1, NULL);
                        talk_add(&x, &weather, 1, NULL);
                        talk_check(&x);
                }
}

static void test_whole(void **state) {
        (void)state;
        each(check_whole, sizeof(vocabularies) / sizeof(vocabularies[0]));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
