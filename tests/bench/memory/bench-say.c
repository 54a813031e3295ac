/* SPDX-License-Identifier: MIT */
/*
 * bench-say SOCKET [USER]: a measuring client, as that USER (see user.h). Reads requests from stdin, one per line,
 *
 *      open NAME
 *      say NAME MAX-TOKENS TOKEN TOKEN ...
 *      say-at NAME TURNS MAX-TOKENS [TOKEN ...]
 *      tell NAME MAX-TOKENS WORD WORD ...
 *      fork NAME NEW-NAME
 *      evict NAME
 *      close NAME
 *      stat NAME-OF-A-FIGURE
 *      quit
 *
 * say-at keeps the first TURNS turns and goes on from there; without tokens it replies once more. tell
 * says a message of words, in the model's chat format.
 * Each request is answered with a line of JSON: {"value":N} for stat, and for say, say-at and tell the
 * seconds from sending the request to its first token ("first"), to its first text ("text_first", if there is none the end) and to
 * its end ("total"), where the memory came from, the text of the reply and its tokens. For the others it is {"total":SECONDS}. An error is
 * {"error":"..."}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/util.h"
#include "bench.h"
#include "client/confab.h"
#include "user.h"

#define MAX_TOKENS 65536

struct said {
        double sent, first, text_first, ended;
        struct confab_done done;
        int32_t *reply;
        size_t n_reply;
        struct buf text;
        const char *figure;
        uint64_t value;
};

static void on_event(void *userdata, const struct confab_event *event) {
        struct said *s = userdata;

        switch (event->kind) {
        case CONFAB_EVENT_DELTA:
                if (s->text.size == 0 && event->delta->text_size > 0)
                        s->text_first = bench_now();
                if (buf_append(&s->text, event->delta->text, event->delta->text_size) < 0)
                        bench_die("out of memory");
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

static void print_text(const struct buf *text) {
        struct buf out = BUF_NULL;
        struct json json;

        json_init(&json, &out);
        json_put_string_n(&json, text->data, text->size);
        if (json_finish(&json) < 0)
                bench_die("out of memory");
        fwrite(out.data, 1, out.size, stdout);
        buf_deinit(&out);
}

static void print_said(const struct said *s) {
        printf("{\"first\":%.6f,\"text_first\":%.6f,\"total\":%.6f,\"n_prompt\":%u,\"n_ram\":%u,"
               "\"n_disk\":%u,"
               "\"n_computed\":%u,\"queued\":%.6f,\"restore\":%.6f,\"prefill\":%.6f,\"text\":",
                s->first - s->sent, (s->text_first > 0 ? s->text_first : s->ended) - s->sent,
                s->ended - s->sent, s->done.n_prompt, s->done.n_ram, s->done.n_disk,
                s->done.n_computed, (double)s->done.queued_usec / 1e6,
                (double)s->done.restore_usec / 1e6, (double)s->done.prefill_usec / 1e6);
        print_text(&s->text);
        printf(",\"tokens\":[");
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
                        printf("{\"total\":%.6f}\n", s->ended - s->sent);
        }
        buf_deinit(&s->text);
        fflush(stdout);
}

static uint32_t next_number(const char *what) {
        const char *word = strtok(NULL, " ");

        if (!word)
                bench_die("%s is missing", what);
        return (uint32_t)bench_number(word);
}

static void say(struct confab *c, char *rest, bool at, int32_t *tokens, int32_t *reply) {
        struct confab_sampling greedy = {.has = CONFAB_HAS_TEMPERATURE};
        struct confab_request q = CONFAB_REQUEST_INIT;
        struct said s = {.reply = reply};
        char *word;

        q.verb = CONFAB_CONTINUE;
        q.conversation = strtok(rest, " ");
        q.has_at_turn = at;
        if (at)
                q.at_turn = next_number("the number of turns");
        q.has_max_tokens = true;
        q.max_tokens = next_number("the number of tokens");
        q.ignore_eos = true;
        q.sampling = &greedy;
        q.tokens = tokens;
        while ((word = strtok(NULL, " ")) && q.n_tokens < MAX_TOKENS)
                tokens[q.n_tokens++] = (int32_t)bench_number(word);
        if (q.n_tokens)
                q.input = CONFAB_INPUT_TOKENS;
        run(c, &q, &s);
}

/* A user's message: the rest of the line. */
static void tell(struct confab *c, char *rest, int32_t *reply) {
        struct confab_sampling greedy = {.has = CONFAB_HAS_TEMPERATURE};
        struct confab_message message = {.role = CONFAB_ROLE_USER};
        struct confab_request q = CONFAB_REQUEST_INIT;
        struct said s = {.reply = reply};

        q.verb = CONFAB_CONTINUE;
        q.conversation = strtok(rest, " ");
        q.has_max_tokens = true;
        q.max_tokens = next_number("the number of tokens");
        q.sampling = &greedy;
        message.text = strtok(NULL, "");
        if (!message.text)
                bench_die("the message is missing");
        message.text_size = strlen(message.text);
        q.input = CONFAB_INPUT_MESSAGES;
        q.messages = &message;
        q.n_messages = 1;
        run(c, &q, &s);
}

/* A request that has nothing but names. */
static void simple(struct confab *c, enum confab_verb verb, char *rest) {
        struct confab_request q = CONFAB_REQUEST_INIT;
        struct said s = {0};

        q.verb = verb;
        if (verb == CONFAB_OPEN)
                q.name = rest;
        else if (verb == CONFAB_STATS)
                s.figure = rest;
        else
                q.conversation = strtok(rest, " ");
        if (verb == CONFAB_FORK)
                q.name = strtok(NULL, " ");
        run(c, &q, &s);
}

static void serve_line(struct confab *c, char *line, int32_t *tokens, int32_t *reply) {
        static const struct {
                const char *word;
                enum confab_verb verb;
        } others[] = {
                {"open", CONFAB_OPEN},
                {"fork", CONFAB_FORK},
                {"evict", CONFAB_EVICT},
                {"close", CONFAB_CLOSE},
                {"stat", CONFAB_STATS},
        };
        char *rest = strchr(line, ' ');

        if (rest) {
                *rest++ = '\0';
                if (!strcmp(line, "say") || !strcmp(line, "say-at")) {
                        say(c, rest, !strcmp(line, "say-at"), tokens, reply);
                        return;
                }
                if (!strcmp(line, "tell")) {
                        tell(c, rest, reply);
                        return;
                }
                for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                        if (!strcmp(line, others[i].word)) {
                                simple(c, others[i].verb, rest);
                                return;
                        }
        }
        bench_die("'%s' is no request", line);
}

int main(int argc, char **argv) {
        _cleanup_(freep) int32_t *tokens = bench_alloc(MAX_TOKENS * sizeof(*tokens));
        _cleanup_(freep) int32_t *reply = bench_alloc(MAX_TOKENS * sizeof(*reply));
        _cleanup_(freep) char *line = NULL;
        struct confab *c;
        size_t size = 0;
        ssize_t n;

        if (argc != 2 && argc != 3) {
                fputs("usage: bench-say SOCKET [USER]\n", stderr);
                return 2;
        }
        c = user_connect(argv[1], argv[2]);
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
