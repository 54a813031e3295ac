/* SPDX-License-Identifier: MIT */
/* From bytes on a connection to requests for the handler. */
#include "base/util.h"
#include "client/gateway/http-private.h"
#include <errno.h>
#include <sys/socket.h>

/* Read at once while a head is awaited: what is behind the request stays with the connection. */
#define HEAD_READ (16u << 10)
/* Reads before other connections have their turn. */
#define READS_PER_TURN 4

static bool reads(const struct http_conn *conn) {
        if (conn->state == CONN_BODY)
                return !conn->exchange->body_held;
        return conn->state < CONN_BODY || conn->state == CONN_LINGER;
}

/* @in keeps no memory without bytes. */
static void consume_in(struct http_conn *conn, size_t size) {
        buf_consume(&conn->in, size);
        if (conn->in.size == 0)
                buf_deinit(&conn->in);
}

/* The request is complete. */
static void hand_out(struct http_conn *conn) {
        struct http_server *server = conn->server;

        conn->state = CONN_ANSWER;
        conn->looks = true; /* the edge may have come with the request */
        server->figures.n_requests++;
        server->handlers.handle(server->userdata, conn->exchange);
}

static void refuse_body(struct http_conn *conn, int r, const struct err *e) {
        conn_refuse(conn, r == -ERR_TOO_LARGE ? 413 : r == -ERR_LIMIT ? 503 : 500, e->msg);
}

/* 1: the body is complete; 0: more is needed; negative: the exchange has ended. */
static int take_chunks(struct http_conn *conn, const char **data, size_t *size) {
        struct http_exchange *exchange = conn->exchange;
        unsigned status = 400;
        const char *piece;
        size_t n;
        struct err e;
        int r;

        while ((r = http_chunks_next(&exchange->chunks, data, size, &piece, &n, &status, &e)) ==
                1) {
                r = exchange_add_body(exchange, piece, n, &e);
                if (r < 0)
                        refuse_body(conn, r, &e);
                if (r != 0)
                        return -ERR_CANCELLED;
        }
        if (r < 0)
                conn_refuse(conn, status, e.msg);
        return r == 2 ? 1 : r;
}

static int take_bytes(struct http_conn *conn, const char **data, size_t *size) {
        struct http_exchange *exchange = conn->exchange;
        size_t n =
                (size_t)MIN((uint64_t)*size, exchange->head.length - exchange_body_size(exchange));
        struct err e;
        int r;

        r = exchange_add_body(exchange, *data, n, &e);
        if (r < 0)
                refuse_body(conn, r, &e);
        if (r != 0)
                return -ERR_CANCELLED;
        *data += n;
        *size -= n;
        return exchange_body_size(exchange) == exchange->head.length;
}

/* Take the bytes of the body off *data; what is behind it stays. */
static void take_body(struct http_conn *conn, const char **data, size_t *size) {
        int r = conn->exchange->head.chunked ? take_chunks(conn, data, size)
                                             : take_bytes(conn, data, size);

        conn->progress = true;
        if (r > 0)
                hand_out(conn);
}

static void begin_body(struct http_conn *conn) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        const char *data = (const char *)conn->in.data;
        size_t size = conn->in.size;

        conn->exchange->body_begun = true;
        if (conn->exchange->head.expects && size == 0) {
                if (buf_append(&conn->out, go_on, sizeof(go_on) - 1) < 0)
                        conn_kill(conn);
                else
                        conn_mark(conn);
                return;
        }
        if (size == 0)
                return;
        take_body(conn, &data, &size);
        /* The request may be answered already, but @in is as it was. */
        consume_in(conn, conn->in.size - size);
}

static void refuse_length(struct http_conn *conn) {
        struct err e;

        err_set(&e, ERR_TOO_LARGE, "the body is longer than %llu bytes",
                (unsigned long long)exchange_max_body(conn->exchange));
        conn_refuse(conn, 413, e.msg);
}

static void begin_request(struct http_conn *conn, struct http_head *head) {
        struct http_server *server = conn->server;
        bool has_body = head->chunked || head->length > 0;

        conn->exchange = exchange_new(conn, head);
        if (!conn->exchange) {
                conn_kill(conn);
                return;
        }
        conn->state = CONN_BODY; /* the answer of admit() ends the connection if a body follows */
        if (server->handlers.admit)
                server->handlers.admit(server->userdata, conn->exchange);
        if (!conn->exchange) {
                conn->keep = conn->keep && !has_body;
                return;
        }
        if (conn->exchange->head.length > exchange_max_body(conn->exchange))
                refuse_length(conn);
        else if (!has_body)
                hand_out(conn);
        else if (!conn->exchange->body_held)
                begin_body(conn);
}

static void parse_head(struct http_conn *conn, size_t size) {
        struct http_head head = HTTP_HEAD_NULL;
        unsigned status = 400;
        struct err e;
        int r;

        r = http_head_parse(&head, (const char *)conn->in.data, size, &status, &e);
        consume_in(conn, size);
        if (r == -ERR_NOMEM) {
                conn_kill(conn);
        } else if (r < 0) {
                /* The refusal is in the form of the path's dialect. */
                conn->exchange = exchange_new(conn, &head);
                conn_refuse(conn, status, e.msg);
        } else {
                begin_request(conn, &head);
        }
        http_head_deinit(&head);
}

void conn_take_head(struct http_conn *conn) {
        size_t max = conn->server->limits.header_size, end;
        unsigned status = 400;
        struct err e;
        int r;

        conn->state = CONN_HEAD;
        r = http_scan_head(
                &conn->scan, (const char *)conn->in.data, conn->in.size, &end, &status, &e);
        if (r < 0)
                conn_refuse(conn, status, e.msg);
        else if (conn->scan.at > max)
                conn_refuse(conn, conn->scan.n_lines > 0 ? 431 : 414,
                        conn->scan.n_lines > 0 ? "the head of the request is too long"
                                               : "the first line of the request is too long");
        else if (r > 0)
                parse_head(conn, end);
}

/* Bytes have come. */
static void take(struct http_conn *conn, const char *data, size_t size) {
        if (conn->state == CONN_LINGER)
                return;
        if (conn->state == CONN_BODY)
                take_body(conn, &data, &size);
        if (size == 0 || conn->state == CONN_DEAD)
                return;
        if (buf_append(&conn->in, data, size) < 0)
                conn_kill(conn);
        else if (conn->state <= CONN_HEAD)
                conn_take_head(conn);
}

static size_t read_size(const struct http_conn *conn) {
        if (conn->state == CONN_BODY && !conn->exchange->head.chunked)
                return (size_t)MIN((uint64_t)HTTP_SCRATCH,
                        conn->exchange->head.length - exchange_body_size(conn->exchange));
        return conn->state <= CONN_HEAD ? HEAD_READ : HTTP_SCRATCH;
}

void conn_read(struct http_conn *conn) {
        char *scratch = conn->server->scratch;

        if (conn->state == CONN_BODY && reads(conn) && !conn->exchange->body_begun)
                begin_body(conn);
        for (unsigned i = 0; reads(conn); i++) {
                ssize_t n;

                if (i == READS_PER_TURN) {
                        conn_mark(conn);
                        return;
                }
                n = recv(conn->fd, scratch, read_size(conn), 0);
                if (n > 0)
                        take(conn, scratch, (size_t)n);
                else if (n < 0 && errno == EAGAIN)
                        return;
                else if (n == 0 || errno != EINTR)
                        conn->state = CONN_DEAD; /* a request that is not complete has no answer */
        }
}
