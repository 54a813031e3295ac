/* SPDX-License-Identifier: MIT */
/* Recorded requests of real clients: every one is taken, and histories go on where they ended. */
#include "client/gateway/anthropic.h"
#include "client/gateway/ollama.h"
#include "unit/gateway/dialect-rig.h"
#include "util/shared.h"
#include "util/test.h"
#include <dirent.h>
#include <string.h>

/* The folder of the traces, or NULL. */
static const char *folder(void) {
        const char *path = test_shared("../facts/http/traces");

        if (!path)
                print_message("no recorded traces (CONFAB_SHARED): skipped\n");
        return path;
}

/* Long lists of tools are cut in the recordings: a text says what is missing. */
static void drop_notes(json_t *body) {
        json_t *tools = json_object_get(body, "tools");

        for (size_t i = json_array_size(tools); i-- > 0;)
                if (json_is_string(json_array_get(tools, i)))
                        json_array_remove(tools, i);
}

static json_t *read_trace(const char *name) {
        char path[4096];
        json_t *trace;

        snprintf(path, sizeof(path), "%s/%s", folder(), name);
        trace = json_load_file(path, 0, NULL);
        assert_non_null(trace);
        drop_notes(json_object_get(trace, "body"));
        return trace;
}

static struct form *parse_trace(const char *name) {
        json_t *trace = read_trace(name), *body = json_object_get(trace, "body");
        const char *path = json_string_value(json_object_get(trace, "path"));
        struct form *form = NULL;
        struct anthropic_wish anthropic;
        struct ollama_wish ollama;
        struct err e = {0};
        int r;

        assert_int_equal(form_new(&form, NULL), 0);
        if (strncmp(path, "/v1/messages", 12) == 0)
                r = anthropic_parse(form, body, false, &anthropic, &e);
        else
                r = ollama_parse_chat(form, body, &ollama, &e);
        if (r < 0)
                fail_msg("%s: %s", name, e.msg);
        json_decref(trace);
        return form;
}

static void test_all(void **state) {
        unsigned n_anthropic = 0, n_ollama = 0;
        struct dirent *entry;
        DIR *dir;

        if (!folder())
                skip();
        dir = opendir(folder());
        assert_non_null(dir);
        while ((entry = readdir(dir))) {
                const char *path, *dot = strrchr(entry->d_name, '.');
                json_t *trace;

                if (!dot || strcmp(dot, ".json") != 0)
                        continue;
                trace = read_trace(entry->d_name);
                path = json_string_value(json_object_get(trace, "path"));
                if (strncmp(path, "/v1/messages", 12) == 0)
                        n_anthropic++;
                else if (strncmp(path, "/api/", 5) == 0)
                        n_ollama++;
                else
                        path = NULL;
                json_decref(trace);
                if (path)
                        form_free(parse_trace(entry->d_name));
        }
        closedir(dir);
        assert_true(n_anthropic >= 7);
        assert_true(n_ollama >= 2);
}

/* What Claude Code sends later begins with what it has sent before. */
static void test_goes_on(void **state) {
        static const char *const names[] = {"claude-code-2.1.197-1-first.json",
                "claude-code-2.1.197-2-second.json", "claude-code-2.1.197-3-tool-result.json"};
        static const size_t n_messages[] = {3, 5, 7};
        char before[16384] = "";

        if (!folder())
                skip();
        for (size_t i = 0; i < 3; i++) {
                struct form *form = parse_trace(names[i]);
                const char *said = rig_messages(form);

                assert_int_equal(form_fields(form)->n_messages, n_messages[i]);
                assert_string_equal(
                        form_fields(form)->session, "8b6c97b5-7188-4920-bf7b-d6ed9e855404");
                assert_int_equal(strncmp(said, before, strlen(before)), 0);
                assert_true(strlen(said) > strlen(before));
                snprintf(before, sizeof(before), "%s", said);
                form_free(form);
        }
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
