/* SPDX-License-Identifier: MIT */
/*
 * What stays and what goes when a conversation is carried over: settings, places, what is published,
 * forks; and what memory on disk is worth under another model.
 */
#include <stdio.h>

#include "carry-rig.h"
#include "util/test.h"

static struct answer A, B, first, carried;

static void test_settings(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = {.verb = ENGINE_OPEN, .name = "set", .system = erig_words(12, 0)};
        uint64_t c, d, f;
        struct erig r;

        carry_open(&r, &o);
        q.sampling =
                (struct sampling){.has = SAMPLING_TEMPERATURE | SAMPLING_SEED | SAMPLING_BIASES,
                        .temperature = 0.5f,
                        .seed = 7,
                        .n_biases = 2,
                        .biases = {{900, 1}, {1000, -1}}}; /* not even tokens of the small model */
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        c = A.conv.id;
        erig_say(&r, c, "Hello.", 5, &A);
        q = erig_request(ENGINE_PUBLISH, c);
        q.admin = q.publish = true;
        q.at_turn = 2;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        f = erig_fork(&r, c);
        erig_say(&r, f, "And you?", 5, &A);
        d = erig_fork(&r, f);
        {
                struct engine_request rewind = erig_request(ENGINE_REWIND, d);

                rewind.at_turn = 1;
                assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        }
        carry_to_small(&r);
        carry(&r, c, &A);
        assert_int_equal(A.conv.n_biases_dropped, 2);
        assert_int_equal(A.conv.sampling.has, SAMPLING_TEMPERATURE | SAMPLING_SEED);
        assert_true(A.conv.sampling.temperature == 0.5f && A.conv.sampling.seed == 7);
        erig_get(&r, c, &carried);
        assert_int_equal(carried.conv.n_published, carried.turns[1].end);
        carry(&r, f, &A);
        erig_get(&r, f, &A);
        assert_int_equal(A.conv.parent, c);
        assert_int_equal(A.conv.fork_pos, A.turns[2].end);
        /* Shorter than it was when it was forked. */
        carry(&r, d, &A);
        assert_int_equal(A.conv.fork_pos, A.conv.n_tokens);
        /* What is published is of use to another user. */
        carry_check_reply(&r, c);
        assert_true(erig_others_get(&r, 77, carried.history, carried.turns[1].end) > 0);
        carry_close(&r);
}

/* Forks are conversations of their own: each is carried by itself, and what is not carried has its
 * memory when the first model is back. */
static void test_forks(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, f, g;
        struct erig r;

        carry_open(&r, &o);
        c = carry_talk(&r);
        f = erig_fork(&r, c);
        g = erig_fork(&r, c);
        erig_get(&r, f, &first);
        carry_to_small(&r);
        carry(&r, c, &A);
        erig_get(&r, f, &A);
        answer_same_history(&A, &first);
        assert_true(A.conv.other_vocab && A.conv.unusable_size > 0);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        /* A fork of what is not carried is not carried either, and neither is what is left of it. */
        assert_int_equal(erig_simple(&r, ENGINE_FORK, f, &A), ENGINE_CONV);
        assert_true(A.conv.other_vocab);
        {
                struct engine_request q = erig_request(ENGINE_REWIND, g);

                q.drop_turns = 2;
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_CONV);
        }
        carry_back(&r);
        erig_get(&r, f, &B);
        assert_int_equal(B.conv.residency, ENGINE_SPILLED);
        assert_false(B.conv.other_vocab || B.conv.unusable_size);
        erig_say(&r, f, "And yours?", 3, &B);
        assert_true(B.n_disk > 0);
        erig_say(&r, g, "And yours?", 3, &B);
        assert_true(B.n_disk + B.n_ram + B.n_shared > 0);
        carry_check_reply(&r, f);
        carry_check_reply(&r, g);
        carry_check_reply(&r, A.conv.id);
        carry_close(&r);
}

/* Other weights, the same vocabulary: no carrying, and the answers tell whose memory is on disk. */
static void test_other_weights(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, d, size;
        char path[4096];
        struct erig r;

        carry_open(&r, &o);
        c = carry_talk(&r);
        d = erig_fork(&r, c);
        erig_say(&r, d, "And yours?", 3, &A);
        erig_stop(&r, true);
        snprintf(path, sizeof(path), "%s/models/confab-small.q4_0.gguf", TEST_SOURCE_ROOT);
        r.o.model_path = path;
        erig_start(&r);
        erig_get(&r, c, &A);
        size = A.conv.disk_size;
        assert_true(!A.conv.other_vocab && size > 0 && A.conv.unusable_size == size);
        assert_int_equal(A.conv.residency, ENGINE_COLD);
        carry(&r, c, &A); /* nothing to do; but it is loaded, and what is of no use goes */
        assert_false(A.conv.carried);
        erig_get(&r, c, &A);
        assert_true(A.conv.unusable_size == 0 && A.conv.disk_size == 0);
        erig_say(&r, c, "Hello.", 3, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        erig_get(&r, c, &A);
        assert_true(A.conv.unusable_size == 0 && A.conv.disk_size > 0);
        /* Back: of the two, the one that did not go on has its memory. */
        carry_back(&r);
        erig_get(&r, c, &A);
        assert_true(A.conv.unusable_size > 0 && A.conv.residency == ENGINE_COLD);
        erig_get(&r, d, &A);
        assert_true(A.conv.unusable_size == 0 && A.conv.residency == ENGINE_SPILLED);
        erig_say(&r, d, "Hello.", 3, &A);
        assert_true(A.n_disk > 0);
        carry_check_reply(&r, c);
        carry_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_settings),
                cmocka_unit_test(test_forks),
                cmocka_unit_test(test_other_weights),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
