/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * From messages to the engine's requests, and from its events to messages. Only daemon/methods*.c
 * and reply.c know protobuf's types. One function per verb, in a table (methods.c).
 */
#include "daemon/peer.h"

/* One frame from the peer. */
void methods_handle(struct peer *p, const uint8_t *data, size_t n);
/* One event of the engine for @r, whose peer is there. */
void methods_send_event(struct request *r, struct engine_event *ev);
