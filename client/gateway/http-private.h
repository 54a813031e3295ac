/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of HTTP: a server, its connections, and the exchange that a connection is busy with.
 *
 *            bytes             head               body                http_reply(), http_end()
 *     IDLE ────────▶ HEAD ────────────▶ BODY ────────────▶ ANSWER ──────────────────────────▶ FLUSH
 *      ▲               └── no body ────────────────────────▲ │                                │ all is written
 *      └──────────────────────────────────────────────────────────────────── keep ────────────┤
 *     any ── refused ──▶ FLUSH;  any ── lost, http_abort() ──▶ DEAD ◀── lost, late ── LINGER ◀┘ else
 *
 * 1. Only conn_turn() reads, writes and frees, and only the loop calls it: for what happens on the socket, for a time that is
 *    over, and once after each call of http_*() that left something to write. So no call from a handler
 *    frees the connection under it, and what is written in one callback leaves in one piece.
 * 2. A connection waits for edges: conn_turn() reads until the kernel has no more, or puts the connection
 *    in line again. What is not read (in ANSWER and FLUSH) is looked for again on the way to IDLE.
 * 3. There is one deadline at a time. Each kind of deadline has one duration, so each kind's list is in order.
 * 4. An idle connection has no buffers.
 * 5. LINGER: the answer was sent, and the sending side is closed; what the client still sends is read and dropped. Closing
 *    at once would make the kernel reset the connection and so take the answer away from the client.
 */
#include "base/buf.h"
#include "base/list.h"
#include "base/share.h"
#include "client/gateway/http-chunk.h"
#include "client/gateway/http-head.h"
#include "client/gateway/http.h"
#include <event2/event.h>
#include <time.h>

#define HTTP_MAX_LISTENERS 8
/* Connections that are too many and are told so; those beyond are closed without a word. */
#define HTTP_MAX_REFUSED 256
#define HTTP_SCRATCH (64u << 10)

enum conn_state {
        CONN_IDLE,
        CONN_HEAD,
        CONN_BODY,
        CONN_ANSWER,
        CONN_FLUSH,
        CONN_LINGER,
        CONN_DEAD
};

enum deadline {
        DEADLINE_IDLE,
        DEADLINE_HEAD,
        DEADLINE_BODY,
        DEADLINE_WRITE,
        DEADLINE_LINGER,
        N_DEADLINES,
        DEADLINE_NONE = N_DEADLINES
};

struct http_memory {
        struct http_memory *next;
        max_align_t data[];
};

struct http_exchange {
        struct http_conn *conn;
        struct http_head head;
        struct http_chunks chunks;
        struct http_memory *memory; /* of http_alloc() */
        char *body;                 /* [body_capacity], charged to the server */
        size_t body_size, body_capacity;
        http_piece_fn sink; /* NULL: the body is kept */
        void *sink_userdata;
        uint64_t sink_max, sink_size; /* what it may get, and has got */
        bool body_begun, body_held;
        void (*stop)(void *userdata);
        struct buf fields; /* of the answer */
        struct http_answer_ops ops;
        void *userdata, *context;
        bool begun, chunked, was_slow;
};

struct http_user {
        uint64_t key;
        size_t n_refs; /* connections, refused ones too */
        struct share connections, bodies;
};

struct http_conn {
        struct list link, dirty, deadline_link;
        struct http_user *user;
        struct http_server *server;
        struct http_exchange *exchange; /* BODY, ANSWER */
        struct buf in;                  /* a head that has begun, or what came behind a request */
        struct buf out;
        size_t out_at; /* bytes of @out that were written */
        struct http_scan scan;
        uint64_t deadline_usec;
        enum conn_state state;
        enum deadline deadline;
        int fd;
        uid_t uid;
        bool tcp;
        bool keep;           /* after this answer */
        bool over;           /* more than the user may have: it is only refused */
        bool late;           /* @deadline is over */
        bool progress;       /* bytes came or went: its deadline begins anew */
        bool looks;          /* whether the peer has gone: something happened on the socket */
        bool waits_write;    /* the event is for writing, too */
        max_align_t event[]; /* event_get_struct_event_size() bytes */
};

struct http_listener {
        struct http_server *server;
        struct event *event;
        int fd; /* -1: free */
        bool tcp;
};

struct http_server {
        struct event_base *base;
        struct http_limits limits;
        struct http_handlers handlers;
        void *userdata;
        struct http_listener listeners[HTTP_MAX_LISTENERS];
        struct list conns, dirty;
        void (*turn)(struct http_conn *conn); /* conn_turn() */
        struct list deadlines[N_DEADLINES];
        uint64_t timer_usec;                 /* when the timer goes off, 0: it is not set */
        struct event *flush, *timer, *pause; /* flush: connections are in `dirty` */
        struct http_figures figures;
        struct map *users;
        struct share_pot connections, bodies;
        size_t n_over;
        bool flushing; /* turns of `dirty` are under way */
        bool stopping;
        void (*stopped)(void *userdata);
        void *stopped_userdata;
        time_t date_second;
        char date[40]; /* as the field Date has it */
        char scratch[HTTP_SCRATCH];
};

/* ---- http-turn.c ---- */

/* @turn: what a connection does in its turn; it may free the connection. */
int turns_init(struct http_server *server, void (*turn)(struct http_conn *conn), struct err *e);
void turns_deinit(struct http_server *server);
/* The connection has a turn soon. */
void conn_mark(struct http_conn *conn);
/* It is freed in its next turn. */
void conn_kill(struct http_conn *conn);

/* ---- http-conn.c ---- */

/* Take over @fd. Without memory it is closed. */
void conn_new(struct http_server *server, int fd, bool tcp);
/* Also tells the exchange's owner, and the server when the last one is gone. */
void conn_free(struct http_conn *conn);
void conn_turn(struct http_conn *conn);

/* ---- http-read.c ---- */

/* Read what is there. */
void conn_read(struct http_conn *conn);
/* Hand out a head that @in has, if it has one (or a part of one). */
void conn_take_head(struct http_conn *conn);

/* ---- http-write.c ---- */

/* Write what can be written. */
void conn_write(struct http_conn *conn);
/* The answer to what is no request, or none that is taken: it ends the connection. */
void conn_refuse(struct http_conn *conn, unsigned status, const char *message);

/* ---- http-deadline.c ---- */

int deadlines_init(struct http_server *server, struct err *e);
void deadlines_deinit(struct http_server *server);
/* Begin to wait (DEADLINE_NONE: for nothing); it is not late any more. When the time is over, it is late and has a turn. */
void deadline_start(struct http_conn *conn, enum deadline deadline);

/* ---- http-users.c ---- */

int users_init(struct http_server *server, struct err *e);
void users_deinit(struct http_server *server);
/* The user of one more connection, to be given back with user_leave(). NULL without memory. */
struct http_user *user_join(struct http_server *server, bool tcp, uid_t uid);
void user_leave(struct http_server *server, struct http_user *user);

/* ---- http-exchange.c ---- */

/* @head becomes the exchange's. NULL without memory. */
struct http_exchange *exchange_new(struct http_conn *conn, struct http_head *head);
struct http_exchange *exchange_free(struct http_exchange *exchange);
/* The longest body that it takes. */
uint64_t exchange_max_body(const struct http_exchange *exchange);
/* What of the body has come. */
uint64_t exchange_body_size(const struct http_exchange *exchange);
/* 0, 1 (the sink has answered: the exchange has ended), -ERR_NOMEM, -ERR_LIMIT (bodies_size), -ERR_TOO_LARGE. */
int exchange_add_body(struct http_exchange *exchange, const char *data, size_t size, struct err *e);
