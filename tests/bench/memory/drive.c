/* SPDX-License-Identifier: MIT */
#include "drive.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"

void drive_open(struct drive *d, const struct engine_options *o) {
        struct engine_options capped = *o;
        struct err e;

        *d = (struct drive){.next = 1};
        capped.max_isa = bench_isa();
        bench_check(engine_open(&d->en, &capped, &e), &e, o->model_path);
}

static struct engine_event *next_event(struct drive *d) {
        struct pollfd p = {.fd = engine_fd(d->en), .events = POLLIN};
        struct engine_event *ev;

        while (!(ev = engine_next_event(d->en)))
                poll(&p, 1, -1);
        if (ev->kind == ENGINE_LOG)
                bench_note("engine: %s", ev->err.msg);
        return ev;
}

void drive_close(struct drive *d) {
        bool stopped = false;

        engine_stop(d->en);
        while (!stopped) {
                struct engine_event *ev = next_event(d);

                stopped = ev->kind == ENGINE_STOPPED;
                engine_event_free(ev);
        }
        d->en = engine_free(d->en);
}

static void take(struct drive_answer *a, struct engine_event *ev) {
        double now = bench_now();

        switch (ev->kind) {
        case ENGINE_ERROR:
                bench_die("the engine: %s", ev->err.msg);
        case ENGINE_ACCEPTED:
                a->accepted = now;
                break;
        case ENGINE_DELTA:
                if (a->first == 0)
                        a->first = now;
                break;
        case ENGINE_DONE:
                a->n_prompt = ev->done.n_prompt;
                a->n_ram = ev->done.n_ram;
                a->n_disk = ev->done.n_disk;
                a->n_shared = ev->done.n_shared;
                a->n_computed = ev->done.n_computed;
                a->prefill = (double)ev->done.prefill_usec / 1e6;
                a->decode = (double)ev->done.decode_usec / 1e6;
                a->n_generated = ev->done.n_generated;
                a->n_drafted = ev->done.n_drafted;
                a->n_accepted = ev->done.n_accepted;
                break;
        case ENGINE_CONVS:
                a->conv = ev->convs.n > 0 ? ev->convs.convs[0].id : 0;
                break;
        case ENGINE_CONV:
                a->conv = ev->conv.id;
                a->n_tokens = ev->conv.n_tokens;
                a->tokens = TAKE_PTR(ev->conv.tokens);
                break;
        default:
                break;
        }
        if (ev->final)
                a->ended = now;
}

void drive_do(struct drive *d, struct engine_request *q, struct drive_answer *ret) {
        struct drive_answer a = {.sent = bench_now()};
        struct err e;

        q->handle = d->next++;
        bench_check(engine_submit(d->en, q, &e), &e, "engine");
        while (a.ended == 0) {
                struct engine_event *ev = next_event(d);

                if (ev->handle == q->handle)
                        take(&a, ev);
                engine_event_free(ev);
        }
        if (ret)
                *ret = a;
        else
                free(a.tokens);
}

uint64_t drive_new(struct drive *d) {
        struct engine_request q = {.verb = ENGINE_OPEN};
        struct drive_answer a;

        drive_do(d, &q, &a);
        return a.conv;
}

uint64_t drive_first(struct drive *d) {
        struct engine_request q = {.verb = ENGINE_LIST, .limit = 1};
        struct drive_answer a;

        drive_do(d, &q, &a);
        return a.conv;
}

uint64_t drive_fork(struct drive *d, uint64_t conv, uint32_t at_turn, struct drive_answer *ret) {
        struct engine_request q = {.verb = ENGINE_FORK,
                .conv_id = conv,
                .at_turn = at_turn,
                .at_position = ENGINE_UNSET};
        struct drive_answer a;

        drive_do(d, &q, &a);
        if (ret)
                *ret = a;
        return a.conv;
}

void drive_simple(struct drive *d, enum engine_verb verb, uint64_t conv, struct drive_answer *ret) {
        struct engine_request q = {.verb = verb, .conv_id = conv};

        drive_do(d, &q, ret);
}

void drive_tokens(struct drive *d, uint64_t conv, const int32_t *tokens, size_t n,
        uint32_t max_tokens, struct drive_answer *ret) {
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .conv_id = conv,
                .input = n ? ENGINE_INPUT_TOKENS : ENGINE_INPUT_NONE,
                .tokens = tokens,
                .n_tokens = n,
                .max_tokens = max_tokens,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE}};

        drive_do(d, &q, ret);
}

double drive_stat(struct drive *d, const char *name) {
        struct engine_request q = {.verb = ENGINE_STATS, .handle = d->next++};
        double value = -1;
        bool ended = false;
        struct err e;

        bench_check(engine_submit(d->en, &q, &e), &e, "engine");
        while (!ended) {
                struct engine_event *ev = next_event(d);

                if (ev->handle == q.handle && ev->kind == ENGINE_STATS_RESULT) {
                        for (size_t i = 0; i < ev->stats.n; i++)
                                if (strcmp(ev->stats.stats[i].name, name) == 0)
                                        value = (double)ev->stats.stats[i].value;
                        ended = true;
                }
                engine_event_free(ev);
        }
        if (value < 0)
                bench_die("the engine has no figure '%s'", name);
        return value;
}

uint32_t drive_n_vocab(struct drive *d) {
        struct engine_request q = {.verb = ENGINE_MODEL_INFO, .handle = d->next++};
        uint32_t n = 0;
        struct err e;

        bench_check(engine_submit(d->en, &q, &e), &e, "engine");
        while (n == 0) {
                struct engine_event *ev = next_event(d);

                if (ev->handle == q.handle && ev->kind == ENGINE_INFO)
                        n = ev->info.n_vocab;
                engine_event_free(ev);
        }
        return n;
}
