/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A talk: one form made to happen with a daemon: find or make the conversation, fork where the history
 * branches, say what is new, and hand the reply out as it is written.
 *
 * How a whole history leads to a conversation (FORM_FIND, FORM_NAMED):
 *  - Find tells the conversation whose turns [0, at_turn) say the same as messages [0, n_messages).
 *  - If that is its end, the reply continues it; what is computed is what is new. An edit, another try or a busy
 *    conversation forks it at at_turn: nothing that was said is ever dropped. (FORM_NAMED keeps the name
 *    on the branch that was asked for last: the older branch stays under a name of its own.)
 *  - If nothing agrees, a conversation is opened.
 *  - The last message must be one that a reply can follow (user, tool, system). A request whose last message is answered
 *    already in the conversation (a retry, "regenerate") forks behind that message. A message that was accepted and
 *    not answered (a crash, a closed connection) is found as such and answered.
 * Several choices (n > 1) compute the input once, then fork, and are written side by side.
 *
 * 1. Only what the owner of the talk may see is found, forked or continued (the daemon keeps that).
 * 2. Between finding and continuing another request may change the conversation: Continue says which
 *    revision it expects, and a conflict begins the talk anew (a few times, then it forks).
 * 3. A talk ends with exactly one `ended`, unless talk_free() came before; that cancels what runs (but for detached
 *    replies, which go on).
 * 4. Errors: nothing was said to the client before the first `accepted`, so the dialect can still send a status.
 *
 * All functions: the thread of the event base. Pointers in callbacks live until they return. A callback may call
 * talk_free().
 */
#include "client/gateway/backend.h"
#include "client/gateway/form.h"

struct talk;

/* What went wrong: the daemon's (or libconfab's) words, and the status that HTTP has for it. */
struct talk_error {
        unsigned status;      /* 400, 404, 409, 429, 500, 503, ... */
        unsigned retry_after; /* seconds, 0: not said */
        const char *code;     /* CONFAB_...; "context_length_exceeded" among them */
        const char *message;
        const char *param; /* the field of the form that is wrong, or NULL */
        const char *
                address; /* of CONFAB_MOVED: where the conversation is held; "" or NULL: not known */
};
/* Status and Retry-After for an error of libconfab; @ret's strings are those of @error. */
void talk_error_from(struct talk_error *ret, const struct confab_error *error);
/* A reply that another request cancelled: what there is of it is not what was asked for. */
extern const struct talk_error talk_error_cancelled;

struct talk_usage {
        uint32_t n_prompt; /* tokens of history and input */
        uint32_t n_cached; /* of these, not computed */
        uint32_t n_generated;
        uint32_t n_reasoning;           /* of these, in reasoning */
        uint32_t n_drafted, n_accepted; /* tried ahead of the reply; of these, in it */
};

/* How figures of the daemon become usage. Tokens of marks come without a part; they belong to what was said last,
 * @in_reasoning (false in the beginning). */
void talk_usage_prompt(struct talk_usage *usage, uint32_t n_prompt, uint32_t n_computed);
void talk_usage_delta(
        struct talk_usage *usage, bool *in_reasoning, const struct confab_delta *delta);

/* Where the reply of a choice is: the places that ids of the dialects name. */
struct talk_place {
        uint64_t conversation;
        uint64_t revision;
        uint32_t input_turn; /* the first new turn */
        uint32_t reply_turn; /* the turn of the reply */
};

struct talk_ops {
        /* The input is durable. Once per choice, before its first delta. */
        void (*accepted)(void *userdata, unsigned choice, const struct talk_place *place,
                const struct talk_usage *usage);
        /* The prompt is being computed (for keep-alives); or NULL. */
        void (*progress)(void *userdata, uint32_t done, uint32_t total);
        /* With parts; of FORM_RAW and FORM_TOKENS with text. */
        void (*delta)(void *userdata, unsigned choice, const struct confab_delta *delta);
        /* The reply of this choice is complete. */
        void (*done)(void *userdata, unsigned choice, const struct confab_done *done,
                const struct talk_usage *usage);
        /* @error NULL: all choices are done. The talk is to be freed with talk_free(), now or later. */
        void (*ended)(void *userdata, const struct talk_error *error);
};

struct talk_settings {
        uint32_t expires_after; /* seconds, of conversations that get no name; 0: never */
        /* Seconds, of conversations that a talk opens because it found none, until another talk goes on with them:
         * requests for titles and the like come once and never again. 0: as expires_after. */
        uint32_t expires_once;
        uint32_t n_choices; /* form.n is at most that */
        uint32_t
                max_reply; /* tokens, if the form has no limit; 0: as many as the context has room for */
        bool shift;        /* overflow "shift" for conversations that a talk makes */
};

/* The longest reply of a request that has no limit of its own, in every dialect and in /confab/v1: what a Continue asks for. The
 * daemon ends it where the context does. Any thread. */
uint32_t talk_longest_reply(const struct talk_settings *settings);

/* Begin. @form belongs to the talk from now on (also on failure). @ops are called from the loop, never before this
 * returns. Errors: -ERR_NOMEM, -ERR_INVALID (form), -ERR_NOT_FOUND (model), -ERR_UNAVAILABLE (no daemon). */
int talk_new(struct talk **ret, struct backends *backends, const struct talk_settings *settings,
        const struct gateway_owner *owner, struct form *form, const struct talk_ops *ops,
        void *userdata, struct err *e);
/* Also cancels. NULL is harmless; returns NULL. */
struct talk *talk_free(struct talk *talk);
/* The same but for the reply: let what runs go on at the daemon without a reader (detached). */
struct talk *talk_leave(struct talk *talk);
/* Ask the daemon to end the replies; `done` comes with CONFAB_FINISH_CANCELLED. */
void talk_cancel(struct talk *talk);
/* A slow reader: no deltas come until talk_resume(). */
void talk_pause(struct talk *talk);
void talk_resume(struct talk *talk);

/* The model that answers, and its backend; valid while the talk lives. */
const struct backend_model *talk_model(const struct talk *talk);

/* Count the tokens of a form without computing anything: its history and input as a prompt. @fn gets the number, or
 * @error; then the talk has ended and is freed. talk_free() before that takes it back. */
typedef void (*talk_counted)(void *userdata, uint32_t n_tokens, const struct talk_error *error);
int talk_count(struct talk **ret, struct backends *backends, const struct talk_settings *settings,
        const struct gateway_owner *owner, struct form *form, talk_counted fn, void *userdata,
        struct err *e);
