/* SPDX-License-Identifier: MIT */
/*
 * The budget: how "auto" follows from the system's figures, and changes under load. Memory goes
 * back to the system, the ledger stays within its budget at each moment, and no bit of any answer
 * changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "inside.h"
#include "rig.h"
#include "util/sanitize.h"
#include "util/test.h"

#define MIB ((uint64_t)1 << 20)

static struct answer A, B[12], C[12];

/* --- auto --- */

static char dir[64];

static void put(const char *path, const char *text) {
        char full[256], *slash;

        snprintf(full, sizeof(full), "%s%s", dir, path);
        slash = strrchr(full, '/');
        *slash = '\0';
        assert_int_equal(file_mkdir_p(full, 0700, NULL), 0);
        *slash = '/';
        assert_int_equal(file_replace(full, text, strlen(text), 0600, NULL), 0);
}

static void put_number(const char *path, uint64_t n) {
        char text[32];

        snprintf(text, sizeof(text), "%llu\n", (unsigned long long)n);
        put(path, text);
}

static void put_available(uint64_t bytes) {
        char text[128];

        snprintf(text, sizeof(text),
                "MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable: %llu kB\n",
                (unsigned long long)(bytes >> 10));
        put("/proc/meminfo", text);
}

static int machine_setup(void **state) {
        strcpy(dir, "/tmp/confab-budget-XXXXXX");
        assert_non_null(mkdtemp(dir));
        return 0;
}

static int machine_teardown(void **state) {
        char cmd[128];

        snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
        return system(cmd);
}

#define A_B "/sys/fs/cgroup/a.slice/b.service/"

static void test_auto(void **state) {
        /* Nothing known: the least. */
        assert_int_equal(inside_budget_auto(dir, 0, 0), 64 * MIB);
        put_available(8000 * MIB);
        put("/proc/self/cgroup", "1:name=systemd:/x\n0::/a.slice/b.service\n");
        put("/proc/self/mountinfo", "40 30 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_int_equal(inside_budget_auto(dir, 0, 0), 6000 * MIB);
        assert_int_equal(inside_budget_auto(dir, 4000 * MIB, 0), 3000 * MIB);
        assert_int_equal(inside_budget_auto(dir, 9000 * MIB, 0), 64 * MIB);
        /* What the pool takes is missing there, and added here. */
        put_available(8000 * MIB - 1000 * MIB);
        assert_int_equal(inside_budget_auto(dir, 4000 * MIB, 1000 * MIB), 3000 * MIB);
        put_available(8000 * MIB);
        /* A limit of ours. */
        put(A_B "memory.max", "max\n");
        put(A_B "memory.high", "max\n");
        put_number(A_B "memory.current", 500 * MIB);
        assert_int_equal(inside_budget_auto(dir, 0, 0), 6000 * MIB);
        put_number(A_B "memory.max", 2500 * MIB);
        assert_int_equal(inside_budget_auto(dir, 0, 0), 1500 * MIB);
        put_number(A_B "memory.high", 1300 * MIB);
        assert_int_equal(inside_budget_auto(dir, 0, 0), 600 * MIB);
        /* The page cache in it can go, wherever the weights are at the moment. */
        put(A_B "memory.stat",
                "anon 1\nfile 419430400\ninactive_file 104857600\nactive_file 314572800\n");
        assert_int_equal(inside_budget_auto(dir, 0, 0), 900 * MIB);
        assert_int_equal(inside_budget_auto(dir, 400 * MIB, 0), 600 * MIB);
        put_number(A_B "memory.current", 100 * MIB); /* they were pushed out */
        put(A_B "memory.stat", "active_file 0\ninactive_file 0\n");
        assert_int_equal(inside_budget_auto(dir, 400 * MIB, 0), 600 * MIB);
        /* More page cache than was in use when that was read. */
        put(A_B "memory.stat", "active_file 0\ninactive_file 209715200\n");
        assert_int_equal(inside_budget_auto(dir, 0, 0), 975 * MIB);
        /* A limit above counts as well. */
        put_number("/sys/fs/cgroup/a.slice/memory.max", 1000 * MIB);
        put_number("/sys/fs/cgroup/a.slice/memory.current", 600 * MIB);
        assert_int_equal(inside_budget_auto(dir, 0, 0), 300 * MIB);
        put_number("/sys/fs/cgroup/a.slice/memory.current", 2000 * MIB);
        assert_int_equal(inside_budget_auto(dir, 0, 0), 0);
        assert_int_equal(inside_budget_auto(dir, 0, 1000 * MIB), 750 * MIB);
}

/* A limit of version 1, less than the least that it would be otherwise. */
static void test_auto_little(void **state) {
        static const unsigned limits[] = {24, 48, 100};

        put_available(8000 * MIB);
        put("/proc/self/cgroup", "4:memory:/a\n0::/\n");
        put("/proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
        put_number("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", 4 * MIB);
        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                uint64_t left = (limits[i] - 4) * MIB, n;

                put_number("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", limits[i] * MIB);
                n = inside_budget_auto(dir, 8 * MIB, 0);
                assert_int_equal(n, MAX((left - 8 * MIB) / 4 * 3, MIN(left / 2, 64 * MIB)));
                assert_true(n <= left * 3 / 4);
        }
}

/* --- change --- */

static uint64_t resident_size(void) {
        unsigned long long all, resident;
        FILE *f = fopen("/proc/self/statm", "re");

        assert_non_null(f);
        assert_int_equal(fscanf(f, "%llu %llu", &all, &resident), 2);
        fclose(f);
        return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* I3, at one moment. */
static void check_ledger(struct erig *r) {
        static const char *const names[] = {"ledger_used", "budget"};
        uint64_t v[2];

        erig_stats(r, names, v, 2);
        if (v[0] > v[1])
                fail_msg("%llu bytes are used of a budget of %llu", (unsigned long long)v[0],
                        (unsigned long long)v[1]);
}

/* Wait until the budget is what was asked for. */
static void settle(struct erig *r, uint64_t bytes) {
        engine_set_pool_size(r->en, bytes);
        for (int i = 0; engine_pool_size(r->en) != bytes; i++) {
                if (i > 1000000)
                        fail_msg("the budget stays at %llu",
                                (unsigned long long)engine_pool_size(r->en));
                check_ledger(r);
        }
        check_ledger(r);
        assert_int_equal(erig_stat(r, "budget"), bytes);
}

static const char *const texts[] = {"Hello, my name is Ada and I live in Rome, near the river.",
        "I have a cat called Milo, a dog called Rex and a bird called Kim.",
        "What is my name, where do I live, and what is my cat called?"};

/* Idle memory goes in the order in which it was used, dirty or clean, and comes back. */
static void test_shrink_idle(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t c[8], slot, before, after, few, start;

        o.spill_delay_ms = UINT32_MAX;
        erig_open(&r, &o);
        slot = erig_stat(&r, "block_bytes");
        for (int i = 0; i < 8; i++) {
                c[i] = erig_new(&r, NULL, NULL);
                for (int k = 0; k < 3; k++)
                        erig_say(&r, c[i], texts[(i + k) % 3], 20, k == 2 ? &B[i] : &A);
        }
        few = erig_stat(&r, "pool_blocks");
        assert_true(few >= 16);
        before = resident_size();
        start = clock_monotonic_usec();
        settle(&r, inside_budget_with(r.en, 8));
        print_message("%llu blocks written and dropped in %llu us\n",
                (unsigned long long)few - erig_stat(&r, "pool_blocks"),
                (unsigned long long)(clock_monotonic_usec() - start));
        after = resident_size();
        assert_true(erig_stat(&r, "pool_blocks") <= 8);
#if !TEST_SANITIZED /* they keep freed memory */
        /* Most of what went was memory of blocks; the workers' buffers are new. */
        assert_true(before > after);
        assert_true(before - after > (few - 8) * slot / 2);
#endif
        (void)before, (void)after, (void)slot;
        /* The last one used is the one that stayed. */
        assert_int_equal(erig_simple(&r, ENGINE_GET, c[0], &A), ENGINE_CONV);
        assert_int_equal(A.conv.residency, ENGINE_SPILLED);
        /* In the small budget everything goes on, bit for bit. */
        for (int i = 0; i < 8; i++) {
                struct engine_request q = {.verb = ENGINE_REWIND,
                        .conv_id = c[i],
                        .at_turn = ENGINE_UNSET,
                        .at_position = ENGINE_UNSET,
                        .drop_turns = 2};

                assert_int_equal(erig_do(&r, &q, &A), ENGINE_CONV);
                erig_say(&r, c[i], texts[(i + 2) % 3], 20, &A);
                answer_same(&B[i], &A);
                check_ledger(&r);
        }
        /* Grown again, nothing has to go any more. */
        settle(&r, 64 << 20);
        for (int i = 0; i < 8; i++)
                erig_say(&r, c[i], "Thank you.", 4, &A);
        before = erig_stat(&r, "evictions");
        for (int i = 0; i < 8; i++)
                erig_say(&r, c[i], "Bye.", 4, &A);
        assert_int_equal(erig_stat(&r, "evictions"), before);
        assert_true(erig_stat(&r, "ledger_peak") <= 64 << 20);
        erig_close(&r);
}

/* Up and down while twelve conversations generate: each says what it says alone. */
static void test_under_load(void **state) {
        struct engine_options o = erig_options(64 << 20);
        static struct engine_request q[12];
        unsigned seed = 3, n_changes = 0;
        struct erig r;
        uint64_t least, most = 64 << 20, c[12];

        for (int life = 0; life < 2; life++) {
                bool done = false;

                erig_open(&r, &o);
                least = inside_budget_with(r.en, 4);
                for (int i = 0; i < 12; i++) {
                        c[i] = erig_new(&r, NULL, NULL);
                        erig_say(&r, c[i], texts[i % 3], 16, &A);
                }
                for (int i = 0; i < 12; i++)
                        q[i] = erig_say_request(c[i], texts[(i + 1) % 3], 24 + (uint32_t)i);
                if (life == 0) {
                        for (int i = 0; i < 12; i++)
                                assert_int_equal(erig_do(&r, &q[i], &B[i]), ENGINE_DONE);
                        erig_close(&r);
                        continue;
                }
                for (int i = 0; i < 12; i++)
                        erig_send(&r, &q[i], &C[i]);
                while (!done) {
                        erig_step(&r);
                        if (rand_r(&seed) % 4 == 0) {
                                engine_set_pool_size(
                                        r.en, least + (uint64_t)rand_r(&seed) % (most - least));
                                n_changes++;
                        }
                        if (rand_r(&seed) % 16 == 0)
                                check_ledger(&r);
                        done = true;
                        for (int i = 0; i < 12; i++)
                                done = done && C[i].final;
                }
                assert_true(n_changes > 10);
                for (int i = 0; i < 12; i++) {
                        if (C[i].kind != ENGINE_DONE)
                                fail_msg("%d: %s", i, C[i].err.msg);
                        answer_same(&B[i], &C[i]);
                }
                assert_true(erig_stat(&r, "ledger_peak") <= most);
                settle(&r, least);
                erig_close(&r);
        }
}

/* Below what those at work need it does not go, until they have ended. */
static void test_floor(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t c, least, size;

        erig_open(&r, &o);
        least = inside_budget_with(r.en, 4);
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, texts[0], 300);
        erig_send(&r, &q, &A);
        while (A.n_tokens < 3)
                erig_step(&r);
        engine_set_pool_size(r.en, 1);
        while (engine_pool_size(r.en) >= 64 << 20)
                check_ledger(&r);
        size = engine_pool_size(r.en);
        /* Active still, so it was when that was read. */
        if (erig_stat(&r, "requests_active") == 1)
                assert_true(size > least);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_int_equal(A.n_generated, 300);
        while (engine_pool_size(r.en) > least)
                check_ledger(&r);
        assert_true(erig_stat(&r, "pool_blocks") <= 4);
        /* What is longer than that goes on all the same, as the system has memory to give. */
        erig_say(&r, c, "Hello", 4, &A);
        assert_int_equal(erig_stat(&r, "budget_max"), 64 << 20);
        while (engine_pool_size(r.en) > least)
                check_ledger(&r);
        engine_set_pool_size(r.en, 64 << 20);
        erig_say(&r, c, "Hello", 4, &A);
        assert_int_equal(engine_pool_size(r.en), 64 << 20);
        assert_true(engine_pool_auto(r.en) >= 64 << 20);
        erig_close(&r);
}

/* A budget that grows lets in what did not fit at the start. */
static void test_fits_now(void **state) {
        struct engine_options o = erig_options(erig_pool(6));
        struct engine_request q;
        struct erig r;
        uint64_t c;

        (void)state;
        erig_need_model();
        erig_open(&r, &o);
        c = erig_new(&r, NULL, NULL);
        q = erig_say_request(c, texts[0], 4);
        q.tokens = calloc(400, sizeof(*q.tokens));
        assert_non_null(q.tokens);
        q.n_tokens = 400;
        q.input = ENGINE_INPUT_TOKENS;
        q.text = NULL;
        q.text_size = 0;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        engine_set_pool_size(r.en, erig_pool(40));
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        free((void *)(uintptr_t)q.tokens);
        erig_close(&r);
}

/* What fitted before fits in the least budget: the longest conversation, a long text, and as much
 * at the same time. Only what never fitted is refused. */
static void test_fits_still(void **state) {
        struct engine_options o = erig_options(64 << 20);
        static char text[1 << 20];
        struct engine_request q;
        struct erig r;
        uint64_t c[12], n, steps;

        erig_open(&r, &o);
        settle(&r, inside_budget_with(r.en, 4));
        steps = erig_stat(&r, "steps");
        n = erig_stat(&r, "tokens_decoded");
        /* Three kinds at once, each of which needs more than four blocks. */
        for (int i = 0; i < 12; i++)
                c[i] = erig_new(&r, NULL, NULL);
        for (int i = 0; i < 12; i++) {
                q = erig_long_request(c[i], texts[i % 3], 150);
                erig_send(&r, &q, &C[i]);
        }
        for (int i = 0; i < 12; i++) {
                erig_wait(&r, &C[i]);
                if (C[i].kind != ENGINE_DONE)
                        fail_msg("%d: %s", i, C[i].err.msg);
        }
        /* The system has memory for several together: so a step had tokens of more than one. */
        assert_true(erig_stat(&r, "tokens_decoded") - n > erig_stat(&r, "steps") - steps);
        /* A request of nearly all that its share has. */
        memset(text, 'a', sizeof(text) - 1);
        n = inside_requests_budget(r.en);
        assert_int_equal(n, (64 << 20) / 16);
        q = erig_say_request(c[0], text, 4);
        q.text_size = (size_t)(n * 9 / 10 / 5);
        assert_true(q.text_size < sizeof(text));
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CONTEXT);
        erig_close(&r);
}

/* The system has nothing to give: what needs more than the target waits, others go before it, and
 * it is done when there is memory. */
static void test_waits_for_the_system(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_request q;
        struct erig r;
        uint64_t large, small;

        put_available(0);
        erig_open(&r, &o);
        inside_set_machine(r.en, dir);
        large = erig_new(&r, NULL, NULL);
        small = erig_new(&r, NULL, NULL);
        put_available(1 * MIB);
        settle(&r, inside_budget_with(r.en, 6));
        q = erig_long_request(large, texts[0], 300);
        erig_send(&r, &q, &A);
        erig_say(&r, small, "Hi.", 4, &B[0]);
        assert_int_equal(erig_stat(&r, "requests_queued"), 1);
        assert_false(A.final);
        /* It can be taken back. */
        engine_cancel(r.en, q.handle);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_ERROR);
        assert_int_equal(A.err.code, ERR_CANCELLED);
        erig_send(&r, &q, &A);
        erig_say(&r, small, "Ho.", 4, &B[0]);
        assert_int_equal(erig_stat(&r, "requests_queued"), 1);
        put_available(4000 * MIB);
        erig_wait(&r, &A);
        if (A.kind != ENGINE_DONE)
                fail_msg("%s", A.err.msg);
        assert_int_equal(A.n_generated, 300);
        check_ledger(&r);
        erig_close(&r);
}

/* What is idle can be told from what is in use. */
static void test_idle_size(void **state) {
        struct engine_options o = erig_options(64 << 20);
        struct engine_pool_use use;
        struct engine_request q;
        struct erig r;
        uint64_t c;

        erig_open(&r, &o);
        engine_pool_use(r.en, &use);
        assert_int_equal(use.idle, 0);
        assert_int_equal(use.budget, 64 << 20);
        assert_true(use.weights > 0);
        c = erig_new(&r, NULL, NULL);
        q = erig_long_request(c, texts[0], 200);
        erig_send(&r, &q, &A);
        while (A.n_tokens < 150)
                erig_step(&r);
        engine_pool_use(r.en, &use);
        assert_true(use.used >= inside_budget_with(r.en, 4));
        if (erig_stat(&r, "requests_active") == 1)
                assert_int_equal(use.idle, 0);
        erig_wait(&r, &A);
        assert_int_equal(erig_stat(&r, "pool_idle_bytes"),
                erig_stat(&r, "pool_blocks") * inside_block_size(r.en));
        erig_close(&r);
}

/* --- spare memory --- */

/* A conversation whose blocks are dropped when it is closed; how many there were. */
static uint64_t say_and_close(struct erig *r, const char *text) {
        uint64_t c = erig_new(r, NULL, NULL), before = erig_stat(r, "pool_blocks");
        struct engine_request q = erig_long_request(c, text, 150);
        assert_int_equal(erig_do(r, &q, &A), ENGINE_DONE);
        before = erig_stat(r, "pool_blocks") - before;
        assert_int_equal(erig_simple(r, ENGINE_CLOSE, c, &A), ENGINE_EMPTY);
        return before;
}

/* A budget that shrinks takes spares before it evicts anything, and leaves none. */
static void test_spare_goes_first(void **state) {
        struct engine_options o = erig_options(64 << 20);
        uint64_t used, n_closed, evictions;
        struct erig r;

        erig_open(&r, &o);
        erig_say(&r, erig_new(&r, NULL, NULL), texts[0], 20, &A);
        used = erig_stat(&r, "pool_blocks");
        n_closed = say_and_close(&r, texts[1]);
        assert_true(n_closed >= 4);
        assert_int_equal(erig_stat(&r, "pool_blocks"), used);
        assert_int_equal(erig_stat(&r, "pool_spare_blocks"), n_closed);
        check_ledger(&r);
        evictions = erig_stat(&r, "evictions");
        settle(&r, inside_budget_with(r.en, MAX(used, (uint64_t)4)));
        assert_int_equal(erig_stat(&r, "pool_spare_blocks"), 0);
        assert_int_equal(erig_stat(&r, "pool_blocks"), used);
        assert_int_equal(erig_stat(&r, "evictions"), evictions);
        erig_close(&r);
}

/* What is on disk of a partial block does not depend on what was in its memory before, and so
 * cannot tell of it. */
static void test_spare_tells_nothing(void **state) {
        struct engine_options o = erig_options(64 << 20);
        static uint8_t tails[2][1 << 20];
        size_t sizes[2];

        o.spill_delay_ms = UINT32_MAX;
        for (int life = 0; life < 2; life++) {
                uint64_t n_spares, c;
                struct erig r;

                erig_open(&r, &o);
                engine_set_spare(r.en, life == 1);
                (void)say_and_close(&r, texts[1]);
                n_spares = erig_stat(&r, "pool_spare_blocks");
                assert_int_equal(n_spares > 0, life == 1);
                c = erig_new(&r, NULL, NULL);
                erig_say(&r, c, texts[2], 5, &A);
                assert_true(life == 0 || erig_stat(&r, "pool_spare_blocks") < n_spares);
                /* The others put it out. */
                settle(&r, inside_budget_with(r.en, 4));
                for (int i = 0; i < 4; i++)
                        erig_say(&r, erig_new(&r, NULL, NULL), texts[i % 2], 40, &B[0]);
                assert_int_equal(erig_simple(&r, ENGINE_GET, c, &A), ENGINE_CONV);
                assert_int_equal(A.conv.residency, ENGINE_SPILLED);
                sizes[life] = inside_read_tail(r.en, c, tails[life], sizeof(tails[life]));
                erig_close(&r);
        }
        assert_true(sizes[0] > 0);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(tails[0], tails[1], sizes[0]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_auto, machine_setup, machine_teardown),
                cmocka_unit_test_setup_teardown(test_auto_little, machine_setup, machine_teardown),
                cmocka_unit_test(test_shrink_idle),
                cmocka_unit_test(test_under_load),
                cmocka_unit_test(test_floor),
                cmocka_unit_test(test_fits_now),
                cmocka_unit_test(test_fits_still),
                cmocka_unit_test_setup_teardown(
                        test_waits_for_the_system, machine_setup, machine_teardown),
                cmocka_unit_test(test_idle_size),
                cmocka_unit_test(test_spare_goes_first),
                cmocka_unit_test(test_spare_tells_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
