/* SPDX-License-Identifier: MIT */
#include "daemon/conn.h"
#include "base/util.h"
#include "daemon/closer.h"
#include "service/loop.h"
#include <errno.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define READ_SIZE (64u << 10)
/* Written bytes are dropped from the front once there are this many of them, and at least as many
 * as the bytes that have to be moved. */
#define COMPACT_SIZE (256u << 10)

void conn_fail(struct conn *c, const struct err *e) {
        if (c->state == CONN_DEAD)
                return;
        c->state = CONN_DEAD;
        c->why = *e;
        event_del(c->read_event);
        event_del(c->write_event);
        event_del(c->frame_event);
        event_active(c->close_event, EV_TIMEOUT, 0);
}

/* Tell the peer @e, if possible, and stop listening to it. */
static void break_off(struct conn *c, const struct err *e) {
        if (c->state == CONN_OPEN)
                c->ops->broken(c, e);
        else
                conn_fail(c, e);
}

static size_t charged_part(const struct buf *buf) {
        return buf->capacity > CONN_FREE ? buf->capacity - CONN_FREE : 0;
}

/* Keep the share of memory in step with the buffers. */
static void charge(struct conn *c) {
        size_t now;
        struct err e;

        if (c->state == CONN_LINGERING && !c->draining)
                proto_decoder_deinit(&c->in);
        now = charged_part(&c->in.in) + charged_part(&c->out);
        if (now <= c->charged) {
                share_give(c->memory, c->charged - now);
                c->charged = now;
        } else if (c->refused) {
                return;
        } else if (share_take(c->memory, now - c->charged) == 0) {
                c->charged = now;
        } else {
                c->refused = true;
                err_set(&e, ERR_LIMIT,
                        "connections of this user hold %llu bytes, and io-memory has no more for "
                        "them now; read what the daemon sends, or close some",
                        (unsigned long long)c->memory->used);
                break_off(c, &e);
        }
}

/* Whether it takes frames. */
static bool reads(const struct conn *c) {
        return c->state == CONN_OPEN && !c->blocked && !c->held;
}

/* Start or stop the timer within which a message that has begun must be complete. */
static void watch_frame(struct conn *c) {
        bool in_frame = reads(c) && proto_decoder_partial(&c->in);
        struct timeval t = {.tv_sec = (time_t)(c->limits->frame_usec / 1000000),
                .tv_usec = (suseconds_t)(c->limits->frame_usec % 1000000)};
        uint64_t frame = c->in.next;
        struct err e;

        if (in_frame && c->in_frame && frame == c->frame)
                return;
        c->in_frame = in_frame;
        c->frame = frame;
        if (!in_frame) {
                event_del(c->frame_event);
        } else if (event_add(c->frame_event, &t) < 0) {
                err_set(&e, ERR_NOMEM, "no memory to wait for a connection");
                conn_fail(c, &e);
        }
}

static void on_frame_timeout(evutil_socket_t fd, short what, void *arg) {
        struct conn *c = arg;
        struct err e;

        err_set(&e, ERR_STATE, "a message was not complete within frame-timeout");
        if (c->state == CONN_OPEN)
                break_off(c, &e);
}

static void hand_out_frames(struct conn *c) {
        /* A callback that writes may come back here through conn_flush(). */
        if (c->draining)
                return;
        c->draining = true;
        while (reads(c)) {
                const uint8_t *data;
                struct err e;
                size_t n;
                int r = proto_decoder_next(&c->in, &data, &n, &e);

                if (r == 0)
                        break;
                if (r > 0)
                        c->ops->frame(c, data, n);
                else
                        c->ops->broken(c, &e);
        }
        c->draining = false;
}

/* Read if the connection is open and its peer reads; a lingering connection reads and discards. */
static void update_reading(struct conn *c) {
        bool wanted = c->state == CONN_LINGERING ? !c->hung_up : reads(c);
        struct err e;

        if (!wanted) {
                event_del(c->read_event);
        } else if (event_add(c->read_event, NULL) < 0) {
                err_set(&e, ERR_NOMEM, "no memory to wait for a connection");
                conn_fail(c, &e);
        }
}

/* Discard what a lingering connection receives. */
static void drain(struct conn *c, ssize_t n, int passed) {
        if (passed >= 0)
                closer_close(passed);
        if (n > 0)
                return;
        c->hung_up = true;
        if (conn_pending(c))
                update_reading(c); /* it may still read what waits for it */
        else
                conn_fail(c, &c->why);
}

static void on_end(struct conn *c, ssize_t n) {
        struct err e = {};

        if (n == 0 && proto_decoder_partial(&c->in))
                err_set(&e, ERR_FORMAT, "connection ended in the middle of a message");
        else if (n < 0 && errno != ECONNRESET)
                err_set(&e, ERR_SYS, "reading from a connection");
        conn_fail(c, &e);
}

/* Handle @n received bytes, and perhaps a descriptor. */
static void take_input(struct conn *c, const uint8_t *data, size_t n, int passed) {
        struct err e;
        int r = proto_decoder_push(&c->in, data, n, &e);

        if (passed >= 0 && r < 0)
                closer_close(passed);
        else if (passed >= 0)
                r = proto_decoder_push_fd(&c->in, passed, n, &e);
        if (r < 0)
                conn_fail(c, &e);
        else
                charge(c);
        hand_out_frames(c);
        if (c->state != CONN_DEAD)
                charge(c);
        watch_frame(c);
        update_reading(c);
}

static void on_read(evutil_socket_t fd, short what, void *arg) {
        struct conn *c = arg;
        uint8_t data[READ_SIZE];
        int passed = -1;
        ssize_t n;

        n = proto_recv(fd, data, sizeof(data), MSG_DONTWAIT, closer_close, &passed);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (c->state == CONN_LINGERING)
                drain(c, n, passed);
        else if (n <= 0)
                on_end(c, n);
        else
                take_input(c, data, (size_t)n, passed);
}

/* First handle the frames that waited, then new bytes. */
static void resume(struct conn *c) {
        hand_out_frames(c);
        watch_frame(c);
        update_reading(c);
}

/* The peer reads again. */
static void unblock(struct conn *c) {
        c->blocked = false;
        if (c->state == CONN_OPEN)
                c->ops->pressure(c, false);
        resume(c);
}

void conn_hold(struct conn *c) {
        c->held = true;
        watch_frame(c);
        update_reading(c);
}

void conn_let_go(struct conn *c) {
        c->held = false;
        resume(c);
}

/* All output is written and no more will come: tell the peer so. */
static void end_output(struct conn *c) {
        if (c->hung_up) {
                conn_fail(c, &c->why);
                return;
        }
        if (!c->shut)
                shutdown(c->fd, SHUT_WR);
        c->shut = true;
}

void conn_flush(struct conn *c) {
        struct err e = {};

        while (c->state != CONN_DEAD && conn_pending(c)) {
                size_t n_fds = c->out_fds.n;
                ssize_t n = proto_send(c->fd, c->out.data + c->out_at, conn_pending(c), c->n_sent,
                        MSG_NOSIGNAL | MSG_DONTWAIT, &c->out_fds);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        break;
                if (n < 0) {
                        if (errno != EPIPE && errno != ECONNRESET)
                                err_set(&e, ERR_SYS, "writing to a connection");
                        conn_fail(c, &e);
                        return;
                }
                c->out_at += (size_t)n;
                c->n_sent += (size_t)n;
                c->n_fds_sent += n_fds - c->out_fds.n;
                if (c->out_at == c->out.size ||
                        (c->out_at >= COMPACT_SIZE && c->out_at >= conn_pending(c))) {
                        buf_consume(&c->out, c->out_at);
                        c->out_at = 0;
                }
        }
        if (c->state == CONN_DEAD)
                return;
        /* An idle connection keeps no large buffer. */
        if (!conn_pending(c) && c->out.capacity > COMPACT_SIZE) {
                buf_deinit(&c->out);
                c->out = BUF_NULL;
        }
        charge(c);
        if (conn_pending(c)) {
                if (event_add(c->write_event, NULL) < 0) {
                        err_set(&e, ERR_NOMEM, "no memory to wait for a connection");
                        conn_fail(c, &e);
                }
        } else if (c->state == CONN_LINGERING) {
                end_output(c);
                return;
        }
        if (c->blocked && conn_pending(c) <= c->limits->output_low)
                unblock(c);
}

static void on_write(evutil_socket_t fd, short what, void *arg) {
        struct conn *c = arg;

        conn_flush(c);
        if (c->state == CONN_OPEN && c->ops->written)
                c->ops->written(c);
}

static void on_close(evutil_socket_t fd, short what, void *arg) {
        struct conn *c = arg;
        struct err e;

        /* The same event is the timer of lingering. */
        if (c->state != CONN_DEAD) {
                if (conn_pending(c)) {
                        err_set(&e, ERR_STATE, "client did not read its last message");
                        c->why = e;
                }
                c->state = CONN_DEAD;
        }
        c->ops->closed(c, &c->why);
}

/* After queueing: check the limits, and write as soon as the socket accepts it. */
static void after_queueing(struct conn *c) {
        struct err why;

        charge(c);
        if (c->state == CONN_DEAD)
                return;
        if (conn_pending(c) > c->limits->output_limit) {
                err_set(&why, ERR_LIMIT,
                        "the client leaves %llu bytes unread, the limit is %llu (output-limit)",
                        (unsigned long long)conn_pending(c),
                        (unsigned long long)c->limits->output_limit);
                conn_fail(c, &why);
                return;
        }
        if (event_add(c->write_event, NULL) < 0) {
                conn_fail(c, &(struct err){.code = ERR_NOMEM, .msg = "no memory"});
                return;
        }
        if (!c->blocked && conn_pending(c) >= c->limits->output_high) {
                c->blocked = true;
                watch_frame(c);
                update_reading(c);
                if (c->state == CONN_OPEN)
                        c->ops->pressure(c, true);
        }
}

int conn_send(struct conn *c, const ProtobufCMessage *message, uint32_t max_frame, struct err *e) {
        int r;

        if (c->state != CONN_OPEN)
                return 0;
        r = proto_append_frame(&c->out, message, max_frame, e);
        if (r == 0)
                after_queueing(c);
        return r;
}

int conn_send_fd(struct conn *c, const ProtobufCMessage *message, uint32_t max_frame, int fd,
        struct err *e) {
        uint64_t begin = c->n_sent + conn_pending(c);
        int r = 0;

        if (c->state == CONN_OPEN)
                r = proto_append_frame(&c->out, message, max_frame, e);
        if (c->state != CONN_OPEN || r < 0) {
                close(fd);
                return r;
        }
        /* A message that promises a descriptor must not go without it. */
        if (proto_fds_add(&c->out_fds, fd, begin, c->n_sent + conn_pending(c), e) < 0)
                conn_fail(c, e);
        after_queueing(c);
        return 0;
}

bool conn_can_send_fd(struct conn *c, size_t n) {
        int unread = 0;

        if (!conn_pending(c) && ioctl(c->fd, SIOCOUTQ, &unread) == 0 && unread == 0)
                c->n_fds_sent = 0;
        return c->out_fds.n + c->n_fds_sent + n <= CONN_FDS_SENT;
}

void conn_linger(struct conn *c) {
        const struct timeval limit = {.tv_sec = (time_t)(c->limits->linger_usec / 1000000),
                .tv_usec = (suseconds_t)(c->limits->linger_usec % 1000000)};

        if (c->state != CONN_OPEN)
                return;
        c->state = CONN_LINGERING;
        watch_frame(c);
        update_reading(c);
        if (event_add(c->close_event, &limit) < 0)
                conn_fail(c, &(struct err){.code = ERR_NOMEM, .msg = "no memory"});
        else
                conn_flush(c);
}

int conn_init(struct conn *c, struct event_base *base, int fd, uint32_t max_frame,
        const struct conn_limits *limits, struct share *memory, const struct conn_ops *ops,
        struct err *e) {
        *c = (struct conn){
                .fd = fd,
                .in = PROTO_DECODER_INIT(max_frame),
                .ops = ops,
                .limits = limits,
                .memory = memory,
        };
        c->in.fds.close = closer_close;
        c->read_event = loop_event_new(base, fd, EV_READ | EV_PERSIST, on_read, c);
        c->write_event = loop_event_new(base, fd, EV_WRITE, on_write, c);
        c->close_event = loop_event_new(base, -1, 0, on_close, c);
        c->frame_event = loop_event_new(base, -1, 0, on_frame_timeout, c);
        if (!c->read_event || !c->write_event || !c->close_event || !c->frame_event ||
                event_add(c->read_event, NULL) < 0) {
                conn_deinit(c);
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        }
        return 0;
}

void conn_deinit(struct conn *c) {
        struct event **events[] = {
                &c->read_event, &c->write_event, &c->close_event, &c->frame_event};

        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                loop_event_free(*events[i]);
        proto_decoder_deinit(&c->in);
        proto_fds_deinit(&c->out_fds);
        buf_deinit(&c->out);
        if (c->charged)
                share_give(c->memory, c->charged);
        if (c->fd >= 0) {
                int unread = 0;

                /* Tell the peer at once. Unread data may carry descriptors, which are closed with
                 * the socket and so may block. */
                shutdown(c->fd, SHUT_RDWR);
                if (ioctl(c->fd, SIOCINQ, &unread) < 0 || unread)
                        closer_close(c->fd);
                else
                        close(c->fd);
        }
        *c = CONN_NULL;
}
