/* SPDX-License-Identifier: MIT */
/* How a history is told, what is noted of a conversation, and which status an error has. */
#include "client/gateway/talk-private.h"
#include "base/utf8.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>

struct fixture {
        struct form *form;
        struct talk *talk;
};

static void setup(struct fixture *f) {
        assert_int_equal(form_new(&f->form, NULL), 0);
        f->talk = calloc(1, sizeof(*f->talk));
        assert_non_null(f->talk);
        f->talk->form = f->form;
        f->talk->fields = form_fields(f->form);
}

static void teardown(struct fixture *f) {
        free(f->talk);
        form_free(f->form);
}

static void say(struct fixture *f, enum confab_role role, const char *text) {
        struct confab_message *message = form_add_message(f->form, role);

        assert_non_null(message);
        message->text = text;
        message->text_size = text ? strlen(text) : 0;
}

static void call(struct fixture *f, const char *id, const char *name) {
        struct confab_call *c = form_add_call(f->form);

        assert_non_null(c);
        *c = (struct confab_call){.id = id, .name = name};
}

static void answer(struct fixture *f, const char *id, const char *name, const char *text) {
        struct confab_result *r = form_add_result(f->form);

        assert_non_null(r);
        *r = (struct confab_result){.call_id = id, .name = name, .text = text};
}

static void tell(struct fixture *f) {
        struct err e;

        if (talk_tell_messages(f->talk, &e) < 0)
                fail_msg("%s", e.msg);
}

static void expect(struct fixture *f, size_t i, enum confab_role role, const char *text) {
        const struct confab_message *message = &f->talk->messages[i];

        assert_true(i < f->talk->n_messages);
        assert_int_equal(message->role, role);
        assert_int_equal(message->text_size, strlen(text));
        assert_memory_equal(message->text_size ? message->text : "", text, strlen(text));
}

static void test_as_it_is(void **state) {
        struct fixture f;

        (void)state;
        setup(&f);
        say(&f, CONFAB_ROLE_SYSTEM, "one");
        say(&f, CONFAB_ROLE_SYSTEM, "two");
        say(&f, CONFAB_ROLE_USER, "");
        say(&f, CONFAB_ROLE_ASSISTANT, " \n");
        say(&f, CONFAB_ROLE_ASSISTANT, " x ");
        say(&f, CONFAB_ROLE_SYSTEM, "three");
        say(&f, CONFAB_ROLE_USER, "y");
        tell(&f);
        assert_int_equal(f.talk->n_messages, 6);
        expect(&f, 0, CONFAB_ROLE_SYSTEM, "one");
        expect(&f, 2, CONFAB_ROLE_USER, "");
        expect(&f, 3, CONFAB_ROLE_ASSISTANT, " x ");
        expect(&f, 4, CONFAB_ROLE_SYSTEM, "three");
        assert_int_equal(talk_count_turns(f.talk, 0), 6);
        assert_int_equal(talk_count_turns(f.talk, 4), 2);
        /* With one system message in front. */
        assert_true(talk_can_join_system(f.talk));
        f.talk->one_system = true;
        tell(&f);
        assert_int_equal(f.talk->n_messages, 5);
        expect(&f, 0, CONFAB_ROLE_SYSTEM, "one\n\ntwo");
        expect(&f, 3, CONFAB_ROLE_USER, "three");
        assert_false(talk_can_join_system(f.talk));
        teardown(&f);
}

static void test_system_elsewhere(void **state) {
        struct fixture f;

        (void)state;
        setup(&f);
        say(&f, CONFAB_ROLE_SYSTEM, "one");
        say(&f, CONFAB_ROLE_USER, "x");
        assert_false(talk_can_join_system(f.talk));
        /* Behind other turns, no system message is in front. */
        f.talk->fields->place = FORM_AT;
        f.talk->fields->at_turn = 2;
        assert_true(talk_can_join_system(f.talk));
        f.talk->one_system = true;
        tell(&f);
        expect(&f, 0, CONFAB_ROLE_USER, "one");
        teardown(&f);
}

static void test_calls(void **state) {
        struct fixture f;

        (void)state;
        setup(&f);
        say(&f, CONFAB_ROLE_USER, "x");
        say(&f, CONFAB_ROLE_ASSISTANT, "I look.");
        f.talk->fields->messages[1].reasoning = "hm";
        say(&f, CONFAB_ROLE_ASSISTANT, NULL);
        call(&f, NULL, "a");
        call(&f, "", "b");
        say(&f, CONFAB_ROLE_ASSISTANT, " ");
        call(&f, "own", "a");
        say(&f, CONFAB_ROLE_TOOL, NULL);
        answer(&f, NULL, "b", "of b");
        say(&f, CONFAB_ROLE_TOOL, NULL);
        answer(&f, NULL, "a", "of the first a");
        answer(&f, NULL, NULL, "of the second");
        answer(&f, NULL, NULL, "of none");
        say(&f, CONFAB_ROLE_USER, "y");
        say(&f, CONFAB_ROLE_TOOL, NULL);
        answer(&f, NULL, NULL, "too late");
        tell(&f);
        assert_int_equal(f.talk->n_messages, 6);
        assert_int_equal(talk_count_turns(f.talk, 0), 5);
        assert_string_equal(f.talk->messages[1].reasoning, "hm");
        assert_int_equal(f.talk->messages[1].n_calls, 3);
        assert_string_equal(f.talk->messages[1].calls[0].id, "call00001");
        assert_string_equal(f.talk->messages[1].calls[1].id, "call00002");
        assert_string_equal(f.talk->messages[1].calls[2].id, "own");
        assert_string_equal(f.talk->messages[2].results[0].call_id, "call00002");
        assert_string_equal(f.talk->messages[3].results[0].call_id, "call00001");
        assert_string_equal(f.talk->messages[3].results[1].call_id, "own");
        assert_string_equal(f.talk->messages[3].results[2].call_id, TALK_NO_CALL);
        assert_string_equal(f.talk->messages[5].results[0].call_id, TALK_NO_CALL);
        assert_true(talk_drop_reasoning(f.talk));
        assert_null(f.talk->messages[1].reasoning);
        assert_false(talk_drop_reasoning(f.talk));
        teardown(&f);
}

/* For a model without tools: calls and results are text, by the names that the calls had. */
static void test_plain(void **state) {
        struct fixture f;

        (void)state;
        setup(&f);
        f.talk->plain = true;
        f.talk->fields->tools = "[]";
        say(&f, CONFAB_ROLE_USER, "x");
        say(&f, CONFAB_ROLE_ASSISTANT, "I look.");
        f.talk->fields->messages[1].reasoning = "hm";
        call(&f, "1", "a");
        *form_add_call(f.form) = (struct confab_call){.name = "b", .arguments = "{\"c\": 1}"};
        say(&f, CONFAB_ROLE_TOOL, NULL);
        answer(&f, NULL, "b", "of b");
        answer(&f, "1", NULL, "of a");
        say(&f, CONFAB_ROLE_TOOL, NULL);
        answer(&f, "unknown", NULL, "");
        say(&f, CONFAB_ROLE_ASSISTANT, NULL);
        call(&f, "1", "again");
        say(&f, CONFAB_ROLE_TOOL, NULL);
        answer(&f, "1", "wrong", "of the second 1");
        answer(&f, "2", "given", "of none");
        say(&f, CONFAB_ROLE_ASSISTANT, "Done.");
        for (int i = 0; i < 2; i++) { /* each time the same */
                tell(&f);
                assert_null(talk_tools(f.talk));
                assert_int_equal(f.talk->n_messages, 7);
                expect(&f, 0, CONFAB_ROLE_USER, "x");
                expect(&f, 1, CONFAB_ROLE_ASSISTANT, "I look.\na({})\nb({\"c\": 1})");
                assert_string_equal(f.talk->messages[1].reasoning, "hm");
                expect(&f, 2, CONFAB_ROLE_USER, "Result of b:\nof b\n\nResult of a:\nof a");
                expect(&f, 3, CONFAB_ROLE_USER, "Result:\n");
                expect(&f, 4, CONFAB_ROLE_ASSISTANT, "again({})");
                expect(&f, 5, CONFAB_ROLE_USER,
                        "Result of again:\nof the second 1\n\nResult of given:\nof none");
                expect(&f, 6, CONFAB_ROLE_ASSISTANT, "Done.");
                for (size_t k = 0; k < f.talk->n_messages; k++)
                        assert_int_equal(
                                f.talk->messages[k].n_calls + f.talk->messages[k].n_results, 0);
        }
        f.talk->plain = false;
        tell(&f);
        assert_string_equal(talk_tools(f.talk), "[]");
        assert_int_equal(f.talk->messages[1].n_calls, 2);
        teardown(&f);
}

/* ---- what is noted ---- */

static void expect_title(const char *text, const char *title) {
        struct talk_about about;
        struct fixture f;

        setup(&f);
        say(&f, CONFAB_ROLE_SYSTEM, "system");
        say(&f, CONFAB_ROLE_USER, "<environment_context>here</environment_context>");
        say(&f, CONFAB_ROLE_USER, text);
        tell(&f);
        talk_fill_about(f.talk, &about, true);
        if (strcmp(about.about.title, title) != 0)
                fail_msg("%s", about.about.title);
        assert_true(utf8_valid(about.about.title, strlen(about.about.title)));
        talk_fill_about(f.talk, &about, false);
        assert_null(about.about.title);
        teardown(&f);
}

static void test_title(void **state) {
        char text[400], title[TALK_TITLE_SIZE];

        (void)state;
        expect_title("Hello", "Hello");
        expect_title("\n\t Hello\x01\x7f there \nand more", "Hello there ");
        expect_title("", "<environment_context>here</environment_context>");
        for (size_t n = TALK_TITLE_SIZE - 8; n < TALK_TITLE_SIZE + 8; n++) {
                memset(text, 'x', n);
                text[n] = '\0';
                if (n < TALK_TITLE_SIZE) {
                        expect_title(text, text);
                        continue;
                }
                memset(title, 'x', TALK_TITLE_SIZE - 4);
                memcpy(title + TALK_TITLE_SIZE - 4, "…", 4);
                expect_title(text, title);
        }
        /* Not within a character. */
        for (size_t i = 0; i < 100; i++)
                memcpy(text + 3 * i, "€", 4);
        memcpy(title, text, 114);
        memcpy(title + 114, "…", 4);
        expect_title(text, title);
}

static void test_expiry(void **state) {
        struct talk_about about;
        struct fixture f;

        (void)state;
        setup(&f);
        talk_fill_about(f.talk, &about, true);
        assert_false(about.about.has_expires_after);
        assert_null(about.about.title);
        f.talk->settings.expires_after = 100;
        talk_fill_about(f.talk, &about, true);
        assert_int_equal(about.about.expires_after, 100);
        f.talk->settings.expires_once = 10;
        talk_fill_about(f.talk, &about, true);
        assert_int_equal(about.about.expires_after, 10);
        f.talk->fields->place = FORM_NAMED;
        talk_fill_about(f.talk, &about, true);
        assert_false(about.about.has_expires_after);
        talk_fill_about(f.talk, &about, false);
        assert_int_equal(about.about.expires_after, 100);
        f.talk->fields->has_expires_after = true;
        talk_fill_about(f.talk, &about, true);
        assert_false(about.about.has_expires_after);
        f.talk->fields->expires_after = 7;
        talk_fill_about(f.talk, &about, true);
        assert_int_equal(about.about.expires_after, 7);
        f.talk->fields->tag = "openai";
        talk_fill_about(f.talk, &about, true);
        assert_int_equal(about.about.n_tags, 1);
        talk_fill_about(f.talk, &about, false);
        assert_false(about.about.has_tags);
        teardown(&f);
}

static void counted(void *userdata, uint32_t n_tokens, const struct talk_error *error) {
}

/* What serves to count goes soon, and looks like nothing that another request would go on with. */
static void test_count(void **state) {
        struct talk_about about, other;
        struct fixture f;

        setup(&f);
        f.talk->session = "s";
        talk_fill_about(f.talk, &about, true);
        assert_string_equal(about.about.session, "s");
        assert_string_equal(about.name, "");
        f.talk->counted = counted;
        talk_fill_about(f.talk, &about, true);
        talk_fill_about(f.talk, &other, false);
        assert_null(about.about.session);
        assert_true(about.about.has_expires_after && about.about.expires_after <= 60);
        assert_int_equal(strncmp(about.name, "count-", 6), 0);
        assert_string_not_equal(about.name, other.name);
        teardown(&f);
}

/* ---- errors ---- */

static void expect_status(const char *code, bool retry, unsigned status, unsigned retry_after) {
        struct confab_error error = {.message = "words", .retry = retry};
        struct talk_error e;

        snprintf(error.code, sizeof(error.code), "%s", code);
        talk_error_from(&e, &error);
        if (e.status != status || e.retry_after != retry_after)
                fail_msg("%s: %u, %u", code, e.status, e.retry_after);
        assert_string_equal(e.code, code);
        assert_string_equal(e.message, "words");
        assert_null(e.param);
}

static void test_status(void **state) {
        (void)state;
        expect_status("not_found", false, 404, 0);
        expect_status("format", false, 400, 0);
        expect_status("busy", true, 409, 1);
        expect_status("limit", true, 429, 1);
        expect_status("limit", false, 413, 0);
        expect_status("context_length_exceeded", false, 400, 0);
        expect_status("invalid", false, 400, 0);
        expect_status("permission", false, 403, 0);
        expect_status("shutdown", true, 503, 2);
        expect_status("system", true, 503, 1);
        expect_status("system", false, 500, 0);
        expect_status("corrupt", false, 500, 0);
        expect_status("a_newer_one", false, 500, 0);
        expect_status("a_newer_one", true, 503, 1);
        expect_status("no_daemon", true, 503, 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_as_it_is),
                cmocka_unit_test(test_system_elsewhere),
                cmocka_unit_test(test_calls),
                cmocka_unit_test(test_plain),
                cmocka_unit_test(test_title),
                cmocka_unit_test(test_expiry),
                cmocka_unit_test(test_count),
                cmocka_unit_test(test_status),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
