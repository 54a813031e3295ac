/* SPDX-License-Identifier: MIT */
/*
 * Conversations that a talk makes: opened, or forked from what was found.
 *
 * 1. The daemon chooses names, but for the name of a form (FORM_NAMED), and for what only serves to count.
 * 2. All messages come with the first Continue, those of the system too: either the whole history is taken in, or
 *    nothing, and then the empty conversation is closed again. Definitions of tools are told at Open,
 *    because Find compares those that hold from the beginning.
 * 3. A conversation is a throw-away of `expires_once` seconds if the talk was to find its place: it may be a request
 *    for a title, or one that is never gone on with. The first talk that has gone on with it sets `expires_after`
 *    (talk_prolong()). A conversation that the client named stays until somebody closes it. All others are made with
 *    `expires_after`.
 * 4. What is cut off a named conversation lives on in a fork of the whole (the keeper). It is made before the cut, and
 *    goes again if the cut does not happen.
 */
#include "base/utf8.h"
#include "client/gateway/talk-private.h"
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define COUNT_SECONDS 60 /* a conversation that only serves to count */

/* ---- what is noted ---- */

static bool is_control(uint32_t c) {
        return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029;
}

/* The first line of @text that has anything in it, cut to fit, without control characters. */
static void copy_line(char *ret, size_t size, const char *text, size_t n) {
        static const char more[] = "…";
        size_t used = 0, fits = 0; /* fits: with `more` behind it */
        uint32_t c;

        utf8_trim(&text, &n);
        for (size_t i = 0; i < n;) {
                int k = utf8_decode((const uint8_t *)text + i, n - i, &c);

                if (k <= 0 || c == '\n' || c == '\r')
                        break;
                if (used + (size_t)k >= size) {
                        memcpy(ret + fits, more, sizeof(more));
                        return;
                }
                if (!is_control(c)) {
                        memcpy(ret + used, text + i, (size_t)k);
                        used += (size_t)k;
                }
                if (used + sizeof(more) <= size)
                        fits = used;
                i += (size_t)k;
        }
        ret[used] = '\0';
}

/* What the user said first, but for what programs put in front of it in marks ("<environment_context>"). */
static const struct confab_message *first_words(const struct talk *talk) {
        const struct confab_message *first = NULL;

        for (size_t i = 0; i < talk->n_messages; i++) {
                const struct confab_message *message = &talk->messages[i];
                const char *text = message->text;

                if (message->role != CONFAB_ROLE_USER || message->text_size == 0)
                        continue;
                if (*text != '<')
                        return message;
                if (!first)
                        first = message;
        }
        return first;
}

/* A conversation that only serves to count is nobody's to go on with: a request that says the same finds it while it is
 * there, and as it has a name of its own and no session, forks it. */
static void fill_count(struct talk_about *ret) {
        uint64_t number;

        ret->about.session = NULL;
        ret->about.expires_after = COUNT_SECONDS;
        if (getrandom(&number, sizeof(number), 0) == sizeof(number))
                (void)snprintf(
                        ret->name, sizeof(ret->name), "count-%016llx", (unsigned long long)number);
}

void talk_fill_about(const struct talk *talk, struct talk_about *ret, bool is_new) {
        const struct form_fields *fields = talk->fields;
        const struct talk_settings *settings = &talk->settings;
        const struct confab_message *first = is_new ? first_words(talk) : NULL;
        bool is_sought = fields->place == FORM_FIND || fields->input != FORM_MESSAGES;

        *ret = (struct talk_about){.about = {.title = fields->title,
                                           .metadata = fields->metadata,
                                           .session = talk->session,
                                           .has_expires_after = true}};
        if (!fields->title && first) {
                copy_line(ret->title, sizeof(ret->title), first->text, first->text_size);
                ret->about.title = ret->title[0] ? ret->title : NULL;
        }
        if (fields->tag && *fields->tag && is_new) {
                ret->tags[0] = fields->tag;
                ret->about.tags = ret->tags;
                ret->about.n_tags = 1;
                ret->about.has_tags = true;
        }
        if (talk->counted)
                fill_count(ret);
        else if (fields->has_expires_after)
                ret->about.expires_after = fields->expires_after;
        else if (is_new && fields->place == FORM_NAMED)
                ret->about.expires_after = 0;
        else if (is_sought && settings->expires_once > 0)
                ret->about.expires_after = settings->expires_once;
        else
                ret->about.expires_after = settings->expires_after;
        ret->about.has_expires_after = ret->about.expires_after > 0;
}

/* ---- open ---- */

static void on_opened(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION) {
                choice->conversation = event->conversation->id;
                choice->made = true;
        }
        if (talk_was_mistaken(talk, event))
                return;
        if (event->kind != CONFAB_EVENT_CONVERSATION) {
                talk_trouble(talk, event->error);
                return;
        }
        talk->spot = (struct talk_spot){.conversation = event->conversation->id,
                .revision = event->conversation->revision,
                .empty = true};
        talk_run(talk);
}

void talk_open(struct talk *talk, const char *name) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct talk_about about;

        talk_fill_about(talk, &about, true);
        request.verb = CONFAB_OPEN;
        request.name = about.name[0] ? about.name : name;
        request.about = &about.about;
        if (talk->fields->shift || talk->settings.shift)
                request.overflow = CONFAB_OVERFLOW_SHIFT;
        if (talk->fields->input == FORM_MESSAGES)
                request.tools = talk_tools(talk);
        talk_submit(talk, &talk->choices[0], &request, on_opened);
}

/* ---- fork ---- */

static void fill_fork(
        const struct talk *talk, struct confab_request *request, struct talk_about *about) {
        talk_fill_about(talk, about, false);
        request->verb = CONFAB_FORK;
        request->conversation_id = talk->spot.conversation;
        request->has_expect_revision = true;
        request->expect_revision = talk->spot.revision;
        request->about = &about->about;
}

/* Whether nothing is to be told, and no reply to follow. */
static bool is_all_said(const struct talk *talk) {
        size_t n = talk->n_messages;

        return n > 0 && talk->spot.n_covered == n &&
               talk->messages[n - 1].role == CONFAB_ROLE_ASSISTANT;
}

static void on_forked(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        if (event->kind != CONFAB_EVENT_CONVERSATION) {
                talk_trouble(talk, event->error);
                return;
        }
        choice->conversation = event->conversation->id;
        choice->made = true;
        talk->spot.conversation = event->conversation->id;
        talk->spot.revision = event->conversation->revision;
        talk->spot.wait = talk->spot.prolong = false;
        if (talk->counted && is_all_said(talk))
                talk_count_end(talk, event->conversation->n_tokens, NULL);
        else
                talk_run(talk);
}

void talk_fork(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct talk_about about;

        fill_fork(talk, &request, &about);
        request.name = about.name[0] ? about.name : NULL;
        request.has_at_turn = true;
        request.at_turn = talk->spot.at_turn;
        talk_submit(talk, &talk->choices[0], &request, on_forked);
}

static void on_kept(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        (void)choice;
        if (event->kind != CONFAB_EVENT_CONVERSATION) {
                talk_trouble(talk, event->error);
                return;
        }
        talk->keeper = event->conversation->id;
        talk_run(talk);
}

void talk_keep(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct talk_about about;

        fill_fork(talk, &request, &about);
        about.about.session = NULL;
        talk_submit(talk, NULL, &request, on_kept);
}

/* ---- carry ---- */

static void on_carried(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        (void)choice;
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                talk_again(talk);
        else
                talk_trouble(talk, event->error);
}

void talk_carry(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_CARRY;
        request.conversation_id = talk->spot.conversation;
        request.has_expect_revision = true;
        request.expect_revision = talk->spot.revision;
        talk_submit(talk, NULL, &request, on_carried);
}
