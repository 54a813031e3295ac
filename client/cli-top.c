/* SPDX-License-Identifier: MIT */
/*
 * Samples of what a daemon does.
 *
 * 1. Nothing here waits: requests are submitted, and their answers submit what follows, so that keys and signals are
 *    heard while a daemon is slow.
 * 2. A sample is one Stats, a Get (without turns) for each reply that is being written, 64 at most, and a List only if
 *    it may have changed: a Watch tells. A conversation that does nothing is never asked about.
 * 3. What has no notice (bytes on disk behind a write in the background) shows with the next list: one is asked for
 *    after LIST_AGE at the latest. Where a list takes long, because there are very many conversations, they
 *    take at most a LIST_SHARE-th of the time.
 * 4. Rates are differences of what the daemon counts, between two samples of the same connection.
 */
#include "client/cli-top.h"
#include "base/clock.h"
#include <string.h>

#define USEC 1000000ull
#define LIST_AGE (10 * USEC)
#define LIST_SHARE 10

const struct top_figure_name top_figure_names[TOP_N_FIGURES] = {
        [TOP_BUDGET] = {"budget", false},
        [TOP_USED] = {"ledger_used", false},
        [TOP_IDLE] = {"pool_idle_bytes", false},
        [TOP_ACTIVE] = {"requests_active", false},
        [TOP_QUEUED] = {"requests_queued", false},
        [TOP_WAITING] = {"requests_waiting", false},
        [TOP_PREFILLED] = {"tokens_prefilled", true},
        [TOP_DECODED] = {"tokens_decoded", true},
        [TOP_DISK] = {"spill_disk_bytes", false},
        [TOP_WRITTEN] = {"bytes_spill_written", true},
        [TOP_READ] = {"bytes_spill_read", true},
        [TOP_EVICTIONS] = {"evictions", true},
        [TOP_RESTORES] = {"restores", true},
        [TOP_CONNECTIONS] = {"connections", false},
};

const char *top_state_name(enum confab_writing_state state) {
        static const char *const names[] = {"", "waits", "restores", "reads", "writes", "ends"};

        return (size_t)state < ARRAY_SIZE(names) ? names[state] : "";
}

static void top_fail(struct top *t, const struct confab_error *e) {
        if (!t->error.code[0])
                t->error = *e;
}

static void top_no_memory(struct top *t) {
        static const struct confab_error e = {.code = CONFAB_NO_MEMORY, .message = "no memory"};

        top_fail(t, &e);
}

/* Submit a request that the sample waits for. */
static void ask(struct top *t, const struct confab_request *r, confab_event_fn fn) {
        struct confab_error e;

        if (confab_submit(t->cli->confab, r, fn, t, NULL, &e) < 0)
                top_fail(t, &e);
        else
                t->pending++;
}

/* ---- figures ---- */

static void take_figure(struct top *t, size_t i, uint64_t value, double seconds) {
        bool had = t->n_samples > 0 && t->has[i];

        t->has_rate[i] = had && top_figure_names[i].counts && seconds > 0 &&
                         value >= t->figures[i]; /* else the daemon counts anew */
        t->rates[i] = t->has_rate[i] ? (double)(value - t->figures[i]) / seconds : 0;
        t->has[i] = true;
        t->figures[i] = value;
}

static void stats_event(void *userdata, const struct confab_event *event) {
        struct top *t = userdata;
        uint64_t now = clock_monotonic_usec();
        double seconds = (double)(now - t->at_usec) / USEC;

        if (event->final)
                t->pending--;
        if (event->kind == CONFAB_EVENT_ERROR)
                top_fail(t, event->error);
        if (event->kind != CONFAB_EVENT_STATS)
                return;
        for (size_t i = 0; i < TOP_N_FIGURES; i++) {
                size_t k = 0;

                while (k < event->stats->n_stats &&
                        strcmp(event->stats->stats[k].name, top_figure_names[i].name) != 0)
                        k++;
                if (k < event->stats->n_stats)
                        take_figure(t, i, event->stats->stats[k].value, seconds);
                else
                        t->has[i] = t->has_rate[i] = false;
        }
        t->at_usec = now;
        t->now_usec = clock_realtime_usec();
}

/* ---- replies ---- */

const struct top_writing *top_find_writing(const struct top *t, uint64_t id) {
        for (size_t i = 0; i < t->n_writing; i++)
                if (t->writing[i].id == id)
                        return &t->writing[i];
        return NULL;
}

/* Tokens per second since the sample before, of the same reply in the same state. */
static double rate_of(const struct top *t, const struct top_writing *w) {
        bool reads = w->state == CONFAB_WRITING_READS;

        for (size_t i = 0; i < t->n_before; i++) {
                const struct top_writing *b = &t->before[i];
                uint32_t from = reads ? b->done : b->n_generated,
                         to = reads ? w->done : w->n_generated;

                if (b->id == w->id && b->revision == w->revision && b->state == w->state &&
                        to >= from && w->at_usec > b->at_usec)
                        return (to - from) * (double)USEC / (double)(w->at_usec - b->at_usec);
        }
        return -1;
}

static void get_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        struct top *t = userdata;
        struct top_writing *w;

        if (event->final)
                t->pending--;
        if (event->kind == CONFAB_EVENT_ERROR && cli_ends_all(event->error))
                top_fail(t, event->error); /* one that was closed meanwhile is no failure */
        if (event->kind != CONFAB_EVENT_CONVERSATION || !c->writing ||
                t->n_writing == TOP_MAX_WRITING)
                return;
        w = &t->writing[t->n_writing++];
        *w = (struct top_writing){
                .id = c->id,
                .revision = c->writing->revision,
                .at_usec = clock_monotonic_usec(),
                .state = c->writing->state,
                .done = c->writing->done,
                .total = c->writing->total,
                .n_generated = c->writing->n_generated,
        };
        w->rate = rate_of(t, w);
}

/* Look at the replies of those that the list showed as generating. */
static void ask_replies(struct top *t) {
        size_t n = 0;

        for (size_t i = 0; i < t->items.n && n < TOP_MAX_WRITING; i++) {
                struct confab_request r = CONFAB_REQUEST_INIT;

                if (!t->items.items[i].generating)
                        continue;
                r.verb = CONFAB_GET;
                r.conversation_id = t->items.items[i].id;
                ask(t, &r, get_event);
                n++;
        }
}

/* ---- the list ---- */

static void ask_page(struct top *t);

static void list_complete(struct top *t) {
        t->listing = false;
        t->listed_usec = clock_monotonic_usec();
        t->list_took_usec = t->listed_usec - t->list_begun_usec;
        cli_items_deinit(&t->items);
        t->items = t->next;
        t->next = (struct cli_items){0};
        ask_replies(t);
}

static void page_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversations *list = event->conversations;
        struct top *t = userdata;
        uint64_t before = t->last_id;

        if (event->final)
                t->pending--;
        if (event->kind == CONFAB_EVENT_ERROR)
                top_fail(t, event->error);
        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        for (size_t i = 0; i < list->n_items; i++) {
                if (cli_items_add(&t->next, &list->items[i], t->want_json) < 0) {
                        top_no_memory(t);
                        return;
                }
                t->last_id = MAX(t->last_id, list->items[i].id);
        }
        if (list->more && t->last_id > before) /* or it would never end */
                ask_page(t);
        else
                list_complete(t);
}

static void ask_page(struct top *t) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_LIST;
        r.after_id = t->last_id;
        r.all_users = t->all_users;
        ask(t, &r, page_event);
}

/* Rule 3. */
static bool wants_list(const struct top *t) {
        uint64_t age = clock_monotonic_usec() - t->listed_usec;

        if (!t->listed_usec)
                return true;
        return age >= LIST_AGE || (t->stale && age >= LIST_SHARE * t->list_took_usec);
}

/* ---- notices ---- */

static void notice_event(void *userdata, const struct confab_event *event) {
        struct top *t = userdata;

        if (event->final)
                t->watching = false;
        if (event->kind == CONFAB_EVENT_ERROR)
                top_fail(t, event->error);
        if (event->kind != CONFAB_EVENT_NOTICE)
                return;
        t->pending -= t->greeting;
        t->greeting = false;
        if (event->notice->kind == CONFAB_NOTICE_MODEL)
                snprintf(t->model, sizeof(t->model), "%s",
                        event->notice->model ? event->notice->model : "");
        else
                t->stale = true;
}

static void ask_watch(struct top *t) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_error e;

        r.verb = CONFAB_WATCH;
        r.all_users = t->all_users;
        if (confab_submit(t->cli->confab, &r, notice_event, t, NULL, &e) < 0)
                top_fail(t, &e);
        else
                t->watching = t->greeting = true;
        t->pending += t->greeting; /* its first notice names the model */
}

/* ---- samples ---- */

void top_begin(struct top *t) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        if (!t->watching)
                ask_watch(t);
        if (t->at_usec)
                t->n_samples++;
        memcpy(t->before, t->writing, sizeof(t->before));
        t->n_before = t->n_writing;
        t->n_writing = 0;
        r.verb = CONFAB_STATS;
        ask(t, &r, stats_event);
        if (!wants_list(t)) {
                ask_replies(t);
                return;
        }
        cli_items_deinit(&t->next);
        t->listing = true;
        t->stale = false; /* what happens from now on makes it stale again */
        t->last_id = 0;
        t->list_begun_usec = clock_monotonic_usec();
        ask_page(t);
}

bool top_complete(const struct top *t) {
        return t->pending == 0 && !t->listing && !t->error.code[0];
}

void top_reset(struct top *t) {
        cli_items_deinit(&t->next);
        t->watching = t->greeting = t->listing = t->stale = false;
        t->pending = 0;
        t->listed_usec = t->at_usec = 0;
        t->n_samples = t->n_writing = t->n_before = 0;
        memset(t->has, 0, sizeof(t->has));
        memset(t->has_rate, 0, sizeof(t->has_rate));
        t->error = (struct confab_error){.code = ""};
}

void top_deinit(struct top *t) {
        cli_items_deinit(&t->items);
        cli_items_deinit(&t->next);
}
