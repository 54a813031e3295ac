/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A client of Valkey or Redis (one server, or a cluster) for values that may be gone at any time. It knows keys and bytes, not what
 * they mean. Whatever goes wrong here is an error of one call: the caller does without the value.
 *
 * Every call blocks, at most until its deadline; only the resolver of host names takes the time it takes. Calls run in any number
 * of threads at once: each takes connections of its own, of which up to 32 are kept for later calls. The client has no thread, and
 * makes no connection before the first call.
 *
 * Where a server belongs to a cluster, keys are asked for where they live: by the slots that the servers tell, and by where they send
 * to (MOVED, ASK). A server that fails over is found through the others.
 *
 * URIs:
 *
 *      redis://HOST[:PORT][,HOST[:PORT]...][/DB]      TCP; several servers: of one cluster, the first one that answers is asked
 *      rediss://...                                   the same with TLS (remote_has_tls())
 *      redis:///PATH                                  a Unix socket: /PATH; no cluster
 *
 * IPv6 addresses stand in brackets. A name or a password in a URI is refused (-ERR_INVALID): both are options. With TLS the
 * certificate must be of the host as the URI has it; and servers of a cluster must call each other what their certificates do.
 *
 * Memory: for each connection in use what one reply takes, at most about twice max_value_size, and 64 KiB. A connection that is kept has
 * 256 KiB at most. Of a server's memory a call takes about 8 MiB of replies, or two values if those are larger.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct remote;

enum { REMOTE_KEY_MAX = 63 };
/* 1 to REMOTE_KEY_MAX bytes of text. */
struct remote_key {
        char text[REMOTE_KEY_MAX + 1];
};

/* Strings are copied. */
struct remote_options {
        const char *uri;
        const char *user;     /* NULL: none; only with a password */
        const char *password; /* NULL: none */
        const char *ca_file;  /* of rediss:// alone: whom to trust; NULL: whom the system trusts */
        /* How long a server may say nothing while it is waited for (connecting, too), 1 ms .. 1 min. */
        uint64_t timeout_usec;
        /* Up to 512 MiB. A longer value is as good as none: not there, and its connection is closed unread. */
        size_t max_value_size;
};

/* Looks at the options; connects to nothing. -ERR_INVALID (the URI or another option, with a text that says what), -ERR_UNSUPPORTED
 * (TLS, which this build lacks), -ERR_NOMEM. */
int remote_open(struct remote **ret, const struct remote_options *o, struct err *e);
/* No call may be in progress. Closes the connections. NULL is fine; returns NULL. */
struct remote *remote_free(struct remote *r);
DEFINE_CLEANUP(struct remote *, remote_free);
/* Whether this build speaks TLS (tls.c). */
bool remote_has_tls(void);

/*
 * All of these: @until is a deadline by clock_monotonic_usec(), UINT64_MAX for none but timeout_usec. 0, or
 * -ERR_UNAVAILABLE: a server cannot be reached, did not answer in time, is loading or not what it should be, or refuses us; the text says
 * which server and why. -ERR_LIMIT: a server is full (remote_put). -ERR_NOMEM. -ERR_INVALID: a key, a size or @keep_sec is out of its range;
 * nothing was done.
 *
 * What was done before a failure stays done, and what a server has in its sockets then it may do yet: a value whose remote_put() failed
 * may come to be there. A connection that was kept and has gone away meanwhile is no failure: the call is made once more over a new
 * one, if it had no answer yet. @n may be large: commands are pipelined, 256 at most, without more than some KiB of them on the way to a server
 * that does not read.
 */

/* Tell which of @keys are there, in ret[0..n), and let them live for @keep_sec (at least 1) from now on. After a failure ret[] has what was
 * told until then, and false for all others. */
int remote_touch(struct remote *r, const struct remote_key *keys, size_t n, uint32_t keep_sec,
        bool *ret, uint64_t until, struct err *e);

/* Read values, in the order of @keys, while later ones are on their way. value() is called for each i, rising, on the caller's thread:
 * with @data NULL where there is no value (or one that is no string, or too long), else with data[0..size) valid during the call.
 * Nonzero ends the reading: remote_get() returns that value, and closes the connections that have unread replies. */
struct remote_reader {
        int (*value)(void *arg, size_t i, const void *data, size_t size, struct err *e);
        void *arg;
};
int remote_get(struct remote *r, const struct remote_key *keys, size_t n,
        const struct remote_reader *reader, uint64_t until, struct err *e);

/* Store values, to live for @keep_sec (at least 1) unless they are touched. All of them are sent before the first answer is waited for, as
 * far as servers read; so put some MiB at a time. The first failure is returned; where a server is full the
 * other values are tried all the same. A value longer than max_value_size is -ERR_INVALID. */
struct remote_value {
        struct remote_key key;
        const void *data;
        size_t size;
};
int remote_put(struct remote *r, const struct remote_value *values, size_t n, uint32_t keep_sec,
        uint64_t until, struct err *e);

/* Remove values. Those that are not there are no failure. */
int remote_remove(
        struct remote *r, const struct remote_key *keys, size_t n, uint64_t until, struct err *e);

/* Since remote_open(). Any thread. */
struct remote_stats {
        uint64_t n_connects;               /* connections made */
        uint64_t n_failures;               /* calls that returned -ERR_UNAVAILABLE */
        uint64_t n_redirects;              /* MOVED and ASK that were followed */
        uint64_t received_size, sent_size; /* bytes of values */
};
void remote_stats(const struct remote *r, struct remote_stats *ret);
