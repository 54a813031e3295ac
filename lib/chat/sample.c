/* SPDX-License-Identifier: MIT */
/*
 * Renderings for learning: where the texts of stand-ins and probes are in them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "chat/chat-internal.h"

const struct chat_message chat_probes[CHAT_N_KINDS] = {
#define PROBE(r)                                                                                   \
        { .role = r, .text = CHAT_PROBE, .size = sizeof(CHAT_PROBE) - 1 }
        [CHAT_KIND_SYSTEM] = PROBE(CHAT_SYSTEM),
        [CHAT_KIND_USER] = PROBE(CHAT_USER),
        [CHAT_KIND_ASSISTANT] = PROBE(CHAT_ASSISTANT),
#undef PROBE
        /* With the id and the name of the stand-in's call, which it answers. */
        [CHAT_KIND_RESULTS] = {.role = CHAT_TOOL,
                .text = CHAT_PROBE,
                .size = sizeof(CHAT_PROBE) - 1,
                .call_id = "standinid",
                .name = CHAT_STAND_IN_NAME},
};

void chat_sample_deinit(struct chat_sample *s) {
        jinja_out_deinit(&s->out);
        free(s->special);
        *s = CHAT_SAMPLE_NULL;
}

int chat_find_special(const struct chat_template *t, const struct jinja_out *out,
        struct tok_place **ret, size_t *ret_n, struct err *e) {
        _cleanup_(freep) struct tok_range *trusted = calloc(out->n_spans + 1, sizeof(*trusted));
        size_t n;

        if (!trusted)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        n = chat_trusted(out, 0, out->size, trusted);
        return tok_find_special(t->tok, out->text, out->size, trusted, n, ret, ret_n, e);
}

/* Whether the texts of messages[i] and of its neighbours are to be found, in order. The message with
 * calls has none. */
static bool locate(const struct chat_message *messages, size_t n, size_t i, struct chat_sample *s) {
        size_t next;

        if (!chat_find_once(&s->out, &messages[i], &s->at))
                return false;
        s->end = s->at + messages[i].size;
        if (i > 0 && messages[i - 1].size > 0) {
                if (!chat_find_once(&s->out, &messages[i - 1], &s->before_at))
                        return false;
                s->before = s->before_at + messages[i - 1].size;
                if (s->before > s->at)
                        return false;
        }
        return i + 1 == n || (chat_find_once(&s->out, &messages[i + 1], &next) && next >= s->end);
}

int chat_sample_take(const struct chat_template *t, const struct chat_rendering *in, size_t i,
        struct chat_sample *ret, struct err *e) {
        _cleanup_(chat_sample_deinit) struct chat_sample s = CHAT_SAMPLE_NULL;
        int r = chat_render(t, in, &s.out, e);

        if (r == -ERR_NOMEM)
                return r;
        if (r < 0)
                return 1;
        if (!locate(in->messages, in->n, i, &s)) {
                (void)err_set(e, ERR_INVALID,
                        "the template leaves out the text of a message (%s), or moves it",
                        chat_role_name(in->messages[i].role));
                return 1;
        }
        r = chat_find_special(t, &s.out, &s.special, &s.n_special, e);
        if (r < 0)
                return r;
        *ret = s;
        s = CHAT_SAMPLE_NULL;
        return 0;
}

int chat_sample_after(const struct chat_template *t, enum chat_after after,
        const struct chat_message *last, bool invite, struct chat_sample *ret, struct err *e) {
        struct chat_message messages[CHAT_MAX_MESSAGES];
        struct chat_rendering in = {.messages = messages, .invite = invite};

        in.n = chat_stand_ins_of(after, messages);
        if (last)
                messages[in.n++] = *last;
        return chat_sample_take(t, &in, in.n - 1, ret, e);
}
