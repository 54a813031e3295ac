/* SPDX-License-Identifier: MIT */
/* stats: what is asked, and the overview, JSON and Prometheus' text of what is told. */
#include "cli-fixture.h"

static uint64_t bounds[] = {100, 200, 400}, buckets[] = {0, 10, 0, 0}, late[] = {0, 0, 0, 1};
static Confab__V1__User own = CONFAB__V1__USER__INIT;
static Confab__V1__Stat steps = CONFAB__V1__STAT__INIT, *stats[] = {&steps};
static Confab__V1__Histogram queue = CONFAB__V1__HISTOGRAM__INIT,
                             decode = CONFAB__V1__HISTOGRAM__INIT,
                             wrong = CONFAB__V1__HISTOGRAM__INIT,
                             *histograms[] = {&queue, &wrong, &decode};
static Confab__V1__Rates minute = CONFAB__V1__RATES__INIT, *rates[] = {&minute};
static Confab__V1__User anna = CONFAB__V1__USER__INIT, *users[] = {&own, &anna};

/* Numbers that no user has. */
#define NOBODY 4100000001u

static Confab__V1__StatsResult answer(void) {
        Confab__V1__StatsResult m = CONFAB__V1__STATS_RESULT__INIT;

        steps.name = proto_borrow("steps");
        steps.has_value = true;
        steps.value = 5;
        queue.name = proto_borrow("queue");
        queue.n_bounds_usec = decode.n_bounds_usec = 3;
        queue.bounds_usec = decode.bounds_usec = bounds;
        queue.n_buckets = decode.n_buckets = 4;
        queue.buckets = buckets;
        queue.has_count = queue.has_sum_usec = true;
        queue.count = 10;
        queue.sum_usec = 1600;
        decode.name = proto_borrow("decode");
        decode.buckets = late;
        decode.has_count = true;
        decode.count = 1;
        wrong.name = proto_borrow("wrong"); /* fewer buckets than bounds */
        wrong.n_bounds_usec = 3;
        wrong.bounds_usec = bounds;
        minute.has_seconds = minute.has_prefilled = minute.has_decoded = minute.has_requests = true;
        minute.seconds = 60;
        minute.prefilled = 1234.5F;
        minute.decoded = 20.25F;
        minute.requests = 0.5F;
        own.has_uid = anna.has_uid = own.has_requests_total = own.has_ram_bytes = true;
        own.uid = anna.uid = NOBODY;
        own.requests_total = 7;
        own.ram_bytes = 1024 * 1024;
        anna.tenant = proto_borrow("anna");
        m.stats = stats;
        m.n_stats = 1;
        m.has_all_users = m.all_users = true;
        m.version = proto_borrow("9.9\x1b");
        m.has_started_usec = m.has_uptime_usec = m.has_time_usec = m.has_since_usec = true;
        m.started_usec = 1000000;
        m.uptime_usec = 7200000000;
        m.time_usec = 7201000000;
        m.since_usec = 1000001;
        m.histograms = histograms;
        m.n_histograms = 3;
        m.rates = m.own_rates = rates;
        m.n_rates = m.n_own_rates = 1;
        m.own = &own;
        return m;
}

static void tell(struct fixture *f, uint64_t id, Confab__V1__StatsResult *m) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_STATS;
        event.stats = m;
        peer_send(&f->peer, &event);
}

static struct proto_message *asked(struct fixture *f) {
        struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(STATS));
        return m;
}

#define OVERVIEW                                                                                   \
        "confabd 9.9\x1b, up 2h; figures of all users\n\n"                                         \
        "per second          60s\n"                                                                \
        "  prompt tokens    1234\n"                                                                \
        "  reply tokens     20.2\n"                                                                \
        "  requests          0.5\n\n"                                                              \
        "times                count     p50     p90     p99\n"                                     \
        "  queue                 10  0.15ms  0.19ms  0.20ms\n"                                     \
        "  decode                 1  0.40ms  0.40ms  0.40ms\n\n"                                   \
        " CONVS    TOKENS    RAM   DISK  REQS  CONNS  PREFILLED    DECODED  USED  USER\n"          \
        "     0         0   1.0M      0     0      0          0          0     -  4100000001\n"
#define FIGURES "\n# Conversations and requests\nsteps 5\n"

static void test_overview(void **state) {
        Confab__V1__StatsResult result = answer();
        struct proto_message *m;
        struct fixture f;

        (void)state;
        BEGIN(&f, "stats");
        m = asked(&f);
        assert_false(m->request->stats->has_with_users || m->request->stats->has_uid);
        tell(&f, m->request->id, &result);
        proto_message_free(m);
        finish(&f, 0, OVERVIEW FIGURES, NULL);
        START(&f, "stats", "--users");
        greet(&f);
        m = asked(&f);
        assert_true(m->request->stats->with_users);
        result.users = users;
        result.n_users = 2;
        result.has_more_users = result.more_users = true;
        tell(&f, m->request->id, &result);
        proto_message_free(m);
        finish(&f, 0,
                OVERVIEW "     0         0      0      0     0      0          0          0     -  "
                         "4100000001:anna\n"
                         "(others have less in RAM: confab admin users)\n" FIGURES,
                NULL);
        teardown(&f);
}

static void test_json(void **state) {
        Confab__V1__StatsResult result = answer();
        struct proto_message *m;
        struct fixture f;

        (void)state;
        BEGIN(&f, "stats", "--json", "--user", "4100000001:anna");
        m = asked(&f);
        assert_int_equal(m->request->stats->uid, NOBODY);
        assert_string_equal(m->request->stats->tenant, "anna");
        result.n_histograms = 1;
        tell(&f, m->request->id, &result);
        proto_message_free(m);
        finish(&f, 0,
                "{\"steps\":5,\"all_users\":true,\"version\":\"9.9\\u001b\",\"started_usec\":"
                "1000000,"
                "\"uptime_usec\":7200000000,\"time_usec\":7201000000,\"since_usec\":1000001,"
                "\"histograms\":[{\"name\":\"queue\",\"count\":10,\"sum_usec\":1600,"
                "\"p50_usec\":150,\"p90_usec\":190,\"p99_usec\":199,"
                "\"bounds_usec\":[100,200,400],\"buckets\":[0,10,0,0]}],"
                "\"rates\":[{\"seconds\":60,\"prefilled\":1234.5,\"decoded\":20.25,\"requests\":0."
                "5}],"
                "\"own\":{\"uid\":4100000001,\"conversations\":0,\"tokens\":0,\"ram_bytes\":"
                "1048576,"
                "\"disk_bytes\":0,\"requests\":0,\"connections\":0,\"requests_total\":7,"
                "\"tokens_prefilled\":0,\"tokens_decoded\":0},"
                "\"own_rates\":[{\"seconds\":60,\"prefilled\":1234.5,\"decoded\":20.25,"
                "\"requests\":0.5}]"
                "}\n",
                NULL);
        teardown(&f);
}

static void test_prometheus(void **state) {
        Confab__V1__ModelInfoResult info = CONFAB__V1__MODEL_INFO_RESULT__INIT;
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__StatsResult result = answer();
        struct proto_message *m;
        struct fixture f;

        (void)state;
        BEGIN(&f, "stats", "--prometheus");
        info.name = proto_borrow("tiny");
        event.has_request = true;
        event.request = expect(&f, REQ(MODEL_INFO));
        event.kind_case = CONFAB__V1__EVENT__KIND_MODEL_INFO;
        event.model_info = &info;
        peer_send(&f.peer, &event);
        m = asked(&f);
        assert_true(m->request->stats->with_users);
        tell(&f, m->request->id, &result);
        proto_message_free(m);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "# HELP confab_daemon_up Whether the daemon has answered.\n"
                                       "# TYPE confab_daemon_up "
                                       "gauge\nconfab_daemon_up{daemon=\"0\",model=\"tiny\"} 1\n"));
        assert_non_null(strstr(f.text,
                "confab_queue_seconds_bucket{daemon=\"0\",model=\"tiny\",le=\"0.0002\"} 10\n"));
        assert_non_null(strstr(f.text,
                "confab_user_ram_bytes{daemon=\"0\",model=\"tiny\",uid=\"4100000001\"} 1048576\n"));
        assert_non_null(strstr(f.text, "confab_daemon_steps{daemon=\"0\",model=\"tiny\"} 5\n"));
        teardown(&f);
}

static void test_usage(void **state) {
        struct fixture f;

        (void)state;
        setup(&f);
        START(&f, "stats", "--prometheus", "--json");
        finish(&f, 2, NULL, "two forms");
        START(&f, "stats", "--user", "root", "--users");
        finish(&f, 2, NULL, "--users are all");
        START(&f, "stats", "--user", "#12");
        finish(&f, 2, NULL, "is a conversation");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_overview),
                cmocka_unit_test(test_json),
                cmocka_unit_test(test_prometheus),
                cmocka_unit_test(test_usage),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-stats PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
