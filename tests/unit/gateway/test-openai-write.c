/* SPDX-License-Identifier: MIT */
/* What a talk tells becomes OpenAI's JSON: chunks in order, whole answers, log-probabilities, errors. */
#include "unit/gateway/openai-rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "util/test.h"

static const struct talk_place place = {
        .conversation = 0x1f, .revision = 0xa, .input_turn = 2, .reply_turn = 0x13};
static const struct talk_place other_place = {.conversation = 0x20};
static const struct talk_usage usage = {.n_prompt = 14,
        .n_cached = 13,
        .n_generated = 9,
        .n_reasoning = 2,
        .n_drafted = 7,
        .n_accepted = 4};

static struct openai_reply_options options_of(enum openai_kind kind, bool in_pieces) {
        return (struct openai_reply_options){.kind = kind,
                .in_pieces = in_pieces,
                .n = 1,
                .created = 1795309965,
                .model = "m",
                .fingerprint = "0123456789abcdef"};
}

static void accept(struct openai_said *said, unsigned choice, const struct talk_place *at) {
        assert_int_equal(openai_reply_accepted(said->reply, choice, at), 0);
}

static void done(
        struct openai_said *said, unsigned choice, enum confab_finish finish, unsigned n_calls) {
        struct confab_done told = {.finish = finish, .has_n_calls = true, .n_calls = n_calls};

        assert_int_equal(openai_reply_done(said->reply, choice, &told, &usage, choice == 0), 0);
}

static void assert_lines(const struct openai_said *said, const char *lines) {
        assert_string_equal((const char *)said->lines.data, lines);
}

#define CHUNK(index, delta, rest) "\"choices\":[{\"index\":" index ",\"delta\":" delta rest "}]"
#define ROLE "{\"role\":\"assistant\",\"content\":\"\"}"
#define OPEN ",\"logprobs\":null,\"finish_reason\":null"
#define END(word) ",\"logprobs\":null,\"finish_reason\":\"" word "\""
#define USAGE(generated, total, reasoning, accepted, rejected)                                     \
        "\"usage\":{\"prompt_tokens\":14,\"completion_tokens\":" generated                         \
        ",\"total_tokens\":" total ",\"prompt_tokens_details\":{\"cached_tokens\":13},"            \
        "\"completion_tokens_details\":{\"reasoning_tokens\":" reasoning                           \
        ",\"accepted_prediction_tokens\":" accepted ",\"rejected_prediction_tokens\":" rejected    \
        "}}"

static void test_stream_text(void **state) {
        struct openai_reply_options options = options_of(OPENAI_CHAT, true);
        struct openai_said said;

        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "Nice \"to", NULL);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "", NULL);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "\n", NULL);
        done(&said, 0, CONFAB_FINISH_STOP, 0);
        assert_int_equal(openai_reply_finish(said.reply), 0);
        assert_string_equal(said.head,
                "{\"id\":\"chatcmpl-01234567-1f-13-a\",\"object\":\"chat.completion.chunk\","
                "\"created\":1795309965,\"model\":\"m\",\"system_fingerprint\":"
                "\"0123456789abcdef\",");
        assert_lines(&said, CHUNK("0", ROLE, OPEN) "}\n" CHUNK("0", "{\"content\":\"Nice \\\"to\"}",
                                    OPEN) "}\n" CHUNK("0", "{\"content\":\"\\n\"}",
                                    OPEN) "}\n" CHUNK("0", "{}", END("stop")) "}\n");
        openai_said_free(&said);
}

static void test_stream_usage(void **state) {
        struct openai_reply_options options = options_of(OPENAI_CHAT, true);
        struct openai_said said;

        options.include_usage = true;
        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        openai_rig_part(&said, 0, CONFAB_PART_REASONING, "hm", NULL);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "A", NULL);
        done(&said, 0, CONFAB_FINISH_LENGTH, 0);
        assert_int_equal(openai_reply_finish(said.reply), 0);
        assert_lines(&said,
                CHUNK("0", ROLE, OPEN) ",\"usage\":null}\n" CHUNK(
                        "0", "{\"reasoning_content\":\"hm\"}", OPEN) ",\"usage\":null}\n" CHUNK("0",
                        "{\"content\":\"A\"}", OPEN) ",\"usage\":null}\n" CHUNK("0", "{}",
                        END("length")) ",\"usage\":null}\n"
                                       "\"choices\":[]," USAGE("9", "23", "2", "4", "3") "}\n");
        openai_said_free(&said);
}

static void tell_calls(struct openai_said *said) {
        openai_rig_part(said, 0, CONFAB_PART_TEXT, "Wait.", NULL);
        openai_rig_call(said, 0, "c1", "f", "", false, NULL);
        openai_rig_call(said, 0, NULL, NULL, "{\"a\":", false, NULL);
        openai_rig_call(said, 0, NULL, NULL, "1}", true, NULL);
        openai_rig_call(said, 0, "c2", "g", "{}", false, NULL);
        openai_rig_call(said, 0, NULL, NULL, "", true, NULL);
}

#define CALL(index, id, name, text)                                                                \
        "{\"tool_calls\":[{\"index\":" index ",\"id\":\"" id                                       \
        "\",\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"arguments\":\"" text       \
        "\"}}]}"
#define MORE(index, text)                                                                          \
        "{\"tool_calls\":[{\"index\":" index ",\"function\":{\"arguments\":\"" text "\"}}]}"

static void test_stream_calls(void **state) {
        struct openai_reply_options options = options_of(OPENAI_CHAT, true);
        struct openai_said said;

        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        tell_calls(&said);
        assert_false(openai_reply_is_enough(said.reply));
        done(&said, 0, CONFAB_FINISH_STOP, 2);
        assert_lines(&said,
                CHUNK("0", ROLE, OPEN) "}\n" CHUNK("0", "{\"content\":\"Wait.\"}",
                        OPEN) "}\n" CHUNK("0", CALL("0", "c1", "f", ""), OPEN) "}\n" CHUNK("0",
                        MORE("0", "{\\\"a\\\":"), OPEN) "}\n" CHUNK("0", MORE("0", "1}"),
                        OPEN) "}\n" CHUNK("0", CALL("1", "c2", "g", "{}"), OPEN) "}\n" CHUNK("0",
                        "{}", END("tool_calls")) "}\n");
        openai_said_free(&said);
}

/* A call that broke does not end the turn of the model. */
static void test_broken_call(void **state) {
        struct openai_reply_options options = options_of(OPENAI_CHAT, true);
        struct openai_said said;

        options.one_call = true;
        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        openai_rig_call(&said, 0, "c1", "f", "{", false, NULL);
        openai_rig_call(&said, 0, NULL, NULL, "", true, "it ends too early");
        assert_false(openai_reply_is_enough(said.reply));
        done(&said, 0, CONFAB_FINISH_STOP, 0);
        assert_lines(&said, CHUNK("0", ROLE, OPEN) "}\n" CHUNK("0", CALL("0", "c1", "f", "{"),
                                    OPEN) "}\n" CHUNK("0", "{}", END("stop")) "}\n");
        openai_said_free(&said);
}

/* parallel_tool_calls: false: the talk is told to end, and what comes until it has ended is not told. */
static void test_one_call(void **state) {
        for (int in_pieces = 0; in_pieces < 2; in_pieces++) {
                struct openai_reply_options options = options_of(OPENAI_CHAT, in_pieces);
                _cleanup_(buf_deinit) struct buf out = BUF_NULL;
                struct openai_said said;

                options.one_call = true;
                openai_said_new(&said, &options);
                accept(&said, 0, &place);
                openai_rig_call(&said, 0, "c1", "f", "{}", true, NULL);
                assert_true(openai_reply_is_enough(said.reply));
                assert_false(openai_reply_is_enough(said.reply));
                openai_rig_call(&said, 0, "c2", "g", "{", false, NULL);
                openai_rig_call(&said, 0, NULL, NULL, "}", true, NULL);
                openai_rig_part(&said, 0, CONFAB_PART_TEXT, "no", NULL);
                done(&said, 0, CONFAB_FINISH_CANCELLED, 2);
                if (in_pieces) {
                        assert_lines(&said,
                                CHUNK("0", ROLE, OPEN) "}\n" CHUNK("0", CALL("0", "c1", "f", "{}"),
                                        OPEN) "}\n" CHUNK("0", "{}", END("tool_calls")) "}\n");
                } else {
                        assert_int_equal(openai_reply_whole(said.reply, &out), 0);
                        assert_non_null(strstr((char *)out.data,
                                "\"content\":null,\"refusal\":null,\"tool_calls\":[{\"id\":\"c1\","
                                "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                                "\"{}\"}}]},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}]"));
                }
                openai_said_free(&said);
        }
}

static void test_stream_choices(void **state) {
        struct openai_reply_options options = options_of(OPENAI_CHAT, true);
        struct openai_said said;

        options.n = 2;
        options.include_usage = true;
        openai_said_new(&said, &options);
        accept(&said, 1, &place);
        openai_rig_part(&said, 1, CONFAB_PART_TEXT, "b", NULL);
        accept(&said, 0, &other_place); /* the id stays */
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "a", NULL);
        done(&said, 1, CONFAB_FINISH_STOP_STRING, 0);
        done(&said, 0, CONFAB_FINISH_CONTEXT, 0);
        assert_int_equal(openai_reply_finish(said.reply), 0);
        assert_lines(&said,
                CHUNK("1", ROLE, OPEN) ",\"usage\":null}\n" CHUNK(
                        "1", "{\"content\":\"b\"}", OPEN) ",\"usage\":null}\n" CHUNK("0", ROLE,
                        OPEN) ",\"usage\":null}\n" CHUNK("0", "{\"content\":\"a\"}",
                        OPEN) ",\"usage\":null}\n" CHUNK("1", "{}",
                        END("stop")) ",\"usage\":null}\n" CHUNK("0", "{}",
                        END("length")) ",\"usage\":null}\n"
                                       "\"choices\":[]," USAGE("18", "32", "4", "8", "6") "}\n");
        openai_said_free(&said);
}

#define TOKEN(text, logprob, bytes)                                                                \
        "{\"token\":\"" text "\",\"logprob\":" logprob ",\"bytes\":[" bytes "]"
#define LISTED(text, logprob, bytes)                                                               \
        TOKEN(text, logprob, bytes)                                                                \
        ",\"top_logprobs\":[" TOKEN(                                                               \
                text, logprob, bytes) "},"                                                         \
                                      "{\"token\":\"?\",\"logprob\":-9999,\"bytes\":[63]}]}"
#define LOGPROBS(list)                                                                             \
        ",\"logprobs\":{\"content\":[" list "],\"refusal\":null},\"finish_reason\":null"

/* Tokens stand with the text that they become part of; those of other parts and of the end are left out. */
static void test_stream_logprobs(void **state) {
        static const struct openai_rig_token think = {"<t>", -1}, thought = {"x", -2},
                                             half = {"\xC3", -0.5f}, rest = {"\xA4", -0.25f},
                                             plain = {"b", -0.1f}, end = {"", -3};
        struct openai_reply_options options = options_of(OPENAI_CHAT, true);
        struct openai_said said;

        options.want_logprobs = true;
        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        openai_rig_token_only(&said, 0, &think);
        openai_rig_part(&said, 0, CONFAB_PART_REASONING, "x", &thought);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "", &half);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "\xC3\xA4", &rest);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "b", &plain);
        openai_rig_token_only(&said, 0, &end);
        done(&said, 0, CONFAB_FINISH_STOP, 0);
        assert_lines(&said,
                CHUNK("0", ROLE, OPEN) "}\n" CHUNK("0", "{\"reasoning_content\":\"x\"}",
                        OPEN) "}\n" CHUNK("0", "{\"content\":\"\xC3\xA4\"}",
                        LOGPROBS(LISTED("\xEF\xBF\xBD", "-0.5", "195") "," LISTED("\xEF\xBF\xBD",
                                "-0.25", "164"))) "}\n" CHUNK("0", "{\"content\":\"b\"}",
                        LOGPROBS(LISTED("b", "-0.10000000149011612", "98"))) "}\n" CHUNK("0", "{}",
                        END("stop")) "}\n");
        openai_said_free(&said);
}

static void test_whole(void **state) {
        static const struct openai_rig_token a = {"A", -0.5f}, end = {"", -1};
        struct openai_reply_options options = options_of(OPENAI_CHAT, false);
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct openai_said said;

        options.n = 2;
        options.want_logprobs = true;
        options.include_usage = true; /* of streams only */
        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        accept(&said, 1, &other_place);
        openai_rig_part(&said, 0, CONFAB_PART_REASONING, "h", NULL);
        openai_rig_part(&said, 0, CONFAB_PART_REASONING, "m", NULL);
        openai_rig_part(&said, 0, CONFAB_PART_TEXT, "A", &a);
        openai_rig_token_only(&said, 0, &end);
        openai_rig_call(&said, 1, "c1", "f", "{\"a\"", false, NULL);
        openai_rig_call(&said, 1, NULL, NULL, ":1}", true, NULL);
        done(&said, 0, CONFAB_FINISH_STOP, 0);
        done(&said, 1, CONFAB_FINISH_STOP, 1);
        assert_int_equal(openai_reply_finish(said.reply), 0);
        assert_int_equal(said.n_chunks, 0);
        assert_int_equal(openai_reply_whole(said.reply, &out), 0);
        assert_string_equal((char *)out.data,
                "{\"id\":\"chatcmpl-01234567-1f-13-a\",\"object\":\"chat.completion\","
                "\"created\":1795309965,\"model\":\"m\",\"system_fingerprint\":"
                "\"0123456789abcdef\","
                "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"A\","
                "\"refusal\":null,\"reasoning_content\":\"hm\"},\"logprobs\":{\"content\":[" LISTED(
                        "A", "-0.5", "65") "],\"refusal\":null},\"finish_reason\":\"stop\"},"
                                           "{\"index\":1,\"message\":{\"role\":\"assistant\","
                                           "\"content\":null,\"refusal\":null,"
                                           "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
                                           "\"function\":{\"name\":\"f\","
                                           "\"arguments\":\"{\\\"a\\\":1}\"}}]},\"logprobs\":{"
                                           "\"content\":[],\"refusal\":null},"
                                           "\"finish_reason\":\"tool_calls\"}]," USAGE(
                                                   "18", "32", "4", "8", "6") "}");
        openai_said_free(&said);
}

/* Nothing said is a text, too. */
static void test_whole_empty(void **state) {
        struct openai_reply_options options = options_of(OPENAI_CHAT, false);
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct openai_said said;

        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        done(&said, 0, CONFAB_FINISH_CANCELLED, 0);
        assert_int_equal(openai_reply_whole(said.reply, &out), 0);
        assert_non_null(strstr((char *)out.data,
                "\"message\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
                "\"logprobs\":null,\"finish_reason\":\"length\"}"));
        openai_said_free(&said);
}

#define TEXT_CHUNK(index, text, rest)                                                              \
        "\"choices\":[{\"index\":" index ",\"text\":\"" text "\"" rest "}]"

static void test_text_stream(void **state) {
        static const struct openai_rig_token half = {"\xC3", -0.5f}, rest = {"\xA4", -0.25f},
                                             b = {"b", -1};
        struct openai_reply_options options = options_of(OPENAI_TEXT, true);
        struct openai_said said;

        options.want_logprobs = true;
        openai_said_new(&said, &options);
        assert_int_equal(openai_reply_echo(said.reply, 0, "\xC3\xB6!", 3), 0);
        accept(&said, 0, &place);
        openai_rig_plain(&said, 0, "", &half);
        openai_rig_plain(&said, 0, "\xC3\xA4", &rest);
        openai_rig_plain(&said, 0, "b", &b);
        done(&said, 0, CONFAB_FINISH_STOP, 0);
        assert_lines(&said,
                TEXT_CHUNK("0", "\xC3\xB6!", OPEN) "}\n" TEXT_CHUNK("0", "\xC3\xA4",
                        ",\"logprobs\":{\"tokens\":[\"bytes:\\\\xc3\",\"bytes:\\\\xa4\"],"
                        "\"token_logprobs\":[-0.5,-0.25],\"top_logprobs\":["
                        "{\"bytes:\\\\xc3\":-0.5,\"?\":-9999},{\"bytes:\\\\xa4\":-0.25,\"?\":-9999}"
                        "],"
                        "\"text_offset\":[2,3]},\"finish_reason\":null") "}\n" TEXT_CHUNK("0", "b",
                        ",\"logprobs\":{\"tokens\":[\"b\"],\"token_logprobs\":[-1],"
                        "\"top_logprobs\":[{\"b\":-1,\"?\":-9999}],\"text_offset\":[3]},"
                        "\"finish_reason\":null") "}\n" TEXT_CHUNK("0", "", END("stop")) "}\n");
        assert_non_null(strstr(said.head, "{\"id\":\"cmpl-01234567-1f-13-a\","
                                          "\"object\":\"text_completion\","));
        openai_said_free(&said);
}

static void test_text_whole(void **state) {
        struct openai_reply_options options = options_of(OPENAI_TEXT, false);
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct openai_said said;

        options.n = 2;
        openai_said_new(&said, &options);
        assert_int_equal(openai_reply_echo(said.reply, 0, "Once", 4), 0);
        accept(&said, 0, &place);
        openai_rig_plain(&said, 0, " upon", NULL);
        done(&said, 0, CONFAB_FINISH_LENGTH, 0);
        accept(&said, 1, &place);
        done(&said, 1, CONFAB_FINISH_STOP, 3); /* calls are nothing here */
        assert_int_equal(openai_reply_whole(said.reply, &out), 0);
        assert_non_null(strstr((char *)out.data,
                "\"choices\":[{\"index\":0,\"text\":\"Once upon\"" END(
                        "length") "},"
                                  "{\"index\":1,\"text\":\"\"" END("stop") "}]," USAGE(
                                          "18", "32", "4", "8", "6") "}"));
        openai_said_free(&said);
}

/* What emit() returns comes back, and nothing is told after it by the same call. */
static void test_refused(void **state) {
        struct openai_reply_options options = options_of(OPENAI_CHAT, true);
        struct confab_part parts[2] = {{.kind = CONFAB_PART_TEXT, .text = "a", .text_size = 1},
                {.kind = CONFAB_PART_TEXT, .text = "b", .text_size = 1}};
        struct confab_delta delta = {.parts = parts, .n_parts = 2};
        struct openai_said said;

        openai_said_new(&said, &options);
        accept(&said, 0, &place);
        said.refuse_at = 1;
        assert_int_equal(openai_reply_delta(said.reply, 0, &delta), -ERR_STATE);
        assert_int_equal(said.n_chunks, 1);
        openai_said_free(&said);
}

static const struct {
        unsigned status;
        const char *code, *param, *json;
} errors[] = {
        {400, "invalid", "messages[0].role",
                "\"type\":\"invalid_request_error\",\"param\":\"messages[0].role\",\"code\":null"},
        {400, "unsupported", "tool_choice",
                "\"type\":\"invalid_request_error\",\"param\":\"tool_choice\","
                "\"code\":\"unsupported_parameter\""},
        {501, "unsupported", NULL,
                "\"type\":\"server_error\",\"param\":null,\"code\":\"unsupported\""},
        {400, "context_length_exceeded", NULL,
                "\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"context_length_"
                "exceeded\""},
        {404, "not_found", "model",
                "\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_"
                "found\""},
        {404, "not_found", "",
                "\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"not_found\""},
        {401, NULL, NULL, "\"type\":\"authentication_error\",\"param\":null,\"code\":null"},
        {403, "permission", NULL,
                "\"type\":\"permission_error\",\"param\":null,\"code\":\"permission\""},
        {429, "limit", NULL,
                "\"type\":\"rate_limit_error\",\"param\":null,\"code\":\"rate_limit_exceeded\""},
        {503, "unavailable", NULL,
                "\"type\":\"server_error\",\"param\":null,\"code\":\"unavailable\""},
};

static void test_errors(void **state) {
        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
                _cleanup_(buf_deinit) struct buf out = BUF_NULL;
                bool too_long =
                        errors[i].code && strcmp(errors[i].code, "context_length_exceeded") == 0;
                char expected[300];

                snprintf(expected, sizeof(expected),
                        "{\"error\":{\"message\":\"%sso \\\"it\\\" is\",%s}}",
                        too_long ? "the input exceeds the context window: " : "", errors[i].json);
                assert_int_equal(openai_error_body(&out, errors[i].status, errors[i].code,
                                         "so \"it\" is", errors[i].param),
                        0);
                assert_string_equal((char *)out.data, expected);
        }
}

static const struct {
        struct talk_error error;
        const char *param;
} params[] = {
        {{400, 0, CONFAB_INVALID, "schema, #/a: it is odd", NULL, NULL}, "response_format"},
        {{400, 0, CONFAB_INVALID, "schema, #/a: it is odd", "own", NULL}, "own"},
        {{400, 0, CONFAB_UNSUPPORTED, "tools need a template", NULL, NULL}, "tools"},
        {{400, 0, CONFAB_INVALID, "grammar, 1:2: no", NULL, NULL}, "grammar"},
        {{400, 0, CONFAB_INVALID, "message 3: no", NULL, NULL}, "messages"},
        {{400, 0, CONFAB_CONTEXT, "it is long", NULL, NULL}, "messages"},
        {{400, 0, CONFAB_INVALID, "no schema", NULL, NULL}, NULL},
        {{503, 0, CONFAB_UNAVAILABLE, "tools are away", NULL, NULL}, NULL},
        {{500, 0, NULL, "", NULL, NULL}, NULL},
};

static void test_params(void **state) {
        for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
                const char *param = openai_error_param(&params[i].error);

                if (params[i].param)
                        assert_string_equal(param, params[i].param);
                else
                        assert_null(param);
        }
}

static void test_models(void **state) {
        struct backend_model model = {.name = "confab-small",
                .fingerprint = "f1",
                .context = 2048,
                .context_train = 4096,
                .takes_tools = true,
                .n_vocab = 100,
                .n_embd = 64,
                .n_params = 1000,
                .weights_size = 500,
                .since_usec = 1795309965123456};
        const struct backend_model *const models[] = {&model, &model};
        static const char one[] =
                "{\"id\":\"confab-small\",\"object\":\"model\",\"created\":1795309965,"
                "\"owned_by\":\"confab\",\"meta\":{\"n_vocab\":100,\"n_ctx\":2048,"
                "\"n_ctx_train\":4096,\"n_embd\":64,\"n_params\":1000,\"size\":500,"
                "\"fingerprint\":\"f1\",\"takes_tools\":true}}";
        _cleanup_(buf_deinit) struct buf out = BUF_NULL, list = BUF_NULL;
        char expected[600];

        assert_int_equal(openai_write_model(&out, &model), 0);
        assert_string_equal((char *)out.data, one);
        assert_int_equal(openai_write_models(&list, models, 2), 0);
        snprintf(expected, sizeof(expected), "{\"object\":\"list\",\"data\":[%s,%s]}", one, one);
        assert_string_equal((char *)list.data, expected);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stream_text),
                cmocka_unit_test(test_stream_usage),
                cmocka_unit_test(test_stream_calls),
                cmocka_unit_test(test_broken_call),
                cmocka_unit_test(test_one_call),
                cmocka_unit_test(test_stream_choices),
                cmocka_unit_test(test_stream_logprobs),
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_whole_empty),
                cmocka_unit_test(test_text_stream),
                cmocka_unit_test(test_text_whole),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_params),
                cmocka_unit_test(test_models),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
