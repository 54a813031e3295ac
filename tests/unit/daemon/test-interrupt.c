/* SPDX-License-Identifier: MIT */
/* Calls of connections that a signal interrupts are called again; timers that cannot be set. */
#include "daemon-fixture.h"
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

/* So many calls are interrupted, each once before it works. */
static unsigned n_left, n_done;

ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

static bool no_timers;

int __real_event_add(struct event *ev, const struct timeval *t);
int __wrap_event_add(struct event *ev, const struct timeval *t);

int __wrap_event_add(struct event *ev, const struct timeval *t) {
        return no_timers && t ? -1 : __real_event_add(ev, t);
}

static bool interrupted(void) {
        if (n_left == 0)
                return false;
        n_left--;
        n_done++;
        errno = EINTR;
        return true;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags) {
        return interrupted() ? -1 : __real_recvmsg(fd, m, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags) {
        return interrupted() ? -1 : __real_sendmsg(fd, m, flags);
}

static void test_interrupted(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        fake_answer(ENGINE_STATS, true);
        for (unsigned i = 1; i <= 20; i++) {
                uint64_t id = fixture_send_stats(&w);

                n_left = i;
                fixture_wait_requests(f, i);
                proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_STATS));
                assert_int_equal(f->d->n_peers, 1);
        }
        assert_true(n_done > 20);
        n_left = 0;
        wire_close(&w);
}

/* A daemon that cannot wait for its peers to read their last words stops without that. */
static void test_stop_without_timers(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        no_timers = true;
        daemon_stop(f->d);
        assert_true(fake.stopping);
        fake_emit(&(struct engine_event){.kind = ENGINE_STOPPED});
        for (unsigned i = 0; f->d->state != DAEMON_STOPPED; i++) {
                assert_true(i < STEPS_MAX);
                daemon_step(f->d);
        }
        no_timers = false;
        wire_close(&w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_interrupted),
                daemon_test(test_stop_without_timers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
