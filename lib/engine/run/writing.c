/* SPDX-License-Identifier: MIT */
/* A reply that is being written, for those who look at its conversation. */
#include <string.h>

#include "engine/run/state.h"

static enum engine_writing_state state_of(const struct request *writer) {
        switch (writer->phase) {
        case PHASE_RESTORE:
                return ENGINE_WRITING_RESTORES;
        case PHASE_PREFILL:
                return ENGINE_WRITING_READS;
        case PHASE_DECODE:
                return ENGINE_WRITING_WRITES;
        case PHASE_COMMIT:
                return ENGINE_WRITING_ENDS;
        case PHASE_NEW:
        case PHASE_IO:
        case PHASE_WAITS:
        case PHASE_QUEUED:
                break;
        }
        return ENGINE_WRITING_WAITS;
}

static int copy_text(
        const struct generation *g, struct event_node *n, struct engine_turn *t, struct err *e) {
        size_t size = g->reply.text.size;

        t->text = event_calloc(n, size + 1, 1, e);
        if (!t->text)
                return -(int)e->code;
        if (size > 0)
                memcpy(t->text, g->reply.text.data, size);
        t->text_size = size;
        return 0;
}

int writing_fill(const struct request *writer, bool with_text, struct event_node *n,
        struct engine_writing **ret, struct err *e) {
        const struct generation *g = generation_in(writer);
        const struct conv *c = writer->conv;
        struct engine_writing *w = event_calloc(n, 1, sizeof(*w), e);

        if (!w)
                return -(int)e->code;
        *ret = w;
        w->state = state_of(writer);
        w->turn.role = (enum engine_role)g->reply_turn.role;
        if (!g->begun)
                return 0; /* its input is being made */
        w->revision = c->revision;
        w->turn.start = g->reply_turn.start;
        w->turn.end = c->n_all + gap_size(&c->gap);
        w->total = g->n_prompt - g->n_kept;
        w->done = g->n_generated > 0 ? w->total
                                     : MIN(seq_n_tokens(c->seq), g->n_prompt) -
                                               MIN(seq_n_tokens(c->seq), g->n_kept);
        w->n_generated = g->n_generated;
        return with_text ? copy_text(g, n, &w->turn, e) : 0;
}
