/* SPDX-License-Identifier: MIT */
/*
 * Attach: whoever joins a reply, at whatever time and from whatever position, is told what the request
 * itself was told behind that position, and disturbs nobody. And what Get says of a reply that is being
 * written.
 */
#include <string.h>

#include "base/util.h"
#include "model/model.h"
#include "rig.h"
#include "util/gate.h"
#include "util/test.h"

static struct answer A, B, C, many[24];
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

/* The tests let steps by, one for each token of a reply. */
static struct engine_options options(void) {
        struct engine_options o = erig_options(64 << 20);

        o.speculation = false;
        return o;
}

static struct engine_request attach(uint64_t conv) {
        return erig_request(ENGINE_ATTACH, conv);
}

/* What @is was told is what @was was told behind its first @n tokens. */
static void check_rest(const struct answer *is, const struct answer *was, size_t n) {
        size_t from = n > 0 ? was->ends[n - 1] : 0;

        if (is->kind != ENGINE_DONE)
                fail_msg("from token %zu: %s", n, is->err.msg);
        assert_true(is->accepted);
        assert_int_equal(is->n_tokens, was->n_tokens - n);
        assert_memory_equal(is->tokens, was->tokens + n, is->n_tokens * sizeof(*is->tokens));
        assert_memory_equal(
                is->positions, was->positions + n, is->n_tokens * sizeof(*is->positions));
        assert_string_equal(is->text, was->text + from);
        for (size_t i = 0; i < is->n_tokens; i++)
                assert_int_equal(is->ends[i], was->ends[n + i] - from);
        assert_int_equal(is->finish, was->finish);
        assert_int_equal(is->revision, was->revision);
        assert_int_equal(is->n_generated, was->n_generated);
        assert_int_equal(is->n_prompt, was->n_prompt);
        assert_int_equal(is->seed, was->seed);
        assert_string_equal(is->stop, was->stop);
}

/* A request that is held in its @n-th step. */
static struct engine_request begin(
        struct erig *r, uint64_t c, unsigned n, const char *stop, struct answer *a) {
        struct engine_request q = erig_long_request(c, "Tell me a story.", 40);

        if (stop) {
                q.stops[0] = stop;
                q.n_stops = 1;
        }
        gate_close(&gate, n);
        erig_send(r, &q, a);
        gate_wait(&gate);
        return q;
}

/* Joined at any time: before it is accepted, while it reads, in the middle, near its end. */
static void test_any_time(void **state) {
        static const unsigned steps[] = {0, 1, 3, 17, 40};
        struct engine_options o = options();
        struct engine_request q;
        struct erig r;
        uint64_t c;

        o.batch_tokens = 16;
        erig_open(&r, &o);
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                c = erig_new(&r, NULL, "You know stories.");
                begin(&r, c, steps[i], NULL, &A);
                for (size_t k = 0; k < ARRAY_SIZE(many); k++) {
                        q = attach(c);
                        erig_send(&r, &q, &many[k]);
                }
                gate_open(&gate);
                erig_wait(&r, &A);
                assert_int_equal(A.kind, ENGINE_DONE);
                for (size_t k = 0; k < ARRAY_SIZE(many); k++) {
                        erig_wait(&r, &many[k]);
                        check_rest(&many[k], &A, 0);
                }
        }
        erig_check_budget(&r);
        erig_close(&r);
}

static void rest_of(struct erig *r, uint64_t c, size_t n, const char *stop) {
        struct engine_request q = attach(c);

        q.at_position = n > 0 ? A.positions[n - 1] : A.positions[0] - 1;
        if (stop) {
                q.stops[0] = stop;
                q.n_stops = 1;
        }
        assert_int_equal(erig_do(r, &q, &B), ENGINE_DONE);
        check_rest(&B, &A, n);
}

/* A reply that is done, from each of its positions: with text held back for a stop string, and ended by one;
 * after a restart, too. */
static void test_done(void **state) {
        struct engine_options o = options();
        struct engine_request q;
        char stop[64] = "";
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, "Tell me a story.", 40);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        for (size_t n = 0; n <= A.n_tokens; n++)
                rest_of(&r, c, n, NULL);
        /* Some text from the middle: tokens that begin it are held back. */
        snprintf(stop, sizeof(stop), "%.9s", A.text + A.ends[20]);
        for (int restart = 0; restart < 2; restart++) {
                c = erig_new(&r, NULL, NULL);
                q = erig_long_request(c, "Tell me a story.", 40);
                q.stops[0] = stop;
                q.n_stops = 1;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
                assert_int_equal(A.finish, ENGINE_FINISH_STOP_STRING);
                if (restart)
                        erig_restart(&r, true);
                for (size_t n = 0; n <= A.n_tokens; n++)
                        rest_of(&r, c, n, stop);
                /* Without them all of the text comes, in other pieces. */
                q = attach(c);
                assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
                assert_string_equal(B.text, A.text);
                assert_int_equal(B.n_tokens, A.n_tokens);
        }
        /* Ended by its token. */
        q = erig_say_request(c, "Say no more.", 400);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        if (A.finish == ENGINE_FINISH_STOP)
                for (size_t n = 0; n <= A.n_tokens; n++)
                        rest_of(&r, c, n, NULL);
        erig_close(&r);
}

/* A follower that does not read holds up nobody, and hears the rest later. */
static void test_slow(void **state) {
        struct engine_options o = options();
        struct engine_request q, slow;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = begin(&r, c, 5, "no such text", &A);
        slow = attach(c);
        slow.want_parts = true;
        erig_send(&r, &slow, &B);
        engine_pause(r.en, slow.handle, true);
        gate_open(&gate);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_false(B.final);
        /* The conversation goes on; what it said is what the follower hears. */
        erig_say(&r, c, "And then?", 8, &C);
        q = erig_request(ENGINE_REWIND, c);
        q.at_turn = 0;
        assert_int_equal(erig_do(&r, &q, &C), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, c, &C), ENGINE_EMPTY);
        engine_pause(r.en, slow.handle, false);
        erig_wait(&r, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        assert_int_equal(B.n_tokens, A.n_tokens);
        assert_memory_equal(B.tokens, A.tokens, A.n_tokens * sizeof(*A.tokens));
        assert_true(strncmp(B.parts, "text:", 5) == 0);
        assert_non_null(strstr(B.parts, A.text + strspn(A.text, " \n")));
        erig_check_empty(&r);
        erig_close(&r);
}

/* The request is cancelled, or dies: followers hear the same. Those who leave leave alone. */
static void test_ends(void **state) {
        struct engine_options o = options();
        struct engine_request q, follower, leaver;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        for (unsigned n = 0; n < 12; n += 3) {
                c = erig_new(&r, NULL, NULL);
                q = begin(&r, c, n, NULL, &A);
                follower = attach(c);
                leaver = attach(c);
                erig_send(&r, &follower, &B);
                erig_send(&r, &leaver, &C);
                engine_pause(r.en, q.handle, true);
                gate_open(&gate);
                erig_wait_accepted(&r, &C);
                engine_cancel(r.en, leaver.handle);
                erig_wait(&r, &C);
                assert_int_equal(C.err.code, ERR_CANCELLED);
                assert_false(A.final || B.final);
                engine_cancel(r.en, q.handle);
                erig_wait(&r, &A);
                erig_wait(&r, &B);
                assert_int_equal(A.finish, ENGINE_FINISH_CANCELLED);
                check_rest(&B, &A, 0);
        }
        /* A stop ends all. */
        c = erig_new(&r, NULL, NULL);
        q = begin(&r, c, 5, NULL, &A);
        follower = attach(c);
        erig_send(&r, &follower, &B);
        engine_pause(r.en, follower.handle, true);
        gate_open(&gate);
        erig_stop(&r, true);
        assert_true(A.final && B.final);
        erig_start(&r);
        erig_close(&r);
}

static void refused(struct erig *r, struct engine_request q, enum err_code code) {
        assert_int_equal(erig_do(r, &q, &B), ENGINE_ERROR);
        assert_int_equal(B.err.code, code);
}

static void test_refused(void **state) {
        struct engine_options o = options();
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, "Be kind.");
        refused(&r, attach(c), ERR_STATE);
        q = erig_say_request(c, "Hello.", 0);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        refused(&r, attach(c), ERR_STATE);
        q = attach(c);
        q.owner = 7;
        refused(&r, q, ERR_NOT_FOUND);
        erig_say(&r, c, "Hello.", 4, &A);
        q = attach(c);
        q.at_position = 3;
        refused(&r, q, ERR_INVALID);
        q.at_position = A.positions[A.n_tokens - 1] + 1;
        refused(&r, q, ERR_INVALID);
        q.at_position = ENGINE_UNSET;
        q.has_expect_revision = true;
        q.expect_revision = A.revision;
        refused(&r, q, ERR_CONFLICT);
        q.expect_revision = A.revision - 1;
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_DONE);
        check_rest(&B, &A, 0);
        erig_close(&r);
}

/* Whoever knows the revision of a reply does not get another one. */
static void test_revision(void **state) {
        struct engine_options o = options();
        struct engine_request q, first;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        first = begin(&r, c, 5, NULL, &A);
        engine_pause(r.en, first.handle, true);
        gate_open(&gate);
        erig_wait_accepted(&r, &A);
        q = attach(c);
        q.has_expect_revision = true;
        q.expect_revision = A.revision - 1;
        refused(&r, q, ERR_CONFLICT);
        q.expect_revision = A.revision;
        erig_send(&r, &q, &B);
        engine_pause(r.en, first.handle, false);
        erig_wait(&r, &A);
        erig_wait(&r, &B);
        check_rest(&B, &A, 0);
        erig_close(&r);
}

/* Get tells of a reply that is being written. */
static void test_writing(void **state) {
        struct engine_options o = options();
        struct engine_request q, get;
        const struct engine_writing *w;
        struct erig r;
        uint64_t c;

        o.batch_tokens = 4;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "Hello.", 4, &A);
        erig_get(&r, c, &B);
        assert_null(B.writing);
        /* In its prompt. */
        q = begin(&r, c, 1, NULL, &A);
        engine_pause(r.en, q.handle, true);
        gate_open(&gate);
        erig_wait_accepted(&r, &A);
        erig_get(&r, c, &B);
        w = B.writing;
        assert_non_null(w);
        assert_int_equal(w->state, ENGINE_WRITING_READS);
        assert_int_equal(w->revision, A.revision);
        assert_int_equal(w->total, A.n_computed);
        assert_in_range(w->done, 1, w->total - 1);
        assert_int_equal(w->turn.start, B.turns[2].end);
        assert_int_equal(w->turn.text_size, 0);
        /* In its text: the rest of the prompt and a dozen tokens, or on a busy machine all would be over before the pause. */
        gate_close(&gate, (w->total - w->done + o.batch_tokens - 1) / o.batch_tokens + 12);
        engine_pause(r.en, q.handle, false);
        gate_wait(&gate);
        engine_pause(r.en, q.handle, true);
        gate_open(&gate);
        while (A.n_tokens < 8)
                erig_step(&r);
        get = erig_request(ENGINE_GET, c);
        get.want_turns = true;
        assert_int_equal(erig_do(&r, &get, &B), ENGINE_CONV);
        w = B.writing;
        assert_non_null(w);
        assert_int_equal(w->state, ENGINE_WRITING_WRITES);
        assert_int_equal(w->done, w->total);
        assert_in_range(w->n_generated, 8, 40);
        assert_int_equal(w->turn.role, ENGINE_ASSISTANT);
        assert_memory_equal(w->turn.text, A.text, MIN(w->turn.text_size, strlen(A.text)));
        assert_int_equal(B.n_turns, 3);
        /* Its end is a place to attach to. */
        q = attach(c);
        q.at_position = w->turn.end;
        C.ends[0] = w->turn.text_size;
        {
                size_t n = w->n_generated;
                struct engine_request go_on = q;

                erig_send(&r, &go_on, &many[0]);
                engine_pause(r.en, A.accepted ? r.open[0].handle : 0, false);
                erig_wait(&r, &A);
                erig_wait(&r, &many[0]);
                check_rest(&many[0], &A, n);
        }
        erig_get(&r, c, &B);
        assert_null(B.writing);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_time),
                cmocka_unit_test(test_done),
                cmocka_unit_test(test_slow),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_revision),
                cmocka_unit_test(test_writing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
