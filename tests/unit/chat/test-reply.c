/* SPDX-License-Identifier: MIT */
/* Replies taken apart: what each format's marks mean, however the text is cut into tokens. */
#include <stdlib.h>
#include <string.h>

#include "unit/chat/reply-cases.h"
#include "unit/chat/reply-rig.h"
#include "util/test.h"

static const char hermes[] = "<tool_call></tool_call> '</think>'";

static void read_cut(const struct reply_rig *rig, const char *text, enum reply_cut cut,
        uint64_t random, struct reply_heard *ret) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;

        reply_rig_cut(rig, text, strlen(text), cut, random, &ids);
        assert_int_equal(reply_rig_read(rig, ids.ids, ids.n, true, ret, NULL), 0);
}

static void assert_said(const struct reply_heard *h, const char *said) {
        assert_string_equal(h->said.size ? (const char *)h->said.data : "", said);
}

/* The reply, in every way of cutting. */
static void check_reply(const char *template_text, const char *header, const char *tools,
        const char *text, const char *said) {
        struct reply_rig rig;

        reply_rig_init(&rig);
        reply_rig_pieces(&rig, text, strlen(text), 7);
        reply_rig_load(&rig, template_text);
        rig.header = header;
        rig.tools = tools;
        for (uint64_t random = 0; random < 12; random++) {
                _cleanup_(reply_heard_deinit) struct reply_heard heard = REPLY_HEARD_NULL;
                enum reply_cut cut = random < 2 ? (enum reply_cut)(random * 2) : REPLY_CUT_RANDOM;

                read_cut(&rig, text, cut, random * 1234567, &heard);
                assert_said(&heard, said);
        }
        reply_rig_deinit(&rig);
}

static void test_hermes(void **state) {
        check_reply(hermes, NULL, NULL, "Hello", "text<Hello> ");
        check_reply(hermes, NULL, NULL,
                "<think>\nLet me see.\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"f\", "
                "\"arguments\": {\"a\": [1, \"x\"]}}\n</tool_call>\n<tool_call>\n{\"name\": "
                "\"g\"}\n</tool_call>",
                "reasoning<Let me see.> text<One moment.> call f<{\"a\": [1, \"x\"]}> call g<{}> ");
        check_reply(hermes, "assistant\n<think>\n", NULL, "Hm.\n</think>\n\nYes",
                "reasoning<Hm.> text<Yes> ");
        check_reply(hermes, "assistant\n<think>\n\n</think>\n\n", NULL, "Yes", "text<Yes> ");
}

static void test_formats(void **state) {
        for (size_t i = 0; i < reply_n_cases; i++) {
                const struct reply_case *c = &reply_cases[i];

                print_message("%s: %.60s\n", c->format, c->text);
                check_reply(c->template_text, c->header, reply_case_tools, c->text, c->said);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hermes),
                cmocka_unit_test(test_formats),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
