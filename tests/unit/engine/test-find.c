/* SPDX-License-Identifier: MIT */
/*
 * Find: the conversation that begins like a list of messages for longest. The lists have the shapes of
 * what stateless clients send: histories that come back trimmed, without reasoning, with arguments
 * written anew, with empty messages of cut streams.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "find-rig.h"
#include "util/test.h"

#define DEFS                                                                                       \
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"                     \
        "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\"}}}}},"                    \
        "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"parameters\":{}}}]"
/* The same, written anew. */
#define DEFS_ANEW                                                                                  \
        "[ {\"function\": {\"parameters\": {\"properties\": {\"x\": {\"type\": \"number\"}}, "     \
        "\"type\": \"object\"}, \"name\": \"f\"}, \"type\": \"function\"},\n"                      \
        "  {\"function\": {\"parameters\": {}, \"name\": \"g\"}, \"type\": \"function\"} ]"

static struct answer A;

/* A conversation is found up to where the messages cease to be its own. */
static void test_longest(void **state) {
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t a, b, c;

        (void)state;
        tools_open(&r, FIND_POOL);
        put(&l, ENGINE_SYSTEM, "Be brief.");
        expect(&r, &l, 0, 0, 0);
        a = tools_new(&r, "Be brief.", NULL);
        find_say(&r, a, "Hello", "Hi.");
        find_say(&r, a, "And two", "Two.");
        b = tools_new(&r, "Be brief.", NULL);
        find_say(&r, b, "Hello", "Hi.");
        find_say(&r, b, "And three", "Three.");
        c = tools_new(&r, "Be verbose.", NULL);
        find_say(&r, c, "Hello", "Hi.");
        put(&l, ENGINE_USER, "Hello");
        put(&l, ENGINE_ASSISTANT, "Hi.");
        put(&l, ENGINE_USER, "And two");
        put(&l, ENGINE_ASSISTANT, "Two.");
        expect(&r, &l, a, 5, 5);
        put(&l, ENGINE_USER, "And more");
        expect(&r, &l, a, 5, 5);
        assert_int_equal(found.conv.n_turns, 5);
        assert_true(found.conv.n_tokens > 0);
        assert_false(found.found.other_session);
        /* Without the last reply: the reply is not covered. */
        l.n = 4;
        expect(&r, &l, a, 4, 4);
        /* Another second message: both begin alike, and the one that was changed last is taken. */
        l.m[3].text = "And four";
        l.m[3].text_size = 8;
        expect(&r, &l, b, 3, 3);
        l.m[3].text = "And three";
        l.m[3].text_size = 9;
        expect(&r, &l, b, 4, 4);
        /* A side request has another system message, and shares all others. */
        l.m[0].text = "You write titles.";
        l.m[0].text_size = 17;
        expect(&r, &l, 0, 0, 0);
        /* Without the system message nothing begins like that either. */
        l.n = 0;
        put(&l, ENGINE_USER, "Hello");
        expect(&r, &l, 0, 0, 0);
        erig_close(&r);
}

/* A long history that is edited in the middle is found up to there. */
static void test_edit_in_the_middle(void **state) {
        static char texts[24][32];
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, "Count.", NULL);
        put(&l, ENGINE_SYSTEM, "Count.");
        for (unsigned i = 0; i < 12; i++) {
                snprintf(texts[2 * i], 32, "question %u", i);
                snprintf(texts[2 * i + 1], 32, "answer %u", i);
                find_say(&r, c, texts[2 * i], texts[2 * i + 1]);
                put(&l, ENGINE_USER, texts[2 * i]);
                put(&l, ENGINE_ASSISTANT, texts[2 * i + 1]);
        }
        for (size_t i = 1; i <= l.n; i++) {
                struct list_of cut = l;

                cut.n = i;
                expect(&r, &cut, c, (uint32_t)i, (uint32_t)i);
                cut = l;
                cut.m[i - 1].text = "edited";
                cut.m[i - 1].text_size = 6;
                if (i > 1)
                        expect(&r, &cut, c, (uint32_t)i - 1, (uint32_t)i - 1);
                else
                        expect(&r, &cut, 0, 0, 0);
        }
        erig_close(&r);
}

/* What clients change without changing what was said. */
static void test_text_of_replies(void **state) {
        static const char odd[] = "\n\n  Reply number 1. \n\tTail   \n\n";
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        find_say(&r, c, " Hello ", odd);
        put(&l, ENGINE_USER, " Hello ");
        put(&l, ENGINE_ASSISTANT, odd);
        expect(&r, &l, c, 2, 2);
        l.m[1].text = "Reply number 1. \n\tTail";
        l.m[1].text_size = strlen(l.m[1].text);
        expect(&r, &l, c, 2, 2);
        l.m[1].text = "Reply number 1.\n\tTail";
        l.m[1].text_size = strlen(l.m[1].text);
        expect(&r, &l, c, 1, 1);
        /* What the user said is never trimmed. */
        l.m[0].text = "Hello";
        l.m[0].text_size = 5;
        expect(&r, &l, 0, 0, 0);
        erig_close(&r);
}

/* Of two that differ in white space alone, the exact one; without it, the one that was changed last. */
static void test_exact_first(void **state) {
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t a, b;

        (void)state;
        tools_open(&r, FIND_POOL);
        a = tools_new(&r, NULL, NULL);
        find_say(&r, a, "Hello", " Hi");
        b = tools_new(&r, NULL, NULL);
        find_say(&r, b, "Hello", "Hi ");
        put(&l, ENGINE_USER, "Hello");
        put(&l, ENGINE_ASSISTANT, " Hi");
        expect(&r, &l, a, 2, 2);
        l.m[1].text = "Hi ";
        expect(&r, &l, b, 2, 2);
        l.m[1].text = "Hi";
        l.m[1].text_size = 2;
        expect(&r, &l, b, 2, 2);
        erig_close(&r);
}

/* Calls, their results, and reasoning, as clients send them back. */
static void test_calls(void **state) {
        static const char *const results[] = {"file one\n", "nothing"};
        static const char reply[] =
                "<think>\nhm, f\n</think>\n\nLet me see."
                "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1.0, \"a b\": [1, null]}}\n"
                "</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
        struct list_of l = {.n = 0}, other;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, "Help.", DEFS);
        find_say(&r, c, "go", reply);
        find_answer(&r, c, results, 2, "<think>so</think>Done.");
        put(&l, ENGINE_SYSTEM, "Help.");
        put(&l, ENGINE_USER, "go");
        put_said(&l, "Let me see.", NULL, "f", "{\"a b\":[1,null],\"x\":1}");
        put_call(&l, "g", "{}");
        put_result(&l, "file one\n");
        put_one_more(&l, "nothing");
        put(&l, ENGINE_ASSISTANT, "Done.");
        put(&l, ENGINE_USER, "thanks");
        expect_with(&r, &l, DEFS, c, 5, 5);
        expect_with(&r, &l, DEFS_ANEW, c, 5, 5);
        /* Without the definitions, or with others, it is another conversation. */
        expect_with(&r, &l, NULL, 0, 0, 0);
        expect_with(&r, &l, "[]", 0, 0, 0);
        /* Reasoning: dropped, kept, trimmed; another one was never said. */
        l.m[2].reasoning = "\nhm, f\n";
        l.m[4].reasoning = "so";
        expect_with(&r, &l, DEFS, c, 5, 5);
        l.m[2].reasoning = "hm, f";
        l.m[4].reasoning = NULL;
        expect_with(&r, &l, DEFS, c, 5, 5);
        l.m[4].reasoning = "so what";
        expect_with(&r, &l, DEFS, c, 4, 4);
        l.m[4].reasoning = " \n";
        expect_with(&r, &l, DEFS, c, 5, 5);
        /* One message for each result; the text and the calls in messages of their own. */
        other = (struct list_of){.n = 0};
        put(&other, ENGINE_SYSTEM, "Help.");
        put(&other, ENGINE_USER, "go");
        put(&other, ENGINE_ASSISTANT, "Let me see.");
        put_said(&other, "", NULL, "f", "{\"x\":1e0,\"a b\":[1,null]}");
        put_said(&other, "", NULL, "g", "");
        put_result(&other, "file one\n");
        put_result(&other, "nothing");
        put(&other, ENGINE_ASSISTANT, "Done.");
        expect_with(&r, &other, DEFS, c, 5, 8);
        /* A part of what was said in one turn is not found: turns are kept whole. */
        other.n = 6;
        expect_with(&r, &other, DEFS, c, 3, 5);
        other.n = 4;
        expect_with(&r, &other, DEFS, c, 2, 2);
        other.n = 8;
        other.results[1].text = "something";
        expect_with(&r, &other, DEFS, c, 3, 5);
        other.calls[0].arguments = "{\"x\":2}";
        expect_with(&r, &other, DEFS, c, 2, 2);
        erig_close(&r);
}

/* Messages that say nothing: of streams that were cut, and replies that were empty. */
static void test_vanishing(void **state) {
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, "S", NULL);
        find_say(&r, c, "Cut test", NULL);
        find_say(&r, c, "After cut", "Fine.");
        put(&l, ENGINE_SYSTEM, "S");
        put(&l, ENGINE_USER, "Cut test");
        put(&l, ENGINE_ASSISTANT, "");
        put(&l, ENGINE_ASSISTANT, " \n");
        put(&l, ENGINE_ASSISTANT, "");
        put(&l, ENGINE_USER, "After cut");
        expect(&r, &l, c, 3, 6);
        put(&l, ENGINE_ASSISTANT, "Fine.");
        put(&l, ENGINE_ASSISTANT, "");
        expect(&r, &l, c, 4, 8);
        /* In front they have nothing to stand behind. */
        l.m[0] = l.m[2];
        l.n = 1;
        expect(&r, &l, 0, 0, 0);
        put(&l, ENGINE_SYSTEM, "S");
        expect(&r, &l, c, 1, 2);
        put(&l, ENGINE_ASSISTANT, "");
        put(&l, ENGINE_USER, "Else");
        expect(&r, &l, c, 1, 3);
        /* A stored reply without text is covered only if more follows. */
        c = tools_new(&r, "T", NULL);
        find_say(&r, c, "Think", "<think>nothing</think>");
        l.n = 0;
        put(&l, ENGINE_SYSTEM, "T");
        put(&l, ENGINE_USER, "Think");
        expect(&r, &l, c, 2, 2);
        put_said(&l, "", "nothing", NULL, NULL);
        expect(&r, &l, c, 2, 3);
        find_say(&r, c, "More", "Yes.");
        put(&l, ENGINE_USER, "More");
        expect(&r, &l, c, 4, 4);
        erig_close(&r);
}

/* A reply that goes on in several turns is one text: all of it, or what there was at the first stop. */
static void test_joined_replies(void **state) {
        static const char whole[] = "Once upon a time there was a cow. ";
        struct list_of l = {.n = 0};
        struct engine_request q;
        char first[sizeof(A.text)];
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        q = erig_say_request(c, "Tell", 6);
        q.constraint = ENGINE_CONSTRAINT_GBNF;
        q.constraint_text = tools_just(whole);
        q.constraint_size = strlen(q.constraint_text);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_LENGTH);
        snprintf(first, sizeof(first), "%s", A.text);
        q.input = ENGINE_INPUT_NONE;
        q.max_tokens = 400;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_STOP);
        find_say(&r, c, "Enough", "Well.");
        put(&l, ENGINE_USER, "Tell");
        put(&l, ENGINE_ASSISTANT, whole);
        put(&l, ENGINE_USER, "Enough");
        put(&l, ENGINE_ASSISTANT, "Well.");
        expect(&r, &l, c, 5, 4);
        l.n = 2;
        expect(&r, &l, c, 3, 2);
        l.m[1].text = first;
        l.m[1].text_size = strlen(first);
        expect(&r, &l, c, 2, 2);
        l.n = 3;
        expect(&r, &l, c, 2, 2);
        erig_close(&r);
}

/* What is said is the text before the stop string, as its reader saw it. */
static void test_stop_string(void **state) {
        struct engine_request q;
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        q = erig_say_request(c, "Count", 400);
        q.constraint = ENGINE_CONSTRAINT_GBNF;
        q.constraint_text = tools_just("one two three");
        q.constraint_size = strlen(q.constraint_text);
        q.stops[0] = "thr";
        q.n_stops = 1;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_STOP_STRING);
        put(&l, ENGINE_USER, "Count");
        put(&l, ENGINE_ASSISTANT, "one two ");
        expect(&r, &l, c, 2, 2);
        l.m[1].text_size = 7;
        expect(&r, &l, c, 2, 2);
        l.m[1].text = "one two three";
        l.m[1].text_size = 13;
        expect(&r, &l, c, 1, 1);
        erig_close(&r);
}

/* Raw turns say nothing that messages could. */
static void test_raw(void **state) {
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, "S", NULL);
        find_say(&r, c, "Hello", "Hi.");
        erig_append_raw(&r, c, "raw");
        find_say(&r, c, "Hello", "Hi.");
        put(&l, ENGINE_SYSTEM, "S");
        put(&l, ENGINE_USER, "Hello");
        put(&l, ENGINE_ASSISTANT, "Hi.");
        put(&l, ENGINE_USER, "raw");
        expect(&r, &l, c, 3, 3);
        l.m[3] = l.m[1];
        expect(&r, &l, c, 3, 3);
        erig_close(&r);
}

static void set_session(struct erig *r, uint64_t conv, const char *session) {
        const struct about about = {.has = ABOUT_SESSION, .session = session};
        struct engine_request q = erig_request(ENGINE_UPDATE, conv);

        q.about = &about;
        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
}

static void expect_session(struct erig *r, const struct list_of *l, const char *session,
        uint64_t conv, uint32_t n, bool other) {
        find_as(r, l, NULL, session);
        assert_int_equal(found.conv.id, conv);
        assert_int_equal(found.found.n_messages, n);
        assert_int_equal(found.found.other_session, other);
}

/* The session is preferred among those that fit equally well; the text decides. */
static void test_session(void **state) {
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t a, b, c;

        (void)state;
        tools_open(&r, FIND_POOL);
        a = tools_new(&r, "S", NULL);
        find_say(&r, a, "Hello", "Hi.");
        b = tools_new(&r, "S", NULL);
        find_say(&r, b, "Hello", "Hi.");
        find_say(&r, b, "More", "Some.");
        c = tools_new(&r, "T", NULL);
        find_say(&r, c, "Hello", "Hi.");
        put(&l, ENGINE_SYSTEM, "S");
        put(&l, ENGINE_USER, "Hello");
        put(&l, ENGINE_ASSISTANT, "Hi.");
        set_session(&r, a, "one");
        set_session(&r, b, "two");
        set_session(&r, c, "three");
        expect_session(&r, &l, "one", a, 3, false);
        expect_session(&r, &l, "two", b, 3, false);
        /* That of the session says something else: the text decides. */
        expect_session(&r, &l, "three", a, 3, true);
        /* Without a session: the one that ends there. */
        expect_session(&r, &l, NULL, a, 3, false);
        assert_true(found.conv.id == a);
        put(&l, ENGINE_USER, "More");
        expect_session(&r, &l, "one", b, 4, true);
        expect_session(&r, &l, "none", b, 4, true);
        erig_close(&r);
}

/* Owners are apart. */
static void test_owners(void **state) {
        struct engine_request q = erig_request(ENGINE_FIND, 0);
        struct list_of l = {.n = 0};
        struct erig r;

        (void)state;
        tools_open(&r, FIND_POOL);
        find_say(&r, tools_new(&r, NULL, NULL), "Hello", "Hi.");
        put(&l, ENGINE_USER, "Hello");
        q.messages = l.m;
        q.n_messages = l.n;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_FOUND);
        assert_int_equal(A.found.n_messages, 1);
        q.owner = owner_make(0, 3);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_FOUND);
        assert_int_equal(A.found.n_messages, 0);
        q.owner = 4;
        q.admin = true;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_FOUND);
        assert_int_equal(A.found.n_messages, 0);
        erig_close(&r);
}

/* Given messages, and several of them in one request, are found like what was said here. */
static void test_given(void **state) {
        struct list_of l = {.n = 0};
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        put(&l, ENGINE_SYSTEM, "Help.");
        put(&l, ENGINE_USER, "go");
        put_said(&l, "Let me see.", "hm", "f", "{\"x\": 1}");
        put_result(&l, "one");
        l.results[0].call_id = l.calls[0].id;
        put_said(&l, " It is one. ", NULL, NULL, NULL);
        put(&l, ENGINE_USER, "good");
        q = erig_say_request(c, "", 0);
        q.input = ENGINE_INPUT_MESSAGES;
        q.text = NULL;
        q.messages = l.m;
        q.n_messages = l.n;
        q.tools = DEFS;
        if (erig_do(&r, &q, &A) != ENGINE_DONE)
                fail_msg("%s", A.err.msg);
        expect_with(&r, &l, DEFS_ANEW, c, 6, 6);
        l.m[4].text = "It is one.";
        l.m[4].text_size = 10;
        l.calls[0].arguments = "{\"x\":1}";
        l.m[2].reasoning = NULL;
        expect_with(&r, &l, DEFS, c, 6, 6);
        l.m[2].reasoning = "ah";
        expect_with(&r, &l, DEFS, c, 2, 2);
        erig_close(&r);
}

static void test_refused(void **state) {
        struct engine_request q = erig_request(ENGINE_FIND, 0);
        struct erig r;

        (void)state;
        tools_open(&r, FIND_POOL);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_longest),
                cmocka_unit_test(test_edit_in_the_middle),
                cmocka_unit_test(test_text_of_replies),
                cmocka_unit_test(test_exact_first),
                cmocka_unit_test(test_calls),
                cmocka_unit_test(test_vanishing),
                cmocka_unit_test(test_joined_replies),
                cmocka_unit_test(test_stop_string),
                cmocka_unit_test(test_raw),
                cmocka_unit_test(test_session),
                cmocka_unit_test(test_owners),
                cmocka_unit_test(test_given),
                cmocka_unit_test(test_refused),
        };

        return cmocka_run_group_tests(tests, tools_rig_setup, tools_model_remove);
}
