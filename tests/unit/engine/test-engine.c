/* SPDX-License-Identifier: MIT */
/*
 * The engine as a whole, with the bundled model: metamorphic where it can be (evict = never
 * evicted, fork = copy, restart = never stopped, together = alone), log-probabilities compared with
 * memcmp (I2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "util/test.h"

static struct answer A, B, C; /* large: not on the stack */

static void test_say(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, "first", "You are a helpful assistant.");
        erig_say(&r, c, "Hello, my name is Ada.", 24, &A);
        assert_true(A.n_generated > 0 && A.n_generated <= 24);
        assert_int_equal(A.n_ram, 0);
        assert_int_equal(A.n_prompt, A.n_computed);
        assert_int_equal(A.revision, 3); /* system, message, reply */
        print_message("said: %s\n", A.text);
        erig_say(&r, c, "What is my name?", 24, &B);
        print_message("said: %s\n", B.text);
        /* All but the last sampled token was in memory. */
        assert_int_equal(B.n_ram, A.n_prompt + A.n_generated - 1);
        assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        assert_int_equal(erig_simple(&r, ENGINE_GET, c, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_NOT_FOUND);
        assert_int_equal(erig_stat(&r, "pool_blocks"), 0);
        erig_close(&r);
}

/* The same dialogue in three lives: undisturbed, evicted after each turn, restarted after each
 * turn. */
static void test_evict_and_restart(void **state) {
        static const char *const texts[] = {"Hi! My cat is called Milo.",
                "I like the colour green.", "What is my cat called?",
                "And which colour do I like?"};
        static struct answer first[4];
        struct engine_options o = erig_options(64 << 20);
        struct erig r;

        for (int life = 0; life < 4; life++) {
                uint64_t c;

                erig_open(&r, &o);
                c = erig_new(&r, NULL, NULL);
                for (int i = 0; i < 4; i++) {
                        erig_say(&r, c, texts[i], 20, life == 0 ? &first[i] : &A);
                        if (life == 0)
                                continue;
                        answer_same(&first[i], &A);
                        if (i > 0 && life < 3)
                                assert_int_equal(A.n_disk, first[i].n_ram);
                        if (life == 1) {
                                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &B), ENGINE_CONV);
                                assert_int_equal(B.conv.residency, ENGINE_SPILLED);
                                assert_int_equal(erig_stat(&r, "pool_blocks"), 0);
                        } else {
                                /* Life 3 is killed: its memory is lost, its turns are not. */
                                erig_restart(&r, life == 2);
                                if (life == 3)
                                        assert_int_equal(erig_stat(&r, "spill_records"), 0);
                        }
                }
                if (life < 3)
                        assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
                erig_close(&r);
        }
}

/* Each token comes with the bytes that it prints, parts of characters too; together they are the reply. */
static void test_texts_of_tokens(void **state) {
        static const char grammar[] = "root ::= \"na\u00efve \U0001F728 \u2020\"";
        static const char reply[] = "na\xc3\xafve \xf0\x9f\x9c\xa8 \xe2\x80\xa0";
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_say_request(0, "Spell it.", 40);
        size_t n_parts = 0;
        struct erig r;

        erig_open(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        q.constraint = ENGINE_CONSTRAINT_GBNF;
        q.constraint_text = grammar;
        q.constraint_size = strlen(grammar);
        q.n_logprobs = 5;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_string_equal(A.text, reply);
        assert_true(A.pieces_size >= strlen(reply));
        assert_memory_equal(A.pieces, reply, strlen(reply));
        /* Behind it at most the name of the token that ended the reply. */
        for (size_t i = 0; i < A.n_tokens && A.piece_ends[i] < strlen(reply); i++)
                n_parts += (A.pieces[A.piece_ends[i]] & 0xc0) == 0x80;
        assert_true(n_parts > 0);
        /* The same without alternatives; nothing without log-probabilities. */
        q.n_logprobs = 0;
        q.conv_id = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_int_equal(B.pieces_size, A.pieces_size);
        assert_memory_equal(B.pieces, A.pieces, A.pieces_size);
        q.want_logprobs = false;
        q.conv_id = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_string_equal(B.text, reply);
        assert_int_equal(B.pieces_size, 0);
        erig_close(&r);
}

/* A fork says what the original says; both go their own ways; eviction of one leaves the other. */
static void test_fork(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_request(ENGINE_FORK, 0);
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &o);
        c = erig_new(&r, "trunk", NULL);
        erig_say(&r, c, "My dog is called Rex and I live in Rome.", 20, &A);
        q.conv_id = c;
        q.name = "branch";
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        d = A.conv.id;
        assert_int_equal(A.conv.parent, c);
        assert_int_equal(A.conv.residency, ENGINE_RESIDENT);
        erig_say(&r, c, "What is my dog called?", 20, &A);
        erig_say(&r, d, "What is my dog called?", 20, &B);
        answer_same(&A, &B);
        assert_int_equal(B.n_ram, A.n_ram);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, NULL), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "pool_blocks"), 0);
        erig_say(&r, c, "Where do I live?", 20, &A);
        erig_say(&r, d, "Where do I live?", 20, &B);
        answer_same(&A, &B);
        assert_true(A.n_disk > 0 && B.n_shared > 0);
        assert_true(B.n_disk + B.n_ram + B.n_shared >= A.n_disk + A.n_ram);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        erig_say(&r, d, "Thank you.", 10, &B);
        assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
        erig_close(&r);
}

static void test_rewind(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_REWIND,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .drop_turns = 2};
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "I am Ben.", 20, &A);
        for (int evict = 0; evict < 2; evict++) {
                erig_say(&r, c, "How are you today? Tell me something nice.", 40, &A);
                if (evict)
                        erig_simple(&r, ENGINE_EVICT, c, NULL);
                q.conv_id = c;
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
                assert_int_equal(B.conv.n_turns, 2);
                erig_say(&r, c, "How are you today? Tell me something nice.", 40, &B);
                answer_same(&A, &B);
                q.conv_id = c;
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
        }
        /* Regenerate: drop the reply, continue with nothing. */
        erig_say(&r, c, "What is my name?", 20, &A);
        q.drop_turns = 1;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
        struct engine_request again = erig_say_request(c, "", 20);
        again.input = ENGINE_INPUT_NONE;
        assert_int_equal(erig_do(&r, &again, &B), ENGINE_DONE);
        answer_same(&A, &B);
        erig_close(&r);
}

static void say_text(char *buf, size_t n, int conv, int round) {
        snprintf(buf, n, "Round %d: my friend number %d is called %c%c%c and has %d birds.", round,
                conv, 'A' + conv % 26, 'a' + (conv * 7) % 26, 'a' + (conv * 11 + round) % 26,
                conv + round);
}

/* Many conversations in a pool for a few: same bits as with room for all, never over the budget. */
static void test_small_pool(void **state) {
        enum { N = ERIG_ROUNDS(12, 6), ROUNDS = ERIG_ROUNDS(3, 2) };
        static struct answer wide[N][ROUNDS];
        char text[128];

        for (int small = 0; small < 2; small++) {
                struct engine_options o = erig_options(small ? erig_pool(14) : (uint64_t)256 << 20);
                struct erig r;
                uint64_t c[N];

                erig_open(&r, &o);
                for (int i = 0; i < N; i++)
                        c[i] = erig_new(&r, NULL, NULL);
                for (int k = 0; k < ROUNDS; k++)
                        for (int i = 0; i < N; i++) {
                                say_text(text, sizeof(text), i, k);
                                erig_say(&r, c[i], text, 24, small ? &A : &wide[i][k]);
                                if (small)
                                        answer_same(&A, &wide[i][k]);
                                assert_true(erig_stat(&r, "ledger_used") <= o.pool_size);
                                assert_true(erig_stat(&r, "ledger_peak") <= o.pool_size);
                        }
                assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
                assert_true(small == (erig_stat(&r, "evictions") > 0));
                erig_close(&r);
        }
}

/* All at once: the same bits as one after another, in a pool that can't hold them together. */
static void test_together(void **state) {
        enum { N = ERIG_ROUNDS(10, 6) };
        static struct answer alone[N], together[N];
        struct engine_request q[N];
        char texts[N][128];

        for (int all = 0; all < 2; all++) {
                struct engine_options o = erig_options(all ? erig_pool(14) : (uint64_t)256 << 20);
                struct erig r;

                o.batch_tokens = all ? 48 : 256;
                o.n_threads = 1 + (unsigned)all;
                erig_open(&r, &o);
                for (int i = 0; i < N; i++) {
                        uint64_t c = erig_new(&r, NULL, i % 2 ? "You are kind." : NULL);

                        say_text(texts[i], sizeof(texts[i]), i, 0);
                        q[i] = erig_say_request(c, texts[i], 32);
                        if (!all)
                                erig_do(&r, &q[i], &alone[i]);
                }
                if (all) {
                        erig_do_all(&r, q, together, N);
                        for (int i = 0; i < N; i++) {
                                assert_int_equal(together[i].kind, ENGINE_DONE);
                                answer_same(&alone[i], &together[i]);
                        }
                        assert_true(erig_stat(&r, "ledger_peak") <= o.pool_size);
                }
                erig_close(&r);
        }
}

/* A token's random number is that of its place in the conversation: a reply in two pieces is the
 * reply in one. */
static void test_in_pieces(void **state) {
        enum { LENGTH = 24, FIRST = 10 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_long_request(0, "Tell me a story.", LENGTH);
        struct erig r;

        erig_open(&r, &o);
        q.sampling = (struct sampling){
                .has = SAMPLING_TEMPERATURE | SAMPLING_SEED, .temperature = 5, .seed = 7};
        q.conv_id = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        q.conv_id = erig_new(&r, NULL, NULL);
        q.max_tokens = FIRST;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_memory_equal(A.tokens, B.tokens, FIRST * sizeof(A.tokens[0]));
        q.input = ENGINE_INPUT_NONE;
        q.max_tokens = LENGTH - FIRST;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_memory_equal(A.tokens + FIRST, B.tokens, (LENGTH - FIRST) * sizeof(A.tokens[0]));
        erig_close(&r);
}

static void test_errors(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[2];
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, "x", NULL);
        q[0] = (struct engine_request){.verb = ENGINE_OPEN, .name = "x"};
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_EXISTS);
        q[0] = (struct engine_request){.verb = ENGINE_OPEN, .name = "123"};
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        /* Another owner sees nothing (I6). */
        q[0] = erig_say_request(c, "hello", 4);
        q[0].owner = 7;
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_NOT_FOUND);
        /* An administrator reaches others' conversations by their ids, never by names. */
        q[0] = (struct engine_request){
                .verb = ENGINE_EVICT, .conv_name = "x", .owner = 7, .admin = true};
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_NOT_FOUND);
        q[0] = (struct engine_request){
                .verb = ENGINE_EVICT, .conv_id = c, .owner = 7, .admin = true};
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_CONV);
        /* A fork that fails leaves the conversation to others. */
        q[0] = (struct engine_request){.verb = ENGINE_FORK,
                .conv_id = c,
                .name = "x",
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET};
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_EXISTS);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        /* Two at once on one conversation. */
        q[0] = erig_long_request(c, "hello", 200);
        erig_send(&r, &q[0], &A);
        engine_pause(r.en, q[0].handle, true);
        while (erig_stat(&r, "requests_active") + erig_stat(&r, "requests_queued") == 0)
                assert_false(A.final);
        q[1] = erig_say_request(c, "hello", 4);
        assert_int_equal(erig_do(&r, &q[1], &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, ERR_BUSY);
        engine_pause(r.en, q[0].handle, false);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        /* Revisions. */
        q[0] = erig_say_request(c, "hello", 4);
        q[0].has_expect_revision = true;
        q[0].expect_revision = 1;
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONFLICT);
        q[0].expect_revision = 3;
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_DONE);
        /* Longer than the context. */
        char *longtext = malloc(100001);
        memset(longtext, 'x', 100000);
        longtext[100000] = '\0';
        q[0] = erig_say_request(c, longtext, 4);
        assert_int_equal(erig_do(&r, &q[0], &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        free(longtext);
        erig_close(&r);
}

static void test_stops_and_limits(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;
        char *cut;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "Tell me about your day, please.", 30, &A);
        assert_true(strlen(A.text) > 6);
        /* The middle of that reply as a stop string, in another conversation. */
        cut = strndup(A.text + strlen(A.text) / 2, 3);
        c = erig_new(&r, NULL, NULL);
        q = erig_say_request(c, "Tell me about your day, please.", 30);
        q.stops[0] = "no such text";
        q.stops[1] = cut;
        q.n_stops = 2;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_int_equal(B.finish, ENGINE_FINISH_STOP_STRING);
        assert_null(strstr(B.text, cut));
        assert_memory_equal(A.text, B.text, strlen(B.text));
        free(cut);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "Tell me about your day, please.", 3, &B);
        assert_int_equal(B.finish, ENGINE_FINISH_LENGTH);
        assert_int_equal(B.n_generated, 3);
        /* Nothing but input; then the reply. */
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "Tell me about your day, please.", 0, &B);
        assert_int_equal(B.n_generated, 0);
        q = erig_say_request(c, "", 30);
        q.input = ENGINE_INPUT_NONE;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        answer_same(&A, &B);
        erig_close(&r);
}

/* What a reply is told to have ended by, and what the history has behind it: the token that ends
 * replies once, whether the model said it or the reply was cut. */
static void test_ends_of_replies(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;
        uint32_t end;
        int32_t eog;

        erig_need_model();
        o.context = 512;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "Hello.", 400, &A);
        assert_int_equal(A.finish, ENGINE_FINISH_STOP);
        eog = A.tokens[A.n_tokens - 1];
        d = erig_new(&r, NULL, NULL);
        erig_say(&r, d, "Hello.", 1, &B);
        assert_int_equal(B.finish, ENGINE_FINISH_LENGTH);
        assert_int_not_equal(B.tokens[0], eog);
        for (int i = 0; i < 2; i++) {
                struct engine_request get = {
                        .verb = ENGINE_GET, .conv_id = i ? d : c, .want_tokens = true};

                end = (i ? &B : &A)->n_prompt + (i ? &B : &A)->n_generated;
                q = erig_say_request(i ? d : c, "Bye.", 0);
                assert_int_equal(erig_do(&r, &q, &C), ENGINE_DONE);
                assert_int_equal(erig_do(&r, &get, &C), ENGINE_CONV);
                assert_true(C.n_history > end + 1);
                assert_int_equal(C.history[end - !i], eog);
                assert_int_not_equal(C.history[end - !i + 1], eog);
        }
        /* The end of the context. */
        d = erig_new(&r, NULL, NULL);
        q = erig_say_request(d, "Hello.", 2000);
        q.ignore_eos = true;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        assert_int_equal(B.finish, ENGINE_FINISH_CONTEXT);
        assert_int_equal(B.n_prompt + B.n_generated, 512);
        answer_reset(&C);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_say),
                cmocka_unit_test(test_evict_and_restart),
                cmocka_unit_test(test_texts_of_tokens),
                cmocka_unit_test(test_fork),
                cmocka_unit_test(test_rewind),
                cmocka_unit_test(test_small_pool),
                cmocka_unit_test(test_together),
                cmocka_unit_test(test_in_pieces),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_stops_and_limits),
                cmocka_unit_test(test_ends_of_replies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
