/* SPDX-License-Identifier: MIT */
/* Talks at places that the client names: by a name, by a turn, and of their own. */
#include "talk-rig.h"

static void look_at_window(struct harness *h, struct conv *ret) {
        struct client *c = harness_client(h);

        assert_int_equal(client_get_name(c, "window", ret), 0);
        client_free(c);
        rig_look(h, ret->id, ret);
}

/* The name stays on the branch that was asked for last, and the older one is kept. */
static void test_named(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        struct conv list[RIG_CONVERSATIONS], conv;
        uint64_t id;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.place = FORM_NAMED;
        rig.wants.conversation = "window";
        history_say(&history, 'u', "My name is Bela.");
        rig_chat(&rig, &history, &said);
        id = said.place[0].conversation;
        history_say(&history, 'u', "What is my name?");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].reply_turn, 3);
        assert_int_equal(rig_list(h, list), 1);
        /* Another second question. */
        history_cut(&history, 2);
        history_say(&history, 'u', "I have a cat called Tom.");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].input_turn, 2);
        assert_int_equal(rig_list(h, list), 2);
        assert_int_equal(list[1].n_turns, 4);
        assert_int_equal(list[1].parent, id);
        look_at_window(h, &conv);
        assert_int_equal(conv.id, id);
        assert_int_equal(conv.n_turns, 4);
        assert_string_equal(conv.texts[2], "I have a cat called Tom.");
        conv_deinit(&conv);
        rig_look(h, list[1].id, &conv);
        assert_string_equal(conv.texts[2], "What is my name?");
        conv_deinit(&conv);
        /* Another conversation altogether under the same name. */
        history_cut(&history, 0);
        history_say(&history, 's', "You are brief.");
        history_say(&history, 'u', "Hello!");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].input_turn, 0);
        assert_int_equal(rig_list(h, list), 3);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* What fails leaves neither an empty conversation nor a keeper. */
static void test_named_fails(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct conv list[RIG_CONVERSATIONS], conv;
        struct talk_rig rig;
        struct said said;
        char *text = calloc(1, 20001);

        assert_non_null(text);
        memset(text, 'x', 20000);
        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.place = FORM_NAMED;
        rig.wants.conversation = "window";
        history_say(&history, 'u', text);
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_string_equal(said.code, "context_length_exceeded");
        rig_settle(&rig);
        assert_int_equal(rig_list(h, list), 0);
        history_cut(&history, 0);
        history_say(&history, 'u', "Hello!");
        rig_chat(&rig, &history, &said);
        history_cut(&history, 0);
        history_say(&history, 'u', text);
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_string_equal(said.code, "context_length_exceeded");
        rig_settle(&rig);
        assert_int_equal(rig_list(h, list), 1);
        look_at_window(h, &conv);
        assert_string_equal(conv.texts[0], "Hello!");
        assert_int_equal(conv.n_turns, 2);
        conv_deinit(&conv);
        free(text);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* Messages behind a turn: at the end they are appended, before it there is a fork. */
static void test_at(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t id;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.place = FORM_NEW;
        history_say(&history, 'u', "My name is Bela.");
        rig_chat(&rig, &history, &said);
        id = said.place[0].conversation;
        history_cut(&history, 0);
        history_say(&history, 'u', "What is my name?");
        rig.wants.place = FORM_AT;
        rig.wants.conversation_id = id;
        rig.wants.at_turn = 2;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_false(said.failed);
        assert_int_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].input_turn, 2);
        assert_int_equal(said.place[0].reply_turn, 3);
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_false(said.failed);
        assert_int_not_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].reply_turn, 3);
        rig.wants.at_turn = FORM_AT_END;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_int_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].input_turn, 4);
        /* Another try of the last reply takes no message. */
        rig.wants.at_turn = 5;
        rig_talk(&rig, rig_form(&rig, NULL), &said);
        assert_false(said.failed);
        assert_int_not_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].reply_turn, 5);
        /* From its very beginning. */
        rig.wants.at_turn = 0;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_false(said.failed);
        assert_int_not_equal(said.place[0].conversation, id);
        assert_int_equal(said.place[0].reply_turn, 1);
        rig.wants.at_turn = 99;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_int_equal(said.status, 404);
        rig.wants.conversation_id = 4711;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_int_equal(said.status, 404);
        assert_string_equal(said.code, "not_found");
        history_deinit(&history);
        rig_deinit(&rig);
}

/* Raw text and tokens have a conversation of their own. */
static void test_raw(void **state) {
        struct harness *h = *state;
        struct talk_rig rig;
        struct said said, again;
        int32_t tokens[] = {20, 21, 22};

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.input = FORM_RAW;
        rig.wants.raw = "Once upon a time";
        rig.wants.raw_size = strlen(rig.wants.raw);
        rig_talk(&rig, rig_form(&rig, NULL), &said);
        assert_false(said.failed);
        assert_true(said.n_deltas > 0);
        rig_talk(&rig, rig_form(&rig, NULL), &again);
        assert_int_not_equal(again.place[0].conversation, said.place[0].conversation);
        assert_string_equal(again.text[0], said.text[0]);
        assert_int_equal(again.place[0].reply_turn, 1);
        rig.wants.input = FORM_TOKENS;
        rig.wants.tokens = tokens;
        rig.wants.n_tokens = 3;
        rig_talk(&rig, rig_form(&rig, NULL), &said);
        assert_false(said.failed);
        assert_int_equal(said.usage[0].n_prompt, 3);
        tokens[1] = 1 << 24;
        rig_talk(&rig, rig_form(&rig, NULL), &said);
        assert_int_equal(said.status, 400);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_named),
                daemon_test(test_named_fails),
                daemon_test(test_at),
                daemon_test(test_raw),
        };

        return DAEMON_TESTS_MAIN(tests);
}
