/* SPDX-License-Identifier: MIT */
#pragma once
/* A response that exists: what becomes known of it, step by step, until it is told or changed. */
#include "client/gateway/responses-place.h"

struct responses_fetching {
        struct asker asker;
        struct responses_id id;
        struct backend *backend;
        void (*then)(struct responses_fetching *fetching); /* when all of this is known: */
        enum responses_fate fate;
        enum confab_finish finish; /* of a stored reply */
        bool said_enough;          /* it has the one call that was wanted */
        bool is_last;              /* nothing follows in the conversation */
        uint64_t revision;         /* of the conversation */
        struct responses_wish wish;
        struct buf output; /* items, as JSON with commas between */
        char model[256];
        struct talk_usage usage;
        uint64_t completed; /* seconds */
        const char *instructions;
        size_t instructions_size;
        struct responses_place place;
        int64_t after; /* of a stream: events up to this number are not asked for */
};

/* Find out all about the response that the call's path names, then call @then; or refuse. */
void responses_fetch(struct gateway_call *call, void (*then)(struct responses_fetching *fetching));
/* The same once more. */
void responses_fetch_again(struct responses_fetching *fetching);
/* The answer: the Response. */
void responses_fetch_reply(struct responses_fetching *fetching);
/* Its events (responses-attach.c). */
void responses_attach(struct responses_fetching *fetching);
