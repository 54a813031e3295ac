/* SPDX-License-Identifier: MIT */
/*
 * The best of several replies (say --best-of N).
 *
 * 1. N replies are written at once, in throw-away forks (cli-jobs.c), which differ in nothing but the seed: the first
 *    has the one that was asked for, or a random one, each further one the next number.
 * 2. The best one is that with the greatest mean log-probability of its tokens, by the model itself, before sampling
 *    has its say; of equal ones the first. It is the reply of which the model was least unsure, not the most correct.
 * 3. The conversation then gets that reply by the same request with the winner's seed: the same tokens and the
 *    same seed give the same text (I2). This costs one reply more, but takes over what was sampled exactly, with its
 *    turns, and it streams. The conversation has to be as it was at the beginning; else it is a conflict.
 */
#include "client/cli-jobs.h"
#include "client/event-json.h"
#include <math.h>
#include <sys/random.h>

static void over(void *userdata, struct cli_job *job) {
}

static double mean_of(const struct cli_job *job) {
        return job->n_logprobs ? job->logprob / job->n_logprobs : -(double)INFINITY;
}

/* The winner, or NULL: all failed. */
static const struct cli_job *best_of(const struct cli_job *jobs, size_t n) {
        const struct cli_job *best = NULL;

        for (size_t i = 0; i < n; i++)
                if (!jobs[i].failed && (!best || mean_of(&jobs[i]) > mean_of(best)))
                        best = &jobs[i];
        return best;
}

static void put_candidates(
        struct cli *cli, const struct cli_job *jobs, size_t n, const struct cli_job *best) {
        for (size_t i = 0; i < n; i++) {
                struct json j;

                json_init(&j, &cli->out);
                json_object_begin(&j);
                json_put_key_string(&j, "event", "candidate");
                json_put_key_u64(&j, "seed", jobs[i].seed);
                if (jobs[i].failed) {
                        json_put_key_string(&j, "code", jobs[i].error.code);
                        json_put_key_string(&j, "message", jobs[i].error.message);
                } else {
                        json_put_key(&j, "mean_logprob");
                        json_put_double(&j, mean_of(&jobs[i]));
                        json_put_key_u64(&j, "n_generated", jobs[i].done.n_generated);
                }
                json_put_key_bool(&j, "best", &jobs[i] == best);
                json_object_end(&j);
                cli_json_end(cli, &j);
        }
}

/* Write all of them; *ret is the winner's seed, and @go_on then names what they went on from. */
static int compete(struct cli *cli, const struct confab_request *r, struct cli_job *all, size_t n,
        uint64_t *ret, struct confab_request *go_on) {
        struct cli_jobs jobs = {.over = over, .needs_free = true};
        const struct cli_job *best;
        int status = cli_jobs_begin(&jobs, cli, r);

        for (size_t i = 0; i < n && status == 0; i++)
                cli_jobs_start(&jobs, &all[i]);
        while (jobs.n_running > 0 && status == 0)
                status = cli_jobs_step(&jobs, -1);
        cli_jobs_end(&jobs);
        if (status)
                return status;
        best = best_of(all, n);
        if (!best)
                return cli_fail(cli, &all[0].error);
        if (cli->json)
                put_candidates(cli, all, n, best);
        *ret = best->seed;
        go_on->conversation = NULL;
        go_on->conversation_id = jobs.origin;
        go_on->has_expect_revision = true;
        go_on->expect_revision = jobs.revision;
        return 0;
}

int cli_generate_best(struct cli *cli, const struct confab_request *r, size_t n) {
        struct cli_job *all = calloc(n, sizeof(*all));
        struct confab_request each = *r, go_on = *r;
        struct confab_sampling sampling = *r->sampling;
        uint64_t seed = sampling.seed;
        int status = 0;

        if (!all)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for %zu replies", n);
        each.want_logprobs = true;
        if (!(sampling.has & CONFAB_HAS_SEED) &&
                getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
                status = cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "no random numbers for a seed");
        for (size_t i = 0; i < n; i++) {
                all[i].text = r->text;
                all[i].text_size = r->text_size;
                all[i].has_seed = true;
                all[i].seed = seed + i;
        }
        if (status == 0)
                status = compete(cli, &each, all, n, &sampling.seed, &go_on);
        sampling.has |= CONFAB_HAS_SEED;
        go_on.sampling = &sampling;
        if (status == 0)
                status = cli_generate(cli, &go_on, false);
        for (size_t i = 0; i < n; i++)
                cli_job_deinit(&all[i]);
        free(all);
        return status;
}
