/* SPDX-License-Identifier: MIT */
/*
 * Long texts: a separate thread tokenises them, so the register, restores and generation continue
 * in the meantime. Users take turns, and a client that hangs up stops the work on its text.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "tok/tok.h"
#include "util/test.h"

#define LONG ((size_t)1 << 20)

static struct answer A, many[8];
static char text[LONG + 1];

/* The tokenizing thread stands still at its next text while the gate is closed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool closed;
static unsigned n_begun;

int __real_tok_encode_each(const struct tok *t, const struct tok_fragment *fragments, size_t n,
        bool add_special, bool at_start, const struct tok_sink *sink, struct err *e);
int __wrap_tok_encode_each(const struct tok *t, const struct tok_fragment *fragments, size_t n,
        bool add_special, bool at_start, const struct tok_sink *sink, struct err *e);
int __wrap_tok_encode_each(const struct tok *t, const struct tok_fragment *fragments, size_t n,
        bool add_special, bool at_start, const struct tok_sink *sink, struct err *e) {
        pthread_mutex_lock(&lock);
        n_begun++;
        pthread_cond_broadcast(&changed);
        while (closed)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        return __real_tok_encode_each(t, fragments, n, add_special, at_start, sink, e);
}

static void gate(bool close) {
        pthread_mutex_lock(&lock);
        closed = close;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

static void wait_begun(unsigned n) {
        pthread_mutex_lock(&lock);
        while (n_begun < n)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
}

static struct engine_request tokenize(uint64_t owner, size_t n) {
        return (struct engine_request){
                .verb = ENGINE_TOKENIZE, .owner = owner, .text = text, .text_size = n};
}

static void open_rig(struct erig *r) {
        struct engine_options o = erig_options(256 << 20);

        for (size_t i = 0; i < LONG; i++)
                text[i] = "some words of no interest "[i % 26];
        n_begun = 0;
        closed = false;
        erig_open(r, &o);
        r->silence_msec = 20000;
}

/* However many texts wait, no worker is missing. */
static void test_nobody_waits(void **state) {
        struct engine_request q[6];
        struct erig r;
        uint64_t c;

        open_rig(&r);
        gate(true);
        for (int i = 0; i < 6; i++) {
                q[i] = tokenize(1000 + (uint32_t)i, LONG);
                erig_send(&r, &q[i], &many[i]);
        }
        wait_begun(1);
        c = erig_new(&r, NULL, "Be kind.");
        erig_say(&r, c, "Hello.", 8, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_GET, c, &A), ENGINE_CONV);
        for (int i = 0; i < 6; i++)
                assert_false(many[i].final);
        assert_int_equal(n_begun, 1); /* one at a time */
        gate(false);
        for (int i = 0; i < 6; i++) {
                erig_wait(&r, &many[i]);
                assert_int_equal(many[i].kind, ENGINE_TOKENS);
        }
        erig_close(&r);
}

/* A user with many texts holds up another one by the text that is under way, and no more. */
static void test_users_take_turns(void **state) {
        struct engine_request q[6];
        struct erig r;

        open_rig(&r);
        gate(true);
        for (int i = 0; i < 6; i++) {
                q[i] = tokenize(i < 4 ? 1000 : 1001, 1000);
                erig_send(&r, &q[i], &many[i]);
        }
        wait_begun(1);
        assert_int_equal(erig_simple(&r, ENGINE_STATS, 0, &A), ENGINE_STATS_RESULT);
        gate(false);
        erig_wait(&r, &many[5]);
        /* 0, 4, 1, 5, then 2 and 3. */
        assert_true(many[0].final && many[4].final && many[1].final);
        assert_false(many[2].final || many[3].final);
        erig_wait(&r, &many[3]);
        erig_close(&r);
}

static void test_cancelled(void **state) {
        struct engine_request q = tokenize(1000, LONG);
        struct erig r;

        open_rig(&r);
        gate(true);
        erig_send(&r, &q, &A);
        wait_begun(1);
        engine_cancel(r.en, q.handle);
        gate(false);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CANCELLED);
        erig_close(&r);
}

/* Long input waits in the same line, becomes the same tokens, and can be cancelled there. */
static void test_long_input(void **state) {
        struct engine_request hold = tokenize(1000, 1000), q, get;
        const char *words = "Tell me about the river. ";
        struct erig r;
        uint64_t c;

        open_rig(&r);
        c = erig_new(&r, NULL, NULL);
        gate(true);
        erig_send(&r, &hold, &many[0]);
        wait_begun(1);
        /* Mostly blanks, which the template's trimming drops: long, but no more tokens than fit. */
        memset(text, ' ', 40000);
        memcpy(text + 40000, words, strlen(words) + 1);
        q = erig_say_request(c, text, 4);
        q.input = ENGINE_INPUT_RAW;
        q.text_size = 40000;
        erig_send(&r, &q, &many[1]);
        assert_int_equal(erig_simple(&r, ENGINE_STATS, 0, &A), ENGINE_STATS_RESULT);
        assert_false(many[1].final);
        engine_cancel(r.en, q.handle);
        gate(false);
        erig_wait(&r, &many[1]);
        assert_int_equal(many[1].kind, ENGINE_ERROR);
        assert_true(many[1].err.code == ERR_CANCELLED || many[1].err.code == ERR_CONTEXT);
        erig_wait(&r, &many[0]);
        get = (struct engine_request){.verb = ENGINE_GET, .conv_id = c};
        assert_int_equal(erig_do(&r, &get, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_tokens, 0);
        assert_false(A.conv.busy);
        erig_say(&r, c, words, 4, &A);
        erig_close(&r);
}

/* What its receiver would not take is not computed to its end. */
static void test_answer_too_long(void **state) {
        struct engine_request q = tokenize(1000, LONG);
        struct erig r;

        open_rig(&r);
        q.max_answer = 5000;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_TOO_LARGE);
        assert_non_null(strstr(A.err.msg, "5000"));
        q.max_answer = 0;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_TOKENS);
        assert_int_equal(erig_stat(&r, "ledger_meta_used"), 0);
        /* The pieces alone would go into it, but not with their ids and lengths. */
        q.max_answer = LONG + 64;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_TOO_LARGE);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nobody_waits),
                cmocka_unit_test(test_users_take_turns),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_long_input),
                cmocka_unit_test(test_answer_too_long),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
