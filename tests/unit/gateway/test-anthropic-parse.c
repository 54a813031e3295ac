/* SPDX-License-Identifier: MIT */
/* Bodies of /v1/messages to forms: what is the same stays the same, and what is wrong is named. */
#include "client/gateway/anthropic.h"
#include "unit/gateway/dialect-rig.h"
#include "util/test.h"
#include <string.h>

struct parsed {
        struct form *form;
        struct form_fields *is;
        struct anthropic_wish wish;
        struct err e;
};

static int parse(struct parsed *p, const char *body, bool counts) {
        json_t *root = NULL;
        int r;

        *p = (struct parsed){0};
        assert_int_equal(form_new(&p->form, NULL), 0);
        p->is = form_fields(p->form);
        assert_int_equal(fields_parse(&root, body, strlen(body), NULL), 0);
        r = anthropic_parse(p->form, root, counts, &p->wish, &p->e);
        json_decref(root);
        return r;
}

#define HI "\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

/* The messages of a body with this list. */
static void check_messages(const char *messages, const char *expected) {
        char body[4096];
        struct parsed p;

        snprintf(body, sizeof(body), "{\"max_tokens\":9,\"messages\":%s}", messages);
        assert_int_equal(parse(&p, body, false), 0);
        assert_string_equal(rig_messages(p.form), expected);
        form_free(p.form);
}

static void check_wrong(const char *body, const char *message) {
        struct parsed p;

        assert_int_equal(parse(&p, body, false), -ERR_INVALID);
        assert_string_equal(p.e.msg, message);
        form_free(p.form);
}

static void test_plain(void **state) {
        struct parsed p;

        assert_int_equal(parse(&p, "{" HI ",\"model\":\"m\"}", false), 0);
        assert_string_equal(rig_messages(p.form), "user|Hi\n");
        assert_string_equal(p.is->model, "m");
        assert_string_equal(p.is->tag, "anthropic");
        assert_int_equal(p.is->place, FORM_FIND);
        assert_true(p.is->has_max_tokens);
        assert_int_equal(p.is->max_tokens, 9);
        assert_int_equal(p.is->sampling.has, 0);
        assert_false(p.is->stream);
        assert_false(p.wish.thinking);
        assert_null(p.is->tools);
        assert_null(p.is->session);
        form_free(p.form);
}

static void test_sampling(void **state) {
        struct parsed p;

        assert_int_equal(
                parse(&p,
                        "{" HI ",\"temperature\":0.5,\"top_p\":1,\"top_k\":7,\"stream\":true,"
                        "\"stop_sequences\":[\"a\",\"bc\"]}",
                        false),
                0);
        assert_int_equal(
                p.is->sampling.has, CONFAB_HAS_TEMPERATURE | CONFAB_HAS_TOP_P | CONFAB_HAS_TOP_K);
        assert_true(p.is->sampling.temperature == 0.5f);
        assert_true(p.is->sampling.top_p == 1.0f);
        assert_int_equal(p.is->sampling.top_k, 7);
        assert_true(p.is->stream);
        assert_int_equal(p.is->n_stops, 2);
        assert_string_equal(p.is->stops[0], "a");
        assert_string_equal(p.is->stops[1], "bc");
        form_free(p.form);
}

static void test_system(void **state) {
        struct parsed p;

        assert_int_equal(parse(&p, "{" HI ",\"system\":\"Be brief.\"}", false), 0);
        assert_string_equal(rig_messages(p.form), "system|Be brief.\nuser|Hi\n");
        form_free(p.form);
        assert_int_equal(parse(&p,
                                 "{" HI ",\"system\":[{\"type\":\"text\",\"text\":\"a\"},"
                                 "{\"type\":\"text\",\"text\":\"b\",\"cache_control\":{}}]}",
                                 false),
                0);
        assert_string_equal(rig_messages(p.form), "system|a\nb\nuser|Hi\n");
        form_free(p.form);
        assert_int_equal(parse(&p, "{" HI ",\"system\":[]}", false), 0);
        assert_string_equal(rig_messages(p.form), "user|Hi\n");
        form_free(p.form);
        /* in the middle, as Claude Code has it */
        check_messages(
                "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"b\"}]",
                "user|a\nsystem|b\n");
}

/* Claude Code's line of accounting is not told. */
static void test_billing(void **state) {
#define BILLING "x-anthropic-billing-header: cc_version=2.1.197.d7d; cc_entrypoint=sdk-cli;"
        static const struct {
                const char *system, *expected;
        } cases[] = {
                {"[{\"type\":\"text\",\"text\":\"" BILLING "\"},{\"type\":\"text\",\"text\":\"a\"},"
                 "{\"type\":\"text\",\"text\":\"b\"}]",
                        "system|a\nb\nuser|Hi\n"},
                {"[{\"type\":\"text\",\"text\":\"" BILLING "\"}]", "user|Hi\n"},
                {"\"" BILLING "\\na\"", "system|a\nuser|Hi\n"},
                {"\"x-anthropic-billing\"", "system|x-anthropic-billing\nuser|Hi\n"},
                {"[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"" BILLING
                 "\"}]",
                        "system|a\n" BILLING "\nuser|Hi\n"},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char body[512];
                struct parsed p;

                snprintf(body, sizeof(body), "{" HI ",\"system\":%s}", cases[i].system);
                assert_int_equal(parse(&p, body, false), 0);
                assert_string_equal(rig_messages(p.form), cases[i].expected);
                form_free(p.form);
        }
}

/* The same history in all of the forms that Claude Code sends it in. */
static void test_same(void **state) {
        const char *expected = "user|Hi\nassistant|Hello\nuser|More\n";

        check_messages("[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
                       "\"content\":\"Hello\"},"
                       "{\"role\":\"user\",\"content\":\"More\"}]",
                expected);
        check_messages("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]},"
                       "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Hello\","
                       "\"citations\":null}]},"
                       "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"More\","
                       "\"cache_control\":{\"type\":\"ephemeral\"}}]}]",
                expected);
        check_messages(
                "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"H\"},"
                "{\"type\":\"text\",\"text\":\"i\"}]},{\"role\":\"assistant\",\"content\":"
                "[{\"type\":\"text\",\"text\":\"Hel\"},{\"type\":\"text\",\"text\":\"lo\"}]},"
                "{\"role\":\"user\",\"content\":\"More\"}]",
                expected);
}

static void test_tool_blocks(void **state) {
        check_messages(
                "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":["
                "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},"
                "{\"type\":\"redacted_thinking\",\"data\":\"x\"},"
                "{\"type\":\"text\",\"text\":\"b\"},"
                "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{\"z\": [1, "
                "2.5],\"a\":\"\\u00e9\"}},"
                "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"g\",\"input\":{}}]},"
                "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"so\"},"
                "{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"1\",\"is_error\":"
                "false},"
                "{\"type\":\"tool_result\",\"tool_use_id\":\"t2\",\"content\":[{\"type\":\"text\","
                "\"text\":\"2\"},"
                "{\"type\":\"text\",\"text\":\"3\"}]}]}]",
                "user|a\n"
                "assistant|b|think:hm|t1 f {\"z\":[1,2.5],\"a\":\"\xc3\xa9\"}|t2 g {}\n"
                "tool|t1=1|t2=23\n"
                "user|so\n");
}

static void test_failed_result(void **state) {
        check_messages("[{\"role\":\"user\",\"content\":["
                       "{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"no\",\"is_"
                       "error\":true},"
                       "{\"type\":\"tool_result\",\"tool_use_id\":\"2\",\"content\":\"Error: "
                       "no\",\"is_error\":true},"
                       "{\"type\":\"tool_result\",\"tool_use_id\":\"3\",\"is_error\":true},"
                       "{\"type\":\"tool_result\",\"tool_use_id\":\"4\"}]}]",
                "tool|1=Error: no|2=Error: no|3=Error: |4=\n");
}

static void test_tools(void **state) {
        static const char tools[] =
                "\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{\"type\":"
                "\"object\"},"
                "\"cache_control\":{}},{\"type\":\"web_search_20250305\",\"name\":\"web_search\"},"
                "{\"type\":\"custom\",\"name\":\"g\"}]";
        static const char expected[] =
                "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
                "\"parameters\":{\"type\":\"object\"}}},"
                "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";
        char body[2048];
        struct parsed p;

        snprintf(body, sizeof(body), "{" HI ",%s}", tools);
        assert_int_equal(parse(&p, body, false), 0);
        assert_string_equal(p.is->tools, expected);
        form_free(p.form);
        snprintf(body, sizeof(body),
                "{" HI
                ",%s,\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}}",
                tools);
        assert_int_equal(parse(&p, body, false), 0);
        assert_string_equal(p.is->tools, expected);
        form_free(p.form);
        snprintf(body, sizeof(body), "{" HI ",%s,\"tool_choice\":{\"type\":\"none\"}}", tools);
        assert_int_equal(parse(&p, body, false), 0);
        assert_null(p.is->tools);
        form_free(p.form);
        snprintf(body, sizeof(body), "{" HI ",%s,\"tool_choice\":{\"type\":\"any\"}}", tools);
        assert_int_equal(parse(&p, body, false), 0);
        assert_string_equal(p.is->call_of, "");
        assert_string_equal(p.is->tools, expected);
        form_free(p.form);
        snprintf(body, sizeof(body),
                "{" HI ",%s,\"tool_choice\":{\"type\":\"tool\",\"name\":\"g\"}}", tools);
        assert_int_equal(parse(&p, body, false), 0);
        assert_string_equal(p.is->call_of, "g");
        form_free(p.form);
        assert_int_equal(parse(&p, "{" HI ",\"tools\":[]}", false), 0);
        assert_null(p.is->tools);
        form_free(p.form);
}

static void test_session(void **state) {
        struct parsed p;

        assert_int_equal(
                parse(&p,
                        "{" HI ",\"metadata\":{\"user_id\":"
                        "\"{\\\"device_id\\\":\\\"d\\\",\\\"session_id\\\":\\\"s-1\\\"}\"}}",
                        false),
                0);
        assert_string_equal(p.is->session, "s-1");
        form_free(p.form);
        /* any other text is a user's, and no session */
        assert_int_equal(parse(&p, "{" HI ",\"metadata\":{\"user_id\":\"u-1\"}}", false), 0);
        assert_null(p.is->session);
        form_free(p.form);
        assert_int_equal(
                parse(&p, "{" HI ",\"metadata\":{\"user_id\":\"{\\\"session_id\\\":7}\"}}", false),
                0);
        assert_null(p.is->session);
        form_free(p.form);
}

static void check_thinking(const char *value, bool expected) {
        char body[512];
        struct parsed p;

        snprintf(body, sizeof(body), "{" HI ",\"thinking\":%s}", value);
        assert_int_equal(parse(&p, body, false), 0);
        assert_int_equal(p.wish.thinking, expected);
        form_free(p.form);
}

static void test_thinking(void **state) {
        check_thinking("{\"type\":\"adaptive\"}", true);
        check_thinking("{\"type\":\"enabled\",\"budget_tokens\":2000}", true);
        check_thinking("{\"type\":\"adaptive\",\"display\":\"omitted\"}", false);
        check_thinking("{\"type\":\"disabled\"}", false);
        check_thinking("null", false);
}

static void test_format(void **state) {
        struct parsed p;

        assert_int_equal(parse(&p,
                                 "{" HI ",\"output_config\":{\"effort\":\"high\",\"format\":"
                                 "{\"type\":\"json_schema\",\"schema\":{\"type\":\"null\"}}}}",
                                 false),
                0);
        assert_string_equal(p.is->json_schema, "{\"type\":\"null\"}");
        form_free(p.form);
        assert_int_equal(
                parse(&p, "{" HI ",\"output_format\":{\"type\":\"json_schema\",\"schema\":{}}}",
                        false),
                0);
        assert_string_equal(p.is->json_schema, "{}");
        form_free(p.form);
        assert_int_equal(parse(&p, "{" HI ",\"output_config\":{\"effort\":\"high\"}}", false), 0);
        assert_null(p.is->json_schema);
        form_free(p.form);
}

/* count_tokens has no max_tokens, and nothing of how the reply is to be. */
static void test_counts(void **state) {
        struct parsed p;

        assert_int_equal(parse(&p,
                                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
                                 "\"tools\":[{\"name\":\"f\"}]}",
                                 true),
                0);
        assert_string_equal(rig_messages(p.form), "user|Hi\n");
        assert_non_null(p.is->tools);
        form_free(p.form);
        check_wrong("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
                "max_tokens is not given");
}

/* A thread may be created, since that says nothing; but none goes on. */
static void test_thread(void **state) {
        static const char *const taken[] = {"null", "{\"type\":\"create\"}"};
        char text[256];
        struct parsed p;

        for (int i = 0; i < 4; i++) {
                snprintf(text, sizeof(text), "{" HI ",\"thread\":%s}", taken[i / 2]);
                assert_int_equal(parse(&p, text, i % 2), 0);
                form_free(p.form);
        }
        for (int counts = 0; counts < 2; counts++) {
                assert_int_equal(parse(&p,
                                         "{" HI ",\"thread\":{\"type\":\"continue\","
                                         "\"previous_message_id\":\"msg_1\"}}",
                                         counts),
                        -ERR_NOT_FOUND);
                assert_string_equal(
                        p.e.msg, "thread is not held here: send the whole history in messages");
                form_free(p.form);
        }
        check_wrong("{" HI ",\"thread\":1}", "thread is not an object");
        check_wrong("{" HI ",\"thread\":{}}", "thread.type is not create or continue");
        check_wrong("{" HI ",\"thread\":{\"type\":2}}", "thread.type is not a string");
}

static void test_wrong(void **state) {
        static const struct {
                const char *body, *message;
        } wrong[] = {
                {"{}", "messages is not an array of at least one message"},
                {"{\"messages\":{}}", "messages is not an array"},
                {"{\"messages\":[1]}", "messages[0] is not an object"},
                {"{\"messages\":[{\"role\":\"x\",\"content\":\"\"}]}",
                        "messages[0].role is not user, assistant or system"},
                {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content is not given"},
                {"{\"messages\":[{\"role\":\"user\",\"content\":1}]}",
                        "messages[0].content is not a string or an array of blocks"},
                {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]}",
                        "messages[0].content is not text without NUL"},
                {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
                        "messages[0].content[0].type is not text or tool_result: confab takes no "
                        "images "
                        "and no documents"},
                {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]}",
                        "messages[0].content[0].tool_use_id is not given"},
                {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
                 "\"tool_use_id\":\"1\",\"content\":[{\"type\":\"image\"}]}]}]}",
                        "messages[0].content[0].content[0].type is not text, which is all that "
                        "confab "
                        "takes here"},
                {"{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\","
                 "\"id\":\"1\","
                 "\"name\":\"f\",\"input\":\"{}\"}]}]}",
                        "messages[0].content[0].input is not an object"},
                {"{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"x\"}]}]}",
                        "messages[0].content[0].type is not text, thinking or tool_use"},
                {"{" HI ",\"system\":1}", "system is not a string or an array of blocks"},
                {"{" HI ",\"system\":[{\"type\":\"text\"}]}", "system[0].text is not given"},
                {"{" HI ",\"model\":1}", "model is not a string"},
                {"{" HI ",\"stream\":\"yes\"}", "stream is not true or false"},
                {"{" HI ",\"temperature\":\"1\"}", "temperature is not a number from 0 to 2"},
                {"{" HI ",\"top_k\":-1}", "top_k is not a whole number from 0 to 4294967295"},
                {"{" HI ",\"stop_sequences\":[\"\"]}",
                        "stop_sequences[0] is not a text of at least one character"},
                {"{" HI ",\"tools\":[{\"description\":\"d\"}]}", "tools[0].name is not given"},
                {"{" HI ",\"tools\":[\"f\"]}", "tools[0] is not an object"},
                {"{" HI ",\"tools\":[{\"name\":\"f\",\"input_schema\":1}]}",
                        "tools[0].input_schema is not an object"},
                {"{" HI ",\"tool_choice\":{\"type\":\"any\"}}",
                        "tool_choice is not possible: no tools are given"},
                {"{" HI ",\"tool_choice\":{\"type\":\"tool\"}}", "tool_choice.name is not given"},
                {"{" HI ",\"tool_choice\":{\"type\":\"some\"}}",
                        "tool_choice.type is not one of auto, any, tool, none"},
                {"{" HI ",\"thinking\":true}", "thinking is not an object"},
                {"{" HI ",\"metadata\":{\"user_id\":1}}", "metadata.user_id is not a string"},
                {"{" HI ",\"output_config\":{\"format\":{\"type\":\"json\"}}}",
                        "output_config.format.type is not json_schema"},
        };

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                check_wrong(wrong[i].body, wrong[i].message);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plain),
                cmocka_unit_test(test_sampling),
                cmocka_unit_test(test_system),
                cmocka_unit_test(test_billing),
                cmocka_unit_test(test_same),
                cmocka_unit_test(test_tool_blocks),
                cmocka_unit_test(test_failed_result),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_session),
                cmocka_unit_test(test_thinking),
                cmocka_unit_test(test_format),
                cmocka_unit_test(test_counts),
                cmocka_unit_test(test_thread),
                cmocka_unit_test(test_wrong),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
