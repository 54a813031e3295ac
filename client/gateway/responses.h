/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The inside of /v1/responses and /v1/conversations.
 *
 *   responses-id.c                          ids, see responses-id.h
 *   responses-read.c, responses-input.c     a body (JSON) into a form and struct responses_wish
 *   responses-turns.c                       turns of a conversation into items
 *   responses-items.c, responses-object.c   items and Response objects as JSON
 *   responses-write.c, responses-events.c   what a talk tells into events or one Response
 *                                           (all of these are pure: no sockets)
 *   asker.c                                 a call that asks a daemon
 *   responses-create.c, responses-place.c   a body on its way to a talk: where it goes on
 *   responses-get.c, responses-attach.c, ... what becomes of a response afterwards
 *
 * How OpenAI's words map to conversations:
 *
 *   input alone             the whole history: it is found (FORM_FIND)
 *   previous_response_id    behind the turn of that reply (FORM_AT); used twice, it is a fork
 *   conversation            behind all of it (FORM_AT, FORM_AT_END)
 *   item_reference          at the beginning of `input`: behind the turn of that item (FORM_AT). Elsewhere it stands for
 *                           what the item says, in a history that is found
 *   instructions            a message of the system in front of all. With previous_response_id they are those of this
 *                           request alone: if they are the same as before, the conversation goes on; else
 *                           the history is told anew with them (or without any), and found or made as such.
 *                           In a `conversation` they hold until others are given, and stay in it
 *   store: false            the conversation expires as one that nobody goes on with; until then ids are good
 */
#include "base/buf.h"
#include "base/json.h"
#include "client/gateway/fields.h"
#include "client/gateway/form.h"
#include "client/gateway/openai.h"
#include "client/gateway/responses-id.h"
#include "client/gateway/talk.h"
#include "client/gateway/writer.h"

enum {
        RESPONSES_MAX_ITEMS =
                65536, /* of one input: several make one message, of which the daemon takes 16384 */
        RESPONSES_MAX_REFERENCES = 1024 /* of these */
};

/* ---- what is asked for, beside the form ---- */

/* Texts live in `memory`; those that are named JSON are told again as they came. */
struct responses_wish {
        struct form *memory; /* owned; holds no messages */
        struct openai_options options;
        bool background, store, summary, truncates;
        const char *instructions; /* or NULL */
        const char *previous;     /* previous_response_id, or NULL */
        const char *conversation; /* its id, or NULL */
        /* JSON or NULL */
        const char *metadata, *tools, *tool_choice, *text, *reasoning, *temperature, *top_p,
                *max_output_tokens, *top_logprobs, *user, *cache_key;
};
#define RESPONSES_WISH_NULL ((struct responses_wish){.store = true})
void responses_wish_deinit(struct responses_wish *wish);

enum responses_state {
        RESPONSES_COMPLETE,
        RESPONSES_INCOMPLETE, /* the reply ended in the middle of it */
        RESPONSES_BEGUN       /* nothing of it was said yet */
};

/* A part of a turn, or a whole one. */
struct responses_item {
        struct responses_id id; /* its kind says what it is; daemon and conversation are set */
        enum confab_role role;  /* of a message */
        const char *text;       /* of a call: its arguments */
        size_t text_size;
        const char *call_id, *name; /* of calls, and of results where known */
        enum responses_state state;
};

/* What references of an input say. */
struct responses_known {
        struct responses_item *items; /* [n] */
        size_t n;
};

/* All of a body but `input`: into @form, which the talk gets, and @wish, to be deinitialised after a failure, too. Errors:
 * see openai.h. */
int responses_read(struct form *form, struct responses_wish *wish, struct fields *fields,
        const json_t *root, struct err *e);
/* The references of input[@from...] in order: *ret [*ret_n] is to be freed. Of ids that are not ours: -ERR_NOT_FOUND. */
int responses_read_references(struct fields *fields, const json_t *root, struct responses_id **ret,
        size_t *ret_n, struct err *e);
/* How many items at the beginning of `input` are references which name one place after the other in one
 * conversation: the rest of the input stands behind the last of them. */
size_t responses_leading_references(const json_t *root);
/* input[@from...] (0: also a string) as messages of @form. The field is @name: "input", or "items". */
int responses_read_input(struct form *form, struct fields *fields, const json_t *root,
        const char *name, size_t from, const struct responses_known *known, struct err *e);
/* A message of the system at the end of @form's. */
int responses_add_instructions(struct form *form, const char *text, struct err *e);
/* An item at the end of @form's messages, copied. */
int responses_add_item(struct form *form, const struct responses_item *item, struct err *e);

/* ---- items of turns ---- */

/* Calls @fn for each item of turn number @turn, in order, until it returns something else than 0, which is returned; each
 * turn has an item at least. Strings live as @turn does. @of has daemon and conversation. */
typedef int (*responses_item_fn)(void *userdata, const struct responses_item *item);
int responses_each_item(const struct responses_id *of, uint32_t number,
        const struct confab_turn *turn, responses_item_fn fn, void *userdata);
/* The same of a reply, as its response tells it: with RESPONSES_ONE_CALL up to its first proper call. */
int responses_each_output(const struct responses_id *of, const struct confab_turn *turn,
        responses_item_fn fn, void *userdata);

/* ---- JSON ---- */

/* As one item of a list. @summary: see RESPONSES_SUMMARY. @logprobs: of a text: JSON of tokens with commas between, or
 * NULL. */
void responses_put_part(struct json *j, const struct responses_item *item, bool summary,
        const struct buf *logprobs); /* the content of a text or of reasoning */
void responses_put_item(struct json *j, const struct responses_item *item, bool summary,
        const struct buf *logprobs);
void responses_put_id(struct json *j, const struct responses_id *id);
/* That what @id names, an @object ("response"), is gone. 0 or -ERR_NOMEM. */
int responses_write_deleted(struct buf *out, const struct responses_id *id, const char *object);

struct responses_object {
        const struct responses_id *id;
        const char *status, *model;
        uint64_t completed;                     /* seconds since 1970; 0: not */
        const char *error_code, *error_message; /* or NULL */
        const char *incomplete;                 /* the reason, or NULL */
        const struct buf *output;               /* items with commas between, or NULL */
        const struct talk_usage *usage;         /* or NULL */
        const char *conversation;               /* id, or NULL */
        const struct responses_wish *wish;
        const char *instructions; /* if not those of the wish */
        size_t instructions_size;
};
void responses_put_object(struct json *j, const struct responses_object *object);
/* "completed", "incomplete" or "cancelled"; *ret_incomplete: the reason, or NULL. */
const char *responses_status(
        enum confab_finish finish, bool is_enough, const char **ret_incomplete);

/* ---- a reply ---- */

/* Where a reply is, and how it was asked for. */
struct responses_place {
        struct responses_id
                id;       /* flags, instructions_size, created; of a response that exists: all */
        uint32_t n_given; /* turns in front of the reply that the request gave; 0: the new ones */
        uint64_t seed;    /* of the reply */
        char conversation[RESPONSES_ID_SIZE]; /* its id, or "" */
};
/* Writes events (if wish->options.stream), or one Response; of one in the background that is not streamed begin() writes it,
 * and returns 1. The wish belongs to the writer from now on, also without memory: then NULL is returned. */
struct writer *responses_writer_new(
        struct responses_wish *wish, const struct responses_place *place);
/* Of a response that exists, as events: those up to number @after (-1: none) are not put. It is begun by
 * responses_writer_begin(), in place of begin(). */
struct writer *responses_writer_resume(
        struct responses_wish *wish, const struct responses_place *place, int64_t after);
int responses_writer_begin(struct writer *writer, const char *model);
