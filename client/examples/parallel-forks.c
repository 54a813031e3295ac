/* SPDX-License-Identifier: MIT */
/*
 * One conversation, several forks that answer at once: ways to go on from the same place.
 *
 *     cc -o parallel-forks parallel-forks.c $(pkg-config --cflags --libs confab)
 *     ./parallel-forks /run/confab/confab.sock 4 "Give me a name for a ship."
 *
 * The message is taken in once, without a reply (max_tokens 0). The forks share the memory of it, so each computes
 * little more than its own reply: the figures in front of a reply show it. Seeds make the replies differ, and each of
 * them can be had again by its seed.
 */
#include <confab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORKS_MAX 32

struct fork {
        struct confab *confab;
        int number;
        bool failed;
        char text[4096];
        size_t text_size;
};

static int fail(const char *what, const struct confab_error *e) {
        fprintf(stderr, "%s: %s (%s)\n", what, e->message, e->code);
        return -1;
}

static void see_id(void *userdata, const struct confab_event *event) {
        uint64_t *id = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *id = event->conversation->id;
}

/* The conversation that all forks come from, with the message in it. */
static int make_trunk(struct confab *c, const char *message, uint64_t *ret_id) {
        struct confab_about about = {.has_expires_after = true, .expires_after = 60};
        struct confab_request open = CONFAB_REQUEST_INIT, say = CONFAB_REQUEST_INIT;
        struct confab_error e;

        open.verb = CONFAB_OPEN;
        open.about = &about;
        if (confab_call(c, &open, see_id, ret_id, &e) < 0)
                return fail("open", &e);
        say.verb = CONFAB_CONTINUE;
        say.conversation_id = *ret_id;
        say.input = CONFAB_INPUT_MESSAGE;
        say.text = message;
        say.text_size = strlen(message);
        say.has_max_tokens = true;
        say.max_tokens = 0;
        if (confab_call(c, &say, NULL, NULL, &e) < 0)
                return fail("continue", &e);
        return 0;
}

static void see_reply(void *userdata, const struct confab_event *event) {
        struct fork *fork = userdata;

        if (event->kind == CONFAB_EVENT_DELTA) {
                size_t room = sizeof(fork->text) - fork->text_size, n = event->delta->text_size;

                n = n < room ? n : room;
                memcpy(fork->text + fork->text_size, event->delta->text, n);
                fork->text_size += n;
        } else if (event->kind == CONFAB_EVENT_DONE) {
                printf("fork %d, seed %llu, %u of %u prompt tokens computed: %.*s\n", fork->number,
                        (unsigned long long)event->done->seed, event->done->n_computed,
                        event->done->n_prompt, (int)fork->text_size, fork->text);
        } else if (event->kind == CONFAB_EVENT_ERROR) {
                fail("continue", event->error);
                fork->failed = true;
        }
}

/* The fork exists: it answers, beside the others. */
static void see_forked(void *userdata, const struct confab_event *event) {
        struct fork *fork = userdata;
        struct confab_request say = CONFAB_REQUEST_INIT;
        struct confab_sampling sampling = {
                .has = CONFAB_HAS_SEED | CONFAB_HAS_TEMPERATURE,
                .seed = (uint64_t)fork->number,
                .temperature = 1,
        };
        struct confab_error e;

        if (event->kind == CONFAB_EVENT_ERROR) {
                fail("fork", event->error);
                fork->failed = true;
                return;
        }
        say.verb = CONFAB_CONTINUE;
        say.conversation_id = event->conversation->id;
        say.input = CONFAB_INPUT_NONE;
        say.sampling = &sampling;
        say.has_max_tokens = true;
        say.max_tokens = 48;
        if (confab_submit(fork->confab, &say, see_reply, fork, NULL, &e) < 0) {
                fail("continue", &e);
                fork->failed = true;
        }
}

static int run_forks(struct confab *c, uint64_t trunk, struct fork *forks, int n_forks) {
        struct confab_about about = {.has_expires_after = true, .expires_after = 60};
        struct confab_error e;

        for (int i = 0; i < n_forks; i++) {
                struct confab_request request = CONFAB_REQUEST_INIT;

                forks[i].confab = c;
                forks[i].number = i + 1;
                request.verb = CONFAB_FORK;
                request.conversation_id = trunk;
                request.about = &about;
                if (confab_submit(c, &request, see_forked, &forks[i], NULL, &e) < 0)
                        return fail("fork", &e);
        }
        while (confab_get_n_pending(c) > 0)
                if (confab_wait(c, -1, &e) < 0)
                        return fail("the connection", &e);
        for (int i = 0; i < n_forks; i++)
                if (forks[i].failed)
                        return -1;
        return 0;
}

int main(int argc, char **argv) {
        static struct fork forks[FORKS_MAX];
        struct confab_error e;
        struct confab *c;
        uint64_t trunk = 0;
        int n_forks = argc == 4 ? atoi(argv[2]) : 0, r;

        if (n_forks < 1 || n_forks > FORKS_MAX) {
                fprintf(stderr, "usage: %s SOCKET N MESSAGE (at most %d forks)\n", argv[0],
                        FORKS_MAX);
                return 2;
        }
        if (confab_connect(&c, argv[1], &e) < 0) {
                fail("connect", &e);
                return 1;
        }
        r = make_trunk(c, argv[3], &trunk);
        if (r == 0)
                r = run_forks(c, trunk, forks, n_forks);
        confab_free(c);
        return r < 0;
}
