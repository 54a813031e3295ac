/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Turns messages into the engine's requests, and its events into messages. Only daemon/methods*.c
 * and reply.c know protobuf's types. One function per verb, in a table (methods.c).
 */
#include "daemon/peer.h"

/* Handle one frame from the peer. */
void methods_handle(struct peer *p, const uint8_t *data, size_t n);
/* Send one event of the engine for @r, whose peer is connected. */
void methods_send_event(struct request *r, struct engine_event *ev);
