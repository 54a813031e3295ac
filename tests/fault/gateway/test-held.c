/* SPDX-License-Identifier: MIT */
/*
 * What a history makes the gateway hold grows as the history does, however it is cut into messages, calls and results;
 * and there are limits, within which telling it to the daemon takes no time that others would notice.
 */
#include "base/util.h"
#include "client/gateway/talk-private.h"
#include "fault/count.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes held while a history of @n parts, as @put makes them, is told; -1: it is refused. */
static long long held(size_t n, bool plain, void (*put)(struct form *form, size_t i)) {
        struct talk *talk = calloc(1, sizeof(*talk));
        struct form *form;
        size_t before;
        struct err e;
        int r;

        assert_non_null(talk);
        assert_int_equal(form_new(&form, NULL), 0);
        for (size_t i = 0; i < n; i++)
                put(form, i);
        talk->form = form;
        talk->fields = form_fields(form);
        talk->plain = plain;
        before = count_live();
        count_begin(NULL);
        r = talk_tell_messages(talk, &e);
        if (r < 0)
                assert_int_equal(e.code, ERR_INVALID);
        form_free(form);
        free(talk);
        return r < 0 ? -1 : (long long)(count_peak() - before);
}

static void add_call(struct form *form, const char *id) {
        struct confab_call *call = form_add_call(form);

        assert_non_null(call);
        *call = (struct confab_call){.id = id, .name = "f", .arguments = "{}"};
}

static void add_result(struct form *form, const char *id) {
        struct confab_result *result = form_add_result(form);

        assert_non_null(result);
        *result = (struct confab_result){.call_id = id, .text = "r"};
}

/* Each is told with the one before. */
static void put_call(struct form *form, size_t i) {
        assert_non_null(form_add_message(form, CONFAB_ROLE_ASSISTANT));
        add_call(form, i % 2 ? "a" : NULL);
}

static void put_both(struct form *form, size_t i) {
        put_call(form, i);
        assert_non_null(form_add_message(form, CONFAB_ROLE_TOOL));
        add_result(form, i % 2 ? "a" : NULL);
}

/* All calls, in one message, then all results, in one each. */
static size_t n_all;
static void put_in_turn(struct form *form, size_t i) {
        if (i == 0)
                assert_non_null(form_add_message(form, CONFAB_ROLE_ASSISTANT));
        if (i < n_all / 2) {
                add_call(form, "a");
        } else {
                assert_non_null(form_add_message(form, CONFAB_ROLE_TOOL));
                add_result(form, "b");
        }
}

static void put_text(struct form *form, size_t i) {
        struct confab_message *message =
                form_add_message(form, i % 2 ? CONFAB_ROLE_ASSISTANT : CONFAB_ROLE_USER);

        assert_non_null(message);
        message->text = "x";
        message->text_size = 1;
}

static void test_growth(void **state) {
        void (*const kinds[])(struct form *, size_t) = {put_call, put_both, put_in_turn, put_text};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                for (int plain = 0; plain < 2; plain++) {
                        long long few, many;

                        n_all = 4000;
                        few = held(n_all, plain, kinds[i]);
                        n_all = 16000;
                        many = held(n_all, plain, kinds[i]);
                        if (few <= 0 || many > 6 * few)
                                fail_msg("kind %zu: %lld bytes for 4000, %lld for 16000", i, few,
                                        many);
                }
}

static void test_limits(void **state) {
        (void)state;
        assert_true(held(16384, false, put_call) > 0);
        assert_int_equal(held(16385, false, put_call), -1);
        assert_true(held(16384, true, put_both) > 0);
        assert_int_equal(held(16385, true, put_both), -1);
        assert_true(held(65536, false, put_text) > 0);
        assert_int_equal(held(65537, false, put_text), -1);
        n_all = 2 * 16385;
        assert_int_equal(held(n_all, true, put_in_turn), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_growth),
                cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
