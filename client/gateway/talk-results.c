/* SPDX-License-Identifier: MIT */
/*
 * Results of calls of a reply that the conversation has already.
 *
 * Find does not compare the ids of calls, since clients and dialects change or drop them, but the daemon takes results
 * by its own ids. Mostly they are the ones that the client was given. If not, the ids are read from the conversation:
 * the calls of its last reply stand in the same order as the client's.
 */
#include "client/gateway/talk-private.h"
#include <string.h>

#define PAGE 64 /* turns: a reply that was cut and went on has several */

/* The client's calls of the last reply that the conversation has: the one at @i; NULL: there are fewer. */
static const struct confab_call *client_call(const struct talk *talk, size_t i) {
        size_t end = talk->spot.n_covered, begin;

        while (end > 0 && talk->messages[end - 1].role == CONFAB_ROLE_TOOL)
                end--;
        for (begin = end; begin > 0 && talk->messages[begin - 1].role == CONFAB_ROLE_ASSISTANT;)
                begin--;
        for (; begin < end; i -= talk->messages[begin++].n_calls)
                if (i < talk->messages[begin].n_calls)
                        return &talk->messages[begin].calls[i];
        return NULL;
}

/* The position of the client's call @id; SIZE_MAX: there is none. Who has no calls (FORM_AT) answers in order. */
static size_t client_position(const struct talk *talk, const char *id, size_t in_order) {
        const struct confab_call *call = client_call(talk, 0);

        if (!call || strcmp(id, TALK_NO_CALL) == 0)
                return in_order;
        for (size_t i = 0; (call = client_call(talk, i)); i++)
                if (strcmp(call->id, id) == 0)
                        return i;
        return SIZE_MAX;
}

/* The first of the turns of the last reply. */
static size_t first_of_reply(const struct confab_conversation *c) {
        size_t i = c->n_turn_list;

        while (i > 0 && c->turns[i - 1].role == CONFAB_ROLE_TOOL)
                i--;
        while (i > 0 && c->turns[i - 1].role == CONFAB_ROLE_ASSISTANT)
                i--;
        return i;
}

/* The id of proper call @wanted of the last reply, or NULL. */
static const char *reply_call(const struct confab_conversation *c, size_t wanted) {
        size_t n = 0;

        for (size_t t = first_of_reply(c); t < c->n_turn_list; t++)
                for (size_t i = 0; i < c->turns[t].n_parts; i++) {
                        const struct confab_part *part = &c->turns[t].parts[i];

                        if (part->kind == CONFAB_PART_CALL && !part->broken && part->call_id &&
                                n++ == wanted)
                                return part->call_id;
                }
        return NULL;
}

/* The leading results with the conversation's ids. -1: no memory. */
static int map(struct talk *talk, const struct confab_conversation *c) {
        size_t in_order = 0;

        for (size_t m = talk->spot.n_covered;
                m < talk->n_messages && talk->messages[m].role == CONFAB_ROLE_TOOL; m++) {
                struct confab_message *message = &talk->messages[m];
                size_t n = message->n_results;
                struct confab_result *results = form_alloc(talk->form, n * sizeof(*results) + 1);

                if (!results)
                        return -1;
                for (size_t i = 0; i < n; i++, in_order++) {
                        const char *old = message->results[i].call_id;
                        const char *id = reply_call(c, client_position(talk, old, in_order));

                        results[i] = message->results[i];
                        if (id && !(results[i].call_id = form_strdup(talk->form, id)))
                                return -1;
                }
                message->results = results;
        }
        return 0;
}

static void on_turns(
        struct talk *talk, struct talk_choice *choice, const struct confab_event *event) {
        struct confab_error no_memory = {
                .code = CONFAB_NO_MEMORY, .message = "no memory for the results", .retry = true};

        (void)choice;
        if (event->kind != CONFAB_EVENT_CONVERSATION)
                talk_trouble(talk, event->error);
        else if (map(talk, event->conversation) < 0)
                talk_fail(talk, &no_memory);
        else
                talk_run(talk);
}

void talk_map_results(struct talk *talk) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        talk->mapped = true;
        request.verb = CONFAB_GET;
        request.conversation_id = talk->spot.conversation;
        request.want_turns = request.want_parts = true;
        request.max_turns = PAGE;
        request.has_before_turn = true;
        request.before_turn = talk->spot.at_turn;
        talk_submit(talk, NULL, &request, on_turns);
}
