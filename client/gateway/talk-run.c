/* SPDX-License-Identifier: MIT */
/*
 * The Continue of a choice: what is asked for, and what its events become.
 *
 * A conversation that is to shift from now on is updated before. One that was to expire soon, because it was asked for
 * once, is updated when the replies are done, so that nobody waits for it; a request that comes meanwhile finds
 * the conversation busy, but not generating, and waits.
 *
 * A Continue that was refused before anything was accepted is told otherwise, where that may be the reason: results by the
 * ids that the conversation has, messages of the system as one, given messages without their
 * reasoning (talk-messages.c).
 *
 * A reply without a limit goes on until it ends or the context is full. Frontends and agents mostly give none, or one that is
 * over the context, and take a reply that ends with "length" for a cut one; the daemon's default is made for people
 * at a terminal. The daemon takes any limit, and ends the reply where the context does.
 */
#include "base/util.h"
#include "client/gateway/talk-private.h"
#include <string.h>

/* ---- what is asked for ---- */

static void fill_input(const struct talk *talk, struct confab_request *request) {
        const struct form_fields *fields = talk->fields;
        size_t n_covered = talk->spot.n_covered;

        switch (fields->input) {
        case FORM_RAW:
                request->input = CONFAB_INPUT_RAW;
                request->text = fields->raw;
                request->text_size = fields->raw_size;
                break;
        case FORM_TOKENS:
                request->input = CONFAB_INPUT_TOKENS;
                request->tokens = fields->tokens;
                request->n_tokens = fields->n_tokens;
                break;
        case FORM_MESSAGES:
                request->input = CONFAB_INPUT_NONE;
                if (n_covered == talk->n_messages)
                        break;
                request->input = CONFAB_INPUT_MESSAGES;
                request->messages = talk->messages + n_covered;
                request->n_messages = talk->n_messages - n_covered;
                break;
        }
}

/* Definitions that are told with the input. A conversation that is found by its messages, or was opened, has them. */
static const char *tools_to_tell(const struct talk *talk) {
        const struct form_fields *fields = talk->fields;
        const struct talk_spot *spot = &talk->spot;

        if (fields->input != FORM_MESSAGES || spot->n_covered == talk->n_messages ||
                talk->messages[spot->n_covered].role == CONFAB_ROLE_ASSISTANT)
                return NULL;
        if (fields->place == FORM_AT || (spot->empty && !talk->choices[0].made))
                return talk_tools(talk);
        return NULL;
}

uint32_t talk_longest_reply(const struct talk_settings *settings) {
        return settings->max_reply > 0 ? settings->max_reply : TALK_NO_LIMIT;
}

/* The longest reply. */
static uint32_t limit_of(const struct talk *talk) {
        const struct form_fields *fields = talk->fields;

        return fields->has_max_tokens ? MIN(fields->max_tokens, TALK_NO_LIMIT)
                                      : talk_longest_reply(&talk->settings);
}

void talk_fill_continue(const struct talk *talk, const struct talk_choice *choice,
        struct confab_request *request, struct confab_sampling *sampling) {
        const struct form_fields *fields = talk->fields;

        *sampling = fields->sampling;
        sampling->seed += choice->number; /* else all choices would say the same */
        request->verb = CONFAB_CONTINUE;
        request->conversation_id = choice->conversation;
        request->has_expect_revision = true;
        request->expect_revision = choice->revision;
        request->sampling = sampling;
        request->has_max_tokens = true;
        request->max_tokens = limit_of(talk);
        request->stops = fields->stops;
        request->n_stops = fields->n_stops;
        request->want_logprobs = fields->want_logprobs;
        request->n_logprobs = fields->n_logprobs;
        request->json_schema = fields->call_of ? NULL : fields->json_schema;
        request->gbnf = fields->gbnf;
        request->call_of = fields->call_of;
        request->detach = fields->detach;
        request->want_parts = fields->input == FORM_MESSAGES;
}

/* The Continue says what is wrong, if anything is. */
static void on_shifts(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        (void)choice;
        (void)event;
        talk_run(talk);
}

static void make_shift(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        talk->spot.shift = false;
        request.verb = CONFAB_UPDATE;
        request.conversation_id = talk->spot.conversation;
        request.overflow = CONFAB_OVERFLOW_SHIFT;
        talk_submit(talk, NULL, &request, on_shifts);
}

void talk_prolong(struct talk *talk) {
        const struct confab_about about = {
                .has_expires_after = true, .expires_after = talk->settings.expires_after};
        struct confab_request request = CONFAB_REQUEST_INIT;

        if (!talk->spot.prolong)
                return;
        talk->spot.prolong = false;
        request.verb = CONFAB_UPDATE;
        request.conversation_id = talk->choices[0].conversation;
        request.about = &about;
        talk_submit(talk, NULL, &request, NULL);
}

void talk_run(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct talk_choice *choice = &talk->choices[0];
        struct confab_sampling sampling;

        if (talk->spot.shift) {
                make_shift(talk);
                return;
        }
        choice->conversation = talk->spot.conversation;
        choice->revision = talk->spot.revision;
        choice->begun = true;
        talk_fill_continue(talk, choice, &request, &sampling);
        fill_input(talk, &request);
        request.tools = tools_to_tell(talk);
        request.has_at_turn = talk->spot.cut;
        request.at_turn = talk->spot.at_turn;
        request.wait = talk->spot.wait;
        if (talk->counted) {
                const struct confab_message *last = &talk->messages[talk->n_messages - 1];

                request.max_tokens = last->role != CONFAB_ROLE_ASSISTANT;
        }
        talk_submit(talk, choice, &request, talk_on_reply);
}

/* ---- what comes ---- */

void talk_usage_prompt(struct talk_usage *usage, uint32_t n_prompt, uint32_t n_computed) {
        usage->n_prompt = n_prompt;
        usage->n_cached = n_prompt > n_computed ? n_prompt - n_computed : 0;
}

static void on_accepted(
        struct talk *talk, struct talk_choice *choice, const struct confab_accepted *accepted) {
        bool has_turns = talk->fields->input == FORM_MESSAGES;
        struct talk_place place = {.conversation = accepted->conversation,
                .revision = accepted->revision,
                .input_turn = talk->spot.at_turn};

        talk_usage_prompt(&choice->usage, accepted->n_prompt, accepted->n_computed);
        if (talk->counted) {
                talk_count_end(talk, choice->usage.n_prompt, NULL);
                return;
        }
        choice->accepted = true;
        if (talk->one_system)
                backend_set_one_system(talk->backend);
        place.reply_turn =
                place.input_turn + (has_turns ? talk_count_turns(talk, talk->spot.n_covered) : 1);
        talk->reply_turn = place.reply_turn;
        if (talk->ops.accepted)
                talk->ops.accepted(talk->userdata, choice->number, &place, &choice->usage);
}

void talk_usage_delta(
        struct talk_usage *usage, bool *in_reasoning, const struct confab_delta *delta) {
        for (size_t i = 0; i < delta->n_parts; i++)
                *in_reasoning =
                        delta->parts[i].kind == CONFAB_PART_REASONING && (i == 0 || *in_reasoning);
        usage->n_generated += (uint32_t)delta->n_tokens;
        if (*in_reasoning)
                usage->n_reasoning += (uint32_t)delta->n_tokens;
}

static void on_delta(
        struct talk *talk, struct talk_choice *choice, const struct confab_delta *delta) {
        talk_usage_delta(&choice->usage, &choice->in_reasoning, delta);
        if (choice->number == 0)
                talk_choices_begin(talk);
        if (!talk->ended && talk->ops.delta)
                talk->ops.delta(talk->userdata, choice->number, delta);
}

static void on_done(struct talk *talk, struct talk_choice *choice, const struct confab_done *done) {
        talk_usage_prompt(&choice->usage, done->n_prompt, done->n_computed);
        choice->usage.n_generated = done->n_generated;
        if (choice->usage.n_reasoning > done->n_generated)
                choice->usage.n_reasoning = done->n_generated;
        choice->usage.n_drafted = done->n_drafted;
        choice->usage.n_accepted = done->n_accepted;
        choice->done = true;
        if (talk->ops.done)
                talk->ops.done(talk->userdata, choice->number, done, &choice->usage);
        if (choice->number == 0 && !talk->ended)
                talk_choices_begin(talk);
        if (!talk->ended)
                talk_finish(talk);
}

/* Whether the Continue is told otherwise now. */
static bool tell_otherwise(struct talk *talk, const struct confab_error *error) {
        const struct talk_spot *spot = &talk->spot;
        bool is_invalid = confab_error_is(error, CONFAB_INVALID);
        struct err e;

        if (talk->fields->input != FORM_MESSAGES)
                return false;
        if (is_invalid && !talk->mapped && !spot->empty && spot->n_covered < talk->n_messages &&
                talk->messages[spot->n_covered].role == CONFAB_ROLE_TOOL) {
                talk_map_results(talk);
                return true;
        }
        if (confab_error_is(error, CONFAB_UNSUPPORTED) && !talk->no_reasoning &&
                talk_drop_reasoning(talk)) {
                talk_run(talk);
                return true;
        }
        if (confab_error_is(error, CONFAB_STATE) && talk_can_join_system(talk)) {
                talk->one_system = true;
                talk->mapped = false;
                if (talk_tell_messages(talk, &e) == 0) {
                        talk_again(talk);
                        return true;
                }
        }
        return false;
}

void talk_on_reply(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        switch (event->kind) {
        case CONFAB_EVENT_ACCEPTED:
                on_accepted(talk, choice, event->accepted);
                break;
        case CONFAB_EVENT_PROGRESS:
                if (choice->number == 0 && talk->ops.progress)
                        talk->ops.progress(
                                talk->userdata, event->progress->done, event->progress->total);
                break;
        case CONFAB_EVENT_DELTA:
                on_delta(talk, choice, event->delta);
                break;
        case CONFAB_EVENT_DONE:
                on_done(talk, choice, event->done);
                break;
        default:
                if (talk->cancelled && choice->number > 0 && !choice->accepted) {
                        choice->begun = false;
                        talk_finish(talk);
                } else if (choice->number > 0 || choice->accepted) {
                        talk_fail(talk, event->error);
                } else if (talk->cancelled || !tell_otherwise(talk, event->error)) {
                        talk_trouble(talk, event->error);
                }
        }
}
