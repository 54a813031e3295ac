/* SPDX-License-Identifier: MIT */
/*
 * How a talk fails, begins again, and ends.
 *
 *      running ──→ ended ──────────→ released ──→ destroyed
 *         │   all done, or failed       ↑ talk_free()     when no errand is left
 *         └──── talk_free() ────────────┘
 *
 * 1. `ended` is called once, and never after talk_free().
 * 2. A conversation that the talk made is closed again if nothing was said in it (talk_clean()): not a trace of a
 *    talk that failed is left. A talk that was freed meanwhile lives on as a guest of the backends until that
 *    is done. If the connection or the gateway ends between Open and its answer, nobody knows what to close: the empty
 *    conversation goes after `expires_once`, and is closed earlier if a user has more throw-aways than the daemon
 *    allows. A named one stays, and the next request of that name goes on with it.
 * 3. Whatever fails before the input was accepted has changed nothing, so the talk may begin anew: when the
 *    conversation changed between finding and continuing it, and when the connection broke or its daemon stops, since an
 *    idle one may be of a daemon that has been restarted. If the input was accepted and the answer was lost, the
 *    search finds it, and the talk answers it.
 */
#include "client/gateway/talk-private.h"
#include <stdlib.h>
#include <string.h>

/* ---- errands ---- */

static void forget_errands(struct talk *talk) {
        while (!list_empty(&talk->errands)) {
                struct talk_errand *errand =
                        list_entry(talk->errands.next, struct talk_errand, link);

                list_unlink(&errand->link);
                free(errand);
        }
}

/* Is a Continue of this choice in flight, or its conversation being made or closed? */
static bool is_busy(const struct talk *talk, const struct talk_choice *choice) {
        struct list *it;

        list_for_each (it, &talk->errands)
                if (list_entry(it, struct talk_errand, link)->choice == choice)
                        return true;
        return false;
}

/* @spare: not those of detached replies that were accepted. */
static void cancel_errands(struct talk *talk, bool spare) {
        struct list *it;

        list_for_each (it, &talk->errands) {
                const struct talk_errand *errand = list_entry(it, struct talk_errand, link);
                bool goes_on =
                        spare && talk->fields->detach && errand->choice && errand->choice->accepted;

                if (errand->verb != CONFAB_CLOSE && errand->verb != CONFAB_UPDATE && !goes_on)
                        line_cancel(talk->line, errand->id);
        }
}

void talk_destroy(struct talk *talk) {
        if (talk->is_guest)
                backends_remove_guest(&talk->guest);
        backends_forget(talk->backends, talk);
        forget_errands(talk);
        line_put(talk->line);
        form_free(talk->form);
        free(talk);
}

/* ---- cleaning up ---- */

static void close_conversation(struct talk *talk, struct talk_choice *choice, uint64_t id) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_CLOSE;
        request.conversation_id = id;
        talk_submit(talk, choice, &request, NULL);
}

/* Everything that was made for nothing and is not in use. */
static void close_made(struct talk *talk) {
        bool accepted = talk->choices[0].accepted;

        if (talk->keeper && !accepted && !is_busy(talk, &talk->choices[0])) {
                uint64_t keeper = talk->keeper;

                talk->keeper = 0;
                close_conversation(talk, NULL, keeper);
        }
        for (size_t i = 0; i < talk->n_choices; i++) {
                struct talk_choice *choice = &talk->choices[i];

                if (!choice->made || choice->accepted || is_busy(talk, choice))
                        continue;
                choice->made = false;
                close_conversation(talk, choice, choice->conversation);
        }
}

void talk_clean(struct talk *talk) {
        if (!talk->ended || !talk->line)
                return;
        close_made(talk);
}

/* Whether something is left to clean up behind the talk, now or when an errand has ended. */
static bool is_dirty(const struct talk *talk) {
        struct list *it;

        list_for_each (it, &talk->errands) {
                enum confab_verb verb = list_entry(it, struct talk_errand, link)->verb;

                if (verb == CONFAB_OPEN || verb == CONFAB_FORK || verb == CONFAB_CLOSE ||
                        verb == CONFAB_UPDATE)
                        return true;
        }
        for (size_t i = 0; i < talk->n_choices; i++)
                if (talk->choices[i].made && !talk->choices[i].accepted)
                        return true;
        return talk->keeper && !talk->choices[0].accepted;
}

/* ---- failing ---- */

/* For the caller of talk_make(). */
static void keep_error(struct talk *talk, const struct talk_error *error) {
        enum err_code code = error->status == 400   ? ERR_INVALID
                             : error->status == 413 ? ERR_TOO_LARGE
                             : error->status == 429 ? ERR_LIMIT
                                                    : ERR_UNAVAILABLE;

        err_set(&talk->start_error, code, "%s", error->message);
}

void talk_fail_with(struct talk *talk, const struct talk_error *error) {
        if (talk->ended)
                return;
        talk->ended = true;
        if (talk->starting) {
                keep_error(talk, error);
                return;
        }
        if (talk->line)
                cancel_errands(talk, false);
        talk_clean(talk);
        if (talk->counted)
                talk_count_end(talk, 0, error);
        else if (talk->ops.ended)
                talk->ops.ended(talk->userdata, error);
        if (talk->left)
                talk->released = true;
}

void talk_fail(struct talk *talk, const struct confab_error *error) {
        struct talk_error e;

        talk_error_from(&e, error);
        talk_fail_with(talk, &e);
}

void talk_finish(struct talk *talk) {
        for (size_t i = 0; i < talk->n_choices; i++)
                if (!talk->choices[i].done && (talk->choices[i].begun || !talk->cancelled))
                        return;
        talk->ended = true;
        talk_prolong(talk);
        talk_clean(talk);
        if (talk->ops.ended)
                talk->ops.ended(talk->userdata, NULL);
        if (talk->left)
                talk->released = true;
}

/* ---- beginning again ---- */

static void reset(struct talk *talk) {
        close_made(talk);
        talk->choices[0].conversation = 0;
        talk->choices[0].begun = false;
        talk->spot = (struct talk_spot){.conversation = 0};
        talk->mapped = false;
}

void talk_again(struct talk *talk) {
        struct confab_error error = {.code = CONFAB_CONFLICT,
                .message = "others change the conversation all the time",
                .retry = true};

        reset(talk);
        if (talk->ended)
                return;
        talk->n_tries++;
        if (talk->n_tries < TALK_TRIES)
                talk_begin(talk);
        else if (talk->fields->place == FORM_FIND)
                talk_open(talk, NULL);
        else
                talk_fail(talk, &error);
}

/* A line broke: take another one. */
static void reconnect(struct talk *talk, const struct confab_error *error) {
        struct talk_error e = {.status = 503, .retry_after = 1, .code = CONFAB_NO_DAEMON};
        struct err err;

        talk->line = line_put(talk->line);
        forget_errands(talk);
        if (talk->n_reconnects++ >= TALK_RECONNECTS) {
                talk_fail(talk, error);
        } else if (line_get(&talk->line, talk->backend, &talk->owner, &err) < 0) {
                e.message = err.msg;
                talk_fail_with(talk, &e);
        } else {
                reset(talk);
                talk_begin(talk);
        }
}

void talk_trouble(struct talk *talk, const struct confab_error *error) {
        bool may_help =
                confab_error_is(error, CONFAB_CONFLICT) || confab_error_is(error, CONFAB_BUSY) ||
                confab_error_is(error, CONFAB_NOT_FOUND) ||
                (confab_error_is(error, CONFAB_EXISTS) && talk->fields->place == FORM_NAMED);

        if (talk->cancelled)
                talk_fail(talk, error);
        else if (confab_error_is(error, CONFAB_DISCONNECTED) ||
                 confab_error_is(error, CONFAB_SHUTDOWN))
                reconnect(talk, error);
        else if (may_help && talk->fields->place != FORM_NEW)
                talk_again(talk);
        else
                talk_fail(talk, error);
}

/* ---- the owner goes ---- */

static void end_guest(struct backends_guest *guest) {
        talk_destroy(container_of(guest, struct talk, guest));
}

static void become_guest(struct talk *talk) {
        if (!talk->is_guest)
                backends_add_guest(talk->backends, &talk->guest);
        talk->is_guest = true;
        talk->guest.end = end_guest;
        talk->ops = (struct talk_ops){.ended = NULL};
        if (talk->line)
                line_resume(talk->line);
}

struct talk *talk_free(struct talk *talk) {
        if (!talk || talk->released)
                return NULL;
        talk->released = true;
        talk->ops = (struct talk_ops){.ended = NULL};
        if (talk->line && is_dirty(talk)) {
                become_guest(talk);
                if (!talk->ended)
                        cancel_errands(talk, true);
        } else {
                forget_errands(talk); /* the end of the line cancels them */
        }
        talk->ended = true;
        talk_clean(talk);
        talk_settle(talk);
        return NULL;
}

void talk_settle(struct talk *talk) {
        if (talk->released && talk->depth == 0 && list_empty(&talk->errands))
                talk_destroy(talk);
}

struct talk *talk_leave(struct talk *talk) {
        bool all = true;

        if (!talk || talk->ended)
                return talk_free(talk);
        for (size_t i = 0; i < talk->n_choices; i++)
                all = all && talk->choices[i].accepted;
        if (all && talk->fields->detach)
                return talk_free(talk);
        become_guest(talk);
        talk->left = true;
        return NULL;
}

void talk_cancel(struct talk *talk) {
        if (talk->ended || talk->cancelled)
                return;
        talk->cancelled = true;
        if (talk->line)
                cancel_errands(talk, false);
}

void talk_pause(struct talk *talk) {
        if (talk->line)
                line_pause(talk->line);
}

void talk_resume(struct talk *talk) {
        if (talk->line)
                line_resume(talk->line);
}
