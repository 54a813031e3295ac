/* SPDX-License-Identifier: MIT */
#pragma once
/* What a daemon says to a client, written in advance, so that it is not among the allocations that fail. */
#include "proto/proto.h"
#include "util/test.h"

/* Append the event @kind of request @id to @script. */
static inline void script_say(
        struct buf *script, uint64_t id, Confab__V1__Event__KindCase kind, void *message) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = kind;
        event.hello = message; /* all members of the union are pointers */
        assert_int_equal(proto_append_frame(script, &event.base, PROTO_MAX_EVENT, NULL), 0);
}
