/* SPDX-License-Identifier: MIT */
/* One message, or several results, out of one rendering: where it is cut, how it joins the history,
 * and the checks that template.c promises (1, 5). */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/charge.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "chat/chat-internal.h"

/* Definitions that are not told with a system message change nothing there. */
static bool told_with_system(const struct chat_template *t, bool has_tools) {
        return has_tools && t->tools_with[CHAT_KIND_SYSTEM];
}

bool chat_template_opens(const struct chat_template *t, bool has_tools) {
        return t->open[told_with_system(t, has_tools)].opens;
}

enum chat_after chat_after_of(const struct chat_template *t, const struct chat_tail *tail) {
        switch (tail->state) {
        case CHAT_EMPTY:
                return CHAT_AFTER_NOTHING;
        case CHAT_OPEN_SYSTEM:
                return told_with_system(t, tail->has_tools) ? CHAT_AFTER_OPEN_TOOLS
                                                            : CHAT_AFTER_OPEN_SYSTEM;
        case CHAT_OPEN_REPLY:
        case CHAT_ENDED_REPLY:
                return CHAT_AFTER_REPLY;
        case CHAT_CLOSED:
                break;
        }
        /* Behind raw text: the regular place of a user's message. */
        return tail->role == CHAT_SYSTEM ? CHAT_AFTER_SYSTEM
               : tail->role == CHAT_USER ? CHAT_AFTER_USER
               : tail->role == CHAT_TOOL ? CHAT_AFTER_RESULTS
                                         : CHAT_AFTER_REPLY;
}

int chat_render_for(const struct chat_template *t, const struct chat_rendering *in,
        struct jinja_out *ret, struct tok_ids *out, struct err *e) {
        int r = chat_render(t, in, ret, e);

        out->refused = r == -ERR_LIMIT; /* a limit of the rendering is -ERR_TOO_LARGE */
        return r;
}

int chat_differs(struct err *e) {
        return err_set(e, ERR_INVALID,
                "the chat template writes what precedes this message in another way than it did "
                "before");
}

size_t chat_cut_of(
        const struct chat_template *t, const struct chat_place *at, struct chat_join *join) {
        const struct chat_piece *p = &t->piece[at->after][at->kind];
        const struct chat_open *o = &t->open[at->after == CHAT_AFTER_OPEN_TOOLS];
        const struct chat_closing *c;

        *join = (struct chat_join){.skip = -1};
        switch (at->state) {
        case CHAT_EMPTY:
                join->bos = join->starts = true;
                return 0;
        case CHAT_OPEN_SYSTEM:
                join->skip = o->opened;
                return o->opened >= 0 ? o->opened_at : p->text;
        case CHAT_OPEN_REPLY:
                return p->behind;
        case CHAT_ENDED_REPLY:
                join->starts = true;
                join->skip = t->end;
                return p->behind + (t->end >= 0 ? t->end_at : 0);
        case CHAT_CLOSED:
                break;
        }
        c = &t->closing[chat_kind_before(at->after)];
        join->skip = c->last;
        return p->behind + (c->last >= 0 ? c->last_at : c->size);
}

/* --- definitions of tools --- */

int chat_tools_elsewhere(const struct chat_template *t, struct err *e) {
        if (t->tools_with[CHAT_KIND_USER] || t->tools_with[CHAT_KIND_SYSTEM])
                return err_set(e, ERR_STATE,
                        "the model's chat template tells of tools at the beginning of a "
                        "conversation, with the first message of the %s",
                        !t->tools_with[CHAT_KIND_SYSTEM] ? "user"
                        : t->tools_with[CHAT_KIND_USER]  ? "system or the user"
                                                         : "system");
        return err_set(e, ERR_UNSUPPORTED, "the model's chat template does not tell of tools");
}

int chat_check_told(const struct chat_template *t, const struct chat_rendering *in,
        const struct jinja_out *with, struct tok_ids *out, struct err *e) {
        _cleanup_(jinja_out_deinit) struct jinja_out without = JINJA_OUT_NULL;
        struct chat_rendering same = *in;
        int r;

        same.tools = NULL;
        r = chat_render_for(t, &same, &without, out, e);
        if (r == -ERR_INVALID)
                return 0; /* it needs them */
        if (r < 0)
                return r;
        if (without.size == with->size && memcmp(without.text, with->text, with->size) == 0)
                return chat_tools_elsewhere(t, e);
        return 0;
}

/* --- messages --- */

static size_t surround_size(const struct chat_input *in) {
        return (CHAT_MAX_STAND_INS + in->n + 1) * sizeof(struct chat_message);
}

/* The stand-ins, the messages and what follows them, for a rendering. Owned. */
static struct chat_message *surround(const struct chat_template *t, const struct chat_place *at,
        const struct chat_input *in, size_t *ret_n) {
        struct chat_message *all = calloc(1, surround_size(in));
        size_t n;

        if (!all)
                return NULL;
        n = chat_stand_ins_of(at->after, all);
        memcpy(all + n, in->messages, in->n * sizeof(*all));
        n += in->n;
        if (t->piece[at->after][at->kind].followed)
                all[n++] = chat_stand_in_next;
        *ret_n = n;
        return all;
}

/* The rendering @text of @in: take the messages out of it. */
static int take_messages(const struct chat_template *t, const struct chat_place *at,
        const struct jinja_out *text, bool tools, size_t max, struct tok_ids *out, struct err *e) {
        const struct chat_piece *p = &t->piece[at->after][at->kind];
        struct chat_join join;
        size_t cut = chat_cut_of(t, at, &join);

        if (text->size >= p->fixed && hash64(text->text, p->fixed, 0) != p->hash && tools)
                return chat_tools_elsewhere(t, e);
        if (text->size < p->fixed || text->size - p->fixed < p->drop_size ||
                text->size - p->drop_size < cut || hash64(text->text, p->fixed, 0) != p->hash ||
                memcmp(text->text + text->size - p->drop_size, p->drop, p->drop_size) != 0)
                return chat_differs(e);
        return chat_encode_rendering(
                t->tok, text, cut, text->size - p->drop_size, &join, max, out, e);
}

static int append_surrounded(const struct chat_template *t, const struct chat_place *at,
        const struct chat_tail *tail, const struct chat_input *in, size_t max, struct tok_ids *out,
        struct err *e) {
        _cleanup_(jinja_out_deinit) struct jinja_out text = JINJA_OUT_NULL;
        _cleanup_(buf_deinit) struct buf joined = {.charge = out->charge};
        _cleanup_(freep) struct chat_message *messages = NULL;
        struct chat_rendering all = {
                .tools = in->tools, .tools_size = in->tools_size, .charge = out->charge};
        bool open = at->after == CHAT_AFTER_OPEN_SYSTEM || at->after == CHAT_AFTER_OPEN_TOOLS;
        int r = 0;

        if (at->after == CHAT_AFTER_NOTHING)
                all.created_usec = tail->created_usec;
        if (at->after == CHAT_AFTER_OPEN_TOOLS) {
                all.tools = chat_stand_in_tools;
                all.tools_size = strlen(chat_stand_in_tools);
        }
        messages = surround(t, at, in, &all.n);
        if (!messages)
                return err_set(e, ERR_NOMEM, "no memory for a message");
        all.messages = messages;
        if (open && t->joins_system) {
                r = chat_join_system(
                        &joined, &chat_stand_ins[CHAT_KIND_SYSTEM], &in->messages[0], &messages[0]);
                all.n = 1;
                out->refused = r == -ERR_LIMIT;
        }
        if (r < 0)
                return err_set(e, (enum err_code) - r, "no memory for a message");
        r = chat_render_for(t, &all, &text, out, e);
        if (r == 0 && in->tools)
                r = chat_check_told(t, &all, &text, out, e);
        return r < 0 ? r : take_messages(t, at, &text, in->tools, max, out, e);
}

int chat_append_at(const struct chat_template *t, const struct chat_place *at,
        const struct chat_tail *tail, const struct chat_input *in, size_t max, struct tok_ids *out,
        struct err *e) {
        size_t size = surround_size(in);
        int r;

        if (!t->piece[at->after][at->kind].works)
                return err_set(e, ERR_INVALID, "the chat template does not write a message here");
        r = out->charge ? charge_take(out->charge, size, "a message", e) : 0;
        out->refused = r < 0;
        if (r < 0)
                return r;
        r = append_surrounded(t, at, tail, in, max, out, e);
        if (out->charge)
                charge_give(out->charge, size);
        return r;
}

int chat_close_tail(const struct chat_template *t, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e) {
        const struct chat_closing *c = &t->closing[CHAT_KIND_ASSISTANT];
        struct jinja_span span = {.trusted = true};
        struct jinja_out text = {.text = c->text, .spans = &span, .n_spans = 1};
        struct chat_join join = {.skip = -1};
        size_t from = 0;

        if (tail->state == CHAT_EMPTY) {
                const int32_t bos = tok_bos(t->tok);
                bool wants = bos >= 0 && (tok_add_bos(t->tok) || t->begins_with_bos);

                return wants ? tok_ids_append(out, &bos, 1, e) : 0;
        }
        if ((tail->state != CHAT_OPEN_REPLY && tail->state != CHAT_ENDED_REPLY) || !c->text)
                return 0;
        if (tail->state == CHAT_ENDED_REPLY) {
                join.skip = t->end;
                join.starts = true;
                from = t->end >= 0 ? MIN(t->end_at, c->size) : 0;
        }
        text.size = span.size = c->size;
        return chat_encode_rendering(t->tok, &text, from, c->size, &join, max, out, e);
}
