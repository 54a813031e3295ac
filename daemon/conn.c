/* SPDX-License-Identifier: MIT */
#include "daemon/conn.h"
#include "base/util.h"
#include "daemon/loop.h"
#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE (64u << 10)
/* Written bytes are dropped from the front once they are this many and at least as many as would
 * have to be moved. */
#define COMPACT_SIZE (256u << 10)

void conn_fail(struct conn *c, const struct err *e) {
        if (c->state == CONN_DEAD)
                return;
        c->state = CONN_DEAD;
        c->why = *e;
        event_del(c->read_event);
        event_del(c->write_event);
        event_active(c->close_event, EV_TIMEOUT, 0);
}

/* Keep the ledger in step with the buffers. */
static void charge(struct conn *c) {
        size_t now = c->in.in.capacity + c->out.capacity;
        struct err e;

        if (now <= c->charged) {
                ledger_release(c->ledger, c->charged - now);
                c->charged = now;
        } else if (ledger_reserve(c->ledger, now - c->charged) == 0) {
                c->charged = now;
        } else {
                err_set(&e, ERR_LIMIT, "connections need more memory than io-memory allows");
                conn_fail(c, &e);
        }
}

static void hand_out_frames(struct conn *c) {
        /* A callback that writes may come back here through conn_flush(). */
        if (c->draining)
                return;
        c->draining = true;
        while (c->state == CONN_OPEN && !c->blocked) {
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

/* Reading goes on if the connection is open and its peer reads. */
static void update_reading(struct conn *c) {
        struct err e;

        if (c->state != CONN_OPEN || c->blocked) {
                event_del(c->read_event);
        } else if (event_add(c->read_event, NULL) < 0) {
                err_set(&e, ERR_NOMEM, "no memory to wait for a connection");
                conn_fail(c, &e);
        }
}

static void on_read(evutil_socket_t fd, short what, void *arg) {
        struct conn *c = arg;
        uint8_t data[READ_SIZE];
        struct err e = {};
        ssize_t n;

        n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                if (n == 0 && proto_decoder_partial(&c->in))
                        err_set(&e, ERR_FORMAT, "connection ended in the middle of a message");
                else if (n < 0 && errno != ECONNRESET)
                        err_set(&e, ERR_SYS, "reading from a connection");
                conn_fail(c, &e);
                return;
        }
        if (proto_decoder_push(&c->in, data, (size_t)n, &e) < 0) {
                conn_fail(c, &e);
                return;
        }
        hand_out_frames(c);
        charge(c);
        update_reading(c);
}

/* The peer reads again: first what it had sent meanwhile, then new bytes. */
static void unblock(struct conn *c) {
        c->blocked = false;
        if (c->state == CONN_OPEN)
                c->ops->pressure(c, false);
        hand_out_frames(c);
        update_reading(c);
}

void conn_flush(struct conn *c) {
        struct err e = {};

        while (c->state != CONN_DEAD && conn_pending(c)) {
                ssize_t n = send(c->fd, c->out.data + c->out_at, conn_pending(c),
                        MSG_NOSIGNAL | MSG_DONTWAIT);

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
                conn_fail(c, &c->why);
                return;
        }
        if (c->blocked && conn_pending(c) <= c->limits->output_low)
                unblock(c);
}

static void on_write(evutil_socket_t fd, short what, void *arg) {
        conn_flush(arg);
}

static void on_close(evutil_socket_t fd, short what, void *arg) {
        struct conn *c = arg;
        struct err e;

        /* The same event is the timer of lingering. */
        if (c->state != CONN_DEAD) {
                err_set(&e, ERR_STATE, "client did not read its last message");
                c->state = CONN_DEAD;
                c->why = e;
        }
        c->ops->closed(c, &c->why);
}

int conn_send(struct conn *c, const ProtobufCMessage *message, uint32_t max_frame, struct err *e) {
        struct err why;
        int r;

        if (c->state == CONN_DEAD)
                return 0;
        r = proto_append_frame(&c->out, message, max_frame, e);
        if (r < 0)
                return r;
        charge(c);
        if (c->state == CONN_DEAD)
                return 0;
        if (conn_pending(c) > c->limits->output_limit) {
                err_set(&why, ERR_LIMIT, "client leaves more than output-limit unread");
                conn_fail(c, &why);
                return 0;
        }
        if (event_add(c->write_event, NULL) < 0)
                return conn_fail(c, &(struct err){.code = ERR_NOMEM, .msg = "no memory"}), 0;
        if (!c->blocked && conn_pending(c) >= c->limits->output_high) {
                c->blocked = true;
                update_reading(c);
                if (c->state == CONN_OPEN)
                        c->ops->pressure(c, true);
        }
        return 0;
}

void conn_linger(struct conn *c) {
        static const struct timeval limit = {.tv_sec = CONN_LINGER_USEC / 1000000};

        if (c->state != CONN_OPEN)
                return;
        c->state = CONN_LINGERING;
        update_reading(c);
        if (event_add(c->close_event, &limit) < 0)
                conn_fail(c, &(struct err){.code = ERR_NOMEM, .msg = "no memory"});
        else
                conn_flush(c);
}

int conn_init(struct conn *c, struct event_base *base, int fd, uint32_t max_frame,
        const struct conn_limits *limits, struct ledger *ledger, const struct conn_ops *ops,
        struct err *e) {
        *c = (struct conn){
                .fd = fd,
                .in = PROTO_DECODER_INIT(max_frame),
                .ops = ops,
                .limits = limits,
                .ledger = ledger,
        };
        c->read_event = loop_event_new(base, fd, EV_READ | EV_PERSIST, on_read, c);
        c->write_event = loop_event_new(base, fd, EV_WRITE, on_write, c);
        c->close_event = loop_event_new(base, -1, 0, on_close, c);
        if (!c->read_event || !c->write_event || !c->close_event ||
                event_add(c->read_event, NULL) < 0) {
                conn_deinit(c);
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        }
        return 0;
}

void conn_deinit(struct conn *c) {
        struct event **events[] = {&c->read_event, &c->write_event, &c->close_event};

        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                loop_event_free(*events[i]);
        proto_decoder_deinit(&c->in);
        buf_deinit(&c->out);
        if (c->charged)
                ledger_release(c->ledger, c->charged);
        if (c->fd >= 0)
                close(c->fd);
        *c = CONN_NULL;
}
