/* SPDX-License-Identifier: MIT */
/* The loop of ACP while an editor does not read: the daemon is left waiting first, the editor then, and all is told in
 * the end. poll() is wrapped: it plays both sides, a step before each wait, and looks at what is waited for. */
#include "acp-rig.h"
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define DELTA_SIZE ((size_t)32 << 10)

static struct rig rig;
static int in_fds[2], out_fds[2]; /* pipes: the test writes in_fds[1] and reads out_fds[0] */
static size_t n_read;             /* bytes of the output that were read */
static char tail[64];             /* the last of them */
static uint64_t prompt;           /* the Continue, 0: it has not come */
static unsigned n_deltas, n_asked;
static bool reading, paused, stopped, done;

static void read_output(void) {
        char bytes[4096];
        ssize_t n;

        while ((n = read(out_fds[0], bytes, sizeof(bytes))) > 0) {
                size_t keep = MIN((size_t)n, sizeof(tail) - 1);

                n_read += (size_t)n;
                memcpy(tail, bytes + n - keep, keep);
                tail[keep] = '\0';
        }
}

static void send_delta(void) {
        static char text[DELTA_SIZE + 1];

        memset(text, 'x', DELTA_SIZE);
        send_part(&rig, prompt, CONFAB__V1__PART_KIND__PART_TEXT, text);
        n_deltas++;
}

/* The daemon's next step; it has all that the agent has to send. */
static void play_daemon(void) {
        static enum { HELLO, FOUND, BEGUN, SPEAKS, OVER } step;

        switch (step++) {
        case HELLO:
                peer_hello(&rig.peer);
                rig_send_model(&rig, peer_expect(&rig.peer, REQ(MODEL_INFO)));
                break;
        case FOUND:
                send_conversation(&rig, peer_expect(&rig.peer, REQ(GET)), 12, "T", 0);
                break;
        case BEGUN:
                prompt = peer_expect(&rig.peer, REQ(CONTINUE));
                send_delta();
                break;
        case SPEAKS:
                step = SPEAKS;
                if (!reading) {
                        assert_true(
                                n_deltas < 4 * MIB / DELTA_SIZE); /* it would go on without end */
                        send_delta();
                } else if (!done) {
                        done = true;
                        peer_send_done(&rig.peer, prompt, CONFAB__V1__FINISH_REASON__FINISH_STOP);
                }
                break;
        case OVER:
                break;
        }
}

/* Requests that are answered at once, until nothing is read any more. */
static void ask_more(void) {
        static const char line[] =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                "\"protocolVersion\":1}}\n";
        char lines[50 * sizeof(line)];
        size_t size = 0;

        for (int i = 0; i < 50; i++, n_asked++, size += sizeof(line) - 1)
                memcpy(lines + size, line, sizeof(line) - 1);
        assert_true(n_asked < 100000); /* likewise */
        assert_int_equal(write(in_fds[1], lines, size), size);
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout) {
        const struct pollfd *in = &fds[0], *daemon = &fds[2];

        assert_int_equal(n, 3);
        if (daemon->fd >= 0 && !(daemon->events & POLLOUT)) {
                play_daemon();
        } else if (daemon->fd < 0 && prompt && !paused) {
                paused = true;
                assert_true(n_deltas >= MIB / DELTA_SIZE);
        }
        if (paused && in->fd >= 0 && !stopped) {
                ask_more();
        } else if (paused && !stopped) {
                stopped = true;
                reading = true;
                close(in_fds[1]);
        }
        if (reading)
                read_output();
        return __real_poll(fds, n, timeout);
}

static void test_slow_editor(void **state) {
        static const char line[] =
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/prompt\",\"params\":{" PROMPT(
                        "s", "hi") "}}\n";
        struct err e;

        rig_init(&rig);
        assert_int_equal(pipe2(in_fds, O_CLOEXEC) | pipe2(out_fds, O_CLOEXEC | O_NONBLOCK), 0);
        assert_int_equal(fcntl(out_fds[1], F_SETFL, 0), 0);
        assert_int_equal(write(in_fds[1], line, sizeof(line) - 1), sizeof(line) - 1);
        assert_int_equal(acp_run(&rig.options, in_fds[0], out_fds[1], &e), 0);
        read_output();
        assert_true(paused && stopped && done);
        assert_true(n_read > n_deltas * DELTA_SIZE + n_asked * 300);
        assert_non_null(strstr(tail, "}}\n"));
        close(in_fds[0]);
        close(out_fds[0]);
        close(out_fds[1]);
        rig_deinit(&rig);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_slow_editor),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
