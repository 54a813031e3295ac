/* SPDX-License-Identifier: MIT */
/*
 * How a template writes messages, learned once from renderings of short conversations: stand-ins for
 * what precedes, and a probe for the message.
 *
 * 1. A text is found in a rendering only if it is there once. The texts of stand-ins and probe are
 *    plain words, so a template has no reason to change them.
 * 2. A message's closing is what follows its text in a rendering where it is the last one, provided
 *    that the renderings of longer conversations begin so as well. A template that puts more behind
 *    the last message (an end token, an invitation that nobody asked for) is irregular; then the
 *    closing is what the renderings have in common, up to the first end-of-generation token in it
 *    and the white space behind that.
 * 3. A template is usable if it writes a user's message at the beginning and behind a reply, and
 *    invites to reply behind it. All else (system messages, messages that do not alternate) it may
 *    refuse.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "chat/chat-internal.h"

enum { MAX_MESSAGES = CHAT_MAX_STAND_INS + 2 };

static const struct chat_message probes[CHAT_N_SPOKEN] = {
        [CHAT_SYSTEM] = {.role = CHAT_SYSTEM, .text = CHAT_PROBE, .size = sizeof(CHAT_PROBE) - 1},
        [CHAT_USER] = {.role = CHAT_USER, .text = CHAT_PROBE, .size = sizeof(CHAT_PROBE) - 1},
        [CHAT_ASSISTANT] = {.role = CHAT_ASSISTANT,
                .text = CHAT_PROBE,
                .size = sizeof(CHAT_PROBE) - 1},
};

/* One rendering, and where the text of one of its messages is. */
struct sample {
        struct jinja_out out;
        size_t at, end;            /* the message's text */
        size_t before;             /* the end of the text of the message before; 0: there is none */
        size_t before_at;          /* its beginning */
        struct tok_place *special; /* owned */
        size_t n_special;
};
#define SAMPLE_NULL ((struct sample){0})

static void sample_deinit(struct sample *s) {
        jinja_out_deinit(&s->out);
        free(s->special);
        *s = SAMPLE_NULL;
}

static int find_special(const struct chat_template *t, struct sample *s, struct err *e) {
        _cleanup_(freep) struct tok_range *trusted = calloc(s->out.n_spans + 1, sizeof(*trusted));
        size_t n;

        if (!trusted)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        n = chat_trusted(&s->out, 0, s->out.size, trusted);
        return tok_find_special(
                t->tok, s->out.text, s->out.size, trusted, n, &s->special, &s->n_special, e);
}

/* Whether the texts of messages[i] and of its neighbours are to be found, in order. */
static bool locate(const struct chat_message *messages, size_t n, size_t i, struct sample *s) {
        size_t next;

        if (!chat_find_once(&s->out, &messages[i], &s->at))
                return false;
        s->end = s->at + messages[i].size;
        if (i > 0) {
                if (!chat_find_once(&s->out, &messages[i - 1], &s->before_at))
                        return false;
                s->before = s->before_at + messages[i - 1].size;
                if (s->before > s->at)
                        return false;
        }
        return i + 1 == n || (chat_find_once(&s->out, &messages[i + 1], &next) && next >= s->end);
}

/* Render the messages and find messages[i]. 0; or 1, with the reason in @e: the template refuses
 * them, or its text is not to be found in its place. */
static int sample_take(const struct chat_template *t, const struct chat_message *messages, size_t n,
        size_t i, bool invite, struct sample *ret, struct err *e) {
        const struct chat_rendering in = {.messages = messages, .n = n, .invite = invite};
        _cleanup_(sample_deinit) struct sample s = SAMPLE_NULL;
        int r = chat_render(t, &in, &s.out, e);

        if (r == -ERR_NOMEM)
                return r;
        if (r < 0)
                return 1;
        if (!locate(messages, n, i, &s)) {
                (void)err_set(e, ERR_INVALID,
                        "the template leaves out the text of a message (%s), or moves it",
                        chat_role_name(messages[i].role));
                return 1;
        }
        r = find_special(t, &s, e);
        if (r < 0)
                return r;
        *ret = s;
        s = SAMPLE_NULL;
        return 0;
}

/* The stand-ins of @after and then @last. */
static int sample_after(const struct chat_template *t, enum chat_after after,
        const struct chat_message *last, bool invite, struct sample *ret, struct err *e) {
        struct chat_message messages[MAX_MESSAGES];
        size_t n = chat_stand_ins_of(after, messages);

        if (last)
                messages[n++] = *last;
        return sample_take(t, messages, n, n - 1, invite, ret, e);
}

static char *copy(const char *text, size_t n) {
        char *c = malloc(n + 1);

        if (!c)
                return NULL;
        if (n > 0)
                memcpy(c, text, n);
        c[n] = '\0';
        return c;
}

static size_t common(const char *a, size_t n_a, const char *b, size_t n_b) {
        size_t n = 0;

        while (n < n_a && n < n_b && a[n] == b[n])
                n++;
        return n;
}

static bool is_space(char c) {
        return c == ' ' || (c >= '\t' && c <= '\r');
}

/* --- closings --- */

/* Of an irregular template: @n bytes behind the message's text are common. @from: the end of the
 * text in @s. @ret_ends: an end-of-generation token is the end. */
static size_t cut_common(const struct chat_template *t, const struct sample *s, size_t from,
        size_t n, bool *ret_ends) {
        const char *text = s->out.text + from;

        for (size_t i = 0; i < s->n_special; i++) {
                const struct tok_place *p = &s->special[i];
                size_t end = p->start + p->size;

                if (p->start < from || p->start >= from + n)
                        continue;
                if (end > from + n)
                        return p->start - from; /* not half of a token */
                if (!tok_is_eog(t->tok, p->token))
                        continue;
                end -= from;
                while (end < n && is_space(text[end]))
                        end++;
                *ret_ends = true;
                return end;
        }
        return n;
}

/* If the last token of @c is special: which, and where it begins. */
static int closing_end(const struct chat_template *t, const struct sample *s, size_t from,
        struct chat_closing *c, struct err *e) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct chat_join join = {.skip = -1};
        int r = chat_encode_rendering(t->tok, &s->out, from, from + c->size, &join, 0, &ids, e);

        if (r < 0)
                return r;
        c->last = -1;
        for (size_t i = s->n_special; ids.n > 0 && i-- > 0;) {
                const struct tok_place *p = &s->special[i];

                if (p->start < from || p->start + p->size > from + c->size)
                        continue;
                if (p->token == ids.ids[ids.n - 1]) {
                        c->last = p->token;
                        c->last_at = p->start - from;
                }
                break;
        }
        return 0;
}

/* @last: the message is the last one. @next: another follows (the message is the one before the
 * last), or NULL for those that the template refuses. */
static int learn_closing(struct chat_template *t, enum chat_role role, const struct sample *last,
        const struct sample *const *next, size_t n_next, struct err *e) {
        struct chat_closing *c = &t->closing[role];
        const char *text = last->out.text + last->end;
        size_t whole = last->out.size - last->end, n = whole;

        for (size_t i = 0; i < n_next; i++)
                if (next[i])
                        n = MIN(n, common(text, n, next[i]->out.text + next[i]->before,
                                           next[i]->at - next[i]->before));
        if (n < whole) {
                bool ends = false;

                n = cut_common(t, last, last->end, n, &ends);
                for (size_t i = 0; i < n_next; i++)
                        if (next[i])
                                n = MIN(n, cut_common(t, next[i], next[i]->before, n, &ends));
                c->guessed = !ends;
        }
        c->text = copy(text, n);
        if (!c->text)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        c->size = n;
        return closing_end(t, last, last->end, c, e);
}

/* The token that ends a reply. @last: the reply is the last message; @next: a user's follows. */
static void learn_end(
        struct chat_template *t, const struct sample *last, const struct sample *next) {
        t->end = -1;
        for (size_t i = 0; t->end < 0 && i < next->n_special; i++)
                if (next->special[i].start >= next->before && next->special[i].start < next->at &&
                        tok_is_eog(t->tok, next->special[i].token)) {
                        t->end = next->special[i].token;
                        t->end_at = next->special[i].start - next->before;
                }
        if (t->end >= 0 || !last)
                return;
        /* Some templates write another token there as soon as a message follows. */
        for (size_t i = 0; i < last->n_special; i++) {
                size_t at = last->special[i].start - last->end;

                if (last->special[i].start < last->end ||
                        !tok_is_eog(t->tok, last->special[i].token))
                        continue;
                for (size_t k = 0; k < next->n_special; k++)
                        if (next->special[k].start == next->before + at &&
                                chat_begins(next->out.text + next->before, next->at - next->before,
                                        last->out.text + last->end, at)) {
                                t->end = next->special[k].token;
                                t->end_at = at;
                                t->notes |= CHAT_NOTE_OTHER_END;
                        }
                return;
        }
}

/* --- pieces --- */

static enum chat_role role_before(enum chat_after after) {
        return after == CHAT_AFTER_SYSTEM ? CHAT_SYSTEM
               : after == CHAT_AFTER_USER ? CHAT_USER
                                          : CHAT_ASSISTANT;
}

/* The message of @role in @s, behind @after; -ERR_NOMEM. */
static int take_piece(struct chat_template *t, enum chat_after after, enum chat_role role,
        const struct sample *s, struct err *e) {
        struct chat_piece *p = &t->piece[after][role];
        const struct chat_closing *own = &t->closing[role];
        const char *text = s->out.text + s->end;
        size_t n = s->out.size - s->end;

        p->behind = s->before;
        p->text = s->at;
        if (after == CHAT_AFTER_OPEN_SYSTEM)
                p->fixed = p->text;
        else if (after != CHAT_AFTER_NOTHING) {
                const struct chat_closing *c = &t->closing[role_before(after)];

                if (!chat_begins(s->out.text + s->before, s->at - s->before, c->text, c->size))
                        return 0;
                p->fixed = s->before + c->size;
        }
        if (!chat_begins(text, n, own->text, own->size))
                return 0;
        p->drop_size = n - own->size;
        p->drop = copy(text + own->size, p->drop_size);
        if (!p->drop)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        p->hash = hash64(s->out.text, p->fixed, 0);
        p->works = true;
        return 0;
}

/* A message of the assistant that is given (a reply is sampled) is mostly followed by one of the user,
 * and some templates write it otherwise where it is the last. */
static int learn_followed(struct chat_template *t, enum chat_after after, struct err *e) {
        struct chat_message messages[MAX_MESSAGES];
        size_t n = chat_stand_ins_of(after, messages);
        _cleanup_(sample_deinit) struct sample s = SAMPLE_NULL;
        int r;

        messages[n] = probes[CHAT_ASSISTANT];
        messages[n + 1] = chat_stand_in_next;
        r = sample_take(t, messages, n + 2, n, false, &s, e);
        if (r == 0)
                r = take_piece(t, after, CHAT_ASSISTANT, &s, e);
        t->piece[after][CHAT_ASSISTANT].followed = t->piece[after][CHAT_ASSISTANT].works;
        return MIN(r, 0);
}

static int learn_piece(
        struct chat_template *t, enum chat_after after, enum chat_role role, struct err *e) {
        _cleanup_(sample_deinit) struct sample s = SAMPLE_NULL;
        int r = role == CHAT_ASSISTANT ? learn_followed(t, after, e) : 0;

        if (r < 0 || t->piece[after][role].works)
                return r;
        r = sample_after(t, after, &probes[role], false, &s, e);
        return r != 0 ? MIN(r, 0) : take_piece(t, after, role, &s, e);
}

/* All but those of system messages at the beginning. */
static int learn_pieces(struct chat_template *t, struct err *e) {
        int r = 0;

        for (int role = 0; r >= 0 && role < CHAT_N_SPOKEN; role++)
                for (int after = 0; r >= 0 && after < CHAT_AFTER_OPEN_SYSTEM; after++) {
                        bool system = role == CHAT_SYSTEM || after == CHAT_AFTER_SYSTEM;

                        if (t->closing[role].text && !(system && t->opens_system) &&
                                (after == CHAT_AFTER_NOTHING ||
                                        t->closing[role_before((enum chat_after)after)].text))
                                r = learn_piece(t, (enum chat_after)after, (enum chat_role)role, e);
                }
        return r;
}

/* --- system messages --- */

/* The system text is written into the user's message, by the template or by confab: the user's text
 * is the probe in @s. */
static int learn_open_system(struct chat_template *t, const struct sample *s, struct err *e) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct chat_join join = {.skip = -1};
        int r;

        t->opens_system = true;
        t->system_drop_size = s->out.size - s->at - probes[CHAT_USER].size;
        t->system_drop = copy(s->out.text + s->end, t->system_drop_size);
        if (!t->system_drop)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        r = take_piece(t, CHAT_AFTER_OPEN_SYSTEM, CHAT_USER, s, e);
        if (r == 0)
                r = chat_encode_rendering(t->tok, &s->out, 0, s->at, &join, 0, &ids, e);
        if (r < 0)
                return r;
        t->opened = -1;
        for (size_t i = s->n_special; i-- > 0;)
                if (s->special[i].start < s->at) {
                        if (ids.n > 0 && s->special[i].token == ids.ids[ids.n - 1]) {
                                t->opened = s->special[i].token;
                                t->opened_at = s->special[i].start;
                        }
                        break;
                }
        return 0;
}

/* Where the template refuses system messages: the system text in front of the user's. */
static int learn_joined_system(struct chat_template *t, struct err *e) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        _cleanup_(sample_deinit) struct sample s = SAMPLE_NULL;
        struct chat_message m;
        int r = chat_join_system(&b, &chat_stand_ins[CHAT_SYSTEM], &probes[CHAT_USER], &m);

        if (r < 0)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        r = sample_take(t, &m, 1, 0, false, &s, e);
        if (r != 0)
                return MIN(r, 0);
        s.at = s.end - probes[CHAT_USER].size; /* the second half */
        t->joins_system = true;
        t->notes |= CHAT_NOTE_SYSTEM_REFUSED;
        return learn_open_system(t, &s, e);
}

static int learn_system(struct chat_template *t, struct err *e) {
        _cleanup_(sample_deinit) struct sample alone = SAMPLE_NULL, s = SAMPLE_NULL;
        const struct sample *next = &s;
        int r = sample_after(t, CHAT_AFTER_SYSTEM, &probes[CHAT_USER], false, &s, e), r_alone;

        if (r < 0)
                return r;
        if (r > 0)
                return learn_joined_system(t, e);
        r_alone = sample_take(t, &chat_stand_ins[CHAT_SYSTEM], 1, 0, false, &alone, e);
        if (r_alone < 0)
                return r_alone;
        if (r_alone > 0 || !chat_begins(s.out.text, s.out.size, alone.out.text, alone.end))
                return learn_open_system(t, &s, e);
        r = learn_closing(t, CHAT_SYSTEM, &alone, &next, 1, e);
        if (r < 0)
                return r;
        if (t->closing[CHAT_SYSTEM].guessed) {
                /* A block that the message does not close by itself. */
                free(TAKE_PTR(t->closing[CHAT_SYSTEM].text));
                t->closing[CHAT_SYSTEM] = (struct chat_closing){.last = -1};
                return learn_open_system(t, &s, e);
        }
        return 0;
}

/* --- the invitation to reply --- */

static int learn_reply(struct chat_template *t, enum chat_after after, struct err *e) {
        const struct chat_closing *c = &t->closing[role_before(after)];
        _cleanup_(sample_deinit) struct sample s = SAMPLE_NULL;
        struct chat_join join = {.skip = -1};
        bool known;
        size_t from;
        int r;

        r = sample_after(t, after, NULL, true, &s, e);
        if (r < 0)
                return r;
        known = r == 0 && c->text &&
                chat_begins(s.out.text + s.end, s.out.size - s.end, c->text, c->size);
        if (!known && after == CHAT_AFTER_USER)
                return err_set(e, ERR_INVALID,
                        "the template's invitation to reply changes the message in front of it");
        /* Where it is refused or left out, it is as behind a user's message. */
        if (!known || s.end + c->size == s.out.size)
                return after == CHAT_AFTER_USER
                               ? 0
                               : tok_ids_append(&t->reply[after], t->reply[CHAT_AFTER_USER].ids,
                                         t->reply[CHAT_AFTER_USER].n, e);
        join.skip = c->last;
        from = s.end + (c->last >= 0 ? c->last_at : c->size);
        return chat_encode_rendering(
                t->tok, &s.out, from, s.out.size, &join, 0, &t->reply[after], e);
}

/* --- all of it --- */

static int protect(struct tok *tok, const struct sample *s, struct err *e) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < s->out.n_spans; i++)
                if (s->out.spans[i].trusted)
                        r = tok_protect(
                                tok, s->out.text + s->out.spans[i].offset, s->out.spans[i].size, e);
        return r;
}

/* Messages of users and assistants: what follows their texts. */
static int learn_closings(struct chat_template *t, struct tok *tok, struct err *e) {
        _cleanup_(sample_deinit) struct sample first = SAMPLE_NULL, trio = SAMPLE_NULL,
                                               reply = SAMPLE_NULL, twice = SAMPLE_NULL,
                                               invited = SAMPLE_NULL;
        const struct sample *next[2] = {NULL, NULL}, *user = &trio;
        int r, r_reply, r_twice;

        r = sample_after(t, CHAT_AFTER_NOTHING, &probes[CHAT_USER], false, &first, e);
        if (r == 0)
                r = sample_after(t, CHAT_AFTER_REPLY, &probes[CHAT_USER], false, &trio, e);
        if (r == 0)
                r = sample_take(t, &chat_stand_ins[CHAT_USER], 1, 0, true, &invited, e);
        if (r != 0)
                return r > 0 ? -ERR_INVALID : r;
        r_reply = sample_after(t, CHAT_AFTER_USER, &probes[CHAT_ASSISTANT], false, &reply, e);
        r_twice = sample_after(t, CHAT_AFTER_USER, &probes[CHAT_USER], false, &twice, e);
        if (r_reply < 0 || r_twice < 0)
                return MIN(r_reply, r_twice);
        next[0] = r_reply == 0 ? &reply : NULL;
        next[1] = r_twice == 0 ? &twice : NULL;
        r = protect(tok, &trio, e);
        if (r >= 0)
                r = protect(tok, &invited, e);
        if (r >= 0)
                r = learn_closing(t, CHAT_USER, &first, next, 2, e);
        if (r >= 0 && r_reply == 0)
                r = learn_closing(t, CHAT_ASSISTANT, &reply, &user, 1, e);
        if (r >= 0)
                learn_end(t, r_reply == 0 ? &reply : NULL, &trio);
        t->begins_with_bos =
                *t->bos && chat_begins(first.out.text, first.out.size, t->bos, strlen(t->bos));
        return r;
}

int chat_learn(struct chat_template *t, struct tok *tok, struct err *e) {
        static const enum chat_after repliable[] = {
                CHAT_AFTER_USER, CHAT_AFTER_REPLY, CHAT_AFTER_SYSTEM};
        int r;

        for (int role = 0; role < CHAT_N_SPOKEN; role++)
                t->closing[role].last = -1;
        t->opened = -1;
        r = learn_closings(t, tok, e);
        if (r >= 0)
                r = learn_system(t, e);
        if (r >= 0)
                r = learn_pieces(t, e);
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(repliable); i++)
                r = learn_reply(t, repliable[i], e);
        if (r >= 0 && (!t->piece[CHAT_AFTER_NOTHING][CHAT_USER].works ||
                              !t->piece[CHAT_AFTER_REPLY][CHAT_USER].works))
                r = err_set(e, ERR_INVALID,
                        "the template writes a user's message differently each time");
        return r < 0 ? r : chat_learn_notes(t, e);
}
