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
static size_t cut_common(const struct chat_template *t, const struct chat_sample *s, size_t from,
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
static int closing_end(const struct chat_template *t, const struct chat_sample *s, size_t from,
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
static int learn_closing(struct chat_template *t, enum chat_kind kind,
        const struct chat_sample *last, const struct chat_sample *const *next, size_t n_next,
        struct err *e) {
        struct chat_closing *c = &t->closing[kind];
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
        c->text = text_dup(text, n);
        if (!c->text)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        c->size = n;
        return closing_end(t, last, last->end, c, e);
}

/* The token that ends a reply. @last: the reply is the last message; @next: a user's follows. */
static void learn_end(
        struct chat_template *t, const struct chat_sample *last, const struct chat_sample *next) {
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

/* A message of the assistant that is given (a reply is sampled) is mostly followed by one of the user,
 * and some templates write it otherwise where it is the last. */
static int learn_followed(struct chat_template *t, enum chat_after after, struct err *e) {
        struct chat_message messages[CHAT_MAX_MESSAGES];
        size_t n = chat_stand_ins_of(after, messages);
        const struct chat_rendering in = {.messages = messages, .n = n + 2};
        struct chat_piece *p = &t->piece[after][CHAT_KIND_ASSISTANT];
        _cleanup_(chat_sample_deinit) struct chat_sample s = CHAT_SAMPLE_NULL;
        int r;

        messages[n] = chat_probes[CHAT_KIND_ASSISTANT];
        messages[n + 1] = chat_stand_in_next;
        r = chat_sample_take(t, &in, n, &s, e);
        if (r == 0)
                r = chat_take_piece(t, after, CHAT_KIND_ASSISTANT, &s, e);
        p->followed = p->works;
        return MIN(r, 0);
}

static int learn_piece(
        struct chat_template *t, enum chat_after after, enum chat_kind kind, struct err *e) {
        _cleanup_(chat_sample_deinit) struct chat_sample s = CHAT_SAMPLE_NULL;
        int r = kind == CHAT_KIND_ASSISTANT ? learn_followed(t, after, e) : 0;

        if (r < 0 || t->piece[after][kind].works)
                return r;
        r = chat_sample_after(t, after, &chat_probes[kind], false, &s, e);
        return r != 0 ? MIN(r, 0) : chat_take_piece(t, after, kind, &s, e);
}

/* Whether a message of @kind can be cut out of a rendering behind @after. Results of a reply's calls
 * can't (calls.c), only further ones behind some. */
static bool can_be_cut(const struct chat_template *t, enum chat_after after, enum chat_kind kind) {
        bool system = kind == CHAT_KIND_SYSTEM || after == CHAT_AFTER_SYSTEM;

        if (kind == CHAT_KIND_CALLS || (kind == CHAT_KIND_RESULTS && after != CHAT_AFTER_RESULTS))
                return false;
        return t->closing[kind].text && !(system && t->open[0].opens) &&
               (after == CHAT_AFTER_NOTHING || t->closing[chat_kind_before(after)].text);
}

/* All but those of system messages at the beginning. */
static int learn_pieces(struct chat_template *t, struct err *e) {
        int r = 0;

        for (int kind = 0; r >= 0 && kind < CHAT_N_KINDS; kind++)
                for (int after = 0; r >= 0 && after < CHAT_AFTER_OPEN_SYSTEM; after++)
                        if (can_be_cut(t, (enum chat_after)after, (enum chat_kind)kind))
                                r = learn_piece(t, (enum chat_after)after, (enum chat_kind)kind, e);
        return r;
}

/* --- system messages --- */

/* Where the template refuses system messages: the system text in front of the user's. */
static int learn_joined_system(struct chat_template *t, struct err *e) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        _cleanup_(chat_sample_deinit) struct chat_sample s = CHAT_SAMPLE_NULL;
        struct chat_message m;
        const struct chat_rendering in = {.messages = &m, .n = 1};
        int r = chat_join_system(
                &b, &chat_stand_ins[CHAT_KIND_SYSTEM], &chat_probes[CHAT_KIND_USER], &m);

        if (r < 0)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        r = chat_sample_take(t, &in, 0, &s, e);
        if (r != 0)
                return MIN(r, 0);
        s.at = s.end - chat_probes[CHAT_USER].size; /* the second half */
        t->joins_system = true;
        t->notes |= CHAT_NOTE_SYSTEM_REFUSED;
        return chat_learn_open(t, false, &s, e);
}

static int learn_system(struct chat_template *t, struct err *e) {
        _cleanup_(chat_sample_deinit) struct chat_sample alone = CHAT_SAMPLE_NULL,
                                                         s = CHAT_SAMPLE_NULL;
        const struct chat_rendering in = {.messages = &chat_stand_ins[CHAT_KIND_SYSTEM], .n = 1};
        const struct chat_sample *next = &s;
        int r = chat_sample_after(t, CHAT_AFTER_SYSTEM, &chat_probes[CHAT_USER], false, &s, e),
            r_alone;

        if (r < 0)
                return r;
        if (r > 0)
                return learn_joined_system(t, e);
        r_alone = chat_sample_take(t, &in, 0, &alone, e);
        if (r_alone < 0)
                return r_alone;
        if (r_alone > 0 || !chat_begins(s.out.text, s.out.size, alone.out.text, alone.end))
                return chat_learn_open(t, false, &s, e);
        r = learn_closing(t, CHAT_KIND_SYSTEM, &alone, &next, 1, e);
        if (r < 0)
                return r;
        if (t->closing[CHAT_SYSTEM].guessed) {
                /* A block that the message does not close by itself. */
                free(TAKE_PTR(t->closing[CHAT_SYSTEM].text));
                t->closing[CHAT_SYSTEM] = (struct chat_closing){.last = -1};
                return chat_learn_open(t, false, &s, e);
        }
        return 0;
}

/* --- the invitation to reply --- */

static int learn_reply(struct chat_template *t, enum chat_after after, struct err *e) {
        const struct chat_closing *c = &t->closing[chat_kind_before(after)];
        _cleanup_(chat_sample_deinit) struct chat_sample s = CHAT_SAMPLE_NULL;
        struct chat_join join = {.skip = -1};
        bool known;
        size_t from;
        int r;

        r = chat_sample_after(t, after, NULL, true, &s, e);
        if (r < 0)
                return r;
        known = r == 0 && c->text &&
                chat_begins(s.out.text + s.end, s.out.size - s.end, c->text, c->size);
        if (!known && after == CHAT_AFTER_USER)
                return err_set(e, ERR_INVALID,
                        "the template's invitation to reply changes the message in front of it");
        if (known && after == CHAT_AFTER_RESULTS && s.end + c->size == s.out.size)
                return 0; /* the reply that asked goes on */
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

static int protect(struct tok *tok, const struct chat_sample *s, struct err *e) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < s->out.n_spans; i++)
                if (s->out.spans[i].trusted)
                        r = tok_protect(
                                tok, s->out.text + s->out.spans[i].offset, s->out.spans[i].size, e);
        return r;
}

/* Messages of users and assistants: what follows their texts. */
static int learn_closings(struct chat_template *t, struct tok *tok, struct err *e) {
        _cleanup_(chat_sample_deinit) struct chat_sample first = CHAT_SAMPLE_NULL,
                                                         trio = CHAT_SAMPLE_NULL,
                                                         reply = CHAT_SAMPLE_NULL,
                                                         twice = CHAT_SAMPLE_NULL,
                                                         invited = CHAT_SAMPLE_NULL;
        const struct chat_sample *next[2] = {NULL, NULL}, *user = &trio;
        const struct chat_rendering invite = {
                .messages = &chat_stand_ins[CHAT_KIND_USER], .n = 1, .invite = true};
        int r, r_reply, r_twice;

        r = chat_sample_after(t, CHAT_AFTER_NOTHING, &chat_probes[CHAT_USER], false, &first, e);
        if (r == 0)
                r = chat_sample_after(
                        t, CHAT_AFTER_REPLY, &chat_probes[CHAT_USER], false, &trio, e);
        if (r == 0)
                r = chat_sample_take(t, &invite, 0, &invited, e);
        if (r != 0)
                return r > 0 ? -ERR_INVALID : r;
        r_reply = chat_sample_after(
                t, CHAT_AFTER_USER, &chat_probes[CHAT_ASSISTANT], false, &reply, e);
        r_twice = chat_sample_after(t, CHAT_AFTER_USER, &chat_probes[CHAT_USER], false, &twice, e);
        if (r_reply < 0 || r_twice < 0)
                return MIN(r_reply, r_twice);
        next[0] = r_reply == 0 ? &reply : NULL;
        next[1] = r_twice == 0 ? &twice : NULL;
        r = protect(tok, &trio, e);
        if (r >= 0)
                r = protect(tok, &invited, e);
        if (r >= 0)
                r = learn_closing(t, CHAT_KIND_USER, &first, next, 2, e);
        if (r >= 0 && r_reply == 0)
                r = learn_closing(t, CHAT_KIND_ASSISTANT, &reply, &user, 1, e);
        if (r >= 0)
                learn_end(t, r_reply == 0 ? &reply : NULL, &trio);
        t->begins_with_bos =
                *t->bos && chat_begins(first.out.text, first.out.size, t->bos, strlen(t->bos));
        return r;
}

/* What follows results of calls. */
static int learn_results(struct chat_template *t, struct err *e) {
        _cleanup_(chat_sample_deinit) struct chat_sample last = CHAT_SAMPLE_NULL,
                                                         reply = CHAT_SAMPLE_NULL,
                                                         user = CHAT_SAMPLE_NULL;
        const struct chat_sample *next[2] = {NULL, NULL};
        int r = chat_learn_result_role(t, e), r_reply, r_user;

        if (r < 0 || !t->result_role)
                return r;
        r = chat_sample_after(t, CHAT_AFTER_RESULTS, NULL, false, &last, e);
        if (r != 0)
                return MIN(r, 0);
        r_reply = chat_sample_after(
                t, CHAT_AFTER_RESULTS, &chat_probes[CHAT_KIND_ASSISTANT], false, &reply, e);
        r_user = chat_sample_after(
                t, CHAT_AFTER_RESULTS, &chat_probes[CHAT_KIND_USER], false, &user, e);
        if (r_reply < 0 || r_user < 0)
                return MIN(r_reply, r_user);
        next[0] = r_reply == 0 ? &reply : NULL;
        next[1] = r_user == 0 ? &user : NULL;
        r = learn_closing(t, CHAT_KIND_RESULTS, &last, next, 2, e);
        return r < 0 ? r
                     : chat_take_drop(&t->piece[CHAT_AFTER_REPLY][CHAT_KIND_RESULTS], &last,
                               &t->closing[CHAT_KIND_RESULTS], e);
}

int chat_learn(struct chat_template *t, struct tok *tok, struct err *e) {
        static const enum chat_after repliable[] = {
                CHAT_AFTER_USER, CHAT_AFTER_REPLY, CHAT_AFTER_SYSTEM, CHAT_AFTER_RESULTS};
        int r;

        for (int kind = 0; kind < CHAT_N_KINDS; kind++)
                t->closing[kind].last = -1;
        t->open[0].opened = t->open[1].opened = -1;
        r = learn_closings(t, tok, e);
        if (r >= 0)
                r = learn_system(t, e);
        if (r >= 0)
                r = chat_learn_call_form(t, e);
        if (r >= 0)
                r = learn_results(t, e);
        if (r >= 0)
                r = learn_pieces(t, e);
        if (r >= 0)
                r = chat_learn_calls(t, e);
        for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(repliable); i++)
                r = learn_reply(t, repliable[i], e);
        if (r >= 0 && (!t->piece[CHAT_AFTER_NOTHING][CHAT_USER].works ||
                              !t->piece[CHAT_AFTER_REPLY][CHAT_USER].works))
                r = err_set(e, ERR_INVALID,
                        "the template writes a user's message differently each time");
        if (r >= 0)
                r = chat_learn_definitions(t, e);
        return r < 0 ? r : chat_learn_notes(t, e);
}
