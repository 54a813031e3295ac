/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to talk*.c: what a talk is made of. talk.c opens with how a talk goes.
 *
 * A talk's requests to the daemon are errands: each has a function that gets its events. While the owner
 * is interested, errands lead to the next one; afterwards they are only awaited and cleaned up behind.
 */
#include "base/list.h"
#include "client/gateway/talk.h"

#define TALK_TRIES 4      /* searches, before a conversation is made anew or the talk fails */
#define TALK_RECONNECTS 2 /* before anything is accepted */
#define TALK_TITLE_SIZE 120
#define TALK_NO_LIMIT (UINT32_MAX - 1) /* the longest reply that a Continue can ask for */
#define TALK_NO_CALL "call00000"       /* the id of results that answer nothing that is known */

struct talk;

struct talk_choice {
        struct talk *talk;
        unsigned number;
        uint64_t conversation; /* 0: not known yet */
        uint64_t revision;     /* that the Continue expects */
        uint64_t request;      /* of its Continue in flight, or 0 */
        bool made; /* the talk made the conversation, which goes if nothing is accepted */
        bool accepted, done;
        bool begun;        /* its fork or its Continue was asked for */
        bool in_reasoning; /* the last part was reasoning */
        struct talk_usage usage;
};

/* Where the first choice goes on. */
struct talk_spot {
        uint64_t conversation, revision;
        uint32_t at_turn;
        size_t n_covered; /* of the messages: the conversation has them already */
        bool cut;         /* turns from at_turn on are dropped; the keeper has them */
        bool wait;        /* until a request that holds the conversation has ended */
        bool shift;       /* its overflow is to be changed to "shift" */
        bool prolong;     /* it was to expire soon, and is used again */
        bool empty;       /* it has no turns */
};

struct talk {
        struct backends_guest guest;
        bool is_guest;
        struct backends *backends;
        struct backend *backend; /* NULL: the model is being looked for */
        struct line *line;       /* NULL: none yet */
        struct talk_settings settings;
        struct gateway_owner owner;
        struct form *form;
        struct form_fields *fields; /* of `form` */
        struct talk_ops ops;
        void *userdata;
        talk_counted counted; /* of talk_count(), else NULL */

        const char *session;             /* that the daemon takes, or NULL */
        struct confab_message *messages; /* [n_messages], as they are told: talk-messages.c */
        size_t n_messages;
        bool one_system;   /* messages of the system are joined, likewise */
        bool no_reasoning; /* given reasoning is left out */
        bool plain;        /* the model takes no tools: talk-plain.c */
        bool mapped;       /* ids of results are those of the conversation */

        struct talk_spot spot;
        uint64_t keeper; /* a fork that has what a cut drops, or 0 */
        unsigned n_tries, n_reconnects;
        uint32_t reply_turn; /* of all choices */
        bool choices_wait;   /* they begin when the first choice is done */

        struct list errands;
        unsigned depth; /* of callbacks that run */
        bool starting;  /* talk_make() has not returned: an error is kept in start_error */
        struct err start_error;
        bool cancelled; /* talk_cancel() */
        bool ended;     /* `ended` was called, or the owner is gone */
        bool left;      /* nobody listens, but the talk goes on */
        bool released;  /* the owner is gone: destroyed when all errands have ended */
        size_t n_choices;
        struct talk_choice choices[]; /* [n_choices] */
};

typedef void (*talk_fn)(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event);

/* A request in flight. */
struct talk_errand {
        struct list link;
        struct talk *talk;
        struct talk_choice *choice; /* or NULL */
        talk_fn fn;
        uint64_t id;
        enum confab_verb verb;
        bool is_keeper; /* a fork for talk->keeper */
};

/* ---- talk.c ---- */

/* As talk_new(); with @counted, @ops are not used. */
int talk_make(struct talk **ret, struct backends *backends, const struct talk_settings *settings,
        const struct gateway_owner *owner, struct form *form, const struct talk_ops *ops,
        talk_counted counted, void *userdata, struct err *e);
/* Look for the conversation, or make it: from the beginning. */
void talk_begin(struct talk *talk);
/* Send a request; @fn gets its events. False: it could not be sent, and the talk has failed. */
bool talk_submit(struct talk *talk, struct talk_choice *choice,
        const struct confab_request *request, talk_fn fn);

/* ---- talk-find.c ---- */

/* Ask which conversation has the messages (FORM_FIND, FORM_NAMED). */
void talk_find(struct talk *talk);
/* Look at the conversation that the form names (FORM_AT). */
void talk_look(struct talk *talk);

/* ---- talk-open.c ---- */

/* Make a conversation; @name: NULL lets the daemon choose. */
void talk_open(struct talk *talk, const char *name);
/* Fork the spot's conversation at its turn. */
void talk_fork(struct talk *talk);
/* Fork the whole conversation of the spot, which is to be cut. */
void talk_keep(struct talk *talk);
/* Write the spot's conversation anew for this model, and begin again. */
void talk_carry(struct talk *talk);
/* What is noted about a conversation that the talk makes. @is_new: not a fork. */
struct talk_about {
        struct confab_about about;
        const char *tags[1];
        char title[TALK_TITLE_SIZE];
        char name[24]; /* empty: it is not about the name */
};
void talk_fill_about(const struct talk *talk, struct talk_about *ret, bool is_new);

/* ---- talk-run.c ---- */

/* Say what is new, and take the reply of the first choice. */
void talk_run(struct talk *talk);
/* The conversation stays, if it was to expire soon and has gone on. */
void talk_prolong(struct talk *talk);
/* Fill the fields of a Continue that all choices have. */
void talk_fill_continue(const struct talk *talk, const struct talk_choice *choice,
        struct confab_request *request, struct confab_sampling *sampling);
/* The events of a Continue. */
void talk_on_reply(struct talk *talk, struct talk_choice *choice, const struct confab_event *event);

/* ---- talk-choices.c ---- */

/* Begin the choices behind the first one. */
void talk_choices_begin(struct talk *talk);

/* ---- talk-results.c ---- */

/* Look up the ids of the calls that the first messages answer, and run again. */
void talk_map_results(struct talk *talk);

/* ---- talk-count.c ---- */

/* The number is there, or @error. */
void talk_count_end(struct talk *talk, uint32_t n_tokens, const struct talk_error *error);

/* ---- talk-messages.c ---- */

/* Make `messages` from the form's. -ERR_NOMEM. */
int talk_tell_messages(struct talk *talk, struct err *e);
/* Whether `one_system` would tell the messages otherwise. */
bool talk_can_join_system(const struct talk *talk);
/* Leave reasoning out of messages. True if there was any. */
bool talk_drop_reasoning(struct talk *talk);
/* The turns that messages [from, n_messages) become. */
uint32_t talk_count_turns(const struct talk *talk, size_t from);

/* ---- talk-plain.c ---- */

/* The definitions that the model is told, or NULL. */
const char *talk_tools(const struct talk *talk);
/* Calls and results in `messages` become text. -ERR_NOMEM. */
int talk_tell_plainly(struct talk *talk, struct err *e);
/* Whether the model was not the one that was thought: then the talk has begun again, or failed. @event is the answer to
 * a talk's first request. */
bool talk_was_mistaken(struct talk *talk, const struct confab_event *event);

/* ---- talk-end.c ---- */

/* A request failed before the input was accepted: begin again where that may help, else fail. */
void talk_trouble(struct talk *talk, const struct confab_error *error);
/* Begin again; what the talk has made goes. */
void talk_again(struct talk *talk);
/* The talk ends with an error. @param: see struct talk_error. */
void talk_fail(struct talk *talk, const struct confab_error *error);
void talk_fail_with(struct talk *talk, const struct talk_error *error);
/* All choices are done. */
void talk_finish(struct talk *talk);
/* Close conversations that were made for nothing; called again when an errand has ended. */
void talk_clean(struct talk *talk);
/* Free it now, with all errands. */
void talk_destroy(struct talk *talk);
/* The same if the owner is gone and nothing is left to do. Whoever calls back ends with it. */
void talk_settle(struct talk *talk);
