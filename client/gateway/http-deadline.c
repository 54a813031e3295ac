/* SPDX-License-Identifier: MIT */
/*
 * Deadlines of connections: one timer for all. All deadlines of a kind last equally long, so each kind's list
 * is in the order of its deadlines when new ones are put at its end, and starting or ending one takes no search. The timer may
 * go off for a deadline that was moved; then it is set again.
 *
 * A connection whose deadline is over is marked as late, and nothing else: conn_turn() knows what it has waited for.
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
        conn->late = false;
        list_unlink(&conn->deadline_link);
        if (deadline == DEADLINE_NONE)
                return;
        now = clock_monotonic_usec();
        conn->deadline_usec = now + duration(server, deadline);
        list_append(&server->deadlines[deadline], &conn->deadline_link);
        if (!server->timer_usec || conn->deadline_usec < server->timer_usec)
                set_timer(server, conn->deadline_usec, now);
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
                        list_unlink(&conn->deadline_link);
                        conn->late = true;
                        conn_mark(conn);
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
