/* SPDX-License-Identifier: MIT */
/*
 * bench-find [CONVERSATIONS...]: how long Find takes in registers of 10, 1000 and 10000 conversations (or
 * as many as are named) of ten turns, hundreds of which begin alike; how long the next start takes when
 * their chains are unknown, as after the upgrade; and what the chains cost a Continue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "find-rig.h"
#include "util/test.h"

#define TURNS 10
#define ROUNDS 201
#define REPLY_TOKENS 100

static char texts[2][TURNS][512];

/* Turn @t of conversation @i: the first two are those of every 20th conversation. */
static void write_text(char *text, unsigned i, unsigned t) {
        unsigned who = t < 2 ? i % 20 : i;

        snprintf(text, 512, "turn %u of %u: %s", t, who,
                t % 2 ? "an answer of a usual length, which says something about the question and "
                        "something else besides, and then comes to its end in a second sentence."
                      : "a question of a usual length?");
}

static void make_list(struct list_of *l, unsigned i, unsigned slot) {
        l->n = 0;
        for (unsigned t = 0; t < TURNS; t++) {
                write_text(texts[slot][t], i, t);
                put(l, t % 2 ? ENGINE_ASSISTANT : ENGINE_USER, texts[slot][t]);
        }
}

static void add(struct erig *r, unsigned i) {
        static struct list_of l;
        static struct answer a;
        struct engine_request q = erig_say_request(tools_new(r, NULL, NULL), "", 0);

        make_list(&l, i, 0);
        q.input = ENGINE_INPUT_MESSAGES;
        q.text = NULL;
        q.messages = l.m;
        q.n_messages = l.n;
        if (erig_do(r, &q, &a) != ENGINE_DONE)
                fail_msg("%s", a.err.msg);
}

static int compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static void measure(struct erig *r, unsigned n, const char *what, unsigned length, bool other) {
        static uint64_t usec[ROUNDS];
        static struct list_of l;
        unsigned expected = length;

        for (unsigned i = 0; i < ROUNDS; i++) {
                uint64_t t;

                make_list(&l, (i * 37) % n, 1);
                l.n = length;
                if (other) {
                        l.m[2].text = "another question";
                        l.m[2].text_size = 16;
                        expected = 2;
                }
                t = clock_monotonic_usec();
                find_as(r, &l, NULL, NULL);
                usec[i] = clock_monotonic_usec() - t;
                assert_int_equal(found.found.n_messages, expected);
        }
        qsort(usec, ROUNDS, sizeof(usec[0]), compare);
        printf("%6u conversations  %-34s median %5llu us, 99%% %5llu us\n", n, what,
                (unsigned long long)usec[ROUNDS / 2], (unsigned long long)usec[ROUNDS * 99 / 100]);
}

static void start_without_chains(struct erig *r, unsigned n) {
        uint64_t t[3];

        for (int i = 0; i < 2; i++) {
                erig_stop(r, true);
                if (i == 1)
                        find_sql(r, "UPDATE turn SET chain = NULL");
                t[i] = clock_monotonic_usec();
                erig_start(r);
                t[i] = clock_monotonic_usec() - t[i];
        }
        printf("%6u conversations  start %.2f s, with all chains unknown %.2f s\n", n,
                (double)t[0] / 1e6, (double)t[1] / 1e6);
}

/* Replies that were generated are read from their tokens. */
static void start_with_replies(struct erig *r, unsigned n) {
        uint64_t c = tools_new(r, NULL, NULL);
        static struct answer a;

        for (unsigned i = 0; i < TURNS / 2; i++) {
                struct engine_request q = erig_long_request(c, "a question", REPLY_TOKENS);

                q.want_logprobs = false;
                if (erig_do(r, &q, &a) != ENGINE_DONE)
                        fail_msg("%s", a.err.msg);
        }
        for (unsigned i = 1; i < n; i++)
                (void)erig_fork(r, c);
        printf("replies of %u tokens:\n", REPLY_TOKENS);
        start_without_chains(r, n);
}

int main(int argc, char **argv) {
        static const unsigned usual[] = {10, 1000, 10000};
        unsigned n_sizes = argc > 1 ? (unsigned)argc - 1 : 3;

        setlinebuf(stdout);
        if (tools_rig_setup(NULL) < 0)
                return 1;
        for (unsigned k = 0; k < n_sizes; k++) {
                unsigned n = argc > 1 ? (unsigned)atoi(argv[k + 1]) : usual[k];
                struct erig r;

                tools_open(&r, FIND_POOL);
                for (unsigned i = 0; i < n; i++)
                        add(&r, i);
                measure(&r, n, "all of ten turns", TURNS, false);
                measure(&r, n, "two turns, which many have", 2, false);
                measure(&r, n, "two of ten, then another one", TURNS, true);
                start_without_chains(&r, n);
                erig_close(&r);
                tools_open(&r, FIND_POOL);
                start_with_replies(&r, n);
                erig_close(&r);
        }
        return tools_model_remove(NULL);
}
