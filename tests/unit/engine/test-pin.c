/* SPDX-License-Identifier: MIT */
/* Pinned conversations: whose memory goes out of RAM, in which order; that it goes where nothing else can; what
 * keeps the pin, and what does not. */
#include <stdlib.h>

#include "inside.h"
#include "rig.h"
#include "transfer-rig.h"
#include "util/test.h"

static struct answer A, B;

enum { BLOCK = 32 };

static enum engine_event_kind pin(struct erig *r, uint64_t c, bool pinned) {
        struct engine_request q = erig_request(ENGINE_UPDATE, c);

        q.has_pinned = true;
        q.pinned = pinned;
        return erig_do(r, &q, &A);
}

/* A conversation whose memory is @n blocks that no other one has. */
static uint64_t make(struct erig *r, size_t n) {
        uint64_t c = erig_new(r, NULL, NULL);

        erig_append_tokens(r, c, (int32_t)(100 + 170 * c), n * BLOCK);
        return c;
}

static bool is_resident(struct erig *r, uint64_t c) {
        assert_int_equal(erig_simple(r, ENGINE_GET, c, &A), ENGINE_CONV);
        return A.conv.residency == ENGINE_RESIDENT;
}

static bool is_pinned(struct erig *r, uint64_t c) {
        assert_int_equal(erig_simple(r, ENGINE_GET, c, &A), ENGINE_CONV);
        return A.conv.pinned;
}

/* The budget becomes so small that @n blocks of idle memory have room; at least 4, which it always has. */
static void shrink(struct erig *r, size_t n) {
        uint64_t to = inside_budget_with(r->en, n);

        engine_set_pool_size(r->en, to);
        for (int i = 0; erig_stat(r, "budget") != to; i++)
                assert_true(i < 100000);
}

/* A budget that shrinks takes the least recently used first, but those that are pinned last; of these, too, the
 * least recently used first. */
static void test_order(void **state) {
        struct engine_options o = erig_options(64 << 20);
        enum { N = 5 };
        struct erig r;
        uint64_t c[N];

        (void)state;
        erig_open(&r, &o);
        for (size_t i = 0; i < N; i++)
                c[i] = make(&r, 4);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(pin(&r, c[i], true), ENGINE_CONV);
                assert_true(A.conv.pinned);
        }
        assert_int_equal(erig_stat(&r, "conversations_pinned"), 2);
        /* By the order of use: 2, 3, 4, 0, 1; and then 1, 2, 3, 4, 0. */
        for (size_t i = 2; i < N; i++)
                erig_append_tokens(&r, c[i], 50, 1);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c[0], NULL), ENGINE_CONV);
        shrink(&r, 18);
        assert_true(is_resident(&r, c[0]) && is_resident(&r, c[1]));
        assert_false(is_resident(&r, c[2]));
        assert_true(is_resident(&r, c[3]) && is_resident(&r, c[4]));
        shrink(&r, 8);
        assert_true(is_resident(&r, c[0]) && is_resident(&r, c[1]));
        assert_false(is_resident(&r, c[3]) || is_resident(&r, c[4]));
        shrink(&r, 5);
        assert_true(is_resident(&r, c[0]));
        assert_false(is_resident(&r, c[1]));
        /* What went is still pinned, and goes on where it was. */
        assert_true(is_pinned(&r, c[1]));
        erig_say(&r, c[1], "Go on.", 4, &A);
        assert_int_equal(A.n_disk, 4 * BLOCK);
        erig_close(&r);
}

/* A request that needs room gets it: from what is not pinned as long as that is enough, and then from what is, however
 * much is pinned. */
static void test_room(void **state) {
        struct engine_options o = erig_options(erig_pool(10));
        uint64_t pinned, later, other, large;
        struct erig r;

        (void)state;
        erig_open(&r, &o);
        pinned = make(&r, 3);
        assert_int_equal(pin(&r, pinned, true), ENGINE_CONV);
        later = make(&r, 3);
        other = make(&r, 5);
        assert_true(is_resident(&r, pinned) && is_resident(&r, other));
        assert_false(is_resident(&r, later));
        /* Of two that are pinned the one that was used longer ago. */
        assert_int_equal(pin(&r, other, true), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, pinned, NULL), ENGINE_CONV);
        large = make(&r, 6);
        assert_true(is_resident(&r, pinned) && is_resident(&r, large));
        assert_false(is_resident(&r, other));
        /* No less than all that there is. */
        assert_int_equal(pin(&r, large, true), ENGINE_CONV);
        large = make(&r, 9);
        assert_true(is_resident(&r, large));
        assert_false(is_resident(&r, pinned));
        assert_int_equal(erig_stat(&r, "unspilled_drops"), 0);
        erig_check_budget(&r);
        erig_check_register(&r);
        erig_close(&r);
}

/* The memory of a request that waits for a place goes before pinned memory that nobody uses; with the conversation
 * pinned itself, behind it. On a busy machine the reply may be done before it is paused: then false. */
static bool park(bool pin_it) {
        struct engine_options o = erig_options(erig_pool(10));
        struct engine_request q;
        uint64_t idle, parked, other;
        struct erig r;
        bool was;

        o.max_active = 1;
        erig_open(&r, &o);
        idle = make(&r, 2);
        assert_int_equal(pin(&r, idle, true), ENGINE_CONV);
        parked = make(&r, 1);
        if (pin_it)
                assert_int_equal(pin(&r, parked, true), ENGINE_CONV);
        other = erig_new(&r, NULL, NULL);
        q = erig_long_request(parked, "Tell me a story.", 80);
        erig_send(&r, &q, &B);
        while (B.n_tokens < 60)
                erig_step(&r);
        engine_pause(r.en, q.handle, true);
        erig_append_tokens(&r, other, 400, (pin_it ? 5 : 8) * BLOCK);
        was = erig_stat(&r, "requests_parked") == 1;
        if (was) {
                assert_int_equal(is_resident(&r, idle), !pin_it);
                assert_int_equal(is_resident(&r, parked), pin_it);
        }
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        assert_int_equal(B.n_generated, 80);
        erig_close(&r);
        return was;
}

static void test_requests_that_wait(void **state) {
        (void)state;
        erig_need_model();
        for (int pinned = 0; pinned < 2; pinned++) {
                int tries = 0;

                while (!park(pinned))
                        assert_true(++tries < 100);
        }
}

/* Evict means the conversation that it names. */
static void test_evict(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        (void)state;
        erig_open(&r, &o);
        c = make(&r, 2);
        assert_int_equal(pin(&r, c, true), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        assert_true(A.conv.pinned);
        assert_int_equal(A.conv.n_not_kept, 0);
        erig_close(&r);
}

/* Pinned memory is written while it is idle, so an eviction that must be has nothing to write. */
static void test_written_behind(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        (void)state;
        o.spill_delay_ms = 0;
        erig_open(&r, &o);
        c = make(&r, 5);
        assert_int_equal(pin(&r, c, true), ENGINE_CONV);
        erig_wait_stat(&r, "writebehind_blocks", 5);
        assert_true(is_resident(&r, c));
        shrink(&r, 4);
        assert_false(is_resident(&r, c));
        assert_int_equal(erig_stat(&r, "evict_blocks_written"), 0);
        erig_close(&r);
}

/* The pin survives restarts and kills, with all that may happen to the conversation; nothing is loaded for it. */
static void test_kept(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        (void)state;
        erig_open(&r, &o);
        c = make(&r, 4);
        d = make(&r, 4);
        assert_int_equal(pin(&r, c, true), ENGINE_CONV);
        q = erig_request(ENGINE_REWIND, c);
        q.at_position = 3 * BLOCK;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        assert_true(A.conv.pinned);
        erig_say(&r, c, "Go on.", 4, &A);
        for (int clean = 0; clean < 2; clean++) {
                erig_restart(&r, clean);
                assert_int_equal(erig_stat(&r, "conversations_pinned"), 0);
                assert_int_equal(erig_stat(&r, "pool_blocks"), 0);
                assert_true(is_pinned(&r, c));
                assert_false(is_pinned(&r, d));
        }
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, NULL), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, d, NULL), ENGINE_CONV);
        assert_int_equal(erig_stat(&r, "conversations_pinned"), 1);
        shrink(&r, 6);
        assert_true(is_resident(&r, c));
        assert_false(is_resident(&r, d));
        /* Unpinned, it goes like others. */
        assert_int_equal(pin(&r, c, false), ENGINE_CONV);
        assert_false(A.conv.pinned);
        assert_int_equal(erig_stat(&r, "conversations_pinned"), 0);
        erig_append_tokens(&r, d, 50, 1);
        assert_false(is_resident(&r, c));
        erig_restart(&r, false);
        assert_false(is_pinned(&r, c));
        erig_close(&r);
}

/* Nor is it a copy's: a fork's, an import's. */
static void test_not_inherited(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct transfer_file file;
        struct engine_request q;
        struct erig r;
        uint64_t c, child;

        (void)state;
        erig_open(&r, &o);
        c = make(&r, 2);
        assert_int_equal(pin(&r, c, true), ENGINE_CONV);
        q = erig_request(ENGINE_FORK, c);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        assert_false(A.conv.pinned);
        child = A.conv.id;
        assert_false(is_pinned(&r, child));
        assert_int_equal(erig_stat(&r, "conversations_pinned"), 1);
        file = transfer_export(&r, c, false);
        assert_false(is_pinned(&r, transfer_import_good(&r, &file, "imported")));
        assert_false(transfer_last.conv.pinned);
        assert_int_equal(erig_stat(&r, "conversations_pinned"), 1);
        free(file.data);
        erig_close(&r);
}

/* Where the bookkeeping of conversations needs the room that theirs takes, those go first that have no memory in
 * RAM, then those that are not pinned; and the pinned ones before anything is refused. */
static void test_unloaded_last(void **state) {
        struct engine_options o = erig_options(erig_pool(80));
        uint64_t c, d, other;
        struct erig r;

        (void)state;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        c = make(&r, 2);
        assert_int_equal(pin(&r, c, true), ENGINE_CONV);
        d = make(&r, 2);
        other = make(&r, 1);
        for (int i = 0; i < 3000 && erig_stat(&r, "unspilled_drops") == 0; i++)
                (void)erig_fork(&r, other);
        assert_true(erig_stat(&r, "unspilled_drops") > 0);
        assert_true(is_resident(&r, c));
        assert_false(is_resident(&r, d));
        /* On and on: in the end nothing but what is new can stay. */
        for (int i = 0; i < 3000 && is_resident(&r, c); i++) {
                uint64_t child = erig_fork(&r, other);

                assert_int_equal(pin(&r, child, true), ENGINE_CONV);
        }
        assert_false(is_resident(&r, c));
        assert_true(is_pinned(&r, c));
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_requests_that_wait),
                cmocka_unit_test(test_evict),
                cmocka_unit_test(test_written_behind),
                cmocka_unit_test(test_kept),
                cmocka_unit_test(test_not_inherited),
                cmocka_unit_test(test_unloaded_last),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
