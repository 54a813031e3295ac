/* SPDX-License-Identifier: MIT */
/* A SIGINT that comes when a reply is over means nothing to the next one. poll() and sigaction()
 * are wrapped: the first plays the daemon, the second has the signal come at the last moment. */
#include "client/cli.h"
#include "peer.h"
#include "util/test.h"
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

const struct cli_command *const cli_commands[] = {NULL};

static struct peer peer;
static uint64_t in_flight; /* the request that has been taken, 0: none */
static bool greeted, interrupt_late;
static unsigned n_wakes; /* polls that found a wake-up */

/* What the daemon does while the client waits. */
static void play(void) {
        if (!greeted) {
                peer_hello(&peer);
                greeted = true;
        } else if (!in_flight) {
                in_flight = peer_expect(&peer, CONFAB__V1__REQUEST__VERB_CONTINUE);
                peer_send_accepted(&peer, in_flight);
        } else {
                peer_send_done(&peer, in_flight, CONFAB__V1__FINISH_REASON__FINISH_STOP);
                in_flight = 0;
        }
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout) {
        int r;

        if (n == 2 && !(fds[0].events & POLLOUT))
                play();
        r = __real_poll(fds, n, timeout);
        if (n == 2 && fds[1].revents)
                n_wakes++;
        return r;
}

int __real_sigaction(int sig, const struct sigaction *new, struct sigaction *old);
int __wrap_sigaction(int sig, const struct sigaction *new, struct sigaction *old);
int __wrap_sigaction(int sig, const struct sigaction *new, struct sigaction *old) {
        if (sig == SIGINT && !old && interrupt_late)
                raise(SIGINT); /* the handler of the reply that has just ended is still there */
        return __real_sigaction(sig, new, old);
}

static void test_late_interrupt(void **state) {
        const struct cli_command say = {.name = "say", .options = {cli_generate_options}};
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct cli cli = {.command = &say};
        struct confab_error e;
        int sv[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        peer_init(&peer, sv[1]);
        assert_int_equal(confab_new_from_fd(&cli.confab, sv[0], &e), 0);
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = 3;
        interrupt_late = true;
        assert_int_equal(cli_generate(&cli, &r, false), 0);
        assert_int_equal(n_wakes, 0);
        interrupt_late = false;
        assert_int_equal(cli_generate(&cli, &r, false), 0);
        assert_int_equal(n_wakes, 0); /* it would wait for nothing any more, but turn in circles */
        confab_free(cli.confab);
        peer_deinit(&peer);
        buf_deinit(&cli.out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_late_interrupt),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
