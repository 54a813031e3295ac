/* SPDX-License-Identifier: MIT */
/* Transcripts from elsewhere, read into messages. */
#include "base/buf.h"
#include "base/err.h"
#include "client/transcript.h"
#include "util/test.h"
#include <string.h>

/* All that messages say, a line each. */
static char *describe(const struct transcript *t) {
        struct buf b = BUF_NULL;

        for (size_t i = 0; i < t->n_messages; i++) {
                const struct confab_message *m = &t->messages[i];

                assert_int_equal(m->role == CONFAB_ROLE_TOOL ? 0 : strlen(m->text), m->text_size);
                assert_int_equal(buf_printf(&b, "%s", confab_role_name(m->role)), 0);
                if (m->reasoning)
                        assert_int_equal(buf_printf(&b, " (%s)", m->reasoning), 0);
                if (m->text_size)
                        assert_int_equal(buf_printf(&b, " %s", (const char *)m->text), 0);
                for (size_t k = 0; k < m->n_calls; k++)
                        assert_int_equal(
                                buf_printf(&b, " %s:%s(%s)", m->calls[k].id ? m->calls[k].id : "-",
                                        m->calls[k].name,
                                        m->calls[k].arguments ? m->calls[k].arguments : ""),
                                0);
                for (size_t k = 0; k < m->n_results; k++)
                        assert_int_equal(
                                buf_printf(&b, " %s=%s", m->results[k].call_id, m->results[k].text),
                                0);
                assert_int_equal(buf_append_str(&b, "\n"), 0);
        }
        return buf_take(&b, NULL);
}

static void check_read(const char *json, const char *expected, const char *tools) {
        _cleanup_(freep) char *got = NULL;
        struct transcript t;
        struct err e = {0};

        if (transcript_parse(&t, json, strlen(json), &e) < 0)
                print_message("%s\n", e.msg);
        got = describe(&t);
        assert_string_equal(got, expected);
        if (tools)
                assert_string_equal(t.tools, tools);
        else
                assert_null(t.tools);
        transcript_deinit(&t);
}

static void check_refused(const char *json, int code, const char *why) {
        struct transcript t;
        struct err e;

        assert_int_equal(transcript_parse(&t, json, strlen(json), &e), -code);
        assert_null(t.messages);
        assert_int_equal(t.n_owned, 0);
        if (!strstr(e.msg, why))
                print_message("%s\n", e.msg);
        assert_non_null(strstr(e.msg, why));
}

static void test_openai(void **state) {
        check_read("[{\"role\":\"developer\",\"content\":\"s\"},"
                   "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                   "{\"type\":\"input_text\",\"text\":\"b\"}],\"name\":\"ignored\"},"
                   "{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"why\"}]",
                "system s\nuser ab\nassistant (why) c\n", NULL);
        check_read("{\"model\":\"m\",\"tools\":[ {\"a\":1} ],\"messages\":["
                   "{\"role\":\"user\",\"content\":\"q\"},"
                   "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
                   "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                   "\"{}\"}},"
                   "{\"id\":\"2\",\"function\":{\"name\":\"g\",\"arguments\":{\"x\":1}}}]},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"r\"},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"s\"},"
                   "{\"role\":\"assistant\",\"content\":\"\"},"
                   "{\"role\":\"user\",\"content\":\"\"}]}",
                "user q\nassistant 1:f({}) 2:g({\"x\":1})\ntool 1=r 2=s\nuser\n", "[{\"a\":1}]");
}

static void test_confab(void **state) {
        check_read("{\"id\":3,\"name\":\"a\",\"tools\":\"[]\",\"turns\":["
                   "{\"turn\":0,\"role\":\"system\",\"text\":\"s\",\"start\":0,\"end\":3},"
                   "{\"turn\":1,\"role\":\"user\",\"text\":\"q\"},"
                   "{\"turn\":2,\"role\":\"assistant\",\"text\":\"raw\",\"parts\":["
                   "{\"index\":0,\"kind\":\"reasoning\",\"text\":\"hm\"},"
                   "{\"index\":1,\"kind\":\"text\",\"text\":\"Let me \"},"
                   "{\"index\":2,\"kind\":\"text\",\"text\":\"look.\"},"
                   "{\"index\":3,\"kind\":\"call\",\"call_id\":\"1\",\"name\":\"f\",\"text\":\"{}"
                   "\"}]},"
                   "{\"turn\":3,\"role\":\"tool\",\"text\":\"[]\",\"results\":["
                   "{\"call_id\":\"1\",\"name\":\"f\",\"content\":\"r\"}]},"
                   "{\"turn\":4,\"role\":\"assistant\",\"text\":\"done\"}]}",
                "system s\nuser q\nassistant (hm) Let me look. 1:f({})\ntool 1=r\nassistant done\n",
                "[]");
}

static void test_llm(void **state) {
        check_read("[{\"id\":\"1\",\"prompt\":\"a\",\"system\":\"s\",\"response\":\"b\","
                   "\"conversation_id\":\"c\",\"attachments\":[],\"tool_calls\":["
                   "{\"tool_call_id\":\"1\",\"name\":\"f\",\"arguments\":{\"x\":[1]}}]},"
                   "{\"prompt\":\"\",\"system\":\"s\",\"response\":\"d\",\"conversation_id\":\"c\","
                   "\"tool_results\":[{\"tool_call_id\":\"1\",\"name\":\"f\",\"output\":\"r\"}]},"
                   "{\"prompt\":\"e\",\"system\":\"other\",\"response\":null,\"conversation_id\":"
                   "\"c\"}]",
                "system s\nuser a\nassistant b 1:f({\"x\":[1]})\ntool 1=r\nassistant d\n"
                "system other\nuser e\n",
                NULL);
}

static void test_refused(void **state) {
        check_refused("", ERR_INVALID, "line 1");
        check_refused("{}", ERR_INVALID, "this is no transcript");
        check_refused("3", ERR_INVALID, "this is no transcript");
        check_refused("[]", ERR_INVALID, "no messages");
        check_refused("[3]", ERR_INVALID, "[0]: it has to be an object");
        check_refused("{\"messages\":3}", ERR_INVALID, "messages has to be an array");
        check_refused("{\"turns\":{}}", ERR_INVALID, "turns has to be an array");
        check_refused("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"us\",\"content\":\"a\"}]",
                ERR_INVALID, "[1].role: it has to be");
        check_refused("{\"messages\":[{\"role\":\"user\",\"content\":7}]}", ERR_INVALID,
                "messages[0].content: it has to be a string");
        check_refused("[{\"role\":\"user\",\"content\":\"\\u0000\"}]", ERR_INVALID, "without NUL");
        check_refused("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]",
                ERR_UNSUPPORTED, "[0].content: a part is no text");
        check_refused("[{\"role\":\"tool\",\"content\":\"a\"}]", ERR_INVALID, "[0].tool_call_id: ");
        check_refused("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]", ERR_INVALID,
                "tool_calls.function.name");
        check_refused("{\"turns\":[{\"role\":\"raw\",\"text\":\"a\"}]}", ERR_UNSUPPORTED,
                "turns[0].role: a turn without template");
        check_refused(
                "{\"turns\":[{\"role\":\"assistant\",\"text\":\"\",\"parts\":[{\"kind\":\"call\","
                "\"text\":\"x\",\"broken\":\"b\"}]}]}",
                ERR_UNSUPPORTED, "a broken call");
        check_refused("[{\"prompt\":\"a\",\"conversation_id\":\"1\"},{\"prompt\":\"b\","
                      "\"conversation_id\":\"2\"}]",
                ERR_UNSUPPORTED, "several conversations");
        check_refused("[{\"prompt\":\"a\",\"attachments\":[{}]}]", ERR_UNSUPPORTED, "attachments");
}

/* Many results of one reply take memory as their number, not as its square. */
static void test_many_results(void **state) {
        struct buf b = BUF_NULL;
        struct transcript t;

        assert_int_equal(buf_append_str(&b, "[{\"role\":\"user\",\"content\":\"a\"}"), 0);
        for (int i = 0; i < 15000; i++)
                assert_int_equal(buf_printf(&b,
                                         ",{\"role\":\"tool\",\"tool_call_id\":\"%d\","
                                         "\"content\":\"r\"}",
                                         i),
                        0);
        assert_int_equal(buf_append_str(&b, "]"), 0);
        assert_int_equal(transcript_parse(&t, (char *)b.data, b.size, NULL), 0);
        assert_int_equal(t.n_messages, 2);
        assert_int_equal(t.messages[1].n_results, 15000);
        assert_string_equal(t.messages[1].results[14999].call_id, "14999");
        transcript_deinit(&t);
        buf_deinit(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_openai),
                cmocka_unit_test(test_confab),
                cmocka_unit_test(test_llm),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_many_results),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
