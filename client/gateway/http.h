/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * HTTP/1.1 for a few dialects of JSON: strict, bounded, in one thread, in libevent's loop.
 *
 * A server has listening sockets and connections; a connection has one exchange at a time: a request that
 * was read completely, and its answer. What the client sends meanwhile (pipelining) stays in the
 * kernel, but for what came together with the request. A request is shown twice: when its head was read (the body is
 * not read, let alone kept, for those who may not send one), and when it is complete. Either may answer; the second
 * answers at once or later.
 *
 * 1. Whatever bytes arrive, the worst is a 4xx and the end of that connection. A request that two servers could
 *    read differently is refused (RFC 9112, 6.3, 11.2: both Content-Length and Transfer-Encoding, several
 *    differing lengths, blanks before a colon, folded lines, bare CR or LF in a field, chunk sizes with signs).
 * 2. Header, body, number of connections, unsent output and all times but the handler's own are bounded.
 *    Bodies of all connections together are bounded, too: beyond it the answer is 503 with Retry-After. Of
 *    both connections and bodies each user has a fair share (base/share.h).
 * 3. An exchange ends exactly once: by its answer (http_reply() or http_end()), or because the connection ended
 *    before; then `closed` is called, and the exchange must not be used after it returns.
 *    A client that closes its sending side has gone, whether or not it still reads.
 * 4. A reader that is slow makes http_queued() grow; `drained` is called when it has become small
 *    again. Nothing that was queued is dropped while the connection lives.
 *
 * All functions: the thread of the event base. Strings that are returned live as long as the exchange.
 */
#include "base/err.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct buf;
struct event_base;
struct http_server;
struct http_exchange;

struct http_limits {
        size_t header_size;     /* of request line and fields together */
        size_t body_size;       /* of one request */
        size_t bodies_size;     /* of all requests that are being read or answered */
        size_t output_high;     /* bytes; http_queued() above it: slow */
        size_t output_low;      /* `drained` is called when it falls to that */
        unsigned n_connections; /* beyond: 503 and closed */
        uint64_t header_usec;   /* from the first byte of a request to the end of its header */
        uint64_t body_usec;     /* at most that long without a byte of the body */
        uint64_t idle_usec;     /* of a kept connection between requests */
        uint64_t write_usec;    /* at most that long with unsent output and no byte taken */
};
#define HTTP_LIMITS_DEFAULT                                                                        \
        ((struct http_limits){.header_size = 64 << 10,                                             \
                .body_size = 32 << 20,                                                             \
                .bodies_size = 256 << 20,                                                          \
                .output_high = 256 << 10,                                                          \
                .output_low = 64 << 10,                                                            \
                .n_connections = 16384,                                                            \
                .header_usec = 30000000,                                                           \
                .body_usec = 60000000,                                                             \
                .idle_usec = 300000000,                                                            \
                .write_usec = 600000000})

/* What became of an exchange. */
struct http_summary {
        unsigned status; /* 0: there was no answer */
        bool complete;   /* the answer was handed over in whole */
        uint64_t usec,
                first_usec; /* since the head was read, until the end; until the answer began, or 0 */
        uint64_t bytes_in, bytes_out; /* of bodies */
};

struct http_handlers {
        /* A head was read; a body may follow. It may answer, which refuses the body: then `handle` is not
         * called. http_set_ops() is for `handle`. NULL: everybody may go on. */
        void (*admit)(void *userdata, struct http_exchange *exchange);
        /* The request was read completely. It may answer before it returns. */
        void (*handle)(void *userdata, struct http_exchange *exchange);
        /* The answer to a request that is refused before a handler sees it: the body in the form of its dialect (or
         * nothing); may be NULL. @path may be "" if it was not read. Writes at most @max bytes into @ret and
         * returns their number; *ret_type is the media type. */
        size_t (*refusal)(void *userdata, const char *path, unsigned status, const char *message,
                char *ret, size_t max, const char **ret_type);
        /* An answer has begun; or NULL. @exchange NULL: to what is no request. */
        void (*answered)(void *userdata, const struct http_exchange *exchange, unsigned status);
        /* An exchange has ended, however it did; or NULL. It may be looked at, and is freed behind the call. */
        void (*ended)(void *userdata, const struct http_exchange *exchange,
                const struct http_summary *summary);
};

/* @base must know edges and closed peers (EV_FEATURE_ET, EV_FEATURE_EARLY_CLOSE: epoll does). @limits and @handlers
 * are copied. */
int http_server_new(struct http_server **ret, struct event_base *base,
        const struct http_limits *limits, const struct http_handlers *handlers, void *userdata,
        struct err *e);
/* Ends all connections (their `closed` is called). Not from a callback. NULL is harmless; returns NULL. */
struct http_server *http_server_free(struct http_server *server);
/* Accept on @fd, a listening stream socket which the server then owns. @tcp: peers have no uid. */
int http_server_listen(struct http_server *server, int fd, bool tcp, struct err *e);
/* Accept no more, let the exchanges that run end, close idle connections; @done is called when no connection is
 * left (perhaps at once). */
void http_server_stop(struct http_server *server, void (*done)(void *userdata), void *userdata);

struct http_figures {
        uint64_t n_connections, n_idle, n_accepted, n_requests, n_refused, bodies_size;
};
void http_server_figures(const struct http_server *server, struct http_figures *ret);

/* ---- the request ---- */

enum http_method {
        HTTP_GET,
        HTTP_HEAD,
        HTTP_POST,
        HTTP_PUT,
        HTTP_PATCH,
        HTTP_DELETE,
        HTTP_OPTIONS,
        HTTP_OTHER
};
/* "GET"; NULL for HTTP_OTHER. */
const char *http_method_text(enum http_method method);
/* Append @text percent-encoded: letters, digits and the characters of @free_ones stand for themselves. -ERR_NOMEM. */
int http_put_encoded(struct buf *out, const char *text, const char *free_ones);
enum http_method http_method(const struct http_exchange *exchange);
/* The path, percent-decoded, begins with '/'; without query; UTF-8 without NUL, and "." and ".." are refused. NULL in
 * answered(), if the request was refused before its path was read. */
const char *http_path(const struct http_exchange *exchange);
/* The decoded value of a query parameter (the first of that name), or NULL. */
const char *http_query(const struct http_exchange *exchange, const char *name);
/* The value of a field (@name in lower case) without blanks around it, or NULL; several of one name are joined by ", ". */
const char *http_header(const struct http_exchange *exchange, const char *name);
/* The body; NUL-terminated beyond @ret_size. */
const char *http_body(const struct http_exchange *exchange, size_t *ret_size);
/* Gives the body's memory back before the exchange ends (after it was parsed). */
void http_drop_body(struct http_exchange *exchange);
/* In admit(): the body stays, whatever http_drop_body() says, until an answer in pieces begins or the exchange ends. */
void http_keep_body(struct http_exchange *exchange);
/* Whether http_body() has the whole body, or there is none. */
bool http_has_body(const struct http_exchange *exchange);
/* The fields of the request's head, in their order: the name (in lower case) and value of the i-th one, false behind the last. Those
 * of one name are one, as in http_header(). */
bool http_field_at(const struct http_exchange *exchange, size_t i, const char **ret_name,
        const char **ret_value);
/* Append path and query, percent-encoded. -ERR_NOMEM. */
int http_put_target(const struct http_exchange *exchange, struct buf *out);
/* In admit(): the pieces of the body go to @piece as they come, and are not kept; `handle` is called behind the last one, with
 * an empty body. At most @max bytes, in place of body_size. @piece may answer: then no more of them come. After that
 * http_set_ops() may be called in admit(), and `closed` tells of every end of the exchange but an answer. */
typedef void (*http_piece_fn)(void *userdata, const void *data, size_t size);
void http_set_sink(
        struct http_exchange *exchange, uint64_t max, http_piece_fn piece, void *userdata);
/* Of a body with a sink: read no more of it until this is called with false. body_usec does not run meanwhile. Pieces of
 * what was read already may still come. */
void http_hold_body(struct http_exchange *exchange, bool held);
/* The peer's uid by SO_PEERCRED, taken when the connection was accepted: true; false: TCP. */
bool http_peer_uid(const struct http_exchange *exchange, uid_t *ret);
/* The same also by TCP, if the peer is a process of this machine: see uid_of_tcp_peer() of service/uid.h. */
int http_find_peer_uid(const struct http_exchange *exchange, uid_t *ret, struct err *e);

/* Zeroed memory that lives as long as the exchange, or NULL. */
void *http_alloc(struct http_exchange *exchange, size_t size);
/* Something that admit() has for handle(). */
void http_set_context(struct http_exchange *exchange, void *context);
void *http_context(const struct http_exchange *exchange);

/* ---- the answer ---- */

struct http_answer_ops {
        void (*closed)(void *userdata);  /* the connection ended before the answer did */
        void (*drained)(void *userdata); /* or NULL */
};
/* Before the handler returns, if the answer comes later. */
void http_set_ops(
        struct http_exchange *exchange, const struct http_answer_ops *ops, void *userdata);
/* An answer that would go on for ever: @stop is called by http_server_stop(), and ends it. After http_set_ops(), whose
 * userdata it gets. */
void http_set_stop(struct http_exchange *exchange, void (*stop)(void *userdata));
/* A field of the answer, before http_reply() or http_begin(). -ERR_NOMEM, -ERR_INVALID (line break). */
int http_add_header(struct http_exchange *exchange, const char *name, const char *value);
/* Fields as they are sent, CR LF behind each. -ERR_NOMEM. */
int http_add_fields(struct http_exchange *exchange, const char *fields);
/* The whole answer; the exchange has ended. @type NULL: no content type. Without memory the connection ends
 * (silently: `closed` is not called, for the caller has ended the exchange). HEAD: without the body. */
void http_reply(struct http_exchange *exchange, unsigned status, const char *type, const void *body,
        size_t size);
/* An answer in pieces: chunked; to HTTP/1.0, until the connection's end. */
void http_begin(struct http_exchange *exchange, unsigned status, const char *type);
/* The same with Content-Length: as many bytes have to be written as @size says, or http_abort() ends it. */
void http_begin_sized(
        struct http_exchange *exchange, unsigned status, const char *type, uint64_t size);
void http_write(struct http_exchange *exchange, const void *data, size_t size);
/* The same of @n pieces, in one chunk. */
void http_writev(struct http_exchange *exchange, const struct iovec *pieces, size_t n);
/* The answer is complete; the exchange has ended. */
void http_end(struct http_exchange *exchange);
/* The answer can't be completed: ends the connection, so that the client does not take it for complete. The
 * exchange has ended, `closed` is not called. */
void http_abort(struct http_exchange *exchange);
/* Bytes of the answer that the kernel has not taken yet. */
size_t http_queued(const struct http_exchange *exchange);
/* Whether that is above output_high. */
bool http_is_slow(const struct http_exchange *exchange);
/* `drained` is called, once, when the kernel has taken all of it, however little it was. After http_set_ops(). */
void http_tell_drained(struct http_exchange *exchange);
