/* SPDX-License-Identifier: MIT */
/*
 * Forced calls: the grammar that templates give, for each way in which published ones write calls, and
 * why there is none. What it allows is tested in lib/grammar and with a model (engine/force).
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "unit/chat/tool-forms.h"
#include "util/test.h"

#define THINKING(size, marks)                                                                      \
        "(of" size ":" marks "t8:</think>|t7:<think>f" size ":" marks "t8:</think>|)w"
#define HERMES_BEGIN "t22:<tool_call>\n{\"name\": \""
#define HERMES_MIDDLE "t16:\", \"arguments\": "
#define HERMES_END "t14:}\n</tool_call>"
#define NO_PARAMETERS "j36:{\"type\": \"object\", \"properties\": {}}"
#define TIME "t4:time"
#define HERMES                                                                                     \
        THINKING("9", "</think>\0") "(" HERMES_BEGIN TIME HERMES_MIDDLE NO_PARAMETERS HERMES_END ")"
#define MISTRAL                                                                                    \
        THINKING("22", "</think>\0[TOOL_CALLS]\0")                                                 \
        "(m12:[TOOL_CALLS]t12: [{\"name\": \"" TIME HERMES_MIDDLE NO_PARAMETERS                    \
        "t9:, \"id\": \"i9:t3:\"}])"

static const struct {
        const char *form, *grammar;
        size_t size;
} forced[] = {
        {"in the system message", HERMES, sizeof(HERMES) - 1},
        {"in the system message, thinking", HERMES, sizeof(HERMES) - 1},
        {"before the last message of the user", MISTRAL, sizeof(MISTRAL) - 1},
};
static size_t n_forced, n_refused;

static void check_form(const struct vocab_build *v, const struct form *form, const struct chat *c) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        struct err e;
        int r = chat_force_call(c, TOOLS, strlen(TOOLS), "time", &b, &e);

        (void)v;
        for (size_t i = 0; i < sizeof(forced) / sizeof(forced[0]); i++)
                if (strcmp(forced[i].form, form->name) == 0) {
                        assert_int_equal(r, 0);
                        assert_int_equal(b.size, forced[i].size);
                        assert_memory_equal(b.data, forced[i].grammar, b.size);
                        n_forced++;
                        return;
                }
        assert_int_equal(r, -ERR_UNSUPPORTED);
        assert_non_null(strstr(e.msg, "this model can't be made to call a tool: "));
        n_refused++;
}

static void test_forms(void **state) {
        (void)state;
        tool_forms_each(check_form, 1);
        assert_int_equal(n_forced, 3);
        assert_true(n_refused > 3);
}

/* --- which functions --- */

static const struct form *hermes;
static const char *tools, *name, *want;
static enum err_code code;
static size_t most;

static void check_functions(
        const struct vocab_build *v, const struct form *form, const struct chat *c) {
        _cleanup_(buf_deinit) struct buf b = {.max = most};
        char text[4096];
        struct err e;
        int r;

        (void)v;
        if (strcmp(form->name, "in the system message") != 0)
                return;
        hermes = form;
        r = chat_force_call(c, tools, strlen(tools), name, &b, &e);
        assert_int_equal(r, code == ERR_NONE ? 0 : -(int)code);
        snprintf(text, sizeof(text), "%s",
                code == ERR_NONE ? (const char *)memchr(b.data, 'w', b.size) : e.msg);
        if (!strstr(text, want))
                fail_msg("'%s' has no '%s'", text, want);
}

static void check(
        const char *definitions, const char *function, enum err_code fails, const char *has) {
        tools = definitions;
        name = function;
        code = fails;
        want = has;
        hermes = NULL;
        tool_forms_each(check_functions, 1);
        assert_non_null(hermes);
}

static void test_functions(void **state) {
        (void)state;
        check("[{\"name\":\"a\"},{\"type\":\"function\",\"function\":{\"name\":\"b.c-d_e\"}}]",
                NULL, ERR_NONE,
                HERMES_BEGIN "t1:a" HERMES_MIDDLE
                             "j33:{\"type\":\"object\",\"properties\":{}}" HERMES_END
                             "|" HERMES_BEGIN "t7:b.c-d_e");
        check("[{\"name\":\"a\",\"parameters\":{}}]", "a", ERR_NONE,
                "j17:{\"type\":\"object\"}t14:");
        check("[{\"name\":\"a\",\"parameters\":{ \"required\":[\"x\"]}}]", "a", ERR_NONE,
                "j35:{\"type\":\"object\", \"required\":[\"x\"]}t14:");
        check("[{\"name\":\"a\",\"parameters\":null}]", "a", ERR_NONE,
                "j33:{\"type\":\"object\",\"properties\":{}}t14:");
        check(TOOLS, "tim", ERR_INVALID, "no tool is named 'tim'");
        check(TOOLS, "times", ERR_INVALID, "no tool is named 'times'");
        check("[{\"name\":\"a\\nb\"}]", NULL, ERR_UNSUPPORTED, "\"a\\nb\" can't be forced");
        check("[{\"name\":\"a\",\"parameters\":{\"type\":\"array\"}}]", NULL, ERR_INVALID,
                "another type than object");
        most = 60;
        check(TOOLS, "time", ERR_TOO_LARGE, "longer than 60 bytes");
        most = 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_forms),
                cmocka_unit_test(test_functions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
