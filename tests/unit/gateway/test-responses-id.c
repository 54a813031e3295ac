/* SPDX-License-Identifier: MIT */
/* Ids of responses, conversations and items: one text for each, and foreign ones are none. */
#include "client/gateway/responses-place.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "util/test.h"

static void assert_same(const struct responses_id *id) {
        char text[RESPONSES_ID_SIZE], again[RESPONSES_ID_SIZE];
        struct responses_id decoded;

        responses_id_encode(id, text);
        assert_true(strlen(text) < RESPONSES_ID_SIZE);
        assert_int_equal(responses_id_decode(&decoded, text), 0);
        /* Field by field: the bytes between them may be anything. */
        assert_int_equal(decoded.kind, id->kind);
        assert_int_equal(decoded.daemon, id->daemon);
        assert_int_equal(decoded.conversation, id->conversation);
        assert_int_equal(decoded.check, id->check);
        assert_int_equal(decoded.turn, id->turn);
        assert_int_equal(decoded.part, id->part);
        assert_int_equal(decoded.n_input, id->n_input);
        assert_int_equal(decoded.n_new, id->n_new);
        assert_int_equal(decoded.revision, id->revision);
        assert_int_equal(decoded.created, id->created);
        assert_int_equal(decoded.instructions_size, id->instructions_size);
        assert_int_equal(decoded.flags, id->flags);
        responses_id_encode(&decoded, again);
        assert_string_equal(again, text);
}

static void new_id(struct responses_id *id, enum responses_id_kind kind) {
        *id = (struct responses_id){
                .kind = kind, .daemon = 0x11223344, .check = 0xaabbccdd, .conversation = 300};
}

static void test_same(void **state) {
        static const uint64_t numbers[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX};
        struct responses_id id;

        for (int kind = RESPONSES_ID_RESPONSE; kind <= RESPONSES_ID_RESULT; kind++)
                for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                        new_id(&id, (enum responses_id_kind)kind);
                        id.conversation = numbers[i] + 1;
                        if (kind != RESPONSES_ID_CONVERSATION)
                                id.turn = (uint32_t)numbers[i];
                        if (kind >= RESPONSES_ID_MESSAGE)
                                id.part = (uint32_t)numbers[i];
                        assert_same(&id);
                }
        new_id(&id, RESPONSES_ID_RESPONSE);
        id.conversation = id.revision = id.created = UINT64_MAX;
        id.turn = id.n_input = id.n_new = id.instructions_size = UINT32_MAX;
        id.flags = RESPONSES_ALL_FLAGS;
        assert_same(&id);
}

static void test_text(void **state) {
        char text[RESPONSES_ID_SIZE];
        struct responses_id id;

        new_id(&id, RESPONSES_ID_MESSAGE);
        id.turn = 5;
        id.part = 1;
        responses_id_encode(&id, text);
        assert_string_equal(text, "msg_44332211ac020501ddccbbaa");
        id.kind = RESPONSES_ID_RESULT;
        responses_id_encode(&id, text);
        assert_string_equal(text, "fco_44332211ac020501ddccbbaa");
}

static void assert_foreign(const char *text) {
        struct responses_id id = {.turn = 77};

        if (responses_id_decode(&id, text) != -ERR_NOT_FOUND)
                fail_msg("%s is taken", text);
        assert_int_equal(id.turn, 77);
}

static void test_foreign(void **state) {
        static const char *const texts[] = {"", "msg_", "resp_", "x", "msg_prev_1", "msg_00000144",
                "msg_01a200d7-d883-7cf0-8a71-b0f649f0509e", "resp_00000143",
                "msg_44332211AC020501ddccbbaa",              /* capitals */
                "item_44332211ac020501ddccbbaa",             /* an unknown kind */
                "msg_44332211ac020501ddccbba",               /* half a byte */
                "msg_44332211ac020501ddccbb",                /* a check of three bytes */
                "msg_44332211ac020501ddccbbaa00",            /* more behind it */
                "msg_443322118001020501ddccbbaa00",          /* likewise */
                "msg_44332211ac82000501ddccbbaa",            /* a number in a longer form */
                "msg_44332211000501ddccbbaa",                /* conversation 0 */
                "msg_44332211ac02ffffffff1f01ddccbbaa",      /* a turn beyond 32 bits */
                "conv_44332211ffffffffffffffffff02ddccbbaa", /* a conversation beyond 64 bits */
                "resp_44332211ac0205060106000000ddccbbaa",   /* more input than turns in front */
                "resp_44332211ac02050501060000ff01ddccbbaa", /* unknown flags */
                "msg_"
                "44332211ac020501ddccbbaa44332211ac020501ddccbbaa44332211ac020501ddccbbaa44332211ac"
                "44332211ac020501ddccbbaa44332211ac020501ddccbbaa44332211ac020501ddccbbaa44332211ac"
                "02"};
        char all[] = "conv_44332211ac02ddccbbaa";

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                assert_foreign(texts[i]);
        for (size_t n = strlen(all); n-- > 0;) {
                all[n] = '\0';
                assert_foreign(all);
        }
}

static void test_checks(void **state) {
        struct confab_run run = {.seed = 7};
        struct confab_turn turn = {.created_usec = 9};
        uint32_t by_time = responses_check_turn(&turn);

        assert_int_equal(by_time, responses_check(9));
        turn.run = &run;
        assert_int_equal(responses_check_turn(&turn), responses_check(7));
        assert_int_not_equal(responses_check_turn(&turn), by_time);
        assert_int_not_equal(responses_daemon("/run/a"), responses_daemon("/run/b"));
}

/* A reply that has just ended is stored a moment later: a Get in between finds the conversation busy and no reply. */
static void test_looks(void **state) {
        const struct responses_id id = {.turn = 1, .revision = 2};
        const struct confab_writing writing = {0};
        struct confab_conversation c = {.n_turns = 1, .revision = 2};
        const struct confab_turn *turn = NULL;

        assert_int_equal(responses_look(&id, &c, &turn), RESPONSES_UNANSWERED);
        c.busy = true;
        assert_int_equal(responses_look(&id, &c, &turn), RESPONSES_WRITING);
        c.writing = &writing;
        assert_int_equal(responses_look(&id, &c, &turn), RESPONSES_WRITING);
        c.revision = 1;
        assert_int_equal(responses_look(&id, &c, &turn), RESPONSES_GONE);
        assert_null(turn);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_same),
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_foreign),
                cmocka_unit_test(test_checks),
                cmocka_unit_test(test_looks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
