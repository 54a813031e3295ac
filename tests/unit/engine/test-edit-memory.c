/* SPDX-License-Identifier: MIT */
/*
 * A Continue from an earlier place (edit.c), and memory: what it replaces gives way where there is
 * no room, is lost alone, and is public no longer than it is there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "edit-rig.h"
#include "util/test.h"

static struct answer A, C, T, edited, went_on, many[2];

/* --- room --- */

/* What comes of an edit, and of going on without one, where there is room for everything. */
static void straight_answers(size_t n_words) {
        struct engine_options big = erig_options(256 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        erig_open(&r, &big);
        c = edit_talk(&r);
        d = erig_fork(&r, c);
        q = edit_request(c, 1, edit_words(n_words), 12);
        assert_int_equal(erig_do(&r, &q, &edited), ENGINE_DONE);
        erig_say(&r, d, "And my dog?", 8, &went_on);
        erig_get(&r, c, &T);
        erig_close(&r);
}

/* What is replaced takes no room from what replaces it: where both do not fit, the old memory goes. */
static void room_case(bool cancel) {
        struct engine_options o = erig_options(0);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        o.pool_size = erig_pool((T.conv.n_tokens + 40) / 32 + 1);
        o.spill_delay_ms = UINT32_MAX;
        o.batch_tokens = 2;
        c = edit_open(&r, &o);
        q = edit_request(c, 1, edit_words(30), 12);
        if (cancel) {
                edit_send_and_hold(&r, &q, 20, &A);
                engine_cancel(r.en, q.handle);
                gate_open(&edit_step_gate);
        } else {
                erig_send(&r, &q, &A);
        }
        erig_wait(&r, &A);
        if (cancel) {
                edit_check_unanswered(&r, c, &A);
                q = edit_answer(c, 12);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        }
        answer_same(&A, &edited);
        erig_check_budget(&r);
        erig_check_register(&r);
        erig_simple(&r, ENGINE_CLOSE, c, NULL);
        erig_check_empty(&r);
        erig_close(&r);
}

static void test_room(void **state) {
        straight_answers(30);
        room_case(false);
        room_case(true);
}

/* Parked while it computes its prompt, and then evicted: nothing of what is not committed is linked
 * in the register. Then it goes on, or not. */
static void parked_case(bool cancel) {
        struct engine_options o = erig_options(0);
        struct engine_request q, other;
        uint64_t c, d;
        struct erig r;

        o.pool_size = erig_pool(10);
        o.max_active = 1;
        o.batch_tokens = 2;
        o.spill_delay_ms = UINT32_MAX;
        c = edit_open(&r, &o);
        d = erig_new(&r, NULL, NULL);
        erig_get(&r, c, &T);
        q = edit_request(c, 1, edit_words(60), 12);
        edit_send_and_hold(&r, &q, 40, &many[0]);
        engine_pause(r.en, q.handle, true);
        gate_open(&edit_step_gate);
        /* It takes the place, and 9 of the 10 blocks: the two of the other one have to go. */
        other = erig_long_request(d, "Tell me a long story.", 260);
        assert_int_equal(erig_do(&r, &other, &many[1]), ENGINE_DONE);
        assert_true(erig_stat(&r, "evict_blocks_written") > 0);
        if (cancel)
                engine_cancel(r.en, q.handle);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &many[0]);
        if (cancel) {
                edit_check_unanswered(&r, c, &many[0]);
                q = edit_answer(c, 12);
                assert_int_equal(erig_do(&r, &q, &many[0]), ENGINE_DONE);
        }
        answer_same(&many[0], &edited);
        erig_check_register(&r);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        erig_check_budget(&r);
        erig_close(&r);
}

static void test_parked(void **state) {
        straight_answers(60);
        parked_case(false);
        parked_case(true);
}

/* A record below the cut turns out to be damaged: from there on both histories have none. */
static void test_damaged(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        char path[128];
        uint8_t zeros[64] = {0};
        struct erig r;
        uint64_t c;
        int fd;

        straight_answers(300);
        o.batch_tokens = 2;
        o.spill_delay_ms = UINT32_MAX;
        c = edit_open(&r, &o);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        snprintf(path, sizeof(path), "%s/spill/%016llx.kv", r.dir, (unsigned long long)c);
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, zeros, sizeof(zeros), 3000), sizeof(zeros));
        close(fd);
        q = edit_request(c, 4, "", 12);
        edit_send_and_hold(&r, &q, 2, &many[0]);
        engine_cancel(r.en, q.handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, ENGINE_ERROR);
        assert_int_equal(erig_stat(&r, "restore_failures"), 1);
        erig_say(&r, c, "And my dog?", 8, &A);
        answer_same(&A, &went_on);
        assert_int_equal(A.n_disk, 0);
        assert_int_equal(erig_stat(&r, "restore_failures"), 1);
        erig_check_register(&r);
        erig_close(&r);
}

/* The space of its records is given to others while it is pending: neither history has them. */
static void test_reclaimed(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, first;
        uint64_t c, running, other;
        struct erig r;

        straight_answers(30);
        o.max_active = 1;
        o.spill_delay_ms = UINT32_MAX;
        c = edit_open(&r, &o);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
        r.o.disk_limit = erig_stat(&r, "spill_disk_bytes");
        erig_restart(&r, true);
        other = erig_new(&r, NULL, NULL);
        erig_say(&r, other, edit_words(60), 1, &A);
        running = erig_new(&r, NULL, NULL);
        first = erig_long_request(running, "Tell me a long story.", 400);
        erig_send(&r, &first, &many[0]);
        while (many[0].n_tokens == 0)
                erig_step(&r);
        q = edit_request(c, 3, "Hello", 12);
        erig_send(&r, &q, &many[1]);
        engine_pause(r.en, q.handle, true); /* it stays in the queue, whatever the other one does */
        erig_get(&r, c, &C);                /* loaded, and held by the edit */
        while (!C.conv.busy)
                erig_get(&r, c, &C);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, other, NULL), ENGINE_CONV);
        assert_true(erig_stat(&r, "reclaimed_bytes") > 0);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[1]);
        assert_int_equal(many[1].kind, ENGINE_ERROR);
        engine_cancel(r.en, first.handle);
        erig_wait(&r, &many[0]);
        erig_say(&r, c, "And my dog?", 8, &A);
        answer_same(&A, &went_on);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        erig_check_register(&r);
        erig_close(&r);
}

/* --- published --- */

/* What is published ends at the cut once the edit commits, and not before; what is new is never
 * public. */
static void test_published(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request publish = {
                .verb = ENGINE_PUBLISH, .publish = true, .admin = true, .at_turn = ENGINE_UNSET};
        struct engine_request q;
        struct erig r;
        uint32_t kept;
        uint64_t c, other;

        o.max_active = 4;
        o.batch_tokens = 2;
        o.spill_delay_ms = UINT32_MAX;
        c = edit_open(&r, &o);
        other = edit_talk(&r);
        publish.conv_id = c;
        assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        erig_get(&r, c, &T);
        kept = T.turns[0].end;
        assert_int_equal(T.conv.n_published, T.conv.n_tokens);
        assert_true(erig_others_get(&r, 1, T.history, T.conv.n_tokens) > kept);
        /* Accepted: what it replaces is gone; the new tokens are not for others. */
        q = edit_request(c, 1,
                "Tell me a story about a bird that lives on a green river, and "
                "another one about a stone that is seven years old.",
                500);
        q.ignore_eos = true;
        edit_send_and_hold(&r, &q, 0, &many[0]);
        edit_walk(&r, &many[0], 70);
        edit_walk_get(&r, &many[0], c, &C);
        assert_int_equal(C.n_turns, 2);
        assert_int_equal(C.conv.n_published, kept);
        engine_cancel(r.en, q.handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &many[0]);
        erig_get(&r, c, &C);
        assert_int_equal(C.conv.n_published, kept);
        assert_true(C.conv.n_tokens > kept + 64);
        assert_true(erig_others_get(&r, 2, C.history, C.conv.n_tokens) <= kept);
        assert_true(erig_others_get(&r, 3, T.history, T.conv.n_tokens) <= kept);
        /* Published anew, edited, and cancelled in time: still all of it. (The end of another
         * publication has the index forget and enter again what is public.) */
        assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        erig_get(&r, c, &T);
        q = edit_request(c, 2, "", 8);
        edit_send_and_hold(&r, &q, 0, &many[0]);
        engine_cancel(r.en, q.handle);
        gate_open(&edit_step_gate);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, ENGINE_ERROR);
        edit_check_as_before(&r, c, &T);
        for (int on = 1; on >= 0; on--) {
                publish.conv_id = other;
                publish.publish = on;
                assert_int_equal(erig_do(&r, &publish, &A), ENGINE_CONV);
        }
        assert_true(erig_others_get(&r, 4, T.history, T.conv.n_tokens) > kept);
        erig_check_register(&r);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_parked),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_reclaimed),
                cmocka_unit_test(test_published),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
