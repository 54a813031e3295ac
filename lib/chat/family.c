/* SPDX-License-Identifier: MIT */
/*
 * Messages to tokens by a family (families.c): expands the family's strings for a vocabulary, and
 * appends tokens. This serves for models whose template is missing or can't be used.
 *
 * 1. Only the family's own strings are parsed for special tokens; message text never is.
 * 2. The appended tokens depend only on the arguments, so a conversation's tokens follow from its
 *    messages and replies.
 * 3. A reply that ended by itself already has its end token in the history: the rest of the
 *    template's closing text is tokenised as text that follows that token.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/charge.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "chat/chat-internal.h"

struct chat_forms {
        const struct tok *tok;
        const struct chat_family *family;
        /* The family's strings with {bos} and {eos} written out; owned. */
        struct chat_text {
                char *before, *after;
        } message[3];
        char *reply;
        char *end;
        /* In message[CHAT_ASSISTANT].after, from @end on; all of it if it doesn't contain @end. */
        const char *from_end;
        bool has_end;
        bool trim;
        bool closed_starts; /* messages end with a special token */
};

static int append_token_text(struct buf *b, const struct tok *t, int32_t token) {
        size_t n;
        const char *text = tok_text(t, token, &n);

        return n > 0 ? buf_append(b, text, n) : 0;
}

/* @s with {bos} and {eos} written out. */
static int expand(const struct tok *t, const char *s, char **ret) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        char *text;
        int r = 0;

        while (r >= 0 && *s) {
                if (strncmp(s, "{bos}", 5) == 0)
                        r = append_token_text(&b, t, tok_bos(t));
                else if (strncmp(s, "{eos}", 5) == 0)
                        r = append_token_text(&b, t, tok_eos(t));
                else {
                        r = buf_append(&b, s++, 1);
                        continue;
                }
                s += 5;
        }
        if (r < 0)
                return r;
        text = buf_take(&b, NULL);
        if (!text)
                return -ERR_NOMEM;
        *ret = text;
        return 0;
}

static int write_out(struct chat_forms *f) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(f->message); i++) {
                r = expand(f->tok, f->family->message[i].before, &f->message[i].before);
                if (r >= 0)
                        r = expand(f->tok, f->family->message[i].after, &f->message[i].after);
        }
        if (r >= 0)
                r = expand(f->tok, f->family->reply, &f->reply);
        if (r >= 0)
                r = expand(f->tok, f->family->end, &f->end);
        return r;
}

/* Whether the last token of the family's own string @s is special. */
static int ends_special(const struct chat_forms *f, const char *s, bool *ret, struct err *e) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct tok_fragment fragment = {s, strlen(s), true};
        int r;

        r = tok_encode(f->tok, &fragment, 1, false, true, 0, &ids, e);
        if (r < 0)
                return r;
        *ret = ids.n > 0 && tok_is_special(f->tok, ids.ids[ids.n - 1]);
        return 0;
}

int chat_forms_new(struct chat_forms **ret, const struct tok *t, const struct chat_family *family,
        bool trim, struct err *e) {
        _cleanup_(chat_forms_freep) struct chat_forms *f = calloc(1, sizeof(*f));
        const char *assistant;
        int r;

        if (!f)
                return err_set(e, ERR_NOMEM, "out of memory for a chat format");
        f->tok = t;
        f->family = family;
        f->trim = trim;
        r = write_out(f);
        if (r < 0)
                return err_set(e, -r, "out of memory for a chat format");
        assistant = f->message[CHAT_ASSISTANT].after;
        f->from_end = strstr(assistant, f->end);
        f->has_end = f->from_end;
        if (!f->has_end)
                f->from_end = assistant;
        r = ends_special(f, assistant, &f->closed_starts, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(f);
        return 0;
}

struct chat_forms *chat_forms_free(struct chat_forms *f) {
        if (!f)
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(f->message); i++) {
                free(f->message[i].before);
                free(f->message[i].after);
        }
        free(f->reply);
        free(f->end);
        free(f);
        return NULL;
}

int chat_forms_strings(const struct chat_forms *f, struct buf *out) {
        int r = chat_literal_append(out, f->reply);

        if (r >= 0)
                r = chat_literal_append(out, f->end);
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(f->message); i++) {
                r = chat_literal_append(out, f->message[i].before);
                if (r >= 0)
                        r = chat_literal_append(out, f->message[i].after);
        }
        return r;
}

bool chat_forms_opens_system(const struct chat_forms *f) {
        return f->family->system == CHAT_SYSTEM_IN_USER;
}

int32_t chat_forms_end_token(const struct chat_forms *f) {
        return tok_find(f->tok, f->end, strlen(f->end));
}

/* What one call appends. */
struct parts {
        struct chat_join join;
        size_t n;
        struct tok_fragment fragments[4];
};

static void parts_add(struct parts *p, const char *text, size_t n, bool parse_special) {
        if (n > 0)
                p->fragments[p->n++] = (struct tok_fragment){text, n, parse_special};
}

/* Close what @state left open. */
static int parts_close(
        struct parts *p, const struct chat_forms *f, enum chat_state state, struct err *e) {
        const char *after;

        switch (state) {
        case CHAT_EMPTY:
                p->join.bos = p->join.starts = true;
                return 0;
        case CHAT_OPEN_REPLY:
                after = f->message[CHAT_ASSISTANT].after;
                parts_add(p, after, strlen(after), true);
                return 0;
        case CHAT_ENDED_REPLY:
                p->join.starts = true;
                p->join.skip = tok_find(f->tok, f->end, strlen(f->end));
                after = f->from_end;
                if (p->join.skip < 0 && f->has_end) /* the reply ended with some other token */
                        after += strlen(f->end);
                parts_add(p, after, strlen(after), true);
                return 0;
        case CHAT_CLOSED:
                p->join.starts = f->closed_starts;
                return 0;
        case CHAT_OPEN_SYSTEM:
                return 0;
        }
        return err_set(e, ERR_INVALID, "unknown chat state %d", (int)state);
}

/* The text before the message, without a bos if the conversation's first token is one already. */
static const char *text_before(
        const struct chat_forms *f, enum chat_state state, enum chat_role role, bool bos) {
        const char *before = f->message[role].before, *text;
        size_t n;

        if (state == CHAT_OPEN_SYSTEM && role == CHAT_USER)
                return ""; /* the block is open already */
        text = tok_text(f->tok, tok_bos(f->tok), &n);
        if (bos && tok_add_bos(f->tok) && n > 0 && strncmp(before, text, n) == 0)
                before += n;
        return before;
}

static int append_templated(const struct chat_forms *f, enum chat_state state,
        const struct chat_message *m, char *joined, size_t max, struct tok_ids *out,
        struct err *e) {
        struct parts p = {.join.skip = -1};
        const char *before, *after = f->message[m->role].after, *text = m->text;
        size_t n_before, n = m->size;
        int r = parts_close(&p, f, state, e);

        if (r < 0)
                return r;
        if (state == CHAT_OPEN_SYSTEM && m->role != CHAT_USER)
                parts_add(
                        &p, f->message[CHAT_USER].after, strlen(f->message[CHAT_USER].after), true);
        if (f->trim)
                utf8_trim(&text, &n);
        before = text_before(f, state, m->role, p.join.bos);
        n_before = strlen(before);
        if (n_before > 0 && before[n_before - 1] == ' ') {
                joined[0] = ' ';
                if (n > 0)
                        memcpy(joined + 1, text, n);
                text = joined;
                n++;
                n_before--;
        }
        parts_add(&p, before, n_before, true);
        parts_add(&p, text, n, false);
        parts_add(&p, after, strlen(after), true);
        return chat_encode(f->tok, p.fragments, p.n, &p.join, max, out, e);
}

int chat_forms_append(const struct chat_forms *f, const struct chat_tail *tail,
        const struct chat_message *m, size_t max, struct tok_ids *out, struct err *e) {
        _cleanup_(freep) char *joined = NULL;
        enum chat_state state = tail->state;
        enum chat_system system = f->family->system;
        int r;

        if (m->role == CHAT_SYSTEM && state != CHAT_EMPTY && system != CHAT_SYSTEM_ANYWHERE)
                return err_set(
                        e, ERR_STATE, "a system message must be the first of a conversation");
        if (state == CHAT_OPEN_SYSTEM && system != CHAT_SYSTEM_IN_USER)
                state = CHAT_CLOSED;
        /* Room for the message behind a blank that is part of its first word. */
        r = out->charge ? charge_take(out->charge, m->size + 1, "a message", e) : 0;
        out->refused = r < 0;
        if (r < 0)
                return r;
        joined = malloc(m->size + 1);
        if (!joined)
                r = err_set(e, ERR_NOMEM, "out of memory for a message");
        else
                r = append_templated(f, state, m, joined, max, out, e);
        if (out->charge)
                charge_give(out->charge, m->size + 1);
        return r;
}

int chat_forms_reply(const struct chat_forms *f, size_t max, struct tok_ids *out, struct err *e) {
        struct parts p = {.join = {.skip = -1, .starts = f->closed_starts}};

        parts_add(&p, f->reply, strlen(f->reply), true);
        return chat_encode(f->tok, p.fragments, p.n, &p.join, max, out, e);
}
