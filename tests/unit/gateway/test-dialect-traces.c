/* SPDX-License-Identifier: MIT */
/* Recorded requests of real clients: every one is taken, and histories go on where they ended. */
#include "client/gateway/anthropic.h"
#include "client/gateway/ollama.h"
#include "unit/gateway/dialect-rig.h"
#include "unit/gateway/traces-rig.h"
#include "util/test.h"
#include <string.h>

struct seen {
        struct form *form; /* of the last one, owned */
        unsigned n_anthropic, n_ollama;
};

static bool check(const struct trace *trace, void *userdata) {
        struct seen *seen = userdata;
        bool anthropic = strncmp(trace->path, "/v1/messages", 12) == 0;
        struct anthropic_wish anthropic_wish;
        struct ollama_wish ollama_wish;
        struct err e = {0};
        int r;

        if (!anthropic && strncmp(trace->path, "/api/", 5) != 0)
                return false;
        form_free(seen->form);
        assert_int_equal(form_new(&seen->form, NULL), 0);
        r = anthropic ? anthropic_parse(seen->form, trace->body, false, &anthropic_wish, &e)
                      : ollama_parse_chat(seen->form, trace->body, &ollama_wish, &e);
        if (r < 0)
                fail_msg("%s: %s", trace->name, e.msg);
        seen->n_anthropic += anthropic;
        seen->n_ollama += !anthropic;
        return true;
}

static void test_all(void **state) {
        struct seen seen = {0};

        traces_check_all(check, &seen);
        form_free(seen.form);
        assert_true(seen.n_anthropic >= 7);
        assert_true(seen.n_ollama >= 2);
}

/* What Claude Code sends later begins with what it has sent before. */
static void test_goes_on(void **state) {
        static const char *const names[] = {"claude-code-2.1.197-1-first.json",
                "claude-code-2.1.197-2-second.json", "claude-code-2.1.197-3-tool-result.json"};
        static const size_t n_messages[] = {3, 5, 7};
        struct seen seen = {0};
        char before[16384] = "";

        for (size_t i = 0; i < 3; i++) {
                const char *said;

                assert_true(traces_check(names[i], check, &seen));
                said = rig_messages(seen.form);
                assert_int_equal(form_fields(seen.form)->n_messages, n_messages[i]);
                assert_string_equal(
                        form_fields(seen.form)->session, "8b6c97b5-7188-4920-bf7b-d6ed9e855404");
                assert_int_equal(strncmp(said, before, strlen(before)), 0);
                assert_true(strlen(said) > strlen(before));
                snprintf(before, sizeof(before), "%s", said);
        }
        form_free(seen.form);
        assert_non_null(strstr(before, "assistant||toolu_00000548 Bash {\"command\":\"echo hi\"}\n"
                                       "tool|toolu_00000548=hi\n"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_goes_on),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
