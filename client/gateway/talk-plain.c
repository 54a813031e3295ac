/* SPDX-License-Identifier: MIT */
/*
 * Histories for a model whose template knows no tools.
 *
 * Agents send definitions of tools with each request, whatever the model is. Such a model answers as it can: a plain turn.
 *
 * 1. It is told of no definitions. Find does not get them either, since the conversation has none.
 * 2. Calls and results are there if another model answered before. They are told as text: a call is a line
 *    NAME(ARGUMENTS) behind what the assistant said, a result is a message of the user, "Result of NAME:" and the
 *    result in the next line. The name is that of the call; without it the line is "Result:".
 * 3. The text depends on the messages alone, so that the next request tells the same, and is found.
 * 4. What the gateway knows of the model may be out of date when a talk begins: its daemon was never reached, or has
 *    another model since. A line asks for the model before anything else, or waits until another one is told
 *    (backend-line.c, 2), so the answer to a talk's first request finds it known; if it is another than was thought, the
 *    talk begins again (talk_was_mistaken()). Where the daemon refuses to tell it, the talk goes on as it began.
 */
#include "base/buf.h"
#include "client/gateway/talk-private.h"
#include <string.h>

const char *talk_tools(const struct talk *talk) {
        return talk->plain ? NULL : talk->fields->tools;
}

/* Whether the model's template makes a difference. */
static bool has_tools(const struct talk *talk) {
        const struct form_fields *fields = talk->fields;

        if (fields->tools)
                return true;
        for (size_t i = 0; i < fields->n_messages; i++)
                if (fields->messages[i].n_calls > 0 || fields->messages[i].n_results > 0)
                        return true;
        return false;
}

/* Nothing can be asked again on a line that broke: talk_trouble() takes another one. */
static bool is_lost(const struct confab_event *event) {
        return event->kind == CONFAB_EVENT_ERROR &&
               (confab_error_is(event->error, CONFAB_DISCONNECTED) ||
                       confab_error_is(event->error, CONFAB_SHUTDOWN));
}

bool talk_was_mistaken(struct talk *talk, const struct confab_event *event) {
        const struct confab_error no_memory = {
                .code = CONFAB_NO_MEMORY, .message = "no memory for the messages", .retry = true};
        const struct backend_model *model = backend_model(talk->backend);
        struct err e;

        if (!model->known || talk->plain != model->takes_tools || !has_tools(talk))
                return false;
        if (talk->cancelled || is_lost(event))
                return false;
        talk->plain = !talk->plain;
        if (talk_tell_messages(talk, &e) < 0)
                talk_fail(talk, &no_memory);
        else
                talk_again(talk);
        return true;
}

/* ---- telling ---- */

/* The call with the id @id of what the assistant said in front of message @at, or NULL. */
static const struct confab_call *find_call(const struct talk *talk, size_t at, const char *id) {
        const struct confab_message *messages = talk->messages;

        for (; at > 0 && messages[at - 1].role == CONFAB_ROLE_ASSISTANT; at--)
                for (size_t i = 0; i < messages[at - 1].n_calls; i++)
                        if (strcmp(messages[at - 1].calls[i].id, id) == 0)
                                return &messages[at - 1].calls[i];
        return NULL;
}

/* @asked: where the results in a row with it begin, behind what they answer. */
static int put_results(const struct talk *talk, const struct confab_message *message, size_t asked,
        struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < message->n_results; i++) {
                const struct confab_result *result = &message->results[i];
                const struct confab_call *call = find_call(talk, asked, result->call_id);
                const char *name = call ? call->name : result->name;

                r = buf_printf(out, "%sResult%s%s:\n", i > 0 ? "\n\n" : "",
                        name && *name ? " of " : "", name ? name : "");
                if (r == 0)
                        r = buf_append_str(out, result->text ? result->text : "");
        }
        return r;
}

static int put_calls(const struct confab_message *message, struct buf *out) {
        int r = buf_append(out, message->text, message->text_size);

        if (r == 0 && message->text_size > 0)
                r = buf_append_str(out, "\n");
        for (size_t i = 0; r == 0 && i < message->n_calls; i++) {
                const struct confab_call *call = &message->calls[i];

                r = buf_printf(out, "%s%s(", i > 0 ? "\n" : "", call->name);
                if (r == 0)
                        r = buf_append_str(out, call->arguments ? call->arguments : "{}");
                if (r == 0)
                        r = buf_append_str(out, ")");
        }
        return r;
}

static int tell(struct talk *talk, size_t at, size_t asked, struct buf *text) {
        struct confab_message *message = &talk->messages[at];
        bool is_result = message->role == CONFAB_ROLE_TOOL;
        char *copy;
        int r;

        text->size = 0;
        r = is_result ? put_results(talk, message, asked, text) : put_calls(message, text);
        copy = r < 0 ? NULL : form_text(talk->form, text->data, text->size);
        if (!copy)
                return -ERR_NOMEM;
        *message = (struct confab_message){
                .role = is_result ? CONFAB_ROLE_USER : CONFAB_ROLE_ASSISTANT,
                .text = copy,
                .text_size = text->size,
                .reasoning = message->reasoning};
        return 0;
}

int talk_tell_plainly(struct talk *talk, struct err *e) {
        struct buf text = BUF_NULL;
        size_t asked = talk->n_messages;
        int r = 0;

        /* Backwards: results look for their calls in front of them. */
        for (size_t i = talk->n_messages; r == 0 && i-- > 0;) {
                asked = MIN(asked, i);
                while (asked > 0 && talk->messages[asked - 1].role == CONFAB_ROLE_TOOL &&
                        talk->messages[asked].role == CONFAB_ROLE_TOOL)
                        asked--;
                if (talk->messages[i].n_calls > 0 || talk->messages[i].role == CONFAB_ROLE_TOOL)
                        r = tell(talk, i, asked, &text);
        }
        buf_deinit(&text);
        return r < 0 ? err_set(e, ERR_NOMEM, "no memory for the messages") : 0;
}
