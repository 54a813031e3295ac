/* SPDX-License-Identifier: MIT */
/* A reply as one object. */
#include "base/err.h"
#include "base/util.h"
#include "client/gateway/own-reply.h"
#include "util/test.h"
#include <jansson.h>
#include <string.h>

static int tell(struct own_reply *reply, const struct confab_delta *delta) {
        const struct confab_event event = {.kind = CONFAB_EVENT_DELTA, .delta = delta};

        return own_reply_add(reply, &event);
}

static json_t *end(struct own_reply *reply) {
        const struct confab_done done = {.finish = CONFAB_FINISH_STOP, .seed = UINT64_MAX};
        const struct confab_event event = {.kind = CONFAB_EVENT_DONE, .final = true, .done = &done};
        struct buf out = BUF_NULL;
        json_t *root;

        assert_int_equal(own_reply_add(reply, &event), 0);
        assert_int_equal(own_reply_write(reply, &event, &out), 0);
        root = json_loadb((char *)out.data, out.size, 0, NULL);
        assert_non_null(root);
        buf_deinit(&out);
        own_reply_free(reply);
        return root;
}

static const char *text_of(const json_t *object, const char *name) {
        const char *text = json_string_value(json_object_get(object, name));

        assert_non_null(text);
        return text;
}

static void test_parts(void **state) {
        struct own_reply *reply = own_reply_new();
        const struct confab_accepted accepted = {.conversation = 3, .revision = 4};
        const struct confab_event event = {.kind = CONFAB_EVENT_ACCEPTED, .accepted = &accepted};
        const struct confab_token token = {.token = 9};
        const struct confab_part first[] = {
                {.index = 2, .kind = CONFAB_PART_REASONING, .text = "hm", .text_size = 2},
                {.index = 2,
                        .kind = CONFAB_PART_REASONING,
                        .text = "m",
                        .text_size = 1,
                        .ends = true},
                {.index = 3, .kind = CONFAB_PART_TEXT, .text = "a", .text_size = 1}};
        const struct confab_part second[] = {
                {.index = 3, .kind = CONFAB_PART_TEXT, .text = "b", .text_size = 1, .ends = true},
                {.index = 4,
                        .kind = CONFAB_PART_CALL,
                        .text = "{",
                        .text_size = 1,
                        .call_id = "i",
                        .name = "f"},
                {.index = 4,
                        .kind = CONFAB_PART_CALL,
                        .text = "",
                        .ends = true,
                        .broken = "cut off"}};
        json_t *root, *parts;

        assert_non_null(reply);
        assert_int_equal(own_reply_add(reply, &event), 0);
        assert_int_equal(
                tell(reply,
                        &(struct confab_delta){
                                .parts = first, .n_parts = 3, .tokens = &token, .n_tokens = 1}),
                0);
        assert_int_equal(
                tell(reply,
                        &(struct confab_delta){
                                .parts = second, .n_parts = 3, .tokens = &token, .n_tokens = 1}),
                0);
        root = end(reply);
        assert_string_equal(text_of(root, "text"), "ab");
        assert_int_equal(json_array_size(json_object_get(root, "tokens")), 2);
        parts = json_object_get(root, "parts");
        assert_int_equal(json_array_size(parts), 3);
        assert_string_equal(text_of(json_array_get(parts, 0), "text"), "hmm");
        assert_string_equal(text_of(json_array_get(parts, 1), "text"), "ab");
        assert_string_equal(text_of(json_array_get(parts, 2), "text"), "{");
        assert_string_equal(text_of(json_array_get(parts, 2), "call_id"), "i");
        assert_string_equal(text_of(json_array_get(parts, 2), "name"), "f");
        assert_string_equal(text_of(json_array_get(parts, 2), "broken"), "cut off");
        assert_true(json_is_true(json_object_get(json_array_get(parts, 2), "ends")));
        assert_int_equal(
                json_integer_value(json_object_get(json_object_get(root, "accepted"), "revision")),
                4);
        assert_string_equal(text_of(json_object_get(root, "done"), "seed"), "18446744073709551615");
        json_decref(root);
}

static void test_text(void **state) {
        struct own_reply *reply = own_reply_new();
        json_t *root;

        assert_int_equal(tell(reply, &(struct confab_delta){.text = "a\n", .text_size = 2}), 0);
        assert_int_equal(
                tell(reply, &(struct confab_delta){.text = "\xc3\xa9", .text_size = 2}), 0);
        root = end(reply);
        assert_string_equal(text_of(root, "text"), "a\n\xc3\xa9");
        assert_null(json_object_get(root, "parts"));
        assert_null(json_object_get(root, "accepted"));
        json_decref(root);
        root = end(own_reply_new());
        assert_string_equal(text_of(root, "text"), "");
        assert_int_equal(json_array_size(json_object_get(root, "tokens")), 0);
        json_decref(root);
}

static void test_bound(void **state) {
        size_t size = 1u << 20;
        char *text = test_calloc(size, 1);
        struct own_reply *reply = own_reply_new();
        int r = 0;
        unsigned n = 0;

        memset(text, 'a', size);
        for (; r == 0 && n < 1000; n++)
                r = tell(reply, &(struct confab_delta){.text = text, .text_size = size});
        assert_int_equal(r, -ERR_TOO_LARGE);
        assert_int_equal(n, OWN_REPLY_MAX / size + 1);
        own_reply_free(reply);
        test_free(text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
