/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Exports and imports whose bytes travel in the stream of a connection, in pieces (Chunk), for clients
 * that cannot pass file descriptors.
 *
 *      EXPORT   the engine has written the file: it is read and sent, as fast as the peer reads
 *      UPLOAD   chunks are written into a file, one after the other; the last begins the import
 *      IMPORT   the engine reads the file
 *
 *      Export ──ENGINE_EXPORTED──▶ EXPORT ──all is sent──▶ Exported, gone
 *      Import ──▶ UPLOAD ──Chunk, last──▶ IMPORT ──▶ its answer, gone
 *
 * 1. Files are read and written by the engine's workers, since a disk may make the loop thread wait. A
 *    stream has at most one request in the engine.
 * 2. Of an export at most two pieces of STREAM_PIECE bytes are in memory: one is read while the peer's
 *    output has less than one.
 * 3. While a chunk of an upload is written, no further message of its connection is handled
 *    (conn_hold()). So the chunks of a client that is faster than the disk wait in its socket.
 * 4. The id of a stream belongs to its request until the final event, as that of any request: no other
 *    request may have it, and Cancel finds it. Chunks for an id that has no upload are ignored: the
 *    client could not know yet that the upload has failed.
 * 5. An upload of which nothing comes for frame-timeout fails. Time in which the peer does not read its
 *    own output does not count.
 * 6. A peer has at most STREAMS_PER_PEER streams, a user STREAMS_PER_USER.
 * 7. When the peer is gone a stream without a request in the engine goes at once, else with the end of
 *    this request. Files are closed by the closer.
 *
 * Loop thread only.
 */
#include "daemon/peer.h"

#define STREAM_PIECE (256u << 10)
#define STREAM_MAX_CHUNK (1u << 20)
#define STREAMS_PER_PEER 8
#define STREAMS_PER_USER 32

struct stream;

/* May @p have one more, beside @n that are about to begin? 0 or -ERR_LIMIT. */
int streams_admit(const struct peer *p, size_t n, struct err *e);
/* The stream that the peer calls @id, or NULL. */
struct stream *streams_find(const struct peer *p, uint64_t id);
/* Send the file of export @id, whose descriptor is taken over, and then Exported. On failure the peer
 * is told. */
void streams_export(struct peer *p, uint64_t id, int fd, uint64_t size, uint32_t n_memory_tokens);
/* Begin upload @id of a conversation for @owner. The import's events go to @answer, with the peer and
 * this id. -ERR_LIMIT, -ERR_NOMEM. */
int streams_upload(struct peer *p, uint64_t id, uint64_t owner, const char *name,
        request_fn *answer, struct err *e);
/* A chunk of an upload; ignored if there is none of this id. */
void streams_chunk(struct peer *p, uint64_t id, const void *data, size_t n, bool last);
/* End the stream: the peer gets @e for its id. */
void stream_fail(struct stream *s, const struct err *e);
/* Cancel the stream. */
void stream_cancel(struct stream *s);
/* Cancel the streams of peers that act for user @uid or any tenant of it, or (not NULL) for this tenant alone. */
void streams_cancel_of(struct daemon *d, uint32_t uid, const char *tenant);
/* Some of the peer's output was written: go on with its exports. */
void streams_go_on(struct peer *p);
/* The peer goes. */
void streams_leave(struct peer *p);
/* The daemon ends; there is no engine any more. */
void streams_free_all(struct daemon *d);
