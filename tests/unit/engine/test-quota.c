/* SPDX-License-Identifier: MIT */
/* What limits of an owner count and do in the engine: tokens, work of a day, RAM, disk. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "rig.h"
#include "transfer-rig.h"
#include "util/gate.h"
#include "util/test.h"

static struct answer A, B;
static uint64_t days_more;

uint64_t __real_clock_realtime_usec(void);
uint64_t __wrap_clock_realtime_usec(void);
uint64_t __wrap_clock_realtime_usec(void) {
        return __real_clock_realtime_usec() + days_more * QUOTA_DAY_USEC;
}

/* Work that no reply takes along is stored, and the worker has not told yet. */
static struct gate work_gate = GATE_INIT;

int __real_store_work(
        struct store *s, uint64_t owner, const struct store_work *work, struct err *e);
int __wrap_store_work(
        struct store *s, uint64_t owner, const struct store_work *work, struct err *e);
int __wrap_store_work(
        struct store *s, uint64_t owner, const struct store_work *work, struct err *e) {
        int r = __real_store_work(s, owner, work, e);

        gate_pass(&work_gate);
        return r;
}

/* What the owner uses of a limit. */
static uint64_t used(struct erig *r, enum quota quota) {
        struct engine_request q = erig_request(ENGINE_USAGE, 0);

        assert_int_equal(erig_do(r, &q, &B), ENGINE_USED);
        return B.used[quota];
}

static struct engine_request limited(struct engine_request q, enum quota quota, uint64_t max) {
        q.has_quotas = true;
        q.quotas = QUOTAS_NONE;
        q.quotas.max[quota] = max;
        return q;
}

static void limit(struct erig *r, enum quota quota, uint64_t max) {
        struct engine_request q = limited(erig_request(ENGINE_LIMIT, 0), quota, max);

        assert_int_equal(erig_do(r, &q, NULL), ENGINE_EMPTY);
}

/* Every token that was computed or generated counts once, whatever became of it. */
static void test_work(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint64_t c, before, n_history;
        struct erig r;

        days_more = 0;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY), 0);
        q = erig_long_request(c, erig_words(40, 1), 20);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        before = A.done_computed + A.n_generated;
        assert_int_equal(A.n_generated, 20);
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY), before);
        n_history = used(&r, QUOTA_TOKENS);
        assert_int_equal(n_history, A.n_prompt + A.n_generated);
        /* It was written with the reply. */
        erig_restart(&r, false);
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY), before);
        assert_int_equal(used(&r, QUOTA_TOKENS), n_history);
        /* A Warm that computes, of which nothing but its memory comes. */
        erig_forget_memory(&r);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_in_range(used(&r, QUOTA_TOKENS_PER_DAY) - before, n_history - 1, n_history);
        before = used(&r, QUOTA_TOKENS_PER_DAY);
        erig_restart(&r, true);
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY), before);
        /* One that is cancelled while it generates. */
        erig_forget_memory(&r);
        q = erig_long_request(c, "And so on.", 2000);
        erig_send(&r, &q, &A);
        while (A.n_tokens < 8)
                erig_step(&r);
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &A);
        assert_int_equal(A.finish, ENGINE_FINISH_CANCELLED);
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY) - before, A.done_computed + A.n_generated);
        assert_int_equal(used(&r, QUOTA_TOKENS), A.n_prompt + A.n_generated);
        erig_check_register(&r);
        erig_close(&r);
}

/* Memory is computed anew; the work is in the register, and nobody knows yet. */
static void leave_work_under_way(struct erig *r, uint64_t c) {
        erig_forget_memory(r);
        gate_close(&work_gate, 0);
        assert_int_equal(erig_simple(r, ENGINE_WARM, c, &A), ENGINE_CONV);
        gate_wait(&work_gate);
}

/* Time enough to read the register a few times. */
static void look_often(struct erig *r, uint64_t c) {
        for (int i = 0; i < 40; i++)
                assert_int_equal(erig_simple(r, ENGINE_GET, c, &A), ENGINE_CONV);
}

/* Who asks while a transaction is under way is told when it is over, so that nothing counts twice: what it stored is in
 * the register, and was on its way there. */
static void test_work_under_way(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint64_t c, before, n_history;
        struct erig r;

        days_more = 0;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, erig_words(40, 1), 20);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        n_history = A.n_prompt + A.n_generated;
        before = used(&r, QUOTA_TOKENS_PER_DAY);
        leave_work_under_way(&r, c);
        q = erig_request(ENGINE_USAGE, 0);
        erig_send(&r, &q, &B);
        look_often(&r, c);
        assert_false(B.final);
        gate_open(&work_gate);
        erig_wait(&r, &B);
        assert_int_equal(B.kind, ENGINE_USED);
        assert_in_range(B.used[QUOTA_TOKENS_PER_DAY] - before, n_history - 1, n_history);

        /* A limit is looked at in the same way. */
        before = B.used[QUOTA_TOKENS_PER_DAY];
        leave_work_under_way(&r, c);
        q = limited(erig_long_request(c, "More.", 8), QUOTA_TOKENS_PER_DAY, before + 2 * n_history);
        erig_send(&r, &q, &B);
        look_often(&r, c);
        gate_open(&work_gate);
        erig_wait(&r, &B);
        assert_int_equal(B.kind, ENGINE_DONE);
        assert_int_equal(B.n_generated, 8);
        erig_close(&r);
}

static void test_day(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q, warm;
        struct erig r;
        uint64_t c;

        days_more = 0;
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = limited(erig_long_request(c, erig_words(30, 1), 2000), QUOTA_TOKENS_PER_DAY, 100);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.finish, ENGINE_FINISH_LENGTH);
        assert_int_equal(A.done_computed + A.n_generated, 100);
        q = limited(erig_long_request(c, "More.", 8), QUOTA_TOKENS_PER_DAY, 100);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        assert_true(err_may_pass(&A.err));
        assert_non_null(strstr(A.err.msg, "used 100 tokens today"));
        assert_non_null(strstr(A.err.msg, "max-user-tokens-per-day = 100"));
        assert_non_null(strstr(A.err.msg, "confab admin quota"));
        warm = limited(erig_request(ENGINE_WARM, c), QUOTA_TOKENS_PER_DAY, 100);
        assert_int_equal(erig_do(&r, &warm, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        days_more = 1;
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY), 0);
        q = limited(erig_long_request(c, "More.", 8), QUOTA_TOKENS_PER_DAY, 100);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.n_generated, 8);
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY), A.done_computed + 8);
        /* A clock that was set back begins anew as well. */
        days_more = 0;
        assert_int_equal(used(&r, QUOTA_TOKENS_PER_DAY), 0);
        erig_close(&r);
}

/* What makes conversations, and the options where a request says nothing. */
static void test_tokens(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_request(ENGINE_OPEN, 0);
        struct transfer_file f;
        struct erig r;
        uint64_t c;
        int fd;

        days_more = 0;
        o.max_tokens_per_owner = 50;
        erig_open(&r, &o);
        q.system = erig_words(100, 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        assert_non_null(strstr(A.err.msg, "the limit for this user (max-user-tokens = 50)"));
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, erig_words(20, 2), 2000);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.n_prompt + A.n_generated, 50);
        assert_int_equal(A.finish, ENGINE_FINISH_LENGTH);
        /* Nothing more, but what adds nothing. */
        q = erig_long_request(c, "x", 1);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        assert_int_equal(erig_simple(&r, ENGINE_WARM, c, &A), ENGINE_CONV);
        assert_int_equal(erig_simple(&r, ENGINE_OPEN, 0, &A), ENGINE_CONV);
        f = transfer_export(&r, c, false);
        assert_int_equal(transfer_import(&r, f.data, f.size, NULL, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_LIMIT);
        fd = transfer_memfd(f.data, f.size, TRANSFER_SEALS);
        q = limited(erig_request(ENGINE_IMPORT, 0), QUOTA_TOKENS, 100);
        q.fd = fd;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        free(f.data);
        close(fd);
        assert_int_equal(used(&r, QUOTA_TOKENS), 100);
        assert_int_equal(used(&r, QUOTA_CONVERSATIONS), 3);
        erig_close(&r);
}

static uint64_t ram(struct erig *r, uint64_t c) {
        assert_int_equal(erig_simple(r, ENGINE_GET, c, &A), ENGINE_CONV);
        return A.conv.ram_size;
}

static void wait_gone(struct erig *r, uint64_t c) {
        while (ram(r, c) > 0)
                ;
}

static void test_ram(void **state) {
        struct engine_options o = erig_options(erig_pool(40));
        uint64_t old, new, fork, share;
        struct engine_request q;
        struct erig r;

        days_more = 0;
        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        old = erig_new(&r, NULL, NULL);
        new = erig_new(&r, NULL, NULL);
        erig_append_tokens(&r, old, 300, 320);
        share = used(&r, QUOTA_RAM);
        /* Ten blocks of forty. */
        assert_in_range(share, 15, 35);
        erig_append_tokens(&r, new, 700, 320);
        /* A fork has the same memory once more, and does not count. */
        fork = erig_fork(&r, new);
        assert_true(ram(&r, fork) > 0);
        assert_in_range(used(&r, QUOTA_RAM), 2 * share - 2, 2 * share + 2);
        limit(&r, QUOTA_RAM, 2 * share + 3);
        assert_true(ram(&r, old) > 0);
        limit(&r, QUOTA_RAM, share + 3);
        wait_gone(&r, old);
        assert_true(ram(&r, new) > 0 && ram(&r, fork) > 0);
        /* Nothing is refused. What is used last stays for longest. */
        q = limited(erig_long_request(old, "Go on.", 4), QUOTA_RAM, share + 3);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        assert_int_equal(A.n_disk + A.n_computed, A.n_prompt);
        wait_gone(&r, new);
        wait_gone(&r, fork);
        assert_true(ram(&r, old) > 0);
        /* Another owner's requests change nothing, and have no such limit. */
        q = limited(erig_request(ENGINE_LIMIT, 0), QUOTA_RAM, 0);
        q.owner = 7;
        assert_int_equal(erig_do(&r, &q, NULL), ENGINE_EMPTY);
        assert_true(ram(&r, old) > 0);
        limit(&r, QUOTA_RAM, 0);
        wait_gone(&r, old);
        assert_int_equal(used(&r, QUOTA_RAM), 0);
        erig_check_budget(&r);
        erig_check_register(&r);
        erig_close(&r);
}

/* A limit of the request goes before the options', and one that was lowered takes what is too much. */
static void test_disk(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        uint64_t c[2], size, all;
        struct erig r;

        days_more = 0;
        o.spill_delay_ms = UINT32_MAX;
        o.disk_limit_per_owner = 1;
        erig_open(&r, &o);
        for (int i = 0; i < 2; i++) {
                c[i] = erig_new(&r, NULL, NULL);
                erig_append_tokens(&r, c[i], 300 + 400 * i, 320);
        }
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c[0], &A), ENGINE_CONV);
        assert_true(A.conv.n_not_kept > 0);
        assert_non_null(strstr(A.err.msg, "(disk-limit-per-user = 1)"));
        /* The owner's own limit says nothing about the disk. */
        assert_true(r.n_logged[ENGINE_LOG_USER_DISK] > 0);
        assert_int_equal(r.n_logged[ENGINE_LOG_SPILL_FAILS], 0);
        erig_append_tokens(&r, c[0], 300, 320);
        for (int i = 0; i < 2; i++) {
                q = limited(erig_request(ENGINE_EVICT, c[i]), QUOTA_DISK, QUOTA_NONE);
                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                assert_int_equal(A.conv.n_not_kept, 0);
        }
        size = A.conv.disk_size;
        all = used(&r, QUOTA_DISK);
        assert_in_range(all, size + 1, 10 * size);
        /* Half of what there is: the one that was changed last takes it from the other. */
        q = limited(erig_long_request(c[1], "Go on.", 40), QUOTA_DISK, size + size / 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        q = limited(erig_request(ENGINE_EVICT, c[1]), QUOTA_DISK, size + size / 2);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
        assert_int_equal(A.conv.n_not_kept, 0);
        assert_in_range(used(&r, QUOTA_DISK), size, size + size / 2);
        erig_check_register(&r);
        erig_close(&r);
}

static void test_overrides(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q = erig_request(ENGINE_OVERRIDE, 0);
        struct quota_override *all = NULL;
        struct erig r;
        size_t n;

        days_more = 0;
        o.max_requests_per_owner = 1;
        erig_open(&r, &o);
        q.subject_kind = QUOTA_OF_TENANT;
        q.subject_number = 7;
        q.tenant = "pat";
        q.overrides[QUOTA_RAM] = (struct engine_override){.is = true, .value = 3};
        q.overrides[QUOTA_DISK] = (struct engine_override){.is = true, .value = QUOTA_NONE};
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_EMPTY);
        q.overrides[QUOTA_DISK] = (struct engine_override){.is = true, .clear = true};
        q.overrides[QUOTA_RAM].is = false;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_EMPTY);
        q.tenant = "#7";
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_INVALID);
        erig_restart(&r, false);
        assert_int_equal(engine_overrides(r.en, &all, &n, NULL), 0);
        assert_int_equal(n, 1);
        assert_int_equal(all[0].value, 3);
        assert_int_equal(all[0].quota, QUOTA_RAM);
        assert_string_equal(all[0].subject.label, "pat");
        free(all);
        /* Of a tenant that nobody has named nothing is used, and it is not made. */
        q = erig_request(ENGINE_USAGE, 0);
        q.owner = 7;
        q.tenant = "pat";
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_USED);
        for (size_t i = 0; i < QUOTA_N; i++)
                assert_int_equal(A.used[i], 0);
        erig_close(&r);
}

/* A failed test must not leave a worker behind the gate. */
static int open_gate(void **state) {
        gate_open(&work_gate);
        return 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_work),
                cmocka_unit_test_teardown(test_work_under_way, open_gate),
                cmocka_unit_test(test_day),
                cmocka_unit_test(test_tokens),
                cmocka_unit_test(test_ram),
                cmocka_unit_test(test_disk),
                cmocka_unit_test(test_overrides),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
