/* SPDX-License-Identifier: MIT */
/* Every allocation of reading requests of /confab/v1 and of keeping whole replies fails once, those of libjansson too:
 * -ERR_NOMEM, and nothing is leaked. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/gateway/metrics.h"
#include "client/gateway/own-read.h"
#include "client/gateway/own-reply.h"
#include "client/stats-copy.h"
#include "fault/gateway/whole-reply.h"
#include "fault/loop.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 2000

static void check_body(enum confab_verb verb, const char *text, long at_least) {
        struct fault_loop loop = {.at_least = at_least, .at_most = MAX_ALLOCATIONS};
        json_t *body = NULL;

        assert_int_equal(fields_parse(&body, text, strlen(text), NULL), 0);
        while (fault_loop_next(&loop)) {
                struct fields fields = FIELDS_NULL;
                struct form *memory = NULL;
                struct own_asked asked;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = form_new(&memory, &e);
                if (r == 0)
                        r = own_read(memory, &fields, verb, body, &asked, &e);
                fault_loop_disarm(&loop);
                form_free(memory);
                fault_loop_expect(&loop, r, &e);
        }
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
        struct fault_loop loop = {.at_least = 4, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                json_t *body = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = own_read_query(&body, CONFAB_ATTACH, get, NULL, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                json_decref(body);
        }
}

static int tell(struct own_reply *reply, struct buf *out) {
        const struct confab_accepted accepted = {.conversation = 1};
        const struct confab_done done = {.finish = CONFAB_FINISH_STOP};
        const struct confab_event events[] = {
                {.kind = CONFAB_EVENT_ACCEPTED, .accepted = &accepted},
                {.kind = CONFAB_EVENT_DELTA, .delta = &whole_reply_delta},
                {.kind = CONFAB_EVENT_DONE, .final = true, .done = &done}};
        int r = reply ? 0 : -ERR_NOMEM;

        for (size_t i = 0; r == 0 && i < 3; i++)
                r = own_reply_add(reply, &events[i]);
        return r == 0 ? own_reply_write(reply, &events[2], out) : r;
}

static void test_replies(void **state) {
        struct fault_loop loop = {.at_least = 10, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct buf out = BUF_NULL;
                struct own_reply *reply;
                int r;

                fault_loop_arm(&loop);
                reply = own_reply_new();
                r = tell(reply, &out);
                fault_loop_disarm(&loop);
                own_reply_free(reply);
                buf_deinit(&out);
                fault_loop_expect(&loop, r, NULL);
        }
}

static void test_metrics(void **state) {
        const uint64_t bounds[] = {1}, counts[] = {1, 2};
        const struct confab_histogram histogram = {"queue", 3, 4, bounds, 1, counts};
        const struct confab_user user = {.uid = 1, .tenant = "t"};
        const struct confab_stat named[] = {{"a", 1}};
        const struct confab_stats stats = {.version = "1",
                .stats = named,
                .n_stats = 1,
                .started_usec = 1,
                .histograms = &histogram,
                .n_histograms = 1,
                .users = &user,
                .n_users = 1};
        const struct metrics_daemon daemon = {.told = {.model = "m", .up = true, .stats = &stats}};
        const struct metrics_answers answers = {.dialect = "d"};
        const struct metrics_gateway gateway = {.answers = &answers, .n_answers = 1};
        struct fault_loop loop = {.at_least = 3, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct buf out = BUF_NULL;
                int r;

                fault_loop_arm(&loop);
                r = metrics_write(&out, &gateway, &daemon, 1);
                fault_loop_disarm(&loop);
                buf_deinit(&out);
                fault_loop_expect(&loop, r, NULL);
        }
        loop = (struct fault_loop){.at_least = 1, .at_most = 2};
        while (fault_loop_next(&loop)) {
                struct confab_stats *copy;

                fault_loop_arm(&loop);
                copy = stats_copy(&stats);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, copy ? 0 : -ERR_NOMEM, NULL);
                free(copy);
        }
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
