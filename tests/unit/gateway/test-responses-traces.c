/* SPDX-License-Identifier: MIT */
/* Recorded requests of real clients are read: each body of /v1/responses in the folder of traces. */
#include <string.h>

#include "unit/gateway/responses-rig.h"
#include "unit/gateway/traces-rig.h"
#include "util/test.h"

/* Ids of a mock server are none of ours: those that name what is missing are taken out, all others stay. */
static size_t drop_references(json_t *body) {
        json_t *input = json_object_get(body, "input");
        size_t n = 0;

        for (size_t i = json_array_size(input); i-- > 0;) {
                json_t *type = json_object_get(json_array_get(input, i), "type");

                if (type && strcmp(json_string_value(type), "item_reference") == 0) {
                        json_array_remove(input, i);
                        n++;
                }
        }
        return n;
}

static size_t count(const json_t *body, const char *name, const char *value) {
        json_t *items = json_object_get(body, "input"), *item;
        size_t n = 0, i;

        if (json_is_string(items))
                return strcmp(value, "user") == 0;
        json_array_foreach(items, i, item) {
                const char *is = json_string_value(json_object_get(item, name));

                n += is && strcmp(is, value) == 0;
        }
        return n;
}

static void check_form(const struct form_fields *is, const json_t *body) {
        size_t n_user = 0, n_system = 0, n_calls = 0, n_results = 0;

        for (size_t i = 0; i < is->n_messages; i++) {
                n_user += is->messages[i].role == CONFAB_ROLE_USER;
                n_system += is->messages[i].role == CONFAB_ROLE_SYSTEM;
                n_calls += is->messages[i].n_calls;
                n_results += is->messages[i].n_results;
        }
        assert_int_equal(n_user, count(body, "role", "user"));
        assert_int_equal(n_system, count(body, "role", "developer") +
                                           count(body, "role", "system") +
                                           (json_object_get(body, "instructions") != NULL));
        assert_int_equal(n_calls, count(body, "type", "function_call"));
        assert_int_equal(n_results, count(body, "type", "function_call_output"));
        assert_int_equal(is->stream, json_is_true(json_object_get(body, "stream")));
        assert_int_equal(is->tools != NULL, json_array_size(json_object_get(body, "tools")) > 0);
}

static bool check(const struct trace *trace, void *userdata) {
        size_t *n_references = userdata;
        struct responses_body read;
        json_t *body = trace->body;

        if (strcmp(trace->path, "/v1/responses") != 0)
                return false;
        *n_references += drop_references(body);
        responses_rig_read_json(&read, json_incref(body));
        if (read.r < 0)
                fail_msg("%s: %s", trace->name, read.e.msg);
        check_form(read.is, body);
        assert_int_equal(
                read.wish.previous != NULL, json_object_get(body, "previous_response_id") != NULL);
        assert_int_equal(read.wish.store, !json_is_false(json_object_get(body, "store")));
        responses_rig_free(&read);
        return true;
}

static void test_traces(void **state) {
        size_t n_references = 0;
        int n = traces_check_all(check, &n_references);

        print_message("%d requests, %zu references\n", n, n_references);
        assert_true(n >= 14 && n_references > 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_traces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
