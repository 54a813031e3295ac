/* SPDX-License-Identifier: MIT */
/* Requests that wait for their turn on a conversation: order, revisions, cancellation, memory. */
#include <string.h>

#include "inside.h"
#include "model/model.h"
#include "rig.h"
#include "store/store.h"
#include "util/gate.h"
#include "util/test.h"

static struct answer A, many[8];
static struct gate gate = GATE_INIT; /* before each step */

int __real_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
int __wrap_model_forward(struct model_work *work, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        gate_pass(&gate);
        return __real_model_forward(work, batch, n, wait);
}

static struct gate read_gate = GATE_INIT; /* behind each reading of a conversation */

int __real_store_read_page(struct store *s, uint64_t owner, uint64_t id, const char *name,
        unsigned what, const struct store_turn_page *page, store_admit_fn *admit, void *arg,
        struct store_reading *ret, struct err *e);
int __wrap_store_read_page(struct store *s, uint64_t owner, uint64_t id, const char *name,
        unsigned what, const struct store_turn_page *page, store_admit_fn *admit, void *arg,
        struct store_reading *ret, struct err *e);
int __wrap_store_read_page(struct store *s, uint64_t owner, uint64_t id, const char *name,
        unsigned what, const struct store_turn_page *page, store_admit_fn *admit, void *arg,
        struct store_reading *ret, struct err *e) {
        int r = __real_store_read_page(s, owner, id, name, what, page, admit, arg, ret, e);

        gate_pass(&read_gate);
        return r;
}

/* A failed test must not leave an engine behind that can't end. */
static int teardown(void **state) {
        gate_open(&gate);
        gate_open(&read_gate);
        return 0;
}

static struct engine_request say_waiting(uint64_t conv, const char *text, uint32_t max_tokens) {
        struct engine_request q = erig_say_request(conv, text, max_tokens);

        q.ignore_eos = q.wait = true;
        return q;
}

/* A request that holds the conversation until engine_pause() lets it go on: it is paused in its first
 * step. */
static struct engine_request hold(struct erig *r, uint64_t conv, struct answer *a) {
        struct engine_request q = say_waiting(conv, "Tell me a story.", 60);

        q.wait = false;
        gate_step(&gate);
        erig_send(r, &q, a);
        gate_wait(&gate);
        engine_pause(r->en, q.handle, true);
        gate_open(&gate);
        return q;
}

/* So many wait for their turn. */
static void settle(struct erig *r, uint64_t n) {
        assert_int_equal(erig_wait_stat(r, "requests_waiting", n), n);
}

static void test_order(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, first;
        struct erig r, other;
        uint64_t c, d;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        first = hold(&r, c, &many[0]);
        for (int i = 1; i < 5; i++) {
                q = say_waiting(c, i % 2 ? "And then?" : "Why was that so?", 4);
                erig_send(&r, &q, &many[i]);
                settle(&r, (uint64_t)i);
        }
        q = erig_say_request(c, "Who goes first?", 4);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_BUSY);
        engine_pause(r.en, first.handle, false);
        for (int i = 0; i < 5; i++) {
                erig_wait(&r, &many[i]);
                assert_int_equal(many[i].kind, ENGINE_DONE);
                for (int k = i + 1; k < 5; k++)
                        assert_false(many[k].final);
                assert_int_equal(many[i].revision, many[0].revision + 2 * (uint64_t)i);
        }
        /* As one after the other. */
        erig_open(&other, &o);
        d = erig_new(&other, NULL, NULL);
        first.conv_id = d;
        assert_int_equal(erig_do(&other, &first, &A), ENGINE_DONE);
        answer_same(&A, &many[0]);
        for (int i = 1; i < 5; i++) {
                q = say_waiting(d, i % 2 ? "And then?" : "Why was that so?", 4);
                assert_int_equal(erig_do(&other, &q, &A), ENGINE_DONE);
                answer_same(&A, &many[i]);
        }
        erig_close(&other);
        erig_close(&r);
}

/* What was expected is looked at when its turn comes. */
static void test_revision(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, first;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "Hello.", 4, &A);
        first = hold(&r, c, &many[0]);
        q = say_waiting(c, "Too late.", 4);
        q.has_expect_revision = true;
        q.expect_revision = A.revision;
        erig_send(&r, &q, &many[1]);
        settle(&r, 1);
        q = say_waiting(c, "In time.", 4);
        q.has_expect_revision = true;
        q.expect_revision = A.revision + 2; /* a message and its reply */
        erig_send(&r, &q, &many[2]);
        settle(&r, 2);
        engine_pause(r.en, first.handle, false);
        erig_wait(&r, &many[1]);
        assert_true(many[0].final);
        assert_int_equal(many[1].kind, ENGINE_ERROR);
        assert_int_equal(many[1].err.code, ERR_CONFLICT);
        erig_wait(&r, &many[2]);
        assert_int_equal(many[2].kind, ENGINE_DONE);
        erig_close(&r);
}

static void test_cancel(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        hold(&r, c, &many[0]);
        q = say_waiting(c, "One.", 4);
        erig_send(&r, &q, &many[1]);
        settle(&r, 1);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &many[1]);
        assert_int_equal(many[1].kind, ENGINE_ERROR);
        assert_int_equal(many[1].err.code, ERR_CANCELLED);
        assert_false(many[0].final); /* it did not have to wait for that */
        /* What a conversation is doing, is also what is to be done in it. */
        q = say_waiting(c, "Two.", 4);
        erig_send(&r, &q, &many[2]);
        settle(&r, 1);
        assert_int_equal(erig_simple(&r, ENGINE_CANCEL, c, &A), ENGINE_EMPTY);
        erig_wait(&r, &many[0]);
        assert_true(many[0].finish == ENGINE_FINISH_CANCELLED || many[0].err.code == ERR_CANCELLED);
        erig_wait(&r, &many[2]);
        assert_int_equal(many[2].err.code, ERR_CANCELLED);
        erig_say(&r, c, "Three.", 4, &A);
        erig_close(&r);
}

/* Who waits holds no memory: that of a conversation whose request is not admitted can be evicted,
 * also when others wait behind it. */
static void test_holds_nothing(void **state) {
        struct engine_options o = erig_options(erig_pool(40));
        struct engine_request q, big;
        struct erig r;
        uint64_t c, d;

        o.max_active = 1;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        d = erig_new(&r, NULL, NULL);
        q = say_waiting(c, "Hello.", 100); /* 4 blocks */
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        big = say_waiting(d, "Tell me a story.", 1200); /* more than the other 36 */
        gate_step(&gate);
        erig_send(&r, &big, &many[0]);
        gate_wait(&gate);
        for (int i = 1; i < 4; i++) {
                q = say_waiting(c, "And then?", 4);
                erig_send(&r, &q, &many[i]);
        }
        /* The first of them is in the queue. Until then the long one goes on step by step. */
        while (inside_n_waiting(r.en) != 2) {
                gate_step(&gate);
                gate_wait(&gate);
        }
        gate_open(&gate);
        for (int i = 0; i < 4; i++) {
                erig_wait(&r, &many[i]);
                assert_int_equal(many[i].kind, ENGINE_DONE);
        }
        assert_int_equal(many[0].n_generated, 1200);
        /* It was evicted meanwhile: one of the three is the first to bring it back. */
        assert_true(erig_stat(&r, "evictions") > 0);
        erig_check_budget(&r);
        erig_close(&r);
}

/* Behind a Close there is nothing to wait for; a stop ends the waiting. */
static void test_close_and_stop(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q[2];
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        for (int i = 0; i < 20; i++) {
                c = erig_new(&r, NULL, NULL);
                q[0] = (struct engine_request){.verb = ENGINE_CLOSE, .conv_id = c};
                q[1] = say_waiting(c, "Hello.", 2);
                erig_do_all(&r, q, many, 2);
                if (many[0].kind == ENGINE_EMPTY) {
                        assert_int_equal(many[1].kind, ENGINE_ERROR);
                        assert_true(
                                many[1].err.code == ERR_NOT_FOUND || many[1].err.code == ERR_BUSY);
                } else {
                        assert_int_equal(many[0].err.code, ERR_BUSY);
                        assert_int_equal(many[1].kind, ENGINE_DONE);
                }
        }
        c = erig_new(&r, NULL, NULL);
        hold(&r, c, &many[0]);
        q[1] = say_waiting(c, "Later.", 4);
        erig_send(&r, &q[1], &many[1]);
        settle(&r, 1);
        erig_stop(&r, true);
        assert_true(many[0].final);
        assert_true(many[1].final && many[1].err.code == ERR_SHUTDOWN);
        erig_start(&r);
        erig_close(&r);
}

/* A reply that is committed after Get has read the turns, and before it answers: a conversation that
 * is not busy has the reply. */
static void test_get_beside_commit(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request get, q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = hold(&r, c, &many[0]);
        gate_step(&read_gate);
        get = erig_request(ENGINE_GET, c);
        get.want_turns = true;
        erig_send(&r, &get, &A);
        gate_wait(&read_gate);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &many[0]);
        assert_int_equal(many[0].kind, ENGINE_DONE);
        gate_open(&read_gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_CONV);
        assert_true(A.conv.n_turns < 2);
        assert_true(A.conv.busy);
        erig_get(&r, c, &A);
        assert_int_equal(A.conv.n_turns, 2);
        assert_false(A.conv.busy);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_order, teardown),
                cmocka_unit_test_teardown(test_revision, teardown),
                cmocka_unit_test_teardown(test_cancel, teardown),
                cmocka_unit_test_teardown(test_holds_nothing, teardown),
                cmocka_unit_test_teardown(test_close_and_stop, teardown),
                cmocka_unit_test_teardown(test_get_beside_commit, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
