/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * /v1/conversations: a conversation of OpenAI's is one of confab's, its items are parts of turns.
 *
 * 1. It does not expire.
 * 2. Items that are added become turns without a reply, all or none of them.
 * 3. Only the last item can be deleted, since what follows an item was said knowing it.
 */
#include "client/gateway/responses-list.h"
#include "client/gateway/responses-place.h"

struct conversing {
        struct asker asker;
        struct responses_id id;
        struct backend *backend;
        void (*then)(struct conversing *conversing, const struct confab_conversation *c);
        struct fields fields;
        json_t *body;
        struct form *form;           /* of items that are added */
        const char *metadata;        /* JSON, in `form`, or NULL */
        struct responses_id item_id; /* of one item; then it itself: */
        struct responses_item item;
        bool has_item;
        size_t n_items; /* of its turn */
        struct responses_page page;
        struct responses_range range;
        struct talk *talk;
        struct talk_place place; /* of the items that were added */
        void (*said)(struct conversing *conversing);
};

/* NULL: the call was refused. */
struct conversing *conversing_new(struct gateway_call *call);
/* Look at the conversation that the call's path names, and call @then; or refuse. */
void conversing_look(struct conversing *conversing,
        void (*then)(struct conversing *conversing, const struct confab_conversation *c));
/* Read the body: an object, or nothing. False: it was refused. */
bool conversing_read(struct conversing *conversing);
/* The body's items, as messages of the form. False: they were refused. */
bool conversing_read_items(struct conversing *conversing);
/* Say the form's messages; @then is called when they are stored, with the place. */
void conversing_say(struct conversing *conversing, void (*then)(struct conversing *conversing));
/* The answer: the conversation. */
void conversing_reply(struct conversing *conversing, const struct confab_conversation *c);
