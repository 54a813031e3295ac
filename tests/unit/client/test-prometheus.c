/* SPDX-License-Identifier: MIT */
/* Prometheus' text: that it keeps to the format, whatever daemons say, and what it says. Copies of figures. */
#include "base/util.h"
#include "client/prometheus.h"
#include "client/stats-copy.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t bounds[] = {100, 200, 838860800}, counts[] = {3, 0, 4, 2};
static const struct confab_histogram histograms[] = {
        {"queue", 9, 1500000, bounds, 3, counts},
        {"from the future", 9, 1500000, bounds, 3, counts},
};
static const struct confab_stat named[] = {
        {"steps", 5}, {"Not a name", 1}, {"steps", 6}, {"", 1}, {"budget", UINT64_MAX}};
static const struct confab_user own = {.uid = 1000, .n_tokens = 7};
static const struct confab_user users[] = {{.uid = 7, .ram_size = 70, .requests_total = 3},
        {.uid = 7, .tenant = "a\"b\\c\nd", .ram_size = 71}, {.uid = 8, .tenant = ""}};
static const struct confab_rates rates[] = {{10, 1.5F, 2, 3}, {60, 4, 5, 6}};
static const struct confab_stats rich = {.stats = named,
        .n_stats = ARRAY_SIZE(named),
        .all_users = true,
        .version = "1.2\"3",
        .started_usec = 1,
        .uptime_usec = 2500000,
        .time_usec = 4,
        .since_usec = 5,
        .histograms = histograms,
        .n_histograms = ARRAY_SIZE(histograms),
        .rates = rates,
        .n_rates = 2,
        .own_rates = rates,
        .n_own_rates = 1,
        .own = &own,
        .users = users,
        .n_users = ARRAY_SIZE(users),
        .more_users = true};
static const struct confab_stats plain = {.version = "0.1.0", .started_usec = 1, .own = &own};
static const struct confab_stats old = {.stats = named, .n_stats = 1, .version = ""};
static const struct prometheus_daemon daemons[] = {
        {"m\"1", true, &rich}, {"m2", true, &plain}, {"m2", true, &old}, {"", false, NULL}};

/* ---- a reader of the format ---- */

struct reader {
        char family[128]; /* that HELP and TYPE named last */
        char type[16];
        char seen[200][128]; /* all families */
        size_t n_seen;
        char *samples[4096]; /* names with labels, owned */
        size_t n_samples;
        double last; /* value of the last bucket */
        char last_labels[512];
};

static void take_head(struct reader *r, const char *line) {
        char kind[8], name[128], rest[256];

        assert_int_equal(sscanf(line, "# %7s %127s %255[^\n]", kind, name, rest), 3);
        if (strcmp(kind, "HELP") == 0) {
                for (size_t i = 0; i < r->n_seen; i++)
                        assert_string_not_equal(r->seen[i], name);
                strcpy(r->seen[r->n_seen++], name);
                strcpy(r->family, name);
                r->type[0] = '\0';
                return;
        }
        assert_string_equal(kind, "TYPE");
        assert_string_equal(name, r->family);
        assert_string_equal(r->type, "");
        assert_true(strlen(rest) < sizeof(r->type));
        strcpy(r->type, rest);
}

/* The end of labels that begin at @p, behind the brace. Each is NAME="VALUE". */
static const char *labels_end(const char *p) {
        for (;;) {
                size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");

                assert_true(n > 0 && p[n] == '=' && p[n + 1] == '"');
                for (p += n + 2; *p != '"'; p++) {
                        assert_true(*p && *p != '\n');
                        if (*p == '\\')
                                assert_non_null(strchr("\\\"n", *++p));
                }
                if (*++p == '}')
                        return p + 1;
                assert_int_equal(*p++, ',');
        }
}

/* Buckets rise up to +Inf, which _count repeats. */
static void take_bucket(struct reader *r, const char *name, const char *labels, double value) {
        const char *le = strstr(labels, "le=\"");
        char others[512];

        if (strcmp(name + strlen(r->family), "_bucket") == 0) {
                assert_non_null(le);
                snprintf(others, sizeof(others), "%.*s", (int)(le - labels), labels);
                if (strcmp(others, r->last_labels) == 0)
                        assert_true(value >= r->last);
                strcpy(r->last_labels, others);
                r->last = value;
        } else if (strcmp(name + strlen(r->family), "_count") == 0) {
                assert_true(value == r->last);
        } else {
                assert_string_equal(name + strlen(r->family), "_sum");
        }
}

static void take_sample(struct reader *r, const char *line) {
        char name[128] = "", *end, sample[512];
        size_t n = strcspn(line, "{ ");
        const char *p = line + n;
        double value;

        memcpy(name, line, n);
        assert_int_equal(strncmp(name, r->family, strlen(r->family)), 0);
        if (*p == '{')
                p = labels_end(p + 1);
        assert_int_equal(*p, ' ');
        value = strtod(p + 1, &end);
        assert_int_equal(*end, '\n');
        snprintf(sample, sizeof(sample), "%.*s", (int)(p - line), line);
        for (size_t i = 0; i < r->n_samples; i++)
                assert_string_not_equal(r->samples[i], sample);
        r->samples[r->n_samples++] = strdup(sample);
        if (strcmp(r->type, "histogram") == 0) {
                take_bucket(r, name, line + n, value);
                return;
        }
        assert_string_equal(name, r->family);
        assert_true(strcmp(r->type, "counter") == 0 || strcmp(r->type, "gauge") == 0 ||
                    strcmp(r->type, "untyped") == 0);
        if (strcmp(r->type, "counter") == 0)
                assert_string_equal(name + strlen(name) - 6, "_total");
}

static void check(const char *text) {
        static struct reader r;

        r = (struct reader){.family = ""};
        for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
                assert_non_null(strchr(line, '\n'));
                if (*line == '#')
                        take_head(&r, line);
                else
                        take_sample(&r, line);
        }
        for (size_t i = 0; i < r.n_samples; i++)
                free(r.samples[i]);
}

static char *written(const struct prometheus_daemon *of, size_t n) {
        struct buf out = BUF_NULL;
        struct prometheus text = {.out = &out};
        char *all;

        prometheus_put_daemons(&text, of, n);
        assert_int_equal(text.r, 0);
        all = strndup((char *)out.data, out.size);
        buf_deinit(&out);
        return all;
}

/* ---- what it says ---- */

static void has(const char *text, const char *lines) {
        if (!strstr(text, lines))
                fail_msg("'%s' is not in:\n%s", lines, text);
}

static void test_format(void **state) {
        char *text = written(daemons, ARRAY_SIZE(daemons));

        check(text);
        has(text, "confab_daemon_up{daemon=\"3\",model=\"\"} 0\n");
        has(text, "confab_uptime_seconds{daemon=\"0\",model=\"m\\\"1\"} 2.500000\n"
                  "confab_uptime_seconds{daemon=\"1\",model=\"m2\"} 0.000000\n# ");
        has(text, "confab_build_info{daemon=\"0\",model=\"m\\\"1\",version=\"1.2\\\"3\"} 1\n");
        has(text, "# TYPE confab_queue_seconds histogram\n"
                  "confab_queue_seconds_bucket{daemon=\"0\",model=\"m\\\"1\",le=\"0.0001\"} 3\n"
                  "confab_queue_seconds_bucket{daemon=\"0\",model=\"m\\\"1\",le=\"0.0002\"} 3\n"
                  "confab_queue_seconds_bucket{daemon=\"0\",model=\"m\\\"1\",le=\"838.8608\"} 7\n"
                  "confab_queue_seconds_bucket{daemon=\"0\",model=\"m\\\"1\",le=\"+Inf\"} 9\n"
                  "confab_queue_seconds_sum{daemon=\"0\",model=\"m\\\"1\"} 1.500000\n"
                  "confab_queue_seconds_count{daemon=\"0\",model=\"m\\\"1\"} 9\n");
        assert_null(strstr(text, "future"));
        assert_null(strstr(text, "Not a name"));
        free(text);
}

static void test_users(void **state) {
        char *text = written(daemons, ARRAY_SIZE(daemons));

        /* Those that the daemon told; of the second one, which told none, who asks. */
        has(text, "# TYPE confab_user_ram_bytes gauge\n"
                  "confab_user_ram_bytes{daemon=\"0\",model=\"m\\\"1\",uid=\"7\"} 70\n"
                  "confab_user_ram_bytes{daemon=\"0\",model=\"m\\\"1\",uid=\"7\",tenant="
                  "\"a\\\"b\\\\c\\nd\"} "
                  "71\n"
                  "confab_user_ram_bytes{daemon=\"0\",model=\"m\\\"1\",uid=\"8\"} 0\n"
                  "confab_user_ram_bytes{daemon=\"1\",model=\"m2\",uid=\"1000\"} 0\n# ");
        has(text, "confab_user_requests_total{daemon=\"0\",model=\"m\\\"1\",uid=\"7\"} 3\n");
        has(text, "confab_user_tokens{daemon=\"1\",model=\"m2\",uid=\"1000\"} 7\n");
        free(text);
}

/* A name that comes twice is told once; one of several daemons stands together. */
static void test_named(void **state) {
        char *text = written(daemons, ARRAY_SIZE(daemons));

        has(text, "# TYPE confab_daemon_steps untyped\n"
                  "confab_daemon_steps{daemon=\"0\",model=\"m\\\"1\"} 5\n"
                  "confab_daemon_steps{daemon=\"2\",model=\"m2\"} 5\n");
        has(text, "confab_daemon_budget{daemon=\"0\",model=\"m\\\"1\"} 18446744073709551615\n");
        free(text);
        text = written(daemons + 3, 1);
        check(text);
        free(text);
}

/* ---- copies ---- */

static void test_copy(void **state) {
        struct prometheus_daemon daemon = daemons[0];
        struct confab_stats *copy = stats_copy(&rich);
        char *before = written(&daemon, 1), *after;

        assert_non_null(copy);
        daemon.stats = copy;
        after = written(&daemon, 1);
        assert_string_equal(before, after);
        assert_ptr_not_equal(copy->histograms[0].buckets, counts);
        assert_ptr_not_equal(copy->users[1].tenant, users[1].tenant);
        assert_int_equal(copy->own->uid, 1000);
        assert_int_equal(copy->n_rates, 2);
        assert_true(copy->rates[1].requests == 6 && copy->own_rates[0].prefilled == 1.5F);
        assert_true(copy->more_users && copy->all_users);
        assert_int_equal(copy->since_usec, 5);
        free(copy);
        free(before);
        free(after);
        copy = stats_copy(&old);
        assert_non_null(copy);
        assert_null(copy->own);
        assert_int_equal(copy->n_histograms, 0);
        free(copy);
}

/* A daemon that says too much. */
static void test_copy_bounds(void **state) {
        static struct confab_stat many[STATS_COPY_MOST + 5];
        static uint64_t wide[STATS_COPY_MOST + 3];
        const struct confab_histogram h[] = {{"queue", 1, 1, wide, STATS_COPY_MOST + 1, wide},
                {"token", 1, 1, bounds, 3, counts}};
        const struct confab_stats stats = {.stats = many,
                .n_stats = ARRAY_SIZE(many),
                .histograms = h,
                .n_histograms = 2,
                .version = ""};
        struct confab_stats *copy;

        for (size_t i = 0; i < ARRAY_SIZE(many); i++)
                many[i].name = "x";
        copy = stats_copy(&stats);
        assert_non_null(copy);
        assert_int_equal(copy->n_stats, STATS_COPY_MOST);
        assert_int_equal(copy->n_histograms, 1);
        assert_string_equal(copy->histograms[0].name, "token");
        assert_int_equal(copy->histograms[0].buckets[2], 4);
        free(copy);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_format),
                cmocka_unit_test(test_users),
                cmocka_unit_test(test_named),
                cmocka_unit_test(test_copy),
                cmocka_unit_test(test_copy_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
