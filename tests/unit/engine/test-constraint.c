/* SPDX-License-Identifier: MIT */
/*
 * Replies with a constraint: they meet it, and they are the same tokens whatever happens around
 * them: other conversations in the batch, parking, eviction, a restart, forks, and cuts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "unit/grammar/grammar-rig.h"
#include "util/test.h"

#define POOL (64 << 20)

static const char schema[] = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
                             "\"minLength\":1,\"maxLength\":24},"
                             "\"age\":{\"type\":\"integer\",\"minimum\":18,\"maximum\":99},"
                             "\"tags\":{\"type\":\"array\",\"items\":{"
                             "\"enum\":[\"red\",\"green\",\"blue\"]},\"minItems\":2,\"maxItems\":5}"
                             "},\"required\":[\"name\",\"age\","
                             "\"tags\"]}";
static const char list[] = "root ::= (\"- \" [a-z \\u00c0-\\u017f]{3,30} \"\\n\"){3}";

static struct answer A, B, C, Many[8];

static struct engine_request ask(
        uint64_t conv, const char *text, uint64_t seed, uint32_t max_tokens) {
        struct engine_request q = erig_say_request(conv, text, max_tokens);

        q.sampling.has |= SAMPLING_TEMPERATURE | SAMPLING_SEED;
        q.sampling.temperature = 0.9f;
        q.sampling.seed = seed;
        q.constraint = ENGINE_CONSTRAINT_JSON_SCHEMA;
        q.constraint_text = schema;
        q.constraint_size = strlen(schema);
        return q;
}

static struct engine_request ask_list(
        uint64_t conv, const char *text, uint64_t seed, uint32_t max_tokens) {
        struct engine_request q = ask(conv, text, seed, max_tokens);

        q.constraint = ENGINE_CONSTRAINT_GBNF;
        q.constraint_text = list;
        q.constraint_size = strlen(list);
        return q;
}

static void check_meets(enum grammar_kind kind, const char *constraint, const char *text) {
        struct grammar_rig r;
        struct grammar *g;

        rig_init(&r, NULL, 0);
        g = rig_grammar(&r, kind, constraint);
        if (!rig_meets(g, text, strlen(text)))
                fail_msg("the reply \"%s\" fails after %zu bytes", text,
                        rig_takes(g, text, strlen(text)));
        grammar_free(g);
        rig_deinit(&r);
}

static void done(struct erig *r, struct engine_request q, struct answer *a) {
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("%s", a->err.msg);
}

static void test_replies_meet(void **state) {
        struct engine_options o = erig_options(POOL);
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, "You are a helpful assistant.");
        for (uint64_t seed = 1; seed <= 6; seed++) {
                done(&r, ask(c, "Who are you?", seed, 300), &A);
                assert_int_equal(A.finish, ENGINE_FINISH_STOP);
                check_meets(GRAMMAR_JSON_SCHEMA, schema, A.text);
                done(&r, ask_list(c, "Name three colours.", seed, 300), &A);
                assert_int_equal(A.finish, ENGINE_FINISH_STOP);
                check_meets(GRAMMAR_GBNF, list, A.text);
        }
        /* without temperature, and as a raw turn: no template, no space in front */
        {
                struct engine_request q = ask(erig_new(&r, NULL, NULL), "Once upon a time", 1, 300);

                q.input = ENGINE_INPUT_RAW;
                q.sampling.temperature = 0;
                done(&r, q, &A);
                check_meets(GRAMMAR_JSON_SCHEMA, schema, A.text);
                q.conv_id = erig_new(&r, NULL, NULL);
                q.want_logprobs = true;
                done(&r, q, &B);
                answer_same(&A, &B);
        }
        /* Behind a special token, where SPM does not print the space of the first word. */
        for (uint64_t seed = 1; seed <= 8; seed++) {
                static const char words[] = "root ::= [A-Z]? [a-z]{1,12} \" \" [a-z]{2,9} \".\"";
                struct engine_request q = ask(erig_new(&r, NULL, NULL), "", seed, 100);
                const int32_t bos = 1;

                q.input = ENGINE_INPUT_TOKENS;
                q.tokens = &bos;
                q.n_tokens = 1;
                q.constraint = ENGINE_CONSTRAINT_GBNF;
                q.constraint_text = words;
                q.constraint_size = strlen(words);
                done(&r, q, &A);
                assert_int_equal(A.finish, ENGINE_FINISH_STOP);
                check_meets(GRAMMAR_GBNF, words, A.text);
                /* and again from the middle, where the first token is part of the beginning */
                q.conv_id = erig_new(&r, NULL, NULL);
                q.max_tokens = 2;
                done(&r, q, &B);
                q.input = ENGINE_INPUT_NONE;
                q.max_tokens = 100;
                done(&r, q, &C);
                assert_int_equal(B.n_tokens + C.n_tokens, A.n_tokens);
                assert_memory_equal(C.tokens, A.tokens + 2, C.n_tokens * sizeof(C.tokens[0]));
        }
        erig_check_budget(&r);
        erig_close(&r);
}

/* Alone in an engine of its own, or with others of other constraints and without. */
static void test_in_a_batch(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q[6];
        struct erig r;

        erig_open(&r, &o);
        for (size_t i = 0; i < 6; i++) {
                uint64_t c = erig_new(&r, NULL, NULL);

                q[i] = i % 3 == 2   ? erig_long_request(c, "Tell me a story.", 60)
                       : i % 3 == 1 ? ask_list(c, "Name three colours.", i, 200)
                                    : ask(c, "Who are you?", i, 200);
                q[i].owner = (uint32_t)i % 2;
        }
        for (size_t i = 0; i < 6; i++)
                q[i].owner = 0;
        erig_do_all(&r, q, Many, 6);
        for (size_t i = 0; i < 6; i++) {
                if (i % 3 == 2)
                        continue;
                assert_int_equal(Many[i].kind, ENGINE_DONE);
                check_meets(i % 3 ? GRAMMAR_GBNF : GRAMMAR_JSON_SCHEMA, i % 3 ? list : schema,
                        Many[i].text);
                erig_alone(q[i], &A);
                answer_same(&A, &Many[i]);
        }
        erig_check_budget(&r);
        erig_close(&r);
}

/* One place for two users: requests are parked in the middle of their replies. */
static void test_parked(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q[2];
        struct erig r;

        o.max_active = 1;
        erig_open(&r, &o);
        for (uint32_t i = 0; i < 2; i++) {
                struct engine_request open = erig_request(ENGINE_OPEN, 0);

                open.owner = 1000 + i;
                assert_int_equal(erig_do(&r, &open, &A), ENGINE_CONV);
                q[i] = ask(A.conv.id, i ? "What is your name?" : "Who are you?", 40 + i, 400);
                q[i].owner = 1000 + i;
                q[i].constraint_text =
                        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":20},"
                        "\"minItems\":60,\"maxItems\":60}";
                q[i].constraint_size = strlen(q[i].constraint_text);
        }
        erig_do_all(&r, q, Many, 2);
        assert_true(erig_stat(&r, "requests_parked") > 0);
        for (uint32_t i = 0; i < 2; i++) {
                assert_int_equal(Many[i].kind, ENGINE_DONE);
                q[i].owner = 0;
                erig_alone(q[i], &A);
                answer_same(&A, &Many[i]);
        }
        erig_close(&r);
}

static struct engine_request go_on(uint64_t conv, uint64_t seed, uint32_t max_tokens) {
        struct engine_request q = ask(conv, "", seed, max_tokens);

        q.input = ENGINE_INPUT_NONE;
        return q;
}

static uint64_t fork_at(struct erig *r, uint64_t conv, uint32_t position) {
        struct engine_request q = erig_request(ENGINE_FORK, conv);

        q.at_position = position;
        assert_int_equal(erig_do(r, &q, &C), ENGINE_CONV);
        return C.conv.id;
}

/* A reply that is forked at any token, evicted, and gone on with after a restart is the same reply:
 * the state comes from the text. */
static void test_forked_inside(void **state) {
        struct engine_options o = erig_options(POOL);
        struct erig r;
        uint64_t c;
        uint32_t end;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, "You are a helpful assistant.");
        done(&r, ask(c, "Who are you?", 7, 300), &A);
        assert_int_equal(A.finish, ENGINE_FINISH_STOP);
        erig_get(&r, c, &B);
        end = B.conv.n_tokens;
        for (uint32_t k = 1; k < A.n_generated; k += 3) {
                uint64_t child = fork_at(&r, c, end - A.n_generated + k);

                if (k % 2)
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, child, NULL), ENGINE_CONV);
                if (k % 5 == 1)
                        erig_restart(&r, k % 2);
                done(&r, go_on(child, 7, A.n_generated - k), &B);
                assert_int_equal(B.n_tokens, A.n_tokens - k);
                assert_memory_equal(B.tokens, A.tokens + k, B.n_tokens * sizeof(B.tokens[0]));
        }
        erig_close(&r);
}

/* A reply in pieces of a few tokens each: each request goes on where the one before ended. */
static void test_in_pieces(void **state) {
        struct engine_options o = erig_options(POOL);
        struct erig r;
        uint64_t c;
        size_t n = 0, pieces = 0;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        done(&r, ask(c, "Who are you?", 9, 300), &A);
        c = erig_new(&r, NULL, NULL);
        done(&r, ask(c, "Who are you?", 9, 3), &B);
        for (;;) {
                assert_memory_equal(B.tokens, A.tokens + n, B.n_tokens * sizeof(B.tokens[0]));
                n += B.n_tokens;
                pieces++;
                if (B.finish != ENGINE_FINISH_LENGTH)
                        break;
                done(&r, go_on(c, 9, 3), &B);
        }
        assert_int_equal(B.finish, ENGINE_FINISH_STOP);
        assert_int_equal(n, A.n_tokens);
        assert_true(pieces > 3);
        /* The reply is complete: its turn is over, so a new one begins. */
        done(&r, go_on(c, 10, 300), &B);
        check_meets(GRAMMAR_JSON_SCHEMA, schema, B.text);
        erig_close(&r);
}

static void test_stop_string(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q;
        struct erig r;

        erig_open(&r, &o);
        q = ask(erig_new(&r, NULL, NULL), "Who are you?", 3, 300);
        q.stops[q.n_stops++] = "\"age\"";
        done(&r, q, &A);
        assert_int_equal(A.finish, ENGINE_FINISH_STOP_STRING);
        assert_int_equal(A.text[0], '{');
        assert_null(strstr(A.text, "age"));
        erig_close(&r);
}

static void refused(struct erig *r, struct engine_request q, const char *text, enum err_code code,
        const char *part) {
        if (text) {
                q.constraint_text = text;
                q.constraint_size = strlen(text);
        }
        assert_int_equal(erig_do(r, &q, &A), ENGINE_ERROR);
        if (A.err.code != code || !strstr(A.err.msg, part))
                fail_msg("%d %s instead of %s", (int)A.err.code, A.err.msg, part);
        assert_false(A.accepted);
}

/* Whatever is wrong is told before anything was computed, and nothing is changed. */
static void test_refused(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q;
        struct erig r;
        uint64_t c, before;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, "You are a helpful assistant.");
        erig_say(&r, c, "Hello.", 4, &B);
        before = erig_stat(&r, "tokens_prefilled");
        erig_get(&r, c, &B);
        q = ask(c, "Who are you?", 1, 20);
        refused(&r, q, "{\"type\":", ERR_INVALID, "schema, 1:9");
        refused(&r, q, "{\"enum\":[]}", ERR_INVALID, "#/enum: nothing can meet it");
        refused(&r, q, "{\"not\":{}}", ERR_UNSUPPORTED, "#/not: this keyword");
        refused(&r, q, "{\"maxLength\":2000000}", ERR_TOO_LARGE, "#/maxLength");
        q.constraint = ENGINE_CONSTRAINT_GBNF;
        refused(&r, q, "root ::= x", ERR_INVALID, "1:10: rule x is not defined");
        refused(&r, q, "", ERR_INVALID, "no rule named root");
        q.ignore_eos = true;
        refused(&r, q, NULL, ERR_INVALID, "ignore_eos");
        q.ignore_eos = false;
        q.constraint = (enum engine_constraint)77;
        refused(&r, q, NULL, ERR_INVALID, "constraint");
        assert_int_equal(erig_stat(&r, "tokens_prefilled"), before);
        erig_get(&r, c, &C);
        answer_same_history(&B, &C);
        /* An open reply that does not meet it. */
        q = go_on(c, 1, 20);
        refused(&r, q, NULL, ERR_INVALID, "does not meet the constraint");
        /* The same request without a constraint goes on. */
        q.constraint = ENGINE_CONSTRAINT_NONE;
        done(&r, q, &A);
        erig_check_budget(&r);
        erig_close(&r);
}

/* Too little memory for it: an error, and the rest works. */
static void test_small_pool(void **state) {
        struct engine_options o = erig_options(6 << 20);
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        refused(&r, ask(c, "Hello.", 1, 20), NULL, ERR_TOO_LARGE, "a grammar");
        erig_say(&r, c, "Hello.", 4, &B);
        erig_check_budget(&r);
        erig_close(&r);
}

/* Many constraints, one after the other: the engine does not hold more and more of them. */
static void test_many(void **state) {
        struct engine_options o = erig_options(POOL);
        char text[200];
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        for (int i = 0; i < 40; i++) {
                struct engine_request q = ask(c, "Hello.", 1, 30);

                snprintf(text, sizeof(text), "{\"const\":\"value %d\"}", i % 25);
                q.constraint_text = text;
                q.constraint_size = strlen(text);
                done(&r, q, &A);
                assert_memory_equal(A.text + 1, text + 10, A.n_tokens > 4 ? 6 : 0);
        }
        erig_check_budget(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_replies_meet),
                cmocka_unit_test(test_in_a_batch),
                cmocka_unit_test(test_parked),
                cmocka_unit_test(test_forked_inside),
                cmocka_unit_test(test_in_pieces),
                cmocka_unit_test(test_stop_string),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_small_pool),
                cmocka_unit_test(test_many),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
