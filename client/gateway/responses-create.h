/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A body of /v1/responses on its way to a talk.
 *
 *      body ──→ form without messages, wish, ids of references             (responses-create.c)
 *        │
 *        ├─ previous_response_id: look, wait if it is being written
 *        ├─ conversation: look                                             (responses-resolve.c)
 *        ├─ references in front: look at the last one
 *        │       │ other instructions than before: read all turns in front of the place, tell them anew
 *        ├─ other references: read their turns
 *        ↓
 *      messages ──→ talk
 *
 * What was looked at may change before the talk goes on from there. The talk looks at the conversation once more, and
 * forks it if there is more in it than what stands in front of the place.
 */
#include "client/gateway/responses-place.h"

struct responses_creating {
        struct asker asker;
        bool counts; /* tokens are counted; no reply is made */
        json_t *body;
        struct form *form;
        struct responses_wish wish;
        struct responses_place place;
        struct fields fields;
        struct responses_id *references; /* [n_references], in order */
        size_t n_references, n_leading;  /* n_leading: those that name the place */
        struct responses_known known;    /* what the others say: items [0, n_known) are there */
        size_t n_known;
        /* Where it goes on. */
        struct backend *backend; /* NULL: the model says */
        struct responses_id at;  /* the response, conversation or item that names the place */
        uint32_t at_turn;        /* behind turns [0, at_turn) */
        unsigned n_looks;
        bool says_instructions; /* they are told in front of the new messages */
        size_t n_told;          /* messages that were told anew, from the conversation */
};

/* ---- responses-resolve.c ---- */

/* Find out where it goes on, and then call responses_create_start(); or refuse. */
void responses_resolve(struct responses_creating *creating);

/* ---- responses-create.c ---- */

/* Everything is known: begin the talk. */
void responses_create_start(struct responses_creating *creating);
