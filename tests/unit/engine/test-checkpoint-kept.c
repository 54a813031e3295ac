/* SPDX-License-Identifier: MIT */
/*
 * Which checkpoints stay, and which go, as one sees it who comes back: those of the latest turns, whatever is
 * thinned out; places in the middle of long texts; places where others begin.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "edit-rig.h"
#include "kinds-rig.h"
#include "util/test.h"

static struct answer A, B, T;

/* --- the latest turns --- */

/* Other words in the place of message number @i of the conversation @T: what of the turns before is computed
 * again. */
static uint32_t edit_message(struct erig *r, uint64_t c, uint32_t i) {
        struct engine_request q = edit_request(c, i, "Other words.", 4);
        uint32_t end = T.turns[i - 1].end;

        q.ignore_eos = true;
        if (erig_do(r, &q, &B) != ENGINE_DONE)
                fail_msg("edit: %s", B.err.msg);
        return kind_computed_of(&B, end);
}

/* However many turns there are: the last message is edited, the last reply is generated once more, and the
 * conversation goes on, without computing more of its history than the last token of a reply. */
static void test_latest(void **state) {
        enum { N = 24 };

        EACH_KIND(k) {
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                c = erig_new(&r, NULL, "Be kind.");
                for (unsigned i = 0; i < N; i++) {
                        uint32_t again;

                        kind_say(&r, c, i, &A);
                        if (i < KIND_LEAST / 2)
                                continue;
                        kind_regenerate(&r, c, &B);
                        answer_same(&A, &B);
                        erig_get(&r, c, &T);
                        assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                        again = edit_message(&r, c, T.n_turns - 2);
                        if (again > 1)
                                fail_msg("%s, message %u: %u computed again", k->arch, i, again);
                }
                kind_close(&r);
        }
}

/* The same where replies are long enough for places in their middle, and after all of them. */
static void test_latest_long(void **state) {
        EACH_KIND(k) {
                struct engine_request q;
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                c = kind_talk(&r, 12, &A);
                q = erig_long_request(c, erig_words(150, 1), 1700);
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("%s: %s", k->arch, A.err.msg);
                erig_get(&r, c, &T);
                assert_true(T.turns[T.n_turns - 2].end > 700);
                kind_regenerate(&r, c, &B);
                assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                assert_in_range(edit_message(&r, c, T.n_turns - 2), 0, 1);
                kind_close(&r);
        }
}

/* A reply that calls tools several times is many turns. The message before them is edited all the same, and the
 * last reply is generated anew. */
static void test_latest_tools(void **state) {
        static const struct engine_call call = {"c1", "f", "{}"};
        static const struct engine_result result = {.call_id = "c1", .text = "3"};

        EACH_KIND(k) {
                struct engine_request q = erig_request(ENGINE_OPEN, 0);
                struct erig r;
                uint32_t message;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                q.system = "Be kind.";
                q.tools =
                        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]";
                if (erig_do(&r, &q, &A) != ENGINE_CONV)
                        fail_msg("open: %s", A.err.msg);
                c = A.conv.id;
                for (unsigned i = 0; i < 5; i++)
                        kind_say(&r, c, i, &A);
                erig_get(&r, c, &T);
                message = T.n_turns;
                kind_say(&r, c, 5, &A);
                for (unsigned i = 0; i < 8; i++) {
                        q = erig_request(ENGINE_CONTINUE, c);
                        q.input = ENGINE_INPUT_GIVEN;
                        q.calls = &call;
                        q.n_calls = 1;
                        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                                fail_msg("call: %s", A.err.msg);
                        q = erig_long_request(c, "", 4);
                        q.input = ENGINE_INPUT_RESULTS;
                        q.text = NULL;
                        q.results = &result;
                        q.n_results = 1;
                        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                                fail_msg("result: %s", A.err.msg);
                }
                kind_regenerate(&r, c, &B);
                answer_same(&A, &B);
                erig_get(&r, c, &T);
                assert_int_equal(kind_computed_of(&B, T.turns[T.n_turns - 2].end), 0);
                assert_int_equal(T.turns[message].role, ENGINE_USER);
                assert_in_range(edit_message(&r, c, message), 0, 1);
                kind_close(&r);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_latest),
                cmocka_unit_test(test_latest_long),
                cmocka_unit_test(test_latest_tools),
        };

        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
