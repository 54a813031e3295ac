/* SPDX-License-Identifier: MIT */
/*
 * Before a conversation is given to another machine, its memory goes to the remote store (memory/part.c): two engines with one register
 * on PostgreSQL, and one server of memory. What computing costs is as the test says.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "kinds-rig.h"
#include "util/test.h"

static struct answer A, B;
static struct erig one, two, fresh;
static atomic_uint token_usec;

double __wrap_rates_token_usec(const struct engine *engine);
double __wrap_rates_token_usec(const struct engine *engine) {
        (void)engine;
        return atomic_load(&token_usec);
}

static bool has_servers(void) {
        return getenv("CONFAB_TEST_REDIS") && getenv("CONFAB_TEST_POSTGRESQL");
}

static int setup(void **state) {
        return has_servers() ? kinds_make(state) : 0;
}

static int teardown(void **state) {
        return has_servers() ? kinds_remove(state) : 0;
}

static void open_all(const struct kind *k) {
        struct engine_options o = erig_options(32 << 20);

        o.model_path = k->path;
        o.register_uri = getenv("CONFAB_TEST_POSTGRESQL");
        o.lease_usec = 3600000000;
        o.spill_delay_ms = UINT32_MAX; /* so nothing is sent but when it is wanted elsewhere */
        o.remote.uri = getenv("CONFAB_TEST_REDIS");
        o.remote.always = true;
        o.remote.write_share = 1;
        erig_open(&one, &o);
        erig_open(&two, &o);
        kind_open(&fresh, k, UINT32_MAX);
}

static void close_all(void) {
        erig_check_budget(&one);
        erig_check_budget(&two);
        erig_close(&one);
        erig_close(&two);
        kind_close(&fresh);
}

/* How much of a conversation comes along when it moves from one to two. */
static uint32_t move(uint64_t c) {
        uint64_t alone = kind_talk(&fresh, 6, &A);

        kind_say(&fresh, alone, 6, &B);
        kind_say(&two, c, 6, &A);
        answer_same(&A, &B);
        return A.n_disk;
}

/* Computing it takes less than 0.1 s, so nobody waits for that. (First: nothing is there yet.) */
static void test_computed(void **state) {
        if (!has_servers())
                skip();
        EACH_KIND(k) {
                open_all(k);
                atomic_store(&token_usec, 1);
                assert_int_equal(move(kind_talk(&one, 6, &A)), 0);
                assert_int_equal(erig_stat(&one, "remote_blocks_sent"), 0);
                close_all();
        }
}

/* It takes 1.5 s at most; then it would be computed, which a busy machine may have to. */
static void test_comes_along(void **state) {
        if (!has_servers())
                skip();
        EACH_KIND(k) {
                uint32_t n_disk = 0;

                open_all(k);
                atomic_store(&token_usec, 10000);
                for (unsigned i = 0; n_disk == 0 && i < 5; i++)
                        n_disk = move(kind_talk(&one, 6, &A));
                assert_true(n_disk >= KIND_BLOCK);
                assert_true(erig_stat(&one, "remote_blocks_sent") > 0);
                close_all();
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_computed),
                cmocka_unit_test(test_comes_along),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
