/* SPDX-License-Identifier: MIT */
/* The ring gives each read memory of its own, and the requested bytes arrive there. */
#include <errno.h>

#include "spill/queue.h"
#include "unit/spill/resident.h"
#include "unit/spill/store.h"

enum { PAGE = 4096, RING = 40, N_PAGES = 100 };

static _Alignas(PAGE) uint8_t ring[RING * PAGE];

struct piece {
        size_t at, size; /* pages */
};

static uint64_t next_random(uint64_t *seed) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        return *seed >> 33;
}

/* Against a map of what is taken: pieces lie inside, overlap with none, and are refused only if no
 * place is left behind the last one, nor in front of the first. */
static void test_ring(void **state) {
        struct spill_queue q;
        struct piece taken[SPILL_QUEUE_MAX];
        size_t first = 0, n = 0, n_refused = 0, n_wrapped = 0;
        uint64_t seed = 7;

        spill_queue_init(&q, ring, sizeof(ring), 0);
        for (int step = 0; step < 100000; step++) {
                size_t size = 1 + next_random(&seed) % (next_random(&seed) % 4 ? 9 : RING);
                struct piece *last = &taken[(first + n - 1) % SPILL_QUEUE_MAX];
                uint8_t *p;

                if (n == SPILL_QUEUE_MAX || (n > 0 && next_random(&seed) % 2)) {
                        spill_queue_give(&q, taken[first].size * PAGE);
                        first = (first + 1) % SPILL_QUEUE_MAX;
                        n--;
                        continue;
                }
                p = spill_queue_take(&q, size * PAGE);
                if (!p) {
                        size_t head = taken[first].at, tail = last->at + last->size;

                        assert_true(n > 0);
                        n_refused++;
                        if (last->at >= head)
                                assert_true(RING - tail < size && head < size);
                        else
                                assert_true(head - tail < size);
                        continue;
                }
                assert_int_equal((size_t)(p - ring) % PAGE, 0);
                taken[(first + n) % SPILL_QUEUE_MAX] =
                        (struct piece){(size_t)(p - ring) / PAGE, size};
                assert_true((size_t)(p - ring) / PAGE + size <= RING);
                for (size_t i = 0; i < n; i++) {
                        const struct piece *t = &taken[(first + i) % SPILL_QUEUE_MAX];
                        size_t at = (size_t)(p - ring) / PAGE;

                        assert_true(at + size <= t->at || t->at + t->size <= at);
                }
                n_wrapped += n > 0 && p == ring;
                n++;
        }
        assert_true(n_refused > 1000 && n_wrapped > 1000);
        while (n-- > 0) {
                spill_queue_give(&q, taken[first].size * PAGE);
                first = (first + 1) % SPILL_QUEUE_MAX;
        }
        assert_ptr_equal(spill_queue_take(&q, sizeof(ring)), ring);
        assert_null(spill_queue_take(&q, PAGE));
        assert_int_equal(spill_queue_deinit(&q), 0);
}

/* A file of pages, each full of its number. */
static int make_file(char *path) {
        uint8_t page[PAGE];
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        for (int i = 0; i < N_PAGES; i++) {
                memset(page, i, PAGE);
                assert_int_equal(write(fd, page, PAGE), PAGE);
        }
        assert_int_equal(fsync(fd), 0);
        close(fd);
        fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (fd < 0) {
                unlink(path);
                print_message("SKIP: no O_DIRECT on this file system\n");
                skip();
        }
        return fd;
}

static void test_reads(void **state) {
        const char *tmp = getenv("TMPDIR");
        struct spill_read rd[SPILL_QUEUE_MAX];
        uint8_t *data[SPILL_QUEUE_MAX];
        struct spill_queue q;
        char path[300];
        int fd;

        snprintf(path, sizeof(path), "%s/confab-queue-XXXXXX", tmp ? tmp : "/tmp");
        fd = make_file(path);
        spill_queue_init(&q, ring, sizeof(ring), 0);
        for (int round = 0; round < 20; round++) {
                for (size_t i = 0; i < SPILL_QUEUE_MAX; i++) {
                        data[i] = spill_queue_take(&q, 2 * PAGE);
                        assert_non_null(data[i]);
                        memset(data[i], 0xff, 2 * PAGE);
                        if (!spill_queue_start(&q, &rd[i], fd, data[i], i * 5 * PAGE, 2 * PAGE)) {
                                assert_int_equal(i | (size_t)q.context, 0);
                                print_message("SKIP: no AIO here\n");
                                skip();
                        }
                }
                /* In another order than they were begun. */
                for (size_t k = 0; k < SPILL_QUEUE_MAX; k++) {
                        size_t i = k * 7 % SPILL_QUEUE_MAX;

                        spill_queue_wait(&q, &rd[i]);
                        assert_true(rd[i].is_over);
                        assert_int_equal(rd[i].n, 2 * PAGE);
                        for (size_t at = 0; at < 2 * PAGE; at++)
                                assert_int_equal(data[i][at], i * 5 + at / PAGE);
                }
                for (size_t i = 0; i < SPILL_QUEUE_MAX; i++)
                        spill_queue_give(&q, 2 * PAGE);
        }
        /* The end of the file; what cannot be begun; and what nobody waits for. */
        assert_true(spill_queue_start(&q, &rd[0], fd, ring, (N_PAGES - 1) * PAGE, 4 * PAGE));
        spill_queue_wait(&q, &rd[0]);
        assert_int_equal(rd[0].n, PAGE);
        assert_false(spill_queue_start(&q, &rd[0], -1, ring, 0, PAGE));
        for (size_t i = 0; i < SPILL_QUEUE_MAX; i++)
                assert_true(spill_queue_start(
                        &q, &rd[i], fd, ring + i * 2 * PAGE, i * 2 * PAGE, 2 * PAGE));
        spill_context_destroy(spill_queue_deinit(&q));
        for (size_t at = 0; at < 2 * SPILL_QUEUE_MAX * PAGE; at += 100)
                assert_int_equal(ring[at], at / PAGE);
        close(fd);
        unlink(path);
}

/* What goes out of the caches stays what it is, and so does what lies beside it. */
static void test_evict(void **state) {
        struct spill_queue q;

        for (size_t i = 0; i < sizeof(ring); i++)
                ring[i] = (uint8_t)(i * 31 + i / PAGE);
        spill_queue_init(&q, ring, sizeof(ring), 0);
        for (size_t n = 1; n <= RING; n *= 3) {
                assert_non_null(spill_queue_take(&q, n * PAGE));
                spill_queue_evict(&q, n * PAGE);
                spill_queue_give(&q, n * PAGE);
        }
        for (size_t i = 0; i < sizeof(ring); i++)
                assert_int_equal(ring[i], (uint8_t)(i * 31 + i / PAGE));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ring),
                cmocka_unit_test(test_reads),
                cmocka_unit_test(test_evict),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
