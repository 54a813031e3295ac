/* SPDX-License-Identifier: MIT */
/* Publish: who may, what of it, and what takes it back. That it is used is test-share.c's. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "util/test.h"

static struct answer A, B;

static const char SYSTEM[] = "You are a helpful assistant who knows all animals of the world, and "
                             "where they live, and what they eat, and how long they sleep.";

static enum engine_event_kind publish(
        struct erig *r, uint64_t owner, uint64_t c, uint32_t at_turn, bool on) {
        struct engine_request q = {.verb = ENGINE_PUBLISH,
                .owner = owner,
                .admin = true,
                .conv_id = c,
                .at_turn = at_turn,
                .publish = on};

        return erig_do(r, &q, &A);
}

static void refused(
        struct erig *r, uint64_t owner, uint64_t c, uint32_t at_turn, enum err_code code) {
        assert_int_equal(publish(r, owner, c, at_turn, true), ENGINE_ERROR);
        assert_int_equal(A.err.code, code);
}

static uint32_t published(struct erig *r, uint64_t c) {
        assert_int_equal(erig_simple(r, ENGINE_GET, c, &B), ENGINE_CONV);
        return B.conv.n_published;
}

/* How much of the same beginning another user does not have to compute. */
static uint32_t others_get(struct erig *r, uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_OPEN, .owner = owner, .system = SYSTEM};

        assert_int_equal(erig_do(r, &q, &B), ENGINE_CONV);
        q = erig_say_request(B.conv.id, "Hello, my name is Ada. I have a cat and a dog.", 1);
        q.owner = owner;
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        return B.n_shared + B.n_disk;
}

static void test_publish(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request fork = erig_request(ENGINE_FORK, 0);
        struct engine_request rewind = {
                .verb = ENGINE_REWIND, .at_turn = 1, .at_position = ENGINE_UNSET};
        struct engine_request q = {.verb = ENGINE_PUBLISH, .publish = true, .at_turn = 1};
        uint32_t first, all, got;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        refused(&r, 0, c, ENGINE_UNSET, ERR_INVALID); /* there is nothing in it */
        c = erig_new(&r, NULL, SYSTEM);
        erig_say(&r, c, "Hello, my name is Ada. I have a cat and a dog.", 12, &A);
        /* Not for everybody, and not of others. */
        q.conv_id = c;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_PERMISSION);
        refused(&r, 7, c, ENGINE_UNSET, ERR_NOT_FOUND);
        refused(&r, 0, c, 4, ERR_INVALID);
        assert_int_equal(others_get(&r, 1), 0);
        /* All, then less; the revision stays. */
        assert_int_equal(publish(&r, 0, c, ENGINE_UNSET, true), ENGINE_CONV);
        all = A.conv.n_published;
        assert_int_equal(all, A.conv.n_tokens);
        assert_int_equal(A.conv.revision, 3);
        got = others_get(&r, 2);
        assert_true(got > 0);
        assert_int_equal(publish(&r, 0, c, 1, true), ENGINE_CONV);
        first = A.conv.n_published;
        assert_true(first > 0 && first < all);
        assert_true(others_get(&r, 3) < got);
        erig_restart(&r, true);
        assert_int_equal(published(&r, c), first);
        assert_true(others_get(&r, 4) > 0);
        /* A fork is not published, and goes on without. */
        fork.conv_id = c;
        assert_int_equal(erig_do(&r, &fork, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_published, 0);
        /* A rewind takes back what it cuts. */
        assert_int_equal(publish(&r, 0, c, ENGINE_UNSET, true), ENGINE_CONV);
        rewind.conv_id = c;
        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_published, first);
        assert_int_equal(A.conv.n_tokens, first);
        assert_true(others_get(&r, 5) <= first);
        rewind.at_turn = 0;
        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        assert_int_equal(published(&r, c), 0);
        assert_int_equal(others_get(&r, 6), 0);
        /* Ended by hand, and with the conversation. */
        c = erig_new(&r, NULL, SYSTEM);
        erig_say(&r, c, "Hello", 1, &A);
        assert_int_equal(publish(&r, 0, c, ENGINE_UNSET, true), ENGINE_CONV);
        assert_int_equal(publish(&r, 0, c, ENGINE_UNSET, false), ENGINE_CONV);
        assert_int_equal(A.conv.n_published, 0);
        assert_int_equal(others_get(&r, 7), 0);
        assert_int_equal(publish(&r, 0, c, ENGINE_UNSET, true), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        assert_int_equal(others_get(&r, 8), 0);
        erig_restart(&r, true);
        assert_int_equal(others_get(&r, 9), 0);
        erig_close(&r);
}

/* What is said behind a rewind into what was published is not public, however long that was. */
static void test_rewound(void **state) {
        enum { BLOCK = 32, KEPT = 40, LENGTH = 200 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request rewind;
        struct erig r;
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, c, 300, LENGTH);
        assert_int_equal(publish(&r, 0, c, ENGINE_UNSET, true), ENGINE_CONV);
        assert_int_equal(A.conv.n_published, LENGTH);
        erig_get(&r, c, &A);
        assert_true(erig_others_get(&r, 1, A.history, LENGTH) >= LENGTH - BLOCK);
        rewind = erig_request(ENGINE_REWIND, c);
        rewind.at_position = KEPT;
        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        erig_append_tokens(&r, c, 600, LENGTH - KEPT);
        erig_get(&r, c, &A);
        assert_int_equal(A.conv.n_published, KEPT);
        assert_int_equal(erig_others_get(&r, 2, A.history, LENGTH), BLOCK);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_publish),
                cmocka_unit_test(test_rewound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
