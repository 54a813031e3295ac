/* SPDX-License-Identifier: MIT */
/*
 * Recorded requests of real clients are read: each body of /v1/chat/completions and /v1/completions in the folder of
 * traces. The one exception is an old client that sends a text as `stream` and cannot stream at all: it is told
 * which field is wrong.
 */
#include <string.h>

#include "unit/gateway/openai-rig.h"
#include "unit/gateway/traces-rig.h"
#include "util/test.h"

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

static bool check(const struct trace *trace, void *userdata) {
        char *text = json_dumps(trace->body, JSON_ENCODE_ANY);
        bool is_ours = true;

        assert_non_null(text);
        if (strcmp(trace->path, "/v1/chat/completions") == 0)
                check_chat(trace->name, trace->body, text);
        else if (strcmp(trace->path, "/v1/completions") == 0)
                check_text(trace->name, text);
        else
                is_ours = false;
        free(text);
        return is_ours;
}

static void test_traces(void **state) {
        assert_true(traces_check_all(check, NULL) >= 30);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_traces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
