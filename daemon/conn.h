/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One connection as a stream of frames: reading, writing, and the bounds of both.
 *
 *     OPEN ──conn_linger()──▶ LINGERING ──the peer has hung up, or time is up──▶ DEAD
 *     OPEN ──end of stream, error, conn_fail()──▶ DEAD ──▶ ops->closed()
 *
 * 1. ops->closed() is called once, from the event loop and never from inside another call on the
 *    connection, so an owner may free the connection there. After DEAD no other callback is called.
 * 2. When `output_high` bytes wait for the peer, reading from it stops (its further frames wait)
 *    and ops->pressure(true) is called. At `output_low` ops->pressure(false), and reading resumes.
 * 3. Output past `output_limit` ends the connection. Buffers are charged to the share of memory
 *    that the owner gives (base/share.h), except the first CONN_FREE bytes in each direction, so
 *    that a last message always fits. When the share refuses, the waiting input is dropped and
 *    ops->broken() is called: the owner sends the reason and lets the connection linger.
 * 4. One read takes at most 64 KiB, so that a busy peer delays others only a little.
 * 5. A message that has begun must be complete within `frame_usec`, else ops->broken() is called.
 *    Time in which the peer does not read its own output does not count.
 * 6. A lingering connection writes its last message, announces the end of its output, and reads and
 *    discards what the peer still sends until the peer hangs up. So a peer that is still sending
 *    gets the last message, not a broken pipe.
 * 7. At most PROTO_FDS_MAX file descriptors wait in each direction; more end the connection. At
 *    most CONN_FDS_SENT sent descriptors may be unreceived (conn_can_send_fd()), since the kernel
 *    keeps them until the peer takes them. No descriptor leaks, whatever happens to the connection.
 * 8. While a connection is held (conn_hold()), its frames wait as in 2. What it received stays charged.
 *
 * Loop thread only.
 */
#include "base/share.h"
#include "proto/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct event;
struct event_base;

struct conn_ops {
        /* One complete frame, borrowed; conn_take_fd() returns the descriptor that came with it. */
        void (*frame)(struct conn *c, const uint8_t *data, size_t n);
        /* The stream of frames cannot continue (a malformed or oversized length, a message that
         * takes too long, no memory for it): tell the peer, and linger. */
        void (*broken)(struct conn *c, const struct err *e);
        /* Some output was written; NULL: nobody wants to know. */
        void (*written)(struct conn *c);
        /* @blocked: the peer does not read. */
        void (*pressure)(struct conn *c, bool blocked);
        /* @e: the reason; code ERR_NONE if the peer ended the connection. */
        void (*closed)(struct conn *c, const struct err *e);
};

/* May change at any time (reload). */
struct conn_limits {
        size_t output_high, output_low, output_limit;
        uint64_t frame_usec, linger_usec;
};

enum conn_state { CONN_OPEN, CONN_LINGERING, CONN_DEAD };

struct conn {
        int fd; /* owned */
        enum conn_state state;
        bool blocked, draining;
        bool held;     /* frames wait for conn_let_go() */
        bool refused;  /* its share of memory is used up: nothing more is charged to it */
        bool hung_up;  /* lingering: the peer sends nothing more */
        bool shut;     /* lingering: the peer has been told that we send nothing more */
        bool in_frame; /* a message has begun, and frame_event is waiting for its end */
        struct proto_decoder in;
        struct buf out; /* [out_at, out.size) waits */
        size_t out_at;
        uint64_t n_sent; /* stream position of out.data[out_at] */
        struct proto_fds out_fds;
        uint64_t frame;    /* stream position of the message that frame_event waits for */
        size_t n_fds_sent; /* since the peer was last known to have read everything */
        size_t charged;    /* to the share */
        struct err why;
        const struct conn_ops *ops;
        const struct conn_limits *limits;
        struct share *memory;
        struct event *read_event, *write_event, *close_event, *frame_event;
};
/* Bytes of each buffer that are not charged. */
#define CONN_FREE 1024
#define CONN_NULL ((struct conn){.fd = -1})

/* Takes over @fd (also on failure). @limits and @memory outlive it. Reading begins at once. */
int conn_init(struct conn *c, struct event_base *base, int fd, uint32_t max_frame,
        const struct conn_limits *limits, struct share *memory, const struct conn_ops *ops,
        struct err *e);
void conn_deinit(struct conn *c);

/* Queue one message. -ERR_TOO_LARGE: longer than @max_frame, nothing was queued. -ERR_NOMEM:
 * likewise. 0 also when the connection is ending and the peer will not read the message. */
int conn_send(struct conn *c, const ProtobufCMessage *message, uint32_t max_frame, struct err *e);
/* The same, together with @fd (taken over, also on failure). */
int conn_send_fd(
        struct conn *c, const ProtobufCMessage *message, uint32_t max_frame, int fd, struct err *e);
#define CONN_FDS_SENT 8
/* False while @n more descriptors would be too many for a peer that does not receive them. */
bool conn_can_send_fd(struct conn *c, size_t n);
/* In ops->frame(): the descriptor that came with the frame, now owned by the caller; or -1. */
static inline int conn_take_fd(struct conn *c) {
        return proto_decoder_take_fd(&c->in);
}
/* Hand out no more frames, and read no more, until conn_let_go(), which hands out those that wait. Not a
 * nesting pair; also allowed on a connection that ends meanwhile. */
void conn_hold(struct conn *c);
void conn_let_go(struct conn *c);
/* Charge another share from now on; what was charged to the present one has been moved there. */
static inline void conn_set_memory(struct conn *c, struct share *memory) {
        c->memory = memory;
}
/* Write waiting output, as much as the socket accepts. */
void conn_flush(struct conn *c);
/* Hand out no more frames; end when all output is written and the peer has hung up, or after
 * `linger_usec`. Messages queued from now on are dropped. */
void conn_linger(struct conn *c);
/* End the connection for reason @e. */
void conn_fail(struct conn *c, const struct err *e);
static inline size_t conn_pending(const struct conn *c) {
        return c->out.size - c->out_at;
}
