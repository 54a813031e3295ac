/* SPDX-License-Identifier: MIT */
/* How long things take, and how often they happen: of all owners, and of each. */
#include <string.h>

#include "base/util.h"
#include "inside.h"
#include "rig.h"
#include "util/test.h"

static struct answer A, B;

static struct engine_request as(struct engine_request q, uint64_t owner) {
        q.owner = owner;
        q.has_quotas = true; /* as the daemon sends those of clients */
        q.quotas = QUOTAS_NONE;
        return q;
}

static uint64_t say_as(struct erig *r, uint64_t owner, uint32_t max_tokens) {
        struct engine_request q = as((struct engine_request){.verb = ENGINE_OPEN}, owner);
        uint64_t id;

        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
        id = A.conv.id;
        q = as(erig_long_request(id, "Count from one to a hundred.", max_tokens), owner);
        assert_int_equal(erig_do(r, &q, &A), ENGINE_DONE);
        return id;
}

static const struct engine_meters *ask(struct erig *r, uint64_t owner) {
        struct engine_request q = {.verb = ENGINE_STATS, .owner = owner, .want_meters = true};

        assert_int_equal(erig_do(r, &q, &B), ENGINE_STATS_RESULT);
        return &B.meters;
}

static uint64_t n_of(const struct engine_meter *meter, enum engine_latency latency) {
        return histogram_count(&meter->latencies[latency]);
}

static void memory_verb(struct erig *r, enum engine_verb verb, uint64_t id) {
        struct engine_request q = {.verb = verb, .owner = 1000, .conv_id = id, .fd = -1};

        assert_int_equal(erig_do(r, &q, &A), ENGINE_CONV);
}

static void test_stages(void **state) {
        struct engine_options o = erig_options(64 << 20);
        const struct engine_meters *m;
        uint64_t id, sum;
        struct erig r;

        erig_open(&r, &o);
        m = ask(&r, 1000);
        assert_int_equal(m->own.since_usec, 0);
        assert_true(m->all.since_usec > 0);
        assert_int_equal(n_of(&m->all, ENGINE_LATENCY_QUEUE), 0);
        id = say_as(&r, 1000, 20);
        say_as(&r, 2000, 5);
        m = ask(&r, 1000);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_QUEUE), 1);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_RESTORE), 0);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_PREFILL), 1);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_FIRST_TOKEN), 1);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_TOKEN), 19);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_DECODE), 1);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_COMMIT), 2); /* of the input, of the reply */
        /* The parts make up the whole. Tokens of one step share its time, rounded down. */
        sum = m->own.latencies[ENGINE_LATENCY_TOKEN].sum_usec;
        assert_in_range(m->own.latencies[ENGINE_LATENCY_DECODE].sum_usec, sum, UINT64_MAX);
        assert_in_range(m->own.latencies[ENGINE_LATENCY_FIRST_TOKEN].sum_usec,
                m->own.latencies[ENGINE_LATENCY_QUEUE].sum_usec +
                        m->own.latencies[ENGINE_LATENCY_PREFILL].sum_usec,
                UINT64_MAX);
        assert_int_equal(m->holding.owner, 1000);
        assert_int_equal(m->holding.uid, 1000);
        assert_true(m->holding.has_convs);
        assert_int_equal(m->holding.n_convs, 1);
        assert_true(m->holding.n_tokens > 20 && m->holding.ram_size > 0);
        assert_int_equal(m->holding.n_requests, 1); /* this one */
        assert_int_equal(n_of(&m->all, ENGINE_LATENCY_TOKEN), 19 + 4);
        assert_int_equal(n_of(&m->all, ENGINE_LATENCY_COMMIT), 4);
        /* Rates: of a second at least, so not more than what there was. */
        for (size_t w = 0; w < RATES_N_WINDOWS; w++) {
                assert_true(m->own.rates[w][RATE_DECODED] > 0);
                assert_true(m->own.rates[w][RATE_DECODED] <= 20);
                assert_true(m->all.rates[w][RATE_DECODED] > m->own.rates[w][RATE_DECODED]);
                assert_true(m->own.rates[w][RATE_PREFILLED] > 0);
                assert_true(m->own.rates[w][RATE_REQUESTS] > 0);
                assert_true(m->own.rates[w][RATE_REQUESTS] <= 2);
        }
        /* From disk; what the reply ended with is computed. Then there is nothing to restore or compute. */
        for (uint64_t i = 0; i < 2; i++) {
                if (i == 0)
                        memory_verb(&r, ENGINE_EVICT, id);
                memory_verb(&r, ENGINE_WARM, id);
                m = ask(&r, 1000);
                assert_int_equal(n_of(&m->own, ENGINE_LATENCY_RESTORE), 1);
                assert_int_equal(n_of(&m->own, ENGINE_LATENCY_QUEUE), 2 + i);
                assert_int_equal(n_of(&m->own, ENGINE_LATENCY_PREFILL), 2);
                assert_int_equal(n_of(&m->own, ENGINE_LATENCY_FIRST_TOKEN), 1);
        }
        m = ask(&r, 2000);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_RESTORE), 0);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_TOKEN), 4);
        erig_close(&r);
}

/* Without a reply, and with tokens that are never computed again. */
static void test_no_reply(void **state) {
        struct engine_options o = erig_options(64 << 20);
        const struct engine_meters *m;
        struct engine_request q;
        struct erig r;
        uint64_t id;

        erig_open(&r, &o);
        id = erig_new(&r, "a", NULL);
        q = erig_say_request(id, "Hello.", 0);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_DONE);
        m = ask(&r, q.owner);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_PREFILL), 1);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_COMMIT), 1);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_FIRST_TOKEN), 0);
        assert_int_equal(n_of(&m->own, ENGINE_LATENCY_DECODE), 0);
        assert_true(m->own.rates[0][RATE_DECODED] == 0);
        /* Not of a client: the daemon's and the engine's own requests are in no rate. */
        assert_true(m->all.rates[0][RATE_REQUESTS] == 0);
        erig_close(&r);
}

/* The time in which a client did not read is not the model's. With so little memory for events the engine can't
 * write the whole reply before it is paused. */
static void test_paused(void **state) {
        struct engine_options o = erig_options(erig_pool(60));
        struct engine_request q;
        struct erig r;

        erig_open(&r, &o);
        q = erig_long_request(erig_new(&r, "a", NULL), "Count from one to a hundred.", 1500);
        erig_send(&r, &q, &A);
        erig_wait_accepted(&r, &A);
        while (A.n_tokens < 2)
                erig_step(&r);
        engine_pause(r.en, q.handle, true);
        engine_pause(r.en, q.handle, false);
        erig_wait(&r, &A);
        assert_int_equal(A.kind, ENGINE_DONE);
        assert_int_equal(A.n_generated, 1500);
        assert_int_equal(n_of(&ask(&r, q.owner)->own, ENGINE_LATENCY_TOKEN), 1500 - 2);
        erig_close(&r);
}

/* Somebody else's, by uid and by label; one whom nobody knows. */
static void test_others(void **state) {
        struct engine_request q = {.verb = ENGINE_TENANT, .owner = 1000, .tenant = "anna"};
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t anna;

        erig_open(&r, &o);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_OWNER);
        anna = A.owner;
        say_as(&r, anna, 3);
        say_as(&r, 1000, 30);
        q = (struct engine_request){.verb = ENGINE_STATS,
                .owner = 0,
                .want_meters = true,
                .one_user = true,
                .uid = 1000};
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_STATS_RESULT);
        assert_int_equal(B.meters.holding.owner, 1000);
        assert_string_equal(B.meters.holding.tenant, "");
        assert_int_equal(n_of(&B.meters.own, ENGINE_LATENCY_TOKEN), 29);
        q.tenant = "anna";
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_STATS_RESULT);
        assert_true(B.meters.holding.owner == anna);
        assert_int_equal(B.meters.holding.uid, 1000);
        assert_string_equal(B.meters.holding.tenant, "anna");
        assert_int_equal(n_of(&B.meters.own, ENGINE_LATENCY_TOKEN), 2);
        assert_int_equal(B.meters.holding.n_convs, 1);
        q.tenant = "berta"; /* and asking does not make her */
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_STATS_RESULT);
        assert_true(B.meters.holding.owner == OWNER_ANY);
        assert_int_equal(B.meters.holding.n_convs, 0);
        assert_int_equal(n_of(&B.meters.own, ENGINE_LATENCY_QUEUE), 0);
        /* All users, with the most RAM first. */
        q = (struct engine_request){.verb = ENGINE_STATS, .want_meters = true, .want_users = true};
        assert_int_equal(erig_do(&r, &q, &B), ENGINE_STATS_RESULT);
        assert_int_equal(B.n_users, 2);
        assert_int_equal(B.users[0].owner, 1000);
        assert_true(B.users[1].owner == anna);
        assert_true(B.users[0].ram_size >= B.users[1].ram_size);
        assert_false(B.more);
        erig_close(&r);
}

/* The meters of users have bounds, and whose was dropped begins anew; what is of all stays. */
static void test_bounds(void **state) {
        enum { N = 40 };
        struct engine_options o = erig_options(erig_pool(16));
        uint64_t n_measured = 0, before, since;
        struct erig r;

        erig_open(&r, &o);
        before = erig_stat(&r, "ledger_requests_used");
        for (uint64_t owner = 1; owner <= N; owner++) {
                say_as(&r, owner, 3);
                assert_int_equal(n_of(&ask(&r, owner)->own, ENGINE_LATENCY_TOKEN), 2);
        }
        for (uint64_t owner = 1; owner <= N; owner++) {
                bool measured = ask(&r, owner)->own.since_usec > 0;

                n_measured += measured;
                /* The last ones are. */
                if (owner > N - 4)
                        assert_true(measured);
                if (owner <= 4)
                        assert_false(measured);
        }
        assert_true(n_measured >= 4 && n_measured < N);
        assert_int_equal(n_of(&ask(&r, 1)->all, ENGINE_LATENCY_TOKEN), 2 * N);
        /* In a sixteenth of the share of requests, all charged. */
        assert_in_range(erig_stat(&r, "ledger_requests_used") - before,
                n_measured * sizeof(struct engine_meter), inside_requests_budget(r.en) / 16);
        /* Measured again: it is the last one now, and another one goes in its place. */
        say_as(&r, 1, 4);
        assert_int_equal(n_of(&ask(&r, 1)->own, ENGINE_LATENCY_TOKEN), 3);
        since = B.meters.own.since_usec;
        assert_true(since > B.meters.all.since_usec);
        for (uint64_t owner = 2; owner < n_measured + 1; owner++) {
                say_as(&r, owner, 3);
                say_as(&r, 1, 3); /* in use: it stays */
        }
        assert_true(ask(&r, 1)->own.since_usec == since);
        erig_close(&r);
}

/* A purge forgets what was measured of the user and the user's tenants, and nothing else. */
static void test_purge(void **state) {
        struct engine_request q = {.verb = ENGINE_TENANT, .owner = 1000, .tenant = "anna"};
        struct engine_options o = erig_options(64 << 20);
        struct erig r;
        uint64_t anna;

        erig_open(&r, &o);
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_OWNER);
        anna = A.owner;
        say_as(&r, 1000, 3);
        say_as(&r, anna, 3);
        say_as(&r, 2000, 3);
        q = (struct engine_request){.verb = ENGINE_ACT_ON_USER,
                .admin = true,
                .uid = 1000,
                .user_act = ENGINE_USER_EVICT};
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_USER_ACTED);
        assert_int_equal(n_of(&ask(&r, anna)->own, ENGINE_LATENCY_QUEUE), 1);
        q.user_act = ENGINE_USER_PURGE;
        assert_int_equal(erig_do(&r, &q, &A), ENGINE_USER_ACTED);
        assert_int_equal(n_of(&ask(&r, 1000)->own, ENGINE_LATENCY_QUEUE), 0);
        assert_int_equal(n_of(&ask(&r, anna)->own, ENGINE_LATENCY_QUEUE), 0);
        assert_int_equal(n_of(&ask(&r, 2000)->own, ENGINE_LATENCY_QUEUE), 1);
        assert_int_equal(n_of(&ask(&r, 2000)->all, ENGINE_LATENCY_QUEUE), 3);
        erig_close(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stages),
                cmocka_unit_test(test_no_reply),
                cmocka_unit_test(test_paused),
                cmocka_unit_test(test_others),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_purge),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
