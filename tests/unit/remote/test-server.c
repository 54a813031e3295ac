/* SPDX-License-Identifier: MIT */
/* All calls against a real server: one that answers, and one that is shut, slow, full, stopped, killed, or behind TLS. */
#include "remote-rig.h"
#include <pthread.h>

static int flush(void **state) {
        (void)state;
        if (getenv("CONFAB_TEST_REDIS"))
                rig_say("FLUSHALL");
        return 0;
}

/* --- what calls do --- */

static void four_calls(const char *uri) {
        const struct remote_key keys[3] = {{"here"}, {"there"}, {"nowhere"}};
        bool found[3];
        struct rig rig;

        rig_open(&rig, uri);
        rig_ok(&rig, rig_put(&rig, keys[0], "one", 3));
        rig_ok(&rig, rig_put(&rig, keys[1], "", 0));
        rig_expect_value(&rig, keys[0], "one");
        rig_expect_value(&rig, keys[1], "");
        rig_expect_value(&rig, keys[2], NULL);
        assert_in_range(rig_say("TTL here"), 1, 100);
        rig_ok(&rig, remote_touch(rig.r, keys, 3, 5000, found, rig_until(), &rig.e));
        assert_true(found[0]);
        assert_true(found[1]);
        assert_false(found[2]);
        assert_in_range(rig_say("TTL here"), 101, 5000);
        rig_ok(&rig, rig_put(&rig, keys[0], "another", 7));
        rig_expect_value(&rig, keys[0], "another");
        assert_in_range(rig_say("TTL here"), 1, 100);
        rig_ok(&rig, remote_remove(rig.r, keys, 3, rig_until(), &rig.e));
        rig_ok(&rig, remote_remove(rig.r, keys, 3, rig_until(), &rig.e));
        assert_int_equal(rig_say("EXISTS here there nowhere"), 0);
        rig_expect_value(&rig, keys[0], NULL);
        assert_int_equal(rig_stats(&rig).n_connects, 1);
        assert_int_equal(rig_stats(&rig).n_failures, 0);
        assert_int_equal(rig_stats(&rig).sent_size, 10);
        assert_int_equal(rig_stats(&rig).received_size, 10);
        rig_close(&rig);
}

static void test_socket(void **state) {
        (void)state;
        four_calls(rig_env("CONFAB_TEST_REDIS"));
}

static void test_tcp(void **state) {
        (void)state;
        four_calls(rig_env("CONFAB_TEST_REDIS_TCP"));
}

/* More than are on their way at once. */
static void test_many(void **state) {
        const size_t n = 1500;
        struct remote_key *keys = rig_keys("many", n);
        bool *found = calloc(n, 1);
        struct rig rig;

        (void)state;
        assert_non_null(found);
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS"));
        rig_put_all(&rig, keys, n, 7);
        rig_get_all(&rig, keys, n, 7);
        rig_ok(&rig, remote_touch(rig.r, keys, n, 50, found, rig_until(), &rig.e));
        for (size_t i = 0; i < n; i++)
                assert_int_equal(found[i], i % 7 != 0);
        rig_ok(&rig, remote_remove(rig.r, keys, n, rig_until(), &rig.e));
        assert_int_equal(rig_say("DBSIZE"), 0);
        assert_int_equal(rig_stats(&rig).n_connects, 1);
        rig_close(&rig);
        free(found);
        free(keys);
}

struct large {
        uint8_t *data;
        size_t size, n;
};

static int take_large(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        struct large *l = arg;

        (void)e;
        assert_int_equal(i, l->n++);
        assert_int_equal(size, l->size);
        assert_memory_equal(data, l->data, size);
        return 0;
}

/* Values as large as they may be, of which neither side's sockets hold one. */
static void test_large(void **state) {
        struct large l = {.size = 5000001};
        struct remote_key *keys = rig_keys("large", 9);
        struct remote_value values[9];
        const struct remote_reader reader = {take_large, &l};
        struct remote_options o = rig_options(rig_env("CONFAB_TEST_REDIS_TCP"));
        struct rig rig;

        (void)state;
        l.data = malloc(l.size);
        assert_non_null(l.data);
        for (size_t i = 0; i < l.size; i++)
                l.data[i] = (uint8_t)(i * 2654435761U >> 13); /* with NUL, CR and LF */
        for (size_t i = 0; i < 9; i++)
                values[i] = (struct remote_value){keys[i], l.data, l.size};
        o.max_value_size = l.size;
        rig_open_with(&rig, o);
        rig_ok(&rig, remote_put(rig.r, values, 9, 100, rig_until(), &rig.e));
        rig_ok(&rig, remote_get(rig.r, keys, 9, &reader, rig_until(), &rig.e));
        assert_int_equal(l.n, 9);
        assert_int_equal(rig_stats(&rig).n_connects, 1);
        rig_close(&rig);
        free(l.data);
        free(keys);
}

static int take_three(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        size_t *n = arg;

        (void)data;
        (void)size;
        ++*n;
        return i == 2 ? err_set(e, ERR_CANCELLED, "enough") : 0;
}

static int take_one(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        (void)arg;
        (void)i;
        (void)data;
        (void)size;
        (void)e;
        return 7;
}

static void test_reader_ends(void **state) {
        struct remote_key *keys = rig_keys("ends", 50);
        size_t n = 0;
        const struct remote_reader three = {take_three, &n}, one = {take_one, NULL};
        struct rig rig;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS"));
        rig_put_all(&rig, keys, 50, 0);
        rig_expect(&rig, remote_get(rig.r, keys, 50, &three, rig_until(), &rig.e), -ERR_CANCELLED,
                "enough");
        assert_int_equal(n, 3);
        rig_get_all(&rig, keys, 50, 0);
        assert_int_equal(rig_stats(&rig).n_connects, 2); /* the first one had answers in it */
        /* The last value leaves nothing unread. */
        assert_int_equal(remote_get(rig.r, keys, 1, &one, rig_until(), &rig.e), 7);
        rig_get_all(&rig, keys, 50, 0);
        assert_int_equal(rig_stats(&rig).n_connects, 2);
        assert_int_equal(rig_stats(&rig).n_failures, 0);
        rig_close(&rig);
        free(keys);
}

/* Values that are too long, or no strings, are not there; those around them are. */
static void test_no_values(void **state) {
        const struct remote_key keys[] = {
                {"a"}, {"long"}, {"longer"}, {"b"}, {"list"}, {"longest"}, {"c"}};
        struct remote_options o = rig_options(rig_env("CONFAB_TEST_REDIS"));
        struct rig big, rig;
        char *data = calloc(1, 3000000);
        const struct remote_value values[] = {{keys[0], "A", 1}, {keys[1], data, RIG_MAX_VALUE + 1},
                {keys[2], data, 1000000}, {keys[3], "B", 1}, {keys[5], data, 3000000},
                {keys[6], "C", 1}};
        const bool there[] = {true, false, false, true, false, false, true};
        bool found[7];

        (void)state;
        o.max_value_size = 3000000;
        rig_open_with(&big, o);
        rig_ok(&big, remote_put(big.r, values, 6, 100, rig_until(), &big.e));
        rig_close(&big);
        rig_say("RPUSH list x");
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS"));
        for (size_t i = 0; i < 7; i++)
                rig_expect_value(
                        &rig, keys[i], there[i] ? (const char *)values[i == 6 ? 5 : i].data : NULL);
        rig_ok(&rig, remote_touch(rig.r, keys, 7, 100, found, rig_until(), &rig.e));
        for (size_t i = 0; i < 7; i++)
                assert_true(found[i]);
        rig_close(&rig);
        free(data);
}

static int take_mixed(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        size_t *next = arg;

        (void)e;
        assert_int_equal(i, (*next)++);
        if (i % 5 == 3) {
                assert_null(data);
        } else {
                assert_int_equal(size, 5);
                assert_memory_equal(data, "short", 5);
        }
        return 0;
}

/* The same in one call: behind each one that is too long the commands are sent anew. */
static void test_too_long_between(void **state) {
        struct remote_key *keys = rig_keys("between", 40);
        struct remote_value values[40];
        char *data = calloc(1, 200000);
        size_t next = 0;
        const struct remote_reader reader = {take_mixed, &next};
        struct remote_options o = rig_options(rig_env("CONFAB_TEST_REDIS"));
        struct rig big, rig;

        (void)state;
        assert_non_null(data);
        for (size_t i = 0; i < 40; i++)
                values[i] = i % 5 == 3 ? (struct remote_value){keys[i], data, 200000}
                                       : (struct remote_value){keys[i], "short", 5};
        o.max_value_size = 200000;
        rig_open_with(&big, o);
        rig_ok(&big, remote_put(big.r, values, 40, 100, rig_until(), &big.e));
        rig_close(&big);
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS"));
        rig_ok(&rig, remote_get(rig.r, keys, 40, &reader, rig_until(), &rig.e));
        assert_int_equal(next, 40);
        rig_close(&rig);
        free(data);
        free(keys);
}

/* --- who we are, and where --- */

static void test_password(void **state) {
        const struct remote_key key = {"secret"};
        struct remote_options o = rig_options(rig_env("CONFAB_TEST_REDIS"));
        redisContext *admin = rig_server();
        static struct rig_got got;
        struct rig rig, early;

        (void)state;
        freeReplyObject(redisCommand(admin, "CONFIG SET requirepass right"));
        rig_open_with(&early, o);
        rig_expect(&early, rig_put(&early, key, "x", 1), -ERR_UNAVAILABLE, "NOAUTH");
        o.password = "wrong";
        rig_open_with(&rig, o);
        rig_expect(&rig, rig_put(&rig, key, "x", 1), -ERR_UNAVAILABLE, "WRONGPASS");
        rig_close(&rig);
        o.password = "right";
        rig_open_with(&rig, o);
        rig_ok(&rig, rig_put(&rig, key, "x", 1));
        rig_close(&rig);
        o.user = "default";
        rig_open_with(&rig, o);
        rig_expect_value(&rig, key, "x");
        rig_close(&rig);
        o.user = "nobody";
        rig_open_with(&rig, o);
        rig_expect(&rig, rig_get(&rig, key, &got), -ERR_UNAVAILABLE, "WRONGPASS");
        assert_null(strstr(rig.e.msg, "right"));
        assert_false(got.called);
        rig_close(&rig);
        freeReplyObject(redisCommand(admin, "CONFIG SET requirepass %s", ""));
        redisFree(admin);
        rig_expect_value(&early, key, "x");
        rig_close(&early);
}

/* A user who may not do all that is needed. */
static void test_permission(void **state) {
        struct remote_options o = rig_options(rig_env("CONFAB_TEST_REDIS"));
        redisContext *admin = rig_server();
        struct rig rig;

        (void)state;
        freeReplyObject(redisCommand(admin, "ACL SETUSER reader on >pw ~* +get"));
        o.user = "reader";
        o.password = "pw";
        rig_open_with(&rig, o);
        rig_expect_value(&rig, (struct remote_key){"x"}, NULL);
        rig_expect(
                &rig, rig_put(&rig, (struct remote_key){"x"}, "x", 1), -ERR_UNAVAILABLE, "NOPERM");
        rig_close(&rig);
        freeReplyObject(redisCommand(admin, "ACL DELUSER reader"));
        redisFree(admin);
}

static void test_database(void **state) {
        const struct remote_key key = {"in-three"};
        char uri[128];
        static struct rig_got got;
        struct rig rig;

        (void)state;
        snprintf(uri, sizeof(uri), "%s/3", rig_env("CONFAB_TEST_REDIS_TCP"));
        rig_open(&rig, uri);
        rig_ok(&rig, rig_put(&rig, key, "x", 1));
        rig_expect_value(&rig, key, "x");
        assert_int_equal(rig_say("EXISTS in-three"), 0);
        rig_close(&rig);
        snprintf(uri, sizeof(uri), "%s/999", rig_env("CONFAB_TEST_REDIS_TCP"));
        rig_open(&rig, uri);
        rig_expect(&rig, rig_get(&rig, key, &got), -ERR_UNAVAILABLE, "out of range");
        rig_close(&rig);
}

/* --- servers in trouble --- */

static void test_full(void **state) {
        struct remote_key *keys = rig_keys("full", 20);
        struct remote_value values[20];
        struct rig rig;

        (void)state;
        for (size_t i = 0; i < 20; i++)
                values[i] = (struct remote_value){keys[i], "value", 5};
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS"));
        rig_ok(&rig, rig_put(&rig, keys[0], "old", 3));
        rig_say("CONFIG SET maxmemory 1");
        rig_expect(&rig, remote_put(rig.r, values, 20, 100, rig_until(), &rig.e), -ERR_LIMIT,
                "OOM command not allowed");
        rig_expect_value(&rig, keys[0], "old");
        rig_say("CONFIG SET maxmemory 0");
        rig_ok(&rig, remote_put(rig.r, values, 20, 100, rig_until(), &rig.e));
        rig_expect_value(&rig, keys[0], "value");
        assert_int_equal(rig_stats(&rig).n_connects, 1);
        assert_int_equal(rig_stats(&rig).n_failures, 0);
        rig_close(&rig);
        free(keys);
}

/* Holds a connection in a call, and makes others: so several are kept. */
static int take_within(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        struct rig *rig = arg;

        (void)i;
        (void)data;
        (void)size;
        (void)e;
        rig_expect_value(rig, (struct remote_key){"other"}, NULL);
        return 0;
}

static void test_restarted(void **state) {
        struct remote_key *keys = rig_keys("restarted", 300);
        const struct remote_reader reader = {take_within, NULL};
        struct remote_reader within = reader;
        struct rig rig;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS_TCP"));
        within.arg = &rig;
        rig_ok(&rig, remote_get(rig.r, keys, 1, &within, rig_until(), &rig.e));
        assert_int_equal(rig_stats(&rig).n_connects, 2);
        rig_put_all(&rig, keys, 300, 0);
        rig_control("redis kill");
        rig_control("redis start");
        rig_expect_value(&rig, keys[0], NULL);
        rig_put_all(&rig, keys, 300, 0);
        rig_get_all(&rig, keys, 300, 0);
        assert_int_equal(rig_stats(&rig).n_connects, 3);
        assert_int_equal(rig_stats(&rig).n_failures, 0);
        rig_close(&rig);
        free(keys);
}

static void killed(const char *uri) {
        static struct rig_got got;
        struct rig rig;

        rig_say("FLUSHALL");
        rig_open(&rig, uri);
        rig_expect_value(&rig, (struct remote_key){"x"}, NULL);
        rig_control("redis kill");
        rig_expect(&rig, rig_get(&rig, (struct remote_key){"x"}, &got), -ERR_UNAVAILABLE,
                "Connection refused");
        assert_non_null(strstr(rig.e.msg, strstr(uri, "://") + 3));
        rig_expect(&rig, rig_put(&rig, (struct remote_key){"x"}, "x", 1), -ERR_UNAVAILABLE,
                "Connection refused");
        assert_int_equal(rig_stats(&rig).n_failures, 2);
        rig_control("redis start");
        rig_ok(&rig, rig_put(&rig, (struct remote_key){"x"}, "x", 1));
        rig_expect_value(&rig, (struct remote_key){"x"}, "x");
        rig_close(&rig);
}

static void test_killed(void **state) {
        (void)state;
        killed(rig_env("CONFAB_TEST_REDIS"));
        killed(rig_env("CONFAB_TEST_REDIS_TCP"));
}

/* The server dies while its answers are read. */
static int take_and_kill(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        (void)arg;
        (void)data;
        (void)size;
        (void)e;
        if (i == 0)
                rig_control("redis kill");
        return 0;
}

static void test_killed_within(void **state) {
        const struct remote_reader reader = {take_and_kill, NULL};
        struct remote_key *keys = rig_keys("within", 64);
        struct remote_value *values = calloc(64, sizeof(*values));
        char *data = calloc(1, RIG_MAX_VALUE);
        struct rig rig;
        int r;

        (void)state;
        assert_non_null(values);
        assert_non_null(data);
        for (size_t i = 0; i < 64; i++)
                values[i] = (struct remote_value){keys[i], data, RIG_MAX_VALUE};
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS"));
        rig_ok(&rig, remote_put(rig.r, values, 64, 100, rig_until(), &rig.e));
        r = remote_get(rig.r, keys, 64, &reader, rig_until(), &rig.e);
        rig_control("redis start");
        rig_expect(&rig, r, -ERR_UNAVAILABLE, "server ");
        rig_expect_value(&rig, keys[0], NULL);
        rig_close(&rig);
        free(data);
        free(values);
        free(keys);
}

/* A call that should end at a time limit of 0.2 s: it does so at some time, and says so. */
static void expect_late(struct rig *rig, int r, uint64_t began) {
        assert_true(clock_monotonic_usec() - began < RIG_SOON);
        assert_int_equal(r, -ERR_UNAVAILABLE);
        if (!strstr(rig->e.msg, "not answer"))
                fail_msg("%s", rig->e.msg);
}

/* @until: the call's limit, instead of the server's. */
static void paused(const char *uri, bool until) {
        const uint64_t limit = 200000;
        struct remote_options o = rig_options(uri);
        struct remote_key *keys = rig_keys("paused", 64);
        struct remote_value *values = calloc(64, sizeof(*values));
        char *data = calloc(1, RIG_MAX_VALUE);
        static struct rig_got got;
        struct rig kept, rig;
        bool found;
        uint64_t began, end;

        assert_non_null(values);
        assert_non_null(data);
        for (size_t i = 0; i < 64; i++)
                values[i] = (struct remote_value){keys[i], data, RIG_MAX_VALUE};
        o.timeout_usec = until ? 60000000 : limit;
        rig_open_with(&kept, o);
        (void)rig_put(&kept, keys[0], "x", 1); /* one that is kept, unless the machine is busy */
        rig_control("redis pause");
        began = clock_monotonic_usec();
        end = until ? began + limit : UINT64_MAX;
        expect_late(&kept, remote_put(kept.r, values, 64, 100, end, &kept.e), began);
        rig_open_with(&rig, o);
        began = clock_monotonic_usec();
        end = until ? began + limit : UINT64_MAX;
        expect_late(&rig, rig_get_until(&rig, keys[0], &got, end), began);
        began = clock_monotonic_usec();
        end = until ? began + limit : UINT64_MAX;
        expect_late(&rig, remote_touch(rig.r, keys, 1, 1, &found, end, &rig.e), began);
        rig_close(&rig);
        /* With a password the server has to say something before the first command. */
        o.password = "x";
        rig_open_with(&rig, o);
        began = clock_monotonic_usec();
        end = until ? began + limit : UINT64_MAX;
        expect_late(&rig, remote_remove(rig.r, keys, 1, end, &rig.e), began);
        rig_close(&rig);
        rig_control("redis resume");
        rig_close(&kept);
        rig_open(&kept, uri);
        /* Another key: what waits in the server's sockets is done at some time yet. */
        rig_ok(&kept, rig_put(&kept, (struct remote_key){"after"}, "y", 1));
        rig_expect_value(&kept, (struct remote_key){"after"}, "y");
        rig_close(&kept);
        free(data);
        free(values);
        free(keys);
}

static void test_paused(void **state) {
        (void)state;
        paused(rig_env("CONFAB_TEST_REDIS"), false);
        paused(rig_env("CONFAB_TEST_REDIS_TCP"), true);
}

/* --- threads --- */

struct worker {
        pthread_t thread;
        struct remote *r;
        unsigned number;
};

static void *work(void *arg) {
        struct worker *w = arg;
        struct rig rig = {.r = w->r};
        char name[32];

        snprintf(name, sizeof(name), "worker-%u", w->number);
        for (unsigned round = 0; round < 20; round++) {
                struct remote_key *keys = rig_keys(name, 40);

                rig_put_all(&rig, keys, 40, 3);
                rig_get_all(&rig, keys, 40, 3);
                rig_ok(&rig, remote_remove(w->r, keys, 40, rig_until(), &rig.e));
                free(keys);
        }
        return NULL;
}

static void test_threads(void **state) {
        struct worker workers[8];
        struct rig rig;

        (void)state;
        rig_open(&rig, rig_env("CONFAB_TEST_REDIS"));
        for (unsigned i = 0; i < ARRAY_SIZE(workers); i++) {
                workers[i] = (struct worker){.r = rig.r, .number = i};
                assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(workers); i++)
                pthread_join(workers[i].thread, NULL);
        assert_true(rig_stats(&rig).n_connects <= ARRAY_SIZE(workers));
        assert_int_equal(rig_say("DBSIZE"), 0);
        rig_close(&rig);
}

/* --- TLS --- */

static void expect_no_tls(
        const char *uri, const char *certificates, uint64_t timeout_usec, const char *words) {
        struct remote_options o = rig_options(uri);
        static struct rig_got got;
        struct rig rig;

        o.timeout_usec = timeout_usec;
        o.ca_file = certificates;
        rig_open_with(&rig, o);
        rig_expect(&rig, rig_get(&rig, (struct remote_key){"x"}, &got), -ERR_UNAVAILABLE, words);
        rig_close(&rig);
}

static void test_tls(void **state) {
        const char *uri = rig_env("CONFAB_TEST_REDIS_TLS"), *folder;
        char mine[256], other[256], named[128];
        struct remote_options o = rig_options(uri);
        struct remote_key *keys = rig_keys("tls", 500);
        struct large l = {.size = 3000000};
        const struct remote_reader reader = {take_large, &l};
        struct rig rig;

        (void)state;
        if (!remote_has_tls()) {
                free(keys);
                print_message("SKIP: built without TLS\n");
                skip();
        }
        folder = rig_env("CONFAB_TEST_REDIS_CERTS");
        snprintf(mine, sizeof(mine), "%s/server.crt", folder);
        snprintf(other, sizeof(other), "%s/other.crt", folder);
        o.ca_file = mine;
        o.max_value_size = l.size;
        rig_open_with(&rig, o);
        rig_put_all(&rig, keys, 500, 4);
        rig_get_all(&rig, keys, 500, 4);
        l.data = calloc(1, l.size);
        assert_non_null(l.data);
        memset(l.data, 'x', l.size);
        rig_ok(&rig, rig_put(&rig, keys[0], l.data, l.size));
        rig_ok(&rig, remote_get(rig.r, keys, 1, &reader, rig_until(), &rig.e));
        assert_int_equal(rig_stats(&rig).n_connects, 1);
        rig_control("redis kill");
        rig_control("redis start");
        rig_put_all(&rig, keys, 500, 4);
        rig_get_all(&rig, keys, 500, 4);
        assert_int_equal(rig_stats(&rig).n_failures, 0);
        rig_close(&rig);
        free(l.data);
        free(keys);
        expect_no_tls(uri, other, RIG_SOON, "certificate");
        expect_no_tls(uri, NULL, RIG_SOON, "certificate");
        snprintf(named, sizeof(named), "rediss://localhost%s", strrchr(uri, ':'));
        expect_no_tls(named, mine, RIG_SOON, "mismatch");
        /* One side alone has TLS. A server that has not takes its beginning for that of a command, and waits. */
        snprintf(named, sizeof(named), "rediss://%s", rig_env("CONFAB_TEST_REDIS_TCP") + 8);
        expect_no_tls(named, mine, 300000, "TLS");
        snprintf(named, sizeof(named), "redis://%s", uri + 9);
        expect_no_tls(named, NULL, RIG_SOON, "server 127.0.0.1:");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_socket, flush),
                cmocka_unit_test_setup(test_tcp, flush),
                cmocka_unit_test_setup(test_many, flush),
                cmocka_unit_test_setup(test_large, flush),
                cmocka_unit_test_setup(test_reader_ends, flush),
                cmocka_unit_test_setup(test_no_values, flush),
                cmocka_unit_test_setup(test_too_long_between, flush),
                cmocka_unit_test_setup(test_password, flush),
                cmocka_unit_test_setup(test_permission, flush),
                cmocka_unit_test_setup(test_database, flush),
                cmocka_unit_test_setup(test_full, flush),
                cmocka_unit_test_setup(test_restarted, flush),
                cmocka_unit_test_setup(test_killed, flush),
                cmocka_unit_test_setup(test_killed_within, flush),
                cmocka_unit_test_setup(test_paused, flush),
                cmocka_unit_test_setup(test_threads, flush),
                cmocka_unit_test_setup(test_tls, flush),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
