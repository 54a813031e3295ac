/* SPDX-License-Identifier: MIT */
/*
 * A talk, from a form to the end of its replies.
 *
 *      form ──→ messages as they are told (talk-messages.c)
 *                 │
 *               where it goes on (talk-find.c): Find, or Get ──→ Open, Fork, Carry (talk-open.c)
 *                 │
 *               Continue (talk-run.c) ──→ accepted, deltas, done
 *                 │                         │ further choices: Fork, Continue (talk-choices.c)
 *               end (talk-end.c) ←──────────┘
 *
 * 1. A talk needs Find and Continue, or Find, Fork (Open) and Continue: as many round trips. Everything else is
 *    told along with these, or happens when something was refused.
 * 2. What was said in a conversation is never dropped: where the history of a request leaves it, it is forked; what is
 *    cut off a named one is forked before. What the talk made for nothing goes (talk-end.c).
 * 3. A conversation that is generating is not waited for, but forked: the client that asks again while its first request
 *    is still answered gets an answer of its own, from the same prompt, which is in memory. A named one is waited
 *    for, since there is one of that name.
 * 4. A conversation of one session is forked for another session, even where it ends as the messages do: two windows
 *    that began alike do not take turns in one conversation.
 *    Nor is a conversation changed that somebody has named, unless the request names it, too.
 * 5. The reply must be one to the last message. A message of the assistant at the end would have to be gone on with,
 *    which a template cannot do for a text that was given: it is refused, unless no reply is wanted.
 */
#include "client/gateway/talk-private.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MAX 256 /* bytes that the daemon takes */

/* ---- errands ---- */

/* The talk has ended, but what its requests lead to is to be known. */
static void note_late(
        struct talk *talk, const struct talk_errand *errand, const struct confab_event *event) {
        struct talk_choice *choice = errand->choice;

        if (event->kind == CONFAB_EVENT_ACCEPTED && !talk->counted)
                choice->accepted = true;
        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (errand->is_keeper) {
                talk->keeper = event->conversation->id;
        } else if (errand->verb == CONFAB_OPEN || errand->verb == CONFAB_FORK) {
                choice->conversation = event->conversation->id;
                choice->made = true;
        }
}

static void on_event(void *userdata, const struct confab_event *event) {
        struct talk_errand *errand = userdata;
        struct talk *talk = errand->talk;
        bool final = event->final;

        talk->depth++;
        if (final)
                list_unlink(&errand->link);
        if (talk->ended)
                note_late(talk, errand, event);
        else if (errand->fn)
                errand->fn(talk, errand->choice, event); /* may free errands that are not final */
        if (final)
                free(errand);
        talk_clean(talk);
        talk->depth--;
        talk_settle(talk);
}

bool talk_submit(struct talk *talk, struct talk_choice *choice,
        const struct confab_request *request, talk_fn fn) {
        struct confab_error cancelled = {.code = CONFAB_CANCELLED, .message = "cancelled"};
        struct confab_error error = {
                .code = CONFAB_NO_MEMORY, .message = "no memory for a request", .retry = true};
        struct talk_errand *errand;

        if (talk->cancelled && !talk->ended && !talk->choices[0].accepted) {
                /* The cancel came too late for the request before. */
                talk_fail(talk, &cancelled);
                return false;
        }
        errand = calloc(1, sizeof(*errand));
        if (errand) {
                *errand = (struct talk_errand){.talk = talk,
                        .choice = choice,
                        .fn = fn,
                        .verb = request->verb,
                        .is_keeper = request->verb == CONFAB_FORK && !choice};
                list_append(&talk->errands, &errand->link);
        }
        if (errand && line_submit(talk->line, request, on_event, errand, &errand->id, &error) == 0)
                return true;
        if (errand) {
                list_unlink(&errand->link);
                free(errand);
        }
        talk_fail(talk, &error);
        return false;
}

/* ---- the beginning ---- */

void talk_begin(struct talk *talk) {
        enum form_place place = talk->fields->place;

        if (place == FORM_AT)
                talk_look(talk);
        else if (place == FORM_NEW || talk->fields->input != FORM_MESSAGES)
                talk_open(talk, NULL);
        else
                talk_find(talk);
}

/* A line to the model's daemon, and the first request. */
static int start(struct talk *talk, struct err *e) {
        const struct backend_model *model = backend_model(talk->backend);
        int r = line_get(&talk->line, talk->backend, &talk->owner, e);

        if (r < 0)
                return r;
        talk->one_system = backend_one_system(talk->backend);
        talk->plain = model->known && !model->takes_tools;
        r = talk_tell_messages(talk, e);
        if (r < 0)
                return r;
        talk_begin(talk);
        return talk->starting && talk->ended
                       ? err_set(e, talk->start_error.code, "%s", talk->start_error.msg)
                       : 0;
}

static void fail_err(struct talk *talk, const struct err *e) {
        struct talk_error error = {.status = 503, .retry_after = 1, .message = e->msg};

        error.code = err_code_name(e->code);
        if (e->code == ERR_NOT_FOUND)
                error = (struct talk_error){.status = 404,
                        .code = CONFAB_NOT_FOUND,
                        .message = e->msg,
                        .param = "model"};
        talk_fail_with(talk, &error);
}

static struct backend *backend_at(struct backends *backends, const char *socket) {
        for (size_t i = 0; i < backends_count(backends); i++)
                if (strcmp(backend_model(backends_at(backends, i))->socket, socket) == 0)
                        return backends_at(backends, i);
        return NULL;
}

static int find_backend(struct talk *talk, struct err *e) {
        const char *daemon = talk->fields->daemon;

        talk->backend = daemon ? backend_at(talk->backends, daemon)
                               : backends_find(talk->backends, talk->fields->model);
        if (talk->backend)
                return 0;
        return err_set(e, ERR_NOT_FOUND, "there is no model %s", talk->fields->model);
}

static void on_models(void *userdata) {
        struct talk *talk = userdata;
        struct confab_error cancelled = {.code = CONFAB_CANCELLED, .message = "cancelled"};
        struct err e;

        talk->depth++;
        if (talk->cancelled)
                talk_fail(talk, &cancelled);
        else if (find_backend(talk, &e) < 0 || start(talk, &e) < 0)
                fail_err(talk, &e);
        talk->depth--;
        talk_settle(talk);
}

/* Whether a daemon has not told its model yet. */
static bool has_unknown(struct backends *backends) {
        for (size_t i = 0; i < backends_count(backends); i++)
                if (!backend_model(backends_at(backends, i))->known)
                        return true;
        return false;
}

/* ---- what is wrong with a form ---- */

static int check_messages(const struct form_fields *fields, struct err *e) {
        size_t n = fields->n_messages;

        if (n == 0 && fields->place != FORM_AT)
                return err_set(e, ERR_INVALID, "messages has no message");
        if (n > 0 && fields->messages[n - 1].role == CONFAB_ROLE_ASSISTANT &&
                (!fields->has_max_tokens || fields->max_tokens > 0))
                return err_set(e, ERR_INVALID,
                        "the last of messages is the assistant's: a reply that was begun cannot be "
                        "gone on with");
        return 0;
}

static int check(
        const struct form_fields *fields, const struct talk_settings *settings, struct err *e) {
        unsigned most = settings->n_choices > 0 ? settings->n_choices : 1;

        if (fields->n < 1 || fields->n > most)
                return err_set(e, ERR_INVALID, "n is %u, but at most %u choices are made",
                        fields->n, most);
        if (fields->n > 1 && fields->has_max_tokens && fields->max_tokens == 0)
                return err_set(e, ERR_INVALID, "n is %u, but no reply is wanted", fields->n);
        if (fields->place == FORM_NAMED && (!fields->conversation || !*fields->conversation))
                return err_set(e, ERR_INVALID, "the conversation has no name");
        return fields->input == FORM_MESSAGES ? check_messages(fields, e) : 0;
}

/* A client may call its session what it wants: what the daemon does not take is no session. */
static const char *check_session(const char *session) {
        size_t n = session ? strlen(session) : 0;

        if (n == 0 || n > SESSION_MAX || !utf8_valid(session, n))
                return NULL;
        for (size_t i = 0; i < n; i++)
                if ((unsigned char)session[i] < 0x20 || session[i] == 0x7f ||
                        ((unsigned char)session[i] == 0xc2 && (unsigned char)session[i + 1] < 0xa0))
                        return NULL;
        return session;
}

/* ---- making one ---- */

static int begin_or_wait(struct talk *talk, struct err *e) {
        int r = find_backend(talk, e);

        if (r == 0)
                return start(talk, e);
        if (r == -ERR_NOT_FOUND && has_unknown(talk->backends) &&
                (r = backends_refresh(talk->backends, UINT64_MAX, on_models, talk)) < 0)
                err_no_memory(e);
        return r;
}

int talk_make(struct talk **ret, struct backends *backends, const struct talk_settings *settings,
        const struct gateway_owner *owner, struct form *form, const struct talk_ops *ops,
        talk_counted counted, void *userdata, struct err *e) {
        struct form_fields *fields = form_fields(form);
        struct talk *talk = NULL;
        int r = check(fields, settings, e);

        if (r == 0)
                talk = calloc(1, sizeof(*talk) + fields->n * sizeof(talk->choices[0]));
        if (!talk) {
                form_free(form);
                return r < 0 ? r : err_no_memory(e);
        }
        list_init(&talk->errands);
        talk->backends = backends;
        talk->settings = *settings;
        talk->owner = *owner;
        talk->form = form;
        talk->fields = fields;
        talk->ops = *ops;
        talk->userdata = userdata;
        talk->counted = counted;
        talk->session = check_session(fields->session);
        talk->n_choices = fields->n;
        for (unsigned i = 0; i < fields->n; i++)
                talk->choices[i] = (struct talk_choice){.talk = talk, .number = i};
        talk->starting = true;
        r = begin_or_wait(talk, e);
        talk->starting = false;
        if (r < 0) {
                talk_destroy(talk);
                return r;
        }
        *ret = talk;
        return 0;
}

int talk_new(struct talk **ret, struct backends *backends, const struct talk_settings *settings,
        const struct gateway_owner *owner, struct form *form, const struct talk_ops *ops,
        void *userdata, struct err *e) {
        return talk_make(ret, backends, settings, owner, form, ops, NULL, userdata, e);
}

const struct backend_model *talk_model(const struct talk *talk) {
        return talk->backend ? backend_model(talk->backend) : NULL;
}
