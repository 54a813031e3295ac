/* SPDX-License-Identifier: MIT */
/* What an Evict keeps, and what it says about memory that could not be kept. */
#include <string.h>

#include "rig.h"
#include "util/test.h"

static struct answer A, B;

/* A conversation with the memory of several blocks and a tail. */
static uint64_t make(struct erig *r, struct answer *a) {
        uint64_t c = erig_new(r, NULL, NULL);
        struct engine_request q = erig_long_request(c, "Tell me a story.", 100);
        assert_int_equal(erig_do(r, &q, a), ENGINE_DONE);
        return c;
}

static void test_kept(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = make(&r, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_not_kept, 0);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        /* Also when there is nothing left to write. */
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_not_kept, 0);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_not_kept, 0);
        erig_close(&r);
}

/* The figure is what the next turn computes again, whether nothing or a part could be written. */
static void check_refused(uint64_t limit, bool partly) {
        struct engine_options o = erig_options(64 << 20);
        uint32_t n_memory, n_lost;
        struct erig r;
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        o.disk_limit = limit;
        erig_open(&r, &o);
        c = make(&r, &A);
        n_memory = A.n_prompt + A.n_generated - 1; /* the last token has none yet */
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        n_lost = A.conv.n_not_kept;
        assert_true(partly ? n_lost > 0 && n_lost < n_memory : n_lost == n_memory);
        assert_int_equal(A.conv.residency, partly ? ENGINE_SPILLED : ENGINE_COLD);
        assert_int_equal(A.err.code, ERR_LIMIT);
        assert_non_null(strstr(A.err.msg, "the spill store holds"));
        erig_say(&r, c, "And then?", 4, &B);
        assert_int_equal(B.n_disk, n_memory - n_lost);
        erig_close(&r);
}

static void test_refused(void **state) {
        check_refused(1, false);
        check_refused(100000, true);
}

/* Rewound into a block whose record is there: that is of more tokens, of which what is left is the
 * beginning. So nothing is written, and nothing computed again. */
static void test_rewound_into_a_block(void **state) {
        enum { BLOCK = 32, LENGTH = 3 * BLOCK + 4, KEPT = 2 * BLOCK + 10 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request rewind;
        struct erig r;
        uint64_t c, written;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, c, 300, LENGTH);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        written = erig_stat(&r, "blocks_spilled");
        assert_int_equal(written, 4);
        rewind = erig_request(ENGINE_REWIND, c);
        rewind.at_position = KEPT;
        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "blocks_spilled") - written, 0);
        erig_check_register(&r);
        erig_say(&r, c, "And then?", 4, &B);
        assert_int_equal(B.n_disk, KEPT);
        erig_close(&r);
}

/* The record of the block has more tokens than were kept of it, and these differ from what was said
 * since. It is linked once more by an eviction, and gives what was kept, and no more. */
static void test_part_is_linked_again(void **state) {
        enum { LENGTH = 53 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request rewind, again, tokens;
        const int32_t one[] = {300};
        struct erig r;
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, c, 300, LENGTH);
        erig_say(&r, c, "And then?", 3, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        rewind = erig_request(ENGINE_REWIND, c);
        rewind.at_turn = 1;
        assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        /* One token of another reply, whose memory comes with the next turn. */
        again = erig_request(ENGINE_CONTINUE, c);
        again.max_tokens = 1;
        assert_int_equal(erig_do(&r, &again, &A), ENGINE_DONE);
        erig_restart(&r, true);
        tokens = erig_request(ENGINE_CONTINUE, c);
        tokens.input = ENGINE_INPUT_TOKENS;
        tokens.tokens = one;
        tokens.n_tokens = 1;
        tokens.max_tokens = 4;
        tokens.want_logprobs = true;
        assert_int_equal(erig_do(&r, &tokens, &A), ENGINE_DONE);
        assert_int_equal(A.n_disk, LENGTH);
        /* The same without memory. */
        rewind = erig_request(ENGINE_REWIND, c);
        rewind.drop_turns = 2;
        assert_int_equal(erig_do(&r, &rewind, &B), ENGINE_CONV);
        erig_forget_memory(&r);
        assert_int_equal(erig_do(&r, &tokens, &B), ENGINE_DONE);
        assert_int_equal(B.n_disk, 0);
        answer_same(&A, &B);
        erig_close(&r);
}

/* Records of a prefix that another conversation has on disk are linked, when it is evicted, by one
 * that has read them already. When both are closed RAM knows none of them. */
static void test_linked_twice(void **state) {
        enum { LENGTH = 100 };
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c, d;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        d = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, c, 300, LENGTH);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        erig_append_tokens(&r, d, 300, LENGTH);
        assert_int_equal(erig_stat(&r, "blocks_restored"), 3);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, &A), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "blocks_linked"), 3);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
        erig_check_empty(&r);
        erig_close(&r);
}

/* Where a longer tail cannot be written, the older record of the tail serves for what it holds. */
static void test_older_tail(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, c, 300, 32 + 5);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_not_kept, 0);
        erig_stop(&r, true);
        r.o.disk_limit = 1;
        erig_start(&r);
        erig_append_tokens(&r, c, 400, 4);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_not_kept, 4);
        assert_int_equal(A.err.code, ERR_LIMIT);
        erig_say(&r, c, "And then?", 4, &B);
        assert_int_equal(B.n_disk, 32 + 5);
        erig_close(&r);
}

/* The journal is told once that memory cannot be written, however often that is tried, and once that it can be again. */
static void test_told_once(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t c, limit;
        struct erig r;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        limit = 2 * erig_stat(&r, "block_bytes");
        erig_stop(&r, true);
        r.o.disk_limit = limit;
        erig_start(&r);
        for (int i = 0; i < 3; i++) {
                c = erig_new(&r, NULL, NULL);
                erig_append_tokens(&r, c, 300 + i, 320);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
                assert_true(A.conv.n_not_kept > 0);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        }
        assert_int_equal(r.n_logged[ENGINE_LOG_SPILL_FAILS], 1);
        assert_int_equal(r.n_logged[ENGINE_LOG_SPILL_WORKS], 0);
        for (int i = 0; i < 2; i++) {
                c = erig_new(&r, NULL, NULL);
                erig_append_tokens(&r, c, 400 + i, 32);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
                assert_int_equal(A.conv.n_not_kept, 0);
                assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, NULL), ENGINE_EMPTY);
        }
        assert_int_equal(r.n_logged[ENGINE_LOG_SPILL_FAILS], 1);
        assert_int_equal(r.n_logged[ENGINE_LOG_SPILL_WORKS], 1);
        erig_close(&r);
}

/* A conversation of HISTORY committed tokens, and a request that has computed more, was parked for
 * another one and had its memory evicted. */
enum { HISTORY = 40, REPLY = 80 };

/* A conversation whose request was parked and evicted; 0: the reply was done before it could be paused. */
static uint64_t park(struct erig *r, struct engine_request *q, uint64_t pool_size) {
        struct engine_options o = erig_options(pool_size);
        uint64_t c, d;

        o.spill_delay_ms = UINT32_MAX;
        o.max_active = 1;
        erig_open(r, &o);
        c = erig_new(r, NULL, NULL);
        d = erig_new(r, NULL, NULL);
        erig_append_tokens(r, c, 300, HISTORY);
        *q = erig_long_request(c, "Tell me a story.", REPLY);
        erig_send(r, q, &A);
        while (A.n_tokens < 60)
                erig_step(r);
        engine_pause(r->en, q->handle, true);
        erig_append_tokens(r, d, 400, 8 * 32);
        if (erig_stat(r, "requests_parked") == 0)
                return 0;
        assert_int_equal(erig_stat(r, "requests_parked"), 1);
        assert_int_equal(erig_stat(r, "evictions"), 1);
        erig_look_at_register(r);
        return c;
}

/* On a busy machine the reply may be faster than the test. */
static uint64_t evict_under_way(struct erig *r, struct engine_request *q) {
        uint64_t pool_size = erig_pool(10), c;

        for (int i = 0; i < 100; i++) {
                c = park(r, q, pool_size);
                if (c)
                        return c;
                erig_close(r);
        }
        fail_msg("no reply could be paused");
        return 0;
}

/* What the request had on disk is the conversation's once it is committed. */
static void test_under_way_and_committed(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c;

        c = evict_under_way(&r, &q);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        erig_look_at_register(&r);
        erig_check_register(&r);
        erig_say(&r, c, "And then?", 4, &B);
        assert_int_equal(B.n_disk, A.n_prompt + REPLY - 1);
        erig_close(&r);
}

/* It is not if other tokens are committed, and never if the engine is killed. */
static void test_under_way_and_gone(void **state) {
        struct engine_request q;
        struct erig r;
        uint64_t c;

        c = evict_under_way(&r, &q);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &A);
        if (A.kind == ENGINE_DONE) {
                struct engine_request rewind = erig_request(ENGINE_REWIND, c);

                rewind.at_turn = 1;
                assert_int_equal(erig_do(&r, &rewind, &A), ENGINE_CONV);
        }
        erig_append_tokens(&r, c, 500, 64);
        erig_look_at_register(&r);
        erig_restart(&r, false);
        erig_look_at_register(&r);
        erig_say(&r, c, "And then?", 4, &B);
        erig_close(&r);

        c = evict_under_way(&r, &q);
        erig_restart(&r, false);
        erig_look_at_register(&r);
        erig_append_tokens(&r, c, 500, 64);
        erig_look_at_register(&r);
        erig_close(&r);
}

/* A fork within a block goes on with the tokens that the block has on disk anyway: the record is all the
 * fork's then, and nothing of it is lost, whether the other conversation is in RAM or not. */
static void test_fork_in_a_block(void **state) {
        enum { N = 96, AT = 50, MORE = 70 };

        for (int in_ram = 0; in_ram < 2; in_ram++) {
                struct engine_options o = erig_options(64 << 20);
                struct engine_request q;
                struct erig r;
                uint64_t c, fork;

                o.spill_delay_ms = UINT32_MAX;
                erig_open(&r, &o);
                c = erig_new(&r, NULL, NULL);
                erig_append_tokens(&r, c, 100, N);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                q = erig_request(ENGINE_FORK, c);
                q.at_position = AT;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                fork = A.conv.id;
                if (in_ram)
                        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, NULL), ENGINE_CONV);
                erig_append_tokens(&r, fork, 100 + AT, MORE);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, fork, &A), ENGINE_CONV);
                assert_int_equal(A.conv.n_not_kept, 0);
                for (int restarted = 0; restarted < 2; restarted++) {
                        erig_say(&r, fork, "Go on.", 4, &A);
                        assert_true(A.n_ram + A.n_disk + A.n_shared + 1 >= AT + MORE);
                        erig_restart(&r, false);
                }
                erig_close(&r);
        }
}

/* A block of which a fork has only the beginning goes to disk as the fork's part of an older record, which
 * has other tokens behind it. That makes it neither the whole block's record, for the conversation that
 * has the block, nor the block the record's memory, for one that has more of the record. */
static void test_part_of_another_record(void **state) {
        enum { N = 96, CUT = 20, AT = 9, LATER = 25, MORE = 60 };
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, fork, older;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, c, 100, N);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        q = erig_request(ENGINE_FORK, c);
        q.at_position = LATER;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        older = A.conv.id;
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, NULL), ENGINE_CONV);
        q = erig_request(ENGINE_REWIND, c);
        q.at_position = CUT;
        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
        erig_append_tokens(&r, c, 500, MORE);
        q = erig_request(ENGINE_FORK, c);
        q.at_position = AT;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        fork = A.conv.id;
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, fork, NULL), ENGINE_CONV);
        erig_say(&r, older, "Go on.", 4, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &B), ENGINE_CONV);
        assert_int_equal(B.conv.n_not_kept, 0);
        erig_check_register(&r);
        erig_say(&r, c, "Go on.", 4, &B);
        assert_true(B.n_disk + 1 >= CUT + MORE);
        /* The same without any memory. */
        q = erig_request(ENGINE_REWIND, older);
        q.at_position = LATER;
        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_CONV);
        erig_forget_memory(&r);
        erig_say(&r, older, "Go on.", 4, &B);
        answer_same(&A, &B);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kept),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_rewound_into_a_block),
                cmocka_unit_test(test_part_is_linked_again),
                cmocka_unit_test(test_linked_twice),
                cmocka_unit_test(test_older_tail),
                cmocka_unit_test(test_told_once),
                cmocka_unit_test(test_under_way_and_committed),
                cmocka_unit_test(test_under_way_and_gone),
                cmocka_unit_test(test_fork_in_a_block),
                cmocka_unit_test(test_part_of_another_record),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
