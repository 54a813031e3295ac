/* SPDX-License-Identifier: MIT */
/*
 * A form's memory is a chain of allocations that are freed together. Arrays that grow are moved to a new
 * allocation of double size; the old one stays until the end, so a form takes at most twice what it holds.
 */
#include "client/gateway/form.h"
#include "base/util.h"

struct form_piece {
        struct form_piece *next;
        max_align_t data[];
};

struct form {
        struct form_fields fields;
        struct form_piece *pieces;
        size_t messages_room, calls_room, results_room, stops_room;
};

int form_new(struct form **ret, struct err *e) {
        struct form *form = calloc(1, sizeof(*form));

        if (!form)
                return err_no_memory(e);
        form->fields.n = 1;
        *ret = form;
        return 0;
}

struct form *form_free(struct form *form) {
        if (!form)
                return NULL;
        while (form->pieces) {
                struct form_piece *piece = form->pieces;

                form->pieces = piece->next;
                free(piece);
        }
        free(form);
        return NULL;
}

struct form_fields *form_fields(struct form *form) {
        return &form->fields;
}

void *form_alloc(struct form *form, size_t size) {
        struct form_piece *piece;
        size_t total;

        if (add_overflow(sizeof(*piece), size, &total))
                return NULL;
        piece = calloc(1, total);
        if (!piece)
                return NULL;
        piece->next = form->pieces;
        form->pieces = piece;
        return piece->data;
}

char *form_text(struct form *form, const void *text, size_t size) {
        size_t total;
        char *copy;

        if (add_overflow(size, 1, &total))
                return NULL;
        copy = form_alloc(form, total);
        if (copy && size > 0)
                memcpy(copy, text, size);
        return copy;
}

char *form_strdup(struct form *form, const char *s) {
        return form_text(form, s, strlen(s));
}

/* @old [n] with room for one more: itself, or a copy with double room; NULL without memory. */
static void *grow(struct form *form, const void *old, size_t n, size_t item_size, size_t *room) {
        size_t wanted = n < 4 ? 8 : 2 * n, size;
        void *copy;

        if (n < *room)
                return (void *)(uintptr_t)old;
        if (mul_overflow(wanted, item_size, &size))
                return NULL;
        copy = form_alloc(form, size);
        if (!copy)
                return NULL;
        if (n > 0)
                memcpy(copy, old, n * item_size);
        *room = wanted;
        return copy;
}

struct confab_message *form_add_message(struct form *form, enum confab_role role) {
        struct form_fields *fields = &form->fields;
        struct confab_message *messages = grow(form, fields->messages, fields->n_messages,
                sizeof(*messages), &form->messages_room);

        if (!messages)
                return NULL;
        fields->messages = messages;
        form->calls_room = form->results_room = 0;
        messages[fields->n_messages] = (struct confab_message){.role = role};
        return &messages[fields->n_messages++];
}

struct confab_call *form_add_call(struct form *form) {
        struct confab_message *message = &form->fields.messages[form->fields.n_messages - 1];
        struct confab_call *calls =
                grow(form, message->calls, message->n_calls, sizeof(*calls), &form->calls_room);

        if (!calls)
                return NULL;
        message->calls = calls;
        calls[message->n_calls] = (struct confab_call){};
        return &calls[message->n_calls++];
}

struct confab_result *form_add_result(struct form *form) {
        struct confab_message *message = &form->fields.messages[form->fields.n_messages - 1];
        struct confab_result *results = grow(
                form, message->results, message->n_results, sizeof(*results), &form->results_room);

        if (!results)
                return NULL;
        message->results = results;
        results[message->n_results] = (struct confab_result){};
        return &results[message->n_results++];
}

int form_add_stop(struct form *form, const char *stop) {
        struct form_fields *fields = &form->fields;
        const char **stops =
                grow(form, fields->stops, fields->n_stops, sizeof(*stops), &form->stops_room);
        char *copy = stops ? form_strdup(form, stop) : NULL;

        if (!copy)
                return -ERR_NOMEM;
        stops[fields->n_stops++] = copy;
        fields->stops = stops;
        return 0;
}
