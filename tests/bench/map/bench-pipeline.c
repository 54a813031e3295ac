/* SPDX-License-Identifier: MIT */
/*
 * bench-pipeline SOCKET NAME N JOBS MAX-TOKENS: what `confab map` is compared with. Questions are lines of standard input;
 * each is said in a fork of the conversation NAME, which is closed behind its reply, with JOBS of them in flight
 * on one connection, and nothing else: no order, no output, no second try. Prints the seconds that this took.
 */
#include "client/confab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct confab *confab;
static const char *name;
static unsigned n_left, max_tokens;
static const struct confab_about about = {.has_expires_after = true, .expires_after = 120};

struct job {
        uint64_t fork;
        char line[512];
};

static void next(struct job *job);

static void die(const struct confab_error *e) {
        fprintf(stderr, "bench-pipeline: %s\n", e->message);
        exit(1);
}

static void submit(const struct confab_request *r, confab_event_fn fn, struct job *job) {
        struct confab_error e;

        if (confab_submit(confab, r, fn, job, NULL, &e) < 0)
                die(&e);
}

static void on_reply(void *userdata, const struct confab_event *event) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct job *job = userdata;

        if (event->kind == CONFAB_EVENT_ERROR)
                die(event->error);
        if (event->kind != CONFAB_EVENT_DONE)
                return;
        r.verb = CONFAB_CLOSE;
        r.conversation_id = job->fork;
        submit(&r, NULL, NULL);
        next(job);
}

static void on_fork(void *userdata, const struct confab_event *event) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct job *job = userdata;

        if (event->kind == CONFAB_EVENT_ERROR)
                die(event->error);
        job->fork = event->conversation->id;
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = job->fork;
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = job->line;
        r.text_size = strlen(job->line);
        r.has_max_tokens = r.want_parts = true;
        r.max_tokens = max_tokens;
        r.ignore_eos = true;
        submit(&r, on_reply, job);
}

static void next(struct job *job) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        if (n_left == 0 || !fgets(job->line, sizeof(job->line), stdin))
                return;
        n_left--;
        job->line[strcspn(job->line, "\n")] = 0;
        r.verb = CONFAB_FORK;
        r.conversation = name;
        r.about = &about;
        submit(&r, on_fork, job);
}

int main(int argc, char **argv) {
        struct timespec from, to;
        struct confab_error e;
        struct job *jobs;
        unsigned n_jobs;

        if (argc != 6)
                return 2;
        name = argv[2];
        n_left = (unsigned)strtoul(argv[3], NULL, 10);
        n_jobs = (unsigned)strtoul(argv[4], NULL, 10);
        max_tokens = (unsigned)strtoul(argv[5], NULL, 10);
        jobs = calloc(n_jobs, sizeof(*jobs));
        if (!jobs)
                return 1;
        clock_gettime(CLOCK_MONOTONIC, &from);
        if (confab_connect(&confab, argv[1], &e) < 0)
                die(&e);
        for (unsigned i = 0; i < n_jobs; i++)
                next(&jobs[i]);
        while (confab_get_n_pending(confab) > 0)
                if (confab_wait(confab, -1, &e) < 0)
                        die(&e);
        clock_gettime(CLOCK_MONOTONIC, &to);
        confab_free(confab);
        free(jobs);
        printf("%.6f\n",
                (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
        return 0;
}
