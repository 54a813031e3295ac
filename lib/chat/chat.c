/* SPDX-License-Identifier: MIT */
/*
 * Which format serves for a model: its own template, else the family that its template resembles,
 * else none; or what the administrator chose. Raw messages are the same in all.
 */
#include "chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/util.h"
#include "chat/chat-internal.h"
#include "chat/force.h"
#include "chat/reply-internal.h"

struct chat {
        const struct tok *tok;
        struct chat_template *template; /* owned; NULL: not used */
        const struct chat_family *family;
        struct chat_forms *forms; /* owned; of the family, NULL: none */
        const char *differences[CHAT_MAX_DIFFERENCES + 1];
        char unusable[400]; /* why the template can't be used; the first difference then */
        struct reply_rules reply;
        struct chat_forced forced;
};

/* --- the choice --- */

static const struct chat_family *find_family(const char *text, size_t size) {
        for (size_t i = 0; i < chat_n_families; i++) {
                const struct chat_family *f = &chat_families[i];
                bool all = true;

                for (size_t k = 0; k < ARRAY_SIZE(f->marks) && f->marks[k]; k++)
                        all = all && chat_has(text, size, f->marks[k]);
                if (all && !(f->unless && chat_has(text, size, f->unless)))
                        return f;
        }
        return NULL;
}

static const struct chat_family *named_family(const char *name) {
        for (size_t i = 0; i < chat_n_families; i++)
                if (strcmp(chat_families[i].name, name) == 0)
                        return &chat_families[i];
        return NULL;
}

static bool is_auto(const char *choice) {
        return !choice || strcmp(choice, "auto") == 0;
}

int chat_check_choice(const char *choice, struct err *e) {
        char names[200];
        size_t n = 0;

        if (is_auto(choice) || strcmp(choice, "none") == 0 || named_family(choice))
                return 0;
        for (size_t i = 0; i < chat_n_families && n < sizeof(names); i++)
                n += (size_t)snprintf(names + n, sizeof(names) - n, ", %s", chat_families[i].name);
        return err_set(
                e, ERR_INVALID, "chat format \"%.20s\" is none of auto, none%s", choice, names);
}

/* The template with its escaped newlines written out: templates write a newline as itself or as \n,
 * and families know it as itself. Owned. */
static char *plain_newlines(const char *text, size_t size, size_t *ret_size) {
        char *copy = malloc(size + 1);
        size_t n = 0;

        if (!copy)
                return NULL;
        for (size_t i = 0; i < size; i++)
                if (text[i] == '\\' && i + 1 < size && text[i + 1] == 'n') {
                        copy[n++] = '\n';
                        i++;
                } else
                        copy[n++] = text[i];
        *ret_size = n;
        return copy;
}

/* Find the family that the template resembles, or take the one that was chosen. */
static int choose_family(
        struct chat *c, const char *text, size_t size, const char *choice, struct err *e) {
        _cleanup_(freep) char *plain = plain_newlines(text, size, &size);
        bool trim;
        int r;

        if (!plain)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        if (!is_auto(choice))
                c->family = named_family(choice);
        else
                c->family = size > 0 ? find_family(plain, size) : NULL;
        if (!c->family)
                return 0;
        /* A family that was named serves for a template that is missing. */
        trim = c->family->trim_mark && chat_has(plain, size, c->family->trim_mark);
        r = chat_forms_new(&c->forms, c->tok, c->family, trim, e);
        return r;
}

static int tell_family(struct chat *c, const char *text, size_t size, struct err *e) {
        _cleanup_(freep) char *plain = plain_newlines(text, size, &size);
        const struct chat_family *f = c->family;

        if (!plain)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        chat_family_differences(c->differences, f,
                f && f->trim_mark && chat_has(plain, size, f->trim_mark), plain, size);
        return 0;
}

/* Tokens that occur in the strings of the family or the template must never come from a message. */
static int protect(
        const struct chat *c, struct tok *t, const char *text, size_t size, struct err *e) {
        _cleanup_(buf_deinit) struct buf strings = BUF_NULL;
        int r = chat_literals(&strings, text, size);

        if (r >= 0 && c->forms)
                r = chat_forms_strings(c->forms, &strings);
        if (r < 0)
                return err_set(e, -r, "out of memory for the strings of a chat format");
        return strings.size > 0 ? tok_protect(t, (const char *)strings.data, strings.size, e) : 0;
}

static int try_template(
        struct chat *c, struct tok *t, const char *text, size_t size, struct err *e) {
        struct err why = {0};
        int r = chat_template_new(&c->template, t, text, size, &why);

        if (r == -ERR_NOMEM) {
                if (e)
                        *e = why;
                return r;
        }
        if (r < 0) {
                snprintf(c->unusable, sizeof(c->unusable), "it can't be used (%s)%s%s", why.msg,
                        c->family ? ": in its place serves the family " : "",
                        c->family ? c->family->name : "");
                c->differences[0] = c->unusable;
                return tell_family(c, text, size, e);
        }
        chat_template_differences(c->differences, c->template->notes);
        return 0;
}

int chat_new(struct chat **ret, struct tok *t, const char *template_text, size_t template_size,
        const char *choice, struct err *e) {
        _cleanup_(chat_freep) struct chat *c = NULL;
        const char *text = template_text ? template_text : "";
        size_t size = template_text ? template_size : 0;
        int r = chat_check_choice(choice, e);

        if (r < 0)
                return r;
        c = calloc(1, sizeof(*c));
        if (!c)
                return err_set(e, ERR_NOMEM, "out of memory for a chat format");
        c->tok = t;
        reply_choose(&c->reply, t, text, size);
        r = choose_family(c, text, size, choice, e);
        if (r >= 0)
                r = protect(c, t, text, size, e);
        if (r < 0)
                return r;
        if (is_auto(choice) && size > 0)
                r = try_template(c, t, text, size, e);
        else if (size > 0 && c->family)
                r = tell_family(c, text, size, e);
        if (r >= 0)
                r = chat_learn_forced(&c->forced, c->template, &c->reply, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

struct chat *chat_free(struct chat *c) {
        if (!c)
                return NULL;
        chat_template_free(c->template);
        chat_forms_free(c->forms);
        chat_forced_deinit(&c->forced);
        free(c);
        return NULL;
}

const char *chat_family(const struct chat *c) {
        return c->template ? "template" : c->family ? c->family->name : "none";
}

bool chat_takes_tools(const struct chat *c) {
        return c->template && c->template->tools != CHAT_TOOLS_NOWHERE;
}

static int no_tools(struct err *e) {
        return err_set(e, ERR_UNSUPPORTED,
                "tools need a chat template that tells of them: the model's does not, or can't be "
                "used");
}

int chat_check_tools(const struct chat *c, const char *tools, size_t n, struct err *e) {
        return chat_takes_tools(c) ? chat_definitions_check(tools, n, NULL, e) : no_tools(e);
}

int chat_force_call(const struct chat *c, const char *tools, size_t n, const char *name,
        struct buf *ret, struct err *e) {
        const char *why = chat_takes_tools(c) ? c->forced.why : "its chat format takes no tools";

        if (why)
                return err_set(
                        e, ERR_UNSUPPORTED, "this model can't be made to call a tool: %s", why);
        return chat_write_forced(&c->forced, &c->reply, tools, n, name, ret, e);
}

const struct reply_rules *chat_reply_rules(const struct chat *c) {
        return &c->reply;
}

const char *chat_difference(const struct chat *c, size_t i) {
        return i < ARRAY_SIZE(c->differences) ? c->differences[i] : NULL;
}

/* --- messages --- */

enum chat_state chat_state_after(const struct chat *c, enum chat_role role, bool has_tools) {
        bool opens = c->template ? chat_template_opens(c->template, has_tools)
                     : c->forms  ? chat_forms_opens_system(c->forms)
                                 : false;

        return role == CHAT_SYSTEM && opens ? CHAT_OPEN_SYSTEM : CHAT_CLOSED;
}

int32_t chat_end_token(const struct chat *c) {
        int32_t end = c->template ? c->template->end
                      : c->forms  ? chat_forms_end_token(c->forms)
                                  : -1;

        if (end < 0)
                end = tok_eot(c->tok);
        return end < 0 ? tok_eos(c->tok) : end;
}

/* Raw text: no closing, no template. */
static int append_raw(const struct chat *c, enum chat_state state, const struct chat_message *m,
        size_t max, struct tok_ids *out, struct err *e) {
        const struct tok_fragment f = {m->text, m->size, false};
        const struct chat_join join = {.bos = state == CHAT_EMPTY,
                .starts = state == CHAT_EMPTY || state == CHAT_ENDED_REPLY,
                .skip = -1};

        return chat_encode(c->tok, &f, 1, &join, max, out, e);
}

static int no_format(struct err *e) {
        return err_set(e, ERR_UNSUPPORTED,
                "the model has no chat template that is known: only raw text is possible");
}

/* Whether the roles of the messages have such fields. */
static int check_fields(const struct chat_input *in, struct err *e) {
        const struct chat_message *m = in->messages;

        if (in->n == 0 || (in->n > 1 && m->role != CHAT_TOOL))
                return err_set(e, ERR_INVALID, "%zu messages where one is expected", in->n);
        for (size_t i = 1; i < in->n; i++)
                if (m[i].role != CHAT_TOOL)
                        return err_set(e, ERR_INVALID,
                                "results of calls and a message of role %s in one input",
                                chat_role_name(m[i].role));
        if (m->role != CHAT_ASSISTANT && (m->reasoning || m->n_calls > 0))
                return err_set(e, ERR_INVALID,
                        "reasoning and calls are in messages of the assistant only, not in one of "
                        "role %s",
                        chat_role_name(m->role));
        if (m->role == CHAT_RAW && in->tools)
                return err_set(e, ERR_INVALID, "raw text tells of no tools");
        for (size_t i = 0; i < m->n_calls; i++)
                if (!m->calls[i].name || !*m->calls[i].name)
                        return err_set(e, ERR_INVALID, "call %zu has no name", i);
        return 0;
}

int chat_append(const struct chat *c, const struct chat_tail *tail, const struct chat_input *in,
        size_t max, struct tok_ids *out, struct err *e) {
        const struct chat_message *m = in->messages;
        int r;

        out->refused = false;
        if ((unsigned)m->role >= CHAT_N_ROLES)
                return err_set(e, ERR_INVALID, "unknown role %d", (int)m->role);
        if ((unsigned)tail->state > CHAT_OPEN_SYSTEM)
                return err_set(e, ERR_INVALID, "unknown chat state %d", (int)tail->state);
        r = check_fields(in, e);
        if (r < 0)
                return r;
        if (m->role == CHAT_RAW)
                return append_raw(c, tail->state, m, max, out, e);
        if (c->template)
                return chat_template_append(c->template, tail, in, max, out, e);
        if (!c->forms)
                return no_format(e);
        if (m->role == CHAT_TOOL || in->tools || m->n_calls > 0)
                return no_tools(e);
        if (m->reasoning)
                return err_set(e, ERR_UNSUPPORTED,
                        "the chat format of the family %s has no place for reasoning that is given",
                        c->family->name);
        return chat_forms_append(c->forms, tail, m, max, out, e);
}

int chat_append_reply_start(const struct chat *c, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e) {
        out->refused = false;
        if (!c->template && !c->forms)
                return no_format(e);
        if (tail->state == CHAT_OPEN_SYSTEM)
                return err_set(e, ERR_STATE, "only a system message was said: nothing to reply to");
        return c->template ? chat_template_reply(c->template, tail, max, out, e)
                           : chat_forms_reply(c->forms, max, out, e);
}
