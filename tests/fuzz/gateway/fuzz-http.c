/* SPDX-License-Identifier: MIT */
/*
 * Any bytes on an HTTP connection, in any pieces, answered at once, later, in pieces, or never. The first byte says how; a byte
 * 0xff in the input is a turn of the loop, or with bit 5 the moment of an answer. With bit 7 bodies have a sink. The server must serve the next client, and hold
 * no memory of bodies.
 */
#include "base/buf.h"
#include "client/gateway/http.h"
#include "util/fds.h"
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                   \
        do {                                                                                       \
                if (!(x)) {                                                                        \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                    \
                        abort();                                                                   \
                }                                                                                  \
        } while (0)

#define SINK_MAX 4000

/* Bits of the first byte. */
enum {
        LATER = 1,
        PIECES = 2,
        REFUSE = 4,
        ABORT = 8,
        NEVER = 16,
        TURNS = 32,
        HALF = 64,
        SINK = 128
};

static struct event_base *base;
static struct http_server *server;
static struct sockaddr_un address;
static socklen_t address_size;
static struct http_exchange *pending;
static struct http_exchange *sunk; /* whose body is being read, piece by piece */
static size_t sunk_size;
static unsigned how;

static void on_closed(void *userdata) {
        CHECK(pending);
        pending = NULL;
}

static void answer(struct http_exchange *exchange) {
        size_t size;
        const char *body = http_body(exchange, &size);

        pending = NULL;
        CHECK(strlen(body) <= size && body[size] == '\0');
        CHECK(http_path(exchange)[0] == '/');
        http_header(exchange, "host");
        http_query(exchange, "a");
        if (how & PIECES) {
                http_begin(exchange, 200, "x/y");
                http_write(exchange, body, size);
                http_write(exchange, http_path(exchange), strlen(http_path(exchange)));
        }
        if (how & ABORT)
                http_abort(exchange);
        else if (how & PIECES)
                http_end(exchange);
        else
                http_reply(exchange, 200, "x/y", body, size);
}

static void on_sink_closed(void *userdata) {
        CHECK(sunk);
        sunk = NULL;
}

static void on_piece(void *userdata, const void *data, size_t size) {
        struct http_exchange *exchange = userdata;

        CHECK(exchange == sunk && size > 0);
        sunk_size += size;
        CHECK(sunk_size <= SINK_MAX);
        http_hold_body(exchange, how & PIECES);
        if (how & REFUSE) {
                sunk = NULL;
                http_reply(exchange, 400, NULL, NULL, 0);
        }
}

static void admit(void *userdata, struct http_exchange *exchange) {
        static const struct http_answer_ops ops = {.closed = on_sink_closed};

        if (how & REFUSE && http_query(exchange, "no")) {
                http_reply(exchange, 403, NULL, NULL, 0);
        } else if (how & SINK) {
                CHECK(!sunk);
                sunk = exchange;
                sunk_size = 0;
                http_set_sink(exchange, SINK_MAX, on_piece, exchange);
                http_set_ops(exchange, &ops, NULL);
                http_hold_body(exchange, how & LATER);
        }
}

static void handle(void *userdata, struct http_exchange *exchange) {
        static const struct http_answer_ops ops = {.closed = on_closed};

        CHECK(!pending && (!sunk || sunk == exchange));
        sunk = NULL;
        if (!(how & (LATER | NEVER))) {
                answer(exchange);
                return;
        }
        pending = exchange;
        http_set_ops(exchange, &ops, NULL);
}

static size_t refusal(void *userdata, const char *path, unsigned status, const char *message,
        char *ret, size_t max, const char **ret_type) {
        CHECK(status >= 400 && status < 600 && *message);
        *ret_type = "x/y";
        return (size_t)snprintf(ret, max, "%.100s", path);
}

static void start(void) {
        static const struct http_handlers handlers = {
                .admit = admit, .handle = handle, .refusal = refusal};
        struct http_limits limits = HTTP_LIMITS_DEFAULT;
        struct sockaddr_un any = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct err e;

        limits.header_size = 2000;
        limits.body_size = 3000;
        limits.bodies_size = 5000;
        base = event_base_new();
        CHECK(base && bind(fd, (struct sockaddr *)&any, sizeof(sa_family_t)) == 0);
        address_size = sizeof(address);
        CHECK(listen(fd, 16) == 0);
        CHECK(getsockname(fd, (struct sockaddr *)&address, &address_size) == 0);
        CHECK(http_server_new(&server, base, &limits, &handlers, NULL, &e) == 0);
        CHECK(http_server_listen(server, fd, false, &e) == 0);
}

/* A turn; what is answered later is answered now. */
static void turn(int fd) {
        uint8_t sink[4096];

        event_base_loop(base, EVLOOP_NONBLOCK);
        if (pending && !(how & NEVER))
                answer(pending);
        if (sunk)
                http_hold_body(sunk, false);
        while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
                continue;
}

static int connect_one(void) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        CHECK(connect(fd, (struct sockaddr *)&address, address_size) == 0);
        return fd;
}

static void send_all(int fd, const uint8_t *data, size_t size) {
        while (size > 0) {
                const uint8_t *mark = how & TURNS ? memchr(data, 0xff, size) : NULL;
                size_t n = mark ? (size_t)(mark - data) : size;
                ssize_t sent = n > 0 ? send(fd, data, n, MSG_NOSIGNAL) : 0;

                turn(fd);
                if (sent < 0)
                        return;
                data += sent;
                size -= (size_t)sent;
                if (mark && (size_t)sent == n) {
                        data++;
                        size--;
                }
        }
}

/* The next client is served. */
static void check_alive(void) {
        static const char request[] = "GET /alive HTTP/1.1\r\nHost: h\r\n\r\n";
        int fd = connect_one();
        char bytes[4096] = "";

        how = 0;
        CHECK(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0);
        for (unsigned i = 0; recv(fd, bytes, sizeof(bytes) - 1, MSG_DONTWAIT) < 0; i++) {
                CHECK(i < 100);
                event_base_loop(base, EVLOOP_NONBLOCK);
        }
        CHECK(strncmp(bytes, "HTTP/1.1 200 OK\r\n", 17) == 0);
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct http_figures figures;
        int fd;

        if (!server)
                start();
        how = size > 0 ? data[0] : 0;
        fd = connect_one();
        send_all(fd, data + 1, size > 0 ? size - 1 : 0);
        if (how & HALF)
                shutdown(fd, SHUT_WR);
        for (unsigned i = 0; i < 4; i++)
                turn(fd);
        close(fd);
        check_alive();
        for (unsigned i = 0;; i++) {
                http_server_figures(server, &figures);
                if (figures.n_connections == 0)
                        break;
                CHECK(i < 100);
                event_base_loop(base, EVLOOP_NONBLOCK);
        }
        CHECK(!pending && !sunk && figures.bodies_size == 0);
        return 0;
}
