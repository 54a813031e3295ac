/* SPDX-License-Identifier: MIT */
/* Every allocation of reading bodies of Anthropic's and Ollama's dialects and of writing their replies fails once, those of
 * libjansson too: -ERR_NOMEM, and nothing is leaked. */
#include <stdlib.h>
#include <string.h>

#include "client/gateway/anthropic.h"
#include "client/gateway/ollama.h"
#include "fault/gateway/whole-reply.h"
#include "fault/loop.h"
#include "unit/gateway/dialect-rig.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 2000

static const char anthropic_body[] =
        "{\"model\":\"m\",\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"s\"},"
        "{\"type\":\"text\",\"text\":\"t\"}],\"messages\":["
        "{\"role\":\"user\",\"content\":\"Hi\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},"
        "{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{\"a\":1}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\","
        "\"content\":\"1\",\"is_error\":true},{\"type\":\"text\",\"text\":\"b\"}]}],"
        "\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{}}],"
        "\"stop_sequences\":[\"x\"],\"metadata\":{\"user_id\":\"{\\\"session_id\\\":\\\"s\\\"}\"},"
        "\"output_format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"null\"}}}";
static const char chat_body[] =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"hm\",\"tool_calls\":["
        "{\"id\":\"t\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},"
        "{\"role\":\"tool\",\"content\":\"1\",\"tool_call_id\":\"t\",\"tool_name\":\"f\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
        "\"format\":{\"type\":\"array\"},\"options\":{\"stop\":[\"a\",\"b\"]}}";
static const char generate_body[] = "{\"model\":\"m\",\"prompt\":\"p\",\"system\":\"s\","
                                    "\"context\":[1,2],\"options\":{\"stop\":"
                                    "\"x\"}}";
static const char raw_body[] = "{\"prompt\":\"p\",\"raw\":true}";

static int read_anthropic(struct form *form, const json_t *body, struct err *e) {
        struct anthropic_wish wish;

        return anthropic_parse(form, body, false, &wish, e);
}

static int read_chat(struct form *form, const json_t *body, struct err *e) {
        struct ollama_wish wish;

        return ollama_parse_chat(form, body, &wish, e);
}

static int read_generate(struct form *form, const json_t *body, struct err *e) {
        struct ollama_wish wish;

        return ollama_parse_generate(form, body, &wish, e);
}

typedef int (*read_fn)(struct form *form, const json_t *body, struct err *e);

static void check_reading(const char *text, read_fn read_body, long at_least) {
        struct fault_loop loop = {.at_least = at_least, .at_most = MAX_ALLOCATIONS};
        bool has_session = false;
        json_t *body = NULL;

        assert_int_equal(fields_parse(&body, text, strlen(text), NULL), 0);
        while (fault_loop_next(&loop)) {
                struct form *form = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = form_new(&form, &e);
                if (r == 0)
                        r = read_body(form, body, &e);
                fault_loop_disarm(&loop);
                has_session = r == 0 && form_fields(form)->session;
                form_free(form);
                if (loop.hit && r == 0 && !has_session && read_body == read_anthropic)
                        continue; /* the session's name could not be read, which is no error */
                fault_loop_expect(&loop, r, &e);
        }
        assert_int_equal(has_session, read_body == read_anthropic);
        json_decref(body);
}

static void test_reading(void **state) {
        check_reading(anthropic_body, read_anthropic, 60);
        check_reading(chat_body, read_chat, 20);
        check_reading(generate_body, read_generate, 5);
        check_reading(raw_body, read_generate, 2);
}

static int tell(struct writer *writer) {
        const int32_t tokens[] = {1, 2};
        int r = whole_reply_tell(writer, NULL);

        return r == 1 ? ollama_writer_end(writer, tokens, 2) : r;
}

static struct writer *new_writer(unsigned kind) {
        const struct anthropic_wish anthropic = {.thinking = true};
        const struct ollama_wish ollama = {.thinking = true, .gives_context = true};

        if (kind & 1)
                return anthropic_writer_new(kind & 2, &anthropic);
        return ollama_writer_new(kind & 4 ? OLLAMA_CHAT : OLLAMA_GENERATE, kind & 2, &ollama, true);
}

static void test_writing(void **state) {
        for (unsigned kind = 0; kind < 8; kind++) {
                struct fault_loop loop = {.at_least = 3, .at_most = MAX_ALLOCATIONS};

                while (fault_loop_next(&loop)) {
                        struct writer *writer;
                        int r;

                        fault_loop_arm(&loop);
                        writer = new_writer(kind);
                        r = tell(writer);
                        fault_loop_disarm(&loop);
                        writer_free(writer);
                        fault_loop_expect(&loop, r, NULL);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reading),
                cmocka_unit_test(test_writing),
        };

        /* calls of libjansson's own are not wrapped */
        json_set_alloc_funcs(malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
