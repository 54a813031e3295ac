/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints in the register: what was thinned out is given up there, what the conversation may still come to
 * use is not, whatever happens between.
 */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/util.h"
#include "kinds-rig.h"
#include "util/test.h"

static struct answer A, B, T;

enum { WINDOW = 1, STATE = 2, MOST_LINKS = 512 };

static bool has(const uint32_t *list, size_t n, uint32_t x) {
        for (size_t i = 0; i < n; i++)
                if (list[i] == x)
                        return true;
        return false;
}

/* An eviction writes what is new and gives up what was thinned out at once, as write-behind does. */
static void test_given_up(void **state) {
        EACH_KIND(k) {
                struct erig evicted, idle;
                uint64_t c, d;

                kind_open(&evicted, k, UINT32_MAX);
                kind_open(&idle, k, 0);
                c = kind_talk(&evicted, 5, &A);
                d = kind_talk(&idle, 5, &B);
                for (unsigned i = 5; i < 14; i++) {
                        assert_int_equal(erig_simple(&evicted, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                        kind_wait_idle(&idle);
                        assert_int_equal(
                                kind_links(&evicted, c, STATE), erig_stat(&idle, "pool_states"));
                        assert_int_equal(kind_links(&evicted, c, WINDOW),
                                erig_stat(&idle, "pool_window_blocks"));
                        assert_int_equal(erig_stat(&evicted, "pool_states"), 0);
                        assert_int_equal(erig_stat(&evicted, "pool_window_blocks"), 0);
                        kind_say(&evicted, c, i, &A);
                        kind_say(&idle, d, i, &B);
                        answer_same(&A, &B);
                }
                kind_close(&idle);
                kind_close(&evicted);
        }
}

/* A fork that begins between two checkpoints has memory up to the first one, and its tokens go on behind it. What
 * it has on disk for these tokens stays, since they may be computed again. */
static void test_behind_the_end(void **state) {
        EACH_KIND(k) {
                uint32_t before[MOST_LINKS], after[MOST_LINKS];
                size_t n_behind = 0;
                struct erig r;
                uint64_t c;

                kind_open(&r, k, UINT32_MAX);
                c = kind_talk(&r, 8, &A);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                erig_get(&r, c, &T);
                for (uint32_t pos = 60; pos < T.conv.n_tokens; pos += 3) {
                        struct engine_request q = erig_request(ENGINE_FORK, c);
                        size_t n, n_after;
                        uint64_t d;

                        q.at_position = pos;
                        if (erig_do(&r, &q, &A) != ENGINE_CONV)
                                continue; /* inside a reply */
                        d = A.conv.id;
                        n = kind_link_list(&r, d, WINDOW, before, MOST_LINKS);
                        assert_int_equal(erig_simple(&r, ENGINE_EVICT, d, NULL), ENGINE_CONV);
                        n_after = kind_link_list(&r, d, WINDOW, after, MOST_LINKS);
                        kind_say(&r, d, 99, &B);
                        for (size_t i = 0; i < n; i++) {
                                if (before[i] <= B.n_prompt - B.n_computed)
                                        continue;
                                n_behind++;
                                if (!has(after, n_after, before[i]))
                                        fail_msg("%s: %u of %u is given up", k->arch, before[i],
                                                pos);
                        }
                        assert_int_equal(erig_simple(&r, ENGINE_CLOSE, d, NULL), ENGINE_EMPTY);
                }
                assert_true(n_behind > 0 || !k->windows || !k->states);
                kind_close(&r);
        }
}

/* --- what comes back while it is given up --- */

/* Writing can be held up: a record is begun, and goes on when the test says so. */
static sem_t writing, go_on;
static atomic_bool held_up;

#define WRAP_PWRITEV(name)                                                                         \
        ssize_t __real_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at);                   \
        ssize_t __wrap_##name(int fd, const struct iovec *iov, int n, off_t at) {                  \
                if (atomic_exchange(&held_up, false)) {                                            \
                        sem_post(&writing);                                                        \
                        while (sem_wait(&go_on) < 0)                                               \
                                ;                                                                  \
                }                                                                                  \
                return __real_##name(fd, iov, n, at);                                              \
        }
WRAP_PWRITEV(pwritev)
WRAP_PWRITEV(pwritev64)

/* With two processors one job writes at a time. Here an eviction is to write beside another job. */
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
        (void)pid;
        CPU_ZERO_S(size, set);
        for (int i = 0; i < 4; i++)
                CPU_SET_S(i, size, set);
        return 0;
}

enum { N_TURNS = 10 };

/* The first state on disk that is given up once message N_TURNS was said: where it ends. */
static uint32_t find_given_up(const struct kind *k) {
        uint32_t before[MOST_LINKS], after[MOST_LINKS], first = UINT32_MAX;
        size_t n, n_after;
        struct erig r;
        uint64_t c;

        kind_open(&r, k, 0);
        c = kind_talk(&r, N_TURNS, &A);
        kind_wait_idle(&r);
        n = kind_link_list(&r, c, STATE, before, MOST_LINKS);
        kind_say(&r, c, N_TURNS, &A);
        kind_wait_idle(&r);
        n_after = kind_link_list(&r, c, STATE, after, MOST_LINKS);
        for (size_t i = 0; i < n; i++)
                if (!has(after, n_after, before[i]))
                        first = MIN(first, before[i]);
        assert_true(first < UINT32_MAX);
        kind_close(&r);
        return first;
}

/* While the job runs that is to give up a state, the conversation is rewound to before it, computes it
 * again and is evicted, which writes and links it: then it stays. */
static void test_back_again(void **state) {
        assert_int_equal(sem_init(&writing, 0, 0), 0);
        assert_int_equal(sem_init(&go_on, 0, 0), 0);
        EACH_KIND(k) {
                uint32_t before[MOST_LINKS], after[MOST_LINKS], given_up;
                struct engine_request q;
                size_t n, n_after;
                unsigned i = 0;
                struct erig r;
                uint64_t c;

                if (!k->states)
                        continue;
                given_up = find_given_up(k);
                kind_open(&r, k, 0);
                c = kind_talk(&r, N_TURNS, &A);
                kind_wait_idle(&r);
                atomic_store(&held_up, true);
                kind_say(&r, c, N_TURNS, &A);
                while (sem_wait(&writing) < 0)
                        ;
                erig_get(&r, c, &T);
                while (T.turns[2 * i + 2].end <= given_up)
                        i++;
                q = kind_cut_request(ENGINE_REWIND, c, 2 * i + 1);
                if (erig_do(&r, &q, &A) != ENGINE_CONV)
                        fail_msg("rewind: %s", A.err.msg);
                kind_say(&r, c, i, &A);
                assert_int_equal(erig_simple(&r, ENGINE_EVICT, c, NULL), ENGINE_CONV);
                n = kind_link_list(&r, c, STATE, before, MOST_LINKS);
                assert_true(has(before, n, given_up));
                sem_post(&go_on);
                kind_wait_idle(&r);
                n_after = kind_link_list(&r, c, STATE, after, MOST_LINKS);
                for (size_t j = 0; j < n; j++)
                        if (!has(after, n_after, before[j]))
                                fail_msg("%s: the state after %u is given up", k->arch, before[j]);
                kind_close(&r);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_given_up),
                cmocka_unit_test(test_behind_the_end),
                cmocka_unit_test(test_back_again),
        };

        return cmocka_run_group_tests(tests, kinds_make, kinds_remove);
}
