/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of reading bodies of /v1/responses, of writing replies, and of pages of items fails once, those of
 * libjansson too: -ERR_NOMEM, and nothing is leaked.
 */
#include <stdlib.h>
#include <string.h>

#include "client/gateway/responses-list.h"
#include "fault/gateway/whole-reply.h"
#include "fault/loop.h"
#include "unit/gateway/responses-rig.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 3000

#define REFERENCE(id) "{\"type\":\"item_reference\",\"id\":\"" id "44332211ac020500ddccbbaa\"}"

static const char whole_body[] =
        "{\"model\":\"m\",\"instructions\":\"i\",\"input\":[{\"role\":\"user\",\"content\":"
        "[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]}"
        "," REFERENCE("rs_") "," REFERENCE("msg_") "," REFERENCE("fc_") "," REFERENCE(
                "fco_") ","
                        "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":"
                        "\"r\"}]},"
                        "{\"role\":\"assistant\",\"content\":\"t\"},"
                        "{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\","
                        "\"arguments\":\"{}\"},"
                        "{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"o\"}],"
                        "\"tools\":[{\"type\":\"x\"},{\"type\":\"function\",\"name\":\"f\","
                        "\"parameters\":{}}],"
                        "\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":"
                        "\"null\"}}},"
                        "\"metadata\":{\"a\":\"b\"},\"prompt_cache_key\":\"k\",\"previous_response_"
                        "id\":\"p\","
                        "\"reasoning\":{\"summary\":\"auto\"},\"temperature\":0.5,\"user\":\"u\"}";
static const char small_body[] =
        "{\"input\":\"x\",\"conversation\":{\"id\":\"c\"},\"grammar\":\"root ::= [a]\"}";

static void read_until_whole(const char *text, long at_least) {
        struct fault_loop loop = {.at_least = at_least, .at_most = MAX_ALLOCATIONS};
        json_t *body = NULL;

        assert_int_equal(fields_parse(&body, text, strlen(text), NULL), 0);
        while (fault_loop_next(&loop)) {
                struct responses_body read;

                fault_loop_arm(&loop);
                responses_rig_read_json(&read, json_incref(body));
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, read.r, &read.e);
                responses_rig_free(&read);
        }
        json_decref(body);
}

static void test_reading(void **state) {
        read_until_whole(whole_body, 60);
        read_until_whole(small_body, 5);
}

static void write_until_whole(const char *text, const struct talk_error *error) {
        struct fault_loop loop = {.at_least = 3, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct responses_body read;
                struct writer *writer;
                int r;

                responses_rig_read(&read, text);
                assert_int_equal(read.r, 0);
                fault_loop_arm(&loop);
                writer = responses_writer_new(&read.wish, &responses_rig_place);
                r = whole_reply_tell(writer, error);
                fault_loop_disarm(&loop);
                writer_free(writer);
                responses_rig_free(&read);
                fault_loop_expect(&loop, r, NULL);
        }
}

static void test_writing(void **state) {
        const struct talk_error error = {.code = CONFAB_SYSTEM, .message = "words"};

        write_until_whole("{\"input\":\"x\",\"top_logprobs\":1}", NULL);
        write_until_whole("{\"input\":\"x\",\"top_logprobs\":1,\"stream\":true}", NULL);
        write_until_whole("{\"input\":\"x\",\"stream\":true}", &error);
}

static void test_pages(void **state) {
        static const struct responses_id of = {.daemon = 1, .conversation = 2};
        static const struct responses_range range = {.before = 1};
        static const struct responses_page page = {.limit = 9};
        const struct confab_turn turn = {.role = CONFAB_ROLE_ASSISTANT,
                .parts = whole_reply_parts,
                .n_parts = WHOLE_REPLY_PARTS};
        const struct confab_conversation c = {.turns = &turn, .n_turn_list = 1};
        struct fault_loop loop = {.at_least = 2, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct buf out = BUF_NULL;
                int r;

                fault_loop_arm(&loop);
                r = responses_write_page(&out, &page, &range, &of, &c);
                fault_loop_disarm(&loop);
                buf_deinit(&out);
                fault_loop_expect(&loop, r, NULL);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reading),
                cmocka_unit_test(test_writing),
                cmocka_unit_test(test_pages),
        };

        /* calls of libjansson's own are not wrapped */
        json_set_alloc_funcs(malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
