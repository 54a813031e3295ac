/* SPDX-License-Identifier: MIT */
/* Every allocation of reading replies fails once: an error, nothing leaked, what was said before stays;
 * and so where the ledger refuses. */
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "base/ledger.h"
#include "fault/loop.h"
#include "unit/chat/reply-cases.h"
#include "unit/chat/reply-rig.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 200

/* Replies for which the reader allocates most: a value that waits, and arguments that do. */
static const struct {
        const char *template_text, *text, *said;
} replies[] = {
        {"<tool_call> <function= <parameter=",
                "<function=f><parameter=x>[1, 2, \"é\"]</parameter></function> é",
                "call f<{\"x\": [1, 2, \"é\"]}> text<é> "},
        {"<tool_call> </tool_call> </think>",
                "<think>a</think><tool_call>{\"arguments\": {\"a\": \"b\"}, \"name\": "
                "\"f\"}</tool_call>",
                "reasoning<a> call f<{\"a\": \"b\"}> "},
};

struct saying {
        char said[200];
        size_t n;
        bool failed;
};

/* Allocates nothing, as it runs between failures. */
static int say(void *arg, const struct chat_part_event *event, struct err *e) {
        struct saying *s = arg;

        assert_false(s->failed);
        if (event->begins)
                s->n += (size_t)snprintf(s->said + s->n, sizeof(s->said) - s->n, "%s%s%s<",
                        chat_part_name(event->part), event->name ? " " : "",
                        event->name ? event->name : "");
        s->n += (size_t)snprintf(
                s->said + s->n, sizeof(s->said) - s->n, "%.*s", (int)event->size, event->text);
        if (event->ends)
                s->n += (size_t)snprintf(s->said + s->n, sizeof(s->said) - s->n, "> ");
        assert_true(s->n < sizeof(s->said));
        return 0;
}

static int run(const struct reply_rig *rig, const struct tok_ids *ids, struct ledger *ledger,
        struct saying *s) {
        struct charge charge = {.ledger = ledger};
        struct chat_reply *r = NULL;
        struct err e = {0};
        int code = chat_reply_new(
                &r, rig->chat, reply_case_tools, strlen(reply_case_tools), &charge, &e);

        assert_int_equal(code == 0, r != NULL);
        for (size_t i = 0; code == 0 && i < ids->n; i++) {
                code = chat_reply_push(r, ids->ids[i], say, s, &e);
                if (code < 0) { /* nothing more is done */
                        s->failed = true;
                        assert_int_equal(chat_reply_push(r, ids->ids[i], say, s, &e), code);
                        assert_int_equal(chat_reply_finish(r, say, s, &e), code);
                }
        }
        if (code == 0)
                code = chat_reply_finish(r, say, s, &e);
        assert_int_equal((int)e.code, -code);
        chat_reply_free(r);
        assert_int_equal(charge.size, 0);
        return code;
}

static void open_reply(size_t i, struct reply_rig *rig, struct tok_ids *ids) {
        reply_rig_init(rig);
        reply_rig_load(rig, replies[i].template_text);
        reply_rig_cut(rig, replies[i].text, strlen(replies[i].text), REPLY_CUT_BYTES, 0, ids);
}

static void test_allocations(void **state) {
        for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                struct ledger ledger = LEDGER_INIT((size_t)4 << 20);
                struct fault_loop loop = {.at_least = 6, .at_most = MAX_ALLOCATIONS};
                struct reply_rig rig;

                open_reply(i, &rig, &ids);
                while (fault_loop_next(&loop)) {
                        struct saying s = {.n = 0};
                        int r;

                        fault_loop_arm(&loop);
                        r = run(&rig, &ids, &ledger, &s);
                        fault_loop_disarm(&loop);
                        fault_loop_expect(&loop, r, NULL);
                        assert_memory_equal(s.said, replies[i].said, s.n);
                        assert_true(loop.hit || s.n == strlen(replies[i].said));
                        assert_int_equal(ledger_used(&ledger), 0);
                }
                reply_rig_deinit(&rig);
        }
}

static void test_budgets(void **state) {
        for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                struct ledger ledger = LEDGER_INIT((size_t)4 << 20);
                struct saying all = {.n = 0};
                struct reply_rig rig;
                size_t peak;

                open_reply(i, &rig, &ids);
                assert_int_equal(run(&rig, &ids, &ledger, &all), 0);
                peak = ledger_peak(&ledger);
                assert_true(peak > 5000);
                for (size_t budget = 0; budget < peak; budget += 1 + (peak - budget) / 20) {
                        struct ledger small = LEDGER_INIT(budget);
                        struct saying s = {.n = 0};
                        int r = run(&rig, &ids, &small, &s);

                        assert_true(r == -ERR_LIMIT || r == -ERR_TOO_LARGE);
                        assert_memory_equal(s.said, replies[i].said, s.n);
                        assert_int_equal(ledger_used(&small), 0);
                }
                reply_rig_deinit(&rig);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_allocations),
                cmocka_unit_test(test_budgets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
