/* SPDX-License-Identifier: MIT */
/*
 * Recorded requests of real clients are read: each body of /v1/chat/completions and /v1/completions in the folder of
 * traces. The one exception is an old client that sends a text as `stream` and cannot stream at all: it is told
 * which field is wrong.
 */
#include "unit/gateway/openai-rig.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "util/shared.h"
#include "util/test.h"

/* Traces show the first tool, and the names of the others in a string that no client sends. */
static void drop_remark(json_t *body) {
        json_t *tools = json_object_get(body, "tools");
        size_t n = json_array_size(tools);

        if (n > 0 && json_is_string(json_array_get(tools, n - 1)))
                json_array_remove(tools, n - 1);
}

static size_t count(const json_t *body, const char *role) {
        json_t *message;
        size_t n = 0, i;

        json_array_foreach(json_object_get(body, "messages"), i, message) n +=
                strcmp(json_string_value(json_object_get(message, "role")), role) == 0;
        return n;
}

static size_t count_form(const struct form_fields *is, enum confab_role role) {
        size_t n = 0;

        for (size_t i = 0; i < is->n_messages; i++)
                n += is->messages[i].role == role;
        return n;
}

static void check_chat(const char *name, const json_t *body, const char *text) {
        struct openai_read read;
        int r = openai_rig_chat(&read, text);

        if (json_is_string(json_object_get(body, "stream"))) {
                assert_int_equal(r, -ERR_INVALID);
                assert_string_equal(read.fields.wrong, "stream");
        } else if (r != 0) {
                fail_msg("%s: %s", name, read.e.msg);
        } else {
                assert_int_equal(count_form(read.is, CONFAB_ROLE_USER), count(body, "user"));
                assert_int_equal(count_form(read.is, CONFAB_ROLE_SYSTEM), count(body, "system"));
                assert_int_equal(read.is->tools != NULL, json_object_get(body, "tools") != NULL);
                assert_int_equal(read.is->stream, json_is_true(json_object_get(body, "stream")));
                assert_int_equal(read.options.include_usage,
                        json_object_get(body, "stream_options") != NULL);
        }
        openai_rig_free(&read);
}

static void check_text(const char *name, const char *text) {
        struct openai_read read;

        if (openai_rig_text(&read, text) != 0)
                fail_msg("%s: %s", name, read.e.msg);
        openai_rig_free(&read);
}

/* 1: the trace is of this dialect. */
static int check_trace(const char *folder, const char *name) {
        char path[5000];
        json_error_t error;
        json_t *trace, *body;
        const char *where;
        char *text;
        int is_ours = 1;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        trace = json_load_file(path, 0, &error);
        if (!trace)
                fail_msg("%s: %s", path, error.text);
        body = json_object_get(trace, "body");
        where = json_string_value(json_object_get(trace, "path"));
        drop_remark(body);
        text = json_dumps(body, JSON_ENCODE_ANY);
        assert_non_null(text);
        if (where && strcmp(where, "/v1/chat/completions") == 0)
                check_chat(name, body, text);
        else if (where && strcmp(where, "/v1/completions") == 0)
                check_text(name, text);
        else
                is_ours = 0;
        free(text);
        json_decref(trace);
        return is_ours;
}

static void test_traces(void **state) {
        const char *folder = test_shared("../facts/http/traces");
        struct dirent *entry;
        int n = 0;
        DIR *dir;

        if (!folder) {
                print_message("no recorded traces (CONFAB_SHARED): skipped\n");
                skip();
                return;
        }
        dir = opendir(folder);
        assert_non_null(dir);
        while ((entry = readdir(dir))) {
                size_t length = strlen(entry->d_name);

                if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0)
                        n += check_trace(folder, entry->d_name);
        }
        closedir(dir);
        assert_true(n >= 30);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_traces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
