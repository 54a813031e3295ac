/* SPDX-License-Identifier: MIT */
/* Requests of /confab/v1: the table of fields, types, inputs, queries, places. */
#include "base/err.h"
#include "base/util.h"
#include "client/gateway/own-read.h"
#include "util/test.h"
#include <math.h>
#include <string.h>

struct read {
        json_t *body;
        struct form *memory;
        struct fields fields;
        struct own_asked asked;
        struct err e;
};

static int read_text(struct read *read, enum confab_verb verb, const char *text) {
        *read = (struct read){};
        assert_int_equal(form_new(&read->memory, NULL), 0);
        if (fields_parse(&read->body, text, strlen(text), &read->e) < 0)
                fail_msg("%s: %s", text, read->e.msg);
        return own_read(read->memory, &read->fields, verb, read->body, &read->asked, &read->e);
}

static void read_end(struct read *read) {
        json_decref(read->body);
        form_free(read->memory);
}

static struct confab_request *read_ok(struct read *read, enum confab_verb verb, const char *text) {
        if (read_text(read, verb, text) < 0)
                fail_msg("%s: %s", text, read->e.msg);
        assert_int_equal(read->asked.request.verb, verb);
        return &read->asked.request;
}

/* Each name is there once for a verb, and goes where there is room. */
static void test_table(void **state) {
        size_t n = 0;

        for (const struct own_field *field = own_fields; field->name; field++, n++) {
                assert_true(field->verbs != 0);
                assert_int_equal(field->type == OWN_OTHER, field->read != NULL);
                assert_int_equal(field->type == OWN_WORD, field->words != NULL);
                assert_true(field->type == OWN_OTHER || field->at > 0);
                assert_true(field->at < sizeof(struct own_asked));
                for (const struct own_field *other = own_fields; other != field; other++)
                        if (strcmp(other->name, field->name) == 0)
                                assert_int_equal(other->verbs & field->verbs, 0);
        }
        assert_true(n > 40);
}

/* Every simple field is read for each of its verbs. */
static void check_field(const struct own_field *field, enum confab_verb verb) {
        static const char *const values[] = {[OWN_FLAG] = "true",
                [OWN_U32] = "4294967295",
                [OWN_U64] = "9223372036854775807",
                [OWN_TEXT] = "\"text\""};
        static const size_t sizes[] = {[OWN_FLAG] = sizeof(bool),
                [OWN_U32] = sizeof(uint32_t),
                [OWN_U64] = sizeof(uint64_t),
                [OWN_TEXT] = sizeof(char *),
                [OWN_WORD] = sizeof(int)};
        struct own_asked blank = {};
        char text[120], word[40];
        struct read read;
        int r;

        snprintf(word, sizeof(word), "\"%s\"", field->words ? field->words[1] : "");
        snprintf(text, sizeof(text), "{\"nothing\":%s,\"%s\":%s}",
                verb == CONFAB_CONTINUE ? "true" : "null", field->name,
                field->words ? word : values[field->type]);
        r = read_text(&read, verb, text);
        assert_int_equal(r, 0);
        blank.request.size = sizeof(blank.request);
        blank.request.verb = verb;
        assert_int_not_equal(memcmp((char *)&read.asked + field->at, (char *)&blank + field->at,
                                     sizes[field->type]),
                0);
        if (field->has)
                assert_true(*((bool *)&read.asked + field->has));
        read_end(&read);
}

static void test_simple(void **state) {
        for (const struct own_field *field = own_fields; field->name; field++)
                for (int verb = CONFAB_OPEN; verb <= CONFAB_QUOTA; verb++)
                        if (field->type != OWN_OTHER && field->verbs & 1u << verb)
                                check_field(field, (enum confab_verb)verb);
}

static void test_unknown(void **state) {
        struct read read;
        struct confab_request *request = read_ok(&read, CONFAB_WARM,
                "{\"name\":5,\"at_turn\":\"x\",\"sampling\":[],\"stop\":{},\"of no verb\":1}");

        assert_null(request->name);
        assert_false(request->has_at_turn);
        assert_null(request->sampling);
        read_end(&read);
        request = read_ok(&read, CONFAB_OPEN, "{\"name\":null,\"sampling\":null,\"about\":null}");
        assert_null(request->name);
        assert_null(request->sampling);
        assert_null(request->about);
        read_end(&read);
}

static void test_parts(void **state) {
        struct read read;
        struct confab_request *request = read_ok(&read, CONFAB_OPEN,
                "{\"sampling\":{\"temperature\":0,\"top_k\":3,\"seed\":\"18446744073709551615\","
                "\"logit_bias\":[{\"token\":1,\"bias\":2.5},{\"token\":2,\"bias\":null}]},"
                "\"about\":{\"title\":\"\",\"tags\":[\"a\",\"b\"],\"metadata\":{\"b\":1},"
                "\"expires_after\":0},\"overflow\":\"shift\",\"tools\":[{\"name\":\"f\"}]}");

        assert_int_equal(request->sampling->has,
                CONFAB_HAS_TEMPERATURE | CONFAB_HAS_TOP_K | CONFAB_HAS_SEED);
        assert_true(request->sampling->seed == UINT64_MAX);
        assert_int_equal(request->sampling->n_biases, 2);
        assert_true(request->sampling->biases[0].bias == 2.5f);
        assert_true(request->sampling->biases[1].bias == -INFINITY);
        assert_string_equal(request->about->title, "");
        assert_null(request->about->session);
        assert_int_equal(request->about->n_tags, 2);
        assert_string_equal(request->about->tags[1], "b");
        assert_string_equal(request->about->metadata, "{\"b\":1}");
        assert_true(request->about->has_expires_after);
        assert_int_equal(request->overflow, CONFAB_OVERFLOW_SHIFT);
        assert_string_equal(request->tools, "[{\"name\":\"f\"}]");
        read_end(&read);
        request = read_ok(&read, CONFAB_UPDATE, "{\"about\":{\"tags\":[]},\"sampling\":{}}");
        assert_true(request->about->has_tags);
        assert_int_equal(request->about->n_tags, 0);
        assert_false(request->about->has_expires_after);
        assert_int_equal(request->sampling->has, 0);
        assert_false(request->has_pinned || request->reset_sampling);
        read_end(&read);
        request = read_ok(&read, CONFAB_UPDATE, "{\"reset_sampling\":true}");
        assert_true(request->reset_sampling);
        read_end(&read);
        request = read_ok(&read, CONFAB_UPDATE, "{\"pinned\":false}");
        assert_true(request->has_pinned && !request->pinned);
        read_end(&read);
        request = read_ok(&read, CONFAB_UPDATE, "{\"pinned\":true}");
        assert_true(request->has_pinned && request->pinned);
        read_end(&read);
}

static void test_messages(void **state) {
        struct read read;
        const struct confab_message *messages;
        struct confab_request *request = read_ok(&read, CONFAB_FIND,
                "{\"messages\":[{\"role\":\"user\",\"text\":\"a\"},{\"role\":\"assistant\","
                "\"text\":\"b\",\"reasoning\":\"c\",\"calls\":[{\"id\":\"i\",\"name\":\"f\","
                "\"arguments\":{\"x\":1}},{\"name\":\"g\",\"arguments\":\"{}\"}]},"
                "{\"role\":\"tool\",\"results\":[{\"call_id\":\"i\",\"content\":\"d\"}]}],"
                "\"conversation\":7}");

        assert_int_equal(request->n_messages, 3);
        messages = request->messages;
        assert_int_equal(messages[0].role, CONFAB_ROLE_USER);
        assert_memory_equal(messages[0].text, "a", 1);
        assert_int_equal(messages[0].text_size, 1);
        assert_string_equal(messages[1].reasoning, "c");
        assert_int_equal(messages[1].n_calls, 2);
        assert_string_equal(messages[1].calls[0].arguments, "{\"x\":1}");
        assert_null(messages[1].calls[1].id);
        assert_string_equal(messages[1].calls[1].arguments, "{}");
        assert_int_equal(messages[2].n_results, 1);
        assert_string_equal(messages[2].results[0].text, "d");
        assert_null(messages[2].results[0].name);
        assert_true(request->conversation_id == 7);
        read_end(&read);
}

static void test_inputs(void **state) {
        static const struct {
                const char *text;
                enum confab_input input;
        } rows[] = {{"{\"message\":\"ab\"}", CONFAB_INPUT_MESSAGE},
                {"{\"raw\":\"ab\"}", CONFAB_INPUT_RAW},
                {"{\"raw_hex\":\"6162\"}", CONFAB_INPUT_RAW},
                {"{\"given\":{\"text\":\"ab\"}}", CONFAB_INPUT_GIVEN},
                {"{\"nothing\":true}", CONFAB_INPUT_NONE}, {"{\"tokens\":[]}", CONFAB_INPUT_TOKENS},
                {"{\"results\":[]}", CONFAB_INPUT_RESULTS},
                {"{\"messages\":[]}", CONFAB_INPUT_MESSAGES}};
        struct read read;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct confab_request *request = read_ok(&read, CONFAB_CONTINUE, rows[i].text);

                assert_int_equal(request->input, rows[i].input);
                assert_int_equal(request->text_size, i < 4 ? 2 : 0);
                if (i < 4)
                        assert_memory_equal(request->text, "ab", 2);
                read_end(&read);
        }
        assert_true(read_ok(&read, CONFAB_CONTINUE, "{\"message\":\"a\",\"stream\":false}") &&
                    read.asked.whole);
        read_end(&read);
        assert_false(read_ok(&read, CONFAB_CONTINUE, "{\"message\":\"a\"}") && read.asked.whole);
        read_end(&read);
}

static void test_wrong(void **state) {
        static const struct {
                enum confab_verb verb;
                const char *text, *words, *param;
        } rows[] = {
                {CONFAB_CONTINUE, "{}", "there is no input", ""},
                {CONFAB_CONTINUE, "{\"nothing\":false}", "there is no input", ""},
                {CONFAB_CONTINUE, "{\"message\":\"a\",\"tokens\":[1]}",
                        "message and tokens are both given", "tokens"},
                {CONFAB_CONTINUE, "{\"message\":\"a\\u0000b\"}", "message is not text without NUL",
                        "message"},
                {CONFAB_CONTINUE, "{\"tokens\":[1,2.5]}", "tokens[1] is not a token", "tokens[1]"},
                {CONFAB_CONTINUE, "{\"raw_hex\":\"6G\"}", "raw_hex is not pairs", "raw_hex"},
                {CONFAB_CONTINUE, "{\"message\":\"a\",\"max_tokens\":4294967296}",
                        "max_tokens is not a whole number from 0 to 4294967295", "max_tokens"},
                {CONFAB_CONTINUE, "{\"message\":\"a\",\"role\":\"\"}",
                        "role is not one of system, user, assistant, raw, tool", "role"},
                {CONFAB_CONTINUE, "{\"given\":{\"calls\":[{}]}}",
                        "given.calls[0].name is not given", "given.calls[0].name"},
                {CONFAB_CONTINUE, "{\"results\":[{\"call_id\":\"a\"}]}",
                        "results[0].content is not given", "results[0].content"},
                {CONFAB_CONTINUE, "{\"messages\":[5]}", "messages[0] is not an object",
                        "messages[0]"},
                {CONFAB_OPEN, "{\"sampling\":{\"seed\":\"18446744073709551616\"}}",
                        "sampling.seed is not", "sampling.seed"},
                {CONFAB_OPEN, "{\"sampling\":{\"seed\":\"\"}}", "sampling.seed is not",
                        "sampling.seed"},
                {CONFAB_OPEN, "{\"sampling\":{\"seed\":\"-1\"}}", "sampling.seed is not",
                        "sampling.seed"},
                {CONFAB_OPEN, "{\"sampling\":{\"temperature\":\"1\"}}",
                        "sampling.temperature is not a number", "sampling.temperature"},
                {CONFAB_OPEN, "{\"sampling\":{\"logit_bias\":[{\"token\":1},{\"bias\":1}]}}",
                        "sampling.logit_bias[1].token is not given",
                        "sampling.logit_bias[1].token"},
                {CONFAB_OPEN, "{\"about\":{\"tags\":[\"a\",1]}}", "about.tags[1] is not a string",
                        "about.tags[1]"},
                {CONFAB_OPEN, "{\"about\":5}", "about is not an object", "about"},
                {CONFAB_OPEN, "{\"tools\":1}", "tools is not JSON", "tools"},
                {CONFAB_FIND, "{\"conversation\":0}", "conversation is not a whole number",
                        "conversation"},
                {CONFAB_REWIND, "{\"turns\":true}", "turns is not a whole number", "turns"},
                {CONFAB_GET, "{\"turns\":1}", "turns is not true or false", "turns"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct read read;

                assert_int_equal(read_text(&read, rows[i].verb, rows[i].text), -ERR_INVALID);
                if (!strstr(read.e.msg, rows[i].words))
                        fail_msg("%s: %s", rows[i].text, read.e.msg);
                assert_string_equal(read.fields.wrong, rows[i].param);
                read_end(&read);
        }
}

static const char *get(void *userdata, const char *name) {
        const char *const *pairs = userdata;

        for (; pairs[0]; pairs += 2)
                if (strcmp(pairs[0], name) == 0)
                        return pairs[1];
        return NULL;
}

static void test_query(void **state) {
        static const char *get_pairs[] = {
                "turns", "", "parts", "1", "tokens", "false", "max_turns", "5", "limit", "3", NULL};
        static const char *list_pairs[] = {"search", "5", "tag", "true", "order", "updated", NULL};
        static const char *attach_pairs[] = {
                "stop", "[\"a\",\"b\"]", "stream", "false", "position", "-1", NULL};
        static const char *stop_pairs[] = {"stop", "a]", NULL};
        json_t *body;

        assert_int_equal(own_read_query(&body, CONFAB_GET, get, get_pairs, NULL), 0);
        assert_true(json_is_true(json_object_get(body, "turns")));
        assert_true(json_is_true(json_object_get(body, "parts")));
        assert_true(json_is_false(json_object_get(body, "tokens")));
        assert_int_equal(json_integer_value(json_object_get(body, "max_turns")), 5);
        assert_int_equal(json_object_size(body), 4); /* "limit" is of another verb */
        json_decref(body);
        assert_int_equal(own_read_query(&body, CONFAB_LIST, get, list_pairs, NULL), 0);
        assert_string_equal(json_string_value(json_object_get(body, "search")), "5");
        assert_string_equal(json_string_value(json_object_get(body, "tag")), "true");
        assert_string_equal(json_string_value(json_object_get(body, "order")), "updated");
        json_decref(body);
        assert_int_equal(own_read_query(&body, CONFAB_ATTACH, get, attach_pairs, NULL), 0);
        assert_int_equal(json_array_size(json_object_get(body, "stop")), 2);
        assert_true(json_is_false(json_object_get(body, "stream")));
        assert_string_equal(json_string_value(json_object_get(body, "position")), "-1");
        json_decref(body);
        assert_int_equal(own_read_query(&body, CONFAB_ATTACH, get, stop_pairs, NULL), 0);
        assert_string_equal(json_string_value(json_object_get(body, "stop")), "a]");
        json_decref(body);
}

static void test_refs(void **state) {
        struct confab_request request = {};

        assert_int_equal(own_read_ref("12", &request), 0);
        assert_true(request.conversation_id == 12 && !request.conversation);
        request = (struct confab_request){};
        assert_int_equal(own_read_ref("12a", &request), 0);
        assert_true(request.conversation_id == 0);
        assert_string_equal(request.conversation, "12a");
        assert_int_equal(own_read_ref("18446744073709551615", &request), 0);
        assert_int_equal(own_read_ref("18446744073709551616", &request), 1);
        assert_int_equal(own_read_ref("0", &request), 1);
}

static void test_places(void **state) {
        static const char *const wrong[] = {"", "-", "-5", "x", "5-", "5-x", "5-4294967296",
                "5-ende", "18446744073709551616", "5 ", "5--1"};
        struct confab_request request = {};

        assert_int_equal(own_read_place("7", &request, NULL), 0);
        assert_true(request.has_expect_revision && request.expect_revision == 7);
        assert_false(request.has_at_position);
        assert_int_equal(own_read_place("8-4294967295", &request, NULL), 0);
        assert_true(request.has_at_position && request.at_position == UINT32_MAX);
        assert_true(request.expect_revision == 8);
        assert_int_equal(own_read_place("8-end", &request, NULL), 1);
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                assert_int_equal(own_read_place(wrong[i], &request, NULL), -ERR_INVALID);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_simple),
                cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_inputs),
                cmocka_unit_test(test_wrong),
                cmocka_unit_test(test_query),
                cmocka_unit_test(test_refs),
                cmocka_unit_test(test_places),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
