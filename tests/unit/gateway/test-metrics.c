/* SPDX-License-Identifier: MIT */
/* Figures as text, and what replies are counted as. */
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/metrics.h"
#include "util/test.h"
#include <string.h>

static const struct confab_stat named_a[] = {{"first", 1}, {"second", 18446744073709551615u}};
static const struct confab_stat named_b[] = {{"second", 5}, {"third", 6}, {"not a name", 7}};
static const struct confab_stats stats_a = {.stats = named_a, .n_stats = 2, .version = ""};
static const struct confab_stats stats_b = {.stats = named_b, .n_stats = 3, .version = ""};
static const struct metrics_daemon daemons[] = {
        {.told = {.model = "a\"b\\c\nd", .up = true, .stats = &stats_a},
                .meter = {.n_replies = 3, .first_usec = 1500000}},
        {.told = {.model = "a", .up = true, .stats = &stats_b}},
        {.told = {.model = ""}},
};

/* The lines that begin with @begin. */
static const char *lines_of(const struct buf *text, const char *begin) {
        static char found[4096];
        size_t n = 0;

        found[0] = '\0';
        for (const char *line = (const char *)text->data; *line;) {
                const char *end = strchr(line, '\n');

                assert_non_null(end);
                if (strncmp(line, begin, strlen(begin)) == 0) {
                        assert_true(n + (size_t)(end - line) + 2 < sizeof(found));
                        memcpy(found + n, line, (size_t)(end - line) + 1);
                        n += (size_t)(end - line) + 1;
                        found[n] = '\0';
                }
                line = end + 1;
        }
        return found;
}

static void test_daemons(void **state) {
        struct buf text = BUF_NULL;

        assert_int_equal(metrics_write(&text, NULL, daemons, 3), 0);
        assert_string_equal(lines_of(&text, "confab_daemon_up"),
                "confab_daemon_up{daemon=\"0\",model=\"a\\\"b\\\\c\\nd\"} 1\n"
                "confab_daemon_up{daemon=\"1\",model=\"a\"} 1\n"
                "confab_daemon_up{daemon=\"2\",model=\"\"} 0\n");
        /* a figure of two daemons stands together, whatever its place */
        assert_non_null(strstr((char *)text.data,
                "# TYPE confab_daemon_second untyped\n"
                "confab_daemon_second{daemon=\"0\",model=\"a\\\"b\\\\c\\nd\"} "
                "18446744073709551615\n"
                "confab_daemon_second{daemon=\"1\",model=\"a\"} 5\n"));
        assert_string_equal(lines_of(&text, "confab_daemon_third"),
                "confab_daemon_third{daemon=\"1\",model=\"a\"} 6\n");
        assert_string_equal(lines_of(&text, "# TYPE confab_daemon_second"),
                "# TYPE confab_daemon_second untyped\n");
        assert_null(strstr((char *)text.data, "not a name"));
        assert_null(strstr((char *)text.data, "confab_gateway_"));
        buf_deinit(&text);
}

static void test_gateway(void **state) {
        const struct metrics_answers answers[] = {{.dialect = "openai", .n = {0, 0, 7, 0, 8, 9}}};
        const struct metrics_gateway gateway = {.http = {.n_connections = 4},
                .lines = {.n_failed = 2},
                .answers = answers,
                .n_answers = 1};
        struct buf text = BUF_NULL;

        assert_int_equal(metrics_write(&text, &gateway, daemons, 3), 0);
        assert_string_equal(
                lines_of(&text, "confab_gateway_connections "), "confab_gateway_connections 4\n");
        assert_string_equal(lines_of(&text, "confab_gateway_lines_failed_total"),
                "confab_gateway_lines_failed_total 2\n");
        assert_string_equal(lines_of(&text, "confab_gateway_answers_total"),
                "confab_gateway_answers_total{dialect=\"openai\",status=\"2xx\"} 7\n"
                "confab_gateway_answers_total{dialect=\"openai\",status=\"3xx\"} 0\n"
                "confab_gateway_answers_total{dialect=\"openai\",status=\"4xx\"} 8\n"
                "confab_gateway_answers_total{dialect=\"openai\",status=\"5xx\"} 9\n");
        assert_string_equal(lines_of(&text, "confab_gateway_replies_total{daemon=\"0\""),
                "confab_gateway_replies_total{daemon=\"0\",model=\"a\\\"b\\\\c\\nd\"} 3\n");
        assert_string_equal(lines_of(&text, "confab_gateway_first_token_seconds_sum{daemon=\"0\""),
                "confab_gateway_first_token_seconds_sum{daemon=\"0\",model=\"a\\\"b\\\\c\\nd\"} "
                "1.500000\n");
        buf_deinit(&text);
}

/* Names of models are as long as daemons let them be. */
static void test_long_name(void **state) {
        char name[256];
        struct metrics_daemon daemon = {.told = {.model = name, .up = true}};
        struct buf text = BUF_NULL;

        memset(name, '"', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        assert_int_equal(metrics_write(&text, NULL, &daemon, 1), 0);
        assert_int_equal(strlen(lines_of(&text, "confab_daemon_up")),
                strlen("confab_daemon_up{daemon=\"0\",model=\"\"} 1\n") + 2 * 255);
        buf_deinit(&text);
}

/* ---- replies ---- */

static void see_delta(struct meter *meter, struct meter_watch *watch, size_t n_tokens) {
        const struct confab_token token = {.token = 1};
        const struct confab_delta delta = {.tokens = &token, .n_tokens = n_tokens};
        const struct confab_event event = {.kind = CONFAB_EVENT_DELTA, .delta = &delta};

        meter_see(meter, watch, &event);
}

static void see_done(struct meter *meter, const struct confab_done *done) {
        const struct confab_event event = {.kind = CONFAB_EVENT_DONE, .final = true, .done = done};

        meter_see(meter, &(struct meter_watch){}, &event);
}

static void test_first(void **state) {
        uint64_t n = 0, sum = 0;
        struct meter meter = {};

        for (size_t i = 0; i < METER_N_BOUNDS; i++) {
                uint64_t ago = (uint64_t)(meter_bounds[i] * 1e6) - 1000;
                struct meter_watch watch = {.since_usec = clock_monotonic_usec() - ago};

                see_delta(&meter, &watch, 0);
                assert_false(watch.has_first);
                see_delta(&meter, &watch, 1);
                assert_true(watch.has_first);
                see_delta(&meter, &watch, 1); /* the second one is not timed */
                sum += ago;
        }
        for (size_t i = 0; i <= METER_N_BOUNDS; i++)
                n += meter.n_first[i];
        assert_int_equal(n, METER_N_BOUNDS);
        assert_true(meter.first_usec >= sum);
}

/* A time beyond all bounds. */
static void test_late(void **state) {
        struct meter_watch watch = {.since_usec = clock_monotonic_usec() - 61000000};
        struct meter meter = {};

        see_delta(&meter, &watch, 1);
        assert_int_equal(meter.n_first[METER_N_BOUNDS], 1);
}

static void test_done(void **state) {
        struct meter meter = {};

        see_done(&meter, &(struct confab_done){.finish = CONFAB_FINISH_STOP,
                                 .n_prompt = 10,
                                 .n_computed = 4,
                                 .n_generated = 3});
        /* the prompt was counted only */
        see_done(&meter, &(struct confab_done){.finish = CONFAB_FINISH_CANCELLED, .n_prompt = 10});
        see_done(&meter, &(struct confab_done){.finish = CONFAB_FINISH_CANCELLED,
                                 .n_prompt = 5,
                                 .n_computed = 5,
                                 .n_generated = 1});
        assert_int_equal(meter.n_replies, 2);
        assert_int_equal(meter.n_prompt, 15);
        assert_int_equal(meter.n_cached, 6);
        assert_int_equal(meter.n_generated, 4);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_daemons),
                cmocka_unit_test(test_gateway),
                cmocka_unit_test(test_long_name),
                cmocka_unit_test(test_first),
                cmocka_unit_test(test_late),
                cmocka_unit_test(test_done),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
