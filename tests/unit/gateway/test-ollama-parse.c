/* SPDX-License-Identifier: MIT */
/* Bodies of /api/chat and /api/generate to forms. */
#include "client/gateway/ollama.h"
#include "unit/gateway/dialect-rig.h"
#include "util/test.h"
#include <string.h>

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

struct parsed {
        struct form *form;
        struct form_fields *is;
        struct ollama_wish wish;
        struct err e;
};
typedef int (*parse_fn)(
        struct form *form, const json_t *body, struct ollama_wish *ret, struct err *e);

static int parse(struct parsed *p, parse_fn fn, const char *body) {
        json_t *root = NULL;
        int r;

        *p = (struct parsed){0};
        assert_int_equal(form_new(&p->form, NULL), 0);
        p->is = form_fields(p->form);
        assert_int_equal(fields_parse(&root, body, strlen(body), NULL), 0);
        r = fn(p->form, root, &p->wish, &p->e);
        json_decref(root);
        return r;
}

static void chat(struct parsed *p, const char *body) {
        assert_int_equal(parse(p, ollama_parse_chat, body), 0);
}

static void generate(struct parsed *p, const char *body) {
        assert_int_equal(parse(p, ollama_parse_generate, body), 0);
}

static void test_chat(void **state) {
        struct parsed p;

        chat(&p, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"a\"},"
                 "{\"role\":\"user\",\"content\":\"b\",\"images\":[]},"
                 "{\"role\":\"assistant\",\"content\":\"c\",\"thinking\":\"d\"},"
                 "{\"role\":\"user\"}],\"keep_alive\":\"5m\"}");
        assert_string_equal(rig_messages(p.form), "system|a\nuser|b\nassistant|c|think:d\nuser|\n");
        assert_string_equal(p.is->model, "m");
        assert_string_equal(p.is->tag, "ollama");
        assert_int_equal(p.is->place, FORM_FIND);
        assert_true(p.is->stream);
        assert_true(p.is->shift);
        assert_false(p.is->has_max_tokens);
        assert_int_equal(p.is->sampling.has, 0);
        assert_true(p.wish.thinking);
        assert_false(p.wish.loads);
        assert_false(p.wish.gives_context);
        form_free(p.form);
}

static void test_options(void **state) {
        struct parsed p;

        chat(&p,
                "{" HI
                ",\"stream\":false,\"options\":{\"temperature\":0.5,\"top_p\":0.25,\"min_p\":0.125,"
                "\"repeat_penalty\":1.5,\"presence_penalty\":-1,\"frequency_penalty\":2,"
                "\"top_k\":7,\"repeat_last_n\":8,\"seed\":9,\"num_predict\":10,"
                "\"stop\":[\"a\",\"\",\"b\"],\"num_ctx\":4096,\"mirostat\":1}}");
        assert_false(p.is->stream);
        assert_int_equal(p.is->sampling.has, (1 << 9) - 1);
        assert_true(p.is->sampling.temperature == 0.5f);
        assert_true(p.is->sampling.top_p == 0.25f);
        assert_true(p.is->sampling.min_p == 0.125f);
        assert_true(p.is->sampling.repetition_penalty == 1.5f);
        assert_true(p.is->sampling.presence_penalty == -1.0f);
        assert_true(p.is->sampling.frequency_penalty == 2.0f);
        assert_int_equal(p.is->sampling.top_k, 7);
        assert_int_equal(p.is->sampling.penalty_last_n, 8);
        assert_int_equal(p.is->sampling.seed, 9);
        assert_true(p.is->has_max_tokens);
        assert_int_equal(p.is->max_tokens, 10);
        assert_int_equal(p.is->n_stops, 2);
        assert_string_equal(p.is->stops[1], "b");
        form_free(p.form);
        /* numbers that mean "none" */
        chat(&p, "{" HI ",\"options\":{\"top_k\":-1,\"repeat_last_n\":-1,\"seed\":-1,"
                 "\"num_predict\":-2,\"stop\":\"x\"}}");
        assert_int_equal(p.is->sampling.has, CONFAB_HAS_TOP_K | CONFAB_HAS_PENALTY_LAST_N);
        assert_int_equal(p.is->sampling.top_k, 0);
        assert_int_equal(p.is->sampling.penalty_last_n, INT32_MAX);
        assert_false(p.is->has_max_tokens);
        assert_int_equal(p.is->n_stops, 1);
        assert_string_equal(p.is->stops[0], "x");
        form_free(p.form);
}

static void check_format(const char *value, const char *expected) {
        char body[512];
        struct parsed p;

        snprintf(body, sizeof(body), "{" HI ",\"format\":%s}", value);
        chat(&p, body);
        if (expected)
                assert_string_equal(p.is->json_schema, expected);
        else
                assert_null(p.is->json_schema);
        form_free(p.form);
}

static void test_format(void **state) {
        check_format("null", NULL);
        check_format("\"\"", NULL);
        check_format("\"json\"", "{\"type\":\"object\"}");
        check_format("{\"type\": \"array\"}", "{\"type\":\"array\"}");
}

static void check_think(const char *fields, bool thinking, bool shift) {
        char body[512];
        struct parsed p;

        snprintf(body, sizeof(body), "{" HI ",%s}", fields);
        chat(&p, body);
        assert_int_equal(p.wish.thinking, thinking);
        assert_int_equal(p.is->shift, shift);
        form_free(p.form);
}

static void test_flags(void **state) {
        check_think("\"think\":true", true, true);
        check_think("\"think\":false", false, true);
        check_think("\"think\":\"low\"", true, true);
        check_think("\"think\":null,\"shift\":false", true, false);
        check_think("\"truncate\":false", true, false);
        check_think("\"truncate\":true,\"shift\":true", true, true);
}

static void test_logprobs(void **state) {
        struct parsed p;

        chat(&p, "{" HI ",\"logprobs\":true,\"top_logprobs\":3}");
        assert_true(p.is->want_logprobs);
        assert_int_equal(p.is->n_logprobs, 3);
        form_free(p.form);
        chat(&p, "{" HI ",\"top_logprobs\":3}");
        assert_false(p.is->want_logprobs);
        assert_int_equal(p.is->n_logprobs, 0);
        form_free(p.form);
}

#define CALL(id, name) "{" id "\"function\":{\"name\":\"" name "\",\"arguments\":{\"a\": 1}}}"
#define ASKED(calls) "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" calls "]}"

/* Ids and names stay as they are, and stay away. */
static void test_results(void **state) {
        struct parsed p;

        chat(&p, "{\"messages\":[" ASKED(CALL("\"id\":\"x\",", "f") "," CALL("\"id\":\"\",",
                         "g")) ","
                               "{\"role\":\"tool\",\"content\":\"1\",\"tool_name\":\"g\"},"
                               "{\"role\":\"tool\",\"content\":\"2\",\"tool_call_id\":\"\"},"
                               "{\"role\":\"tool\",\"content\":\"3\",\"tool_call_id\":\"x\"}]}");
        assert_string_equal(rig_messages(p.form), "assistant||x f {\"a\":1}|- g {\"a\":1}\n"
                                                  "tool|-(g)=1\ntool|-=2\ntool|x=3\n");
        form_free(p.form);
}

static void test_tools(void **state) {
        struct parsed p;

        chat(&p, "{" HI ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                 "{\"type\":\"other\"}]}");
        assert_string_equal(p.is->tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]");
        form_free(p.form);
        chat(&p, "{" HI ",\"tools\":[]}");
        assert_null(p.is->tools);
        form_free(p.form);
}

static void check_load(parse_fn fn, const char *body, bool loads, bool unloads) {
        struct parsed p;

        assert_int_equal(parse(&p, fn, body), 0);
        assert_int_equal(p.wish.loads, loads);
        assert_int_equal(p.wish.unloads, unloads);
        form_free(p.form);
}

static void test_load(void **state) {
        check_load(ollama_parse_chat, "{\"model\":\"m\"}", true, false);
        check_load(ollama_parse_chat, "{\"messages\":[],\"keep_alive\":0}", true, true);
        check_load(ollama_parse_chat, "{\"messages\":[],\"keep_alive\":-1}", true, false);
        check_load(ollama_parse_chat, "{" HI ",\"keep_alive\":0}", false, false);
        check_load(ollama_parse_generate, "{\"model\":\"m\"}", true, false);
        check_load(ollama_parse_generate, "{\"prompt\":\"\",\"keep_alive\":\"0s\"}", true, true);
        check_load(ollama_parse_generate, "{\"prompt\":\"\",\"keep_alive\":\"0.5s\"}", true, false);
        check_load(ollama_parse_generate, "{\"prompt\":\"a\"}", false, false);
}

static void test_generate(void **state) {
        struct parsed p;

        generate(&p, "{\"model\":\"m\",\"prompt\":\"Hi\",\"system\":\"s\",\"template\":\"\","
                     "\"suffix\":null}");
        assert_string_equal(rig_messages(p.form), "system|s\nuser|Hi\n");
        assert_int_equal(p.is->place, FORM_FIND);
        assert_true(p.wish.gives_context);
        assert_null(p.wish.context);
        form_free(p.form);
        generate(&p, "{\"prompt\":\"Hi\",\"context\":[0,5,2147483647]}");
        assert_int_equal(p.wish.n_context, 3);
        assert_int_equal(p.wish.context[1], 5);
        assert_int_equal(p.wish.context[2], INT32_MAX);
        form_free(p.form);
        generate(&p, "{\"prompt\":\"Hi\",\"context\":[]}");
        assert_null(p.wish.context);
        form_free(p.form);
        generate(&p, "{\"prompt\":\"<a>\",\"raw\":true,\"system\":\"s\"}");
        assert_int_equal(p.is->input, FORM_RAW);
        assert_int_equal(p.is->place, FORM_NEW);
        assert_int_equal(p.is->raw_size, 3);
        assert_memory_equal(p.is->raw, "<a>", 3);
        assert_int_equal(p.is->n_messages, 0);
        assert_false(p.wish.gives_context);
        form_free(p.form);
}

static void test_wrong(void **state) {
        static const struct {
                parse_fn fn;
                const char *body, *message;
        } wrong[] = {
                {ollama_parse_chat, "{\"messages\":{}}", "messages is not an array"},
                {ollama_parse_chat, "{\"messages\":[7]}", "messages[0] is not an object"},
                {ollama_parse_chat, "{\"messages\":[{\"content\":\"\"}]}",
                        "messages[0].role is not system, user, assistant or tool"},
                {ollama_parse_chat, "{\"messages\":[{\"role\":\"user\",\"content\":[]}]}",
                        "messages[0].content is not a string"},
                {ollama_parse_chat, "{\"messages\":[{\"role\":\"user\",\"images\":[\"x\"]}]}",
                        "messages[0].images is not empty: confab takes no images"},
                {ollama_parse_chat, "{\"messages\":[" ASKED("{\"function\":{}}") "]}",
                        "messages[0].tool_calls[0].function.name is not given"},
                {ollama_parse_chat, "{\"messages\":[" ASKED("{}") "]}",
                        "messages[0].tool_calls[0].function is not given"},
                {ollama_parse_chat,
                        "{\"messages\":[" ASKED(
                                "{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}") "]}",
                        "messages[0].tool_calls[0].function.arguments is not an object"},
                {ollama_parse_chat, "{" HI ",\"format\":\"xml\"}",
                        "format is not \"json\" or a JSON schema"},
                {ollama_parse_chat, "{" HI ",\"think\":1}", "think is not true, false or a level"},
                {ollama_parse_chat, "{" HI ",\"stream\":1}", "stream is not true or false"},
                {ollama_parse_chat, "{" HI ",\"options\":[]}", "options is not an object"},
                {ollama_parse_chat, "{" HI ",\"options\":{\"temperature\":\"x\"}}",
                        "options.temperature is not a number from 0 to 1000"},
                {ollama_parse_chat, "{" HI ",\"options\":{\"stop\":[1]}}",
                        "options.stop[0] is not a string"},
                {ollama_parse_chat, "{" HI ",\"tools\":[1]}", "tools[0] is not an object"},
                {ollama_parse_chat, "{" HI ",\"top_logprobs\":21}",
                        "top_logprobs is not a whole number from 0 to 20"},
                {ollama_parse_generate, "{\"prompt\":1}", "prompt is not a string"},
                {ollama_parse_generate, "{\"prompt\":\"a\",\"suffix\":\"b\"}",
                        "suffix is not empty: confab has no models that fill gaps"},
                {ollama_parse_generate, "{\"prompt\":\"a\",\"template\":\"{{ .Prompt }}\"}",
                        "template is not empty: confab uses the model's template; send raw text "
                        "for "
                        "another"},
                {ollama_parse_generate, "{\"prompt\":\"a\",\"images\":[\"b\"]}",
                        "images is not empty: confab takes no images"},
                {ollama_parse_generate, "{\"prompt\":\"a\",\"context\":[1,-1]}",
                        "context[1] is not a token"},
                {ollama_parse_generate, "{\"prompt\":\"a\",\"context\":[\"b\"]}",
                        "context[0] is not a token"},
                {ollama_parse_generate, "{\"prompt\":\"a\",\"raw\":true,\"context\":[1]}",
                        "context is not possible with raw text"},
        };

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct parsed p;

                assert_int_equal(parse(&p, wrong[i].fn, wrong[i].body), -ERR_INVALID);
                assert_string_equal(p.e.msg, wrong[i].message);
                form_free(p.form);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_chat),
                cmocka_unit_test(test_options),
                cmocka_unit_test(test_format),
                cmocka_unit_test(test_flags),
                cmocka_unit_test(test_logprobs),
                cmocka_unit_test(test_results),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_load),
                cmocka_unit_test(test_generate),
                cmocka_unit_test(test_wrong),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
