/* SPDX-License-Identifier: MIT */
/*
 * Replies with speculation are those without it: same tokens, log-probabilities and events, whatever becomes of
 * the drafts, and whatever happens around them. Prices of rows are the test's, and so are drafts where that is
 * wanted.
 */
#include <stdlib.h>
#include <string.h>

#include "draft/draft.h"
#include "engine/run/cost.h"
#include "kinds-rig.h"
#include "util/test.h"

#define POOL (64 << 20)
#define LENGTH 80

/* --- prices and drafts --- */

static double row_price; /* of a row behind the first, which costs 1 */
static enum { REAL, WRONG, PARTLY } drafts;
static uint64_t noise;
static int32_t n_vocab;

double __wrap_cost_predict(const struct cost *c, uint32_t rows, double depth);
size_t __real_draft_find(const struct draft *d, size_t most, int32_t *out, size_t *ret_match);
size_t __wrap_draft_find(const struct draft *d, size_t most, int32_t *out, size_t *ret_match);

double __wrap_cost_predict(const struct cost *c, uint32_t rows, double depth) {
        (void)c;
        (void)depth;
        return 1000 * (1 + row_price * (double)(rows - 1));
}

static int32_t any_token(void) {
        noise = noise * 6364136223846793005 + 1442695040888963407;
        return (int32_t)((noise >> 33) % (uint64_t)n_vocab);
}

size_t __wrap_draft_find(const struct draft *d, size_t most, int32_t *out, size_t *ret_match) {
        size_t n = most;

        *ret_match = DRAFT_LEAST;
        if (drafts != WRONG)
                n = __real_draft_find(d, most, out, ret_match);
        for (size_t i = 0; i < n; i++)
                if (drafts == WRONG || (drafts == PARTLY && (any_token() & 3) == 0))
                        out[i] = any_token();
        return n;
}

/* --- replies --- */

static struct answer Without, With, Many[6], Alone[6];
static uint64_t accepted, drafted;

static void open_rig(struct erig *r, const struct engine_options *o) {
        row_price = 0;
        drafts = REAL;
        accepted = drafted = 0;
        n_vocab = 1024; /* of the bundled model, and less than that of others */
        erig_open(r, o);
}

/* Everything that a client can see, but for times and what was drafted. */
static void check_same(const struct answer *a, const struct answer *b) {
        answer_same(a, b);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->finish, b->finish);
        assert_int_equal(a->n_generated, b->n_generated);
        assert_int_equal(a->n_deltas, b->n_deltas);
        assert_int_equal(a->n_calls, b->n_calls);
        assert_string_equal(a->stop, b->stop);
        assert_string_equal(a->parts, b->parts);
        assert_int_equal(a->pieces_size, b->pieces_size);
        assert_memory_equal(a->pieces, b->pieces, a->pieces_size);
        assert_memory_equal(a->ends, b->ends, a->n_tokens * sizeof(a->ends[0]));
        assert_memory_equal(a->positions, b->positions, a->n_tokens * sizeof(a->positions[0]));
}

static void ask(struct erig *r, bool on, struct engine_request q, struct answer *a) {
        engine_set_speculation(r->en, on);
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("%s", a->err.msg);
        assert_true(a->n_accepted <= a->n_drafted);
        assert_true(a->n_accepted < a->n_generated || a->n_generated == 0);
        if (!on)
                assert_int_equal(a->n_drafted, 0);
        accepted += a->n_accepted;
        drafted += a->n_drafted;
}

/* Two conversations of the same text: one without, one with. They go on alike, too. */
static void compare(struct erig *r, struct engine_request q) {
        struct engine_request next = erig_long_request(0, "And now?", 12);
        uint64_t c[2];

        for (int on = 0; on < 2; on++) {
                c[on] = q.conv_id = erig_new(r, NULL, "Be kind.");
                ask(r, on, q, on ? &With : &Without);
        }
        check_same(&Without, &With);
        for (int on = 0; on < 2; on++) {
                next.conv_id = c[on];
                ask(r, !on, next, on ? &With : &Without);
                assert_int_equal(erig_simple(r, ENGINE_CLOSE, c[on], NULL), ENGINE_EMPTY);
        }
        check_same(&Without, &With);
}

static struct engine_request sampled(const char *text, uint64_t seed, float temperature) {
        struct engine_request q = erig_long_request(0, text, LENGTH);

        q.sampling.has |= SAMPLING_TEMPERATURE | SAMPLING_SEED;
        q.sampling.temperature = temperature;
        q.sampling.seed = seed;
        return q;
}

static void compare_params(struct erig *r) {
        const char *text = erig_words(60, 3);
        struct engine_request q = erig_long_request(0, text, LENGTH);

        compare(r, q);
        q.n_logprobs = 4;
        compare(r, q);
        for (q.max_tokens = 1; q.max_tokens < 5; q.max_tokens++)
                compare(r, q);
        compare(r, sampled(text, 5, 0.7f));
        compare(r, sampled(text, 6, 3));
        q = sampled(text, 7, 0.9f);
        q.sampling.has |=
                SAMPLING_REPETITION | SAMPLING_PRESENCE | SAMPLING_FREQUENCY | SAMPLING_LAST_N;
        q.sampling.repetition_penalty = 1.2f;
        q.sampling.presence_penalty = 0.3f;
        q.sampling.frequency_penalty = 0.2f;
        q.sampling.penalty_last_n = 40;
        compare(r, q);
        q = erig_long_request(0, text, LENGTH);
        q.want_parts = true;
        compare(r, q);
        q = erig_say_request(0, text, LENGTH); /* may end by itself */
        compare(r, q);
}

static void test_any_parameters(void **state) {
        struct engine_options o = erig_options(POOL);
        struct erig r;

        open_rig(&r, &o);
        compare_params(&r);
        assert_true(accepted > LENGTH && accepted < drafted);
        drafts = PARTLY;
        accepted = drafted = 0;
        compare_params(&r);
        assert_true(accepted > LENGTH / 2 && accepted < drafted);
        erig_check_budget(&r);
        erig_close(&r);
}

/* Hardly anything of a draft holds: what it has written is not seen by anybody. */
static void test_wrong_drafts(void **state) {
        struct engine_options o = erig_options(POOL);
        struct erig r;

        open_rig(&r, &o);
        drafts = WRONG;
        compare(&r, erig_long_request(0, "Tell me a story.", LENGTH));
        compare(&r, sampled("Tell me a story.", 3, 1));
        assert_true(drafted > 15 * LENGTH);
        assert_true(accepted < drafted / 50);
        erig_close(&r);
}

static bool is_ascii(const char *text) {
        for (; *text; text++)
                if ((unsigned char)*text >= 0x80)
                        return false;
        return true;
}

/* The reply ends within what a draft foresaw. */
static void test_stop_strings(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q = erig_long_request(0, erig_words(60, 3), LENGTH);
        char stop[8] = {0};
        struct erig r;

        open_rig(&r, &o);
        q.conv_id = erig_new(&r, NULL, "Be kind.");
        ask(&r, false, q, &With);
        assert_true(strlen(With.text) > 60);
        for (size_t at = 20, i = 0; i < 3 && at < strlen(With.text) - 5; at++) {
                memcpy(stop, With.text + at, 5);
                if (!is_ascii(stop))
                        continue;
                i++;
                at += 10;
                q.stops[0] = stop;
                q.n_stops = 1;
                compare(&r, q);
        }
        assert_true(accepted > 0);
        erig_close(&r);
}

static void test_constraints(void **state) {
        static const char lines[] =
                "root ::= ((\"- \" [a-z]{3,12}) | (\"+ \" [0-9]{2,4}) \"\\n\"){12}";
        struct engine_options o = erig_options(POOL);
        struct engine_request q = sampled("Make a list.", 4, 0.5f);
        struct erig r;

        open_rig(&r, &o);
        q.ignore_eos = false;
        q.constraint = ENGINE_CONSTRAINT_GBNF;
        q.constraint_text = lines;
        q.constraint_size = strlen(lines);
        compare(&r, q);
        q.sampling.temperature = 0;
        q.max_tokens = 200;
        compare(&r, q);
        assert_true(drafted > 0);
        drafts = WRONG;
        compare(&r, q);
        erig_close(&r);
}

/* Fewer steps than tokens: this is what it is for. */
static void test_saves_steps(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q = erig_long_request(0, erig_words(60, 3), 200);
        uint64_t steps;
        struct erig r;

        open_rig(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        steps = erig_stat(&r, "steps");
        ask(&r, true, q, &With);
        steps = erig_stat(&r, "steps") - steps;
        assert_int_equal(With.n_generated, 200);
        assert_true(With.n_accepted >= 50);
        /* Those of the prompt give the first token. */
        assert_true(steps >= 200 - With.n_accepted && steps <= 200 - With.n_accepted + 2);
        assert_int_equal(erig_stat(&r, "tokens_accepted"), With.n_accepted);
        assert_int_equal(erig_stat(&r, "tokens_drafted"), With.n_drafted);
        assert_int_equal(erig_stat(&r, "tokens_decoded"), 199);
        erig_close(&r);
}

/* Rows that cost as much as steps are left alone, but for a look now and then. */
static void test_stops_where_it_does_not_pay(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q = erig_long_request(0, erig_words(60, 3), 200), four[4];
        struct erig r;

        open_rig(&r, &o);
        row_price = 1;
        q.conv_id = erig_new(&r, NULL, NULL);
        ask(&r, true, q, &With);
        assert_int_equal(With.n_drafted, 0);
        for (int i = 0; i < 4; i++)
                ask(&r, true, q, &With);
        assert_true(drafted > 0 && drafted <= 12);
        /* What pays for one alone is too dear beside three others: they would be slower. */
        row_price = 0.5;
        q.conv_id = erig_new(&r, NULL, NULL);
        ask(&r, true, q, &With);
        assert_true(With.n_accepted > 20);
        drafted = 0;
        for (size_t i = 0; i < ARRAY_SIZE(four); i++) {
                four[i] = q;
                four[i].conv_id = erig_new(&r, NULL, NULL);
        }
        erig_do_all(&r, four, Many, ARRAY_SIZE(four));
        for (size_t i = 0; i < ARRAY_SIZE(four); i++) {
                answer_same(&With, &Many[i]);
                drafted += Many[i].n_drafted;
        }
        assert_true(drafted < With.n_drafted); /* while they were fewer, at both ends */
        erig_close(&r);

        o.speculation = false;
        open_rig(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_do(&r, &q, &Without), ENGINE_DONE);
        assert_int_equal(Without.n_drafted, 0);
        engine_set_speculation(r.en, true);
        q.conv_id = erig_new(&r, NULL, NULL);
        assert_int_equal(erig_do(&r, &q, &With), ENGINE_DONE);
        assert_true(With.n_accepted > 0);
        check_same(&Without, &With);
        erig_close(&r);
}

/* --- beside others --- */

/* Several at once, in a pool that does not hold them together, with few rows in a step. */
static void together(unsigned n_users) {
        struct engine_request q[ARRAY_SIZE(Many)];

        for (int on = 0; on < 2; on++) {
                struct engine_options o = erig_options(on ? erig_pool(14) : POOL);
                struct erig r;

                o.speculation = on;
                o.batch_tokens = on ? 24 : 256;
                o.max_active = on ? 3 : 16;
                o.prefill_share = 100; /* steps with a prompt have no drafts: let them be few */
                open_rig(&r, &o);
                drafts = PARTLY;
                for (size_t i = 0; i < ARRAY_SIZE(q); i++) {
                        struct engine_request open = {.verb = ENGINE_OPEN, .owner = i % n_users};

                        assert_int_equal(erig_do(&r, &open, &With), ENGINE_CONV);
                        q[i] = i % 3 ? erig_long_request(0, erig_words(40, (unsigned)i), 90)
                                     : sampled(erig_words(20, (unsigned)i), i, 0.8f);
                        q[i].max_tokens = 90;
                        q[i].conv_id = With.conv.id;
                        q[i].owner = i % n_users;
                        if (!on)
                                assert_int_equal(erig_do(&r, &q[i], &Alone[i]), ENGINE_DONE);
                }
                if (on) {
                        erig_do_all(&r, q, Many, ARRAY_SIZE(q));
                        for (size_t i = 0; i < ARRAY_SIZE(q); i++) {
                                check_same(&Alone[i], &Many[i]);
                                accepted += Many[i].n_accepted;
                        }
                        assert_true(erig_stat(&r, "evictions") > 0);
                        assert_true(erig_stat(&r, "ledger_peak") <= o.pool_size);
                }
                erig_check_register(&r);
                erig_close(&r);
        }
}

static void test_together(void **state) {
        together(1);
        assert_true(accepted > 5);
        /* Users share time by its price, which is real here: there may be no room for drafts. */
        together(3);
}

/* A reply that a relative has given already, and one that replaces itself. */
static void test_relatives(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q = sampled("Tell me a story about a bird.", 11, 1), again;
        struct erig r;
        uint64_t c, d;

        open_rig(&r, &o);
        c = q.conv_id = erig_new(&r, NULL, NULL);
        ask(&r, false, q, &Without);
        /* A fork of what is before the reply: its parent has said it. */
        again = kind_cut_request(ENGINE_FORK, c, 1);
        assert_int_equal(erig_do(&r, &again, &With), ENGINE_CONV);
        d = With.conv.id;
        again = q;
        again.input = ENGINE_INPUT_NONE;
        again.conv_id = d;
        ask(&r, true, again, &With);
        check_same(&Without, &With);
        assert_true(With.n_accepted >= LENGTH * 3 / 4);
        /* Its parent is gone, and another fork of it has said it. */
        again = kind_cut_request(ENGINE_FORK, c, 1);
        assert_int_equal(erig_do(&r, &again, &With), ENGINE_CONV);
        q.conv_id = With.conv.id;
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        q.input = ENGINE_INPUT_NONE;
        ask(&r, true, q, &With);
        check_same(&Without, &With);
        assert_true(With.n_accepted >= LENGTH * 3 / 4);
        /* A relative that is not in RAM does not help, and does not hurt. */
        erig_restart(&r, true);
        again = kind_cut_request(ENGINE_FORK, d, 1);
        assert_int_equal(erig_do(&r, &again, &With), ENGINE_CONV);
        q.conv_id = With.conv.id;
        ask(&r, true, q, &With);
        check_same(&Without, &With);
        erig_close(&r);
}

/* The end that an edit replaces foretells what comes instead. */
static void test_replaced_end(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q = sampled("Tell me a story about a bird.", 11, 1);
        struct erig r;

        open_rig(&r, &o);
        q.conv_id = erig_new(&r, NULL, NULL);
        ask(&r, false, q, &Without);
        q.cuts = true;
        q.at_turn = 1; /* the message stays, its reply goes */
        q.at_position = ENGINE_UNSET;
        q.input = ENGINE_INPUT_NONE;
        ask(&r, true, q, &With);
        check_same(&Without, &With);
        assert_true(With.n_accepted >= LENGTH * 3 / 4);
        q.at_turn = 0; /* the message, too */
        q.input = ENGINE_INPUT_MESSAGE;
        ask(&r, true, q, &With);
        check_same(&Without, &With);
        assert_true(With.n_accepted >= LENGTH * 3 / 4);
        erig_close(&r);
}

/* Evicted between replies, and read again: the partial block has what drafts left in it. */
static void test_evicted(void **state) {
        struct engine_options o = erig_options(POOL);
        struct engine_request q = sampled("Tell me a story about a bird.", 11, 1);
        struct erig r;
        uint64_t c[2];

        open_rig(&r, &o);
        drafts = WRONG;
        c[0] = erig_new(&r, NULL, NULL);
        c[1] = erig_new(&r, NULL, NULL);
        for (int round = 0; round < 3; round++) {
                for (int on = 0; on < 2; on++) {
                        q.conv_id = c[on];
                        q.max_tokens = 21;
                        ask(&r, on, q, on ? &With : &Without);
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c[on], NULL), ENGINE_CONV);
                }
                check_same(&Without, &With);
        }
        assert_true(drafted > 100);
        assert_int_equal(erig_stat(&r, "tokens_recomputed"), 0);
        erig_restart(&r, false);
        for (int on = 0; on < 2; on++) {
                q.conv_id = c[on];
                ask(&r, on, q, on ? &With : &Without);
        }
        check_same(&Without, &With);
        erig_close(&r);
}

/* --- kinds of memory --- */

/* With windows: drafts reach over borders of blocks and checkpoints. With states there are none. */
static void test_kinds(void **state) {
        EACH_KIND(k) {
                struct erig r;
                uint64_t c[2], n;

                kind_open(&r, k, 1000);
                row_price = 0;
                drafts = PARTLY;
                n_vocab = 300;
                accepted = drafted = 0;
                for (int on = 0; on < 2; on++) {
                        struct engine_request q = erig_long_request(0, erig_words(10, 1), 300);

                        c[on] = q.conv_id = erig_new(&r, NULL, NULL);
                        ask(&r, on, q, on ? &With : &Without);
                }
                check_same(&Without, &With);
                assert_true((drafted > 0) == !k->states);
                assert_true((accepted > 50) == !k->states);
                /* The same checkpoints: both replies come back to the same place. */
                for (int on = 0; on < 2; on++) {
                        struct engine_request q = {.verb = ENGINE_REWIND,
                                .conv_id = c[on],
                                .at_turn = ENGINE_UNSET,
                                .at_position = ENGINE_UNSET,
                                .drop_turns = 1};

                        assert_int_equal(erig_do(&r, &q, on ? &With : &Without), ENGINE_CONV);
                        q = erig_long_request(c[on], "", 100);
                        q.input = ENGINE_INPUT_NONE;
                        ask(&r, on, q, on ? &With : &Without);
                }
                check_same(&Without, &With);
                assert_int_equal(Without.n_computed, With.n_computed);
                n = erig_stat(&r, "tokens_drafted");
                assert_true((n > 0) == !k->states);
                kind_close(&r);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_parameters),
                cmocka_unit_test(test_wrong_drafts),
                cmocka_unit_test(test_stop_strings),
                cmocka_unit_test(test_constraints),
                cmocka_unit_test(test_saves_steps),
                cmocka_unit_test(test_stops_where_it_does_not_pay),
                cmocka_unit_test(test_together),
                cmocka_unit_test(test_relatives),
                cmocka_unit_test(test_replaced_end),
                cmocka_unit_test(test_evicted),
                cmocka_unit_test(test_kinds),
        };
        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
