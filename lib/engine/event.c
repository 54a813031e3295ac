/* SPDX-License-Identifier: MIT */
/* Events: built on the engine thread, freed by the loop thread. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/internal.h"

#define MAX_BACKLOG 8192
#define MAX_BACKLOG_SIZE ((size_t)16 << 20)

struct event_node *engine_event_new(uint64_t handle, enum engine_event_kind kind, bool final) {
        struct event_node *n = calloc(1, sizeof(*n));

        if (!n)
                return NULL;
        n->ev.handle = handle;
        n->ev.kind = kind;
        n->ev.final = final;
        list_init(&n->link);
        return n;
}

/* What a client can make large. */
static size_t event_size(const struct engine_event *ev) {
        size_t n = sizeof(struct event_node);

        if (ev->kind == ENGINE_DELTA)
                n += ev->delta.text_size + ev->delta.n_top * sizeof(*ev->delta.top);
        else if (ev->kind == ENGINE_TOKENS)
                n += ev->tokens.n * (sizeof(*ev->tokens.ids) + sizeof(*ev->tokens.pieces));
        else if (ev->kind == ENGINE_CONV && ev->conv.tokens)
                n += ev->conv.n_token_list * sizeof(*ev->conv.tokens);
        return n;
}

void engine_event_send(struct engine *en, struct event_node *n) {
        uint64_t one = 1;
        bool first;

        n->size = event_size(&n->ev);
        pthread_mutex_lock(&en->lock);
        first = list_empty(&en->events);
        list_append(&en->events, &n->link);
        en->n_events++;
        en->events_size += n->size;
        /* Written under the lock: the reader clears the eventfd under it, too. */
        if (first && write(en->event_fd, &one, sizeof(one)) < 0) {
                /* The counter can't overflow, and the descriptor is ours: nothing to handle. */
        }
        pthread_mutex_unlock(&en->lock);
}

bool event_backlog(struct engine *en) {
        bool backlog;

        pthread_mutex_lock(&en->lock);
        backlog = en->n_events > MAX_BACKLOG || en->events_size > MAX_BACKLOG_SIZE;
        en->backlogged = backlog;
        pthread_mutex_unlock(&en->lock);
        return backlog;
}

void event_fill_piece(struct engine *en, struct engine_logprob *out, int32_t token) {
        out->token = token;
        out->text_size =
                (uint8_t)MIN(tok_piece(en->tok, token, true, (char *)out->text, sizeof(out->text)),
                        sizeof(out->text));
}

void engine_event_log(struct engine *en, int level, const struct err *e) {
        struct event_node *n = engine_event_new(0, ENGINE_LOG, false);

        if (!n)
                return; /* a log line is not worth more than memory */
        n->ev.err = *e;
        n->ev.log_level = level;
        engine_event_send(en, n);
}

int engine_event_conv(struct engine_conv *out, const struct store_conv *sc) {
        char *name = strdup(sc->name);

        if (!name)
                return -ERR_NOMEM;
        *out = (struct engine_conv){
                .id = sc->id,
                .name = name,
                .uid = sc->uid,
                .parent = sc->parent,
                .fork_pos = sc->fork_pos,
                .revision = sc->revision,
                .n_tokens = sc->n_tokens,
                .n_turns = sc->n_turns,
                .created_usec = sc->created_usec,
                .updated_usec = sc->updated_usec,
                .n_published = sc->n_published,
                .private_memory = sc->private_memory,
                .sampling = sc->sampling,
        };
        return 0;
}

static void conv_deinit(struct engine_conv *c) {
        if (c->turns)
                for (uint32_t i = 0; i < c->n_turn_list; i++)
                        free(c->turns[i].text);
        free(c->turns);
        free(c->tokens);
        free(c->name);
}

struct engine_event *engine_event_free(struct engine_event *ev) {
        if (!ev)
                return NULL;
        switch (ev->kind) {
        case ENGINE_DELTA:
                free(ev->delta.text);
                free(ev->delta.top);
                break;
        case ENGINE_DONE:
                free(ev->done.stop);
                break;
        case ENGINE_CONV:
                conv_deinit(&ev->conv);
                break;
        case ENGINE_CONVS:
                for (size_t i = 0; i < ev->convs.n; i++)
                        conv_deinit(&ev->convs.convs[i]);
                free(ev->convs.convs);
                break;
        case ENGINE_TOKENS:
                free(ev->tokens.ids);
                free(ev->tokens.pieces);
                break;
        case ENGINE_STATS_RESULT:
                free(ev->stats.stats);
                break;
        case ENGINE_EXPORTED:
                if (ev->exported.fd >= 0)
                        close(ev->exported.fd);
                break;
        default:
                break;
        }
        free(ev);
        return NULL;
}

int engine_fd(struct engine *en) {
        return en->event_fd;
}

struct engine_event *engine_next_event(struct engine *en) {
        struct event_node *n = NULL;
        uint64_t drop;

        pthread_mutex_lock(&en->lock);
        if (!list_empty(&en->events)) {
                n = list_entry(en->events.next, struct event_node, link);
                list_unlink(&n->link);
                en->n_events--;
                en->events_size -= n->size;
        }
        if (en->backlogged && en->n_events <= MAX_BACKLOG / 2 &&
                en->events_size <= MAX_BACKLOG_SIZE / 2) {
                en->backlogged = false;
                en->signalled = true;
                pthread_cond_signal(&en->wake);
        }
        if (list_empty(&en->events) && read(en->event_fd, &drop, sizeof(drop)) < 0) {
                /* EAGAIN: it was not set. */
        }
        pthread_mutex_unlock(&en->lock);
        return n ? &n->ev : NULL;
}
