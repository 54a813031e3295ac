/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One connection as a stream of frames: reading, writing, and what bounds both.
 *
 *     OPEN ──conn_linger()──▶ LINGERING ──the peer has hung up, or time is up──▶ DEAD
 *     OPEN ──end of stream, error, conn_fail()──▶ DEAD ──▶ ops->closed()
 *
 * 1. ops->closed() is called once, from the event loop and never from inside another call on the
 *    connection, so an owner may free it there. After DEAD no other callback comes.
 * 2. When `output_high` bytes wait for the peer, nothing more is read from it (its further frames
 *    wait) and ops->pressure(true) is called; at `output_low`, ops->pressure(false) and on.
 * 3. Output past `output_limit` ends the connection. Buffers are charged to the share of memory
 *    that the owner gives (base/share.h), but for the first CONN_FREE bytes in each direction: so
 *    last words always fit. When the share refuses, the input that waits is forgotten and
 *    ops->broken() is called: the owner says why, and lets the connection linger.
 * 4. One read takes at most 64 KiB, so that one busy peer delays others by little.
 * 5. A message that has begun is complete within `frame_usec` (time in which the peer does not read
 *    its own output does not count), else ops->broken().
 * 6. A lingering connection writes its last words, says that nothing more comes, and reads and
 *    forgets what the peer still sends, until the peer hangs up. So a peer that is in the middle of
 *    sending finds the last words, and not a broken pipe.
 * 7. At most PROTO_FDS_MAX file descriptors wait in each direction, more end the connection; at
 *    most CONN_FDS_SENT have been sent and may not have been received (conn_can_send_fd()), as what
 *    the peer does not take is kept by the kernel. None is leaked, whatever happens to the
 *    connection.
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
        /* One whole frame, borrowed; conn_take_fd() has what came with it. */
        void (*frame)(struct conn *c, const uint8_t *data, size_t n);
        /* The stream of frames cannot go on (a malformed or oversized length, a message that takes
         * too long, no memory for it): say so, and linger. */
        void (*broken)(struct conn *c, const struct err *e);
        /* @blocked: the peer does not read. */
        void (*pressure)(struct conn *c, bool blocked);
        /* @e: why; code ERR_NONE for an end that the peer chose. */
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
        bool refused;  /* its share of memory is used up: nothing more is charged to it */
        bool hung_up;  /* lingering: nothing more comes from the peer */
        bool shut;     /* lingering: the peer knows that nothing more comes from us */
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
 * likewise. 0 also when the connection is ending and nobody will read it. */
int conn_send(struct conn *c, const ProtobufCMessage *message, uint32_t max_frame, struct err *e);
/* The same, with @fd (taken over, also on failure) beside the message. */
int conn_send_fd(
        struct conn *c, const ProtobufCMessage *message, uint32_t max_frame, int fd, struct err *e);
#define CONN_FDS_SENT 8
/* False while @n more descriptors would be too many for a peer that does not receive them. */
bool conn_can_send_fd(struct conn *c, size_t n);
/* In ops->frame(): the descriptor that came with the frame, which is the caller's then, or -1. */
static inline int conn_take_fd(struct conn *c) {
        return proto_decoder_take_fd(&c->in);
}
/* Write what waits, as far as the socket takes it. */
void conn_flush(struct conn *c);
/* Hand out no more frames; end when all is written and the peer has hung up, or after
 * `linger_usec`. What is sent from now on goes nowhere. */
void conn_linger(struct conn *c);
/* End it for reason @e. */
void conn_fail(struct conn *c, const struct err *e);
static inline size_t conn_pending(const struct conn *c) {
        return c->out.size - c->out_at;
}
