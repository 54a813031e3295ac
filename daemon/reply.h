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
void reply_empty(struct peer *p, uint64_t id);
/* The peer broke the protocol: tell it, and end the connection. */
void reply_protocol_error(struct peer *p, uint64_t id, const struct err *e);
/* Its Hello is refused: tell the peer why, and end the connection. */
void reply_refuse_hello(struct peer *p, uint64_t id, const struct err *e);
/* The connection cannot continue (limits, stopping): tell the peer, and end it. */
void reply_refuse(struct peer *p, const struct err *e);
