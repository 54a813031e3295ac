/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "client/gateway/http-private.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections accepted before other events of the loop have their turn. */
#define ACCEPTS_PER_EVENT 64
#define PAUSE_USEC 100000

/* ---- accepting ---- */

/* Out of descriptors or memory: waiting connections stay in the queue, and polling the readable socket would
 * burn CPU. */
static void pause_accepting(struct http_server *server) {
        static const struct timeval delay = {.tv_usec = PAUSE_USEC};

        if (evtimer_add(server->pause, &delay) < 0)
                return;
        for (size_t i = 0; i < HTTP_MAX_LISTENERS; i++)
                if (server->listeners[i].event)
                        event_del(server->listeners[i].event);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg) {
        struct http_server *server = arg;

        for (size_t i = 0; i < HTTP_MAX_LISTENERS; i++)
                if (server->listeners[i].event && event_add(server->listeners[i].event, NULL) < 0)
                        pause_accepting(server);
}

static void on_connection(evutil_socket_t fd, short what, void *arg) {
        struct http_listener *listener = arg;

        for (unsigned i = 0; i < ACCEPTS_PER_EVENT; i++) {
                int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (peer >= 0) {
                        conn_new(listener->server, peer, listener->tcp);
                        continue;
                }
                if (errno == EINTR || errno == ECONNABORTED)
                        continue;
                if (errno != EAGAIN)
                        pause_accepting(listener->server);
                return;
        }
}

int http_server_listen(struct http_server *server, int fd, bool tcp, struct err *e) {
        struct http_listener *listener = NULL;

        for (size_t i = 0; i < HTTP_MAX_LISTENERS && !listener; i++)
                if (!server->listeners[i].event)
                        listener = &server->listeners[i];
        if (!listener)
                return err_set(
                        e, ERR_LIMIT, "more than %d sockets to listen on", HTTP_MAX_LISTENERS);
        if (evutil_make_socket_nonblocking(fd) < 0)
                return err_set(e, ERR_SYS, "cannot prepare a socket");
        listener->event =
                event_new(server->base, fd, EV_READ | EV_PERSIST, on_connection, listener);
        if (!listener->event || event_add(listener->event, NULL) < 0) {
                if (listener->event)
                        event_free(listener->event);
                listener->event = NULL;
                return err_set(e, ERR_NOMEM, "no memory to listen");
        }
        listener->server = server;
        listener->fd = fd;
        listener->tcp = tcp;
        return 0;
}

static void close_listeners(struct http_server *server) {
        if (server->pause)
                event_del(server->pause);
        for (size_t i = 0; i < HTTP_MAX_LISTENERS; i++) {
                struct http_listener *listener = &server->listeners[i];

                if (!listener->event)
                        continue;
                event_free(TAKE_PTR(listener->event));
                close(listener->fd);
        }
}

/* ---- the server ---- */

static int make_events(struct http_server *server, struct err *e) {
        int needed = EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE;
        int r;

        if ((event_base_get_features(server->base) & needed) != needed)
                return err_set(e, ERR_UNSUPPORTED, "the event loop knows no edges, epoll does");
        r = deadlines_init(server, e);
        if (r < 0)
                return r;
        r = users_init(server, e);
        if (r < 0)
                return r;
        r = turns_init(server, conn_turn, e);
        if (r < 0)
                return r;
        server->pause = evtimer_new(server->base, on_pause_over, server);
        return server->pause ? 0 : err_set(e, ERR_NOMEM, "no memory for events");
}

int http_server_new(struct http_server **ret, struct event_base *base,
        const struct http_limits *limits, const struct http_handlers *handlers, void *userdata,
        struct err *e) {
        struct http_server *server = calloc(1, sizeof(*server));
        int r;

        if (!server)
                return err_set(e, ERR_NOMEM, "no memory for an HTTP server");
        server->base = base;
        server->limits = *limits;
        server->handlers = *handlers;
        server->userdata = userdata;
        list_init(&server->conns);
        r = make_events(server, e);
        if (r < 0) {
                http_server_free(server);
                return r;
        }
        *ret = server;
        return 0;
}

struct http_server *http_server_free(struct http_server *server) {
        if (!server)
                return NULL;
        close_listeners(server);
        server->stopped = NULL;
        while (!list_empty(&server->conns))
                conn_free(list_entry(server->conns.next, struct http_conn, link));
        if (server->pause)
                event_free(server->pause);
        turns_deinit(server);
        deadlines_deinit(server);
        users_deinit(server);
        free(server);
        return NULL;
}

void http_server_stop(struct http_server *server, void (*done)(void *userdata), void *userdata) {
        struct list *it;

        close_listeners(server);
        server->stopping = true;
        if (list_empty(&server->conns)) {
                done(userdata);
                return;
        }
        server->stopped = done;
        server->stopped_userdata = userdata;
        /* In its turn a connection is closed if it is idle even after it was read. */
        list_for_each (it, &server->conns) {
                struct http_conn *conn = list_entry(it, struct http_conn, link);
                struct http_exchange *exchange = conn->exchange;

                if (exchange && exchange->stop)
                        exchange->stop(exchange->userdata);
                conn_mark(conn);
        }
}

void http_server_figures(const struct http_server *server, struct http_figures *ret) {
        struct list *it;

        *ret = server->figures;
        ret->bodies_size = server->bodies.used;
        ret->n_idle = 0;
        list_for_each (it, &server->deadlines[DEADLINE_IDLE])
                ret->n_idle++;
}
