/* SPDX-License-Identifier: MIT */
/* The caller's messages as messages of the protocol: one block that borrows the caller's strings. */
#include "base/utf8.h"
#include "client/lib-internal.h"
#include <string.h>

/* What is left of the block. Everything in it has the alignment of pointers; texts are at the end. */
struct room {
        Confab__V1__Call *calls;
        Confab__V1__Call **call_places;
        Confab__V1__ToolResult *results;
        Confab__V1__ToolResult **result_places;
        char *text;
};

static int put_string(char **ret, const char *s, const char *what, size_t number, struct err *e) {
        if (s && !utf8_valid(s, strlen(s)))
                return err_set(
                        e, ERR_INVALID, "message %zu: the %s is not valid UTF-8", number, what);
        *ret = proto_borrow(s);
        return 0;
}

static int put_text(struct room *room, char **ret, const struct confab_message *from, size_t number,
        struct err *e) {
        if (from->text_size == 0)
                return 0;
        if (memchr(from->text, 0, from->text_size))
                return err_set(e, ERR_INVALID, "message %zu: the text has a NUL byte", number);
        if (!utf8_valid(from->text, from->text_size))
                return err_set(e, ERR_INVALID, "message %zu: the text is not valid UTF-8", number);
        *ret = memcpy(room->text, from->text, from->text_size);
        room->text += from->text_size;
        *room->text++ = 0;
        return 0;
}

static int put_calls(struct room *room, Confab__V1__Message *m, const struct confab_message *from,
        size_t number, struct err *e) {
        int r = 0;

        m->calls = room->call_places;
        m->n_calls = from->n_calls;
        for (size_t i = 0; r == 0 && i < from->n_calls; i++) {
                const struct confab_call *call = &from->calls[i];
                Confab__V1__Call *to = *room->call_places++ = room->calls++;

                *to = (Confab__V1__Call)CONFAB__V1__CALL__INIT;
                r = put_string(&to->id, call->id, "id of a call", number, e);
                if (r == 0)
                        r = put_string(&to->name, call->name, "name of a function", number, e);
                if (r == 0)
                        r = put_string(
                                &to->arguments, call->arguments, "arguments of a call", number, e);
        }
        return r;
}

static int put_results(struct room *room, Confab__V1__Message *m, const struct confab_message *from,
        size_t number, struct err *e) {
        int r = 0;

        m->results = room->result_places;
        m->n_results = from->n_results;
        for (size_t i = 0; r == 0 && i < from->n_results; i++) {
                const struct confab_result *result = &from->results[i];
                Confab__V1__ToolResult *to = *room->result_places++ = room->results++;

                *to = (Confab__V1__ToolResult)CONFAB__V1__TOOL_RESULT__INIT;
                r = put_string(&to->call_id, result->call_id, "id of a call", number, e);
                if (r == 0)
                        r = put_string(&to->name, result->name, "name of a function", number, e);
                if (r == 0)
                        r = put_string(&to->text, result->text, "result of a call", number, e);
        }
        return r;
}

static int put_message(struct room *room, Confab__V1__Message *m, const struct confab_message *from,
        size_t number, struct err *e) {
        int r;

        *m = (Confab__V1__Message)CONFAB__V1__MESSAGE__INIT;
        m->has_role = true;
        m->role = (Confab__V1__Role)from->role;
        r = put_text(room, &m->text, from, number, e);
        if (r == 0)
                r = put_string(&m->reasoning, from->reasoning, "reasoning", number, e);
        if (r == 0)
                r = put_calls(room, m, from, number, e);
        return r < 0 ? r : put_results(room, m, from, number, e);
}

int messages_put(
        Confab__V1__Message ***ret, const struct confab_message *from, size_t n, struct err *e) {
        size_t n_calls = 0, n_results = 0, text_size = 0;
        Confab__V1__Message **places, *messages;
        struct room room;
        int r = 0;

        for (size_t i = 0; i < n; i++) {
                n_calls += from[i].n_calls;
                n_results += from[i].n_results;
                text_size += from[i].text_size + 1;
        }
        places = calloc(
                1, (n + 1) * (sizeof(*messages) + sizeof(*places)) +
                           n_calls * (sizeof(*room.calls) + sizeof(*room.call_places)) +
                           n_results * (sizeof(*room.results) + sizeof(*room.result_places)) +
                           text_size);
        if (!places)
                return err_set(e, ERR_NOMEM, "no memory for messages");
        messages = (Confab__V1__Message *)(places + n);
        room.calls = (Confab__V1__Call *)(messages + n);
        room.call_places = (Confab__V1__Call **)(room.calls + n_calls);
        room.results = (Confab__V1__ToolResult *)(room.call_places + n_calls);
        room.result_places = (Confab__V1__ToolResult **)(room.results + n_results);
        room.text = (char *)(room.result_places + n_results);
        for (size_t i = 0; r == 0 && i < n; i++) {
                places[i] = &messages[i];
                r = put_message(&room, &messages[i], &from[i], i + 1, e);
        }
        if (r < 0)
                free(places);
        else
                *ret = places;
        return r;
}
