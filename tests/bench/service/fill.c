/* SPDX-License-Identifier: MIT */
/*
 * Conversations by the thousand, several in flight on one connection, and the first token of one. Tokens are drawn at
 * random, so that no conversation begins like another one; where that is wanted, they are forks.
 */
#include <stdlib.h>

#include "base/util.h"
#include "bench.h"
#include "service.h"
#include "user.h"

#define MOST_TOKENS 4096
#define FIRST_TOKEN 300 /* of a word, in all vocabularies that are used here */

struct filling {
        struct confab *c;
        size_t n_left, n_tokens;
        uint64_t random, parent, n_vocab;
};

struct job {
        struct filling *f;
        uint64_t id;
};

static void next(struct job *job);

static void submit(struct job *job, const struct confab_request *r, confab_event_fn fn) {
        struct confab_error e;

        if (confab_submit(job->f->c, r, fn, job, NULL, &e) < 0)
                bench_die("%s", e.message);
}

/* A request ended: its error ends the program. */
static bool ended(const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_ERROR)
                bench_die("%s", event->error->message);
        return event->final;
}

static void on_told(void *userdata, const struct confab_event *event) {
        if (ended(event))
                next(userdata);
}

/* The tokens of a conversation, and no reply. */
static void tell(struct job *job) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct filling *f = job->f;
        int32_t tokens[MOST_TOKENS];

        for (size_t i = 0; i < f->n_tokens; i++)
                tokens[i] = (int32_t)(FIRST_TOKEN +
                                      bench_random(&f->random) % (f->n_vocab - FIRST_TOKEN));
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = job->id;
        r.input = CONFAB_INPUT_TOKENS;
        r.tokens = tokens;
        r.n_tokens = f->n_tokens;
        r.has_max_tokens = true;
        submit(job, &r, on_told);
}

static void on_opened(void *userdata, const struct confab_event *event) {
        struct job *job = userdata;

        if (!ended(event))
                return;
        job->id = event->conversation->id;
        tell(job);
}

static void next(struct job *job) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        if (job->f->n_left == 0)
                return;
        job->f->n_left--;
        r.verb = job->f->parent ? CONFAB_FORK : CONFAB_OPEN;
        r.conversation_id = job->f->parent;
        submit(job, &r, job->f->parent ? on_told : on_opened);
}

static void wait_for_all(struct confab *c) {
        struct confab_error e;

        while (confab_get_n_pending(c) > 0)
                if (confab_wait(c, -1, &e) < 0)
                        bench_die("%s", e.message);
}

static void take_vocabulary(void *userdata, const struct confab_event *event) {
        uint64_t *n = userdata;

        if (event->kind == CONFAB_EVENT_MODEL_INFO)
                *n = event->model_info->n_vocab;
}

static void fill(char **args, bool forks) {
        size_t n = bench_number(args[2]), n_jobs = bench_number(args[3]);
        struct confab_request info = CONFAB_REQUEST_INIT;
        struct filling f = {.random = 1, .n_tokens = bench_number(args[4])};
        struct job *jobs = bench_alloc(n_jobs * sizeof(*jobs));
        double begin = bench_now();

        if (n == 0 || n_jobs == 0 || f.n_tokens == 0 || f.n_tokens > MOST_TOKENS)
                bench_die("conversations, jobs and 1 to %d tokens", MOST_TOKENS);
        f.c = user_connect(args[0], args[1]);
        info.verb = CONFAB_MODEL_INFO;
        user_call(f.c, &info, take_vocabulary, &f.n_vocab);
        if (f.n_vocab <= FIRST_TOKEN)
                bench_die(
                        "a vocabulary of %llu tokens is too small", (unsigned long long)f.n_vocab);
        for (size_t i = 0; i < n_jobs; i++)
                jobs[i].f = &f;
        if (forks) {
                f.n_left = 1;
                next(&jobs[0]);
                wait_for_all(f.c);
                f.parent = jobs[0].id;
                n--;
        }
        f.n_left = n;
        for (size_t i = 0; i < n_jobs; i++)
                next(&jobs[i]);
        wait_for_all(f.c);
        bench_put1("seconds", bench_now() - begin);
        confab_free(f.c);
        free(jobs);
}

void service_fill(int n, char **args) {
        (void)n;
        fill(args, false);
}

void service_forks(int n, char **args) {
        (void)n;
        fill(args, true);
}

/* --- eviction --- */

struct page {
        uint64_t ids[32], after; /* as many evictions in flight; max-user-requests is 64 */
        size_t n;
        bool more;
};

static void take_page(void *userdata, const struct confab_event *event) {
        struct page *page = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        page->more = event->conversations->more;
        for (size_t i = 0; i < event->conversations->n_items; i++) {
                page->after = event->conversations->items[i].id;
                if (page->n < ARRAY_SIZE(page->ids))
                        page->ids[page->n++] = page->after;
        }
}

static void on_evicted(void *userdata, const struct confab_event *event) {
        (void)userdata;
        (void)ended(event);
}

void service_evict(int n, char **args) {
        struct confab *c = user_connect(args[0], args[1]);
        struct page page = {.more = true};
        struct confab_error e;
        size_t total = 0;

        (void)n;
        while (page.more) {
                struct confab_request list = CONFAB_REQUEST_INIT;

                page.n = 0;
                list.verb = CONFAB_LIST;
                list.after_id = page.after;
                list.limit = ARRAY_SIZE(page.ids);
                user_call(c, &list, take_page, &page);
                for (size_t i = 0; i < page.n; i++) {
                        struct confab_request r = CONFAB_REQUEST_INIT;

                        r.verb = CONFAB_EVICT;
                        r.conversation_id = page.ids[i];
                        if (confab_submit(c, &r, on_evicted, NULL, NULL, &e) < 0)
                                bench_die("%s", e.message);
                }
                wait_for_all(c);
                total += page.n;
        }
        bench_put1("evicted", (double)total);
        confab_free(c);
}

/* --- the first token --- */

static void take_id(void *userdata, const struct confab_event *event) {
        uint64_t *id = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *id = event->conversation->id;
}

static void take_first(void *userdata, const struct confab_event *event) {
        double *first = userdata;

        if (event->kind == CONFAB_EVENT_DELTA && event->delta->n_tokens > 0 && *first == 0)
                *first = bench_now();
}

void service_first(int n, char **args) {
        struct confab_request open = CONFAB_REQUEST_INIT, r = CONFAB_REQUEST_INIT;
        int32_t tokens[MOST_TOKENS];
        double begin = bench_now(), opened, first = 0;
        struct confab *c;
        uint64_t id = 0;

        for (int i = 2; i < n && i - 2 < MOST_TOKENS; i++)
                tokens[r.n_tokens++] = (int32_t)bench_number(args[i]);
        c = user_connect(args[0], args[1]);
        open.verb = CONFAB_OPEN;
        user_call(c, &open, take_id, &id);
        opened = bench_now();
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = id;
        r.input = CONFAB_INPUT_TOKENS;
        r.tokens = tokens;
        r.has_max_tokens = r.ignore_eos = true;
        r.max_tokens = 1;
        user_call(c, &r, take_first, &first);
        bench_put1("opened", opened - begin);
        bench_put1("first", first - begin);
        confab_free(c);
}
