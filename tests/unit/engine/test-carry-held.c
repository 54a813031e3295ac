/* SPDX-License-Identifier: MIT */
/*
 * While a conversation is being carried over: who has to wait, cancelling, stopping, a commit that
 * fails; and a history that is damaged.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "carry-rig.h"
#include "store/store.h"
#include "tok/tok.h"
#include "util/gate.h"
#include "util/test.h"

static struct answer A, B, first;

/* The text of a reply is encoded: while the conversation is held, and nothing is committed yet. */
static struct gate encoding = GATE_INIT;
int __real_tok_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, size_t max, struct tok_ids *out, struct err *e);
int __wrap_tok_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, size_t max, struct tok_ids *out, struct err *e);
int __wrap_tok_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n_fragments,
        bool add_special, bool at_start, size_t max, struct tok_ids *out, struct err *e) {
        gate_pass(&encoding);
        return __real_tok_encode(t, fragments, n_fragments, add_special, at_start, max, out, e);
}

static enum err_code carry_fails; /* ERR_NONE: it does not */
int __real_store_carry(struct store *s, uint64_t id, const struct store_carried *x,
        uint64_t *ret_revision, struct store_gone *gone, struct err *e);
int __wrap_store_carry(struct store *s, uint64_t id, const struct store_carried *x,
        uint64_t *ret_revision, struct store_gone *gone, struct err *e);
int __wrap_store_carry(struct store *s, uint64_t id, const struct store_carried *x,
        uint64_t *ret_revision, struct store_gone *gone, struct err *e) {
        if (carry_fails)
                return err_set(e, carry_fails, "it was to fail");
        return __real_store_carry(s, id, x, ret_revision, gone, e);
}

static uint64_t make(struct erig *r) {
        uint64_t c = erig_new(r, NULL, "Be kind.");

        for (unsigned i = 0; i < 3; i++)
                erig_say(r, c, erig_words(4, i), 4, &A);
        erig_get(r, c, &first);
        return c;
}

/* Send a Carry, which stands still in the middle. */
static void send_and_hold(struct erig *r, uint64_t conv, struct engine_request *q) {
        *q = erig_request(ENGINE_CARRY, conv);
        gate_close(&encoding, 1);
        erig_send(r, q, &A);
        gate_wait(&encoding);
}

static void unchanged(struct erig *r, uint64_t c) {
        erig_get(r, c, &B);
        answer_same_history(&B, &first);
        assert_int_equal(B.conv.revision, first.conv.revision);
        assert_true(B.conv.other_vocab && B.conv.unusable_size > 0);
        assert_false(B.conv.busy);
}

static void test_held(void **state) {
        static const enum engine_verb verbs[] = {ENGINE_CARRY, ENGINE_REWIND, ENGINE_FORK,
                ENGINE_CLOSE, ENGINE_UPDATE, ENGINE_EVICT, ENGINE_WARM};
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, d;

        carry_open(&r, &o);
        c = make(&r);
        d = erig_fork(&r, c);
        carry_to_small(&r);
        send_and_hold(&r, c, &q);
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
                assert_int_equal(erig_simple(&r, verbs[i], c, &B), ENGINE_ERROR);
                assert_int_equal(B.err.code, ERR_BUSY);
        }
        /* It can be looked at, and is what it was. Others are not held up. */
        erig_get(&r, c, &B);
        assert_true(B.conv.busy && B.conv.other_vocab);
        answer_same_history(&B, &first);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, &B), ENGINE_EMPTY);
        gate_open(&encoding);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_CONV);
        assert_true(A.conv.carried && !A.conv.busy);
        carry_check_reply(&r, c);
        carry_close(&r);
}

static void test_cancelled(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        c = make(&r);
        carry_to_small(&r);
        for (int by_verb = 0; by_verb < 2; by_verb++) {
                send_and_hold(&r, c, &q);
                if (by_verb)
                        assert_int_equal(erig_simple(&r, ENGINE_CANCEL, c, &B), ENGINE_EMPTY);
                else
                        engine_cancel(r.en, q.handle);
                gate_open(&encoding);
                erig_wait(&r, &A);
                assert_int_equal(A.kind, ENGINE_ERROR);
                assert_int_equal(A.err.code, ERR_CANCELLED);
                unchanged(&r, c);
        }
        /* The daemon stops: it does not wait for long work. */
        send_and_hold(&r, c, &q);
        engine_stop(r.en);
        gate_open(&encoding);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_ERROR);
        while (!r.stopped)
                erig_step(&r);
        erig_stop(&r, false);
        erig_start(&r);
        unchanged(&r, c);
        carry(&r, c, &A);
        carry_check_reply(&r, c);
        carry_close(&r);
}

/* As kill -9 in the middle. */
static void test_killed(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        c = make(&r);
        carry_to_small(&r);
        send_and_hold(&r, c, &q);
        gate_open(&encoding);
        erig_restart(&r, false);
        erig_get(&r, c, &B);
        if (B.conv.other_vocab)
                unchanged(&r, c);
        else
                carry_same_texts(&B, &first);
        carry(&r, c, &A);
        carry_check_reply(&r, c);
        carry_close(&r);
}

static void test_commit_fails(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        c = make(&r);
        carry_to_small(&r);
        carry_fails = ERR_SYS;
        assert_int_equal(erig_simple(&r, ENGINE_CARRY, c, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_SYS);
        carry_fails = ERR_NONE;
        unchanged(&r, c);
        carry(&r, c, &A);
        carry_check_reply(&r, c);
        carry_close(&r);
}

/* A damaged history is not written anew as if it were whole: first it is cut to what is sound. */
static void test_damaged(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        sqlite3 *db = NULL;
        char path[128];
        struct erig r;
        uint64_t c;

        carry_open(&r, &o);
        c = make(&r);
        erig_stop(&r, true);
        snprintf(path, sizeof(path), "%s/register.db", r.dir);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(
                sqlite3_exec(db, "UPDATE turn SET tokens = zeroblob(length(tokens)) WHERE n = 5",
                        NULL, NULL, NULL),
                SQLITE_OK);
        sqlite3_close(db);
        r.o.model_path = carry_small_path();
        erig_start(&r);
        assert_int_equal(erig_simple(&r, ENGINE_CARRY, c, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CORRUPT);
        assert_non_null(strstr(A.err.msg, "turn 5"));
        q = erig_request(ENGINE_REWIND, c);
        q.at_turn = 5;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        carry(&r, c, &A);
        assert_int_equal(A.conv.n_turns, 5);
        carry_check_reply(&r, c);
        carry_close(&r);
}

/* Two hundred turns: more than a slice. */
static void test_many_turns(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c;

        o.context = 2048;
        carry_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        for (unsigned i = 0; i < 200; i++) {
                q = erig_say_request(c, "Hm.", 0);
                q.role = i % 2 ? ENGINE_ASSISTANT : ENGINE_USER;
                if (erig_do(&r, &q, &A) != ENGINE_DONE)
                        fail_msg("turn %u: %s", i, A.err.msg);
        }
        erig_get(&r, c, &first);
        r.o.context = 0;
        carry_to_small(&r);
        carry_refused(&r, c, ERR_CONTEXT, "the context of 512");
        q = erig_request(ENGINE_UPDATE, c);
        q.overflow = ENGINE_OVERFLOW_SHIFT;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        carry(&r, c, &A);
        assert_true(A.conv.n_turns == 200 && A.conv.dropped_to > A.conv.dropped_from);
        carry_check_reply(&r, c);
        carry_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_held),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_killed),
                cmocka_unit_test(test_commit_fails),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_many_turns),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
