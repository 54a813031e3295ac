/* SPDX-License-Identifier: MIT */
/*
 * Where a talk goes on: what the daemon found, and what follows from it.
 *
 *      messages of the whole history                 a place that is known by its id
 *      talk_find()                                   talk_look()
 *        │ nothing agrees, or the system only: open    │ another vocabulary: carry, look again
 *        │ it ends there: continue it                  │ it ends there: continue it
 *        │ it goes on, is generating, is another       │ else: fork
 *        │ session's, or somebody named it: fork
 *        │ named, and it goes on: keep a fork of the whole, cut, and continue it
 *
 * A conversation that somebody gave a name ("letters", by `confab open letters` or X-Conversation-Id) is a thing that
 * he finds as he left it. The same words elsewhere do not make it another's, so it is gone on with by its name, or in the
 * session that it belongs to; a request that only says the same gets a fork, which computes nothing anew.
 *
 * What was found is of one moment. A Continue or a fork says which revision it expects.
 */
#include "client/gateway/talk-private.h"
#include <stdio.h>
#include <string.h>

/* Whether a conversation that agrees with the first @n messages is the one that goes on: a system message is the
 * same in many, unless the client says that it is the same session. */
static bool says_enough(const struct talk *talk, size_t n, bool other_session) {
        if (talk->session && !other_session)
                return n > 0;
        for (size_t i = 0; i < n; i++)
                if (talk->messages[i].role != CONFAB_ROLE_SYSTEM)
                        return true;
        return false;
}

static void set_spot(struct talk *talk, const struct confab_conversation *c, uint32_t at_turn,
        size_t n_covered) {
        bool wants_shift = talk->fields->shift || talk->settings.shift;
        const struct talk_settings *settings = &talk->settings;
        const struct confab_about *about = c->about;

        talk->spot = (struct talk_spot){.conversation = c->id,
                .revision = c->revision,
                .at_turn = at_turn,
                .n_covered = n_covered,
                .wait = c->busy && !c->generating,
                .shift = wants_shift && c->overflow != CONFAB_OVERFLOW_SHIFT,
                .empty = at_turn == 0};
        talk->spot.prolong = about && about->has_expires_after && settings->expires_once > 0 &&
                             about->expires_after == settings->expires_once &&
                             settings->expires_after != settings->expires_once;
}

/* Whether somebody chose its name: the daemon's own are chat-ID, or chat-ID-N if that is taken. */
static bool is_named(const struct confab_conversation *c) {
        char own[32];
        size_t n = (size_t)snprintf(own, sizeof(own), "chat-%llu", (unsigned long long)c->id);
        const char *name = c->name ? c->name : own;

        return strncmp(name, own, n) != 0 || (name[n] && name[n] != '-');
}

/* Whether what was found is not to be changed by this talk. */
static bool is_foreign(const struct talk *talk, const struct confab_found *found) {
        const struct confab_conversation *c = found->conversation;

        if (talk->session && !found->other_session)
                return false;
        return is_named(c) ||
               (found->other_session && c->about && c->about->session && *c->about->session);
}

/* FORM_FIND. */
static void decide(struct talk *talk, const struct confab_found *found) {
        const struct confab_conversation *c = found->conversation;
        bool foreign;

        if (!c || c->other_vocabulary ||
                !says_enough(talk, found->n_messages, found->other_session)) {
                talk_open(talk, NULL);
                return;
        }
        set_spot(talk, c, found->at_turn, found->n_messages);
        foreign = is_foreign(talk, found);
        if (found->at_turn < c->n_turns || c->generating || foreign || talk->counted)
                talk_fork(talk);
        else
                talk_run(talk);
}

/* FORM_NAMED. */
static void decide_named(struct talk *talk, const struct confab_found *found) {
        const struct confab_conversation *c = found->conversation;

        set_spot(talk, c, found->at_turn, found->n_messages);
        if (talk->counted && found->at_turn == 0) {
                talk_open(talk, NULL);
        } else if (talk->counted) {
                talk_fork(talk);
        } else if (c->other_vocabulary) {
                talk_carry(talk);
        } else if (found->at_turn < c->n_turns) {
                talk->spot.cut = talk->spot.wait = true;
                talk_keep(talk);
        } else {
                talk->spot.wait = true;
                talk_run(talk);
        }
}

static void on_found(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        bool named = talk->fields->place == FORM_NAMED;

        (void)choice;
        if (talk_was_mistaken(talk, event))
                return;
        if (event->kind == CONFAB_EVENT_FOUND && named)
                decide_named(talk, event->found);
        else if (event->kind == CONFAB_EVENT_FOUND)
                decide(talk, event->found);
        else if (named && confab_error_is(event->error, CONFAB_NOT_FOUND))
                talk_open(talk, talk->counted ? NULL : talk->fields->conversation);
        else
                talk_trouble(talk, event->error);
}

void talk_find(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_FIND;
        request.messages = talk->messages;
        request.n_messages = talk->n_messages;
        request.tools = talk_tools(talk);
        request.session = talk->session;
        if (talk->fields->place == FORM_NAMED)
                request.conversation = talk->fields->conversation;
        talk_submit(talk, NULL, &request, on_found);
}

/* FORM_AT. */
static void decide_at(struct talk *talk, const struct confab_conversation *c) {
        bool at_end = talk->fields->at_turn == FORM_AT_END;
        uint32_t at_turn = at_end ? c->n_turns : talk->fields->at_turn;
        struct talk_error error = {.status = 404, .code = CONFAB_NOT_FOUND};
        char message[100];

        if (at_turn > c->n_turns) {
                snprintf(message, sizeof(message), "the conversation has %u turns, not %u",
                        c->n_turns, at_turn);
                error.message = message;
                talk_fail_with(talk, &error);
                return;
        }
        set_spot(talk, c, at_turn, 0);
        if (c->other_vocabulary) {
                talk_carry(talk);
                return;
        }
        talk->spot.wait = at_end || talk->spot.wait;
        if (at_turn == c->n_turns && (!c->generating || at_end) && !talk->counted &&
                !talk->fields->fork)
                talk_run(talk);
        else if (at_turn == 0)
                talk_open(talk, NULL);
        else
                talk_fork(talk);
}

static void on_looked(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        (void)choice;
        if (talk_was_mistaken(talk, event))
                return;
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                decide_at(talk, event->conversation);
        else if (confab_error_is(event->error, CONFAB_NOT_FOUND))
                talk_fail(talk, event->error);
        else
                talk_trouble(talk, event->error);
}

void talk_look(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_GET;
        request.conversation_id = talk->fields->conversation_id;
        talk_submit(talk, NULL, &request, on_looked);
}
