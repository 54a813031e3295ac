/* SPDX-License-Identifier: MIT */
/*
 * The register under an engine that runs: damaged histories, other programs that lock it or remove
 * its log, what stays of a conversation that was closed.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"
#include "util/test.h"

static struct answer A, B, expected[3];

static const char first[] = "My name is Ben. I live in a small town near the sea, and I like to "
                            "walk there in the evening with my dog.";

static const char *in_state(const struct erig *r, const char *name) {
        static char path[256];

        snprintf(path, sizeof(path), "%s/%s", r->dir, name);
        return path;
}

/* As another program, or a disk that forgets. */
static void sql(const struct erig *r, const char *text) {
        char *msg = NULL;
        sqlite3 *db;

        assert_int_equal(sqlite3_open(in_state(r, "register.db"), &db), SQLITE_OK);
        if (sqlite3_exec(db, text, NULL, NULL, &msg) != SQLITE_OK)
                fail_msg("%s: %s", text, msg);
        sqlite3_close(db);
}

static unsigned count_lines(const struct erig *r, const char *part) {
        unsigned n = 0;

        for (const char *p = r->logs; (p = strstr(p, part)); p++)
                n++;
        return n;
}

static enum engine_event_kind get(struct erig *r, uint64_t c, struct answer *a) {
        struct engine_request q = {
                .verb = ENGINE_GET, .conv_id = c, .want_turns = true, .want_tokens = true};

        return erig_do(r, &q, a);
}

/* A request that the damage stands against. */
static void refused(struct erig *r, struct engine_request q) {
        enum engine_event_kind kind = erig_do(r, &q, &A);

        if (kind != ENGINE_ERROR)
                fail_msg("verb %d did not fail", q.verb);
        assert_int_equal(A.err.code, ERR_CORRUPT);
        assert_non_null(strstr(A.err.msg, "turn 2"));
        assert_true(A.told);
}

static struct engine_request at_turn(enum engine_verb v, uint64_t c, uint32_t turn) {
        return (struct engine_request){
                .verb = v, .conv_id = c, .at_turn = turn, .at_position = ENGINE_UNSET};
}

/* One token of turn 2 is another than was written. */
static void test_damaged_history(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint32_t n_before;
        struct erig r;
        uint64_t c, d;

        erig_need_model();
        erig_open(&r, &o);
        c = erig_new(&r, "hurt", NULL);
        d = erig_new(&r, "well", NULL);
        erig_say(&r, c, first, 8, &expected[0]);
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_false(A.damaged);
        n_before = A.conv.n_tokens;
        erig_say(&r, c, "What is my name?", 8, &expected[1]);
        erig_say(&r, d, first, 8, &A);
        erig_stop(&r, true);
        sql(&r, "UPDATE turn SET tokens = CAST(x'05000000' || substr(tokens, 5) AS BLOB) "
                "WHERE conversation = 1 AND n = 2");
        erig_start(&r);

        /* It says so, in the journal once, and nothing goes on from it. */
        refused(&r, erig_say_request(c, "Hello?", 4));
        refused(&r, erig_say_request(c, "Hello?", 4));
        refused(&r, at_turn(ENGINE_WARM, c, ENGINE_UNSET));
        refused(&r, at_turn(ENGINE_EXPORT, c, ENGINE_UNSET));
        refused(&r, at_turn(ENGINE_FORK, c, ENGINE_UNSET));
        refused(&r, at_turn(ENGINE_FORK, c, 3));
        q = at_turn(ENGINE_REWIND, c, ENGINE_UNSET);
        q.drop_turns = 1;
        refused(&r, q);
        q.at_position = n_before + 1;
        refused(&r, q);
        assert_int_equal(count_lines(&r, "conversation 1 is damaged"), 1);
        assert_non_null(strstr(r.logs, "turn 2"));

        /* What can be read is read: all texts, and the tokens before. */
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_true(A.damaged);
        assert_int_equal(A.damaged_turn, 2);
        assert_int_equal(A.conv.n_turns, 4);
        assert_int_equal(A.n_turns, 4);
        assert_int_equal(A.n_history, n_before);
        assert_string_equal((char *)A.turns[2].text, "What is my name?");
        assert_int_equal(count_lines(&r, "conversation 1 is damaged"), 1);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_turns, 4);

        /* Others are well. */
        erig_say(&r, d, "What is my name?", 8, &A);
        answer_same(&A, &expected[1]);

        /* From before the damage it goes on, as a fork and as itself. */
        q = at_turn(ENGINE_FORK, c, 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        erig_say(&r, A.conv.id, "What is my name?", 8, &B);
        answer_same(&B, &expected[1]);
        q = at_turn(ENGINE_REWIND, c, 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_turns, 2);
        erig_say(&r, c, "What is my name?", 8, &A);
        answer_same(&A, &expected[1]);
        erig_restart(&r, true);
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_false(A.damaged);
        erig_close(&r);
}

/* A turn that is missing altogether ends what can be read. */
static void test_missing_turn(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_need_model();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, first, 8, &A);
        erig_say(&r, c, "What is my name?", 8, &expected[1]);
        erig_stop(&r, true);
        sql(&r, "DELETE FROM turn WHERE conversation = 1 AND n = 2");
        erig_start(&r);
        refused(&r, erig_say_request(c, "Hello?", 4));
        assert_int_equal(get(&r, c, &A), ENGINE_CONV);
        assert_true(A.damaged);
        assert_int_equal(A.n_turns, 2);
        q = at_turn(ENGINE_REWIND, c, 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        erig_say(&r, c, "What is my name?", 8, &A);
        answer_same(&A, &expected[1]);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        erig_check_empty(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_damaged_history),
                cmocka_unit_test(test_missing_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
