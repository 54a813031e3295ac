/* SPDX-License-Identifier: MIT */
/* Every allocation of reading requests of /confab/v1 and of keeping whole replies fails once, those of libjansson too:
 * -ERR_NOMEM, and nothing is leaked. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/gateway/metrics.h"
#include "client/gateway/own-read.h"
#include "client/gateway/own-reply.h"
#include "fault/fault.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 2000

static void check_body(enum confab_verb verb, const char *text, int at_least) {
        json_t *body = NULL;
        bool hit = true;
        int n;

        assert_int_equal(fields_parse(&body, text, strlen(text), NULL), 0);
        for (n = 0; hit; n++) {
                struct fields fields = FIELDS_NULL;
                struct form *memory = NULL;
                struct own_asked asked;
                struct err e = {0};
                int r;

                assert_true(n < MAX_ALLOCATIONS);
                fault_alloc_at(n);
                r = form_new(&memory, &e);
                if (r == 0)
                        r = own_read(memory, &fields, verb, body, &asked, &e);
                hit = fault_alloc_hit();
                fault_alloc_at(-1);
                form_free(memory);
                if (r != (hit ? -ERR_NOMEM : 0))
                        fail_msg("allocation %d: %d, %s", n, r, e.msg);
                assert_int_equal(e.code, -r);
        }
        assert_true(n > at_least);
        json_decref(body);
}

static void test_bodies(void **state) {
        check_body(CONFAB_OPEN,
                "{\"tools\":[{\"name\":\"f\"}],\"sampling\":{\"logit_bias\":[{\"token\":1}]},"
                "\"about\":{\"tags\":[\"a\"],\"metadata\":{}}}",
                5);
        check_body(CONFAB_CONTINUE,
                "{\"messages\":[{\"role\":\"assistant\",\"calls\":[{\"name\":\"f\","
                "\"arguments\":{}}]},{\"role\":\"tool\",\"results\":[{\"call_id\":\"i\","
                "\"content\":\"c\"}]}],\"stop\":[\"a\"],\"json_schema\":{}}",
                7);
        check_body(CONFAB_CONTINUE, "{\"results\":[{\"call_id\":\"i\",\"content\":\"c\"}]}", 3);
        check_body(CONFAB_CONTINUE, "{\"given\":{\"calls\":[{\"name\":\"f\"}]}}", 3);
        check_body(CONFAB_CONTINUE, "{\"tokens\":[1]}", 2);
        check_body(CONFAB_CONTINUE, "{\"raw_hex\":\"61\"}", 2);
}

static const char *get(void *userdata, const char *name) {
        return strcmp(name, "stop") == 0 ? "a" : strcmp(name, "position") == 0 ? "5" : NULL;
}

static void test_query(void **state) {
        bool hit = true;
        int n;

        for (n = 0; hit; n++) {
                json_t *body = NULL;
                struct err e = {0};
                int r;

                assert_true(n < MAX_ALLOCATIONS);
                fault_alloc_at(n);
                r = own_read_query(&body, CONFAB_ATTACH, get, NULL, &e);
                hit = fault_alloc_hit();
                fault_alloc_at(-1);
                assert_int_equal(r, hit ? -ERR_NOMEM : 0);
                json_decref(body);
        }
        assert_true(n > 4);
}

static int tell(struct own_reply *reply, struct buf *out) {
        const struct confab_accepted accepted = {.conversation = 1};
        const struct confab_token token = {.token = 1};
        const struct confab_done done = {.finish = CONFAB_FINISH_STOP};
        const struct confab_part parts[] = {
                {.index = 0, .kind = CONFAB_PART_TEXT, .text = "a", .text_size = 1, .ends = true},
                {.index = 1,
                        .kind = CONFAB_PART_CALL,
                        .text = "{}",
                        .text_size = 2,
                        .call_id = "i",
                        .name = "f",
                        .broken = "cut off",
                        .ends = true}};
        const struct confab_delta delta = {
                .parts = parts, .n_parts = 2, .tokens = &token, .n_tokens = 1};
        const struct confab_event events[] = {
                {.kind = CONFAB_EVENT_ACCEPTED, .accepted = &accepted},
                {.kind = CONFAB_EVENT_DELTA, .delta = &delta},
                {.kind = CONFAB_EVENT_DONE, .final = true, .done = &done}};
        int r = reply ? 0 : -ERR_NOMEM;

        for (size_t i = 0; r == 0 && i < 3; i++)
                r = own_reply_add(reply, &events[i]);
        return r == 0 ? own_reply_write(reply, &events[2], out) : r;
}

static void test_replies(void **state) {
        bool hit = true;
        int n;

        for (n = 0; hit; n++) {
                struct buf out = BUF_NULL;
                struct own_reply *reply;
                int r;

                assert_true(n < MAX_ALLOCATIONS);
                fault_alloc_at(n);
                reply = own_reply_new();
                r = tell(reply, &out);
                hit = fault_alloc_hit();
                fault_alloc_at(-1);
                own_reply_free(reply);
                buf_deinit(&out);
                assert_int_equal(r, hit ? -ERR_NOMEM : 0);
        }
        assert_true(n > 10);
}

static void test_metrics(void **state) {
        const struct metrics_stat stats[] = {{"a", 1}};
        const struct metrics_daemon daemon = {.model = "m", .stats = stats, .n_stats = 1};
        const struct metrics_answers answers = {.dialect = "d"};
        const struct metrics_gateway gateway = {.answers = &answers, .n_answers = 1};
        bool hit = true;
        int n;

        for (n = 0; hit; n++) {
                struct buf out = BUF_NULL;
                int r;

                assert_true(n < MAX_ALLOCATIONS);
                fault_alloc_at(n);
                r = metrics_write(&out, &gateway, &daemon, 1);
                hit = fault_alloc_hit();
                fault_alloc_at(-1);
                buf_deinit(&out);
                assert_int_equal(r, hit ? -ERR_NOMEM : 0);
        }
        assert_true(n > 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bodies),
                cmocka_unit_test(test_query),
                cmocka_unit_test(test_replies),
                cmocka_unit_test(test_metrics),
        };

        /* calls of libjansson's own are not wrapped */
        json_set_alloc_funcs(malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
