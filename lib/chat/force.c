/* SPDX-License-Identifier: MIT */
/*
 * Forced calls: a reply that is exactly one call, as a grammar of parts (lib/grammar/parts.c).
 *
 * The template tells how the model writes a call. It renders one whose name, id and arguments are
 * known, and what stands around these is what the model was trained to write:
 *
 *     <tool_call>\n{"name": "standinname", "arguments": {"standinkey": "standinvalue"}}\n</tool_call>
 *     ^ before              ^ name     ^ middle        ^ arguments                    ^ after      ^
 *
 * 1. The call begins at its opening mark (reply-formats.c), or at its object if models write it
 *    without a mark, and reaches to its closing mark, to the end of its object or list, or to its
 *    arguments' end. It has no token that ends a reply.
 * 2. What the reader of replies (reply.h) does not read as that call is not forced: chat_forced.why
 *    says so. The same holds for formats whose arguments are no JSON object.
 * 3. Control tokens are forced as tokens, everything else as text.
 */
#include "chat/force.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include "chat/chat.h"

#define ID "standinid"
#define VALUE "standinvalue"
#define ARGUMENTS "{\"" CHAT_STAND_IN_KEY "\": \"" VALUE "\"}"

void chat_forced_deinit(struct chat_forced *f) {
        buf_deinit(&f->before);
        buf_deinit(&f->middle);
        buf_deinit(&f->after);
}

/* --- what is rendered --- */

/* A call in a rendering: offsets. */
struct written {
        struct jinja_out out;
        struct tok_place *special; /* owned; [n_special] */
        size_t n_special;
        size_t begin, name, name_end, arguments, arguments_end, end;
};
static void written_deinit(struct written *w) {
        jinja_out_deinit(&w->out);
        free(w->special);
}

static const char *find(const struct written *w, size_t from, const char *text) {
        return memmem(w->out.text + from, w->out.size - from, text, strlen(text));
}

/* Where a JSON value ends that begins at @at; 0: it does not. */
static size_t value_end(const struct written *w, size_t at) {
        struct reply_json json;

        reply_json_init(&json);
        while (at < w->out.size && !reply_json_done(&json))
                if (reply_json_byte(&json, (uint8_t)w->out.text[at++]) & REPLY_JSON_ERROR)
                        return 0;
        return reply_json_done(&json) ? at : 0;
}

static bool find_name(struct written *w) {
        const char *name = find(w, 0, CHAT_STAND_IN_NAME);

        if (!name)
                return false;
        w->name = (size_t)(name - w->out.text);
        w->name_end = w->name + strlen(CHAT_STAND_IN_NAME);
        return !find(w, w->name_end, CHAT_STAND_IN_NAME);
}

static bool find_arguments(struct written *w) {
        const char *key = find(w, w->name_end, "\"" CHAT_STAND_IN_KEY "\"");

        if (!key)
                return false;
        w->arguments = (size_t)(key - w->out.text);
        while (w->arguments > w->name_end && reply_is_space((uint8_t)w->out.text[w->arguments - 1]))
                w->arguments--;
        if (w->arguments == w->name_end || w->out.text[--w->arguments] != '{')
                return false;
        w->arguments_end = value_end(w, w->arguments);
        return w->arguments_end > 0;
}

/* The last @text in front of the name. */
static bool find_before(struct written *w, const char *text, size_t *ret) {
        size_t n = strlen(text);

        for (size_t at = w->name; text[0] && at-- > 0;)
                if (w->name - at >= n && memcmp(w->out.text + at, text, n) == 0) {
                        *ret = at;
                        return true;
                }
        return false;
}

/* Behind the mark the call's own text begins: *ret_body. */
static bool find_begin(struct written *w, const struct reply_calls *row, size_t *ret_body) {
        size_t at, each = SIZE_MAX;

        for (size_t i = 0; i < ARRAY_SIZE(row->each) && row->each[i]; i++)
                if (find_before(w, row->each[i], &at) && (each == SIZE_MAX || at > each)) {
                        each = at;
                        *ret_body = at + strlen(row->each[i]);
                }
        if (each == SIZE_MAX) {
                if (!row->bare || !find_before(w, "{", ret_body))
                        return false;
                each = *ret_body;
        }
        w->begin = each;
        return !row->section || find_before(w, row->section, &w->begin);
}

/* Behind the last of @marks that follows @from. */
static size_t behind(const struct written *w, size_t from, const char *mark) {
        const char *at = mark ? find(w, from, mark) : NULL;

        return at ? (size_t)(at - w->out.text) + strlen(mark) : 0;
}

static void find_end(struct written *w, const struct reply_calls *row, size_t body) {
        size_t end = 0;

        while (body < w->name && reply_is_space((uint8_t)w->out.text[body]))
                body++;
        if (w->out.text[body] == '{' || w->out.text[body] == '[')
                end = value_end(w, body);
        w->end = MAX(end, w->arguments_end);
        w->end = MAX(w->end, behind(w, w->end, row->each_end));
        w->end = MAX(w->end, behind(w, w->end, row->section_end));
}

/* The reply ends in front of a token that ends it. False: one stands within the call. */
static bool cut_at_end_token(struct written *w, const struct tok *t) {
        for (size_t i = 0; i < w->n_special; i++) {
                size_t at = w->special[i].start;

                if (at < w->begin || at >= w->end || !tok_is_eog(t, w->special[i].token))
                        continue;
                if (at < w->arguments_end)
                        return false;
                w->end = at;
        }
        return true;
}

/* --- what the reader makes of it --- */

struct heard {
        size_t n_calls, n_others;
        bool right, broken;
        struct buf arguments;
};

static int hear(void *arg, const struct chat_part_event *event, struct err *e) {
        struct heard *h = arg;

        if (event->part != CHAT_PART_CALL) {
                h->n_others++;
                return 0;
        }
        h->n_calls += event->begins;
        if (event->begins)
                h->right = strcmp(event->name, CHAT_STAND_IN_NAME) == 0;
        h->broken = h->broken || event->broken;
        return buf_append(&h->arguments, event->text, event->size) < 0
                       ? err_set(e, ERR_NOMEM, "out of memory for a chat template")
                       : 0;
}

/* Whether the call is read as what it is: 1, 0, or -ERR_NOMEM. */
static int is_read(const struct written *w, const struct reply_rules *rules, struct err *e) {
        _cleanup_(chat_reply_freep) struct chat_reply *reader = NULL;
        const char *tools = chat_stand_in_tools;
        struct heard h = {0};
        int r = reply_new(&reader, rules, tools, strlen(tools), NULL, e);

        if (r == 0)
                r = chat_reply_push_text(
                        reader, w->out.text + w->begin, w->end - w->begin, hear, &h, e);
        if (r == 0)
                r = chat_reply_finish(reader, hear, &h, e);
        if (r == 0)
                r = h.n_calls == 1 && h.n_others == 0 && h.right && !h.broken &&
                    h.arguments.size == w->arguments_end - w->arguments &&
                    memcmp(h.arguments.data, w->out.text + w->arguments, h.arguments.size) == 0;
        buf_deinit(&h.arguments);
        return r;
}

/* --- items --- */

/* Text, and ids in it, each of which may be any other. */
static void put_text(struct buf *out, const char *text, size_t n, int *r) {
        const size_t id = strlen(ID);
        const char *at;

        while (*r >= 0 && (at = memmem(text, n, ID, id))) {
                chat_put_item(out, 't', text, (size_t)(at - text), r);
                if (*r >= 0)
                        *r = buf_printf(out, "i%zu:", id);
                n -= (size_t)(at - text) + id;
                text = at + id;
        }
        chat_put_item(out, 't', text, n, r);
}

static void put_written(const struct written *w, const struct tok *t, size_t from, size_t to,
        struct buf *out, int *r) {
        for (size_t i = 0; i < w->n_special; i++) {
                const struct tok_place *place = &w->special[i];

                if (place->start < from || place->start + place->size > to ||
                        !chat_token_is_silent(t, place->token))
                        continue;
                put_text(out, w->out.text + from, place->start - from, r);
                chat_put_item(out, 'm', w->out.text + place->start, place->size, r);
                from = place->start + place->size;
        }
        put_text(out, w->out.text + from, to - from, r);
}

/* --- learning --- */

static const char *render(const struct chat_template *t, const struct reply_rules *rules,
        struct written *w, int *ret, struct err *e) {
        const char *prefix = rules->calls->id_prefix;
        char id[64] = ID;
        struct chat_call call = {.id = id,
                .name = CHAT_STAND_IN_NAME,
                .arguments = ARGUMENTS,
                .arguments_size = strlen(ARGUMENTS)};
        const struct chat_message messages[] = {chat_stand_ins[CHAT_KIND_USER],
                {.role = CHAT_ASSISTANT, .calls = &call, .n_calls = 1}};
        const struct chat_rendering in = {.messages = messages, .n = 2};

        if (prefix)
                snprintf(id, sizeof(id), "%s%s:0", prefix, CHAT_STAND_IN_NAME);
        *ret = chat_render(t, &in, &w->out, e);
        if (*ret == 0)
                *ret = chat_find_special(t, &w->out, &w->special, &w->n_special, e);
        return *ret < 0 ? "its template refuses one" : NULL;
}

/* Why not, or NULL. */
static const char *learn(struct chat_forced *f, const struct chat_template *t,
        const struct reply_rules *rules, struct written *w, int *ret, struct err *e) {
        const struct reply_calls *row = rules->calls;
        const char *why;
        size_t body = 0;

        if (!t || !t->calls.written)
                return "its template writes none";
        if (!row)
                return "its format of calls is not known";
        if (row->kind != REPLY_KIND_OBJECT && row->kind != REPLY_KIND_NAMED)
                return "the arguments are not JSON in its format of calls";
        why = render(t, rules, w, ret, e);
        if (why)
                return why;
        if (!find_name(w) || !find_arguments(w) || !find_begin(w, row, &body))
                return "its template writes calls in a way that is not known";
        find_end(w, row, body);
        if (!cut_at_end_token(w, rules->tok))
                return "its calls have a token that ends replies";
        *ret = is_read(w, rules, e);
        if (*ret <= 0)
                return "its template does not write calls as replies are read";
        put_written(w, rules->tok, w->begin, w->name, &f->before, ret);
        put_written(w, rules->tok, w->name_end, w->arguments, &f->middle, ret);
        put_written(w, rules->tok, w->arguments_end, w->end, &f->after, ret);
        return NULL;
}

int chat_learn_forced(struct chat_forced *ret, const struct chat_template *t,
        const struct reply_rules *rules, struct err *e) {
        _cleanup_(written_deinit) struct written w = {.n_special = 0};
        int r = 0;

        ret->why = learn(ret, t, rules, &w, &r, e);
        if (r < 0 && (r == -ERR_NOMEM || !ret->why))
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        return 0;
}
