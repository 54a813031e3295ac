/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "life.h"

enum { SILENCE_MSEC = TEST_SANITIZED ? 120000 : 30000 };

void life_fail(struct life *l, const char *category, const char *fmt, ...) {
        struct outcome o = {.failed = true, .tally = *l->tally};
        const struct op *op = l->at < l->p->n ? &l->p->ops[l->at] : NULL;
        va_list ap;
        int n;

        snprintf(o.category, sizeof(o.category), "%s", category);
        n = snprintf(o.message, sizeof(o.message), "operation %zu (%s): ", l->at,
                op ? op_name(op->kind) : "end");
        va_start(ap, fmt);
        vsnprintf(o.message + n, sizeof(o.message) - (size_t)n, fmt, ap);
        va_end(ap);
        l->failed(&o);
}

/* --- start and stop --- */

void life_start(struct life *l) {
        struct reply *a;
        struct err e;

        l->stopped = false;
        l->most_pool = l->o.pool_size;
        l->o.state_dir = l->dir;
        l->o.register_uri = l->uri[0] ? l->uri : NULL;
        if (engine_open(&l->en, &l->o, &e) < 0)
                life_fail(l, "open", "engine_open: %s", e.msg);
        /* One without a conversation was forgotten, and has another number now. */
        a = life_ask(l,
                &(struct engine_request){.verb = ENGINE_TENANT, .owner = 1000, .tenant = "tenant"});
        if (a->kind != ENGINE_OWNER)
                life_fail(l, "open", "tenant: %s", a->err.msg);
        l->owners[0] = 1000;
        l->owners[1] = a->event->owner;
        l->owners[2] = 1001;
}

void life_stop(struct life *l, bool clean) {
        if (clean) {
                engine_stop(l->en);
                while (!l->stopped)
                        life_step(l);
                l->tally->restarts++;
        } else {
                l->tally->kills++;
        }
        l->en = engine_free(l->en);
}

void life_remove_dir(const char *path) {
        DIR *d = opendir(path);
        struct dirent *de;
        char sub[512];

        while (d && (de = readdir(d))) {
                if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
                        continue;
                snprintf(sub, sizeof(sub), "%s/%s", path, de->d_name);
                if (unlink(sub) < 0)
                        life_remove_dir(sub);
        }
        if (d)
                closedir(d);
        rmdir(path);
}

/* --- events --- */

void reply_reset(struct reply *a) {
        if (a->event)
                engine_event_free(a->event);
        memset(a, 0, sizeof(*a));
}

/* Numbers, kinds, names, ids; texts of one part become one. */
bool life_put_parts(char *text, size_t size, const struct engine_part *parts, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const struct engine_part *p = &parts[i];
                size_t at = strlen(text);
                char head[16];
                const char *last;

                snprintf(head, sizeof(head), "\x1e%u.%d:", p->index, (int)p->kind);
                last = strrchr(text, '\x1e');
                if (!last || strncmp(last, head, strlen(head)) != 0)
                        at += (size_t)snprintf(text + at, size - at, "%s%s%s%s", head,
                                p->name ? p->name : "", p->call_id ? " " : "",
                                p->call_id ? p->call_id : "");
                for (const char *s = p->text; *s && at + 2 < size; s++)
                        text[at++] = *s == '\x1e' ? '?' : *s;
                if (p->ends && at + 2 < size)
                        text[at++] = p->broken ? '!' : '.';
                if (at + 2 >= size)
                        return false;
                text[at] = '\0';
        }
        return true;
}

static void take_delta(struct life *l, struct reply *a, const struct engine_event *ev) {
        if (strlen(a->text) + ev->delta.text_size >= sizeof(a->text))
                life_fail(l, "deltas", "too much text");
        strcat(a->text, ev->delta.text);
        if (!life_put_parts(a->parts, sizeof(a->parts), ev->delta.parts, ev->delta.n_parts))
                life_fail(l, "deltas", "too many parts");
        if (!ev->delta.has_token)
                return;
        if (a->n_tokens == MAX_NEW)
                life_fail(l, "deltas", "more tokens than asked for");
        a->tokens[a->n_tokens] = ev->delta.token;
        a->logprobs[a->n_tokens++] = ev->delta.logprob;
}

/* Takes the event over. */
static void take_event(struct life *l, struct reply *a, struct engine_event *ev) {
        if (a->final)
                life_fail(l, "events", "an event after the final one");
        switch (ev->kind) {
        case ENGINE_ERROR:
                a->err = ev->err;
                break;
        case ENGINE_ACCEPTED:
                if (a->accepted || a->n_tokens > 0)
                        life_fail(l, "events", "accepted twice, or late");
                a->accepted = true;
                a->counts = (struct counts){ev->accepted.n_prompt, ev->accepted.n_ram,
                        ev->accepted.n_disk, ev->accepted.n_shared, ev->accepted.n_computed,
                        ev->accepted.differs_at, ev->accepted.differs_why};
                break;
        case ENGINE_DELTA:
                take_delta(l, a, ev);
                break;
        case ENGINE_DONE:
                a->finish = ev->done.finish;
                a->revision = ev->done.revision;
                a->n_generated = ev->done.n_generated;
                a->counts_done = (struct counts){ev->done.n_prompt, ev->done.n_ram, ev->done.n_disk,
                        ev->done.n_shared, ev->done.n_computed, ev->done.differs_at,
                        ev->done.differs_why};
                break;
        case ENGINE_CONV:
                a->conv = ev->conv;
                break;
        case ENGINE_EXPORTED:
                a->fd = ev->exported.fd;
                a->size = ev->exported.size;
                break;
        default:
                break;
        }
        a->final = ev->final;
        if (!ev->final) {
                engine_event_free(ev);
                return;
        }
        a->kind = ev->kind;
        a->event = ev;
}

static void dispatch(struct life *l, struct engine_event *ev) {
        if (ev->kind == ENGINE_LOG && l->s->verbose)
                fprintf(stderr, "log: %s\n", ev->err.msg);
        if (ev->kind == ENGINE_STOPPED)
                l->stopped = true;
        if (ev->handle != 0 && ev->handle == l->own_handle) {
                take_event(l, &l->own, ev);
                return;
        }
        for (size_t i = 0; ev->handle != 0 && i < l->n_calls; i++)
                if (l->calls[i].q.handle == ev->handle) {
                        take_event(l, &l->calls[i].a, ev);
                        return;
                }
        engine_event_free(ev);
}

void life_step(struct life *l) {
        struct pollfd p = {.fd = engine_fd(l->en), .events = POLLIN};
        struct engine_event *ev;

        while (!(ev = engine_next_event(l->en)))
                if (poll(&p, 1, SILENCE_MSEC) != 1)
                        life_fail(l, "silent", "no event comes any more");
        dispatch(l, ev);
}

bool life_send(struct life *l, struct engine_request *q, struct reply *a) {
        reply_reset(a);
        q->handle = ++l->next_handle;
        if (engine_submit(l->en, q, &a->err) == 0)
                return true;
        a->final = true;
        a->kind = ENGINE_ERROR;
        return false;
}

struct reply *life_ask(struct life *l, struct engine_request *q) {
        reply_reset(&l->own);
        /* Events of it may not come before it is known whose they are. */
        l->own_handle = l->next_handle + 1;
        if (life_send(l, q, &l->own))
                while (!l->own.final)
                        life_step(l);
        l->own_handle = 0;
        return &l->own;
}

/* --- figures --- */

static uint64_t find_stat(const struct reply *a, const char *name, uint64_t missing) {
        if (a->kind == ENGINE_STATS_RESULT)
                for (size_t i = 0; i < a->event->stats.n; i++)
                        if (strcmp(a->event->stats.stats[i].name, name) == 0)
                                return a->event->stats.stats[i].value;
        return missing;
}

static const struct reply *ask_stats(struct life *l) {
        const struct reply *a = life_ask(l, &(struct engine_request){.verb = ENGINE_STATS});

        if (a->kind != ENGINE_STATS_RESULT)
                life_fail(l, "stats", "stats: %s", a->err.msg);
        return a;
}

uint64_t life_stat(struct life *l, const char *name, uint64_t missing) {
        return find_stat(ask_stats(l), name, missing);
}

void life_check_budget(struct life *l) {
        const struct reply *a = ask_stats(l);
        uint64_t used = find_stat(a, "ledger_used", UINT64_MAX),
                 peak = find_stat(a, "ledger_peak", UINT64_MAX), budget = find_stat(a, "budget", 0);

        if (used > budget)
                life_fail(l, "budget", "%llu bytes are used of a budget of %llu",
                        (unsigned long long)used, (unsigned long long)budget);
        if (peak > l->most_pool)
                life_fail(l, "budget", "%llu bytes were used at one time, of %llu at most",
                        (unsigned long long)peak, (unsigned long long)l->most_pool);
}

enum { BLOCK_TOKENS = 32, STEP = 1024 /* how exactly sizes are found */ };

uint64_t (*life_pool_sizes)[3][MOST_BLOCKS];

/* The least size that has room for the tokens of so many blocks, found by asking. */
uint64_t life_pool_size(struct life *l, uint32_t n) {
        uint64_t *of_kv = life_pool_sizes[l->p->opt[OPT_MODEL]][l->o.kv_type], low = 0,
                 high = (uint64_t)64 << 20;
        struct engine *other = l->en;
        char dir[300];

        if (of_kv[n] > 0)
                return of_kv[n];
        /* What is known of fewer and of more blocks bounds it. */
        for (uint32_t k = 0; k < MOST_BLOCKS; k++)
                if (k < n && of_kv[k] > STEP)
                        low = MAX(low, of_kv[k] - STEP);
                else if (k > n && of_kv[k] > 0)
                        high = MIN(high, of_kv[k]);
        snprintf(dir, sizeof(dir), "%s.size", l->dir);
        while (high - low > STEP) {
                uint64_t middle = (low + high) / 2;
                struct engine_options o = l->o;
                struct err e;
                bool enough = false;

                o.state_dir = dir;
                o.pool_size = middle;
                /* Larger batches need more of a window's blocks. */
                o.batch_tokens = (ENGINE_OPTIONS_DEFAULT).batch_tokens;
                if (engine_open(&l->en, &o, &e) == 0) {
                        /* One more than the tokens need is for the copy of a shared one. */
                        enough = life_stat(l, "pool_capacity_tokens", 0) >= (n - 1) * BLOCK_TOKENS;
                        engine_free(l->en);
                }
                if (enough)
                        high = middle;
                else
                        low = middle;
        }
        life_remove_dir(dir);
        l->en = other;
        return of_kv[n] = high;
}
