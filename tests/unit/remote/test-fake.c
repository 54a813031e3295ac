/* SPDX-License-Identifier: MIT */
/* Servers that speak garbage, too much, too slowly or not to the end: no call crashes, hangs, or takes memory without bound. */
#include "fake.h"
#include "remote/remote-private.h"

static const struct remote_key key = {"key"};
static struct rig_got got;

#define ENOUGH (16U << 20) /* more than sockets and the client take of what nobody wants */

/* One GET, whose value is @text, or nothing if that is NULL. */
static void answers_value(struct fake_script script, const char *text) {
        struct fake f;
        struct rig rig;

        fake_start(&f, script);
        rig_open(&rig, f.uri);
        rig_expect_value(&rig, key, text);
        rig_close(&rig);
        fake_stop(&f);
}

/* One GET that fails. */
static void answers_failure(struct fake_script script, const char *words) {
        struct fake f;
        struct rig rig;

        fake_start(&f, script);
        rig_open(&rig, f.uri);
        rig_expect(&rig, rig_get(&rig, key, &got), -ERR_UNAVAILABLE, words);
        assert_false(got.called);
        assert_non_null(strstr(rig.e.msg, f.uri + strlen("redis://")));
        assert_int_equal(rig_stats(&rig).n_failures, 1);
        rig_close(&rig);
        fake_stop(&f);
        assert_true(atomic_load(&f.n_sent) < ENOUGH);
}

static void test_values(void **state) {
        (void)state;
        answers_value((struct fake_script){.answer = "$5\r\nhello\r\n"}, "hello");
        answers_value(
                (struct fake_script){.answer = "$5\r\nhello\r\n", .then = FAKE_BY_BYTE}, "hello");
        answers_value(
                (struct fake_script){.answer = "$5\r\nhello\r\n", .then = FAKE_CLOSE}, "hello");
        answers_value((struct fake_script){.answer = "$0\r\n\r\n"}, "");
        answers_value((struct fake_script){.answer = "$-1\r\n"}, NULL);
        answers_value((struct fake_script){.answer = "$-1\r\n", .then = FAKE_BY_BYTE}, NULL);
        answers_value((struct fake_script){.answer = "-WRONGTYPE what\r\n"}, NULL);
}

/* Nothing of it is read, nor is there memory for it. */
static void test_too_long(void **state) {
        (void)state;
        answers_value((struct fake_script){.answer = "$65537\r\n"}, NULL);
        answers_value((struct fake_script){.answer = "$999999999999999999\r\n"}, NULL);
        answers_value(
                (struct fake_script){.answer = "$999999999999999999\r\nx", .then = FAKE_CLOSE},
                NULL);
}

static void test_broken(void **state) {
        static const char *const answers[] = {"garbage\r\n", "$05\r\nhello\r\n", "\r\n", "?\r\n",
                "\0\r\n", "$\r\n", "$5\n", "$-2\r\n", "$-1x\r\n", "$--1\r\n", "$+5\r\nhello\r\n",
                "$abc\r\n", "$5x\r\nhello\r\n", "$9999999999999999999\r\n",
                "$18446744073709551616\r\n", "$0000000000000000000000000000000000000",
                "$5\r\nhelloXX", "$5\r\nhello\n\r", "*1\r\n$1\r\nx\r\n", "*99999999\r\n", "*-1\r\n",
                "*x\r\n", ":x\r\n", ":\r\n", ":99999999999999999999999\r\n", "%1\r\n+a\r\n+b\r\n",
                "_\r\n", "#t\r\n", "(1\r\n", ",1.0\r\n", "=15\r\ntxt:Some string\r\n",
                "HTTP/1.1 400 Bad Request\r\n\r\n"};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
                answers_failure(
                        (struct fake_script){.answer = answers[i], .size = answers[i][0] ? 0 : 3},
                        "does not speak the protocol");
}

/* Well-formed, but no answer to GET. */
static void test_not_asked(void **state) {
        (void)state;
        answers_failure((struct fake_script){.answer = "+OK\r\n"}, "what it was not asked");
        answers_failure((struct fake_script){.answer = ":1\r\n"}, "what it was not asked");
        answers_failure((struct fake_script){.greeting = "+OK\r\n", .answer = "$1\r\nx\r\n"}, "");
}

static void test_errors(void **state) {
        static const char *const answers[] = {"LOADING Redis is loading the dataset in memory",
                "CLUSTERDOWN Hash slot not served",
                "READONLY You can't write against a read only replica.",
                "MASTERDOWN Link with MASTER is down", "NOAUTH Authentication required.",
                "BUSY Redis is busy running a script", "OOM no writing for GET",
                "ERR unknown command", "MOVED", "MOVED 1", "ASK 1 here", "TRYAGAIN later", "", "x"};
        char text[128];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
                snprintf(text, sizeof(text), "-%s\r\n", answers[i]);
                answers_failure((struct fake_script){.answer = text},
                        strchr(answers[i], ' ') && strncmp(answers[i], "MOVED ", 6) &&
                                        strncmp(answers[i], "ASK ", 4)
                                ? answers[i]
                                : "server ");
        }
        /* What people would see is cut, and has no bytes that a terminal obeys. */
        memset(text, 'x', sizeof(text));
        memcpy(text, "-\033[31m\xff", 7);
        memcpy(text + sizeof(text) - 3, "\r\n", 3);
        answers_failure((struct fake_script){.answer = text}, "?[31m?xxx");
}

static void test_cut(void **state) {
        static const char *const answers[] = {"$", "$5", "$5\r", "$5\r\n", "$5\r\nhel",
                "$5\r\nhello", "$5\r\nhello\r", "-ERR", "+", ":1"};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
                answers_failure((struct fake_script){.answer = answers[i], .then = FAKE_CLOSE},
                        "closed the connection");
        /* Also before anything is said. */
        answers_failure((struct fake_script){.greeting = "-ERR max number of clients reached\r\n",
                                .answer = "",
                                .then = FAKE_CLOSE},
                "max number of clients");
}

static void test_endless(void **state) {
        static const char *const answers[] = {"a", "+", "-", ":", "1", "$", "*", "\r", "\n"};
        char text[64] = "+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
                answers_failure(
                        (struct fake_script){.answer = answers[i], .then = FAKE_REPEAT}, "server ");
        answers_failure((struct fake_script){.answer = text, .then = FAKE_REPEAT},
                "does not speak the protocol");
        text[0] = '-';
        answers_failure((struct fake_script){.answer = text, .then = FAKE_REPEAT},
                "does not speak the protocol");
        /* More behind a value than was asked for: the connection is not used again. */
        answers_value((struct fake_script){.answer = "$1\r\nx\r\n", .then = FAKE_REPEAT}, "x");
}

static void test_more_than_asked(void **state) {
        struct fake f;
        struct rig rig;

        (void)state;
        fake_start(&f, (struct fake_script){.answer = "$1\r\nx\r\n$1\r\ny\r\n"});
        rig_open(&rig, f.uri);
        for (unsigned i = 0; i < 3; i++)
                rig_expect_value(&rig, key, "x");
        assert_int_equal(rig_stats(&rig).n_connects, 3);
        rig_close(&rig);
        fake_stop(&f);
}

/* A byte now and then is an answer that lasts until the call's time is over. */
static void test_drip(void **state) {
        struct fake f;
        struct rig rig;
        uint64_t began = clock_monotonic_usec();

        (void)state;
        fake_start(&f, (struct fake_script){.answer = "$60000\r\nxxxxxxxx", .then = FAKE_DRIP});
        rig_open(&rig, f.uri);
        rig_expect(&rig, rig_get_until(&rig, key, &got, began + 200000), -ERR_UNAVAILABLE,
                "not answer");
        assert_true(clock_monotonic_usec() - began < RIG_SOON);
        rig_close(&rig);
        fake_stop(&f);
}

/* One that reads nothing, or writes and does not read, does not hold those who have much to say. */
static void test_deaf(void **state) {
        enum { N = 600 };
        struct remote_value *values = calloc(N, sizeof(*values));
        char *data = calloc(1, RIG_MAX_VALUE);
        struct remote_options o;
        struct fake f;
        struct rig rig;

        (void)state;
        assert_non_null(values);
        assert_non_null(data);
        for (unsigned i = 0; i < N; i++)
                values[i] = (struct remote_value){rig_key("deaf", i), data, RIG_MAX_VALUE};
        for (int writes = 0; writes < 2; writes++) {
                uint64_t began = clock_monotonic_usec();

                fake_start(&f, (struct fake_script){.then = writes ? FAKE_REPEAT : FAKE_DEAF,
                                       .answer = "+OK\r\n"});
                o = rig_options(f.uri);
                o.timeout_usec = 100000;
                rig_open_with(&rig, o);
                rig_expect(&rig, remote_put(rig.r, values, N, 1, began + 500000, &rig.e),
                        -ERR_UNAVAILABLE, "");
                assert_true(clock_monotonic_usec() - began < RIG_SOON);
                rig_close(&rig);
                fake_stop(&f);
                assert_true(atomic_load(&f.n_sent) < ENOUGH);
        }
        free(data);
        free(values);
}

/* --- servers that send elsewhere --- */

/* One GET at a port, where answers may name the port. */
static void redirected(
        const char *answer, const char *asking, const char *slots, const char *words) {
        char text[256];
        struct fake f;
        struct rig rig;

        fake_start_tcp(&f, (struct fake_script){.asking = asking, .slots = slots}, answer, text,
                sizeof(text));
        rig_open(&rig, f.uri);
        rig_expect(&rig, rig_get(&rig, key, &got), -ERR_UNAVAILABLE, words);
        assert_false(got.called);
        rig_close(&rig);
        fake_stop(&f);
        assert_true(atomic_load(&f.n_sent) < ENOUGH);
}

static void test_circles(void **state) {
        (void)state;
        redirected("-MOVED 1 %s\r\n", NULL, NULL, "in circles");
        redirected("-MOVED 16383 %s\r\n", NULL, "-ERR no\r\n", "in circles");
        redirected("-ASK 1 %s\r\n", "+OK\r\n", NULL, "in circles");
        redirected("-ASK 1 %s\r\n", "-ERR This instance has cluster support disabled\r\n", NULL,
                "cluster support");
        redirected("-ASK 1 %s\r\n", "$2\r\nOK\r\n", NULL, "what it was not asked");
        redirected("-ASK 1 %s\r\n", "$999999\r\n", NULL, "what it was not asked");
        redirected("-TRYAGAIN %s\r\n", NULL, NULL, "TRYAGAIN");
        redirected("-MOVED 16384 %s\r\n", NULL, NULL, "MOVED 16384");
        redirected("-MOVED -1 %s\r\n", NULL, NULL, "MOVED -1");
        redirected("-MOVED 1 127.0.0.1:0\r\n", NULL, NULL, "MOVED 1");
        redirected("-MOVED 1 ?:7000\r\n", NULL, NULL, "MOVED 1");
        redirected(
                "-MOVED 1 127.0.0.1:1\r\n", NULL, NULL, "server 127.0.0.1:1: Connection refused");
        /* No name is that of who answers. */
        redirected("-MOVED 1 :1\r\n", NULL, NULL, "server 127.0.0.1:1: Connection refused");
}

static void test_no_cluster_by_socket(void **state) {
        (void)state;
        answers_failure((struct fake_script){.answer = "-MOVED 1 127.0.0.1:7000\r\n"},
                "through a Unix socket");
        answers_failure((struct fake_script){.answer = "-ASK 1 127.0.0.1:7000\r\n"},
                "through a Unix socket");
}

/* What CLUSTER SLOTS answers does no harm, whatever it is. */
static void test_slots(void **state) {
        static const char *const slots[] = {"*0\r\n", "*-1\r\n", "+OK\r\n", ":1\r\n",
                "$5\r\nhello\r\n", "$999999\r\n", "*1\r\n*0\r\n", "*1\r\n+x\r\n", "*1\r\n:1\r\n",
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
                "*1\r\n*3\r\n:-5\r\n:99999999\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
                "*1\r\n*3\r\n:9\r\n:0\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:99999\r\n",
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n:1\r\n$9\r\n127.0.0.1\r\n",
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:1\r\n",
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:1\r\n",
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:1\r\n",
                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
                "*2147483647\r\n", "*99999999999\r\n", "*3\r\n:1\r\n", "garbage\r\n"};

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
                /* An answer that is not ended is waited for, but no longer than the call may take. */
                char text[256];
                struct fake f;
                struct rig rig;

                fake_start_tcp(&f, (struct fake_script){.slots = slots[i]}, "-MOVED 1 %s\r\n", text,
                        sizeof(text));
                rig_open(&rig, f.uri);
                assert_int_equal(rig_get_until(&rig, key, &got, clock_monotonic_usec() + 500000),
                        -ERR_UNAVAILABLE);
                rig_close(&rig);
                fake_stop(&f);
        }
}

static void test_endless_slots(void **state) {
        static const char range[] = "*3\r\n:0\r\n:5\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n";
        const size_t n = 19999, size = strlen(range);
        char *slots = malloc(n * size + 32);
        size_t used;

        (void)state;
        assert_non_null(slots);
        used = (size_t)sprintf(slots, "*%zu\r\n", n + 1); /* one more than there are */
        for (size_t i = 0; i < n; i++, used += size)
                memcpy(slots + used, range, size + 1);
        redirected("-MOVED 1 %s\r\n", NULL, "*20001\r\n", "in circles");
        /* The list goes on with what stands in it, to the end of its bytes. */
        slots[used - 1] = '\n';
        {
                char text[64];
                struct fake f;
                struct rig rig;

                fake_start_tcp(&f, (struct fake_script){.slots = slots, .then = FAKE_ANSWER},
                        "-MOVED 1 %s\r\n", text, sizeof(text));
                rig_open(&rig, f.uri);
                assert_int_equal(rig_get_until(&rig, key, &got, clock_monotonic_usec() + 500000),
                        -ERR_UNAVAILABLE);
                rig_close(&rig);
                fake_stop(&f);
                assert_true(atomic_load(&f.n_sent) < ENOUGH);
        }
        free(slots);
}

/* --- answers that are nearly right --- */

static uint32_t draw(uint64_t *seed) {
        *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
        return (uint32_t)(*seed >> 33);
}

static void test_mutated(void **state) {
        static const char *const answers[] = {"$5\r\nhello\r\n", "-MOVED 1 127.0.0.1:1\r\n",
                "-ASK 5 x:1\r\n", "$-1\r\n", "+OK\r\n", ":12\r\n", "*2\r\n$1\r\na\r\n:1\r\n"};
        uint64_t seed = 17;

        (void)state;
        for (unsigned round = 0; round < 400; round++) {
                char text[64];
                size_t n;
                struct fake f;
                struct rig rig;
                int r;

                strcpy(text, answers[draw(&seed) % ARRAY_SIZE(answers)]);
                n = strlen(text);
                for (unsigned k = draw(&seed) % 3 + 1; k > 0; k--)
                        text[draw(&seed) % n] = "\r\n$*+-:0159\0\xff"[draw(&seed) % 13];
                fake_start(&f, (struct fake_script){.answer = text, .size = n, .then = FAKE_CLOSE});
                rig_open(&rig, f.uri);
                r = rig_get(&rig, key, &got);
                assert_true(r == 0 || r == -ERR_UNAVAILABLE);
                assert_int_equal(got.called, r == 0);
                rig_close(&rig);
                fake_stop(&f);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_broken),
                cmocka_unit_test(test_not_asked),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_endless),
                cmocka_unit_test(test_more_than_asked),
                cmocka_unit_test(test_drip),
                cmocka_unit_test(test_deaf),
                cmocka_unit_test(test_circles),
                cmocka_unit_test(test_no_cluster_by_socket),
                cmocka_unit_test(test_slots),
                cmocka_unit_test(test_endless_slots),
                cmocka_unit_test(test_mutated),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
