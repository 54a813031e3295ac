/* SPDX-License-Identifier: MIT */
/*
 * Many replies at once, each in a throw-away fork (cli-throwaway.c) of one conversation.
 *
 *      cli_jobs_begin: Get, Fork ── base
 *                                    │ Fork        Continue               Close
 *      cli_jobs_start: job ──────────┴─→ its fork ─────────→ its reply ──→ over
 *           ↑                               │  busy, limit     │ failed, may pass
 *           └────────── later, anew ────────┴──────────────────┘
 *
 * 1. All replies go on from the same place: the base is a fork of the conversation as it was at the beginning, and
 *    whatever is said to that meanwhile makes no difference, nor does it wait.
 * 2. What fails now and may succeed later ("retry": a queue or the memory is full) is tried again, after 0.1 s, then
 *    twice as long each time up to 5 s, for five minutes. Other jobs go on meanwhile. Where the input was
 *    accepted already, the fork is closed and the job begins with a new one.
 * 3. The base has a use every CLI_THROWAWAY_SECONDS / 3, so that it stays. If it is gone all the same, since this
 *    program was stopped for longer, the conversation is forked again, if it is still as it was.
 * 4. After SIGINT nothing new begins: what runs is cancelled, and everything closed. A second one ends the program,
 *    and the daemon closes what is left when it is due.
 * 5. When the connection ends no job is over: what was not answered is unknown. cli_jobs.status says why.
 */
#include "base/clock.h"
#include "base/json.h"
#include "client/cli-interrupt.h"
#include "client/cli-jobs.h"
#include "client/cli-throwaway.h"
#include <errno.h>
#include <poll.h>
#include <string.h>

#define MSEC 1000ull
#define SECOND (1000 * MSEC)
#define PAUSE_FIRST (100 * MSEC)
#define PAUSE_LONGEST (5 * SECOND)
#define PATIENCE (300 * SECOND)
#define KEEP_EVERY (CLI_THROWAWAY_SECONDS * SECOND / 3)

static void send_fork(struct cli_job *job);
static void send_continue(struct cli_job *job);

static void close_fork(struct cli_jobs *jobs, uint64_t *id) {
        if (*id)
                cli_closings_add(&jobs->closings, *id);
        *id = 0;
}

/* ---- the end of a job, or of one try ---- */

static void over(struct cli_job *job) {
        struct cli_jobs *jobs = job->jobs;

        list_unlink(&job->link);
        jobs->n_running--;
        job->request = 0;
        close_fork(jobs, &job->fork);
        jobs->over(jobs->userdata, job);
}

static void forget_reply(struct cli_job *job) {
        buf_deinit(&job->reply);
        buf_deinit(&job->reasoning);
        buf_deinit(&job->calls);
        job->logprob = 0;
        job->n_logprobs = 0;
}

/* The connection is over, or about to be. */
static bool ends_all(const struct confab_error *e) {
        static const char *const codes[] = {CONFAB_DISCONNECTED, CONFAB_SHUTDOWN, CONFAB_PROTOCOL,
                CONFAB_NO_DAEMON, CONFAB_UNAVAILABLE};

        /* The daemon's register is on a server that is away: it will come back. */
        if (confab_error_is(e, CONFAB_UNAVAILABLE) && e->retry)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (confab_error_is(e, codes[i]))
                        return true;
        return false;
}

/* Whether to try again later (rules 2 and 3). */
static bool later(struct cli_job *job, const struct confab_error *e) {
        uint64_t now = clock_monotonic_usec(), pause;
        bool gone = confab_error_is(e, CONFAB_NOT_FOUND);

        if (job->jobs->stopping || (!e->retry && !gone))
                return false;
        if (job->n_tries == 0)
                job->deadline = now + PATIENCE;
        pause = PAUSE_FIRST << MIN(job->n_tries, 10u);
        pause = MIN(pause, (uint64_t)PAUSE_LONGEST);
        if (now + pause > job->deadline || (gone && job->n_tries > 2))
                return false;
        job->n_tries++;
        if (gone && !job->fork)
                job->jobs->base_lost = true;
        if (gone)
                job->fork = 0;
        if (job->accepted)
                close_fork(job->jobs, &job->fork);
        job->accepted = false;
        job->request = 0;
        job->again = now + pause;
        forget_reply(job);
        return true;
}

static void failed(struct cli_job *job, const struct confab_error *e) {
        struct cli_jobs *jobs = job->jobs;

        if (ends_all(e)) {
                if (!jobs->status && !jobs->stopping)
                        cli_complain(jobs->cli, "%s", e->message);
                if (!jobs->status)
                        jobs->status = cli_status_of(e);
                return;
        }
        if (later(job, e))
                return;
        job->failed = true;
        job->error = *e;
        over(job);
}

static void no_memory(struct cli_job *job) {
        job->failed = true;
        job->error = (struct confab_error){
                .code = CONFAB_NO_MEMORY, .message = "no memory for the reply"};
}

/* ---- the reply ---- */

static void take_call(struct cli_job *job, const struct confab_part *part) {
        struct json j;
        int r = 0;

        if (part->name) {
                job->call_name.size = job->call_id.size = job->call_arguments.size = 0;
                r = buf_append_str(&job->call_name, part->name);
                if (r == 0)
                        r = buf_append_str(&job->call_id, part->call_id ? part->call_id : "");
        }
        if (r == 0)
                r = buf_append(&job->call_arguments, part->text, part->text_size);
        if (r == 0 && part->ends && !part->broken) {
                if (job->calls.size > 0)
                        r = buf_append_str(&job->calls, ",");
                json_init(&j, &job->calls);
                json_object_begin(&j);
                json_put_key(&j, "call_id");
                json_put_string_n(&j, job->call_id.data, job->call_id.size);
                json_put_key(&j, "name");
                json_put_string_n(&j, job->call_name.data, job->call_name.size);
                json_put_key(&j, "arguments");
                json_put_string_n(&j, job->call_arguments.data, job->call_arguments.size);
                json_object_end(&j);
                if (json_finish(&j) < 0)
                        r = -1;
        }
        if (r < 0)
                no_memory(job);
}

static void take_delta(struct cli_job *job, const struct confab_delta *d) {
        int r = buf_append(&job->reply, d->text, d->text_size);

        for (size_t i = 0; i < d->n_parts && r == 0; i++)
                if (d->parts[i].kind == CONFAB_PART_CALL)
                        take_call(job, &d->parts[i]);
                else
                        r = buf_append(d->parts[i].kind == CONFAB_PART_REASONING ? &job->reasoning
                                                                                 : &job->reply,
                                d->parts[i].text, d->parts[i].text_size);
        for (size_t i = 0; i < d->n_tokens; i++) {
                if (!d->tokens[i].has_logprob)
                        continue;
                job->logprob += (double)d->tokens[i].logprob;
                job->n_logprobs++;
        }
        if (r < 0)
                no_memory(job);
}

static void on_reply(void *userdata, const struct confab_event *event) {
        struct cli_job *job = userdata;

        switch (event->kind) {
        case CONFAB_EVENT_ACCEPTED:
                job->accepted = true;
                break;
        case CONFAB_EVENT_DELTA:
                take_delta(job, event->delta);
                break;
        case CONFAB_EVENT_DONE:
                job->done = *event->done;
                job->done.stop = NULL;
                if (event->done->finish == CONFAB_FINISH_CANCELLED) {
                        job->failed = true;
                        job->error = (struct confab_error){
                                .code = CONFAB_CANCELLED, .message = "the reply was cancelled"};
                }
                over(job);
                break;
        case CONFAB_EVENT_ERROR:
                failed(job, event->error);
                break;
        default:
                break;
        }
}

static void on_fork(void *userdata, const struct confab_event *event) {
        struct cli_job *job = userdata;

        if (event->kind == CONFAB_EVENT_ERROR) {
                failed(job, event->error);
        } else if (event->kind == CONFAB_EVENT_CONVERSATION) {
                job->fork = event->conversation->id;
                send_continue(job);
        }
}

/* ---- requests ---- */

static void submit(struct cli_job *job, const struct confab_request *r, confab_event_fn fn) {
        struct confab_error e;

        if (confab_submit(job->jobs->cli->confab, r, fn, job, &job->request, &e) < 0)
                failed(job, &e);
}

static void send_continue(struct cli_job *job) {
        struct confab_request r = *job->jobs->say;
        struct confab_sampling sampling = r.sampling ? *r.sampling : (struct confab_sampling){0};
        const struct confab_error stopped = {.code = CONFAB_CANCELLED, .message = "cancelled"};

        if (job->jobs->stopping) {
                failed(job, &stopped);
                return;
        }
        r.conversation = NULL;
        r.conversation_id = job->fork;
        r.has_expect_revision = false; /* it was compared at the beginning */
        r.text = job->text;
        r.text_size = job->text_size;
        if (job->has_seed) {
                sampling.seed = job->seed;
                sampling.has |= CONFAB_HAS_SEED;
        }
        r.sampling = &sampling;
        submit(job, &r, on_reply);
}

static void send_fork(struct cli_job *job) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_FORK;
        r.conversation_id = job->jobs->base;
        r.about = &cli_throwaway_about;
        submit(job, &r, on_fork);
}

void cli_jobs_start(struct cli_jobs *jobs, struct cli_job *job) {
        job->jobs = jobs;
        list_append(&jobs->running, &job->link);
        jobs->n_running++;
        send_fork(job);
}

/* ---- the base ---- */

struct look {
        uint64_t id, revision;
        bool busy;
};

static void on_look(void *userdata, const struct confab_event *event) {
        struct look *look = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        look->id = event->conversation->id;
        look->revision = event->conversation->revision;
        look->busy = event->conversation->busy;
}

static int make_base(struct cli_jobs *jobs) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct look look = {0};
        int status;

        r.verb = CONFAB_FORK;
        r.conversation_id = jobs->origin;
        r.has_expect_revision = true;
        r.expect_revision = jobs->revision;
        r.about = &cli_throwaway_about;
        status = cli_call(jobs->cli, &r, on_look, &look);
        if (status)
                return status;
        jobs->base = look.id;
        jobs->base_lost = false;
        jobs->keep_at = clock_monotonic_usec() + KEEP_EVERY;
        return 0;
}

int cli_jobs_begin(struct cli_jobs *jobs, struct cli *cli, const struct confab_request *say) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct look look = {0};
        int status = cli_wait_until_free(cli, say);

        list_init(&jobs->running);
        jobs->cli = cli;
        jobs->say = say;
        if (status == 0)
                status = cli_connect(cli);
        cli_closings_init(&jobs->closings, cli->confab);
        if (status)
                return status;
        r.verb = CONFAB_GET;
        r.conversation = say->conversation;
        r.conversation_id = say->conversation_id;
        status = cli_call(cli, &r, on_look, &look);
        if (status)
                return status;
        if (say->has_expect_revision && say->expect_revision != look.revision)
                return cli_error(cli, CLI_BUSY, CONFAB_CONFLICT,
                        "the conversation is at revision %llu, not at %llu",
                        (unsigned long long)look.revision,
                        (unsigned long long)say->expect_revision);
        if (look.busy && jobs->needs_free)
                return cli_error(cli, CLI_BUSY, CONFAB_BUSY,
                        "another request holds the conversation: --wait waits for its end");
        jobs->origin = look.id;
        jobs->revision = look.revision;
        if (cli_interrupts_catch(&jobs->old) < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot catch SIGINT: %s",
                        strerrordesc_np(errno));
        jobs->caught = true;
        return make_base(jobs);
}

/* ---- steps ---- */

/* Try again what is due, use the base if that is due: microseconds until the next of these. */
static uint64_t do_due(struct cli_jobs *jobs) {
        uint64_t now = clock_monotonic_usec(), next;
        struct list *it, *tmp;

        if (now >= jobs->keep_at) {
                struct confab_request r = CONFAB_REQUEST_INIT;

                r.verb = CONFAB_UPDATE;
                r.conversation_id = jobs->base;
                r.about = &cli_throwaway_about;
                confab_submit(jobs->cli->confab, &r, NULL, NULL, NULL, NULL);
                jobs->keep_at = now + KEEP_EVERY;
        }
        next = cli_closings_due(&jobs->closings);
        next = MIN(jobs->keep_at, next == UINT64_MAX ? next : now + next);
        list_for_each_safe (it, tmp, &jobs->running) {
                struct cli_job *job = list_entry(it, struct cli_job, link);

                if (job->again && now >= job->again) {
                        job->again = 0;
                        if (job->fork)
                                send_continue(job);
                        else
                                send_fork(job);
                } else if (job->again) {
                        next = MIN(next, job->again);
                }
        }
        return next > now ? next - now : 0;
}

/* Wait for the socket, SIGINT and @fd, and let libconfab work. -1: the connection is over. */
static int wait_for(struct cli_jobs *jobs, int fd, uint64_t usec) {
        struct confab *c = jobs->cli->confab;
        struct pollfd fds[] = {
                {.fd = confab_get_fd(c), .events = (short)confab_get_events(c)},
                {.fd = cli_interrupt_fd(), .events = POLLIN},
                {.fd = fd, .events = POLLIN},
        };
        struct confab_error e;

        if (poll(fds, ARRAY_SIZE(fds), (int)(usec / MSEC + 1)) < 0 && errno != EINTR) {
                cli_complain(jobs->cli, "cannot wait: %s", strerrordesc_np(errno));
                jobs->status = CLI_FAILED;
                return -1;
        }
        if (confab_process(c, &e) == 0)
                return 0;
        if (!jobs->status && !jobs->stopping)
                cli_complain(jobs->cli, "%s", e.message);
        if (!jobs->status)
                jobs->status = cli_status_of(&e);
        return -1;
}

int cli_jobs_step(struct cli_jobs *jobs, int fd) {
        if (jobs->base_lost && !jobs->status)
                jobs->status = make_base(jobs);
        if (!jobs->status && wait_for(jobs, fd, do_due(jobs)) == 0 && cli_interrupted())
                jobs->status = CLI_INTERRUPTED;
        return jobs->status;
}

void cli_jobs_end(struct cli_jobs *jobs) {
        static const struct confab_error stopped = {
                .code = CONFAB_CANCELLED, .message = "cancelled"};
        struct confab *c = jobs->cli->confab;
        struct list *it, *tmp;

        jobs->stopping = true;
        list_for_each_safe (it, tmp, &jobs->running) {
                struct cli_job *job = list_entry(it, struct cli_job, link);

                if (job->again)
                        failed(job, &stopped);
                else if (c && job->fork) /* a Fork tells first what there is to close */
                        confab_cancel(c, job->request, NULL);
        }
        if (c) {
                while (jobs->n_running > 0 && cli_closings_step(&jobs->closings) == 0)
                        ;
                close_fork(jobs, &jobs->base); /* while it is forked, it is busy */
                cli_closings_wait(&jobs->closings);
        }
        cli_closings_deinit(&jobs->closings);
        if (jobs->caught)
                cli_interrupts_release(&jobs->old);
        jobs->caught = false;
}

void cli_job_deinit(struct cli_job *job) {
        forget_reply(job);
        buf_deinit(&job->call_name);
        buf_deinit(&job->call_id);
        buf_deinit(&job->call_arguments);
}
