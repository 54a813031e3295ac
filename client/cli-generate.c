/* SPDX-License-Identifier: MIT */
/*
 * One Continue, as run by say and chat. Events are written as they come; a slow reader slows this
 * program down, and then the daemon pauses the generation. SIGINT is caught during the run: the
 * first one cancels and keeps the reply so far; the second one exits at once.
 */
#include "base/err.h"
#include "base/file.h"
#include "client/cli-interrupt.h"
#include "client/cli.h"
#include "client/event-json.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>

#define CONSTRAINT_MAX ((size_t)256 << 10) /* bytes; the daemon takes no more */

const struct cli_option cli_sampling_options[] = {
        {"temperature", "T", CLI_FLOAT, .letter = 't', .max = 100,
                .help = "0: always the likeliest token"},
        {"top-k", "K", CLI_UINT, .letter = 'k', .max_uint = UINT32_MAX,
                .help = "only the K likeliest (0: all)"},
        {"top-p", "P", CLI_FLOAT, .letter = 'p', .max = 1,
                .help = "only the likeliest that make up P"},
        {"min-p", "P", CLI_FLOAT, .max = 1, .help = "only those above P times the likeliest"},
        {"repetition-penalty", "X", CLI_FLOAT, .min = 0.01, .max = 100,
                .help = "divide the logits of tokens seen before (1: off)"},
        {"presence-penalty", "X", CLI_FLOAT, .min = -100, .max = 100,
                .help = "taken from the logits of tokens seen before"},
        {"frequency-penalty", "X", CLI_FLOAT, .min = -100, .max = 100,
                .help = "the same for each time seen"},
        {"penalty-last-n", "N", CLI_UINT, .max_uint = UINT32_MAX,
                .help = "how far back the penalties look"},
        {"seed", "N", CLI_UINT, .letter = 'S', .max_uint = UINT64_MAX,
                .help = "same seed, same text"},
        {"logit-bias", "ID=B", CLI_BIAS, .repeat = true,
                .help = "add B to token ID's logit; -inf forbids it"},
        {.name = NULL},
};

const struct cli_option cli_generate_options[] = {
        {"max-tokens", "N", CLI_UINT, .letter = 'm', .max_uint = UINT32_MAX - 1,
                .help = "longest reply (0: only take in the input)",
                .more = "Without it the daemon's max-tokens counts, which is 512 unless it is "
                        "configured. A reply that ended there is told on standard error, and "
                        "'confab say --no-input' goes on with it."},
        {"stop", "STRING", CLI_STRING, .repeat = true, .help = "end the reply before STRING"},
        {"logprobs", "N", CLI_UINT, .max_uint = 32768,
                .help = "log-probabilities, N alternatives each (shown with --json)",
                .more = "The texts of the tokens are shown, too."},
        {"ignore-eos", NULL, CLI_FLAG, .help = "never choose a token that would end it",
                .more = "A limit or a stop string ends the reply."},
        {"background", NULL, CLI_FLAG, .letter = 'b', .help = "give way to interactive requests"},
        {"verbose", NULL, CLI_FLAG, .letter = 'v',
                .help = "then tell how the reply was made, on standard error",
                .more = "One line: where the memory of the prompt came from, tokens per second, "
                        "what was waited for, and the seed."},
        {"wait", NULL, CLI_FLAG, .letter = 'w',
                .help = "wait while another request holds the conversation",
                .more = "It waits behind those that wait already. Without it the exit status is "
                        "4. 'confab ask' and 'confab map' need not wait: a fork has what was said "
                        "before the reply that is being written, and with --wait that reply as "
                        "well."},
        {"json-schema", "FILE", CLI_STRING, .help = "the reply is JSON that meets this schema",
                .more = "The file has at most 256 KiB. docs/grammar.md tells which keywords are "
                        "supported; a schema with others, or one that nothing meets, is refused "
                        "before the reply begins. A reply that --max-tokens cuts short is the "
                        "beginning of such JSON, and 'confab say --no-input' with the same schema "
                        "goes on with it."},
        {"grammar", "FILE", CLI_STRING, .help = "the reply is what this GBNF generates"},
        {"tool-choice", "required|TOOL", CLI_STRING,
                .help = "the reply is a call of a tool, or of this one",
                .more = "The tools are those that the conversation has (--tools), and the "
                        "arguments meet the tool's parameters. Reasoning may precede it. Not every "
                        "model can be made to call: see docs/grammar.md."},
        {"reasoning", "show|hide|only", CLI_STRING, .letter = 'R',
                .help = "show: dimmed, or on standard error; only: nothing else",
                .more = "show, which is the default, dims reasoning if standard output is a "
                        "terminal, and else writes it to standard error; hide leaves it out; only "
                        "writes nothing else to standard output. With --json all parts of the "
                        "reply are told, whatever is said here."},
        {.name = NULL},
};

/* ---- options ---- */

static void take_float(
        struct cli *cli, const char *name, uint32_t field, uint32_t *has, float *ret) {
        const struct cli_value *v = cli_get(cli, name);

        if (v) {
                *ret = v->f;
                *has |= field;
        }
}

static void take_u32(
        struct cli *cli, const char *name, uint32_t field, uint32_t *has, uint32_t *ret) {
        const struct cli_value *v = cli_get(cli, name);

        if (v) {
                *ret = (uint32_t)v->u;
                *has |= field;
        }
}

static int take_sampling(struct generate_options *o, struct cli *cli) {
        struct confab_sampling *s = &o->sampling;
        const struct cli_value *v;
        size_t it = 0;

        take_float(cli, "temperature", CONFAB_HAS_TEMPERATURE, &s->has, &s->temperature);
        take_u32(cli, "top-k", CONFAB_HAS_TOP_K, &s->has, &s->top_k);
        take_float(cli, "top-p", CONFAB_HAS_TOP_P, &s->has, &s->top_p);
        take_float(cli, "min-p", CONFAB_HAS_MIN_P, &s->has, &s->min_p);
        take_float(cli, "repetition-penalty", CONFAB_HAS_REPETITION_PENALTY, &s->has,
                &s->repetition_penalty);
        take_float(cli, "presence-penalty", CONFAB_HAS_PRESENCE_PENALTY, &s->has,
                &s->presence_penalty);
        take_float(cli, "frequency-penalty", CONFAB_HAS_FREQUENCY_PENALTY, &s->has,
                &s->frequency_penalty);
        take_u32(cli, "penalty-last-n", CONFAB_HAS_PENALTY_LAST_N, &s->has, &s->penalty_last_n);
        if ((v = cli_get(cli, "seed"))) {
                s->seed = v->u;
                s->has |= CONFAB_HAS_SEED;
        }
        o->biases = calloc(cli->n_values + 1, sizeof(*o->biases));
        if (!o->biases)
                return CLI_FAILED;
        while ((v = cli_get_each(cli, "logit-bias", &it)))
                o->biases[s->n_biases++] = v->bias;
        s->biases = o->biases;
        return 0;
}

/* --tool-choice required|NAME */
static int take_choice(struct cli *cli, struct confab_request *r) {
        const struct cli_value *choice = cli_get(cli, "tool-choice");

        if (!choice)
                return 0;
        if (cli_get(cli, "json-schema") || cli_get(cli, "grammar"))
                return cli_usage(cli, "--tool-choice excludes --json-schema and --grammar");
        if (!*choice->s)
                return cli_usage(cli, "--tool-choice: required, or the name of a function");
        r->call_of = strcmp(choice->s, "required") == 0 ? "" : choice->s;
        return 0;
}

/* Read the file of --json-schema or --grammar. Standard input is the text, so "-" is no file
 * here. */
static int take_constraint(struct generate_options *o, struct cli *cli, struct confab_request *r) {
        const struct cli_value *schema = cli_get(cli, "json-schema");
        const struct cli_value *grammar = cli_get(cli, "grammar");
        const char *path = schema ? schema->s : grammar ? grammar->s : NULL;
        size_t size;
        struct err e;

        if (!path || cli_get(cli, "tool-choice"))
                return take_choice(cli, r);
        if (schema && grammar)
                return cli_usage(cli, "--json-schema and --grammar exclude each other");
        if (strcmp(path, "-") == 0)
                return cli_usage(cli, "standard input is for the text: name a file");
        if (file_read_all(path, CONSTRAINT_MAX, &o->constraint, &size, &e) < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "%s", e.msg);
        if (strlen(o->constraint) < size)
                return cli_error(cli, CLI_FAILED, CONFAB_INVALID, "%s: it has a NUL byte", path);
        if (schema)
                r->json_schema = o->constraint;
        else
                r->gbnf = o->constraint;
        return 0;
}

static int take_generate(struct generate_options *o, struct cli *cli, struct confab_request *r) {
        const struct cli_value *v;
        size_t it = 0;

        o->stops = calloc(cli->n_values + 1, sizeof(*o->stops));
        if (!o->stops) {
                cli_complain(cli, "no memory");
                return CLI_FAILED;
        }
        while ((v = cli_get_each(cli, "stop", &it)))
                o->stops[o->n_stops++] = v->s;
        r->stops = o->stops;
        r->n_stops = o->n_stops;
        if ((v = cli_get(cli, "max-tokens"))) {
                r->has_max_tokens = true;
                r->max_tokens = (uint32_t)v->u;
        }
        if ((v = cli_get(cli, "logprobs"))) {
                r->want_logprobs = true;
                r->n_logprobs = (uint32_t)v->u;
        }
        r->ignore_eos = cli_get(cli, "ignore-eos") != NULL;
        r->background = cli_get(cli, "background") != NULL;
        r->wait = cli_get(cli, "wait") != NULL;
        r->want_parts = r->input != CONFAB_INPUT_RAW;
        return take_constraint(o, cli, r);
}

int generate_options_init(struct generate_options *o, struct cli *cli, struct confab_request *r) {
        int status = take_sampling(o, cli);

        if (status)
                cli_complain(cli, "no memory");
        if (status == 0 && r->verb == CONFAB_CONTINUE)
                status = cli_reasoning(cli, &o->reasoning);
        if (status == 0 && r->verb == CONFAB_CONTINUE)
                status = take_generate(o, cli, r);
        r->sampling = &o->sampling;
        return status;
}

void generate_options_deinit(struct generate_options *o) {
        free(o->biases);
        free(o->stops);
        free(o->constraint);
        *o = (struct generate_options){0};
}

/* ---- the run ---- */

struct run {
        bool *conflict; /* set on a conflict, which is then not reported; or NULL */
        struct cli *cli;
        uint64_t id;
        bool detach, ended, accepted, cancelled;
        bool asks_again;               /* it may: nothing has come yet, and it is the first time */
        struct confab_error refused;   /* by a daemon that stops; else empty */
        struct confab_error not_found; /* to be told after the events; else empty */
        struct cli_progress progress;
        struct cli_parts parts;
        int status;
};

/* Write the prepared output. If the reader is gone, the generation has no purpose any more. */
static void run_flush(struct run *run) {
        int status = cli_flush(run->cli);

        if (status && !run->status) {
                run->status = status;
                confab_cancel(run->cli->confab, run->id, NULL);
        }
}

static void run_json(struct run *run, const struct confab_event *event) {
        struct json j;

        json_init(&j, &run->cli->out);
        event_json_event(&j, event, EVENT_JSON_SEED_NUMBER);
        cli_json_end(run->cli, &j);
        run_flush(run);
}

/* The text of a reply that was not asked for in parts is one part. */
static void run_text(struct run *run, const struct confab_delta *d) {
        const struct confab_part all = {
                .kind = CONFAB_PART_TEXT, .text = d->text, .text_size = d->text_size};

        cli_parts_print(&run->parts, &all, 1);
        cli_parts_print(&run->parts, d->parts, d->n_parts);
        run_flush(run);
}

/* A verb that only follows a reply has none of the options that make one. */
static bool takes(const struct cli *cli, const char *name) {
        return cli_find_option(cli->command, name, strlen(name)) != NULL;
}

static bool is_verbose(const struct cli *cli) {
        return takes(cli, "verbose") && cli_get(cli, "verbose");
}

static void run_done(struct run *run, const struct confab_done *done) {
        if (done->finish == CONFAB_FINISH_CANCELLED && !run->status) {
                run->status = cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
                if (!cli_interrupted())
                        cli_complain(run->cli, "the reply was cancelled");
        } else if (done->finish == CONFAB_FINISH_CONTEXT) {
                cli_note(run->cli, "the reply ends here: the context is full");
        } else if (done->finish == CONFAB_FINISH_LENGTH && done->n_generated > 0) {
                const char *go_on = run->cli->go_on;

                cli_note(run->cli,
                        "the reply ended at %u token%s, the longest that was allowed; %s",
                        done->n_generated, plural_s(done->n_generated),
                        go_on ? go_on : "'confab say NAME --no-input' goes on");
        }
        if (done->n_calls > 0 && !run->status)
                run->status = CLI_CALLS;
        if (is_verbose(run->cli))
                cli_tell_done(run->cli, done);
}

static void run_error(struct run *run, const struct confab_error *e) {
        if (run->status)
                return;
        run->status = cli_status_of(e);
        if (run->conflict && confab_error_is(e, CONFAB_CONFLICT)) {
                *run->conflict = true;
                return;
        }
        if (cli_interrupted() && confab_error_is(e, CONFAB_CANCELLED)) {
                run->status = CLI_INTERRUPTED;
                return;
        }
        if (confab_error_is(e, CONFAB_NOT_FOUND)) {
                run->not_found = *e;
                return;
        }
        cli_complain(run->cli, "%s", e->message);
        if (confab_error_is(e, CONFAB_CONTEXT) && !run->cli->throwaway)
                cli_complain(run->cli, "'confab update NAME --overflow shift' lets it drop old "
                                       "turns from what the "
                                       "model sees, 'confab rewind' takes turns back");
        if ((confab_error_is(e, CONFAB_BUSY) || confab_error_is(e, CONFAB_MOVED)) &&
                !run->cli->json && takes(run->cli, "wait") && !cli_get(run->cli, "wait"))
                cli_note(run->cli, "--wait waits until it is free");
}

static void run_event(void *userdata, const struct confab_event *event) {
        struct run *run = userdata;

        if (run->asks_again && event->kind == CONFAB_EVENT_ERROR &&
                confab_error_is(event->error, CONFAB_SHUTDOWN)) {
                run->refused = *event->error;
                run->ended = true;
                return;
        }
        run->asks_again = false;
        if (run->detach && run->accepted)
                return; /* the first tokens came in the same read, but the reply goes on by itself */
        run->ended = event->final;
        cli_progress_event(&run->progress, event);
        if (event->kind == CONFAB_EVENT_ACCEPTED)
                run->accepted = true;
        if (event->final && !run->cli->json) {
                cli_parts_end(&run->parts);
                run_flush(run);
        }
        if (run->conflict && event->kind == CONFAB_EVENT_ERROR &&
                confab_error_is(event->error, CONFAB_CONFLICT))
                run_error(run, event->error);
        else if (run->cli->json)
                run_json(run, event);
        else if (event->kind == CONFAB_EVENT_DELTA)
                run_text(run, event->delta);
        if (event->kind == CONFAB_EVENT_DONE)
                run_done(run, event->done);
        else if (event->kind == CONFAB_EVENT_ERROR)
                run_error(run, event->error);
        /* Where writing is slow, much of the reply may wait behind this: the Cancel comes first. */
        if (cli_interrupted() && !run->cancelled)
                confab_hold(run->cli->confab, true);
}

static bool run_over(const struct run *run) {
        return run->ended || (run->detach && run->accepted) || run->status == CLI_BROKEN_PIPE;
}

/* Wait for the daemon, a SIGINT, and what the command has beside them. 0 or -1. */
static int run_wait(struct run *run) {
        struct confab *c = run->cli->confab;
        struct cli_beside *beside = run->cli->beside;
        struct pollfd fds[2 + ARRAY_SIZE(run->cli->beside)] = {
                {.fd = confab_get_fd(c), .events = (short)confab_get_events(c)},
                {.fd = cli_interrupt_fd(), .events = POLLIN},
        };
        nfds_t n = 2;

        for (; n < ARRAY_SIZE(fds) && beside[n - 2].look; n++)
                fds[n] = (struct pollfd){.fd = beside[n - 2].fd, .events = POLLIN};
        while (poll(fds, n, cli_progress_timeout(&run->progress)) <
                0) /* handlers of signals wake it by a descriptor */
                if (errno != EINTR)
                        return -1;
        for (nfds_t i = 2; i < n; i++) /* whatever poll() saw: a signal may have come since */
                beside[i - 2].look(beside[i - 2].userdata);
        return 0;
}

static void run_loop(struct run *run) {
        struct confab *c = run->cli->confab;

        while (!run_over(run)) {
                if (run_wait(run) < 0) {
                        cli_progress_end(&run->progress);
                        cli_complain(run->cli, "cannot wait: %s", strerrordesc_np(errno));
                        run->status = CLI_FAILED;
                        break;
                }
                if (cli_interrupted() && !run->cancelled) {
                        cli_interrupt_seen();
                        run->cancelled = true;
                        confab_cancel(c, run->id, NULL);
                        confab_hold(c, false);
                }
                /* a broken connection ends the request with an error event */
                confab_process(c, NULL);
                cli_progress_tick(&run->progress);
        }
        confab_hold(c, false); /* it was over before the interrupt was seen */
        cli_progress_end(&run->progress);
        if (run->status == CLI_BROKEN_PIPE)
                confab_process(c, NULL); /* the Cancel goes out now, if it can */
}

static void run_once(struct run *run, const struct confab_request *r) {
        struct confab_error e;

        if (confab_submit(run->cli->confab, r, run_event, run, &run->id, &e) < 0)
                run->status = cli_fail(run->cli, &e);
        else
                run_loop(run);
}

/* To whom comes after the daemon that refused it, or it is told. */
static void run_again(struct run *run, const struct confab_request *r) {
        const struct confab_event refusal = {
                .kind = CONFAB_EVENT_ERROR, .final = true, .error = &run->refused};

        run->asks_again = run->ended = false;
        if (!run->cancelled && cli_move_on(run->cli, &run->refused))
                run_once(run, r);
        else
                run_event(run, &refusal);
}

int cli_generate(struct cli *cli, const struct confab_request *r, bool detach) {
        return cli_generate_or_conflict(cli, r, detach, NULL);
}

int cli_generate_or_conflict(
        struct cli *cli, const struct confab_request *r, bool detach, bool *conflict) {
        struct run run = {.cli = cli,
                .detach = detach,
                .conflict = conflict,
                .parts.cli = cli,
                .asks_again = true};
        struct sigaction old;
        int status = cli_reasoning(cli, &run.parts.reasoning);

        if (status == 0)
                status = cli_connect(cli);
        if (status)
                return status;
        if (cli_interrupts_catch(&old) < 0) {
                cli_complain(cli, "cannot catch SIGINT: %s", strerrordesc_np(errno));
                return CLI_FAILED;
        }
        cli_progress_init(&run.progress, cli, r, "waiting");
        run_once(&run, r);
        if (*run.refused.code)
                run_again(&run, r);
        cli_interrupts_release(&old);
        cli_parts_end(&run.parts);
        if (*run.not_found.code) {
                cli_add_near_names(cli, r, &run.not_found);
                cli_complain(cli, "%s", run.not_found.message);
        }
        if (run.id && !run.ended) /* no event may come for it any more */
                cli->confab = confab_free(cli->confab);
        return run.status;
}
