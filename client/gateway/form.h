/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The neutral form of a request: what a dialect reads out of its JSON, and what a talk acts on.
 *
 * A form owns everything in it (an arena): strings that are put into it are copied by form_text() or
 * form_strdup() and live until form_free(). Numbers are checked by the dialect; the daemon checks
 * them again.
 */
#include "base/err.h"
#include "client/confab.h"
#include <stddef.h>
#include <stdint.h>

struct form;

enum form_input {
        FORM_MESSAGES,
        FORM_RAW,   /* `raw`: bytes without a template, in a conversation of their own */
        FORM_TOKENS /* `tokens`, likewise */
};
/* Where the conversation comes from. */
enum form_place {
        FORM_FIND, /* the messages are the whole history: find the conversation that begins like them */
        FORM_NAMED, /* of the name `conversation` (made if there is none); the messages are the whole history */
        FORM_AT, /* behind turns [0, at_turn) of conversation_id; the messages are new ones */
        FORM_NEW /* a conversation of its own */
};

#define FORM_AT_END UINT32_MAX

/* Fields are public; unset: 0, NULL, false. */
struct form_fields {
        const char *model;  /* or NULL */
        const char *daemon; /* the socket of the one that answers, whatever `model` says; or NULL */
        enum form_input input;
        struct confab_message *messages; /* [n_messages], see form_add_message() */
        size_t n_messages;
        const void *raw;
        size_t raw_size;
        const int32_t *tokens;
        size_t n_tokens;
        const char *tools; /* a JSON array as in OpenAI's "tools", functions only; or NULL */

        struct confab_sampling sampling;
        bool has_max_tokens;
        uint32_t max_tokens; /* a limit, not a demand; without one see struct talk_settings */
        const char *const *stops;
        size_t n_stops;
        unsigned n; /* choices, at least 1 */
        bool want_logprobs;
        uint32_t n_logprobs;
        const char *json_schema, *gbnf; /* or NULL, at most one */
        /* The reply is a call of this function, "": of any; or NULL. A format holds for other replies. */
        const char *call_of;
        bool shift; /* drop old turns if the context is full, in place of an error */

        enum form_place place;
        const char *conversation; /* FORM_NAMED */
        uint64_t conversation_id; /* FORM_AT */
        uint32_t at_turn;         /* FORM_AT_END: all, and behind what is being written there */
        bool fork; /* FORM_AT: leave that conversation as it is, also where nothing follows */
        const char *session;  /* what the client calls its chat, or NULL */
        const char *title;    /* of a conversation that is made, or NULL */
        const char *metadata; /* likewise, a JSON object, or NULL */
        const char *tag;      /* likewise, one tag that says which dialect made it; or NULL */
        bool has_expires_after;
        uint32_t
                expires_after; /* seconds, of a conversation that is made; else the gateway's setting */
        bool detach;           /* the reply goes on when the client goes away */
        bool stream;
};

/* All of @ret's fields are unset but n = 1. -ERR_NOMEM. */
int form_new(struct form **ret, struct err *e);
struct form *form_free(struct form *form); /* NULL is harmless */
struct form_fields *form_fields(struct form *form);

/* Memory of the form: zeroed; NULL without memory. */
void *form_alloc(struct form *form, size_t size);
char *form_strdup(struct form *form, const char *s);
char *form_text(struct form *form, const void *text, size_t size); /* with a NUL behind it */
/* One more message at the end, all fields 0; pointers to earlier ones become invalid. NULL without memory. */
struct confab_message *form_add_message(struct form *form, enum confab_role role);
/* One more call or result of the last message; pointers to its earlier ones become invalid. NULL without memory. */
struct confab_call *form_add_call(struct form *form);
struct confab_result *form_add_result(struct form *form);
/* One more stop string, copied. -ERR_NOMEM. */
int form_add_stop(struct form *form, const char *stop);
