/* SPDX-License-Identifier: MIT */
/* Bodies of /v1/chat/completions and /v1/completions become forms; what is wrong is named. */
#include "unit/gateway/openai-rig.h"

#include <stdio.h>
#include <string.h>

#include "util/test.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

static void read_chat(struct openai_read *read, const char *body) {
        int r = openai_rig_chat(read, body);

        if (r != 0)
                fail_msg("%s: %s", body, read->e.msg);
}

static void assert_message(
        const struct openai_read *read, size_t i, enum confab_role role, const char *text) {
        const struct confab_message *message = &read->is->messages[i];

        assert_true(i < read->is->n_messages);
        assert_int_equal(message->role, role);
        assert_int_equal(message->text_size, strlen(text));
        assert_memory_equal(message->text, text, message->text_size);
}

static void test_least(void **state) {
        struct openai_read read;

        read_chat(&read, "{\"model\":\"m\"," HI "}");
        assert_string_equal(read.is->model, "m");
        assert_int_equal(read.is->input, FORM_MESSAGES);
        assert_int_equal(read.is->place, FORM_FIND);
        assert_int_equal(read.is->n_messages, 1);
        assert_message(&read, 0, CONFAB_ROLE_USER, "Hi");
        /* what is absent is the daemon's to choose */
        assert_int_equal(read.is->sampling.has, 0);
        assert_false(read.is->has_max_tokens);
        assert_int_equal(read.is->n, 1);
        assert_null(read.is->tools);
        assert_null(read.is->json_schema);
        assert_null(read.is->session);
        assert_false(read.is->stream || read.is->want_logprobs);
        assert_string_equal(read.is->tag, "openai");
        openai_rig_free(&read);
        read_chat(&read, "{" HI "}");
        assert_null(read.is->model);
        openai_rig_free(&read);
}

static void test_settings(void **state) {
        struct openai_read read;
        const struct confab_sampling *sampling;

        read_chat(&read,
                "{" HI ",\"temperature\":0,\"top_p\":0.5,\"presence_penalty\":-2,"
                "\"frequency_penalty\":2,\"seed\":-5,\"top_k\":-1,\"min_p\":0.25,"
                "\"repetition_penalty\":1.5,\"n\":3,\"stop\":[\"a\",\"\",\"b\"],"
                "\"max_tokens\":7,\"max_completion_tokens\":99999999999,"
                "\"logit_bias\":{\"17\":-100,\"3\":0.5,\"4\":null},\"stream\":true,"
                "\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":false},"
                "\"logprobs\":true,\"top_logprobs\":20,\"prompt_cache_key\":\"s1\","
                "\"user\":\"u\",\"store\":true,\"metadata\":{\"a\":\"b\"},"
                "\"unknown\":{\"x\":[1]}}");
        sampling = &read.is->sampling;
        assert_int_equal(sampling->has,
                CONFAB_HAS_TEMPERATURE | CONFAB_HAS_TOP_P | CONFAB_HAS_PRESENCE_PENALTY |
                        CONFAB_HAS_FREQUENCY_PENALTY | CONFAB_HAS_SEED | CONFAB_HAS_TOP_K |
                        CONFAB_HAS_MIN_P | CONFAB_HAS_REPETITION_PENALTY);
        assert_true(sampling->temperature == 0 && sampling->top_p == 0.5f);
        assert_true(sampling->presence_penalty == -2 && sampling->frequency_penalty == 2);
        assert_true(sampling->min_p == 0.25f && sampling->repetition_penalty == 1.5f);
        assert_int_equal(sampling->seed, (uint64_t)-5);
        assert_int_equal(sampling->top_k, 0);
        assert_int_equal(sampling->n_biases, 2);
        assert_int_equal(sampling->biases[0].token, 17);
        assert_true(sampling->biases[0].bias == -100);
        assert_int_equal(sampling->biases[1].token, 3);
        assert_int_equal(read.is->n, 3);
        assert_int_equal(read.is->n_stops, 2);
        assert_string_equal(read.is->stops[1], "b");
        assert_true(read.is->has_max_tokens);
        assert_int_equal(read.is->max_tokens, UINT32_MAX);
        assert_true(read.is->stream && read.options.stream && read.options.include_usage);
        assert_true(read.is->want_logprobs && read.options.want_logprobs);
        assert_int_equal(read.is->n_logprobs, 20);
        assert_string_equal(read.is->session, "s1");
        assert_string_equal(read.is->metadata, "{\"a\":\"b\"}");
        openai_rig_free(&read);
        /* null is absent; -1 is what clients of other servers say for none */
        read_chat(&read,
                "{" HI
                ",\"temperature\":null,\"stop\":null,\"seed\":-1,\"max_tokens\":-1,\"n\":1.0,"
                "\"tools\":null,\"tool_choice\":null,\"response_format\":null,\"stream\":null,"
                "\"logit_bias\":null,\"logprobs\":null,\"stream_options\":null}");
        assert_int_equal(read.is->sampling.has, 0);
        assert_false(read.is->has_max_tokens);
        assert_int_equal(read.is->n_stops, 0);
        openai_rig_free(&read);
        read_chat(&read, "{" HI ",\"stop\":\"!\",\"max_tokens\":0}");
        assert_int_equal(read.is->n_stops, 1);
        assert_true(read.is->has_max_tokens && read.is->max_tokens == 0);
        openai_rig_free(&read);
}

static void test_notes_too_long(void **state) {
        static char body[40000];
        struct openai_read read;
        int n = snprintf(body, sizeof(body), "{" HI ",\"prompt_cache_key\":\"");

        memset(body + n, 'k', 257);
        n += 257;
        n += snprintf(body + n, sizeof(body) - (size_t)n, "\",\"metadata\":{\"a\":\"");
        memset(body + n, 'm', 17000);
        strcpy(body + n + 17000, "\"}}");
        read_chat(&read, body);
        assert_null(read.is->session);
        assert_null(read.is->metadata);
        openai_rig_free(&read);
}

static void test_roles(void **state) {
        struct openai_read read;

        read_chat(&read,
                "{\"messages\":[{\"role\":\"developer\",\"content\":\"D\",\"name\":\"x\"},"
                "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"S\"}]},"
                "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":"
                "\"b\"}]},"
                "{\"role\":\"assistant\",\"content\":\"A\",\"reasoning_content\":\"R\"},"
                "{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]},"
                "{\"role\":\"assistant\",\"content\":null,\"refusal\":\"never\"},"
                "{\"role\":\"assistant\",\"reasoning\":\"only\"},"
                "{\"role\":\"user\",\"content\":null}]}");
        assert_int_equal(read.is->n_messages, 8);
        assert_message(&read, 0, CONFAB_ROLE_SYSTEM, "D");
        assert_message(&read, 1, CONFAB_ROLE_SYSTEM, "S");
        assert_message(&read, 2, CONFAB_ROLE_USER, "ab");
        assert_message(&read, 3, CONFAB_ROLE_ASSISTANT, "A");
        assert_string_equal(read.is->messages[3].reasoning, "R");
        assert_message(&read, 4, CONFAB_ROLE_ASSISTANT, "no");
        assert_null(read.is->messages[4].reasoning);
        assert_message(&read, 5, CONFAB_ROLE_ASSISTANT, "never");
        assert_message(&read, 6, CONFAB_ROLE_ASSISTANT, "");
        assert_string_equal(read.is->messages[6].reasoning, "only");
        assert_message(&read, 7, CONFAB_ROLE_USER, "");
        openai_rig_free(&read);
}

/* Messages of the assistant that say nothing are what is left of streams that broke. */
static void test_empty_assistant(void **state) {
        struct openai_read read;

        read_chat(&read, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                         "{\"role\":\"assistant\",\"content\":\"\"},{\"role\":\"assistant\","
                         "\"content\":null},"
                         "{\"role\":\"assistant\",\"content\":[],\"tool_calls\":[],\"reasoning_"
                         "content\":\"\"},"
                         "{\"role\":\"user\",\"content\":\"b\"}]}");
        assert_int_equal(read.is->n_messages, 2);
        assert_message(&read, 0, CONFAB_ROLE_USER, "a");
        assert_message(&read, 1, CONFAB_ROLE_USER, "b");
        openai_rig_free(&read);
}

static void test_calls(void **state) {
        struct openai_read read;
        const struct confab_message *message;

        read_chat(&read,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"w\"},"
                "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
                "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                "\"{\\\"a\\\": "
                "1}\"}},"
                "{\"id\":\"c2\",\"function\":{\"name\":\"g\",\"arguments\":{\"b\":[2,0.5]}}},"
                "{\"function\":{\"name\":\"h\",\"arguments\":\"\"}}]},"
                "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"sunny\"},"
                "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":[{\"type\":\"text\","
                "\"text\":"
                "\"cold\"}]},"
                "{\"role\":\"user\",\"content\":\"more\"},"
                "{\"role\":\"tool\",\"tool_call_id\":\"c3\",\"content\":null}]}");
        assert_int_equal(read.is->n_messages, 5);
        message = &read.is->messages[1];
        assert_int_equal(message->n_calls, 3);
        assert_string_equal(message->calls[0].id, "c1");
        assert_string_equal(message->calls[0].name, "f");
        assert_string_equal(message->calls[0].arguments, "{\"a\": 1}");
        assert_string_equal(message->calls[1].arguments, "{\"b\":[2,0.5]}");
        assert_null(message->calls[2].id);
        assert_string_equal(message->calls[2].arguments, "{}");
        message = &read.is->messages[2];
        assert_int_equal(message->role, CONFAB_ROLE_TOOL);
        assert_int_equal(message->n_results, 2);
        assert_string_equal(message->results[0].call_id, "c1");
        assert_string_equal(message->results[0].text, "sunny");
        assert_string_equal(message->results[1].call_id, "c2");
        assert_string_equal(message->results[1].text, "cold");
        assert_int_equal(read.is->messages[4].n_results, 1);
        assert_string_equal(read.is->messages[4].results[0].text, "");
        openai_rig_free(&read);
}

static void test_old_functions(void **state) {
        struct openai_read read;
        const struct confab_message *messages;

        read_chat(&read,
                "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"function_call\":"
                "{\"name\":\"f\",\"arguments\":\"{}\"}},"
                "{\"role\":\"function\",\"name\":\"f\",\"content\":\"1\"},"
                "{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
                "{\"role\":\"function\",\"name\":\"f\",\"content\":\"2\"}]}");
        messages = read.is->messages;
        assert_int_equal(read.is->n_messages, 4);
        assert_string_equal(messages[0].calls[0].id, messages[1].results[0].call_id);
        assert_string_equal(messages[2].calls[0].id, messages[3].results[0].call_id);
        assert_string_not_equal(messages[0].calls[0].id, messages[2].calls[0].id);
        openai_rig_free(&read);
}

static void test_tools(void **state) {
        struct openai_read read;

        read_chat(&read,
                "{" HI ",\"tools\":[{\"type\":\"web_search\"},"
                "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"z\":1,\"a\":"
                "2}}},"
                "{\"type\":\"custom\",\"custom\":{\"name\":\"c\"}}],"
                "\"tool_choice\":\"auto\",\"parallel_tool_calls\":false,\"functions\":[]}");
        assert_string_equal(read.is->tools, "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                            "\"parameters\":{\"z\":1,\"a\":2}}}]");
        assert_true(read.options.one_call);
        openai_rig_free(&read);
        read_chat(&read,
                "{" HI ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
                "\"tool_choice\":\"none\"}");
        assert_null(read.is->tools);
        assert_false(read.options.one_call);
        openai_rig_free(&read);
        read_chat(&read,
                "{" HI ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
                "\"tool_choice\":\"required\"}");
        assert_string_equal(read.is->call_of, "");
        openai_rig_free(&read);
        for (size_t i = 0; i < 2; i++) {
                char body[512];

                snprintf(body, sizeof(body),
                        "{" HI ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
                        "\"tool_choice\":{\"type\":\"function\",%s}}",
                        i == 0 ? "\"name\":\"f\"" : "\"function\":{\"name\":\"f\"}");
                read_chat(&read, body);
                assert_string_equal(read.is->call_of, "f");
                openai_rig_free(&read);
        }
        read_chat(&read, "{" HI ",\"tools\":[{\"type\":\"web_search\"}]}");
        assert_null(read.is->tools);
        openai_rig_free(&read);
}

static void test_formats(void **state) {
        static const char *const cases[][2] = {
                {"{\"type\":\"text\"}", NULL},
                {"{\"type\":\"json_object\"}", "{\"type\":\"object\"}"},
                {"{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,"
                 "\"schema\":"
                 "{\"type\":\"object\",\"additionalProperties\":false}}}",
                        "{\"type\":\"object\",\"additionalProperties\":false}"},
                {"{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\"}}", "{}"},
                {"{\"type\":\"text\"},\"grammar\":\"\"", NULL},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct openai_read read;
                char body[400];

                snprintf(body, sizeof(body), "{" HI ",\"response_format\":%s}", cases[i][0]);
                read_chat(&read, body);
                if (cases[i][1])
                        assert_string_equal(read.is->json_schema, cases[i][1]);
                else
                        assert_null(read.is->json_schema);
                openai_rig_free(&read);
        }
}

/* What is wrong, the field that is named, and the words. */
static const struct {
        const char *body, *wrong, *message;
        int code;
} wrong_chats[] = {
        {"{", "", "the body is not JSON", ERR_INVALID},
        {"[]", "", "the body is not a JSON object", ERR_INVALID},
        {"{}", "messages", "messages is not an array", ERR_INVALID},
        {"{\"messages\":{}}", "messages", "messages is not an array", ERR_INVALID},
        {"{\"messages\":[]}", "messages", "messages is not a list with", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"assistant\"}]}", "messages", "messages is not a list",
                ERR_INVALID},
        {"{\"messages\":[3]}", "messages[0]", "messages[0] is not an object", ERR_INVALID},
        {"{\"messages\":[{}]}", "messages[0].role", "is not a string", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"root\",\"content\":\"\"}]}", "messages[0].role",
                "is not one of developer, system", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"user\",\"content\":3}]}", "messages[0].content",
                "a string or an array of parts", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]}", "messages[0].content",
                "text without NUL", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", "messages[0].content[0]",
                "is not an object", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
                "messages[0].content[0].text", "is not a string", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"odd\",\"text\":\"\"}]}]}",
                "messages[0].content[0].type", "is not a known type", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}",
                "messages[0].content[1]", "messages[0].content[1]: the model does not take images",
                ERR_UNSUPPORTED},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]}",
                "messages[0].content[0]", "does not take audio", ERR_UNSUPPORTED},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"file\"}]}]}",
                "messages[0].content[0]", "files are not taken", ERR_UNSUPPORTED},
        {"{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0].tool_call_id",
                "is not a string", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"function\",\"name\":\"f\",\"content\":\"x\"}]}",
                "messages[0].role", "behind a function_call", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":{}}]}", "messages[0].tool_calls",
                "is not an array", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\"}]}]}",
                "messages[0].tool_calls[0].function", "is not an object", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]}",
                "messages[0].tool_calls[0].function.name", "is not a string", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
         "{\"name\":\"f\",\"arguments\":3}}]}]}",
                "messages[0].tool_calls[0].function.arguments", "is not a string", ERR_INVALID},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"custom\"}]}]}",
                "messages[0].tool_calls[0].type", "only functions", ERR_UNSUPPORTED},
        {"{\"messages\":[{\"role\":\"assistant\",\"reasoning_content\":3}]}",
                "messages[0].reasoning_content", "is not a string", ERR_INVALID},
        {"{" HI ",\"model\":3}", "model", "model is not a string", ERR_INVALID},
        {"{" HI ",\"temperature\":\"hot\"}", "temperature", "a number from 0 to 2", ERR_INVALID},
        {"{" HI ",\"temperature\":2.1}", "temperature", "a number from 0 to 2", ERR_INVALID},
        {"{" HI ",\"top_p\":-1}", "top_p", "from 0 to 1", ERR_INVALID},
        {"{" HI ",\"n\":0}", "n", "from 1 to 128", ERR_INVALID},
        {"{" HI ",\"n\":129}", "n", "from 1 to 128", ERR_INVALID},
        {"{" HI ",\"n\":1.5}", "n", "from 1 to 128", ERR_INVALID},
        {"{" HI ",\"max_tokens\":\"9\"}", "max_tokens", "a whole number", ERR_INVALID},
        {"{" HI ",\"seed\":1.5}", "seed", "a whole number", ERR_INVALID},
        {"{" HI ",\"stop\":3}", "stop", "a string or an array of strings", ERR_INVALID},
        {"{" HI ",\"stop\":[\"a\",3]}", "stop[1]", "stop[1] is not a string", ERR_INVALID},
        {"{" HI ",\"stream\":\"#<Proc>\"}", "stream", "stream is not true or false", ERR_INVALID},
        {"{" HI ",\"stream_options\":true}", "stream_options", "is not an object", ERR_INVALID},
        {"{" HI ",\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage",
                "is not true or false", ERR_INVALID},
        {"{" HI ",\"logit_bias\":{\"x\":1}}", "logit_bias.x", "the number of a token", ERR_INVALID},
        {"{" HI ",\"logit_bias\":{\"-1\":1}}", "logit_bias.-1", "the number of a token",
                ERR_INVALID},
        {"{" HI ",\"logit_bias\":{\"2147483648\":1}}", "logit_bias.2147483648", "of a token",
                ERR_INVALID},
        {"{" HI ",\"logit_bias\":{\"1\":101}}", "logit_bias.1", "from -100 to 100", ERR_INVALID},
        {"{" HI ",\"logit_bias\":[]}", "logit_bias", "is not an object", ERR_INVALID},
        {"{" HI ",\"logprobs\":1}", "logprobs", "is not true or false", ERR_INVALID},
        {"{" HI ",\"top_logprobs\":2}", "logprobs", "true, which top_logprobs needs", ERR_INVALID},
        {"{" HI ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs", "from 0 to 20",
                ERR_INVALID},
        {"{" HI ",\"prompt_cache_key\":3}", "prompt_cache_key", "is not a string", ERR_INVALID},
        {"{" HI ",\"metadata\":\"m\"}", "metadata", "is not an object", ERR_INVALID},
        {"{" HI ",\"tools\":{}}", "tools", "is not an array", ERR_INVALID},
        {"{" HI ",\"tools\":[\"f\"]}", "tools[0]", "is not an object", ERR_INVALID},
        {"{" HI ",\"tools\":[{\"type\":\"function\"}]}", "tools[0].function", "is not an object",
                ERR_INVALID},
        {"{" HI ",\"tools\":[{\"function\":{\"name\":\"\"}}]}", "tools[0].function.name",
                "is not a name", ERR_INVALID},
        {"{" HI ",\"tool_choice\":\"required\"}", "tool_choice", "no tools are given",
                ERR_UNSUPPORTED},
        {"{" HI ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}",
                "tool_choice", "no tools are given", ERR_UNSUPPORTED},
        {"{" HI ",\"tool_choice\":{\"type\":\"function\",\"function\":{}}}",
                "tool_choice.function.name", "is not a name", ERR_INVALID},
        {"{" HI ",\"tool_choice\":{\"type\":\"custom\"}}", "tool_choice.type", "only functions",
                ERR_UNSUPPORTED},
        {"{" HI ",\"tool_choice\":\"some\"}", "tool_choice", "one of none, auto, required",
                ERR_INVALID},
        {"{" HI ",\"tool_choice\":1}", "tool_choice", "is not a string", ERR_INVALID},
        {"{" HI ",\"parallel_tool_calls\":\"no\"}", "parallel_tool_calls", "true or false",
                ERR_INVALID},
        {"{" HI ",\"functions\":[{}]}", "functions", "use tools", ERR_UNSUPPORTED},
        {"{" HI ",\"modalities\":[\"text\",\"audio\"]}", "modalities[1]", "answers are text",
                ERR_UNSUPPORTED},
        {"{" HI ",\"response_format\":\"json\"}", "response_format", "is not an object",
                ERR_INVALID},
        {"{" HI ",\"response_format\":{}}", "response_format.type", "one of text", ERR_INVALID},
        {"{" HI ",\"response_format\":{\"type\":\"json_schema\"}}", "response_format.json_schema",
                "is not an object", ERR_INVALID},
        {"{" HI ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":3}}}",
                "response_format.json_schema.schema", "is not an object", ERR_INVALID},
        {"{" HI ",\"grammar\":{}}", "grammar", "is not a string", ERR_INVALID},
        {"{" HI
         ",\"grammar\":\"root ::= \\\"a\\\"\",\"response_format\":{\"type\":\"json_object\"}}",
                "grammar", "beside a format", ERR_UNSUPPORTED},
};

static void test_wrong(void **state) {
        for (size_t i = 0; i < sizeof(wrong_chats) / sizeof(wrong_chats[0]); i++) {
                struct openai_read read;
                int r = openai_rig_chat(&read, wrong_chats[i].body);

                if (r != -wrong_chats[i].code || read.e.code != wrong_chats[i].code ||
                        strcmp(read.fields.wrong, wrong_chats[i].wrong) != 0 ||
                        !strstr(read.e.msg, wrong_chats[i].message))
                        fail_msg("%s: %d, \"%s\": %s", wrong_chats[i].body, r, read.fields.wrong,
                                read.e.msg);
                openai_rig_free(&read);
        }
}

static void test_text(void **state) {
        struct openai_read read;
        const struct form_fields *is;

        assert_int_equal(
                openai_rig_text(&read,
                        "{\"model\":\"m\",\"prompt\":\"Once\",\"max_tokens\":5,\"logprobs\":0,"
                        "\"n\":2,\"suffix\":\"\",\"best_of\":2,\"stop\":\"x\"}"),
                0);
        assert_int_equal(read.prompts.n_forms, 1);
        assert_int_equal(read.prompts.n, 2);
        is = form_fields(read.prompts.forms[0]);
        assert_int_equal(is->input, FORM_RAW);
        assert_int_equal(is->place, FORM_NEW);
        assert_int_equal(is->raw_size, 4);
        assert_memory_equal(is->raw, "Once", 4);
        assert_true(is->want_logprobs && is->n_logprobs == 0 && read.options.want_logprobs);
        assert_int_equal(is->max_tokens, 5);
        assert_int_equal(is->n, 2);
        openai_rig_free(&read);
        assert_int_equal(
                openai_rig_text(&read, "{\"prompt\":[1,2,3],\"logprobs\":false,\"echo\":false}"),
                0);
        is = form_fields(read.prompts.forms[0]);
        assert_int_equal(is->input, FORM_TOKENS);
        assert_int_equal(is->n_tokens, 3);
        assert_int_equal(is->tokens[2], 3);
        assert_false(is->want_logprobs);
        openai_rig_free(&read);
        assert_int_equal(
                openai_rig_text(&read,
                        "{\"prompt\":[\"a\",\"b\\u0000c\"],\"echo\":true,\"temperature\":0.5}"),
                0);
        assert_int_equal(read.prompts.n_forms, 2);
        assert_true(read.options.echo);
        is = form_fields(read.prompts.forms[1]);
        assert_int_equal(is->raw_size, 3);
        assert_memory_equal(is->raw, "b\0c", 3);
        assert_true(is->sampling.temperature == 0.5f);
        openai_rig_free(&read);
        assert_int_equal(openai_rig_text(&read, "{\"prompt\":[[1],[2,3]]}"), 0);
        assert_int_equal(read.prompts.n_forms, 2);
        assert_int_equal(form_fields(read.prompts.forms[1])->n_tokens, 2);
        openai_rig_free(&read);
}

static const struct {
        const char *body, *wrong;
        int code;
} wrong_texts[] = {
        {"{}", "prompt", ERR_INVALID},
        {"{\"prompt\":3}", "prompt", ERR_INVALID},
        {"{\"prompt\":[]}", "prompt", ERR_INVALID},
        {"{\"prompt\":[[]]}", "prompt[0]", ERR_INVALID},
        {"{\"prompt\":[1,\"a\"]}", "prompt", ERR_INVALID},
        {"{\"prompt\":[1,-1]}", "prompt", ERR_INVALID},
        {"{\"prompt\":[2147483648]}", "prompt", ERR_INVALID},
        {"{\"prompt\":[\"a\",{}]}", "prompt[1]", ERR_INVALID},
        {"{\"prompt\":[[1],[1.5]]}", "prompt[1]", ERR_INVALID},
        {"{\"prompt\":[\"a\",\"b\"],\"n\":65}", "n", ERR_INVALID},
        {"{\"prompt\":\"a\",\"logprobs\":true}", "logprobs", ERR_INVALID},
        {"{\"prompt\":\"a\",\"logprobs\":21}", "logprobs", ERR_INVALID},
        {"{\"prompt\":\"a\",\"echo\":1}", "echo", ERR_INVALID},
        {"{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1}", "echo", ERR_UNSUPPORTED},
        {"{\"prompt\":[1],\"echo\":true}", "echo", ERR_UNSUPPORTED},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix", ERR_UNSUPPORTED},
        {"{\"prompt\":\"a\",\"best_of\":2}", "best_of", ERR_UNSUPPORTED},
        {"{\"prompt\":\"a\",\"temperature\":[]}", "temperature", ERR_INVALID},
};

static void test_wrong_text(void **state) {
        for (size_t i = 0; i < sizeof(wrong_texts) / sizeof(wrong_texts[0]); i++) {
                struct openai_read read;
                int r = openai_rig_text(&read, wrong_texts[i].body);

                if (r != -wrong_texts[i].code ||
                        strcmp(read.fields.wrong, wrong_texts[i].wrong) != 0)
                        fail_msg("%s: %d, \"%s\": %s", wrong_texts[i].body, r, read.fields.wrong,
                                read.e.msg);
                openai_rig_free(&read);
        }
}

/* The daemon's own limits are told by name, too. */
static void test_most(void **state) {
        for (int n = 16; n <= 17; n++) {
                char body[400] = "{" HI ",\"stop\":[\"\"";
                struct openai_read read;

                for (int i = 0; i < n; i++)
                        strcat(body, ",\"s\"");
                strcat(body, "]}");
                assert_int_equal(openai_rig_chat(&read, body), n == 16 ? 0 : -ERR_INVALID);
                assert_string_equal(read.fields.wrong, n == 16 ? "" : "stop");
                assert_int_equal(read.is->n_stops, 16);
                openai_rig_free(&read);
        }
        for (int n = 64; n <= 65; n++) {
                char body[1000] = "{" HI ",\"logit_bias\":{\"0\":1";
                struct openai_read read;

                for (int i = 1; i < n; i++)
                        sprintf(body + strlen(body), ",\"%d\":1", i);
                strcat(body, "}}");
                assert_int_equal(openai_rig_chat(&read, body), n == 64 ? 0 : -ERR_INVALID);
                assert_string_equal(read.fields.wrong, n == 64 ? "" : "logit_bias");
                assert_int_equal(read.is->sampling.n_biases, n == 64 ? 64 : 0);
                openai_rig_free(&read);
        }
}

static void test_grammar(void **state) {
        struct openai_read read;

        read_chat(&read,
                "{" HI ",\"grammar\":\"root ::= [a]\",\"response_format\":{\"type\":\"text\"}}");
        assert_string_equal(read.is->gbnf, "root ::= [a]");
        assert_null(read.is->json_schema);
        openai_rig_free(&read);
        read_chat(&read, "{" HI ",\"grammar\":\"\"}");
        assert_null(read.is->gbnf);
        openai_rig_free(&read);
}

/* A list of 128 prompts is the longest. */
static void test_many_prompts(void **state) {
        for (int n = 128; n <= 129; n++) {
                char body[1000] = "{\"prompt\":[\"a\"";
                struct openai_read read;

                for (int i = 1; i < n; i++)
                        strcat(body, ",\"a\"");
                strcat(body, "]}");
                assert_int_equal(openai_rig_text(&read, body), n == 128 ? 0 : -ERR_INVALID);
                assert_int_equal(read.prompts.n_forms, n == 128 ? 128 : 0);
                openai_rig_free(&read);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_least),
                cmocka_unit_test(test_settings),
                cmocka_unit_test(test_notes_too_long),
                cmocka_unit_test(test_roles),
                cmocka_unit_test(test_empty_assistant),
                cmocka_unit_test(test_calls),
                cmocka_unit_test(test_old_functions),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_formats),
                cmocka_unit_test(test_wrong),
                cmocka_unit_test(test_most),
                cmocka_unit_test(test_grammar),
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_wrong_text),
                cmocka_unit_test(test_many_prompts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
