/* SPDX-License-Identifier: MIT */
/*
 * kill -9 (I4): a child appends turns and says so over a pipe after each call returned; it is
 * killed after some number of them, at whatever it was then doing. All that it reported is there.
 */
#include "store-fixture.h"
#include <signal.h>
#include <sys/wait.h>

#define N_ROUNDS 12

static void child_main(const char *path, uint64_t id, int fd) {
        struct store *s = NULL;
        struct err e;

        if (store_open(&s, path, &e) < 0)
                _exit(1);
        for (uint32_t n = 1;; n++) {
                if (fixture_append(s, id, 1, n % 50, "said", &e) < 0)
                        _exit(2);
                if (write(fd, &n, sizeof(n)) != sizeof(n))
                        _exit(3);
        }
}

static void test_acknowledged_survives(void **state) {
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 1, "a");
        uint32_t turns = 0, tokens = 0;

        for (uint32_t round = 0; round < N_ROUNDS; round++) {
                uint32_t n = 0, acked = 0, acked_tokens = 0, wanted = 1 + (round * 7) % 20;
                struct store_conv c;
                int fds[2], status;
                pid_t pid;

                f->s = store_free(f->s);
                assert_int_equal(pipe(fds), 0);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        close(fds[0]);
                        child_main(f->path, id, fds[1]);
                }
                close(fds[1]);
                while (acked < wanted && read(fds[0], &n, sizeof(n)) == sizeof(n)) {
                        acked++;
                        acked_tokens += n % 50;
                }
                kill(pid, SIGKILL);
                /* What it still managed to report counts as well. */
                while (read(fds[0], &n, sizeof(n)) == sizeof(n)) {
                        acked++;
                        acked_tokens += n % 50;
                }
                close(fds[0]);
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
                fixture_open(f);
                assert_int_equal(store_conv_get(f->s, 1, id, NULL, &c, &f->e), 0);
                /* At most one more than acknowledged: committed, killed before it said so. */
                assert_in_range(c.n_turns, turns + acked, turns + acked + 1);
                assert_true(c.n_tokens >= tokens + acked_tokens);
                fixture_verify(f->s, id, c.n_turns, c.n_tokens);
                assert_int_equal(c.revision, 1 + c.n_turns);
                turns = c.n_turns;
                tokens = c.n_tokens;
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_acknowledged_survives),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
