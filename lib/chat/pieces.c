/* SPDX-License-Identifier: MIT */
/* How one message is cut out of a rendering, taken from a sample of it. */
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "chat/chat-internal.h"

int chat_take_drop(struct chat_piece *p, const struct chat_sample *s,
        const struct chat_closing *own, struct err *e) {
        size_t from = s->end + own->size;

        p->drop_size = s->out.size - from;
        p->drop = text_dup(s->out.text + from, p->drop_size);
        return p->drop ? 0 : err_set(e, ERR_NOMEM, "out of memory for a chat template");
}

int chat_take_piece(struct chat_template *t, enum chat_after after, enum chat_kind kind,
        const struct chat_sample *s, struct err *e) {
        struct chat_piece *p = &t->piece[after][kind];
        const struct chat_closing *own = &t->closing[kind];
        const char *text = s->out.text + s->end;
        size_t n = s->out.size - s->end;
        int r;

        p->behind = s->before;
        p->text = s->at;
        if (after == CHAT_AFTER_OPEN_SYSTEM || after == CHAT_AFTER_OPEN_TOOLS)
                p->fixed = p->text;
        else if (after != CHAT_AFTER_NOTHING) {
                const struct chat_closing *c = &t->closing[chat_kind_before(after)];

                if (!chat_begins(s->out.text + s->before, s->at - s->before, c->text, c->size))
                        return 0;
                p->fixed = s->before + c->size;
        }
        if (!chat_begins(text, n, own->text, own->size))
                return 0;
        r = chat_take_drop(p, s, own, e);
        if (r < 0)
                return r;
        p->hash = hash64(s->out.text, p->fixed, 0);
        p->works = true;
        return 0;
}

int chat_learn_open(
        struct chat_template *t, bool tools, const struct chat_sample *s, struct err *e) {
        struct chat_open *o = &t->open[tools];
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct chat_join join = {.skip = -1};
        int r;

        o->opens = true;
        o->drop_size = s->out.size - s->end;
        o->drop = text_dup(s->out.text + s->end, o->drop_size);
        if (!o->drop)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        r = chat_take_piece(
                t, tools ? CHAT_AFTER_OPEN_TOOLS : CHAT_AFTER_OPEN_SYSTEM, CHAT_KIND_USER, s, e);
        if (r == 0)
                r = chat_encode_rendering(t->tok, &s->out, 0, s->at, &join, 0, &ids, e);
        if (r < 0)
                return r;
        o->opened = -1;
        for (size_t i = s->n_special; i-- > 0;)
                if (s->special[i].start < s->at) {
                        if (ids.n > 0 && s->special[i].token == ids.ids[ids.n - 1]) {
                                o->opened = s->special[i].token;
                                o->opened_at = s->special[i].start;
                        }
                        break;
                }
        return 0;
}
