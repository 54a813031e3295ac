/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One request to another gateway, and its answer as it comes: the client's side of HTTP/1.1.
 *
 *      CONNECT ──▶ HEAD ─────────▶ BODY ──▶ DONE: `ended`
 *         │          ▲ │ 1xx        │
 *         │          └─┘            │
 *         └── failed, late ─────────┴─────▶ DONE
 *
 * 1. A connection is for one request (Connection: close). The request is sent when the connection stands, its body 64 KiB at a
 *    time; while it goes, the answer may come already, and then no more of it is sent.
 * 2. Held in memory are at most that piece, a head of an answer (64 KiB), and 64 KiB of its body: what was read goes to `piece` at
 *    once, and nothing is read while follow_client_hold() is on.
 * 3. Whatever bytes come, the worst is `ended` with an error: an answer that is cut off, or no HTTP, is never told as
 *    complete. Bytes behind the answer are dropped.
 * 4. Times: connecting with TLS, a head from its first byte on, and a request that nobody takes. An answer that has not begun is waited for,
 *    as a daemon's is; and while a body pauses, too. TCP looks whether the other machine is there (follow-net.h).
 * 5. `ended` comes once, the last call. Any callback may free the client; none comes before follow_client_new() returns.
 */
#include "base/buf.h"
#include "client/gateway/follow-head.h"
#include "client/gateway/follow-net.h"

struct follow_client;

struct follow_times {
        uint64_t connect_usec, head_usec, send_usec;
};
#define FOLLOW_TIMES_DEFAULT                                                                       \
        ((struct follow_times){                                                                    \
                .connect_usec = 5000000, .head_usec = 30000000, .send_usec = 60000000})

struct follow_request {
        struct follow_address address;
        const struct buf *head; /* the whole head, with the empty line; copied */
        const void *body;       /* [body_size], borrowed until `head` or `ended` is called */
        size_t body_size;
        bool is_head; /* the method is HEAD */
        struct follow_times times;
};

struct follow_client_ops {
        void (*head)(void *userdata, const struct follow_head *head);
        void (*piece)(void *userdata, const void *data, size_t size);
        /* 0: the answer is complete; or an error: -ERR_UNAVAILABLE (no connection, cut off), -ERR_FORMAT, -ERR_NOMEM. @asked: the other
         * gateway may have the whole request. */
        void (*ended)(void *userdata, int r, bool asked, const struct err *e);
};

int follow_client_new(struct follow_client **ret, struct follow_net *net,
        const struct follow_request *request, const struct follow_client_ops *ops, void *userdata,
        struct err *e);
/* Closes the connection. NULL is harmless; returns NULL. */
struct follow_client *follow_client_free(struct follow_client *client);
/* Read no more of the answer; a piece that was read may still come. */
void follow_client_hold(struct follow_client *client, bool held);
