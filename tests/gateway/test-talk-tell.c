/* SPDX-License-Identifier: MIT */
/* How histories are told: calls and results with any ids, templates with few places for the system, reasoning, other
 * models; and counting. */
#include "talk-rig.h"
#include "util/tiny-model.h"

#define TOOLS                                                                                      \
        "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":"     \
        "\"object\"}}}]"
#define CALL                                                                                       \
        "root ::= \"<tool_call>{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": {\\\"city\\\": " \
        "\\\"Oslo\\\"}}</tool_call>\""
#define ARGUMENTS "{\"city\":\"Oslo\"}"

static void use_model(struct harness *h, const char *template) {
        snprintf(h->model, sizeof(h->model), "%s/tiny.gguf", h->dir);
        assert_int_equal(template ? tiny_model_write_chat(h->model, template)
                                  : tiny_model_write(h->model, MODEL_TINY),
                0);
}

static void expect_done(const struct said *said) {
        if (said->failed)
                fail_msg("%s: %s", said->code, said->message);
}

/* The model calls a function; the client answers with the id that it was given, with its own, or with none. */
static void test_calls(void **state) {
        static const char *const ids[] = {NULL, "mine", ""};
        struct harness *h = *state;
        struct talk_rig rig;
        struct said said, answer;

        use_model(h, NULL);
        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.tools = TOOLS;
        for (int i = 0; i < 3; i++) {
                struct history history = {0};
                char text[200];

                rig.wants.gbnf = CALL;
                rig.wants.max_tokens = 120;
                snprintf(text, sizeof(text), "Weather %d?", i);
                history_say(&history, 'u', text);
                rig_talk(&rig, rig_form(&rig, &history), &said);
                expect_done(&said);
                assert_string_equal(said.call_name, "weather");
                assert_true(*said.call_id);
                snprintf(text, sizeof(text), "%s weather %s", ids[i] ? ids[i] : said.call_id,
                        ARGUMENTS);
                history_say(&history, 'c', text);
                snprintf(text, sizeof(text), "%s It rains.", ids[i] ? ids[i] : said.call_id);
                history_say(&history, 't', text);
                rig.wants.gbnf = NULL;
                rig.wants.max_tokens = 4;
                rig_talk(&rig, rig_form(&rig, &history), &answer);
                expect_done(&answer);
                assert_int_equal(answer.place[0].conversation, said.place[0].conversation);
                assert_int_equal(answer.place[0].input_turn, 2);
                assert_int_equal(answer.place[0].reply_turn, 3);
                history_deinit(&history);
        }
        rig_deinit(&rig);
}

/* A history with calls from elsewhere, without ids, and with one that nobody knows. */
static void test_given_calls(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        struct conv conv;

        use_model(h, NULL);
        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.tools = TOOLS;
        rig.wants.max_tokens = 4;
        history_say(&history, 'u', "Weather?");
        history_say(&history, 'c', " weather {\"city\":\"Oslo\"}");
        history_say(&history, 'c', " weather {\"city\":\"Rome\"}");
        history_say(&history, 't', " It rains.");
        history_say(&history, 't', " It shines.");
        rig_talk(&rig, rig_form(&rig, &history), &said);
        expect_done(&said);
        /* Both calls are one message, so that both can be answered. */
        assert_int_equal(said.place[0].reply_turn, 3);
        rig_look(h, said.place[0].conversation, &conv);
        assert_non_null(strstr(conv.texts[2], "call00001"));
        assert_non_null(strstr(conv.texts[2], "call00002"));
        conv_deinit(&conv);
        history_cut(&history, 3);
        history_say(&history, 't', "unknown It rains.");
        rig_talk(&rig, rig_form(&rig, &history), &said);
        assert_int_equal(said.status, 400);
        history_deinit(&history);
        rig_deinit(&rig);
}

#define BODY                                                                                       \
        "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor " \
        "-%}{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}"

/* Templates with one system message in front, or none: the talk finds out once, and finds its history again. */
static void test_system(void **state) {
        static const char *const templates[] = {
                "{%- for m in messages -%}{%- if m.role == 'system' and not loop.first -%}"
                "{{ raise_exception('one system message in front') }}{%- endif -%}{%- endfor "
                "-%}" BODY,
                "{%- for m in messages -%}{%- if m.role == 'system' -%}"
                "{{ raise_exception('no system message') }}{%- endif -%}{%- endfor -%}" BODY};
        struct harness *h = *state;

        for (int i = 0; i < 2; i++) {
                struct history history = {0};
                struct talk_rig rig;
                struct said said;
                struct conv conv;

                use_model(h, templates[i]);
                harness_start(h, NULL);
                rig_init(&rig, h->socket);
                rig.wants.max_tokens = 4;
                rig.wants.gbnf = "root ::= [a-z]+"; /* not nothing, which would be no message */
                history_say(&history, 's', i ? "You are three." : "You are one.");
                history_say(&history, 's', "You are two.");
                history_say(&history, 'u', "Hello");
                history_say(&history, 'a', "Good morning");
                history_say(&history, 's', "It is late.");
                rig_chat(&rig, &history, &said);
                assert_int_equal(said.place[0].reply_turn, 4);
                rig_look(h, said.place[0].conversation, &conv);
                assert_non_null(strstr(conv.texts[0], ".\n\nYou are two."));
                assert_int_equal(conv.n_turns, 5);
                conv_deinit(&conv);
                history_say(&history, 'u', "Good night");
                rig_chat(&rig, &history, &said);
                assert_int_equal(said.place[0].input_turn, 5);
                history_deinit(&history);
                rig_deinit(&rig);
                harness_stop(h);
        }
}

/* A model without tools: agents get a plain turn, and what another model called is told as text. The gateway does not know
 * the model of its first request, and the model changes in both directions. */
static void test_plain(void **state) {
        static const char *const templates[] = {BODY, NULL, BODY};
        static const char *const thanks[] = {"Thanks.", "Thank you.", "Good."};
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        struct conv conv;

        rig_init(&rig, h->socket);
        rig.wants.tools = TOOLS;
        rig.wants.max_tokens = 4;
        rig.wants.gbnf = "root ::= [a-z]+";
        history_say(&history, 'u', "Weather?");
        history_say(&history, 'c', "1 weather " ARGUMENTS);
        history_say(&history, 't', "1 It rains.");
        for (int i = 0; i < 3; i++) {
                size_t n = history.n;

                use_model(h, templates[i]);
                harness_start(h, NULL);
                for (int place = 0; place < 4; place++) {
                        static const enum form_place places[] = {
                                FORM_FIND, FORM_FIND, FORM_NAMED, FORM_NEW};
                        char name[16];

                        snprintf(name, sizeof(name), "model-%d", i);
                        rig.wants.place = places[place];
                        rig.wants.conversation = name;
                        history_cut(&history, n);
                        rig_chat(&rig, &history, &said);
                        rig_look(h, said.place[0].conversation, &conv);
                        assert_int_equal(conv.n_turns, 4);
                        assert_int_equal(strcmp(conv.texts[1], "weather(" ARGUMENTS ")") == 0,
                                templates[i] != NULL);
                        assert_int_equal(
                                strcmp(conv.texts[2], "Result of weather:\nIt rains.") == 0,
                                templates[i] != NULL);
                        conv_deinit(&conv);
                }
                /* It is found again. */
                rig.wants.place = FORM_FIND;
                history_say(&history, 'u', thanks[i]);
                rig_talk(&rig, rig_form(&rig, &history), &said);
                expect_done(&said);
                assert_int_equal(said.place[0].input_turn, 4);
                history_cut(&history, n);
                harness_stop(h);
        }
        history_deinit(&history);
        rig_deinit(&rig);
}

/* The model was changed: what was said is told anew, in a conversation of the new vocabulary. */
static void test_other_model(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct talk_rig rig;
        struct said said;
        uint64_t id, named;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        rig.wants.max_tokens = 4;
        history_say(&history, 'u', "My name is Bela.");
        rig_chat(&rig, &history, &said);
        id = said.place[0].conversation;
        history_cut(&history, 1);
        rig.wants.place = FORM_NAMED;
        rig.wants.conversation = "window";
        rig_chat(&rig, &history, &said);
        named = said.place[0].conversation;
        harness_stop(h);
        use_model(h, NULL);
        harness_start(h, NULL);
        history_say(&history, 'u', "What is my name?");
        rig_talk(&rig, rig_form(&rig, &history), &said);
        expect_done(&said);
        assert_int_equal(said.place[0].conversation, named);
        assert_int_equal(said.place[0].input_turn, 2);
        rig.wants.place = FORM_AT;
        rig.wants.conversation_id = id;
        rig.wants.at_turn = FORM_AT_END;
        rig_talk(&rig, rig_form(&rig, &history), &said);
        expect_done(&said);
        assert_int_equal(said.place[0].conversation, id);
        history_deinit(&history);
        rig_deinit(&rig);
}

/* ---- counting ---- */

struct counted {
        bool ended;
        uint32_t n;
        unsigned status;
};

static void on_counted(void *userdata, uint32_t n_tokens, const struct talk_error *error) {
        struct counted *counted = userdata;

        assert_false(counted->ended);
        counted->ended = true;
        counted->n = n_tokens;
        counted->status = error ? error->status : 0;
}

static void count(struct talk_rig *rig, const struct history *history, struct counted *counted) {
        struct talk *talk;
        struct err e;

        *counted = (struct counted){.ended = false};
        if (talk_count(&talk, rig->backends, &rig->settings, &rig->owner, rig_form(rig, history),
                    on_counted, counted, &e) < 0)
                fail_msg("%s", e.msg);
        rig_wait_for(rig, &counted->ended);
        rig_settle(rig);
}

static void test_count(void **state) {
        struct harness *h = *state;
        struct history history = {0};
        struct conv list[RIG_CONVERSATIONS];
        struct counted counted;
        struct talk_rig rig;
        struct said said;

        harness_start(h, NULL);
        rig_init(&rig, h->socket);
        history_say(&history, 's', "You are brief.");
        for (uint64_t i = 0; i < 3; i++) {
                history_say(&history, 'u', "My name is Bela.");
                count(&rig, &history, &counted);
                assert_int_equal(counted.status, 0);
                assert_int_equal(rig_list(h, list), i > 0);
                rig_chat(&rig, &history, &said);
                assert_int_equal(said.usage[0].n_prompt, counted.n);
                assert_int_equal(said.place[0].input_turn, i == 0 ? 0 : 1 + 2 * i);
        }
        /* What ends with the assistant can be counted, too, when no reply is wanted. */
        rig.wants.max_tokens = 0;
        count(&rig, &history, &counted);
        assert_int_equal(counted.status, 0);
        assert_true(counted.n > said.usage[0].n_prompt);
        rig.wants.place = FORM_AT;
        rig.wants.conversation_id = 4711;
        count(&rig, &history, &counted);
        assert_int_equal(counted.status, 404);
        assert_int_equal(rig_list(h, list), 1);
        history_deinit(&history);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_calls),
                daemon_test(test_given_calls),
                daemon_test(test_system),
                daemon_test(test_plain),
                daemon_test(test_other_model),
                daemon_test(test_count),
        };

        return DAEMON_TESTS_MAIN(tests);
}
