/* SPDX-License-Identifier: MIT */
/* Calls from several threads at once are serialised inside: each sees whole steps only. */
#include "store-fixture.h"
#include <pthread.h>

#define N_THREADS 4
#define N_TURNS 25

struct worker {
        pthread_t thread;
        struct store *s;
        uint64_t id;
        int failed;
};

static int look_around(struct store *s, struct err *e) {
        struct store_conv list[2 * N_THREADS];
        struct store_gone records = {};
        size_t n = 0;
        int r = fixture_list(s, OWNER_ANY, 0, list, 2 * N_THREADS, &n, e);

        if (r == 0)
                r = store_records(s, &records, e);
        store_gone_deinit(&records);
        return r < 0 ? r : (int)n;
}

static void *work(void *arg) {
        struct fingerprint model = {1, 2};
        struct worker *w = arg;
        struct err e;

        for (uint32_t i = 0; i < N_TURNS && !w->failed; i++) {
                struct store_record rec = {.index = i, .n_tokens = 32};
                struct store_gone gone = {};

                w->failed = fixture_append(w->s, w->id, 1, 32, "text", &e) < 0 ||
                            store_link(w->s, w->id, &model, &fixture_shape, &rec, 1, NULL, 0, &gone,
                                    &e) < 0 ||
                            gone.n != 0 || look_around(w->s, &e) != N_THREADS;
        }
        return NULL;
}

static void test_threads(void **state) {
        struct fixture *f = *state;
        struct worker w[N_THREADS] = {};
        struct store_gone records = {};

        for (unsigned i = 0; i < N_THREADS; i++) {
                w[i].s = f->s;
                w[i].id = fixture_conv(f, i, "a");
        }
        for (unsigned i = 0; i < N_THREADS; i++)
                assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
        for (unsigned i = 0; i < N_THREADS; i++) {
                pthread_join(w[i].thread, NULL);
                assert_int_equal(w[i].failed, 0);
                fixture_verify(f->s, w[i].id, N_TURNS, 32 * N_TURNS);
        }
        assert_int_equal(store_records(f->s, &records, &f->e), 0);
        assert_int_equal(records.n, N_THREADS * N_TURNS);
        store_gone_deinit(&records);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
