/* SPDX-License-Identifier: MIT */
/*
 * Find in one conversation that the request names: how far the messages agree with it, whatever others say.
 * Its caller goes on from there.
 */
#include <stdio.h>
#include <string.h>

#include "find-rig.h"
#include "store/store.h"
#include "util/test.h"

#define DEFS "[{\"name\":\"f\",\"parameters\":{}}]"
#define OTHERS "[{\"name\":\"g\",\"parameters\":{}}]"

static struct answer A;

/* Between the comparing of a history and the rest of the answer the conversation loses its last turns. */
static uint32_t left; /* so many are left; 0: all */
int __real_store_read_head(struct store *s, uint64_t owner, uint64_t id, uint32_t n_turns,
        store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e);
int __wrap_store_read_head(struct store *s, uint64_t owner, uint64_t id, uint32_t n_turns,
        store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e);
int __wrap_store_read_head(struct store *s, uint64_t owner, uint64_t id, uint32_t n_turns,
        store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e) {
        int r = __real_store_read_head(s, owner, id, n_turns, admit, arg, ret, e);
        struct store_gone gone = {0};
        uint64_t revision;

        if (r == 0 && left > 0) {
                r = store_rewind(s, id, left, NULL, NULL, &revision, &gone, e);
                store_gone_deinit(&gone);
        }
        return r;
}

/* The conversation keeps its first @at_turn turns and gets the messages from @from on. */
static void go_on(struct erig *r, uint64_t conv, const struct list_of *l, const char *tools) {
        struct engine_request q = erig_say_request(conv, "", 0);

        q.input = ENGINE_INPUT_MESSAGES;
        q.text = NULL;
        q.messages = l->m + found.found.n_messages;
        q.n_messages = l->n - found.found.n_messages;
        q.tools = tools;
        q.cuts = true;
        q.at_turn = found.found.at_turn;
        q.has_expect_revision = true;
        q.expect_revision = found.conv.revision;
        if (erig_do(r, &q, &A) != ENGINE_DONE)
                fail_msg("%s", A.err.msg);
}

/* The best one of all does not matter, and one that is no match at all is told. */
static void test_how_far(void **state) {
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t a, b, c, d;

        (void)state;
        tools_open(&r, FIND_POOL);
        a = tools_new(&r, "Be brief.", NULL);
        find_say(&r, a, "Hello", "Hi.");
        find_say(&r, a, "And two", "Two.");
        b = tools_new(&r, "Be brief.", NULL);
        find_say(&r, b, "Hello", "Hi.");
        find_say(&r, b, "And three", "Three.");
        c = tools_new(&r, "Be verbose.", NULL);
        find_say(&r, c, "Hello", "Hi.");
        d = tools_new(&r, NULL, NULL);
        put(&l, ENGINE_SYSTEM, "Be brief.");
        put(&l, ENGINE_USER, "Hello");
        put(&l, ENGINE_ASSISTANT, "Hi.");
        put(&l, ENGINE_USER, "And two");
        put(&l, ENGINE_ASSISTANT, "Two.");
        put(&l, ENGINE_USER, "More");
        expect(&r, &l, a, 5, 5);
        expect_in(&r, a, &l, NULL, 5, 5);
        assert_int_equal(found.conv.n_turns, 5);
        expect_in(&r, b, &l, NULL, 3, 3);
        assert_int_equal(found.conv.n_turns, 5);
        expect_in(&r, c, &l, NULL, 0, 0);
        assert_int_equal(found.conv.n_turns, 3);
        assert_true(found.conv.n_tokens > 0);
        /* Without turns. */
        expect_in(&r, d, &l, NULL, 0, 0);
        go_on(&r, d, &l, NULL);
        expect_in(&r, d, &l, NULL, 6, 6);
        /* The messages end before the conversation does. */
        l.n = 2;
        expect_in(&r, a, &l, NULL, 2, 2);
        /* Going on replaces what differs, and what agreed stays. */
        l.n = 6;
        expect_in(&r, b, &l, NULL, 3, 3);
        go_on(&r, b, &l, NULL);
        expect_in(&r, b, &l, NULL, 6, 6);
        expect_in(&r, c, &l, NULL, 0, 0);
        go_on(&r, c, &l, NULL);
        expect_in(&r, c, &l, NULL, 6, 6);
        find_check_chains(&r);
        erig_close(&r);
}

static void refused(struct erig *r, struct engine_request q, enum err_code code) {
        assert_int_equal(erig_do(r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, code);
}

/* By its name, and by its owner alone. */
static void test_whose(void **state) {
        struct engine_request q = erig_request(ENGINE_FIND, 0);
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c, d;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = erig_new(&r, "mine", NULL);
        find_say(&r, c, "Hello", "Hi.");
        d = erig_new(&r, "other", NULL);
        find_say(&r, d, "Hello", "Hi.");
        put(&l, ENGINE_USER, "Hello");
        q.messages = l.m;
        q.n_messages = l.n;
        q.conv_name = "mine";
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_FOUND);
        assert_int_equal(A.conv.id, c);
        assert_int_equal(A.found.n_messages, 1);
        q.conv_name = "none";
        refused(&r, q, ERR_NOT_FOUND);
        q.conv_name = "mine";
        q.owner = owner_make(0, 3);
        refused(&r, q, ERR_NOT_FOUND);
        q.conv_name = NULL;
        q.conv_id = c;
        refused(&r, q, ERR_NOT_FOUND);
        q.owner = 4;
        q.admin = true;
        refused(&r, q, ERR_NOT_FOUND);
        q.admin = false;
        q.owner = 0;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_FOUND);
        q.n_messages = 0;
        refused(&r, q, ERR_INVALID);
        q.n_messages = l.n;
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        refused(&r, q, ERR_NOT_FOUND);
        erig_close(&r);
}

/* The session does not choose, and is told of. */
static void test_session(void **state) {
        const struct about about = {.has = ABOUT_SESSION, .session = "one"};
        struct engine_request q = erig_request(ENGINE_FIND, 0), update;
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c, d;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        find_say(&r, c, "Hello", "Hi.");
        d = tools_new(&r, NULL, NULL);
        find_say(&r, d, "Hello", "Hi.");
        update = erig_request(ENGINE_UPDATE, d);
        update.about = &about;
        assert_int_equal(erig_do(&r, &update, &A), ENGINE_CONV);
        put(&l, ENGINE_USER, "Hello");
        q.messages = l.m;
        q.n_messages = l.n;
        for (int i = 0; i < 6; i++) {
                static const char *const sessions[] = {"one", "two", NULL, "one", "two", NULL};
                static const bool others[] = {true, true, false, false, true, false};

                q.conv_id = i < 3 ? c : d;
                q.session = sessions[i];
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_FOUND);
                assert_int_equal(A.conv.id, q.conv_id);
                assert_int_equal(A.found.n_messages, 1);
                assert_int_equal(A.found.other_session, others[i]);
        }
        erig_close(&r);
}

/* Definitions that hold from the beginning: others make it another conversation from its first turn on. */
static void test_tools(void **state) {
        struct list_of l = {.n = 0};
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, "Help.", DEFS);
        find_say(&r, c, "Hello", "Hi.");
        put(&l, ENGINE_SYSTEM, "Help.");
        put(&l, ENGINE_USER, "Hello");
        put(&l, ENGINE_ASSISTANT, "Hi.");
        put(&l, ENGINE_USER, "More");
        expect_in(&r, c, &l, DEFS, 3, 3);
        expect_in(&r, c, &l, NULL, 0, 0);
        expect_in(&r, c, &l, OTHERS, 0, 0);
        go_on(&r, c, &l, OTHERS);
        expect_in(&r, c, &l, OTHERS, 4, 4);
        expect_in(&r, c, &l, DEFS, 0, 0);
        /* Without any, those that it was opened with are told again. */
        go_on(&r, c, &l, NULL);
        expect_in(&r, c, &l, DEFS, 4, 4);
        find_check_chains(&r);
        expect_in(&r, c, &l, DEFS, 4, 4);
        erig_close(&r);
}

/* A client that saw the beginning of a reply, before it went on, agrees with that. */
static void test_reply_that_went_on(void **state) {
        static const char whole[] = "Once upon a time there was a cow. ";
        struct engine_request q;
        struct list_of l = {.n = 0};
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
        find_say(&r, c, "Enough", "Well.");
        put(&l, ENGINE_USER, "Tell");
        put(&l, ENGINE_ASSISTANT, whole);
        put(&l, ENGINE_USER, "Enough");
        put(&l, ENGINE_ASSISTANT, "Well.");
        expect_in(&r, c, &l, NULL, 5, 4);
        l.m[1].text = first;
        l.m[1].text_size = strlen(first);
        expect_in(&r, c, &l, NULL, 2, 2);
        erig_close(&r);
}

/* The register's row is damaged: whoever names it hears of it, and others find the rest. */
static void test_damaged_row(void **state) {
        struct engine_request q = erig_request(ENGINE_FIND, 0);
        struct list_of l = {.n = 0};
        char sql[128];
        struct erig r;
        uint64_t c, d;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        find_say(&r, c, "Hello", "Hi.");
        d = tools_new(&r, NULL, NULL);
        find_say(&r, d, "Hello", "Hi.");
        put(&l, ENGINE_USER, "Hello");
        erig_stop(&r, true);
        snprintf(sql, sizeof(sql), "UPDATE conversation SET revision = -1 WHERE id = %llu",
                (unsigned long long)d);
        find_sql(&r, sql);
        erig_start(&r);
        q.messages = l.m;
        q.n_messages = l.n;
        q.conv_id = d;
        refused(&r, q, ERR_CORRUPT);
        expect(&r, &l, c, 1, 1);
        expect_in(&r, c, &l, NULL, 1, 1);
        erig_close(&r);
}

/* The revision is that of the turns that were compared: a change since then is a conflict. */
static void test_changed_meanwhile(void **state) {
        struct list_of l = {.n = 0};
        uint64_t c, revision;
        struct erig r;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        find_say(&r, c, "Hello", "Hi.");
        find_say(&r, c, "More", "Some.");
        put(&l, ENGINE_USER, "Hello");
        put(&l, ENGINE_ASSISTANT, "Hi.");
        erig_restart(&r, true);
        for (uint32_t named = 0; named < 2; named++) {
                find_in(&r, c, &l, NULL);
                revision = found.conv.revision;
                left = 3 - named;
                find_in(&r, named ? c : 0, &l, NULL);
                left = 0;
                assert_int_equal(found.conv.id, c);
                assert_int_equal(found.found.n_messages, 2);
                assert_int_equal(found.conv.revision, revision);
                assert_int_equal(found.conv.n_turns, 4 - named);
                find_in(&r, c, &l, NULL);
                assert_int_equal(found.conv.revision, revision + 1);
                assert_int_equal(found.conv.n_turns, 3 - named);
        }
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_how_far),
                cmocka_unit_test(test_whose),
                cmocka_unit_test(test_session),
                cmocka_unit_test(test_tools),
                cmocka_unit_test(test_reply_that_went_on),
                cmocka_unit_test(test_damaged_row),
                cmocka_unit_test(test_changed_meanwhile),
        };

        return cmocka_run_group_tests(tests, tools_rig_setup, tools_model_remove);
}
