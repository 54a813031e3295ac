/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of the writer of responses.
 *
 * 1. Events are a function of the request, the parts of the reply and how it ended. So a stream that is
 *    resumed from the reply's tokens has the same events with the same numbers.
 * 2. Numbers count from 0 without gaps, also those of events that are not put since the client has them.
 * 3. An item is open from its first news until another part begins, or the reply ends; a call until it ends.
 *    A reply that says nothing has one empty message.
 * 4. Whatever ends the reply ends the open item first.
 */
#include "client/gateway/openai-logprobs.h"
#include "client/gateway/responses.h"

struct responses_reply {
        struct writer writer;
        struct responses_wish wish;
        struct responses_place place;
        char *model;
        bool puts_events;
        int64_t after; /* events up to this number are not put */
        bool enough;   /* the one call that is wanted was told */

        int64_t sequence; /* number of the next event */
        uint32_t n_items; /* told and ended: the output_index of the open one */
        bool is_open;
        struct responses_item item; /* the open one; its texts are these: */
        char *call_id, *name;
        struct buf text, logprobs;
        struct openai_tokens tokens;
        struct buf output; /* the items that ended, as JSON with commas between */
        struct buf out;    /* the event or the list that is being written */
};

/* ---- responses-events.c: each puts events, or does nothing if there are none ---- */

/* response.TYPE with the whole object. @usage, @code, @message, @incomplete: or NULL. */
int responses_event_response(
        struct responses_reply *reply, const char *type, const struct responses_object *object);
int responses_event_item_begins(struct responses_reply *reply);
int responses_event_delta(struct responses_reply *reply, const char *text, size_t size);
int responses_event_item_ends(struct responses_reply *reply);
