/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Replies in throw-away forks of one conversation, several at once on one connection: of map, and of say --best-of.
 * cli-jobs.c tells how. One thread.
 */
#include "base/list.h"
#include "client/cli-closing.h"
#include "client/cli.h"
#include <signal.h>

struct cli_jobs;

/* One question and its reply. */
struct cli_job {
        /* What is asked, borrowed until it is over; and the seed, if it has one of its own. */
        const char *text;
        size_t text_size;
        bool has_seed;
        uint64_t seed;

        /* What came of it, for cli_jobs.over. */
        bool failed; /* why: */
        struct confab_error error;
        struct buf reply, reasoning, calls; /* calls: JSON objects with commas between */
        struct confab_done done;            /* without `stop` */
        double logprob;                     /* of all tokens together, where they were asked for */
        uint32_t n_logprobs;

        struct cli_jobs *jobs;
        struct list link; /* in jobs->running, until it is over */
        uint64_t fork, request;
        uint64_t again, deadline; /* monotonic: when to try again (0: it runs), and the last time */
        unsigned n_tries;
        bool accepted;
        struct buf call_name, call_id, call_arguments;
};

struct cli_jobs {
        struct cli *cli;
        const struct confab_request
                *say; /* a Continue: the conversation, its options, and input but for `text` */
        void (*over)(void *userdata, struct cli_job *job);
        void *userdata;
        bool needs_free; /* nobody else may hold the conversation at the beginning */

        uint64_t origin, revision; /* the conversation as it was at the beginning */
        uint64_t base;             /* a fork of it then, of which the others are forks */
        bool base_lost;
        uint64_t keep_at; /* monotonic: when to use the base, that it stays */
        struct cli_closings closings;
        struct list running;
        size_t n_running;
        bool stopping;
        int status; /* why no more can run: of the connection, or the interrupt */
        bool caught;
        struct sigaction old;
};

/* Connect, look at the conversation of @say and fork it. 0 or a status, after reporting why; cli_jobs_end() is due in
 * any case. @jobs->over is called once for each job that was started, from cli_jobs_step() or cli_jobs_end(), unless
 * the connection breaks. */
int cli_jobs_begin(struct cli_jobs *jobs, struct cli *cli, const struct confab_request *say);
void cli_jobs_start(struct cli_jobs *jobs, struct cli_job *job);
/* Wait until something has happened, also to @fd (-1: none), and deal with it. 0, or the status to end with: after
 * SIGINT, or without connection, which was reported. */
int cli_jobs_step(struct cli_jobs *jobs, int fd);
/* Cancel what runs, wait for its end, close all forks. */
void cli_jobs_end(struct cli_jobs *jobs);

/* Free what a job has. */
void cli_job_deinit(struct cli_job *job);

/* Run @r, a Continue, @n times in forks, and then in its conversation with the seed of the best reply (cli-best.c), as
 * cli_generate() does. An exit status. */
int cli_generate_best(struct cli *cli, const struct confab_request *r, size_t n);
