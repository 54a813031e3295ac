/* SPDX-License-Identifier: MIT */
/*
 * Events: built on the engine thread or by a job, freed by the loop thread.
 *
 * The memory of events belongs to the share of requests (budget.requests), from before an event is
 * made until engine_event_free().
 *
 * 1. A request's final event is made when the request arrives and is paid from the request's own
 *    charge. That covers errors and answers of a fixed size, so every request can end.
 * 2. Anything else in an answer is charged to the event before it is allocated (event_calloc()), or
 *    was charged to the request before and is handed over with its charge (event_adopt()).
 * 3. A generating request sends events at times when the share may be full, and must not lose any.
 *    So it has a credit, set aside when it arrived, for all events that one step may send. While
 *    few events wait, an event is paid from the share, else from the credit. No step begins while a
 *    credit is in use (event_backlog()). The loop thread soon frees the event, whatever its peer
 *    does, and then the engine goes on.
 * 4. A watcher has a credit for WATCH_EVENTS notices, which pays for all of them. While it is used
 *    up, further notices wait in their ring (notices.c).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/io/io.h"
#include "sample/sample.h"
#include "tok/tok.h"

#define MAX_BACKLOG 8192
#define MAX_BACKLOG_SIZE ((size_t)16 << 20)
#define BACKLOG_PART 4 /* of the share */

struct outbox {
        struct bell *bell;
        struct ledger *ledger; /* pays for events */
        struct event_home *home;
        int fd; /* an eventfd: readable while events wait */

        /* under lock */
        pthread_mutex_t lock;
        struct list events;
        size_t n_events, events_size;
        struct list credits; /* of the requests that have a place */
        bool backlogged;     /* the engine thread waits until fewer events are left */
};

/* Where events return their charges. Events may outlive the engine: then they return nothing. */
struct event_home {
        pthread_mutex_t lock;
        struct outbox *outbox; /* under lock: NULL when the outbox is gone */
        atomic_uint n_refs;
};

static struct event_home *home_new(struct outbox *o) {
        struct event_home *h = calloc(1, sizeof(*h));

        if (!h)
                return NULL;
        pthread_mutex_init(&h->lock, NULL);
        h->outbox = o;
        h->n_refs = 1;
        return h;
}

static void home_unref(struct event_home *h) {
        if (atomic_fetch_sub(&h->n_refs, 1) > 1)
                return;
        pthread_mutex_destroy(&h->lock);
        free(h);
}

/* The outbox goes: no events are made any more. */
static void home_leave(struct event_home *h) {
        if (!h)
                return;
        pthread_mutex_lock(&h->lock);
        h->outbox = NULL;
        pthread_mutex_unlock(&h->lock);
        home_unref(h);
}

int outbox_new(struct outbox **ret, struct engine *engine, struct err *e) {
        struct outbox *o = calloc(1, sizeof(*o));
        int r;

        if (!o)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        o->bell = engine->bell;
        o->ledger = &engine->budget->requests;
        list_init(&o->events);
        list_init(&o->credits);
        pthread_mutex_init(&o->lock, NULL);
        o->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        o->home = home_new(o);
        if (o->fd >= 0 && o->home) {
                *ret = o;
                return 0;
        }
        r = o->fd < 0 ? err_set(e, ERR_SYS, "cannot make an eventfd")
                      : err_set(e, ERR_NOMEM, "no memory for the engine");
        outbox_free(o);
        return r;
}

/* Lives as long as the request or any event that the credit pays for. */
struct credit {
        struct charge charge; /* for `size` and this struct */
        struct list link;     /* in outbox.credits, under its lock */
        size_t size;
        atomic_size_t lent;
        bool wanted; /* under the outbox's lock: the bell is to ring when half of it is paid back */
        atomic_uint n_refs;
};

struct credit *credit_new(struct charge *from, size_t size) {
        struct credit *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->size = size - sizeof(*c);
        c->n_refs = 1;
        list_init(&c->link);
        charge_move(&c->charge, from, size);
        return c;
}

void credit_unref(struct credit *c) {
        struct charge charge;

        if (!c || atomic_fetch_sub(&c->n_refs, 1) > 1)
                return;
        charge = c->charge;
        free(c);
        charge_deinit(&charge);
}

/* Notices of one watcher that may be on their way to the loop thread. */
#define WATCH_EVENTS 16
/* Likewise: Progress of a check. */
#define CHECK_EVENTS 2

/* One step may send Accepted, Progress, and two Deltas: a token and the rest of the text. */
size_t credit_size(const struct engine *engine, const struct engine_request *r) {
        size_t text = 3 * engine->max_piece + 64, top = MIN(r->n_logprobs, engine->info.n_vocab);

        if (r->verb == ENGINE_WATCH)
                return sizeof(struct credit) + WATCH_EVENTS * sizeof(struct event_node);
        if (r->verb == ENGINE_CHECK)
                return sizeof(struct credit) + CHECK_EVENTS * sizeof(struct event_node);
        if (r->verb != ENGINE_CONTINUE && r->verb != ENGINE_ATTACH)
                return 0;
        for (size_t i = 0; i < r->n_stops; i++)
                text += strlen(r->stops[i]);
        return sizeof(struct credit) + 4 * sizeof(struct event_node) + 2 * text +
               top * (sizeof(struct engine_logprob) + sizeof(struct sample_logprob));
}

struct event_node *event_new(struct engine *engine, struct charge *from, uint64_t handle,
        enum engine_event_kind kind, bool final) {
        struct event_node *n = calloc(1, sizeof(*n));

        if (!n)
                return NULL;
        n->ev.handle = handle;
        n->ev.kind = kind;
        n->ev.final = final;
        n->home = engine->outbox->home;
        n->home->n_refs++;
        list_init(&n->link);
        if (from)
                charge_move(&n->charge, from, sizeof(*n));
        return n;
}

static struct event_node *new_charged(
        struct engine *engine, uint64_t handle, enum engine_event_kind kind, bool final) {
        struct charge charge = {.ledger = &engine->budget->requests};
        struct event_node *n;

        if (charge_take(&charge, sizeof(*n), "an event", NULL) < 0)
                return NULL;
        n = event_new(engine, &charge, handle, kind, final);
        charge_deinit(&charge); /* the part that was not handed over */
        return n;
}

/* The most bytes of events that may wait before a backlog is declared. */
static size_t max_backlog(struct outbox *o) {
        return MIN(MAX_BACKLOG_SIZE, ledger_budget(o->ledger) / BACKLOG_PART);
}

static bool backlog_has_room(struct outbox *o, size_t size) {
        bool room;

        pthread_mutex_lock(&o->lock);
        room = o->events_size + size <= max_backlog(o);
        pthread_mutex_unlock(&o->lock);
        return room;
}

struct event_node *event_new_stream(struct engine *engine, struct credit *c, uint64_t handle,
        enum engine_event_kind kind, size_t size) {
        struct charge charge = {.ledger = &engine->budget->requests};
        struct event_node *n;

        size += sizeof(*n);
        if (backlog_has_room(engine->outbox, size) &&
                charge_take(&charge, size, "an event", NULL) == 0)
                c = NULL;
        else if (c->lent + size > c->size)
                return NULL; /* cannot happen: credit_size() counts all events of a step */
        n = event_new(engine, NULL, handle, kind, false);
        if (n && c) {
                n->credit = c;
                n->credit_size = size;
                c->lent += size;
                c->n_refs++;
        } else if (n) {
                charge_move(&n->charge, &charge, size);
        }
        charge_deinit(&charge);
        return n;
}

struct event_node *event_new_lent(struct engine *engine, struct credit *c, uint64_t handle,
        enum engine_event_kind kind, bool *ret_full) {
        struct outbox *o = engine->outbox;
        size_t size = sizeof(struct event_node);
        struct event_node *n;

        pthread_mutex_lock(&o->lock);
        *ret_full = c->wanted = c->lent + size > c->size;
        pthread_mutex_unlock(&o->lock);
        n = *ret_full ? NULL : event_new(engine, NULL, handle, kind, false);
        if (n) {
                n->credit = c;
                n->credit_size = size;
                c->lent += size;
                c->n_refs++;
        }
        return n;
}

void *event_calloc(struct event_node *n, size_t count, size_t size, struct err *e) {
        size_t total;
        void *p;

        if (mul_overflow(MAX(count, (size_t)1), size, &total)) {
                err_set(e, ERR_TOO_LARGE, "impossible size of an answer");
                return NULL;
        }
        if (charge_take(&n->charge, total, "the answer", e) < 0)
                return NULL;
        p = calloc(1, total);
        if (!p) {
                charge_give(&n->charge, total);
                err_set(e, ERR_NOMEM, "no memory for an answer");
        }
        return p;
}

void event_adopt(struct event_node *n, struct charge *from, size_t size) {
        charge_move(&n->charge, from, size);
}

void event_send(struct engine *engine, struct event_node *n) {
        struct outbox *o = engine->outbox;
        uint64_t one = 1;
        bool first;

        n->size = n->charge.size + n->credit_size;
        pthread_mutex_lock(&o->lock);
        first = list_empty(&o->events);
        list_append(&o->events, &n->link);
        o->n_events++;
        o->events_size += n->size;
        /* Under the lock, because the reader clears the eventfd under it, too. */
        if (first && write(o->fd, &one, sizeof(one)) < 0) {
                /* The counter can't overflow, and the descriptor is ours: nothing to handle. */
        }
        pthread_mutex_unlock(&o->lock);
}

void credit_set_active(struct engine *engine, struct credit *c, bool active) {
        struct outbox *o = engine->outbox;

        if (!c)
                return;
        pthread_mutex_lock(&o->lock);
        list_unlink(&c->link);
        if (active)
                list_append(&o->credits, &c->link);
        pthread_mutex_unlock(&o->lock);
}

/* Under the lock. */
static bool credit_in_use(struct outbox *o) {
        struct list *it;

        list_for_each (it, &o->credits)
                if (list_entry(it, struct credit, link)->lent > 0)
                        return true;
        return false;
}

bool event_backlog(struct engine *engine) {
        struct outbox *o = engine->outbox;
        bool backlog;

        pthread_mutex_lock(&o->lock);
        backlog = o->n_events > MAX_BACKLOG || o->events_size > max_backlog(o) || credit_in_use(o);
        o->backlogged = backlog;
        pthread_mutex_unlock(&o->lock);
        return backlog;
}

/* Under the lock. */
static void end_backlog(struct outbox *o) {
        o->backlogged = false;
        bell_ring(o->bell);
}

void event_fill_piece(struct engine *engine, struct engine_piece *out, int32_t token) {
        size_t n = tok_piece(engine->tok, token, true, (char *)out->bytes, sizeof(out->bytes));

        out->size = (uint8_t)MIN(n, sizeof(out->bytes));
}

void event_log(struct engine *engine, enum engine_log what, uint64_t owner, uint64_t conv,
        const struct err *e) {
        struct event_node *n = new_charged(engine, 0, ENGINE_LOG, false);

        if (!n)
                return; /* without memory, log lines are lost */
        n->ev.err = *e;
        n->ev.log.what = what;
        n->ev.log.owner = owner;
        n->ev.log.conv = conv;
        event_send(engine, n);
}

/* A charged copy, or NULL. */
static char *copy_text(struct event_node *n, const char *text, struct err *e) {
        size_t size = strlen(text) + 1;
        char *copy = event_calloc(n, size, 1, e);

        if (copy)
                memcpy(copy, text, size);
        return copy;
}

int event_conv(
        struct event_node *n, struct engine_conv *out, const struct store_conv *sc, struct err *e) {
        char *name = copy_text(n, sc->name, e), *tenant = NULL;

        if (name && *sc->tenant)
                tenant = copy_text(n, sc->tenant, e);
        if (!name || (*sc->tenant && !tenant)) {
                free(name);
                return -(int)e->code;
        }
        *out = (struct engine_conv){
                .id = sc->id,
                .name = name,
                .owner = sc->owner,
                .tenant = tenant,
                .parent = sc->parent,
                .fork_pos = sc->fork_pos,
                .revision = sc->revision,
                .n_tokens = sc->n_tokens,
                .n_turns = sc->n_turns,
                .created_usec = sc->created_usec,
                .updated_usec = sc->updated_usec,
                .n_published = sc->n_published,
                .private_memory = sc->private_memory,
                .dropped_from = sc->gap.from,
                .dropped_to = sc->gap.to,
                .overflow = sc->overflow == STORE_OVERFLOW_SHIFT ? ENGINE_OVERFLOW_SHIFT
                                                                 : ENGINE_OVERFLOW_ERROR,
                .pinned = sc->pinned,
                .sampling = sc->sampling,
                .unanswered = sc->unanswered,
        };
        return 0;
}

static void turn_deinit(struct engine_turn *t) {
        free(t->text);
        free(t->results);
        free(t->parts);
        free(t->tools);
        free(t->figures);
}

static void conv_deinit(struct engine_conv *c) {
        if (c->turns)
                for (uint32_t i = 0; i < c->n_turn_list; i++)
                        turn_deinit(&c->turns[i]);
        if (c->writing)
                turn_deinit(&c->writing->turn);
        free(c->writing);
        free(c->about);
        free(c->snippet);
        free(c->tools);
        free(c->turns);
        free(c->tokens);
        free(c->name);
        free(c->tenant);
}

/* Free everything that hangs on the event. */
static void event_deinit(struct engine_event *ev) {
        switch (ev->kind) {
        case ENGINE_DELTA:
                free(ev->delta.text);
                free(ev->delta.top);
                free(ev->delta.parts);
                break;
        case ENGINE_DONE:
                free(ev->done.stop);
                break;
        case ENGINE_CONV:
        case ENGINE_FOUND:
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
                free(ev->tokens.piece_ends);
                break;
        case ENGINE_STATS_RESULT:
                free(ev->stats.stats);
                free(ev->stats.meters);
                free(ev->stats.users);
                break;
        case ENGINE_BYTES:
                free(ev->bytes.data);
                break;
        case ENGINE_USERS_RESULT:
                free(ev->users.users);
                break;
        case ENGINE_CHECKED:
                free(ev->checked.problems);
                break;
        case ENGINE_OVERRIDES:
                free(ev->overrides.list);
                break;
        case ENGINE_EXPORTED:
                if (ev->exported.fd >= 0)
                        close(ev->exported.fd);
                break;
        default:
                break;
        }
}

void event_reset(struct event_node *n, enum engine_event_kind kind) {
        event_deinit(&n->ev);
        charge_give(&n->charge, n->charge.size - MIN(n->charge.size, sizeof(*n)));
        n->ev = (struct engine_event){.handle = n->ev.handle, .kind = kind, .final = n->ev.final};
        if (kind == ENGINE_EXPORTED)
                n->ev.exported.fd = -1;
}

/* The credit is paid back: a step that waited for this may begin. */
static void credit_back(struct outbox *o, struct credit *c, size_t size) {
        pthread_mutex_lock(&o->lock);
        c->lent -= size;
        if (o->backlogged && c->lent == 0)
                end_backlog(o);
        if (c->wanted && c->lent <= c->size / 2) {
                c->wanted = false;
                bell_ring(o->bell);
        }
        pthread_mutex_unlock(&o->lock);
        credit_unref(c);
}

struct engine_event *engine_event_free(struct engine_event *ev) {
        struct event_node was;

        if (!ev)
                return NULL;
        event_deinit(ev);
        was = *(struct event_node *)ev;
        free(ev);
        pthread_mutex_lock(&was.home->lock);
        if (was.home->outbox) {
                charge_deinit(&was.charge);
                if (was.credit)
                        credit_back(was.home->outbox, was.credit, was.credit_size);
        } else if (was.credit) {
                was.credit->charge = CHARGE_NULL;
                credit_unref(was.credit);
        }
        pthread_mutex_unlock(&was.home->lock);
        home_unref(was.home);
        return NULL;
}

int engine_fd(struct engine *engine) {
        return engine->outbox->fd;
}

static struct engine_event *next_event(struct outbox *o) {
        struct event_node *n = NULL;
        uint64_t drop;

        pthread_mutex_lock(&o->lock);
        if (!list_empty(&o->events)) {
                n = list_entry(o->events.next, struct event_node, link);
                list_unlink(&n->link);
                o->n_events--;
                o->events_size -= n->size;
        }
        if (o->backlogged && o->n_events <= MAX_BACKLOG / 2 && o->events_size <= max_backlog(o) / 2)
                end_backlog(o);
        if (list_empty(&o->events) && read(o->fd, &drop, sizeof(drop)) < 0) {
                /* EAGAIN: the eventfd was not set. */
        }
        pthread_mutex_unlock(&o->lock);
        return n ? &n->ev : NULL;
}

struct engine_event *engine_next_event(struct engine *engine) {
        return next_event(engine->outbox);
}

struct outbox *outbox_free(struct outbox *o) {
        struct engine_event *ev;

        if (!o)
                return NULL;
        while ((ev = next_event(o)))
                engine_event_free(ev);
        home_leave(o->home);
        if (o->fd >= 0)
                close(o->fd);
        pthread_mutex_destroy(&o->lock);
        free(o);
        return NULL;
}
