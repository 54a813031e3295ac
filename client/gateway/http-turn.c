/* SPDX-License-Identifier: MIT */
/*
 * Turns: which connections want one, and when they get it.
 *
 * A marked connection stands in `dirty` once, however often it is marked. on_flush() gives each of them its turn, in the
 * order of the marks. A connection that is marked while on_flush() is at work gets its next turn only when the loop has
 * looked at the sockets again, so a connection with much to read does not keep the others waiting.
 */
#include "client/gateway/http-private.h"

void conn_mark(struct http_conn *conn) {
        struct http_server *server = conn->server;

        if (!list_empty(&conn->dirty))
                return;
        list_append(&server->dirty, &conn->dirty);
        if (!server->flushing)
                event_active(server->flush, EV_TIMEOUT, 0);
}

void conn_kill(struct http_conn *conn) {
        conn->state = CONN_DEAD;
        conn_mark(conn);
}

static void on_flush(evutil_socket_t fd, short what, void *arg) {
        static const struct timeval soon = {};
        struct http_server *server = arg;
        struct list all;

        server->flushing = true;
        list_move_all(&all, &server->dirty);
        while (!list_empty(&all))
                server->turn(list_entry(all.next, struct http_conn, dirty));
        server->flushing = false;
        if (!list_empty(&server->dirty) && evtimer_add(server->flush, &soon) < 0)
                event_active(server->flush, EV_TIMEOUT, 0);
}

int turns_init(struct http_server *server, void (*turn)(struct http_conn *conn), struct err *e) {
        server->turn = turn;
        list_init(&server->dirty);
        server->flush = evtimer_new(server->base, on_flush, server);
        return server->flush ? 0 : err_set(e, ERR_NOMEM, "no memory for events");
}

void turns_deinit(struct http_server *server) {
        if (server->flush)
                event_free(server->flush);
        server->flush = NULL;
}
