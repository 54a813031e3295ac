/* SPDX-License-Identifier: MIT */
/* Answers: from the handler's calls to bytes on a connection. */
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/http-private.h"
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

/* Written bytes are dropped from the front once there are this many of them, and at least as many as the bytes that have to
 * be moved. */
#define COMPACT_SIZE (64u << 10)
#define REFUSAL_MAX 2048

static const char *reason(unsigned status) {
        static const struct {
                unsigned status;
                const char *text;
        } reasons[] = {{200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"},
                {304, "Not Modified"}, {400, "Bad Request"}, {401, "Unauthorized"},
                {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
                {408, "Request Timeout"}, {409, "Conflict"}, {413, "Content Too Large"},
                {414, "URI Too Long"}, {415, "Unsupported Media Type"}, {417, "Expectation Failed"},
                {421, "Misdirected Request"}, {422, "Unprocessable Content"},
                {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"},
                {500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"},
                {503, "Service Unavailable"}, {504, "Gateway Timeout"},
                {505, "HTTP Version Not Supported"}, {507, "Insufficient Storage"},
                {529, "Overloaded"}};

        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                if (reasons[i].status == status)
                        return reasons[i].text;
        return "Status";
}

static const char *date(struct http_server *server) {
        static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        static const char *const months[] = {
                "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        time_t now = time(NULL);
        struct tm t;

        if (now == server->date_second || !gmtime_r(&now, &t))
                return server->date;
        server->date_second = now;
        snprintf(server->date, sizeof(server->date), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                days[t.tm_wday], t.tm_mday, months[t.tm_mon], (t.tm_year + 1900) % 10000, t.tm_hour,
                t.tm_min, t.tm_sec);
        return server->date;
}

static int put_status(struct http_conn *conn, unsigned status, const char *type) {
        struct http_server *server = conn->server;
        int r;

        if (conn->exchange) {
                conn->exchange->status = status;
                conn->exchange->answered_usec = clock_monotonic_usec();
        }
        if (server->handlers.answered)
                server->handlers.answered(server->userdata, conn->exchange, status);
        r = buf_printf(&conn->out, "HTTP/1.1 %u %s\r\nDate: %s\r\n", status, reason(status),
                date(conn->server));
        if (r == 0 && type)
                r = buf_printf(&conn->out, "Content-Type: %s\r\n", type);
        return r;
}

/* The answer is in @out as far as there is one. */
static void end_exchange(struct http_conn *conn, bool keep) {
        if (conn->exchange)
                exchange_tell(conn->exchange);
        conn->exchange = exchange_free(conn->exchange);
        if (conn->state != CONN_DEAD)
                conn->state = CONN_FLUSH;
        conn->keep = keep && !conn->server->stopping;
        conn_mark(conn);
}

/* ---- refusals ---- */

void conn_refuse(struct http_conn *conn, unsigned status, const char *message) {
        struct http_server *server = conn->server;
        const char *path = conn->exchange ? conn->exchange->head.path : NULL, *type = NULL;
        char body[REFUSAL_MAX];
        size_t size = 0;
        int r;

        server->figures.n_refused++;
        /* A sink's owner was told of the exchange before its request is complete. */
        if (conn->exchange && conn->exchange->ops.closed)
                conn->exchange->ops.closed(conn->exchange->userdata);
        if (server->handlers.refusal)
                size = server->handlers.refusal(server->userdata, path ? path : "", status, message,
                        body, sizeof(body), &type);
        r = put_status(conn, status, size > 0 ? type : NULL);
        if (r == 0 && status == 503)
                r = buf_append_str(&conn->out, "Retry-After: 1\r\n");
        if (r == 0)
                r = buf_printf(
                        &conn->out, "Content-Length: %zu\r\nConnection: close\r\n\r\n", size);
        if (r == 0)
                r = buf_append(&conn->out, body, size);
        end_exchange(conn, false);
        if (r < 0)
                conn_kill(conn);
}

/* ---- answers ---- */

static bool has_line_break(const char *s) {
        return s[strcspn(s, "\r\n")] != '\0';
}

int http_add_header(struct http_exchange *exchange, const char *name, const char *value) {
        if (has_line_break(name) || has_line_break(value))
                return -ERR_INVALID;
        return buf_printf(&exchange->fields, "%s: %s\r\n", name, value);
}

int http_add_fields(struct http_exchange *exchange, const char *fields) {
        return buf_append_str(&exchange->fields, fields);
}

/* A body that was not read ends the connection. */
static bool may_keep(const struct http_exchange *exchange) {
        const struct http_conn *conn = exchange->conn;

        return exchange->head.keep && !conn->server->stopping &&
               (conn->state == CONN_ANSWER ||
                       (!exchange->head.chunked && exchange->head.length == 0));
}

static int put_fields(struct http_exchange *exchange, bool keep) {
        struct http_conn *conn = exchange->conn;
        int r;

        r = buf_append(&conn->out, exchange->fields.data, exchange->fields.size);
        if (r == 0 && !keep)
                r = buf_append_str(&conn->out, "Connection: close\r\n");
        else if (r == 0 && exchange->head.is_http_1_0)
                r = buf_append_str(&conn->out, "Connection: keep-alive\r\n");
        return r == 0 ? buf_append_str(&conn->out, "\r\n") : r;
}

void http_reply(struct http_exchange *exchange, unsigned status, const char *type, const void *body,
        size_t size) {
        struct http_conn *conn = exchange->conn;
        bool keep = may_keep(exchange);
        int r;

        r = put_status(conn, status, type);
        if (r == 0 && status != 204 && status != 304)
                r = buf_printf(&conn->out, "Content-Length: %zu\r\n", size);
        if (r == 0)
                r = put_fields(exchange, keep);
        if (r == 0 && exchange->head.method != HTTP_HEAD && size > 0)
                r = buf_append(&conn->out, body, size);
        if (exchange->head.method != HTTP_HEAD)
                exchange->bytes_out = size;
        exchange->aborted = r < 0;
        end_exchange(conn, keep);
        if (r < 0)
                conn_kill(conn);
}

static void begin(
        struct http_exchange *exchange, unsigned status, const char *type, uint64_t size) {
        struct http_conn *conn = exchange->conn;
        int r;

        exchange->begun = true;
        exchange->chunked = !exchange->sized && !exchange->head.is_http_1_0;
        exchange->head.keep = may_keep(exchange) && (exchange->chunked || exchange->sized);
        if (exchange->body_kept)
                exchange_free_body(exchange);
        r = put_status(conn, status, type);
        if (r == 0 && exchange->chunked)
                r = buf_append_str(&conn->out, "Transfer-Encoding: chunked\r\n");
        else if (r == 0 && exchange->sized)
                r = buf_printf(&conn->out, "Content-Length: %llu\r\n", (unsigned long long)size);
        if (r == 0)
                r = put_fields(exchange, exchange->head.keep);
        if (r < 0)
                conn_kill(conn);
        else
                conn_mark(conn);
}

void http_begin(struct http_exchange *exchange, unsigned status, const char *type) {
        begin(exchange, status, type, 0);
}

void http_begin_sized(
        struct http_exchange *exchange, unsigned status, const char *type, uint64_t size) {
        exchange->sized = true;
        begin(exchange, status, type, size);
}

void http_writev(struct http_exchange *exchange, const struct iovec *pieces, size_t n) {
        struct http_conn *conn = exchange->conn;
        size_t size = 0;
        int r = 0;

        for (size_t i = 0; i < n; i++)
                size += pieces[i].iov_len;
        /* An empty chunk would be the end. */
        if (size == 0 || exchange->head.method == HTTP_HEAD || conn->state == CONN_DEAD)
                return;
        exchange->bytes_out += size;
        if (exchange->chunked)
                r = buf_printf(&conn->out, "%zx\r\n", size);
        for (size_t i = 0; i < n && r == 0; i++)
                r = buf_append(&conn->out, pieces[i].iov_base, pieces[i].iov_len);
        if (r == 0 && exchange->chunked)
                r = buf_append_str(&conn->out, "\r\n");
        exchange->was_slow = exchange->was_slow || http_is_slow(exchange);
        if (r < 0)
                conn_kill(conn);
        else
                conn_mark(conn);
}

void http_write(struct http_exchange *exchange, const void *data, size_t size) {
        struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};

        http_writev(exchange, &piece, 1);
}

void http_end(struct http_exchange *exchange) {
        struct http_conn *conn = exchange->conn;
        bool dead = conn->state == CONN_DEAD;

        if (!dead && exchange->chunked && exchange->head.method != HTTP_HEAD)
                dead = buf_append_str(&conn->out, "0\r\n\r\n") < 0;
        exchange->aborted = dead;
        end_exchange(conn, exchange->head.keep);
        if (dead)
                conn_kill(conn);
}

void http_abort(struct http_exchange *exchange) {
        struct http_conn *conn = exchange->conn;
        struct linger now = {.l_onoff = 1};

        /* An answer without chunks and length ends with its connection: only a reset says that it is not complete. */
        if (exchange->begun && !exchange->chunked && !exchange->sized && conn->tcp)
                (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        exchange->aborted = true;
        end_exchange(conn, false);
        conn_kill(conn);
}

size_t http_queued(const struct http_exchange *exchange) {
        return exchange->conn->out.size - exchange->conn->out_at;
}

bool http_is_slow(const struct http_exchange *exchange) {
        return http_queued(exchange) > exchange->conn->server->limits.output_high;
}

void http_tell_drained(struct http_exchange *exchange) {
        exchange->awaits_all = true;
        conn_mark(exchange->conn);
}

/* ---- writing ---- */

void conn_write(struct http_conn *conn) {
        while (conn->state != CONN_DEAD && conn->out_at < conn->out.size) {
                ssize_t n = send(conn->fd, conn->out.data + conn->out_at,
                        conn->out.size - conn->out_at, MSG_NOSIGNAL);

                if (n > 0) {
                        conn->out_at += (size_t)n;
                        conn->progress = true;
                } else if (errno == EAGAIN) {
                        break;
                } else if (errno != EINTR) {
                        conn->state = CONN_DEAD;
                }
        }
        if (conn->out_at >= conn->out.size - conn->out_at &&
                (conn->out_at == conn->out.size || conn->out_at >= COMPACT_SIZE)) {
                buf_consume(&conn->out, conn->out_at);
                conn->out_at = 0;
        }
}
