/* SPDX-License-Identifier: MIT */
/*
 * Several choices. The first one takes in the input. When its first token is there, all of the prompt is computed, and
 * each other choice forks the conversation at the reply and is written side by side with the first one. So the
 * first choice does not wait for the others, and none computes the prompt again.
 *
 * A conversation that is dropping old turns from its memory cannot be forked: then the others begin when the
 * first one is done.
 */
#include "client/gateway/talk-private.h"

static void run_choice(struct talk *talk, struct talk_choice *choice) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct confab_sampling sampling;

        talk_fill_continue(talk, choice, &request, &sampling);
        request.input = CONFAB_INPUT_NONE;
        talk_submit(talk, choice, &request, talk_on_reply);
}

static void on_forked(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION) {
                choice->conversation = event->conversation->id;
                choice->revision = event->conversation->revision;
                choice->made = true;
        }
        if (talk->cancelled) {
                choice->begun = false;
                talk_finish(talk);
        } else if (choice->made) {
                run_choice(talk, choice);
        } else if (confab_error_is(event->error, CONFAB_BUSY) && !talk->choices[0].done) {
                choice->begun = false;
                talk->choices_wait = true;
        } else {
                talk_fail(talk, event->error);
        }
}

static void begin(struct talk *talk, struct talk_choice *choice) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct talk_about about;

        choice->begun = true;
        talk_fill_about(talk, &about, false);
        request.verb = CONFAB_FORK;
        request.conversation_id = talk->choices[0].conversation;
        request.has_at_turn = true;
        request.at_turn = talk->reply_turn;
        request.about = &about.about;
        talk_submit(talk, choice, &request, on_forked);
}

void talk_choices_begin(struct talk *talk) {
        if (talk->cancelled || (talk->choices_wait && !talk->choices[0].done))
                return;
        for (size_t i = 1; i < talk->n_choices && !talk->ended; i++)
                if (!talk->choices[i].begun)
                        begin(talk, &talk->choices[i]);
}
