/* SPDX-License-Identifier: MIT */
/*
 * The messages of a form as they are told to the daemon. The client's history is taken as it is, but:
 *
 * 1. Messages of the assistant without text and calls are left out: agents keep them after streams that were cut,
 *    and Find counts them as not there.
 * 2. Calls without an id get one, and results without the id of their call get that of the first call in front of
 *    them which has no result yet (and has their name, if they have one), of the first MAX_OPEN of such calls. The ids
 *    of a reply's calls in the conversation are others; talk-results.c puts them in once a Continue has refused ours.
 * 3. Messages of the assistant that follow each other become one where the second has calls alone, since results answer
 *    the calls of the one message before them.
 * 4. Messages of the system are told as they are, until the daemon refuses one where it stands. Then those in front
 *    become one, with an empty line in between, and later ones become messages of the user. Most templates have
 *    one system message in front. This is remembered for the model (backend_set_one_system()), so that the
 *    next request is told like this one from the beginning, and finds it.
 *
 * 5. A form has at most MAX_MESSAGES messages, MAX_CALLS calls and MAX_CALLS results, so a body of short ones does not hold up
 *    other clients: all of this is done between two looks at the sockets. The daemon takes fewer.
 *
 * Nothing here depends on what the daemon has, so the same history is always told in the same way.
 */
#include "base/utf8.h"
#include "base/util.h"
#include "client/gateway/talk-private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        MAX_MESSAGES = 65536,
        MAX_CALLS = 16384, /* of all messages together; as many results */
        MAX_OPEN = 256     /* as many as a reply may have (ENGINE_MAX_CALLS) */
};

/* What the messages so far lead to. */
struct teller {
        struct talk *talk;
        struct confab_message *out; /* [n] */
        size_t n;
        size_t call_count;                 /* calls that have got an id */
        size_t calls_room;                 /* of the last message's list of calls */
        struct confab_call open[MAX_OPEN]; /* calls that may be answered next, in their order */
        size_t n_open;
        bool is_front; /* nobody else than the system has spoken, in a new conversation */
};

static int no_memory(struct err *e) {
        return err_set(e, ERR_NOMEM, "no memory for the messages");
}

/* @a, an empty line, @b; in the form's memory, or NULL. */
static char *join(struct talk *talk, const void *a, size_t a_size, const void *b, size_t b_size) {
        char *text = form_alloc(talk->form, a_size + b_size + 3);

        if (!text)
                return NULL;
        memcpy(text, a, a_size);
        memcpy(text + a_size, "\n\n", 2);
        if (b_size > 0)
                memcpy(text + a_size + 2, b, b_size);
        return text;
}

/* As Find has it: white space of any script at the ends of a text does not count. */
static bool has_no_text(const struct confab_message *message) {
        const char *text = message->text;
        size_t n = message->text_size;

        if (n > 0)
                utf8_trim(&text, &n);
        return n == 0;
}

/* ---- the system ---- */

static int put_system(struct teller *t, const struct confab_message *message, struct err *e) {
        struct confab_message *last = t->n > 0 ? &t->out[t->n - 1] : NULL;
        const char *text;

        if (!t->talk->one_system || (t->is_front && !last)) {
                t->out[t->n++] = *message;
                return 0;
        }
        if (!t->is_front) {
                t->out[t->n] = *message;
                t->out[t->n++].role = CONFAB_ROLE_USER;
                return 0;
        }
        text = join(t->talk, last->text, last->text_size, message->text, message->text_size);
        if (!text)
                return no_memory(e);
        last->text = text;
        last->text_size += 2 + message->text_size;
        return 0;
}

/* ---- calls and results ---- */

/* The message to which calls of @message are added: the one before, or a new one. */
static struct confab_message *place_of(struct teller *t, const struct confab_message *message) {
        struct confab_message *last = t->n > 0 ? &t->out[t->n - 1] : NULL;

        if (last && last->role == CONFAB_ROLE_ASSISTANT && has_no_text(message) &&
                !(last->reasoning && message->reasoning)) {
                if (message->reasoning)
                        last->reasoning = message->reasoning;
                return last;
        }
        t->out[t->n] = *message;
        t->out[t->n].n_calls = 0;
        t->calls_room = 0;
        return &t->out[t->n++];
}

/* The list of calls of @out, the last message, with room for @n. NULL: no memory. */
static struct confab_call *grow_calls(struct teller *t, struct confab_message *out, size_t n) {
        struct confab_call *calls;
        size_t room = MAX(n, 2 * t->calls_room);

        if (t->calls_room > 0 && n <= t->calls_room)
                return (struct confab_call *)(uintptr_t)out->calls;
        calls = form_alloc(t->talk->form, room * sizeof(*calls) + 1);
        if (!calls)
                return NULL;
        if (out->n_calls > 0)
                memcpy(calls, out->calls, out->n_calls * sizeof(*calls));
        t->calls_room = room;
        return calls;
}

static int put_assistant(struct teller *t, const struct confab_message *message, struct err *e) {
        struct confab_message *out = place_of(t, message);
        size_t n_before = out->n_calls, n = n_before + message->n_calls;
        struct confab_call *calls = grow_calls(t, out, n);

        if (!calls)
                return no_memory(e);
        for (size_t i = n_before; i < n; i++) {
                char id[32];

                calls[i] = message->calls[i - n_before];
                snprintf(id, sizeof(id), "call%05zu", ++t->call_count);
                if (!calls[i].id || !*calls[i].id)
                        calls[i].id = form_strdup(t->talk->form, id);
                if (!calls[i].id)
                        return no_memory(e);
                if (t->n_open < MAX_OPEN)
                        t->open[t->n_open++] = calls[i];
        }
        out->calls = calls;
        out->n_calls = n;
        if (t->talk->no_reasoning)
                out->reasoning = NULL;
        return 0;
}

/* The calls with this id have a result. */
static void close_calls(struct teller *t, const char *id) {
        size_t n = 0;

        for (size_t i = 0; i < t->n_open; i++)
                if (strcmp(t->open[i].id, id) != 0)
                        t->open[n++] = t->open[i];
        t->n_open = n;
}

/* The id of the first call that waits for a result; @name: of this function, or NULL. */
static const char *waiting_call(const struct teller *t, const char *name) {
        for (size_t i = 0; i < t->n_open; i++)
                if (!name || strcmp(t->open[i].name, name) == 0)
                        return t->open[i].id;
        return NULL;
}

static int put_results(struct teller *t, const struct confab_message *message, struct err *e) {
        struct confab_message *out = &t->out[t->n++];
        size_t n = message->n_results;
        struct confab_result *results = form_alloc(t->talk->form, n * sizeof(*results) + 1);

        *out = *message;
        out->results = results;
        out->n_results = 0;
        if (!results)
                return no_memory(e);
        for (size_t i = 0; i < n; i++) {
                const char *id = message->results[i].call_id;

                if (!id || !*id)
                        id = waiting_call(t, message->results[i].name);
                if (!id)
                        id = waiting_call(t, NULL);
                results[i] = message->results[i];
                results[i].call_id = id ? id : TALK_NO_CALL;
                out->n_results = i + 1;
                close_calls(t, results[i].call_id);
        }
        return 0;
}

/* ---- all of them ---- */

static int put(struct teller *t, const struct confab_message *message, struct err *e) {
        bool goes_on = message->role == CONFAB_ROLE_TOOL ||
                       (t->n > 0 && message->role == CONFAB_ROLE_ASSISTANT &&
                               t->out[t->n - 1].role == CONFAB_ROLE_ASSISTANT);

        if (message->role == CONFAB_ROLE_ASSISTANT && has_no_text(message) && message->n_calls == 0)
                return 0;
        if (!goes_on)
                t->n_open = 0;
        if (message->role == CONFAB_ROLE_SYSTEM)
                return put_system(t, message, e);
        t->is_front = false;
        if (message->role == CONFAB_ROLE_ASSISTANT)
                return put_assistant(t, message, e);
        if (message->role == CONFAB_ROLE_TOOL)
                return put_results(t, message, e);
        t->out[t->n++] = *message;
        return 0;
}

/* Rule 5. */
static int count_all(const struct form_fields *fields, struct err *e) {
        size_t n_calls = 0, n_results = 0;

        for (size_t i = 0; i < fields->n_messages; i++) {
                n_calls += fields->messages[i].n_calls;
                n_results += fields->messages[i].n_results;
        }
        if (fields->n_messages > MAX_MESSAGES)
                return err_set(e, ERR_INVALID, "%zu messages, more than %d", fields->n_messages,
                        MAX_MESSAGES);
        if (MAX(n_calls, n_results) > MAX_CALLS)
                return err_set(e, ERR_INVALID, "%zu calls and %zu results, more than %d", n_calls,
                        n_results, MAX_CALLS);
        return 0;
}

int talk_tell_messages(struct talk *talk, struct err *e) {
        const struct form_fields *fields = talk->fields;
        struct teller t = {
                .talk = talk, .is_front = fields->place != FORM_AT || fields->at_turn == 0};
        int r = count_all(fields, e);

        if (r < 0)
                return r;
        t.out = form_alloc(talk->form, (fields->n_messages + 1) * sizeof(*t.out));
        if (!t.out)
                return no_memory(e);
        for (size_t i = 0; r == 0 && i < fields->n_messages; i++)
                r = put(&t, &fields->messages[i], e);
        if (r < 0)
                return r;
        talk->messages = t.out;
        talk->n_messages = t.n;
        return talk->plain ? talk_tell_plainly(talk, e) : 0;
}

bool talk_can_join_system(const struct talk *talk) {
        const struct form_fields *fields = talk->fields;

        if (talk->one_system)
                return false;
        for (size_t i = fields->place == FORM_AT ? 0 : 1; i < fields->n_messages; i++)
                if (fields->messages[i].role == CONFAB_ROLE_SYSTEM)
                        return true;
        return false;
}

bool talk_drop_reasoning(struct talk *talk) {
        bool any = false;

        for (size_t i = 0; i < talk->n_messages; i++) {
                any = any || talk->messages[i].reasoning;
                talk->messages[i].reasoning = NULL;
        }
        talk->no_reasoning = true;
        return any;
}

uint32_t talk_count_turns(const struct talk *talk, size_t from) {
        uint32_t n = 0;

        for (size_t i = from; i < talk->n_messages; i++)
                n += i == from || talk->messages[i].role != CONFAB_ROLE_TOOL ||
                     talk->messages[i - 1].role != CONFAB_ROLE_TOOL;
        return n;
}
