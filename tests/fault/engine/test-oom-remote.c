/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, in any thread, while memory comes from a remote store and is brought there: found, read, pushed, pushed late,
 * removed. Requests end, nobody gets other bits, and afterwards everything works as before. With a server that tests/util/with-redis.py
 * has started.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "fault/fault.h"
#include "unit/engine/rig.h"
#include "util/depth.h"
#include "util/test.h"

#define RUNS test_depth(24, 100, 300)
#define QUESTION "And who lives there?"

static struct answer A, expected;
static const char *uri;

/* A conversation that is on the disk, and was not brought yet. */
static uint64_t late;

/* Of all others nothing is in RAM or on the disk. */
static void forget(struct erig *r) {
        r->o.remote.uri = NULL;
        erig_forget_memory(r);
        if (late)
                erig_simple(r, ENGINE_CLOSE, late, &A);
        late = erig_new(r, NULL, NULL);
        erig_say(r, late, "Hello.", 4, &A);
        erig_stop(r, true);
        r->o.remote.uri = uri;
        erig_start(r);
}

static void wait_pushed(struct erig *r) {
        /* One that finds no memory tries again, or is given up: neither takes long. */
        for (unsigned i = 0; i < 10000 && erig_stat(r, "remote_pending") > 0; i++)
                usleep(1000);
        assert_int_equal(erig_stat(r, "remote_pending"), 0);
}

/* A copy of @c goes on, is brought to the server, and is closed. It says what it has to, or fails. */
static void program(struct erig *r, uint64_t c, bool armed) {
        struct engine_request q = erig_request(ENGINE_FORK, c);
        uint64_t copy;

        if (erig_do(r, &q, &A) != ENGINE_CONV)
                return;
        copy = A.conv.id;
        q = erig_say_request(copy, QUESTION, 6);
        if (erig_do(r, &q, &A) == ENGINE_DONE)
                answer_same(&A, &expected);
        erig_simple(r, ENGINE_EVICT, copy, &A);
        if (armed)
                usleep(20000); /* figures would fail, too */
        else
                wait_pushed(r);
        for (int k = 0; k < 2; k++)
                if (erig_simple(r, ENGINE_CLOSE, copy, &A) == ENGINE_EMPTY)
                        break;
}

/* What the copy says if nothing fails. */
static void expect(struct erig *r, uint64_t c) {
        struct engine_request q = erig_request(ENGINE_FORK, c);

        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
        answer_reset(&expected);
        erig_say(r, A.conv.id, QUESTION, 6, &expected);
}

/* About how many allocations the program makes, by a power of two. */
static long count(struct erig *r, uint64_t c) {
        for (long n = 1;; n *= 2) {
                bool hit;

                forget(r);
                fault_alloc_at(n);
                program(r, c, true);
                hit = fault_alloc_hit();
                fault_alloc_at(-1);
                if (!hit)
                        return n;
        }
}

static void run(void (*arm)(long n), long runs) {
        struct engine_options o = erig_options(8 << 20);
        uint64_t c, read = 0;
        long end, step;
        struct erig r;

        o.spill_delay_ms = 0;
        o.remote.uri = uri;
        o.remote.always = true;
        o.remote.write_share = 100;
        erig_open(&r, &o);
        late = 0;
        c = erig_new(&r, NULL, NULL);
        erig_say(&r, c, "My name is Ada, and I live in a green house near the river. Who are you?",
                40, &A);
        assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, &A), ENGINE_CONV);
        wait_pushed(&r);
        expect(&r, c);
        end = count(&r, c);
        step = MAX(end / runs, 1);
        for (long n = 0; n < end; n += n < runs / 2 ? 1 : step) {
                forget(&r);
                arm(n);
                program(&r, c, true);
                fault_alloc_at(-1);
                program(&r, c, false);
                assert_int_equal(A.kind, ENGINE_EMPTY);
                wait_pushed(&r);
                read += erig_stat(&r, "remote_blocks_read");
                assert_int_equal(erig_stat(&r, "remote_damaged"), 0);
                erig_check_budget(&r);
        }
        assert_true(read > 0);
        erig_close(&r);
}

static void test_one(void **state) {
        if (!uri)
                skip();
        run(fault_alloc_at, RUNS);
}

static void test_all(void **state) {
        if (!uri)
                skip();
        run(fault_alloc_from, RUNS / 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one),
                cmocka_unit_test(test_all),
        };

        uri = getenv("CONFAB_TEST_REDIS");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
