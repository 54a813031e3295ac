/* SPDX-License-Identifier: MIT */
/*
 * bench-beside MODEL DIR THREADS STREAMS HISTORY PROMPT SHARE,SHARE,...: the interval between the tokens of
 * STREAMS replies without a prompt and while one of PROMPT tokens is computed, and how fast that goes,
 * through engine.h, for each prefill-share. First, how fast the prompt is alone. The streams begin with HISTORY
 * tokens behind them, and go on meanwhile: so the intervals without a prompt are those before it and, at the depth
 * that was reached, those after it. All are of one user, and nothing is drafted: a prompt takes its place.
 *
 * For each share: beside.interval.alone, beside.interval.beside (all intervals, in seconds) and
 * beside.prompt (seconds until the first token of the prompt's reply), with .SHARE behind the names.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "bench.h"
#include "drive.h"

#define MAX_STREAMS 64
#define MAX_SHARES 16
#define MAX_INTERVALS 100000
#define MOST_TOKENS 12000 /* of a reply: the engine keeps room for all of them */
#define ALONE 40          /* intervals of each stream without a prompt, before it and after */

struct beside {
        struct drive d;
        uint32_t n_vocab, n_streams, history, prompt;
        uint64_t seed;
        struct stream {
                uint64_t handle;
                double last; /* when the last token came; 0: none has */
                uint32_t n;  /* intervals */
                bool ended;
        } streams[MAX_STREAMS];
        double *intervals; /* [MAX_INTERVALS], being collected */
        size_t n;
        double alone[2 * ALONE * MAX_STREAMS + 2 * MAX_STREAMS];
        size_t n_alone;
        struct stream asked; /* the prompt */
        double first;        /* when its reply began; 0: not yet */
};

static void *need(void *p) {
        if (!p)
                bench_die("no memory");
        return p;
}

static int32_t *draw(struct beside *b, size_t n) {
        int32_t *tokens = need(malloc(n * sizeof(*tokens)));

        for (size_t i = 0; i < n; i++)
                tokens[i] = (int32_t)(bench_random(&b->seed) % b->n_vocab);
        return tokens;
}

static void take_stream(
        struct beside *b, struct stream *s, const struct engine_event *ev, double now) {
        if (ev->kind == ENGINE_DELTA) {
                if (s->last > 0 && b->n < MAX_INTERVALS)
                        b->intervals[b->n++] = now - s->last;
                s->n += s->last > 0;
                s->last = now;
        }
        s->ended = s->ended || ev->final;
}

static void take_event(struct beside *b) {
        struct pollfd p = {.fd = engine_fd(b->d.en), .events = POLLIN};
        struct engine_event *ev;
        double now;

        while (!(ev = engine_next_event(b->d.en)))
                poll(&p, 1, -1);
        now = bench_now();
        if (ev->kind == ENGINE_ERROR && ev->err.code != ERR_CANCELLED)
                bench_die("the engine: %s", ev->err.msg);
        for (uint32_t i = 0; i < b->n_streams; i++)
                if (ev->handle == b->streams[i].handle)
                        take_stream(b, &b->streams[i], ev, now);
        if (ev->handle == b->asked.handle && ev->kind == ENGINE_DELTA && b->first == 0)
                b->first = now;
        if (ev->handle == b->asked.handle && ev->final)
                b->asked.ended = true;
        engine_event_free(ev);
}

static void ask(struct beside *b, uint32_t n_tokens, uint32_t max_tokens, uint64_t *ret_handle) {
        int32_t *tokens = draw(b, n_tokens);
        struct engine_request q = {.verb = ENGINE_CONTINUE,
                .conv_id = drive_new(&b->d),
                .input = ENGINE_INPUT_TOKENS,
                .tokens = tokens,
                .n_tokens = n_tokens,
                .max_tokens = max_tokens,
                .ignore_eos = true,
                .sampling = {.has = SAMPLING_TEMPERATURE}};
        struct err e;

        q.handle = *ret_handle = b->d.next++;
        bench_check(engine_submit(b->d.en, &q, &e), &e, "engine");
        free(tokens);
}

static uint32_t fewest(const struct beside *b) {
        uint32_t n = UINT32_MAX;

        for (uint32_t i = 0; i < b->n_streams; i++) {
                if (b->streams[i].ended)
                        bench_die("a reply ended early");
                n = MIN(n, b->streams[i].n);
        }
        return n;
}

static void put(const char *what, uint32_t share, const double *intervals, size_t n) {
        char name[64];

        snprintf(name, sizeof(name), "beside.interval.%s.%u", what, share);
        bench_put(name, intervals, n);
}

/* Intervals of the replies alone. */
static void collect_alone(struct beside *b) {
        b->n = 0;
        for (uint32_t at = fewest(b); fewest(b) < at + ALONE;)
                take_event(b);
        b->n = MIN(b->n, ARRAY_SIZE(b->alone) - b->n_alone);
        memcpy(b->alone + b->n_alone, b->intervals, b->n * sizeof(*b->alone));
        b->n_alone += b->n;
}

static void measure(struct beside *b, uint32_t share) {
        char name[64];
        double start;

        for (uint32_t i = 0; i < b->n_streams; i++) {
                b->streams[i] = (struct stream){0};
                ask(b, b->history, MOST_TOKENS, &b->streams[i].handle);
                while (b->streams[i].n <
                        2) /* one prompt after another: this one is no part of it */
                        take_event(b);
        }
        b->n_alone = 0;
        collect_alone(b);
        b->n = 0;
        b->first = 0;
        b->asked.ended = false;
        start = bench_now();
        ask(b, b->prompt, 1, &b->asked.handle);
        while (b->first == 0)
                take_event(b);
        put("beside", share, b->intervals, b->n);
        snprintf(name, sizeof(name), "beside.prompt.%u", share);
        bench_put1(name, b->first - start);
        while (!b->asked.ended)
                take_event(b);
        collect_alone(b);
        put("alone", share, b->alone, b->n_alone);
        for (uint32_t i = 0; i < b->n_streams; i++)
                engine_cancel(b->d.en, b->streams[i].handle);
        for (uint32_t i = 0; i < b->n_streams; i++)
                while (!b->streams[i].ended)
                        take_event(b);
}

static void measure_alone(struct beside *b) {
        double start = bench_now();
        uint64_t handle;

        b->first = 0;
        b->asked.ended = false;
        ask(b, b->prompt, 1, &handle);
        b->asked.handle = handle;
        while (b->first == 0)
                take_event(b);
        bench_put1("beside.prompt.alone", b->first - start);
        while (!b->asked.ended)
                take_event(b);
}

int main(int argc, char **argv) {
        static struct beside b = {.seed = 17};
        struct engine_options o = ENGINE_OPTIONS_DEFAULT;
        uint32_t shares[MAX_SHARES];
        size_t n_shares;

        if (argc != 8)
                bench_die("usage: bench-beside MODEL DIR THREADS STREAMS HISTORY PROMPT "
                          "SHARE,SHARE,...");
        o.model_path = argv[1];
        o.n_threads = (uint32_t)bench_number(argv[3]);
        b.n_streams = (uint32_t)MIN(bench_number(argv[4]), (uint64_t)MAX_STREAMS);
        b.history = (uint32_t)bench_number(argv[5]);
        b.prompt = (uint32_t)bench_number(argv[6]);
        n_shares = bench_numbers(argv[7], shares, MAX_SHARES);
        b.intervals = need(calloc(MAX_INTERVALS, sizeof(*b.intervals)));
        o.max_active = b.n_streams + 1;
        o.spill_delay_ms = UINT32_MAX;
        o.speculation = false;
        for (size_t i = 0; i < n_shares; i++) {
                char dir[4096];

                snprintf(dir, sizeof(dir), "%s/share-%u", argv[2], shares[i]);
                o.state_dir = dir;
                o.prefill_share = shares[i];
                drive_open(&b.d, &o);
                b.n_vocab = drive_n_vocab(&b.d);
                if (i == 0)
                        measure_alone(&b);
                measure(&b, shares[i]);
                drive_close(&b.d);
        }
        free(b.intervals);
        return 0;
}
