/* SPDX-License-Identifier: MIT */
/*
 * Deadlines of connections: one timer for all. All deadlines of a kind last equally long, so each kind's list
 * is in the order of its deadlines when new ones are put at its end, and starting or ending one takes no search. The timer may
 * go off for a deadline that was moved; then it is set again.
 */
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/http-private.h"

/* How long a client may go on sending after its answer. */
#define LINGER_USEC 5000000ull

static uint64_t duration(const struct http_server *server, enum deadline deadline) {
        const struct http_limits *limits = &server->limits;
        const uint64_t all[N_DEADLINES] = {[DEADLINE_IDLE] = limits->idle_usec,
                [DEADLINE_HEAD] = limits->header_usec,
                [DEADLINE_BODY] = limits->body_usec,
                [DEADLINE_WRITE] = limits->write_usec,
                [DEADLINE_LINGER] = LINGER_USEC};

        return all[deadline];
}

static void set_timer(struct http_server *server, uint64_t at, uint64_t now) {
        uint64_t usec = at > now ? at - now : 0;
        struct timeval t = {
                .tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

        /* Without memory there is no deadline until the next one begins. */
        server->timer_usec = evtimer_add(server->timer, &t) == 0 ? at : 0;
}

void deadline_start(struct http_conn *conn, enum deadline deadline) {
        struct http_server *server = conn->server;
        uint64_t now;

        conn->deadline = deadline;
        list_unlink(&conn->deadline_link);
        if (deadline == DEADLINE_NONE)
                return;
        now = clock_monotonic_usec();
        conn->deadline_usec = now + duration(server, deadline);
        list_append(&server->deadlines[deadline], &conn->deadline_link);
        if (!server->timer_usec || conn->deadline_usec < server->timer_usec)
                set_timer(server, conn->deadline_usec, now);
}

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

void deadline_update(struct http_conn *conn) {
        enum deadline wanted = deadline_of(conn);
        bool restarts = wanted == DEADLINE_BODY || wanted == DEADLINE_WRITE;

        if (wanted != conn->deadline || (restarts && conn->progress))
                deadline_start(conn, wanted);
        conn->progress = false;
}

static void expire(struct http_conn *conn) {
        enum deadline was = conn->deadline;
        /* Else an answer or a held body has ended the wait, and the turn that sees to it is still to come. */
        bool waits = deadline_of(conn) == was;

        deadline_start(conn, DEADLINE_NONE);
        if (!waits)
                return;
        if (was == DEADLINE_HEAD)
                conn_refuse(conn, 408, "the head of the request did not come in time");
        else if (was == DEADLINE_BODY)
                conn_refuse(conn, 408, "the body of the request did not come in time");
        else
                conn_kill(conn);
        conn_mark(conn);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
        struct http_server *server = arg;
        uint64_t now = clock_monotonic_usec(), next = 0;

        server->timer_usec = 0;
        for (size_t i = 0; i < N_DEADLINES; i++) {
                struct list *list = &server->deadlines[i];

                while (!list_empty(list)) {
                        struct http_conn *conn =
                                list_entry(list->next, struct http_conn, deadline_link);

                        if (conn->deadline_usec > now) {
                                next = next ? MIN(next, conn->deadline_usec) : conn->deadline_usec;
                                break;
                        }
                        expire(conn);
                }
        }
        if (next)
                set_timer(server, next, now);
}

int deadlines_init(struct http_server *server, struct err *e) {
        for (size_t i = 0; i < N_DEADLINES; i++)
                list_init(&server->deadlines[i]);
        server->timer = evtimer_new(server->base, on_timer, server);
        return server->timer ? 0 : err_set(e, ERR_NOMEM, "no memory for a timer");
}

void deadlines_deinit(struct http_server *server) {
        if (server->timer)
                event_free(server->timer);
        server->timer = NULL;
}
