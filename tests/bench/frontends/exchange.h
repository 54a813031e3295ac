/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * An HTTP request and its answer, with the times at which it came. Only what has to be known is looked for, so that next to
 * nothing of what is measured is the client's own: one that reads the events takes longer for it than a server for a
 * token. Anything that is no HTTP ends the program; what the answer says is for the caller.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* An answer, as far as it was read. */
struct exchange {
        struct buf data;
        size_t body;   /* where it begins; 0: the head is not complete */
        size_t looked; /* for text: everything before */
        bool chunked;  /* else `length` is known, or the end is that of the connection */
        bool has_length;
        size_t length;
        bool over; /* the server keeps the connection no longer */
        /* bench_now() of: before the request was sent, the bytes that complete the first piece of a chat's text (0:
         * without), the end. */
        double begin, first, end;
};

/* The path of a Unix socket (with a slash), or a port of the loopback. */
int exchange_connect(const char *where);
/* Sends @request and reads its answer. @s is connected, or -1 for a new connection, which then belongs to the time.
 * Returns the connection for the next request, or -1 where there is none. *x is initialised here; the caller frees
 * its data. */
int exchange_ask(struct exchange *x, const char *where, int s, const struct buf *request);
/* 200, for instance. */
int exchange_status(const struct exchange *x);
