/* SPDX-License-Identifier: MIT */
/*
 * Tools by templates that run. Appended message by message, a conversation has the tokens of the whole
 * rendering; and what can be written neither here nor there is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "chat/chat.h"
#include "unit/chat/tool-forms.h"
#include "util/test.h"

/* --- a talk --- */

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
 * reply's end token. @next: the message that follows in that rendering. @whole_reply: with the end token. */
static void talk_say(struct talk *x, const struct chat_message *m, const struct chat_message *next,
        bool whole_reply) {
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
                tok_ids_append(&x->ids, all.ids + before.n, to - before.n + whole_reply, NULL), 0);
        x->tail.state = whole_reply ? CHAT_ENDED_REPLY : CHAT_OPEN_REPLY;
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
                        if (sampled && !tool_by_bytes)
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
        tool_forms_each(check_whole, TOOL_N_VOCABULARIES);
}

/* A reply that was cut off behind its calls is closed, and then it is the same. */
static void check_open(const struct vocab_build *v, const struct form *form, const struct chat *c) {
        _cleanup_(talk_deinit) struct talk x = talk_begin(v, form, c);

        if (!(form->can & CALL))
                return;
        begin(&x, true);
        talk_say(&x, &one, &results[0], false);
        talk_add(&x, results, 1, NULL);
        talk_check(&x);
}

static void test_open(void **state) {
        (void)state;
        tool_forms_each(check_open, 1);
}

/* Text and reasoning beside calls; and behind results more calls, without a message of the user. */
static void check_beside(
        const struct vocab_build *v, const struct form *form, const struct chat *c) {
        _cleanup_(talk_deinit) struct talk x = talk_begin(v, form, c);
        struct chat_message said = one, again = one;

        if (!(form->can & CALL))
                return;
        if (!form->content_none) {
                said.text = "Let me see.";
                said.size = strlen(said.text);
        }
        said.reasoning = "Which place?";
        said.reasoning_size = strlen(said.reasoning);
        again.calls = calls + 1;
        begin(&x, true);
        talk_add(&x, &said, 1, NULL);
        talk_add(&x, results, 1, NULL);
        talk_add(&x, &again, 1, NULL);
        talk_add(&x, results + 1, 1, NULL);
        talk_check(&x);
}

static void test_beside(void **state) {
        (void)state;
        tool_forms_each(check_beside, TOOL_N_VOCABULARIES);
}

/* Reasoning is really written where the template has a place for it, and only there. */
static void check_reasoning(
        const struct vocab_build *v, const struct form *form, const struct chat *c) {
        _cleanup_(talk_deinit) struct talk x = talk_begin(v, form, c);
        _cleanup_(freep) char *text = NULL;
        struct chat_message said = one;

        if (!(form->can & CALL))
                return;
        said.reasoning = "Which place?";
        said.reasoning_size = strlen(said.reasoning);
        begin(&x, false);
        talk_add(&x, &said, 1, NULL);
        text = whole_text_of(v->tok, &x.ids, "");
        if ((strstr(text, "Which place?") != NULL) != (form->reasoning_key != NULL))
                fail_msg("%s: %s", form->name, text);
}

static void test_reasoning(void **state) {
        (void)state;
        tool_forms_each(check_reasoning, 1);
}

/* --- single tokens --- */

/* Results of one reply that come one by one. */
static void test_one_by_one(void **state) {
        const struct chat_tail behind = {.state = CHAT_CLOSED, .role = CHAT_TOOL};
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON, IN_SYSTEM(""), &c);

        (void)state;
        tool_assert_text(&v, c, &ended, results, 2,
                "\n<|im_start|>user\n<tool_response>\n{\"sky\": \"grey\"}\n</tool_response>\n"
                "<tool_response>\n12:00\n</tool_response><|im_end|>\n");
        tool_assert_text(&v, c, &behind, results + 1, 1,
                "<|im_start|>user\n<tool_response>\n12:00\n</tool_response><|im_end|>\n");
        tool_form_close(&v, c);
        v = tool_form_open(COMMON, AS_TEXT, &c);
        tool_assert_text(&v, c, &ended, results, 1,
                "<|outputs_begin|><|output_begin|>{\"sky\": \"grey\"}<|output_end|>");
        tool_assert_text(&v, c, &behind, results + 1, 1, "\n<|output_begin|>12:00<|output_end|>");
        tool_assert_text(&v, c, &behind, &hello, 1, "<|user|>Hello");
        tool_form_close(&v, c);
        v = tool_form_open(WITH_CALL, NAMES, &c);
        tool_assert_text(&v, c, &behind, results + 1, 1,
                "<|start|>functions.time to=assistant<|channel|>commentary<|message|>\"12:00\""
                "<|end|>");
        tool_form_close(&v, c);
        v = tool_form_open(COMMON, IN_LAST_USER, &c);
        tool_assert_text(&v, c, &behind, results + 1, 1,
                "[TOOL_RESULTS] {\"content\": 12:00, \"call_id\": \"call2abcd\"}[/TOOL_RESULTS]");
        tool_form_close(&v, c);
}

/* What the end token of the reply is; and nothing is written where the reply goes on. */
static void test_reply_end(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct chat_tail open = {.state = CHAT_OPEN_REPLY, .role = CHAT_ASSISTANT},
                               raw = {.state = CHAT_CLOSED, .role = CHAT_RAW},
                               behind = {.state = CHAT_CLOSED, .role = CHAT_TOOL};
        struct chat *c;
        struct vocab_build v = tool_form_open(WITH_RESPONSE, GOES_ON, &c);

        (void)state;
        tool_assert_text(&v, c, &ended, results + 1, 1, "response:time{12:00}<tool_response|>");
        tool_assert_text(&v, c, &open, results + 1, 1,
                "<|tool_response>response:time{12:00}<tool_response|>");
        tool_assert_text(&v, c, &ended, results, 2,
                "response:weather{{\"sky\": \"grey\"}}<tool_response|><|tool_response>response:"
                "time{12:00}<tool_response|>");
        assert_int_equal(chat_append_reply_start(c, &behind, 0, &ids, NULL), 0);
        assert_int_equal(ids.n, 0);
        tool_form_close(&v, c);
        v = tool_form_open(WITH_CALL, NAMES, &c);
        tool_assert_text(&v, c, &ended, results + 1, 1,
                "<|start|>functions.time to=assistant<|channel|>commentary<|message|>\"12:00\""
                "<|end|>");
        tool_assert_text(&v, c, &open, results + 1, 1,
                "<|call|><|start|>functions.time to=assistant<|channel|>commentary<|message|>"
                "\"12:00\"<|end|>");
        tool_form_close(&v, c);
        v = tool_form_open(COMMON, PLAIN, &c);
        tool_assert_text(&v, c, &ended, results + 1, 1, "\n<|im_start|>tool\n12:00<|im_end|>\n");
        tool_assert_text(
                &v, c, &open, results + 1, 1, "<|im_end|>\n<|im_start|>tool\n12:00<|im_end|>\n");
        tool_assert_text(&v, c, &raw, results + 1, 1, "<|im_start|>tool\n12:00<|im_end|>\n");
        assert_int_equal(chat_append_reply_start(c, &behind, 0, &ids, NULL), 0);
        assert_true(ids.n > 0);
        tool_form_close(&v, c);
}

/* A template that closes no reply with calls by an end token. */
static void test_no_end(void **state) {
        const struct chat_tail closed = {.state = CHAT_CLOSED, .role = CHAT_ASSISTANT},
                               user = {.state = CHAT_CLOSED, .role = CHAT_USER};
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON,
                FOR "{% if m.role == 'tool' %}{{ '<|outputs_begin|>' + m.content + "
                    "'<|outputs_end|>' }}{% elif m.tool_calls %}{{ '<|assistant|>' }}"
                    "{% for call in m.tool_calls %}{{ '<|call_begin|>' + call.function.name }}"
                    "{{ call.function.arguments | tojson }}{{ '<|call_end|>' }}" END
                    "{% else %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endif %}" END
                    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
                &c);

        (void)state;
        tool_assert_text(&v, c, &ended, results + 1, 1, "<|outputs_begin|>12:00<|outputs_end|>");
        tool_assert_text(&v, c, &closed, results + 1, 1, "<|outputs_begin|>12:00<|outputs_end|>");
        tool_assert_text(&v, c, &user, &two, 1,
                "<|assistant|><|call_begin|>weather{\"city\": \"Bern\", \"days\": [1, 2.5]}"
                "<|call_end|><|call_begin|>time{}<|call_end|>");
        tool_form_close(&v, c);
}

/* Templates that know results under other names, and definitions in other places. */
static void test_names(void **state) {
        static const char *const rows[][2] = {
                /* It writes roles that it knows. */
                {FOR "{% if m.role in ['user', 'assistant', 'tool_response'] %}"
                     "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif "
                     "%}" END,
                        "<|start|>tool_response<|message|>12:00<|end|>"},
                {"{% if tools %}{{ tools | tojson }}{% endif %}" FOR
                 "{% if m.role == 'tool' %}{{ '<|tool|>' + m.content + '<|end|>' }}{% else %}"
                 "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endif %}" END,
                        "<|tool|>12:00<|end|>"},
        };
        static const char *const observation[] = {
                "<|user|>", "<|assistant|>", "<|observation|>", "<|end|>", NULL};
        static const char *const places[] = {
                "{% if xml_tools %}{{ '<tools>' }}{{ xml_tools | tojson }}{% endif %}" FOR
                "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}" END,
                FOR
                "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% for tool in m.tools or [] %}"
                "{% if tool.type == 'function' %}{{ tool.function | tojson }}{% endif %}" END END,
        };
        const struct chat_input in = {
                .messages = &help, .n = 1, .tools = TOOLS, .tools_size = strlen(TOOLS)};
        struct chat *c;
        struct vocab_build v;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                v = tool_form_open(COMMON, rows[i][0], &c);
                tool_assert_text(&v, c, &ended, results + 1, 1, rows[i][1]);
                tool_form_close(&v, c);
        }
        /* Any role, but one of them makes a token. */
        whole_vocabulary(&v, "gpt2", false, observation, NULL);
        c = whole_chat(&v, FOR "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}" END);
        tool_assert_text(&v, c, &ended, results + 1, 1, "<|observation|>12:00<|end|>");
        tool_form_close(&v, c);
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                _cleanup_(freep) char *text = NULL;

                v = tool_form_open(COMMON, places[i], &c);
                assert_true(chat_takes_tools(c));
                assert_int_equal(
                        tool_try(&v, c, &(struct chat_tail){.state = CHAT_EMPTY}, &in, &text, NULL),
                        0);
                assert_non_null(strstr(text, "\"name\": \"weather\""));
                tool_form_close(&v, c);
        }
}

/* Where the tools change what later messages are, that is told. */
static void test_later(void **state) {
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON,
                "{% if tools %}{{ tools | tojson }}{% endif %}" FOR
                "{{ '<|start|>' + m.role + '<|message|>' + m.content }}"
                "{% if tools and m.role == 'user' %}{{ ' (with tools)' }}{% endif %}"
                "{{ '<|end|>' }}" END,
                &c);

        (void)state;
        assert_non_null(chat_difference(c, 0));
        assert_non_null(strstr(chat_difference(c, 0), "otherwise where tools are defined"));
        assert_null(chat_difference(c, 1));
        tool_form_close(&v, c);
}

/* Several results where the template takes one call in a message. */
static void test_one_call(void **state) {
        const struct chat_input in = {.messages = &two, .n = 1};
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON, IN_FIRST_USER, &c);

        (void)state;
        tool_assert_text(&v, c, &ended, results, 2,
                "<|start_header_id|>ipython<|end_header_id|>\n\n\"{\\\"sky\\\": \\\"grey\\\"}\""
                "<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n\"12:00\"<|eot_id|>");
        tool_assert_refused(&v, c, &(struct chat_tail){.state = CHAT_CLOSED, .role = CHAT_USER},
                &in, ERR_INVALID, "one call at once");
        tool_form_close(&v, c);
}

/* Ids and names that are missing, or have another form than the template takes. */
static void test_ids(void **state) {
        const struct chat_tail user = {.state = CHAT_CLOSED, .role = CHAT_USER};
        struct chat_message result = results[1];
        struct chat_call call = calls[1];
        const struct chat_message m = {.role = CHAT_ASSISTANT, .calls = &call, .n_calls = 1};
        struct chat_input in = {.messages = &m, .n = 1};
        _cleanup_(freep) char *said = NULL, *text = NULL;
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON, IN_LAST_USER, &c);
        const char *id;

        (void)state;
        call.id = result.call_id = "call_0123456789abcdef";
        assert_int_equal(tool_try(&v, c, &user, &in, &said, NULL), 0);
        in.messages = &result;
        assert_int_equal(tool_try(&v, c, &ended, &in, &text, NULL), 0);
        id = strstr(said, "\"id\": \"");
        assert_non_null(id);
        id += strlen("\"id\": \"");
        assert_int_equal(strcspn(id, "\""), 9);
        assert_null(strstr(said, "call_0123"));
        assert_non_null(strstr(text, "\"call_id\": \""));
        assert_memory_equal(strstr(text, "\"call_id\": \"") + strlen("\"call_id\": \""), id, 9);
        result.call_id = NULL;
        tool_assert_text(&v, c, &ended, &result, 1,
                "[TOOL_RESULTS] {\"content\": 12:00, \"call_id\": \"call00000\"}[/TOOL_RESULTS]");
        tool_form_close(&v, c);
        v = tool_form_open(WITH_CALL, NAMES, &c);
        result.name = NULL;
        tool_assert_text(&v, c, &ended, &result, 1,
                "<|start|>functions.tool to=assistant<|channel|>commentary<|message|>\"12:00\""
                "<|end|>");
        result.name = result.call_id = "";
        tool_assert_text(&v, c, &ended, &result, 1,
                "<|start|>functions.tool to=assistant<|channel|>commentary<|message|>\"12:00\""
                "<|end|>");
        tool_form_close(&v, c);
}

static void test_refused(void **state) {
        const struct chat_tail empty = {.state = CHAT_EMPTY},
                               user = {.state = CHAT_CLOSED, .role = CHAT_USER},
                               system = {.state = CHAT_CLOSED, .role = CHAT_SYSTEM},
                               open = {.state = CHAT_OPEN_SYSTEM, .role = CHAT_SYSTEM};
        struct chat_call bad = calls[0];
        struct chat_message m = {.role = CHAT_ASSISTANT, .calls = &bad, .n_calls = 1};
        struct chat_message mixed[2] = {results[0], hello};
        struct chat_input in = {.messages = results, .n = 1};
        const struct {
                const char *arguments, *sentence;
        } rows[] = {{"[]", "no JSON object"}, {" \n", "no JSON object"},
                {"{\"a\": }", "weather: byte 6"}, {"{\"a\": 1", "weather: byte"},
                {"{} x", "behind the value"}, {"\xff", "no JSON object"}};
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON, IN_SYSTEM(""), &c);

        (void)state;
        tool_assert_refused(&v, c, &empty, &in, ERR_STATE, "behind a reply");
        tool_assert_refused(&v, c, &user, &in, ERR_STATE, "behind a reply");
        tool_assert_refused(&v, c, &system, &in, ERR_STATE, "behind a reply");
        tool_assert_refused(&v, c, &open, &in, ERR_STATE, "behind a reply");
        in = (struct chat_input){.messages = mixed, .n = 2};
        tool_assert_refused(&v, c, &ended, &in, ERR_INVALID, "of role user");
        in = (struct chat_input){.messages = mixed + 1, .n = 2};
        tool_assert_refused(&v, c, &ended, &in, ERR_INVALID, "2 messages");
        in = (struct chat_input){.messages = &m, .n = 0};
        tool_assert_refused(&v, c, &ended, &in, ERR_INVALID, "0 messages");
        in.n = 1;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                bad.arguments = rows[i].arguments;
                bad.arguments_size = strlen(rows[i].arguments);
                tool_assert_refused(&v, c, &user, &in, ERR_INVALID, rows[i].sentence);
        }
        bad = (struct chat_call){.name = ""};
        tool_assert_refused(&v, c, &user, &in, ERR_INVALID, "call 0 has no name");
        m.role = CHAT_USER;
        bad = calls[0];
        tool_assert_refused(&v, c, &user, &in, ERR_INVALID, "of role user");
        m = (struct chat_message){.role = CHAT_TOOL, .reasoning = "", .text = ""};
        tool_assert_refused(&v, c, &ended, &in, ERR_INVALID, "of role tool");
        tool_form_close(&v, c);

        m = (struct chat_message){
                .role = CHAT_ASSISTANT, .text = "Hm", .size = 2, .calls = &bad, .n_calls = 1};
        v = tool_form_open(COMMON, AS_TEXT, &c);
        tool_assert_refused(&v, c, &user, &in, ERR_INVALID, "either text or calls");
        m.size = 0;
        bad.arguments = "{\"a\" 1}";
        bad.arguments_size = strlen(bad.arguments);
        tool_assert_refused(&v, c, &user, &in, ERR_INVALID, "weather: byte");
        tool_form_close(&v, c);
        bad = calls[0];
        v = tool_form_open(COMMON, PLAIN, &c);
        tool_assert_refused(&v, c, &user, &in, ERR_UNSUPPORTED, "writes no calls");
        tool_form_close(&v, c);
        /* Results that it would write as replies, or leave out. */
        in.messages = results;
        v = tool_form_open(COMMON,
                FOR "{{ ('<|user|>' if m.role == 'user' else '<|assistant|>') + m.content + "
                    "'<|end|>' }}" END,
                &c);
        tool_assert_refused(&v, c, &ended, &in, ERR_UNSUPPORTED, "no results");
        tool_form_close(&v, c);
        v = tool_form_open(COMMON,
                FOR
                "{% if m.role != 'tool' %}{{ '<|start|>' + m.role + '|' + m.content + '<|end|>' }}"
                "{% endif %}" END,
                &c);
        tool_assert_refused(&v, c, &ended, &in, ERR_UNSUPPORTED, "no results");
        tool_form_close(&v, c);
}

/* Families have no place for any of it. */
static void test_families(void **state) {
        static const char *const choices[] = {"chatml", "none"};
        struct vocab_build v;

        (void)state;
        whole_vocabulary(&v, "gpt2", false, tool_control[COMMON], tool_added);
        for (size_t i = 0; i < 2; i++) {
                struct chat_message m = well;
                struct chat_input in = {.messages = results, .n = 1};
                struct chat *c = NULL;

                assert_int_equal(chat_new(&c, v.tok, NULL, 0, choices[i], NULL), 0);
                assert_false(chat_takes_tools(c));
                assert_int_equal(chat_check_tools(c, TOOLS, strlen(TOOLS), NULL), -ERR_UNSUPPORTED);
                tool_assert_refused(&v, c, &ended, &in, ERR_UNSUPPORTED, "template");
                in = (struct chat_input){.messages = &one, .n = 1};
                tool_assert_refused(&v, c, &ended, &in, ERR_UNSUPPORTED, "template");
                in = (struct chat_input){
                        .messages = &hello, .n = 1, .tools = TOOLS, .tools_size = strlen(TOOLS)};
                tool_assert_refused(&v, c, &ended, &in, ERR_UNSUPPORTED, "template");
                m.reasoning = "";
                in = (struct chat_input){.messages = &m, .n = 1};
                tool_assert_refused(
                        &v, c, &ended, &in, ERR_UNSUPPORTED, i == 0 ? "chatml" : "raw text");
                chat_free(c);
        }
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_open),
                cmocka_unit_test(test_beside),
                cmocka_unit_test(test_reasoning),
                cmocka_unit_test(test_one_by_one),
                cmocka_unit_test(test_reply_end),
                cmocka_unit_test(test_no_end),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_later),
                cmocka_unit_test(test_one_call),
                cmocka_unit_test(test_ids),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_families),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
