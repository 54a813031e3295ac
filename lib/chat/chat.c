/* SPDX-License-Identifier: MIT */
/*
 * The code behind the families (families.c): chooses a family, expands its strings for this
 * vocabulary, and appends tokens.
 *
 * 1. Only the family's own strings are parsed for special tokens; message text never is.
 * 2. The appended tokens depend only on the arguments, so a conversation's tokens follow from its
 *    messages and replies.
 * 3. A reply that ended by itself already has its end token in the history: the rest of the
 *    template's closing text is tokenised as text that follows that token.
 */
#include "chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "chat/chat-internal.h"

static const char *const role_names[CHAT_N_ROLES] = {
        [CHAT_SYSTEM] = "system",
        [CHAT_USER] = "user",
        [CHAT_ASSISTANT] = "assistant",
        [CHAT_RAW] = "raw",
};

struct chat {
        const struct tok *tok;
        const struct chat_family *family; /* NULL: none */
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
        const char *differences[CHAT_MAX_DIFFERENCES + 1];
};

const char *chat_role_name(enum chat_role r) {
        return (unsigned)r < CHAT_N_ROLES ? role_names[r] : "unknown";
}

bool chat_has(const char *text, size_t size, const char *mark) {
        return memmem(text, size, mark, strlen(mark)) != NULL;
}

static const struct chat_family *chat_find_family(const char *text, size_t size) {
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

/* Find the family. Templates write a newline as itself or as \n: both count as a newline. */
static int chat_recognise(struct chat *c, const char *text, size_t size, struct err *e) {
        _cleanup_(freep) char *copy = NULL;
        size_t n = 0;

        if (!text || size == 0)
                return 0;
        copy = malloc(size);
        if (!copy)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        for (size_t i = 0; i < size; i++)
                if (text[i] == '\\' && i + 1 < size && text[i + 1] == 'n') {
                        copy[n++] = '\n';
                        i++;
                } else
                        copy[n++] = text[i];
        c->family = chat_find_family(copy, n);
        c->trim = c->family && c->family->trim_mark && chat_has(copy, n, c->family->trim_mark);
        chat_differences(c->differences, c->family, c->trim, copy, n);
        return 0;
}

static int chat_append_text(struct buf *b, const struct tok *t, int32_t token) {
        size_t n;
        const char *text = tok_text(t, token, &n);

        return n > 0 ? buf_append(b, text, n) : 0;
}

/* @s with {bos} and {eos} written out. */
static int chat_expand(const struct tok *t, const char *s, char **ret) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        char *text;
        int r = 0;

        while (r >= 0 && *s) {
                if (strncmp(s, "{bos}", 5) == 0)
                        r = chat_append_text(&b, t, tok_bos(t));
                else if (strncmp(s, "{eos}", 5) == 0)
                        r = chat_append_text(&b, t, tok_eos(t));
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

static int chat_write_out(struct chat *c) {
        const struct chat_family *f = c->family;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(c->message); i++) {
                r = chat_expand(c->tok, f->message[i].before, &c->message[i].before);
                if (r >= 0)
                        r = chat_expand(c->tok, f->message[i].after, &c->message[i].after);
        }
        if (r >= 0)
                r = chat_expand(c->tok, f->reply, &c->reply);
        if (r >= 0)
                r = chat_expand(c->tok, f->end, &c->end);
        return r;
}

/* Whether the last token of the family's own string @s is special. */
static int chat_ends_special(const struct chat *c, const char *s, bool *ret, struct err *e) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct tok_fragment f = {s, strlen(s), true};
        int r;

        r = tok_encode(c->tok, &f, 1, false, true, 0, &ids, e);
        if (r < 0)
                return r;
        *ret = ids.n > 0 && tok_is_special(c->tok, ids.ids[ids.n - 1]);
        return 0;
}

/* Tokens that occur in the strings of the family or the template must never come from a message. */
static int chat_protect(const struct chat *c, struct tok *t, const char *template_text,
        size_t template_size, struct err *e) {
        _cleanup_(buf_deinit) struct buf strings = BUF_NULL;
        int r = chat_literals(&strings, template_text, template_size);

        for (size_t i = 0; r >= 0 && c->family && i < ARRAY_SIZE(c->message); i++) {
                r = chat_literal_append(&strings, c->message[i].before);
                if (r >= 0)
                        r = chat_literal_append(&strings, c->message[i].after);
        }
        if (r >= 0 && c->family)
                r = chat_literal_append(&strings, c->reply);
        if (r >= 0 && c->family)
                r = chat_literal_append(&strings, c->end);
        if (r < 0)
                return err_set(e, -r, "out of memory for the strings of a chat format");
        return strings.size > 0 ? tok_protect(t, (const char *)strings.data, strings.size, e) : 0;
}

int chat_new(struct chat **ret, struct tok *t, const char *template_text, size_t template_size,
        struct err *e) {
        _cleanup_(chat_freep) struct chat *c = calloc(1, sizeof(*c));
        const char *assistant;
        int r;

        if (!c)
                return err_set(e, ERR_NOMEM, "out of memory for a chat format");
        c->tok = t;
        r = chat_recognise(c, template_text, template_size, e);
        if (r < 0)
                return r;
        if (c->family) {
                r = chat_write_out(c);
                if (r < 0)
                        return err_set(e, -r, "out of memory for a chat format");
                assistant = c->message[CHAT_ASSISTANT].after;
                c->from_end = strstr(assistant, c->end);
                c->has_end = c->from_end;
                if (!c->has_end)
                        c->from_end = assistant;
                r = chat_ends_special(c, assistant, &c->closed_starts, e);
                if (r < 0)
                        return r;
        }
        r = chat_protect(c, t, template_text, template_size, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

struct chat *chat_free(struct chat *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(c->message); i++) {
                free(c->message[i].before);
                free(c->message[i].after);
        }
        free(c->reply);
        free(c->end);
        free(c);
        return NULL;
}

const char *chat_family(const struct chat *c) {
        return c->family ? c->family->name : "none";
}

const char *chat_difference(const struct chat *c, size_t i) {
        return i < ARRAY_SIZE(c->differences) ? c->differences[i] : NULL;
}

enum chat_state chat_state_after(const struct chat *c, enum chat_role role) {
        if (role == CHAT_SYSTEM && c->family && c->family->system == CHAT_SYSTEM_IN_USER)
                return CHAT_OPEN_SYSTEM;
        return CHAT_CLOSED;
}

/*
 * What one call appends: bos, then fragments. Their first token is omitted if it is the end token
 * that the history has already.
 */
struct chat_parts {
        bool bos, starts;
        int32_t skip; /* a token, or -1 */
        size_t n;
        struct tok_fragment fragments[4];
};

static void parts_add(struct chat_parts *p, const char *text, size_t n, bool parse_special) {
        if (n > 0)
                p->fragments[p->n++] = (struct tok_fragment){text, n, parse_special};
}

/* Tokenise directly into @out, so that a long message is not held twice. */
static int parts_encode(const struct chat *c, const struct chat_parts *p, size_t max,
        struct tok_ids *out, struct err *e) {
        size_t n_before = out->n, n;
        int r = 0;

        if (p->bos) {
                const int32_t bos = tok_bos(c->tok);

                r = tok_ids_append(out, &bos, 1, e);
        }
        /* One more than allowed, for what is left out. */
        if (r == 0)
                r = tok_encode(c->tok, p->fragments, p->n, false, p->starts, max > 0 ? max + 1 : 0,
                        out, e);
        n = out->n - n_before;
        if (r == 0 && p->skip >= 0 && n > 0 && out->ids[n_before] == p->skip) {
                n--;
                memmove(out->ids + n_before, out->ids + n_before + 1, n * sizeof(*out->ids));
                out->n--;
        }
        if (r == 0 && max > 0 && n > max)
                r = err_set(e, ERR_LIMIT, "the message has more tokens than the limit allows");
        if (r < 0)
                out->n = n_before;
        return r;
}

/* Close what @state left open. */
static int parts_close(
        struct chat_parts *p, const struct chat *c, enum chat_state state, struct err *e) {
        const char *after;

        switch (state) {
        case CHAT_EMPTY:
                p->bos = tok_add_bos(c->tok);
                p->starts = true;
                return 0;
        case CHAT_OPEN_REPLY:
                after = c->message[CHAT_ASSISTANT].after;
                parts_add(p, after, strlen(after), true);
                return 0;
        case CHAT_ENDED_REPLY:
                p->starts = true;
                p->skip = tok_find(c->tok, c->end, strlen(c->end));
                after = c->from_end;
                if (p->skip < 0 && c->has_end) /* the reply ended with some other token */
                        after += strlen(c->end);
                parts_add(p, after, strlen(after), true);
                return 0;
        case CHAT_CLOSED:
                p->starts = c->closed_starts;
                return 0;
        case CHAT_OPEN_SYSTEM:
                return 0;
        }
        return err_set(e, ERR_INVALID, "unknown chat state %d", (int)state);
}

/* The text before the message, without a bos if the conversation's first token is one already. */
static const char *chat_before(
        const struct chat *c, enum chat_state state, enum chat_role role, bool bos) {
        const char *before = c->message[role].before, *text;
        size_t n;

        if (state == CHAT_OPEN_SYSTEM && role == CHAT_USER)
                return ""; /* the block is open already */
        text = tok_text(c->tok, tok_bos(c->tok), &n);
        if (bos && n > 0 && strncmp(before, text, n) == 0)
                before += n;
        return before;
}

static int chat_append_templated(const struct chat *c, enum chat_state state, enum chat_role role,
        const char *text, size_t n, size_t max, struct tok_ids *out, struct err *e) {
        _cleanup_(freep) char *joined = NULL;
        struct chat_parts p = {.skip = -1};
        const char *before, *after = c->message[role].after;
        size_t n_before;
        int r;

        if (state == CHAT_OPEN_SYSTEM && c->family->system != CHAT_SYSTEM_IN_USER)
                state = CHAT_CLOSED;
        r = parts_close(&p, c, state, e);
        if (r < 0)
                return r;
        if (state == CHAT_OPEN_SYSTEM && role != CHAT_USER)
                parts_add(
                        &p, c->message[CHAT_USER].after, strlen(c->message[CHAT_USER].after), true);
        if (c->trim)
                utf8_trim(&text, &n);
        before = chat_before(c, state, role, p.bos);
        n_before = strlen(before);
        if (n_before > 0 && before[n_before - 1] == ' ') {
                joined = malloc(n + 1);
                if (!joined)
                        return err_set(e, ERR_NOMEM, "out of memory for a message");
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
        return parts_encode(c, &p, max, out, e);
}

/* Raw text: no closing, no template. */
static int chat_append_raw(const struct chat *c, enum chat_state state, const char *text, size_t n,
        size_t max, struct tok_ids *out, struct err *e) {
        struct chat_parts p = {
                .bos = state == CHAT_EMPTY && tok_add_bos(c->tok),
                .starts = state == CHAT_EMPTY || state == CHAT_ENDED_REPLY,
                .skip = -1,
        };

        parts_add(&p, text, n, false);
        return parts_encode(c, &p, max, out, e);
}

static int chat_no_family(struct err *e) {
        return err_set(e, ERR_UNSUPPORTED,
                "the model has no chat template that is known: only raw text is possible");
}

int chat_append_message(const struct chat *c, enum chat_state state, enum chat_role role,
        const char *text, size_t size, size_t max, struct tok_ids *out, struct err *e) {
        if ((unsigned)role >= CHAT_N_ROLES)
                return err_set(e, ERR_INVALID, "unknown role %d", (int)role);
        if (role == CHAT_RAW)
                return chat_append_raw(c, state, text, size, max, out, e);
        if (!c->family)
                return chat_no_family(e);
        if (role == CHAT_SYSTEM && state != CHAT_EMPTY && c->family->system != CHAT_SYSTEM_ANYWHERE)
                return err_set(
                        e, ERR_STATE, "a system message must be the first of a conversation");
        return chat_append_templated(c, state, role, text, size, max, out, e);
}

int chat_append_reply_start(const struct chat *c, size_t max, struct tok_ids *out, struct err *e) {
        struct chat_parts p = {.skip = -1, .starts = c->closed_starts};

        if (!c->family)
                return chat_no_family(e);
        parts_add(&p, c->reply, strlen(c->reply), true);
        return parts_encode(c, &p, max, out, e);
}
