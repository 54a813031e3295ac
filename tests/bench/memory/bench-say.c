/* SPDX-License-Identifier: MIT */
/*
 * bench-say SOCKET: a measuring client. Reads requests from stdin, one per line,
 *
 *      open NAME
 *      say NAME MAX-TOKENS TOKEN TOKEN ...
 *      stat NAME-OF-A-FIGURE
 *      quit
 *
 * and answers each with a line of JSON: {} for open, {"value":N} for stat. For say these are the
 * seconds from sending the request to its first token and to its end, where the memory came from,
 * and the tokens of the reply. An error is {"error":"..."}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "bench.h"
#include "client/confab.h"

#define MAX_TOKENS 65536

struct said {
        double sent, first, ended;
        struct confab_done done;
        int32_t *reply;
        size_t n_reply;
        const char *figure;
        uint64_t value;
};

static void on_event(void *userdata, const struct confab_event *event) {
        struct said *s = userdata;

        switch (event->kind) {
        case CONFAB_EVENT_DELTA:
                for (size_t i = 0; i < event->delta->n_tokens && s->n_reply < MAX_TOKENS; i++) {
                        if (s->n_reply == 0)
                                s->first = bench_now();
                        s->reply[s->n_reply++] = event->delta->tokens[i].token;
                }
                break;
        case CONFAB_EVENT_DONE:
                s->done = *event->done;
                break;
        case CONFAB_EVENT_STATS:
                for (size_t i = 0; i < event->stats->n_stats; i++)
                        if (!strcmp(event->stats->stats[i].name, s->figure))
                                s->value = event->stats->stats[i].value;
                break;
        default:
                break;
        }
}

static void print_said(const struct said *s) {
        printf("{\"first\":%.6f,\"total\":%.6f,\"n_prompt\":%u,\"n_ram\":%u,\"n_disk\":%u,"
               "\"n_computed\":%u,\"queued\":%.6f,\"restore\":%.6f,\"prefill\":%.6f,\"tokens\":[",
                s->first - s->sent, s->ended - s->sent, s->done.n_prompt, s->done.n_ram,
                s->done.n_disk, s->done.n_computed, (double)s->done.queued_usec / 1e6,
                (double)s->done.restore_usec / 1e6, (double)s->done.prefill_usec / 1e6);
        for (size_t i = 0; i < s->n_reply; i++)
                printf("%s%d", i ? "," : "", s->reply[i]);
        printf("]}\n");
}

static void run(struct confab *c, struct confab_request *q, struct said *s) {
        struct confab_error e;

        s->sent = bench_now();
        if (confab_call(c, q, on_event, s, &e) < 0) {
                printf("{\"error\":\"%s\"}\n", e.code);
                fprintf(stderr, "bench-say: %s\n", e.message);
        } else {
                s->ended = bench_now();
                if (q->verb == CONFAB_CONTINUE)
                        print_said(s);
                else if (q->verb == CONFAB_STATS)
                        printf("{\"value\":%llu}\n", (unsigned long long)s->value);
                else
                        printf("{}\n");
        }
        fflush(stdout);
}

static void say(struct confab *c, char *rest, int32_t *tokens, int32_t *reply) {
        struct confab_sampling greedy = {.has = CONFAB_HAS_TEMPERATURE};
        struct confab_request q = CONFAB_REQUEST_INIT;
        struct said s = {.reply = reply};
        char *word;

        q.verb = CONFAB_CONTINUE;
        q.conversation = strtok(rest, " ");
        word = strtok(NULL, " ");
        if (!word)
                bench_die("say NAME MAX-TOKENS TOKEN ...");
        q.has_max_tokens = true;
        q.max_tokens = (uint32_t)bench_number(word);
        q.input = CONFAB_INPUT_TOKENS;
        q.ignore_eos = true;
        q.sampling = &greedy;
        q.tokens = tokens;
        while ((word = strtok(NULL, " ")) && q.n_tokens < MAX_TOKENS)
                tokens[q.n_tokens++] = (int32_t)bench_number(word);
        run(c, &q, &s);
}

static void serve_line(struct confab *c, char *line, int32_t *tokens, int32_t *reply) {
        struct confab_request q = CONFAB_REQUEST_INIT;
        struct said s = {0};
        char *rest = strchr(line, ' ');

        if (!rest)
                bench_die("'%s' is no request", line);
        *rest++ = '\0';
        if (!strcmp(line, "say")) {
                say(c, rest, tokens, reply);
        } else if (!strcmp(line, "open")) {
                q.verb = CONFAB_OPEN;
                q.name = rest;
                run(c, &q, &s);
        } else if (!strcmp(line, "stat")) {
                q.verb = CONFAB_STATS;
                s.figure = rest;
                run(c, &q, &s);
        } else {
                bench_die("'%s' is no request", line);
        }
}

int main(int argc, char **argv) {
        _cleanup_(freep) int32_t *tokens = bench_alloc(MAX_TOKENS * sizeof(*tokens));
        _cleanup_(freep) int32_t *reply = bench_alloc(MAX_TOKENS * sizeof(*reply));
        _cleanup_(freep) char *line = NULL;
        struct confab *c = NULL;
        struct confab_error e;
        size_t size = 0;
        ssize_t n;

        if (argc != 2) {
                fputs("usage: bench-say SOCKET\n", stderr);
                return 2;
        }
        if (confab_connect(&c, argv[1], &e) < 0)
                bench_die("%s", e.message);
        while ((n = getline(&line, &size, stdin)) > 0) {
                if (line[n - 1] == '\n')
                        line[n - 1] = '\0';
                if (!strcmp(line, "quit"))
                        break;
                serve_line(c, line, tokens, reply);
        }
        confab_free(c);
        return 0;
}
