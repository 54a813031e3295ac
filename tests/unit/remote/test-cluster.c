/* SPDX-License-Identifier: MIT */
/* A cluster of three: keys all over it, slots that move, and a server whose replica takes over. */
#include "remote-rig.h"
#include "remote/remote-private.h"

#define N 400

/* A key of slot @slot. */
static struct remote_key key_in(unsigned slot, const char *name) {
        struct remote_key key;

        for (unsigned i = 0; i < 1000000; i++) {
                snprintf(key.text, sizeof(key.text), "{%u}%s", i, name);
                if (remote_slot(key.text) == slot)
                        return key;
        }
        fail();
        return key;
}

static void control(const char *what, unsigned slot, unsigned to) {
        char line[64];

        snprintf(line, sizeof(line), "cluster %s %u %u", what, slot, to);
        rig_control(line);
}

static void test_all_over(void **state) {
        struct remote_key *keys = rig_keys("all-over", N);
        bool found[N];
        struct remote_stats first;
        struct rig rig;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_put_all(&rig, keys, N, 3);
        first = rig_stats(&rig);
        assert_true(first.n_redirects > 0);
        rig_get_all(&rig, keys, N, 3);
        rig_ok(&rig, remote_touch(rig.r, keys, N, 50, found, rig_until(), &rig.e));
        for (size_t i = 0; i < N; i++)
                assert_int_equal(found[i], i % 3 != 0);
        rig_ok(&rig, remote_remove(rig.r, keys, N, rig_until(), &rig.e));
        rig_get_all(&rig, keys, N, 1);
        assert_int_equal(rig_stats(&rig).n_redirects, first.n_redirects);
        assert_int_equal(rig_stats(&rig).n_connects, first.n_connects);
        rig_close(&rig);
        free(keys);
}

/* The first call reads: it is sent elsewhere between answers. */
static void test_reads_first(void **state) {
        struct remote_key *keys = rig_keys("reads", N);
        struct rig writer, rig;

        (void)state;
        rig_open(&writer, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_put_all(&writer, keys, N, 5);
        rig_close(&writer);
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_get_all(&rig, keys, N, 5);
        rig_get_all(&rig, keys, N, 5);
        rig_close(&rig);
        free(keys);
}

static void test_moved(void **state) {
        struct remote_key *keys = rig_keys("moved", N);
        const struct remote_key key = key_in(3, "moved");
        uint64_t before;
        struct rig rig;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_put_all(&rig, keys, N, 0);
        rig_ok(&rig, rig_put(&rig, key, "value", 5));
        before = rig_stats(&rig).n_redirects;
        control("move", 3, 2);
        rig_expect_value(&rig, key, "value");
        assert_int_equal(rig_stats(&rig).n_redirects, before + 1);
        rig_expect_value(&rig, key, "value");
        assert_int_equal(rig_stats(&rig).n_redirects, before + 1);
        control("move", 3, 0);
        /* In the midst of others, which stay in order. */
        keys[N / 2] = key;
        rig_put_all(&rig, keys, N, 0);
        control("move", 3, 1);
        rig_get_all(&rig, keys, N, 0);
        rig_get_all(&rig, keys, N, 0);
        control("move", 3, 0);
        rig_close(&rig);
        free(keys);
}

/* While a slot moves, the keys that have moved are asked for at the new server. */
static void test_ask(void **state) {
        struct remote_key *keys = rig_keys("ask", N);
        const struct remote_key old = key_in(7, "old"), new = key_in(7, "new");
        const struct remote_key both[2] = {old, new};
        bool found[2];
        uint64_t before;
        struct rig rig;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_put_all(&rig, keys, N, 0);
        rig_ok(&rig, rig_put(&rig, old, "old", 3));
        control("begin_move", 7, 1);
        before = rig_stats(&rig).n_redirects;
        rig_expect_value(&rig, old, "old");
        assert_int_equal(rig_stats(&rig).n_redirects, before);
        rig_ok(&rig, rig_put(&rig, new, "new", 3));
        rig_expect_value(&rig, new, "new");
        assert_int_equal(rig_stats(&rig).n_redirects, before + 2);
        rig_ok(&rig, remote_touch(rig.r, both, 2, 100, found, rig_until(), &rig.e));
        assert_true(found[0] && found[1]);
        /* In the midst of others, to whose server it goes, too. */
        for (size_t i = 10; i < N; i += 50)
                keys[i] = key_in(7, rig_key("midst", (unsigned)i).text);
        rig_put_all(&rig, keys, N, 0);
        rig_get_all(&rig, keys, N, 0);
        control("move_keys", 7, 1);
        rig_get_all(&rig, keys, N, 0);
        rig_expect_value(&rig, old, "old");
        control("end_move", 7, 1);
        rig_get_all(&rig, keys, N, 0);
        rig_ok(&rig, remote_remove(rig.r, both, 2, rig_until(), &rig.e));
        rig_expect_value(&rig, new, NULL);
        control("move", 7, 0);
        rig_close(&rig);
        free(keys);
}

static void test_first_is_dead(void **state) {
        struct remote_key *keys = rig_keys("dead", N);
        char uri[256];
        struct rig rig;

        (void)state;
        /* Nobody listens at port 1. */
        snprintf(uri, sizeof(uri), "redis://127.0.0.1:1,%s",
                rig_env("CONFAB_TEST_REDIS_CLUSTER") + 8);
        rig_open(&rig, uri);
        rig_put_all(&rig, keys, N, 0);
        rig_get_all(&rig, keys, N, 0);
        rig_close(&rig);
        rig_open(&rig, "redis://127.0.0.1:1,127.0.0.1:2");
        rig_expect(&rig, rig_put(&rig, keys[0], "", 0), -ERR_UNAVAILABLE, "Connection refused");
        rig_close(&rig);
        free(keys);
}

static void test_no_database(void **state) {
        char uri[256];
        struct rig rig;

        (void)state;
        snprintf(uri, sizeof(uri), "%s/1", rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_open(&rig, uri);
        rig_expect(
                &rig, rig_put(&rig, (struct remote_key){"x"}, "", 0), -ERR_UNAVAILABLE, "SELECT");
        rig_close(&rig);
}

/* Servers that are killed and come back: their connections are dead, their keys gone. */
static void test_restarted(void **state) {
        struct remote_key *keys = rig_keys("restarted", N);
        struct rig rig;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_put_all(&rig, keys, N, 0);
        rig_control("node1 kill");
        rig_control("node1 start");
        rig_control("cluster await_whole");
        rig_put_all(&rig, keys, N, 0);
        rig_get_all(&rig, keys, N, 0);
        assert_int_equal(rig_stats(&rig).n_failures, 0);
        rig_close(&rig);
        free(keys);
}

/* The last test: the first master is dead after it. */
static void test_fail_over(void **state) {
        struct remote_key *keys = rig_keys("fail-over", N);
        struct rig rig, other;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_put_all(&rig, keys, N, 0);
        rig_control("cluster fail_over");
        rig_put_all(&rig, keys, N, 0);
        rig_get_all(&rig, keys, N, 0);
        assert_int_equal(rig_stats(&rig).n_failures, 0);
        rig_open(&other, rig_env("CONFAB_TEST_REDIS_CLUSTER"));
        rig_get_all(&other, keys, N, 0);
        rig_close(&other);
        /* One that nobody stands in for. */
        rig_control("node1 kill");
        rig_expect(&rig, remote_remove(rig.r, keys, N, rig_until(), &rig.e), -ERR_UNAVAILABLE,
                "Connection refused");
        rig_close(&rig);
        free(keys);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_over),
                cmocka_unit_test(test_reads_first),
                cmocka_unit_test(test_moved),
                cmocka_unit_test(test_ask),
                cmocka_unit_test(test_first_is_dead),
                cmocka_unit_test(test_no_database),
                cmocka_unit_test(test_restarted),
                cmocka_unit_test(test_fail_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
