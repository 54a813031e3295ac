/* SPDX-License-Identifier: MIT */
/* A connection's life: what it waits for, its beginning and end, its turns. States and invariants: http-private.h. */
#include "base/util.h"
#include "client/gateway/http-private.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct event *event_of(struct http_conn *conn) {
        return (struct event *)(void *)conn->event;
}

static void on_event(evutil_socket_t fd, short what, void *arg) {
        struct http_conn *conn = arg;

        conn->looks = true;
        conn_turn(conn);
}

/* Wait for edges; for those of writing only while something is unwritten, since on Unix sockets each read of the peer
 * would be one. Adding the event tells of what is there already. */
static int wait_for(struct http_conn *conn, bool writing) {
        short what = EV_READ | EV_CLOSED | EV_ET | EV_PERSIST;
        struct event *event = event_of(conn);

        event_del(event);
        conn->waits_write = writing;
        if (event_assign(event, conn->server->base, conn->fd, writing ? what | EV_WRITE : what,
                    on_event, conn) < 0)
                return -1;
        return event_add(event, NULL);
}

/* ---- what it waits for ---- */

static enum deadline deadline_of(const struct http_conn *conn) {
        switch (conn->state) {
        case CONN_IDLE:
                return DEADLINE_IDLE;
        case CONN_HEAD:
                return DEADLINE_HEAD;
        case CONN_BODY:
                return conn->exchange->body_held ? DEADLINE_NONE : DEADLINE_BODY;
        case CONN_LINGER:
                return DEADLINE_LINGER;
        case CONN_ANSWER:
        case CONN_FLUSH:
                return conn->out.size > conn->out_at ? DEADLINE_WRITE : DEADLINE_NONE;
        case CONN_DEAD:
                break;
        }
        return DEADLINE_NONE;
}

/* The deadline that the connection's state has. */
static void update_deadline(struct http_conn *conn) {
        enum deadline wanted = deadline_of(conn);
        bool restarts = wanted == DEADLINE_BODY || wanted == DEADLINE_WRITE;

        if (wanted != conn->deadline || (restarts && conn->progress))
                deadline_start(conn, wanted);
        conn->progress = false;
}

/* The time for what it waits for is over. */
static void end_late(struct http_conn *conn) {
        enum deadline was = conn->deadline;

        deadline_start(conn, DEADLINE_NONE);
        /* An answer or a held body has ended the wait since the timer went off. */
        if (deadline_of(conn) != was)
                return;
        if (was == DEADLINE_HEAD)
                conn_refuse(conn, 408, "the head of the request did not come in time");
        else if (was == DEADLINE_BODY)
                conn_refuse(conn, 408, "the body of the request did not come in time");
        else
                conn_kill(conn);
}

/* ---- its beginning and its end ---- */

/* The user at the other end; false: there is none any more. */
static bool learn_uid(int fd, uid_t *ret) {
        struct ucred cred;
        socklen_t n = sizeof(cred);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
                return false;
        *ret = cred.uid;
        return true;
}

/* NULL: without memory, or there are too many connections to tell this one so. */
static struct http_conn *make(struct http_server *server, int fd, bool tcp, uid_t uid) {
        struct http_conn *conn = calloc(1, sizeof(*conn) + event_get_struct_event_size());

        if (!conn)
                return NULL;
        conn->user = user_join(server, tcp, uid);
        if (conn->user)
                conn->over = share_take(&conn->user->connections, 1) != 0;
        if (!conn->user || (conn->over && server->n_over >= HTTP_MAX_REFUSED)) {
                if (conn->user)
                        user_leave(server, conn->user);
                free(conn);
                return NULL;
        }
        conn->server = server;
        conn->fd = fd;
        conn->tcp = tcp;
        conn->uid = uid;
        conn->deadline = DEADLINE_NONE;
        list_append(&server->conns, &conn->link);
        list_init(&conn->dirty);
        list_init(&conn->deadline_link);
        server->figures.n_connections++;
        server->figures.n_accepted++;
        server->n_over += conn->over;
        return conn;
}

void conn_new(struct http_server *server, int fd, bool tcp) {
        struct http_conn *conn;
        uid_t uid = (uid_t)-1;
        int one = 1;

        conn = tcp || learn_uid(fd, &uid) ? make(server, fd, tcp, uid) : NULL;
        if (!conn) {
                close(fd);
                return;
        }
        /* Pieces of a stream leave as they are written. It is slower without that, not wrong. */
        if (tcp)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        event_assign(event_of(conn), server->base, fd, EV_READ, on_event, conn);
        if (wait_for(conn, false) < 0)
                conn_kill(conn);
        else if (conn->over)
                conn_refuse(conn, 503, "there are too many connections");
        update_deadline(conn);
}

void conn_free(struct http_conn *conn) {
        struct http_server *server = conn->server;
        struct http_exchange *exchange = TAKE_PTR(conn->exchange);

        event_del(event_of(conn));
        close(conn->fd);
        if (exchange && exchange->ops.closed)
                exchange->ops.closed(exchange->userdata);
        if (exchange) {
                exchange->aborted = true;
                exchange_tell(exchange);
        }
        exchange_free(exchange);
        list_unlink(&conn->link);
        list_unlink(&conn->dirty);
        list_unlink(&conn->deadline_link);
        buf_deinit(&conn->in);
        buf_deinit(&conn->out);
        server->figures.n_connections--;
        server->n_over -= conn->over;
        if (!conn->over)
                share_give(&conn->user->connections, 1);
        user_leave(server, conn->user);
        free(conn);
        if (server->stopping && server->stopped && list_empty(&server->conns)) {
                void (*stopped)(void *userdata) = TAKE_PTR(server->stopped);

                stopped(server->stopped_userdata);
        }
}

/* ---- its turns ---- */

/* Whether the peer has closed, also behind bytes that nobody reads now. */
static bool peer_is_gone(struct http_conn *conn) {
        struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};

        return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Nothing is read, which would tell that the peer has gone. */
static bool waits_for_us(const struct http_conn *conn) {
        return conn->state == CONN_ANSWER ||
               (conn->state == CONN_BODY && conn->exchange->body_held);
}

/* The answer is written. */
static void end_answer(struct http_conn *conn) {
        buf_deinit(&conn->out);
        conn->out_at = 0;
        deadline_start(conn, DEADLINE_NONE);
        if (conn->keep && !conn->server->stopping) {
                conn->state = CONN_IDLE;
                conn->scan = HTTP_SCAN_HEAD;
                if (conn->in.size > 0)
                        conn_take_head(conn);
                return;
        }
        if (shutdown(conn->fd, SHUT_WR) < 0) {
                conn_kill(conn);
                return;
        }
        buf_deinit(&conn->in);
        conn->state = CONN_LINGER;
}

static void tell_drained(struct http_conn *conn) {
        struct http_exchange *exchange = conn->exchange;
        bool all = exchange && exchange->awaits_all && http_queued(exchange) == 0;

        if (!exchange || (!exchange->was_slow && !all) ||
                http_queued(exchange) > conn->server->limits.output_low)
                return;
        exchange->was_slow = exchange->awaits_all = false;
        if (exchange->ops.drained)
                exchange->ops.drained(exchange->userdata);
}

void conn_turn(struct http_conn *conn) {
        if (conn->late)
                end_late(conn);
        list_unlink(&conn->dirty); /* behind end_late(), which marks the connection for this turn */
        conn_write(conn);
        if (conn->state == CONN_FLUSH && conn->out_at == conn->out.size)
                end_answer(conn);
        conn_read(conn);
        if (conn->looks && waits_for_us(conn) && peer_is_gone(conn))
                conn->state = CONN_DEAD;
        if (conn->state == CONN_ANSWER)
                tell_drained(conn);
        conn->looks = false;
        if (conn->state == CONN_IDLE && conn->server->stopping)
                conn->state = CONN_DEAD;
        if (conn->state != CONN_DEAD && conn->waits_write != (conn->out_at < conn->out.size)) {
                /* What was queued since this turn's write is written by the next one. */
                if (list_empty(&conn->dirty) && wait_for(conn, !conn->waits_write) < 0)
                        conn->state = CONN_DEAD;
        }
        if (conn->state == CONN_DEAD)
                conn_free(conn);
        else
                update_deadline(conn);
}
