/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Frames and messages of the confab protocol (confab.proto), shared by both ends of the socket. A
 * frame is a varint length followed by one message of that many bytes (protobuf's "delimited"
 * form).
 *
 * 1. A length is trusted only up to the reader's own limit, and memory is taken only as bytes
 *    arrive: a decoder holds at most a small multiple of the bytes that the peer has sent and the
 *    decoder has not handed out yet.
 * 2. A length has its shortest form and is not 0; anything else ends the connection. There is no
 *    way to find the next frame after a bad one, so a decoder that failed keeps failing.
 * 3. Unpacking one message may take at most a fixed multiple of its size, counted over all
 *    allocations made for it, including those already freed. This bounds memory; it also bounds
 *    time, because protobuf-c allocates as it copies when it merges repeated submessages.
 * 4. Strings of an unpacked message are UTF-8 without NUL bytes.
 * 5. A file descriptor belongs to the frame with whose first byte it came. The sender sends it in a
 *    call of its own, which carries bytes of no other frame. The kernel then ends a read with the
 *    bytes of that call, so the frame is the last one that begins within the read. At most one
 *    descriptor per read is kept. A descriptor that belongs to no frame is closed as soon as that
 *    is known; one that its frame did not take is closed before the next frame is handed out.
 *
 * proto_send() and proto_recv() are the only I/O. One owner per object; not shared between threads.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "proto/confab.pb-c.h"
#include <stdbool.h>
#include <sys/types.h>

#define PROTO_VERSION 1
#define PROTO_MAX_REQUEST (4u << 20) /* largest message that a daemon takes, unless configured */
#define PROTO_MAX_EVENT (16u << 20)  /* largest message that libconfab takes */
#define PROTO_MAX_HEADER 5           /* bytes of a length */

/* ---- file descriptors ---- */

/* The most descriptors that may wait in one direction of a connection. A received descriptor waits
 * only until its frame is complete and taken out. */
#define PROTO_FDS_MAX 8

struct proto_fd {
        int fd; /* owned */
        /* Stream positions [begin, end) of its frame (sending), or of its read (receiving). */
        uint64_t begin, end;
};
struct proto_fds {
        struct proto_fd items[PROTO_FDS_MAX]; /* [n], in order */
        size_t n;
        /* Closes unwanted descriptors; NULL: close(2). Closing a peer's descriptor may take as long
         * as the peer likes (a file system of its own, a socket that lingers). */
        void (*close)(int fd);
};

/* Takes over @fd (also on failure): -ERR_LIMIT when PROTO_FDS_MAX wait already. */
int proto_fds_add(struct proto_fds *q, int fd, uint64_t begin, uint64_t end, struct err *e);
/* Remove item @i from the queue; the caller then owns its descriptor. */
int proto_fds_take(struct proto_fds *q, size_t i);
/* Close item @i. */
void proto_fds_drop(struct proto_fds *q, size_t i);
void proto_fds_deinit(struct proto_fds *q);

/* As recv(2). *ret_fd is a descriptor that came with the bytes (owned by the caller,
 * close-on-exec), or -1; it is set unless the result is negative. Further descriptors are closed by
 * @close_fd (NULL: close(2)). */
ssize_t proto_recv(
        int socket, void *data, size_t n, int flags, void (*close_fd)(int fd), int *ret_fd);
/* As send(2), for bytes at position @at of the stream. If the frame of the first descriptor in @fds
 * begins there, that descriptor is sent too and then closed. Sends less at the beginning and end of
 * a frame with a descriptor. */
ssize_t proto_send(
        int socket, const void *data, size_t n, uint64_t at, int flags, struct proto_fds *fds);

/* ---- frames in ---- */

struct proto_decoder {
        struct buf in; /* [at, in.size) is not handed out yet */
        size_t at;
        uint32_t max_frame;
        int failed;           /* the error that ended the stream, or 0 */
        uint64_t n_pushed;    /* stream position of in.data[in.size] */
        uint64_t frame, next; /* stream positions of the frame handed out last */
        struct proto_fds fds;
};
#define PROTO_DECODER_INIT(max) ((struct proto_decoder){.max_frame = (max)})

/* Add @n bytes received from the peer. After each push take all frames out with
 * proto_decoder_next(): a push is -ERR_LIMIT if the bytes not handed out already exceed one frame
 * of the greatest length plus 64 KiB. -ERR_NOMEM. */
int proto_decoder_push(struct proto_decoder *d, const void *data, size_t n, struct err *e);
/* Add a descriptor that came with the @n bytes pushed last. Takes over @fd, also on failure:
 * -ERR_LIMIT when too many wait. */
int proto_decoder_push_fd(struct proto_decoder *d, int fd, size_t n, struct err *e);
/* The next complete message: 1 with *ret borrowed until the next call on @d; 0 when more bytes are
 * needed. -ERR_FORMAT (malformed length), -ERR_LIMIT (longer than max_frame): close. */
int proto_decoder_next(
        struct proto_decoder *d, const uint8_t **ret, size_t *ret_size, struct err *e);
/* The descriptor that came with the last frame handed out, now owned by the caller; or -1. */
int proto_decoder_take_fd(struct proto_decoder *d);
/* True in the middle of a frame: if the stream ends here, the peer broke off. */
static inline bool proto_decoder_partial(const struct proto_decoder *d) {
        return d->at < d->in.size;
}
void proto_decoder_deinit(struct proto_decoder *d);

/* ---- frames out ---- */

/* To put borrowed bytes into protobuf-c's structs, which have no const. Packing only reads them. */
static inline void *proto_borrow(const void *p) {
        union {
                const void *from;
                void *to;
        } u = {.from = p};

        return u.to;
}
/* Append @message (&request.base, &event.base) as a frame. -ERR_LIMIT if it packs to more than
 * @max_frame bytes (the peer's Hello.max_frame) or exceeds out->max; -ERR_NOMEM. @out is unchanged
 * on failure. */
int proto_append_frame(
        struct buf *out, const ProtobufCMessage *message, uint32_t max_frame, struct err *e);

/* ---- messages in ---- */

/* An unpacked message and all of its memory. */
struct proto_message {
        union {
                Confab__V1__Request *request;
                Confab__V1__Event *event;
        };
};

/* Unpack one frame's bytes. The result does not refer to @data.
 *   -ERR_FORMAT   not a message of this type: close the connection
 *   -ERR_INVALID  a string is not UTF-8 or has a NUL byte: the request fails, the connection lives
 *   -ERR_LIMIT    it would take more memory than promised above: likewise
 *   -ERR_NOMEM    likewise
 * *ret_id (may be NULL) is set even on failure: the message's id, or 0 if it could not be read. */
int proto_unpack_request(
        struct proto_message **ret, const void *data, size_t n, uint64_t *ret_id, struct err *e);
int proto_unpack_event(
        struct proto_message **ret, const void *data, size_t n, uint64_t *ret_id, struct err *e);
struct proto_message *proto_message_free(struct proto_message *m);
DEFINE_CLEANUP(struct proto_message *, proto_message_free);
