/* SPDX-License-Identifier: MIT */
/* Clients that resend their whole history: which conversation goes on, and what is computed. */
#include "talk-rig.h"

#define TURNS 20

static size_t count_conversations(struct harness *h) {
        struct conv list[RIG_CONVERSATIONS];

        return rig_list(h, list);
}

/* Each turn computes what is new and nothing else, also after a restart of the daemon. */
static void test_twenty_turns(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t id = 0;
        uint32_t before = 0;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        history_say(&history, 's', "You answer briefly.");
        for (int i = 0; i < TURNS; i++) {
                char text[64];

                snprintf(text, sizeof(text), "My number %d is %d.", i, 10 + i);
                history_say(&history, 'u', text);
                rig_chat(&rig, &history, &said);
                assert_int_equal(said.n_accepted, 1);
                assert_int_equal(said.n_done, 1);
                assert_int_equal(said.usage[0].n_generated > 0, 1);
                if (i == 0)
                        id = said.place[0].conversation;
                else /* the message, its marks, and the token that ends the reply before */
                        assert_true(said.n_computed[0] <= said.usage[0].n_prompt - before + 1);
                assert_int_equal(said.place[0].conversation, id);
                assert_int_equal(said.place[0].input_turn, i == 0 ? 0 : 1 + 2 * i);
                assert_int_equal(said.place[0].reply_turn, 2 + 2 * i);
                before = said.usage[0].n_prompt + said.usage[0].n_generated;
                if (i == TURNS / 2) {
                        harness_stop(h);
                        harness_start(h, NULL);
                }
        }
        assert_int_equal(count_conversations(h), 1);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* What the daemon has of it. */
/* An edit and another try fork where the history branches, and leave what was said. */
static void test_edit_and_regenerate(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        struct conv conv;
        uint64_t first, edited;
        char last[4096];

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        for (int i = 0; i < 3; i++) {
                history_say(&history, 'u', i == 0 ? "My name is Bela." : "What is my name?");
                rig_chat(&rig, &history, &said);
        }
        first = said.place[0].conversation;
        memcpy(last, said.text[0], sizeof(last));
        /* Another try of the last reply, by a greedy model: the same words in a fork. */
        history_cut(&history, 5);
        rig_chat(&rig, &history, &said);
        assert_int_not_equal(said.place[0].conversation, first);
        assert_int_equal(said.place[0].reply_turn, 5);
        assert_int_equal(said.place[0].input_turn, 5);
        assert_true(said.n_computed[0] <= 1 + 8); /* what invites the reply */
        assert_string_equal(said.text[0], last);
        rig_look(h, said.place[0].conversation, &conv);
        assert_int_equal(conv.parent, first);
        assert_int_equal(conv.n_turns, 6);
        conv_deinit(&conv);
        /* Another second question. */
        history_cut(&history, 2);
        history_say(&history, 'u', "I have a cat called Tom.");
        rig_chat(&rig, &history, &said);
        edited = said.place[0].conversation;
        assert_int_not_equal(edited, first);
        assert_int_equal(said.place[0].input_turn, 2);
        rig_look(h, first, &conv);
        assert_int_equal(conv.n_turns, 6);
        assert_string_equal(conv.texts[5], last);
        conv_deinit(&conv);
        /* It goes on in the fork. */
        history_say(&history, 'u', "What is my cat's name?");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, edited);
        assert_int_equal(said.place[0].reply_turn, 5);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* A request for a title has another system message: it gets a conversation of its own. */
static void test_side_request(void **state) {
        struct harness *h = *state;
        struct history history = {0}, title = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t first;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.settings.expires_once = 3600;
        rig.wants.session = "window 1";
        history_say(&history, 's', "You are an agent.");
        history_say(&history, 'u', "My name is Bela.");
        rig_chat(&rig, &history, &said);
        first = said.place[0].conversation;
        history_say(&title, 's', "You write titles.");
        history_say(&title, 'u', "My name is Bela.");
        rig_chat(&rig, &title, &said);
        assert_int_not_equal(said.place[0].conversation, first);
        assert_int_equal(said.place[0].input_turn, 0);
        history_say(&history, 'u', "What is my name?");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, first);
        /* The same words of the system alone are no reason to fork. */
        rig.wants.session = "window 2";
        history_cut(&history, 1);
        history_say(&history, 'u', "Hello!");
        rig_chat(&rig, &history, &said);
        assert_int_not_equal(said.place[0].conversation, first);
        assert_int_equal(said.place[0].input_turn, 0);
        assert_int_equal(count_conversations(h), 3);
        history_deinit(&history);
        history_deinit(&title);
        rig_deinit(&rig);
}

/* Two windows that began alike do not take turns in one conversation. */
static void test_sessions_are_apart(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t first;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.session = "a";
        history_say(&history, 'u', "My name is Bela.");
        rig_chat(&rig, &history, &said);
        first = said.place[0].conversation;
        history_say(&history, 'u', "What is my name?");
        rig.wants.session = "b";
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_false(said.failed);
        assert_int_not_equal(said.place[0].conversation, first);
        assert_int_equal(said.place[0].input_turn, 2);
        rig.wants.session = "a";
        history_cut(&history, 2);
        history_say(&history, 'u', "I have a cat called Tom.");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, first);
        /* What cannot be a session is none. */
        rig.wants.session = "\x01";
        history_say(&history, 'u', "Thank you.");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, first);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* By the daemon's own protocol; @name NULL: the daemon chooses one. The reply is put to @history. */
static uint64_t say_natively(struct harness *h, const char *name, struct history *history) {
        const char *text = history->text[history->n - 1];
        struct client *c = harness_client(h);
        struct reply reply;
        uint64_t id;

        assert_int_equal(client_open(c, name, NULL, &id), 0);
        assert_int_equal(
                client_say(c,
                        &(struct say){
                                .conv = id, .message = text, .max_tokens = 12, .keep_eos = true},
                        &reply),
                0);
        history_say(history, 'a', (char *)reply.text.data);
        reply_deinit(&reply);
        client_free(c);
        return id;
}

static void check_letters(struct harness *h, uint64_t id, uint32_t n_turns, const char *last) {
        struct conv conv;

        rig_look(h, id, &conv);
        assert_string_equal(conv.name, "letters");
        assert_int_equal(conv.n_turns, n_turns);
        assert_string_equal(conv.texts[n_turns - 1], last);
        conv_deinit(&conv);
}

/* A conversation that its user has named is gone on with by its name, or in its session; who only says the same gets a
 * fork, for an edit as well. One that the daemon named is gone on with. */
static void test_named_by_its_user(void **state) {
        struct harness *h = *state;
        struct history history = {0}, other = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t letters, chat;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        history_say(&history, 'u', "My name is Bela.");
        letters = say_natively(h, "letters", &history);
        history_say(&history, 'u', "What is my name?");
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_false(said.failed);
        assert_int_not_equal(said.place[0].conversation, letters);
        assert_int_equal(said.place[0].input_turn, 2);
        assert_true(said.n_computed[0] < said.usage[0].n_prompt - 10);
        check_letters(h, letters, 2, history.text[1]);
        /* An edit. */
        history_cut(&history, 0);
        history_say(&history, 'u', "My name is Tom.");
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_int_not_equal(said.place[0].conversation, letters);
        /* By its name. */
        history_cut(&history, 0);
        history_say(&history, 'u', "My name is Bela.");
        {
                struct conv conv;

                rig_look(h, letters, &conv);
                history_say(&history, 'a', conv.texts[1]);
                conv_deinit(&conv);
        }
        check_letters(h, letters, 2, history.text[1]);
        history_say(&history, 'u', "And my cat is Rex.");
        rig.wants.place = FORM_NAMED;
        rig.wants.conversation = "letters";
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, letters);
        check_letters(h, letters, 4, history.text[3]);
        /* In its session. */
        rig.wants.session = "a";
        rig.wants.conversation = "window";
        history_cut(&history, 1);
        rig_chat(&rig, &history, &said);
        chat = said.place[0].conversation;
        rig.wants.place = FORM_FIND;
        history_say(&history, 'u', "Thank you.");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, chat);
        /* Without a name. */
        rig.wants.session = NULL;
        history_say(&other, 'u', "Where is the sea?");
        chat = say_natively(h, NULL, &other);
        history_say(&other, 'u', "Thank you.");
        rig_chat(&rig, &other, &said);
        assert_int_equal(said.place[0].conversation, chat);
        history_deinit(&history);
        history_deinit(&other);
        rig_deinit(&rig);
}

/* Histories from elsewhere are taken in whole; empty messages of cut streams are nothing. */
static void test_given(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t first;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        history_say(&history, 's', "You are brief.");
        history_say(&history, 'u', "My name is Bela.");
        history_say(&history, 'a', "  Nice to meet you!\n");
        history_say(&history, 'u', "What is my name?");
        history_say(&history, 'a', " \n");
        history_say(&history, 'a', "");
        history_say(&history, 'u', "What is it?");
        rig_chat(&rig, &history, &said);
        first = said.place[0].conversation;
        assert_int_equal(said.place[0].input_turn, 0);
        assert_int_equal(said.place[0].reply_turn, 5);
        history_say(&history, 'u', "And my cat's name?");
        rig_chat(&rig, &history, &said);
        assert_int_equal(said.place[0].conversation, first);
        assert_int_equal(said.place[0].input_turn, 6);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* A conversation that was opened for nothing goes again. */
static void test_context(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        char *text;
        size_t n = 20000;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        text = malloc(n + 1);
        assert_non_null(text);
        memset(text, 'x', n);
        text[n] = '\0';
        history_say(&history, 'u', text);
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_true(said.failed);
        assert_int_equal(said.status, 400);
        assert_string_equal(said.code, "context_length_exceeded");
        assert_int_equal(said.n_accepted, 0);
        rig_settle(&rig);
        assert_int_equal(count_conversations(h), 0);
        free(text);
        history_deinit(&history);
        rig_deinit(&rig);
}

static void expect_invalid(struct talk_rig *rig, struct history *history) {
        static const struct talk_ops none;
        struct talk *talk;
        struct err e;

        assert_int_equal(talk_new(&talk, rig->backends, &rig->settings, &rig->owner,
                                 rig_form(rig, history), &none, NULL, &e),
                -ERR_INVALID);
        assert_true(*e.msg);
}

static void test_refused(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        expect_invalid(&rig, &history);
        history_say(&history, 'u', "Hello");
        rig.wants.n = SAID_CHOICES + 1;
        expect_invalid(&rig, &history);
        rig.wants.n = 1;
        history_say(&history, 'a', "I think");
        expect_invalid(&rig, &history);
        history_deinit(&history);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_twenty_turns),
                daemon_test(test_edit_and_regenerate),
                daemon_test(test_side_request),
                daemon_test(test_sessions_are_apart),
                daemon_test(test_named_by_its_user),
                daemon_test(test_given),
                daemon_test(test_context),
                daemon_test(test_refused),
        };

        return DAEMON_TESTS_MAIN(tests);
}
