/* SPDX-License-Identifier: MIT */
/*
 * Definitions of tools: where a template tells of them, and in which form.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "chat/chat.h"
#include "unit/chat/tool-forms.h"
#include "util/test.h"

static void check_told(const struct vocab_build *v, const struct form *form, const struct chat *c) {
        bool told = form->can & (TELL_SYSTEM | TELL_USER);
        size_t n = 0;

        if (chat_takes_tools(c) != told)
                fail_msg("%s: takes tools: %d", form->name, chat_takes_tools(c));
        assert_int_equal(
                chat_check_tools(c, TOOLS, strlen(TOOLS), NULL), told ? 0 : -ERR_UNSUPPORTED);
        if ((chat_state_after(c, CHAT_SYSTEM, false) == CHAT_OPEN_SYSTEM) != form->opens ||
                (chat_state_after(c, CHAT_SYSTEM, true) == CHAT_OPEN_SYSTEM) !=
                        form->opens_with_tools)
                fail_msg("%s: the state after a system message", form->name);
        assert_int_equal(chat_state_after(c, CHAT_TOOL, true), CHAT_CLOSED);
        assert_int_equal(chat_state_after(c, CHAT_USER, true), CHAT_CLOSED);
        for (; n < sizeof(form->notes) / sizeof(form->notes[0]) && form->notes[n]; n++)
                if (!chat_difference(c, n) || !strstr(chat_difference(c, n), form->notes[n]))
                        fail_msg("%s: %s", form->name, chat_difference(c, n));
        if (chat_difference(c, n))
                fail_msg("%s: %s", form->name, chat_difference(c, n));
}

static void test_told(void **state) {
        (void)state;
        tool_forms_each(check_told, 1);
}

/* Definitions where they can't be told. */
static void check_elsewhere(
        const struct vocab_build *v, const struct form *form, const struct chat *c) {
        const struct chat_tail tails[] = {{.state = CHAT_EMPTY},
                {.state = CHAT_ENDED_REPLY, .role = CHAT_ASSISTANT},
                {.state = CHAT_CLOSED, .role = CHAT_ASSISTANT}};
        const struct chat_message *const messages[] = {&hello, &hello, &hello, &well, &results[0]};
        enum err_code code = chat_takes_tools(c) ? ERR_STATE : ERR_UNSUPPORTED;

        for (size_t i = 0; i < 5; i++) {
                const struct chat_input in = {.messages = messages[i],
                        .n = 1,
                        .tools = TOOLS,
                        .tools_size = strlen(TOOLS)};
                const struct chat_tail *tail = &tails[i < 3 ? i : 1];
                bool can = i == 0 ? form->can & TELL_USER : i < 3 && (form->can & TELL_LATER);
                _cleanup_(freep) char *text = NULL;
                struct err e = {0};
                int r = tool_try(v, c, tail, &in, &text, &e);

                if (r != (can ? 0 : -(int)code))
                        fail_msg("%s, %zu: %d %s", form->name, i, r, e.msg);
                if (can && !strstr(text, "weather"))
                        fail_msg("%s, %zu: %s", form->name, i, text);
        }
}

static void test_elsewhere(void **state) {
        const struct chat_input in = {.messages = &hello,
                .n = 1,
                .tools = "[{\"name\": \"f\"}]",
                .tools_size = strlen("[{\"name\": \"f\"}]")};
        const struct chat_message raw = MESSAGE(CHAT_RAW, "Once");
        _cleanup_(freep) char *text = NULL;
        struct chat_input told = in;
        struct chat *c;
        struct vocab_build v;

        (void)state;
        tool_forms_each(check_elsewhere, 1);
        v = tool_form_open(COMMON, IN_LAST_USER, &c);
        assert_int_equal(tool_try(&v, c, &ended, &in, &text, NULL), 0);
        assert_string_equal(text,
                "[AVAILABLE_TOOLS] [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"
                "[/AVAILABLE_TOOLS][INST] Hello[/INST]");
        told.messages = &raw;
        tool_assert_refused(&v, c, &ended, &told, ERR_INVALID, "raw text");
        tool_form_close(&v, c);
        /* A template that tells of them where there is a system message, and has no place for one later:
         * they would be left out. */
        v = tool_form_open(COMMON,
                FOR "{{ '<|start|>' + m.role + '<|message|>' + m.content }}"
                    "{% if m.role == 'system' and tools %}{{ tools | tojson }}{% endif %}"
                    "{{ '<|end|>' }}" END,
                &c);
        told.messages = &hello;
        tool_assert_refused(&v, c, &(struct chat_tail){.state = CHAT_EMPTY}, &told, ERR_STATE,
                "with the first message of the system");
        tool_assert_refused(
                &v, c, &ended, &told, ERR_STATE, "with the first message of the system");
        tool_form_close(&v, c);
}

/* As the whole rendering gives them, also a function alone; and as the text of a key. */
static void test_form(void **state) {
        static const char alone[] =
                "[\n{\"name\":\"f\",\"strict\":true,\"parameters\":{\"x\":[1.50,1e3,"
                "12345678901234567890,{}]}} , {\"type\":\"function\",\"function\":"
                "{\"description\":\"\\u00e9\\\"]}\",\"name\":\"g\"}}]\n";
        const struct chat_input in = {
                .messages = &help, .n = 1, .tools = alone, .tools_size = strlen(alone)};
        const struct chat_tail empty = {.state = CHAT_EMPTY};
        _cleanup_(freep) char *text = NULL, *key = NULL, *user = NULL;
        struct chat_input first = in;
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON, IN_SYSTEM(""), &c);

        (void)state;
        assert_int_equal(tool_try(&v, c, &empty, &in, &text, NULL), 0);
        assert_string_equal(text,
                "<|im_start|>system\nHelp.\n\n# Tools\n<tools>\n"
                "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, "
                "\"parameters\": {\"x\": [1.5, 1000.0, 12345678901234567890, {}]}}}\n"
                "{\"type\": \"function\", \"function\": {\"description\": \"é\\\"]}\", \"name\": "
                "\"g\"}}\n</tools><|im_end|>\n");
        tool_form_close(&v, c);
        v = tool_form_open(COMMON, AS_KEY, &c);
        assert_int_equal(tool_try(&v, c, &empty, &in, &key, NULL), 0);
        assert_string_equal(key, "<|system|>Help.<|tool|>[{\"name\":\"f\",\"strict\":true,"
                                 "\"parameters\":{\"x\":[1.50,"
                                 "1e3,12345678901234567890,{}]}}, "
                                 "{\"description\":\"\\u00e9\\\"]}\",\"name\":\"g\"}]"
                                 "<|/tool|><|end|>");
        first.messages = &hello;
        assert_int_equal(tool_try(&v, c, &empty, &first, &user, NULL), 0);
        assert_true(strncmp(user, "<|system|><|tool|>[{", 20) == 0);
        assert_non_null(strstr(user, "}]<|/tool|><|end|><|user|>Hello<|end|>"));
        tool_form_close(&v, c);
}

static void test_check(void **state) {
        static const struct {
                const char *tools, *sentence;
        } rows[] = {{"", "byte 0"}, {"{}", "no JSON list"}, {" []", "empty"}, {"[1]", "entry 0"},
                {"[{\"name\": \"f\"}, []]", "entry 1: it is no object"},
                {"[{}]", "entry 0: the function has no name"}, {"[{\"name\": \"\"}]", "no name"},
                {"[{\"name\": 1}]", "no name"}, {"[{\"name\": {\"name\": \"f\"}}]", "no name"},
                {"[{\"x\": {\"name\": \"f\"}}]", "no name"},
                {"[{\"x\": \"\\\"name\\\": \", \"y\": [\"name\", \"f\"]}]", "no name"},
                {"[{\"type\": \"web_search\", \"name\": \"f\"}]", "its type is not \"function\""},
                {"[{\"function\": \"f\"}]", "\"function\" is no object"},
                {"[{\"name\": \"f\", \"description\": {}}]", "\"description\" is no string"},
                {"[{\"name\": \"f\", \"parameters\": \"{}\"}]", "\"parameters\" is no object"},
                {"[{\"name\": \"f\"}", "byte 14"}, {"[{\"name\": \"f\"}] x", "byte 16"},
                {"[{\"name\": \"f\", \"name\": 2}]", "no name"}};
        static char large[(256 << 10) + 2];
        struct err e = {0};
        struct chat *c;
        struct vocab_build v = tool_form_open(COMMON, IN_SYSTEM(""), &c);

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct chat_input in = {.messages = &help,
                        .n = 1,
                        .tools = rows[i].tools,
                        .tools_size = strlen(rows[i].tools)};
                int r = chat_check_tools(c, rows[i].tools, strlen(rows[i].tools), &e);

                if (r != -ERR_INVALID || !strstr(e.msg, rows[i].sentence))
                        fail_msg("%s: %d %s", rows[i].tools, r, r < 0 ? e.msg : "");
                tool_assert_refused(&v, c, &(struct chat_tail){.state = CHAT_EMPTY}, &in,
                        ERR_INVALID, rows[i].sentence);
        }
        memset(large, ' ', sizeof(large));
        memcpy(large, "[{\"name\": \"f\"}]", 15);
        assert_int_equal(chat_check_tools(c, large, 256 << 10, &e), 0);
        assert_int_equal(chat_check_tools(c, large, (256 << 10) + 1, &e), -ERR_TOO_LARGE);
        /* Deep, and wide: bounded. */
        memset(large, '[', 1000);
        assert_int_equal(chat_check_tools(c, large, 1000, &e), -ERR_INVALID);
        assert_non_null(strstr(e.msg, "nested too deeply"));
        large[0] = '[';
        for (size_t i = 1; i + 3 < sizeof(large); i += 3)
                memcpy(large + i, "{},", 3);
        assert_true(chat_check_tools(c, large, 256 << 10, &e) < 0);
        tool_form_close(&v, c);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_told),
                cmocka_unit_test(test_elsewhere),
                cmocka_unit_test(test_form),
                cmocka_unit_test(test_check),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
