/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Messages to a peer: one message for one request, and the last message of a connection.
 * Loop thread only.
 */
#include "daemon/peer.h"
#include "proto/proto.h"

/* Send @ev with request set to @id. If the message is too long for the peer, an error is sent
 * instead if @final, else the connection ends. */
void reply_send(struct peer *p, uint64_t id, Confab__V1__Event *ev, bool final);
void reply_error(struct peer *p, uint64_t id, const struct err *e);
/* The same of an event. */
void reply_failed(struct peer *p, uint64_t id, const struct engine_event *ev);
void reply_empty(struct peer *p, uint64_t id);
/* Bytes of an export. The message has at most REPLY_CHUNK_MORE bytes more than @n. */
#define REPLY_CHUNK_MORE 64
void reply_chunk(struct peer *p, uint64_t id, const void *data, size_t n);
/* The answer to an export. @fd is sent with it and taken over; -1: its bytes were sent. */
void reply_exported(struct peer *p, uint64_t id, uint64_t size, uint32_t n_memory_tokens, int fd);
/* The peer broke the protocol: tell it, and end the connection. */
void reply_protocol_error(struct peer *p, uint64_t id, const struct err *e);
/* Its Hello is refused: tell the peer why, and end the connection. */
void reply_refuse_hello(struct peer *p, uint64_t id, const struct err *e);
/* The connection cannot continue (limits, stopping): tell the peer, and end it. */
void reply_refuse(struct peer *p, const struct err *e);
