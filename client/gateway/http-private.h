/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of HTTP: a server, its connections, and the exchange that a connection is busy with.
 *
 * The files are floors, the lowest first. A file calls only files of lines before its own, or what stands before it in its line
 * (tests/lint/table.py has the order, tests/lint/circles.py checks the built objects).
 *
 *      0  http-head.c, http-chunk.c      bytes to a head, bytes to pieces of a body: pure functions
 *         http-users.c                   what each user holds of what all share
 *      1  http-turn.c, http-deadline.c   a connection is marked for a turn, is to die, awaits something, is late
 *      2  http-exchange.c                a request: its body, its memory, and what handlers may ask of it
 *      3  http-write.c, http-read.c      answers to bytes to the socket; the socket's bytes to requests
 *      4  http-conn.c                    a connection's life: its turns, its deadlines, its end
 *      5  http-server.c                  listening, stopping, and all of it put together
 *
 * One call goes upward, by a pointer: http-turn.c gives a connection its turn by `turn`, which http_server_new() sets to
 * conn_turn(). What else a lower floor has to tell a higher one is data that conn_turn() looks at, such as the state,
 * `late`, `progress` and `looks`.
 *
 *            bytes             head               body                http_reply(), http_end()
 *     IDLE ────────▶ HEAD ────────────▶ BODY ────────────▶ ANSWER ──────────────────────────▶ FLUSH
 *      ▲               └── no body ────────────────────────▲ │                                │ all is written
 *      └──────────────────────────────────────────────────────────────────── keep ────────────┤
 *     any ── refused ──▶ FLUSH;  any ── lost, http_abort() ──▶ DEAD ◀── lost, late ── LINGER ◀┘ else
 *
 *      IDLE → HEAD           conn_take_head()
 *      HEAD → BODY           begin_request(), also if there is no body
 *      BODY → ANSWER         hand_out()
 *      any → FLUSH           end_exchange(), of an answer and of conn_refuse(); DEAD stays
 *      FLUSH → IDLE, LINGER  end_answer()
 *      any → DEAD            conn_kill(); within a turn conn_write(), conn_read() and conn_turn() themselves
 *
 * Who owns what: The server owns its listening sockets, its events, its connections and its users; a user lives as long as a
 * connection refers to it. A connection owns its descriptor, its event, its buffers and its exchange. An exchange owns
 * its head, the fields of its answer, what http_alloc() gave, and its body, which is charged to the connection's user.
 * The structs name the file that writes a field; the others only read it. conn_new() begins and conn_free() ends them all.
 *
 * 1. Only conn_turn() reads, writes and frees (but http_server_free(), which frees everything), and only the loop calls it:
 *    on_event() for what happened on the socket, on_flush() for a mark. So no call from a handler frees the connection under
 *    it, and what is written in one callback leaves in one piece.
 * 2. Whatever changes a connection outside of its turn marks it: end_exchange(), conn_kill(), http_begin(), http_writev(),
 *    http_hold_body(), http_server_stop(), the timer.
 * 3. A connection waits for edges: conn_turn() reads until the kernel has no more, or marks the connection again. What is not
 *    read (in ANSWER and FLUSH, and of a body that is held) is looked for again when it is wanted.
 * 4. There is one deadline at a time: the one of the state, which update_deadline() sees to at the end of each turn. Each kind of
 *    deadline has one duration, so each kind's list is in order. A deadline that is over counts only if the
 *    state still has it in the turn that it brings (end_late()).
 * 5. An idle connection has no buffers: consume_in() leaves none without bytes, end_answer() drops what was written.
 * 6. LINGER: the answer was sent, and the sending side is closed; what the client still sends is read and dropped. Closing
 *    at once would make the kernel reset the connection and so take the answer away from the client.
 * 7. An exchange ends once: in end_exchange(), or with its connection in conn_free(). `closed` is called by conn_free() and
 *    conn_refuse(), never behind an answer of its owner's.
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
        bool body_begun, body_held, body_kept;
        void (*stop)(void *userdata);
        struct buf fields; /* of the answer */
        struct http_answer_ops ops;
        void *userdata, *context;
        bool begun, chunked, sized, was_slow, aborted;
        unsigned status; /* of the answer, 0: it has not begun */
        uint64_t began_usec, answered_usec, bytes_in, bytes_out; /* of struct http_summary */
        bool awaits_all; /* `drained` is called when nothing is queued */
};

struct http_user {
        uint64_t key;
        size_t n_refs; /* connections, refused ones too */
        struct share connections, bodies;
};

struct http_conn {
        /* http-conn.c; @state: see above; hand_out() sets @looks, since the edge may have come before */
        struct list link;
        struct http_server *server;
        struct http_user *user;
        int fd;
        uid_t uid;
        enum conn_state state;
        bool tcp;
        bool over;        /* more than the user may have: it is only refused */
        bool looks;       /* whether the peer has gone: something happened on the socket */
        bool waits_write; /* the event is for writing, too */
        /* http-turn.c; conn_turn() takes it out */
        struct list dirty;
        /* http-deadline.c */
        struct list deadline_link;
        uint64_t deadline_usec;
        enum deadline deadline;
        bool late; /* @deadline is over */
        /* Floors 2 and 3 set it, conn_turn() resets it */
        bool progress; /* bytes came or went, or a body is no longer held: its deadline begins anew */
        /* http-read.c sets it and http-write.c resets it; both say whether the connection is kept */
        bool keep;
        struct http_exchange *exchange; /* BODY, ANSWER; a head that is refused has one, too */
        /* http-read.c; end_answer() resets them */
        struct buf in; /* a head that has begun, or what came behind a request */
        struct http_scan scan;
        /* http-write.c, and of http-read.c a 100 Continue */
        struct buf out;
        size_t out_at;       /* bytes of @out that were written */
        max_align_t event[]; /* event_get_struct_event_size() bytes */
};

struct http_listener {
        struct http_server *server;
        struct event *event;
        int fd; /* -1: free */
        bool tcp;
};

struct http_server {
        /* http-server.c; conn_free() calls @stopped */
        struct event_base *base;
        struct http_limits limits;
        struct http_handlers handlers;
        void *userdata;
        struct http_listener listeners[HTTP_MAX_LISTENERS];
        struct event *pause; /* until it accepts again */
        void (*stopped)(void *userdata);
        void *stopped_userdata;
        bool stopping;
        /* http-turn.c */
        bool flushing;       /* turns of `dirty` are under way */
        struct event *flush; /* connections are in `dirty` */
        struct list dirty;
        void (*turn)(struct http_conn *conn);
        /* http-deadline.c */
        struct list deadlines[N_DEADLINES];
        struct event *timer;
        uint64_t timer_usec; /* when the timer goes off, 0: it is not set */
        /* http-users.c */
        struct map *users;
        struct share_pot connections, bodies;
        /* http-conn.c */
        struct list conns;
        size_t n_over;
        /* Each file counts what it does. */
        struct http_figures figures;
        /* http-write.c */
        time_t date_second;
        char date[40]; /* as the field Date has it */
        /* http-read.c */
        char scratch[HTTP_SCRATCH];
};

/* ---- http-users.c ---- */

int users_init(struct http_server *server, struct err *e);
void users_deinit(struct http_server *server);
/* The user of one more connection, to be given back with user_leave(). NULL without memory. */
struct http_user *user_join(struct http_server *server, bool tcp, uid_t uid);
void user_leave(struct http_server *server, struct http_user *user);

/* ---- http-turn.c ---- */

/* @turn: what a connection does in its turn; it may free the connection. */
int turns_init(struct http_server *server, void (*turn)(struct http_conn *conn), struct err *e);
void turns_deinit(struct http_server *server);
/* The connection has a turn soon. */
void conn_mark(struct http_conn *conn);
/* It is freed in its next turn. */
void conn_kill(struct http_conn *conn);

/* ---- http-deadline.c ---- */

int deadlines_init(struct http_server *server, struct err *e);
void deadlines_deinit(struct http_server *server);
/* Begin to wait (DEADLINE_NONE: for nothing); it is not late any more. When the time is over, it is late and has a turn. */
void deadline_start(struct http_conn *conn, enum deadline deadline);

/* ---- http-exchange.c ---- */

/* @head becomes the exchange's. NULL without memory. */
struct http_exchange *exchange_new(struct http_conn *conn, struct http_head *head);
struct http_exchange *exchange_free(struct http_exchange *exchange);
/* The body's memory goes back, kept or not. */
void exchange_free_body(struct http_exchange *exchange);
/* Tell the server's owner that it ends. */
void exchange_tell(const struct http_exchange *exchange);
/* The longest body that it takes. */
uint64_t exchange_max_body(const struct http_exchange *exchange);
/* What of the body has come. */
uint64_t exchange_body_size(const struct http_exchange *exchange);
/* 0, 1 (the sink has answered: the exchange has ended), -ERR_NOMEM, -ERR_LIMIT (bodies_size), -ERR_TOO_LARGE. */
int exchange_add_body(struct http_exchange *exchange, const char *data, size_t size, struct err *e);

/* ---- http-write.c ---- */

/* Write what can be written. */
void conn_write(struct http_conn *conn);
/* The answer to what is no request, or none that is taken: it ends the connection. */
void conn_refuse(struct http_conn *conn, unsigned status, const char *message);

/* ---- http-read.c ---- */

/* Read what is there. */
void conn_read(struct http_conn *conn);
/* Hand out a head that @in has, if it has one (or a part of one). */
void conn_take_head(struct http_conn *conn);

/* ---- http-conn.c ---- */

/* Take over @fd. Without memory it is closed. */
void conn_new(struct http_server *server, int fd, bool tcp);
/* Also tells the exchange's owner, and the server when the last one is gone. */
void conn_free(struct http_conn *conn);
void conn_turn(struct http_conn *conn);
