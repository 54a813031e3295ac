/* SPDX-License-Identifier: MIT */
/*
 * The grammar of a reply that is one call.
 *
 * 1. Reasoning may precede the call: where the invitation opened it, or where the model opens it. It is
 *    free until its closing mark. No mark that begins a call can be in it.
 * 2. The call is one of the functions that may be called, written as force.c learned it.
 * 3. Its arguments meet the function's schema. A schema that grammars do not support is refused, and
 *    not weakened: what is generated can be relied on.
 */
#include "chat/force.h"

#include <string.h>

#include "base/err.h"
#include "base/util.h"

void chat_put_item(struct buf *out, char kind, const char *text, size_t n, int *r) {
        if (n == 0 || *r < 0)
                return;
        *r = buf_printf(out, "%c%zu:", kind, n);
        if (*r >= 0)
                *r = buf_append(out, text, n);
}

bool chat_token_is_silent(const struct tok *t, int32_t token) {
        return tok_piece(t, token, false, NULL, 0) == 0;
}

/* What is written, and for what. */
struct writer {
        const struct chat_forced *forced;
        const struct reply_rules *rules;
        const char *name; /* of the only function; or NULL */
        struct buf *out;
        size_t n_calls;
        int r; /* the first failure of the buffer */
};

static void put_text(struct writer *w, const char *items) {
        if (w->r >= 0)
                w->r = buf_append_str(w->out, items);
}

static void put_buf(struct writer *w, const struct buf *items) {
        if (w->r >= 0 && items->size > 0)
                w->r = buf_append(w->out, items->data, items->size);
}

/* --- in front of the call --- */

static void put_mark(struct writer *w, const char *mark) {
        const struct tok *t = w->rules->tok;
        int32_t token = tok_find(t, mark, strlen(mark));
        bool silent = token >= 0 && chat_token_is_silent(t, token);

        chat_put_item(w->out, silent ? 'm' : 't', mark, strlen(mark), &w->r);
}

/* Text in which no mark is that ends it or that begins a call, and the mark that ends it. */
static void put_reasoning(struct writer *w) {
        const struct reply_calls *row = w->rules->calls;
        const char *marks[REPLY_MAX_SAME + 2] = {w->rules->thinking->close};
        size_t n = 1, size = 0;

        if (row->ends_reasoning && row->section)
                marks[n++] = row->section;
        for (size_t i = 0; row->ends_reasoning && i < REPLY_MAX_SAME && row->each[i]; i++)
                marks[n++] = row->each[i];
        for (size_t i = 0; i < n; i++)
                size += strlen(marks[i]) + 1;
        if (w->r >= 0)
                w->r = buf_printf(w->out, "f%zu:", size);
        for (size_t i = 0; i < n && w->r >= 0; i++)
                w->r = buf_append(w->out, marks[i], strlen(marks[i]) + 1);
        put_mark(w, w->rules->thinking->close);
}

static void put_start(struct writer *w) {
        if (w->rules->thinking) {
                put_text(w, "(o");
                put_reasoning(w);
                put_text(w, "|");
                put_mark(w, w->rules->thinking->open);
                put_reasoning(w);
                put_text(w, "|)");
        }
        put_text(w, "w");
}

/* --- the call --- */

#define OBJECT "\"object\""

static int check_type(const struct chat_definition *d, struct err *e) {
        if (d->type_size == 0 ||
                (d->type_size == strlen(OBJECT) && memcmp(d->type, OBJECT, strlen(OBJECT)) == 0))
                return 0;
        return err_set(e, ERR_INVALID, "the parameters of %.*s are of another type than object",
                (int)MIN(d->name_size, (size_t)64), d->name);
}

/* The function's schema, with the type that arguments have if it has none. */
static void put_schema(struct writer *w, const struct chat_definition *d) {
        static const char type[] = "\"type\":" OBJECT,
                          none[] = "{\"type\":" OBJECT ",\"properties\":{}}";
        const char *rest = d->parameters;
        bool empty;

        if (d->parameters_size == 0) {
                chat_put_item(w->out, 'j', none, strlen(none), &w->r);
                return;
        }
        if (d->type_size > 0) {
                chat_put_item(w->out, 'j', d->parameters, d->parameters_size, &w->r);
                return;
        }
        do
                rest++;
        while (reply_is_space((uint8_t)*rest));
        empty = *rest == '}';
        if (w->r >= 0)
                w->r = buf_printf(w->out, "j%zu:{%s%s",
                        d->parameters_size + strlen(type) + (empty ? 0 : 1), type,
                        empty ? "" : ",");
        if (w->r >= 0)
                w->r = buf_append(w->out, d->parameters + 1, d->parameters_size - 1);
}

/* Names are forced as they are, so they need no escapes in any format. */
static int check_name(const struct chat_definition *d, struct err *e) {
        size_t n = d->name_size - 2;
        bool plain = n > 0 && n <= CHAT_REPLY_NAME;

        for (size_t i = 0; plain && i < n; i++)
                plain = reply_is_name((uint8_t)d->name[1 + i]);
        if (plain)
                return 0;
        return err_set(e, ERR_UNSUPPORTED,
                "a call of %.*s can't be forced: such names have letters, digits, '_', '-' and '.'",
                (int)MIN(d->name_size, (size_t)64), d->name);
}

static int put_call(void *arg, const struct chat_definition *d, struct err *e) {
        struct writer *w = arg;
        size_t n = d->name_size - 2;
        int r;

        if (w->name && (strlen(w->name) != n || memcmp(w->name, d->name + 1, n) != 0))
                return 0;
        r = check_name(d, e);
        if (r == 0)
                r = check_type(d, e);
        if (r < 0)
                return r;
        if (w->n_calls++ > 0)
                put_text(w, "|");
        put_buf(w, &w->forced->before);
        chat_put_item(w->out, 't', d->name + 1, n, &w->r);
        put_buf(w, &w->forced->middle);
        put_schema(w, d);
        put_buf(w, &w->forced->after);
        return 0;
}

int chat_write_forced(const struct chat_forced *f, const struct reply_rules *rules,
        const char *tools, size_t n, const char *name, struct buf *ret, struct err *e) {
        struct writer w = {.forced = f, .rules = rules, .name = name, .out = ret};
        int r;

        put_start(&w);
        put_text(&w, "(");
        r = chat_definitions_each(tools, n, put_call, &w, e);
        if (r < 0)
                return r;
        if (w.n_calls == 0)
                return err_set(e, ERR_INVALID, "no tool is named '%.64s'", name ? name : "");
        put_text(&w, ")");
        if (w.r == -ERR_LIMIT)
                return err_set(e, ERR_TOO_LARGE, "the grammar of a call is longer than %zu bytes",
                        ret->max);
        return w.r < 0 ? err_set(e, ERR_NOMEM, "no memory for the grammar of a call") : 0;
}
