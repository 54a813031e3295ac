/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/queue.h"
#include "util/test.h"
#include <poll.h>
#include <pthread.h>

static bool readable(struct queue *q) {
        struct pollfd p = {.fd = queue_fd(q), .events = POLLIN};

        return poll(&p, 1, 0) == 1;
}

static void test_order_and_bound(void **state) {
        struct queue *q;
        struct err e;
        int items[4];

        assert_int_equal(queue_new(&q, 0, &e), -ERR_INVALID);
        assert_int_equal(queue_new(&q, 3, &e), 0);
        assert_false(readable(q));
        assert_null(queue_pop(q));
        for (int round = 0; round < 5; round++) {
                assert_int_equal(queue_push(q, &items[0]), 0);
                assert_true(readable(q));
                assert_int_equal(queue_push(q, &items[1]), 0);
                assert_ptr_equal(queue_pop(q), &items[0]);
                assert_true(readable(q));
                assert_int_equal(queue_push(q, &items[2]), 0);
                assert_int_equal(queue_push(q, &items[3]), 0);
                assert_int_equal(queue_push(q, &items[0]), 1);
                assert_int_equal(queue_count(q), 3);
                assert_ptr_equal(queue_pop_wait(q), &items[1]);
                assert_ptr_equal(queue_pop_timed(q, 0), &items[2]);
                assert_ptr_equal(queue_pop(q), &items[3]);
                assert_false(readable(q));
                assert_null(queue_pop(q));
        }
        assert_null(queue_pop_timed(q, 0));
        assert_null(queue_pop_timed(q, 1500));
        assert_null(queue_free(q));
        assert_null(queue_free(NULL));
}

static void test_close(void **state) {
        struct queue *q;
        int item;

        assert_int_equal(queue_new(&q, 3, NULL), 0);
        assert_int_equal(queue_push(q, &item), 0);
        queue_close(q);
        assert_int_equal(queue_push(q, &item), 1);
        assert_true(readable(q));
        assert_ptr_equal(queue_pop_wait(q), &item);
        assert_null(queue_pop_wait(q));
        assert_null(queue_pop_timed(q, 1000000000));
        assert_false(readable(q));
        queue_free(q);
}

#define THREADS 3
#define PER_THREAD 4000

static struct queue *shared;
static _Atomic unsigned taken[THREADS * PER_THREAD];
static unsigned numbers[THREADS * PER_THREAD];

static void *producer(void *arg) {
        unsigned first = *(unsigned *)arg;

        for (unsigned i = first; i < first + PER_THREAD; i++)
                while (queue_push(shared, &numbers[i]))
                        sched_yield();
        return NULL;
}

static void *consumer(void *arg) {
        for (unsigned *item; (item = queue_pop_wait(shared));)
                taken[item - numbers]++;
        return NULL;
}

static void test_threads(void **state) {
        pthread_t producers[THREADS], consumers[THREADS];
        unsigned first[THREADS];

        assert_int_equal(queue_new(&shared, 8, NULL), 0);
        for (unsigned i = 0; i < THREADS; i++) {
                first[i] = i * PER_THREAD;
                assert_int_equal(pthread_create(&consumers[i], NULL, consumer, NULL), 0);
                assert_int_equal(pthread_create(&producers[i], NULL, producer, &first[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(producers[i], NULL);
        queue_close(shared);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(consumers[i], NULL);
        for (unsigned i = 0; i < THREADS * PER_THREAD; i++)
                assert_int_equal(taken[i], 1);
        assert_false(readable(shared));
        queue_free(shared);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order_and_bound),
                cmocka_unit_test(test_close),
                cmocka_unit_test(test_threads),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
