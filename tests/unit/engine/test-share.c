/* SPDX-License-Identifier: MIT */
/*
 * Prefix sharing: equal beginnings are computed once and held once, in RAM and on disk, within one
 * user's conversations and within what an administrator published, and nowhere else (I6). Replies
 * are those of a conversation that shares nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"
#include "util/test.h"

static struct answer A, B, many[4], alone[3];

static const char SYSTEM[] =
        "You are a friendly guide to a town by a river. You know the green house, the seven birds, "
        "the old bridge and the market. You answer in one or two short sentences and stay polite, "
        "whatever you are asked, in winter as in summer, by day and by night.";
static const char *const texts[3] = {"Where do the birds live?",
        "How old is the bridge, and who built it?", "When is the market?"};

static uint64_t open_as(struct erig *r, uint64_t owner, const char *system) {
        struct engine_request q = {.verb = ENGINE_OPEN, .system = system, .owner = owner};

        assert_int_equal(erig_do(r, &q, &B), ENGINE_CONV);
        return B.conv.id;
}

static void say_as(struct erig *r, uint64_t owner, uint64_t c, const char *text, struct answer *a) {
        struct engine_request q = erig_say_request(c, text, 8);

        q.owner = owner;
        if (erig_do(r, &q, a) != ENGINE_DONE)
                fail_msg("say: %s", a->err.msg);
}

static void simple_as(struct erig *r, uint64_t owner, enum engine_verb verb, uint64_t c) {
        struct engine_request q = {.verb = verb,
                .owner = owner,
                .conv_id = c,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET};

        if (erig_do(r, &q, &B) == ENGINE_ERROR)
                fail_msg("verb %d: %s", (int)verb, B.err.msg);
}

static void publish(struct erig *r, uint64_t owner, uint64_t c, bool on) {
        struct engine_request q = {.verb = ENGINE_PUBLISH,
                .owner = owner,
                .admin = true,
                .conv_id = c,
                .at_turn = ENGINE_UNSET,
                .publish = on};

        if (erig_do(r, &q, &B) != ENGINE_CONV)
                fail_msg("publish: %s", B.err.msg);
}

static struct engine_options options(void) {
        struct engine_options o = erig_options(64 << 20);

        o.spill_delay_ms = UINT32_MAX;
        return o;
}

/* Each text behind the system prompt, in an engine of its own. */
static void answers(void) {
        struct engine_options o = options();
        struct erig r;

        for (size_t i = 0; i < 3; i++) {
                erig_open(&r, &o);
                say_as(&r, 0, open_as(&r, 0, SYSTEM), texts[i], &alone[i]);
                assert_int_equal(alone[i].n_computed, alone[i].n_prompt);
                erig_close(&r);
        }
}

static void test_ram(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d, before;
        uint32_t bt;

        answers();
        erig_open(&r, &o);
        bt = (uint32_t)erig_stat(&r, "block_tokens");
        c = open_as(&r, 0, SYSTEM);
        d = open_as(&r, 0, SYSTEM);
        say_as(&r, 0, c, texts[0], &A);
        answer_same(&A, &alone[0]);
        assert_int_equal(A.n_shared, 0);
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_NEW);
        assert_int_equal(A.differs_at, 0);
        before = erig_stat(&r, "pool_blocks");
        say_as(&r, 0, d, texts[1], &A);
        answer_same(&A, &alone[1]);
        assert_true(A.n_shared >= 2 * bt && A.n_shared % bt == 0);
        assert_int_equal(A.n_ram + A.n_disk, 0);
        /* It says where the questions begin to differ, which is inside a block. */
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_TOKEN);
        assert_true(A.differs_at > A.n_shared && A.differs_at < A.n_shared + bt);
        assert_true(erig_stat(&r, "pool_blocks") - before <= before - A.n_shared / bt + 1);
        assert_int_equal(erig_stat(&r, "tokens_reused_shared"), A.n_shared);
        /* The first one goes; what the second one uses stays. */
        simple_as(&r, 0, ENGINE_CLOSE, c);
        say_as(&r, 0, d, texts[2], &A);
        assert_int_equal(A.n_shared, 0);
        assert_true(A.n_ram > 0);
        simple_as(&r, 0, ENGINE_CLOSE, d);
        erig_check_empty(&r);
        assert_int_equal(erig_stat(&r, "index_entries"), 0);
        erig_close(&r);
}

/* At the same time: nobody computes what another one is computing. */
static void test_together(void **state) {
        struct engine_options o = options();
        struct engine_request q[3];
        struct erig r;
        uint64_t prefilled;
        uint32_t all = 0;

        answers();
        o.batch_tokens = 48;
        erig_open(&r, &o);
        for (size_t i = 0; i < 3; i++)
                q[i] = erig_say_request(open_as(&r, 0, SYSTEM), texts[i], 8);
        erig_do_all(&r, q, many, 3);
        for (size_t i = 0; i < 3; i++) {
                answer_same(&many[i], &alone[i]);
                all += many[i].n_prompt;
        }
        prefilled = erig_stat(&r, "tokens_prefilled");
        /* The system prompt once, and some tokens behind it for each. */
        assert_true(prefilled <= all / 3 + 3 * 64);
        erig_close(&r);
}

/* Never between users. */
static void test_users(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d, e;

        answers();
        erig_open(&r, &o);
        c = open_as(&r, 1, SYSTEM);
        say_as(&r, 1, c, texts[0], &A);
        d = open_as(&r, 2, SYSTEM);
        say_as(&r, 2, d, texts[0], &A);
        answer_same(&A, &alone[0]);
        assert_int_equal(A.n_computed, A.n_prompt);
        /* Nor what they hear of it. */
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_NEW);
        assert_int_equal(A.differs_at, 0);
        simple_as(&r, 1, ENGINE_EVICT, c);
        simple_as(&r, 2, ENGINE_EVICT, d);
        erig_restart(&r, true);
        e = open_as(&r, 3, SYSTEM);
        say_as(&r, 3, e, texts[0], &A);
        answer_same(&A, &alone[0]);
        assert_int_equal(A.n_computed, A.n_prompt);
        assert_int_equal(A.differs_at, 0);
        /* Each wrote it for itself. */
        simple_as(&r, 3, ENGINE_EVICT, e);
        assert_int_equal(erig_stat(&r, "blocks_linked"), 0);
        erig_close(&r);
}

static void test_published(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d;
        uint32_t shared;

        answers();
        erig_open(&r, &o);
        c = open_as(&r, 1, SYSTEM);
        publish(&r, 1, c, true);
        say_as(&r, 1, c, texts[0], &A);
        d = open_as(&r, 2, SYSTEM);
        say_as(&r, 2, d, texts[1], &A);
        answer_same(&A, &alone[1]);
        shared = A.n_shared;
        assert_true(shared > 0);
        /* Only what was published: of the question nothing is known. */
        say_as(&r, 2, open_as(&r, 2, SYSTEM), texts[0], &A);
        answer_same(&A, &alone[0]);
        assert_int_equal(A.n_shared, shared);

        /* From disk, the published one not being loaded. */
        erig_restart(&r, true);
        say_as(&r, 3, open_as(&r, 3, SYSTEM), texts[1], &A);
        answer_same(&A, &alone[1]);
        assert_int_equal(A.n_disk, shared);

        /* No longer. Who has it keeps it. */
        publish(&r, 1, c, false);
        say_as(&r, 4, open_as(&r, 4, SYSTEM), texts[1], &A);
        answer_same(&A, &alone[1]);
        assert_int_equal(A.n_computed, A.n_prompt);
        erig_restart(&r, true);
        say_as(&r, 5, open_as(&r, 5, SYSTEM), texts[1], &A);
        assert_int_equal(A.n_computed, A.n_prompt);
        say_as(&r, 2, d, texts[2], &A);
        assert_true(A.n_disk >= shared);
        erig_close(&r);
}

/* After a restart the same is on disk once, and outlives who wrote it. */
static void test_disk(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d, records;
        uint32_t bt;

        answers();
        erig_open(&r, &o);
        bt = (uint32_t)erig_stat(&r, "block_tokens");
        c = open_as(&r, 0, SYSTEM);
        say_as(&r, 0, c, texts[0], &A);
        erig_restart(&r, true);
        records = erig_stat(&r, "spill_records");
        d = open_as(&r, 0, SYSTEM);
        say_as(&r, 0, d, texts[1], &A);
        answer_same(&A, &alone[1]);
        assert_true(A.n_disk >= 2 * bt && A.n_disk % bt == 0);
        assert_int_equal(A.n_shared + A.n_ram, 0);
        simple_as(&r, 0, ENGINE_EVICT, d);
        assert_int_equal(erig_stat(&r, "blocks_linked"), A.n_disk / bt);
        assert_true(erig_stat(&r, "spill_records") - records <= 2);
        simple_as(&r, 0, ENGINE_CLOSE, c);
        say_as(&r, 0, d, texts[2], &A);
        assert_true(A.n_disk > 0);
        assert_int_equal(erig_stat(&r, "restore_failures"), 0);
        /* The same prefix once more, closed before it was linked. */
        c = open_as(&r, 0, SYSTEM);
        say_as(&r, 0, c, texts[2], &B);
        answer_same(&B, &alone[2]);
        simple_as(&r, 0, ENGINE_CLOSE, d);
        say_as(&r, 0, c, texts[0], &A);
        simple_as(&r, 0, ENGINE_EVICT, c);
        erig_check_register(&r);
        say_as(&r, 0, c, texts[1], &A);
        assert_true(A.n_disk > 0);
        simple_as(&r, 0, ENGINE_CLOSE, c);
        erig_check_empty(&r);
        erig_close(&r);
}

/* What one has computed again, although it is on disk, is linked and not written. */
static void test_link_instead(void **state) {
        struct engine_options o = options();
        struct erig r;
        uint64_t c, d, written;

        answers();
        erig_open(&r, &o);
        c = open_as(&r, 0, SYSTEM);
        d = open_as(&r, 0, SYSTEM);
        say_as(&r, 0, c, texts[0], &A);
        say_as(&r, 0, d, texts[0], &B);
        answer_same(&A, &B);
        simple_as(&r, 0, ENGINE_EVICT, c);
        written = erig_stat(&r, "blocks_spilled");
        simple_as(&r, 0, ENGINE_EVICT, d);
        /* Its tail is its own. */
        assert_true(erig_stat(&r, "blocks_spilled") - written <= 1);
        assert_true(erig_stat(&r, "blocks_linked") > 0);
        erig_close(&r);
}

static void test_reasons(void **state) {
        struct engine_options o = options();
        struct engine_request q = {.verb = ENGINE_REWIND,
                .at_turn = ENGINE_UNSET,
                .at_position = ENGINE_UNSET,
                .drop_turns = 1};
        struct engine_request more = {.verb = ENGINE_CONTINUE, .max_tokens = 4};
        struct erig r;
        char path[128];
        uint64_t c;
        uint32_t n;

        erig_open(&r, &o);
        c = open_as(&r, 0, SYSTEM);
        say_as(&r, 0, c, texts[0], &A);
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_NEW);
        say_as(&r, 0, c, texts[1], &A);
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_NEW);
        assert_int_equal(A.differs_at, A.n_ram);
        /* The same once more. */
        q.conv_id = more.conv_id = c;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        n = A.conv.n_tokens;
        assert_int_equal(erig_do(&r, &more, &A), ENGINE_DONE);
        assert_true(A.n_prompt >= n);
        /* Evicted, and the tail's record holds more than is kept now: its beginning is read. */
        simple_as(&r, 0, ENGINE_EVICT, c);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        n = A.conv.n_tokens;
        say_as(&r, 0, c, texts[2], &A);
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_NEW);
        assert_true(A.n_disk + 1 >= n);
        /* Gone from disk. */
        erig_stop(&r, true);
        snprintf(path, sizeof(path), "rm -rf '%s/spill'", r.dir);
        assert_int_equal(system(path), 0);
        erig_start(&r);
        say_as(&r, 0, c, texts[0], &A);
        assert_int_equal(A.n_computed, A.n_prompt);
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_LOST);
        assert_int_equal(A.differs_at, 0);
        erig_close(&r);
}

/* The same question: another conversation has all of the prompt, but within a block. Nothing differs. */
static void test_same_prompt(void **state) {
        struct engine_options o = options();
        struct engine_request q;
        struct erig r;

        erig_open(&r, &o);
        for (unsigned i = 0; i < 2; i++) {
                q = erig_say_request(open_as(&r, 0, SYSTEM), texts[0], 40);
                q.ignore_eos = true;
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        }
        assert_true(A.n_shared > 0 && A.n_computed > 1);
        assert_int_equal(A.differs_why, ENGINE_DIFFERS_PARTIAL);
        assert_int_equal(A.differs_at, A.n_shared);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ram),
                cmocka_unit_test(test_together),
                cmocka_unit_test(test_users),
                cmocka_unit_test(test_published),
                cmocka_unit_test(test_disk),
                cmocka_unit_test(test_link_instead),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_same_prompt),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
