/* SPDX-License-Identifier: MIT */
#pragma once
/* What tests of /v1/responses share: a body that was read, and what a reply puts. */
#include "client/gateway/responses.h"
#include "unit/gateway/dialect-rig.h"

struct responses_body {
        json_t *json;
        struct form *form;
        struct form_fields *is;
        struct responses_wish wish;
        struct responses_id *references;
        size_t n_references;
        struct responses_known known;
        struct fields fields;
        struct err e;
        int r; /* 0, or the first error */
};
/* Read all of @text; references are taken for items of their number: "item 0", ... Fails only for lack of memory, or where
 * the body is no JSON. */
void responses_rig_read(struct responses_body *ret, const char *text);
void responses_rig_read_json(struct responses_body *ret, json_t *json); /* is owned */
void responses_rig_free(struct responses_body *body);

/* The place of all replies: created at 1795309965, instructions of 3 bytes, seed 7. */
extern const struct responses_place responses_rig_place;

/* What a writer has put, one behind the other. */
struct responses_said {
        struct writer *writer; /* owned */
        json_t *events;        /* an array */
        struct rig_said rig;   /* for rig_begin() and the like; refuse_at counts for it, too */
};
void responses_said_init(struct responses_said *said, struct writer *writer);
void responses_said_deinit(struct responses_said *said);
/* A writer of a reply to the body @text. */
void responses_said_ask(struct responses_said *said, const char *text);
/* Reasoning "hm", the text "Wait.", news of a part that is not known, a call f, a call g that broke; from begin() to done(). */
void responses_said_tell(struct responses_said *said);
const json_t *responses_said_at(const struct responses_said *said, size_t i);
const json_t *responses_said_last(const struct responses_said *said);

/* The value at @path ("output.0.id"), which is there. */
const json_t *responses_at(const json_t *value, const char *path);
/* It is @wanted, compact JSON. */
void responses_assert_json(const json_t *value, const char *path, const char *wanted);
