/* SPDX-License-Identifier: MIT */
/*
 * Round trips of requests that are answered at once. A round has one of each kind, so that whatever else happens on the
 * machine happens to all kinds. Nothing is in flight beside a request, and the next one follows at once: what is measured
 * is the way there and back, with libconfab's part of it.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/util.h"
#include "bench.h"
#include "exchange.h"
#include "service.h"
#include "user.h"

#define KINDS 16
#define MOST_OPENS 200000
#define MOST_REQUEST ((size_t)1 << 20)

/* Seconds of all rounds, by kind. */
struct times {
        const char *names[KINDS];
        size_t n_kinds;
        double *seconds[KINDS]; /* [n_rounds], room for `rounds` */
        size_t n_rounds, rounds;
        double until; /* bench_now() */
};

static void times_init(struct times *t, const char *rounds, const char *seconds) {
        *t = (struct times){.rounds = bench_number(rounds)};
        t->until = bench_now() + (double)bench_number(seconds);
        if (t->rounds == 0)
                bench_die("no rounds");
}

static void times_add(struct times *t, const char *name) {
        if (t->n_kinds == KINDS)
                bench_die("more than %d kinds", KINDS);
        t->names[t->n_kinds] = name;
        t->seconds[t->n_kinds++] = bench_alloc(t->rounds * sizeof(double));
}

static bool times_go_on(const struct times *t) {
        return t->n_rounds < t->rounds && bench_now() < t->until;
}

static void times_end(struct times *t) {
        for (size_t i = 0; i < t->n_kinds; i++) {
                bench_put(t->names[i], t->seconds[i], t->n_rounds);
                free(t->seconds[i]);
        }
}

static void take_id(void *userdata, const struct confab_event *event) {
        uint64_t *id = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *id = event->conversation->id;
}

void service_trips(int n, char **args) {
        static const struct {
                const char *name;
                enum confab_verb verb;
        } kinds[] = {
                {"get", CONFAB_GET},
                {"list", CONFAB_LIST},
                {"tokenize", CONFAB_TOKENIZE},
                {"model_info", CONFAB_MODEL_INFO},
                {"open", CONFAB_OPEN},
                {"close", CONFAB_CLOSE},
        };
        struct confab_request open = CONFAB_REQUEST_INIT;
        uint64_t kept = 0, opened = 0;
        struct confab *c;
        struct times t;

        (void)n;
        c = user_connect(args[0], args[1]);
        open.verb = CONFAB_OPEN;
        user_call(c, &open, take_id, &kept);
        times_init(&t, args[2], args[3]);
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                times_add(&t, kinds[i].name);
        for (; times_go_on(&t); t.n_rounds++)
                for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                        struct confab_request r = CONFAB_REQUEST_INIT;
                        double begin;

                        r.verb = kinds[i].verb;
                        r.conversation_id = r.verb == CONFAB_CLOSE ? opened : kept;
                        r.limit = 1;
                        r.text = "word";
                        r.text_size = 4;
                        begin = bench_now();
                        user_call(c, &r, r.verb == CONFAB_OPEN ? take_id : NULL, &opened);
                        t.seconds[i][t.n_rounds] = bench_now() - begin;
                }
        times_end(&t);
        confab_free(c);
}

static bool has_ended(int pidfd) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};

        return poll(&p, 1, 0) > 0;
}

void service_opens(int n, char **args) {
        bool beside = !strncmp(args[2], "pid:", 4);
        struct confab *c = user_connect(args[0], args[1]);
        double *seconds, until;
        size_t n_seconds = 0;
        int pidfd = -1;

        (void)n;
        seconds = bench_alloc(MOST_OPENS * sizeof(*seconds));
        if (beside) {
                pidfd = (int)syscall(SYS_pidfd_open, (pid_t)bench_number(args[2] + 4), 0);
                if (pidfd < 0)
                        bench_die("pidfd_open: %m");
        }
        until = bench_now() + (beside ? 0 : (double)bench_number(args[2]));
        while (n_seconds < MOST_OPENS && (beside ? !has_ended(pidfd) : bench_now() < until)) {
                struct confab_request open = CONFAB_REQUEST_INIT;
                double begin = bench_now();

                open.verb = CONFAB_OPEN;
                user_call(c, &open, NULL, NULL);
                seconds[n_seconds++] = bench_now() - begin;
        }
        if (n_seconds == 0)
                bench_die("it ended before anything was opened");
        bench_put("open", seconds, n_seconds);
        if (pidfd >= 0)
                close(pidfd);
        confab_free(c);
        free(seconds);
}

static void read_request(struct buf *b) {
        char line[32];
        size_t size;

        if (!fgets(line, sizeof(line), stdin))
                bench_die("a request is missing");
        line[strcspn(line, "\n")] = '\0';
        size = bench_number(line);
        if (size > MOST_REQUEST || buf_reserve(b, size) < 0)
                bench_die("a request of %zu bytes is too large", size);
        if (fread(b->data, 1, size, stdin) != size)
                bench_die("a request is not complete");
        b->size = size;
}

void service_http(int n, char **args) {
        struct buf requests[KINDS] = {0};
        size_t n_failed = 0;
        struct times t;
        int s;

        times_init(&t, args[1], args[2]);
        for (int i = 3; i < n; i++) {
                times_add(&t, args[i]);
                read_request(&requests[t.n_kinds - 1]);
        }
        s = exchange_connect(args[0]);
        for (; times_go_on(&t); t.n_rounds++)
                for (size_t i = 0; i < t.n_kinds; i++) {
                        struct exchange x;

                        if (s < 0) /* llama-server closes a connection every hundredth time */
                                s = exchange_connect(args[0]);
                        s = exchange_ask(&x, args[0], s, &requests[i]);
                        if (exchange_status(&x) != 200)
                                n_failed++;
                        t.seconds[i][t.n_rounds] = x.end - x.begin;
                        buf_deinit(&x.data);
                }
        if (s >= 0)
                close(s);
        for (size_t i = 0; i < t.n_kinds; i++)
                buf_deinit(&requests[i]);
        times_end(&t);
        bench_put1("failed", (double)n_failed);
}
