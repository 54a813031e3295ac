/* SPDX-License-Identifier: MIT */
/*
 * What conversations go through, and that they are found afterwards: cuts, forks, imports, other models,
 * registers from before there were chains, damage, and chains that mislead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carry-rig.h"
#include "find-rig.h"
#include "store/store.h"
#include "transfer-rig.h"
#include "util/test.h"

#define DEFS "[{\"name\":\"f\",\"parameters\":{}}]"
#define CALL "Go.<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": [1, 2]}}</tool_call>"

static struct answer A, G;

/* No memory to look up where a chain goes on from. */
static bool no_chain;
int __real_store_chain(
        struct store *s, uint64_t id, uint32_t n_turns, uint64_t *ret, struct err *e);
int __wrap_store_chain(
        struct store *s, uint64_t id, uint32_t n_turns, uint64_t *ret, struct err *e);
int __wrap_store_chain(
        struct store *s, uint64_t id, uint32_t n_turns, uint64_t *ret, struct err *e) {
        return no_chain ? err_set(e, ERR_NOMEM, "it was to fail")
                        : __real_store_chain(s, id, n_turns, ret, e);
}

static struct engine_request to_turn(enum engine_verb verb, uint64_t conv, uint32_t turn) {
        struct engine_request q = erig_request(verb, conv);

        q.at_turn = turn;
        return q;
}

/* A position inside of the reply @turn: behind its first @n tokens of text. */
static uint32_t inside(struct erig *r, uint64_t conv, uint32_t turn, uint32_t n) {
        erig_get(r, conv, &G);
        assert_true(turn < G.n_turns && G.turns[turn].end - G.turns[turn].start > n + 12);
        return G.turns[turn].end - n;
}

static uint64_t dialogue(struct erig *r, struct list_of *l) {
        uint64_t c = tools_new(r, "Be brief.", NULL);

        find_say(r, c, "Hello", "Hi, this is a reply.");
        find_say(r, c, "More", "This is another reply.");
        l->n = 0;
        put(l, ENGINE_SYSTEM, "Be brief.");
        put(l, ENGINE_USER, "Hello");
        put(l, ENGINE_ASSISTANT, "Hi, this is a reply.");
        put(l, ENGINE_USER, "More");
        put(l, ENGINE_ASSISTANT, "This is another reply.");
        return c;
}

static void done(struct erig *r, struct engine_request q, enum engine_event_kind kind) {
        if (erig_do(r, &q, &A) != kind)
                fail_msg("%s", A.err.msg);
}

/* The text of turn @turn, as a message. */
static void put_turn(struct erig *r, struct list_of *l, size_t i, uint64_t conv, uint32_t turn) {
        static char texts[8][256];
        static unsigned next;
        char *text = texts[next++ % 8];

        answer_reset(&G);
        erig_get(r, conv, &G);
        snprintf(text, 256, "%.*s", (int)G.turns[turn].text_size, (char *)G.turns[turn].text);
        l->m[i].text = text;
        l->m[i].text_size = strlen(text);
        answer_reset(&G);
}

static void test_cuts(void **state) {
        struct list_of l, cut;
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = dialogue(&r, &l);
        /* A fork at a turn: the one that ends there is taken. */
        done(&r, to_turn(ENGINE_FORK, c, 3), ENGINE_CONV);
        d = A.conv.id;
        cut = l;
        cut.n = 3;
        expect(&r, &cut, d, 3, 3);
        expect(&r, &l, c, 5, 5);
        /* A fork inside of a reply says the beginning of it. */
        q = erig_request(ENGINE_FORK, c);
        q.at_position = inside(&r, c, 4, 6);
        done(&r, q, ENGINE_CONV);
        cut = l;
        put_turn(&r, &cut, 4, A.conv.id, 4);
        expect(&r, &cut, A.conv.id, 5, 5);
        /* So does a rewind. */
        q = erig_request(ENGINE_REWIND, d);
        q.at_position = inside(&r, d, 2, 4);
        done(&r, q, ENGINE_CONV);
        cut = l;
        put_turn(&r, &cut, 2, d, 2);
        cut.n = 3;
        expect(&r, &cut, d, 3, 3);
        /* A Continue from inside of a reply, with a message, and one that goes on. */
        q = erig_say_request(c, "Else", 0);
        q.cuts = true;
        q.at_turn = ENGINE_UNSET;
        q.at_position = inside(&r, c, 2, 5);
        done(&r, q, ENGINE_DONE);
        cut = l;
        put_turn(&r, &cut, 2, c, 2);
        cut.m[3].text = "Else";
        cut.n = 4;
        expect(&r, &cut, c, 4, 4);
        find_check_chains(&r);
        expect(&r, &cut, c, 4, 4);
        /* The old end is gone from this one, and is still in the fork. */
        l.n = 4;
        find_as(&r, &l, NULL, NULL);
        assert_int_equal(found.found.n_messages, 4);
        assert_true(found.conv.id != c);
        erig_close(&r);
}

/* Imported, evicted, after a kill. */
static void test_import(void **state) {
        struct transfer_file f;
        struct list_of l;
        struct erig r;
        uint64_t c, d;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = dialogue(&r, &l);
        f = transfer_export(&r, c, true);
        done(&r, erig_request(ENGINE_CLOSE, c), ENGINE_EMPTY);
        expect(&r, &l, 0, 0, 0);
        d = transfer_import_good(&r, &f, "again");
        expect(&r, &l, d, 5, 5);
        find_say(&r, d, "On", "And on.");
        erig_restart(&r, false);
        put(&l, ENGINE_USER, "On");
        expect(&r, &l, d, 6, 6);
        find_check_chains(&r);
        free(f.data);
        erig_close(&r);
}

/* Turns from before there were chains are found after a start; so are those behind them. */
static void test_make_up(void **state) {
        struct list_of l;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = dialogue(&r, &l);
        erig_stop(&r, true);
        find_sql(&r, "UPDATE turn SET chain = NULL WHERE n >= 2");
        erig_start(&r);
        assert_int_equal(find_sql(&r, "SELECT count(*) FROM turn WHERE chain IS NULL"), 0);
        expect(&r, &l, c, 5, 5);
        /* What there is no memory for is unknown, and so is what is appended to it. */
        no_chain = true;
        find_say(&r, c, "On", "And on.");
        no_chain = false;
        find_say(&r, c, "Still", "On.");
        assert_int_equal(find_sql(&r, "SELECT count(*) FROM turn WHERE chain IS NULL"), 4);
        put(&l, ENGINE_USER, "On");
        expect(&r, &l, c, 5, 5);
        expect_in(&r, c, &l, NULL, 5, 5);
        erig_restart(&r, true);
        expect(&r, &l, c, 6, 6);
        find_check_chains(&r);
        erig_close(&r);
}

/* Chains lead to candidates and decide nothing. */
static void test_misleading_chains(void **state) {
        struct list_of l, other = {.n = 0};
        struct erig r;
        uint64_t c, d;
        char sql[256], lies[32][256];

        (void)state;
        tools_open(&r, FIND_POOL);
        c = dialogue(&r, &l);
        put(&other, ENGINE_SYSTEM, "Be brief.");
        put(&other, ENGINE_USER, "Hello");
        for (int i = 0; i < 40; i++) {
                d = tools_new(&r, "Be brief.", NULL);
                find_say(&r, d, "Bye", "See you.");
                find_say(&r, d, "Really", "Yes.");
                /* They have all chains of the first one from its second turn on. */
                snprintf(sql, sizeof(sql),
                        "UPDATE turn SET chain = (SELECT t.chain FROM turn t WHERE "
                        "t.conversation = %llu AND t.n = turn.n) WHERE conversation = %llu AND n > "
                        "0",
                        (unsigned long long)c, (unsigned long long)d);
                if (i >= 8)
                        strcpy(lies[i - 8], sql);
        }
        erig_stop(&r, true);
        for (int i = 0; i < 32; i++)
                find_sql(&r, lies[i]);
        erig_start(&r);
        /* More liars than are looked at: what is found is true, and shorter. */
        find_as(&r, &l, NULL, NULL);
        assert_int_equal(found.found.n_messages, 1);
        assert_int_equal(found.found.at_turn, 1);
        /* Few liars: the true one is found behind them. */
        for (uint64_t i = c + 12; i <= c + 40; i++)
                done(&r, erig_request(ENGINE_CLOSE, i), ENGINE_EMPTY);
        expect(&r, &l, c, 5, 5);
        expect(&r, &other, c, 2, 2);
        /* A liar alone. */
        expect_in(&r, c + 11, &l, NULL, 1, 1);
        erig_close(&r);
}

/* A damaged history is found up to the damage. */
static void test_damage(void **state) {
        struct list_of l;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = dialogue(&r, &l);
        erig_stop(&r, true);
        find_sql(&r, "UPDATE turn SET tokens = zeroblob(length(tokens)) WHERE n = 2");
        erig_start(&r);
        expect(&r, &l, c, 2, 2);
        expect_in(&r, c, &l, NULL, 2, 2);
        erig_stop(&r, true);
        find_sql(&r, "UPDATE turn SET chain = NULL");
        erig_start(&r);
        expect(&r, &l, c, 2, 2);
        assert_int_equal(find_sql(&r, "SELECT count(*) FROM turn WHERE chain IS NULL"), 0);
        erig_close(&r);
}

/* Definitions that come with the first message hold from the beginning. */
static void test_tools_told_first(void **state) {
        static const char *const result[] = {"one"};
        struct list_of l = {.n = 0};
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = tools_new(&r, NULL, NULL);
        q = erig_say_request(c, "Hello", 0);
        q.tools = DEFS;
        done(&r, q, ENGINE_DONE);
        find_say(&r, c, NULL, CALL);
        find_answer(&r, c, result, 1, "Done.");
        put(&l, ENGINE_USER, "Hello");
        put_said(&l, "Go.", NULL, "f", "{\"x\":[1,2]}");
        put_result(&l, "one");
        put(&l, ENGINE_ASSISTANT, "Done.");
        put(&l, ENGINE_USER, "More");
        expect_with(&r, &l, DEFS, c, 4, 4);
        expect_with(&r, &l, NULL, 0, 0, 0);
        find_check_chains(&r);
        erig_close(&r);
}

/* Gone on differently from an earlier turn. */
static void test_gone_on(void **state) {
        struct list_of l;
        struct erig r;
        uint64_t c;

        (void)state;
        tools_open(&r, FIND_POOL);
        c = dialogue(&r, &l);
        done(&r, to_turn(ENGINE_REWIND, c, 3), ENGINE_CONV);
        l.n = 4;
        expect(&r, &l, c, 3, 3);
        find_say(&r, c, "More", "Other.");
        expect(&r, &l, c, 4, 4);
        find_check_chains(&r);
        erig_close(&r);
}

/* A conversation of another model is found by its texts, and after it was carried over. */
static void test_another_model(void **state) {
        static char text[8192];
        struct list_of l = {.n = 0};
        struct engine_options o;
        size_t size = 0;
        struct erig r;
        uint64_t c;

        (void)state;
        erig_need_model();
        o = erig_options(64 << 20);
        carry_open(&r, &o);
        c = carry_talk(&r);
        answer_reset(&G);
        erig_get(&r, c, &G);
        for (uint32_t i = 0; i < G.n_turns; i++) {
                const struct engine_turn *t = &G.turns[i];

                /* A reply that went on is one message. */
                if (i == 0 || t->role != G.turns[i - 1].role) {
                        put(&l, t->role, "");
                        l.m[l.n - 1].text = text + size;
                }
                assert_true(size + t->text_size < sizeof(text));
                memcpy(text + size, t->text, t->text_size);
                l.m[l.n - 1].text_size += t->text_size;
                size += t->text_size;
        }
        expect(&r, &l, c, G.n_turns, (uint32_t)l.n);
        assert_false(found.conv.other_vocab);
        carry_to_small(&r);
        expect(&r, &l, c, G.n_turns, (uint32_t)l.n);
        assert_true(found.conv.other_vocab);
        expect_in(&r, c, &l, NULL, G.n_turns, (uint32_t)l.n);
        assert_true(found.conv.other_vocab);
        /* What is known of it here are its texts; that is the same, if nothing was marked in them. */
        find_check_chains(&r);
        carry(&r, c, &A);
        expect(&r, &l, c, G.n_turns, (uint32_t)l.n);
        assert_false(found.conv.other_vocab);
        find_check_chains(&r);
        answer_reset(&G);
        carry_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cuts),
                cmocka_unit_test(test_import),
                cmocka_unit_test(test_make_up),
                cmocka_unit_test(test_misleading_chains),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_tools_told_first),
                cmocka_unit_test(test_gone_on),
                cmocka_unit_test(test_another_model),
        };

        return cmocka_run_group_tests(tests, tools_rig_setup, tools_model_remove);
}
