/* SPDX-License-Identifier: MIT */
/*
 * The loop over the editor's two pipes and the daemon's socket.
 *
 * Nothing here waits but poll(). The pipes are shared with other programs (a terminal, a shell), so they are not made
 * non-blocking; poll() promises that a pipe takes PIPE_BUF bytes, and no more are written at once.
 *
 * While an editor does not read, the output grows. Beyond OUT_PAUSE the daemon's events are left unread, so the
 * daemon pauses its generations; requests are still taken. Beyond OUT_STOP nothing is read from the editor either:
 * that many bytes are answers that it did not wait for.
 */
#include "client/acp/agent.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#define OUT_PAUSE ((size_t)1 << 20)
#define OUT_STOP ((size_t)4 << 20)
#define READ_SIZE ((size_t)64 << 10)

struct loop {
        struct acp_agent agent;
        int in, out;
        bool ended;  /* nothing more comes from `in` */
        size_t sent; /* agent.out.buf.data[0 .. sent) is written */
        uint8_t bytes[READ_SIZE];
};

enum { FD_IN, FD_OUT, FD_DAEMON, N_FDS };

static size_t unsent(const struct loop *loop) {
        return loop->agent.out.buf.size - loop->sent;
}

static int write_some(struct loop *loop, struct err *e) {
        struct buf *buf = &loop->agent.out.buf;
        size_t size = MIN(unsent(loop), (size_t)PIPE_BUF);
        ssize_t n = write(loop->out, buf->data + loop->sent, size);

        if (n < 0 && errno == EPIPE)
                return ACP_READER_GONE;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
                return err_set(e, ERR_SYS, "cannot write the output");
        loop->sent += n > 0 ? (size_t)n : 0;
        if (loop->sent == buf->size) {
                buf_deinit(buf);
                loop->sent = 0;
        } else if (loop->sent >= OUT_PAUSE) { /* now and then, as bytes are moved */
                buf_consume(buf, loop->sent);
                loop->sent = 0;
        }
        return 0;
}

static int read_some(struct loop *loop, struct err *e) {
        ssize_t n = read(loop->in, loop->bytes, sizeof(loop->bytes));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n < 0)
                return err_set(e, ERR_SYS, "cannot read the input");
        loop->ended = n == 0;
        if (acp_agent_feed(&loop->agent, loop->bytes, (size_t)n, loop->ended) < 0)
                return err_set(e, ERR_NOMEM, "no memory");
        return 0;
}

static int wait_for_any(struct loop *loop, struct pollfd fds[N_FDS], struct err *e) {
        struct confab *confab = loop->agent.confab;
        bool reading = !loop->ended && unsent(loop) < OUT_STOP;
        bool listening = confab && unsent(loop) < OUT_PAUSE;

        fds[FD_IN] = (struct pollfd){.fd = reading ? loop->in : -1, .events = POLLIN};
        fds[FD_OUT] = (struct pollfd){.fd = loop->out, .events = unsent(loop) ? POLLOUT : 0};
        fds[FD_DAEMON] = (struct pollfd){.fd = -1};
        if (listening)
                fds[FD_DAEMON] = (struct pollfd){
                        .fd = confab_get_fd(confab), .events = (short)confab_get_events(confab)};
        if (poll(fds, N_FDS, -1) >= 0)
                return 0;
        if (errno != EINTR)
                return err_set(e, ERR_SYS, "cannot wait");
        fds[FD_IN].revents = fds[FD_OUT].revents = fds[FD_DAEMON].revents = 0;
        return 0;
}

/* The daemon's events come first: they tell whether the connection still holds what comes next. */
static int turn(struct loop *loop, struct err *e) {
        struct pollfd fds[N_FDS];
        int r = wait_for_any(loop, fds, e);

        if (r == 0 && fds[FD_OUT].revents & POLLOUT)
                r = write_some(loop, e);
        else if (r == 0 && fds[FD_OUT].revents)
                return ACP_READER_GONE;
        if (r)
                return r;
        if (fds[FD_DAEMON].revents)
                acp_agent_process(&loop->agent);
        if (fds[FD_IN].revents)
                r = read_some(loop, e);
        acp_agent_go_on(&loop->agent);
        if (r == 0 && loop->agent.out.error)
                r = err_set(e, -loop->agent.out.error, "no memory for an answer");
        return r;
}

int acp_run(const struct acp_options *options, int in, int out, struct err *e) {
        struct loop *loop = calloc(1, sizeof(*loop));
        int r = 0;

        if (!loop)
                return err_set(e, ERR_NOMEM, "no memory");
        acp_agent_init(&loop->agent, options);
        loop->in = in;
        loop->out = out;
        while (r == 0 && !(loop->ended && list_empty(&loop->agent.calls) && unsent(loop) == 0))
                r = turn(loop, e);
        acp_agent_deinit(&loop->agent);
        free(loop);
        return r;
}
