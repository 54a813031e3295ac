/* SPDX-License-Identifier: MIT */
/*
 * A question for each line of the input, each in a throw-away fork of one conversation (cli-jobs.c).
 *
 * 1. Results are printed in the order of the lines, each as soon as all before it are. So a line that takes long holds up
 *    the output, and at most WINDOW times as many lines as run at once are read ahead of it: memory does not
 *    grow with the input.
 * 2. Input and replies are dealt with as they come: `tail -f | confab map` works, and so does a reader that is slow.
 * 3. A line that can't be asked, or whose reply fails, has an empty line, or an object with "error", in its place; the
 *    others go on. The exit status is that of the first failure.
 * 4. With --resume what was answered is recorded at once, whatever is still to be printed before it, and is not
 *    asked again by the next run (cli-record.c): that prints everything from the first line on.
 * 5. SIGINT, and a reader that has gone, cancel what runs. What is complete up to the first line that is not is printed.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json-tree.h"
#include "client/cli-commands.h"
#include "client/cli-lines.h"
#include "client/cli-map.h"
#include <string.h>

#define JOBS_DEFAULT 16 /* as many as the daemon's default of max-active */
#define JOBS_MAX 256
#define WINDOW 4
#define WINDOW_MIN 64
#define QUESTION_MAX (((size_t)4 << 20) - ((size_t)64 << 10)) /* bytes: it fits a frame */

struct map {
        struct cli *cli;
        struct cli_jobs jobs;
        struct lines lines;
        struct record record;
        struct list items;
        size_t n_items, n_at_once;
        const char *template;
        char *own_template;
        bool json_lines;
        uint64_t next, options_hash;
        int stop;  /* the status to end with at once, 0: go on */
        int worst; /* of the first line that failed */
        uint64_t n_asked, n_failed, n_cut, n_calls;
        struct cli_total total; /* of the replies that were printed, without those of the record */
        uint64_t begun;         /* monotonic */
};

static int stop(struct map *m, const struct err *e) {
        if (!m->stop)
                m->stop = cli_error(m->cli, e->code == ERR_BUSY ? CLI_BUSY : CLI_FAILED,
                        err_code_name(e->code), "%s", e->msg);
        return m->stop;
}

/* ---- results ---- */

static struct map_item *item_of(struct cli_job *job) {
        return container_of(job, struct map_item, job);
}

static void free_item(struct map *m, struct map_item *item) {
        list_unlink(&item->link);
        m->n_items--;
        cli_job_deinit(&item->job);
        question_deinit(&item->question);
        free(item);
}

static void over(void *userdata, struct cli_job *job) {
        struct map *m = userdata;
        struct map_item *item = item_of(job);
        _cleanup_(buf_deinit) struct buf line = BUF_NULL;
        struct err e;

        item->state = m->jobs.stopping && job->failed ? MAP_LOST : MAP_DONE;
        if (job->failed || m->record.fd < 0)
                return;
        if (map_put_json(&line, item) < 0) {
                err_no_memory(&e);
                stop(m, &e);
        } else if (record_append(&m->record, line.data, line.size, &e) < 0) {
                stop(m, &e);
        }
}

static void fail(struct map_item *item, const char *code, const char *message) {
        item->state = MAP_DONE;
        item->job.failed = true;
        snprintf(item->job.error.code, sizeof(item->job.error.code), "%s", code);
        snprintf(item->job.error.message, sizeof(item->job.error.message), "%s", message);
}

static int print_text(struct map *m, const char *text, size_t size) {
        _cleanup_(buf_deinit) struct buf line = BUF_NULL;
        int r = map_put_line(&line, text, size);

        cli_text(m->cli, line.data ? (char *)line.data : "", line.size);
        cli_printf(m->cli, "\n");
        return r;
}

/* What the record has of it. */
static int print_known(struct map *m, const struct map_item *item, struct err *e) {
        _cleanup_(buf_deinit) struct buf line = BUF_NULL;
        _cleanup_(json_tree_freep) struct json_value *root = NULL;
        const struct json_value *text;
        int r = record_read(&m->record, item->known, &line, e);

        if (r < 0)
                return r;
        if (m->cli->json) {
                cli_text(m->cli, line.data, line.size);
                cli_printf(m->cli, "\n");
                return 0;
        }
        r = json_tree_parse(&root, (char *)line.data, line.size, e);
        text = json_tree_get(root, "text");
        if (r == 0 && !json_tree_is(text, JSON_KIND_STRING))
                return err_set(e, ERR_FORMAT, "somebody else has changed the record");
        if (r == 0 && print_text(m, text->text, text->size) < 0)
                r = err_no_memory(e);
        return r;
}

static void count(struct map *m, const struct map_item *item) {
        const struct cli_job *job = &item->job;

        if (item->state != MAP_DONE)
                return;
        if (job->failed) {
                m->n_failed++;
                cli_complain(m->cli, "line %llu: %s", (unsigned long long)item->index + 1,
                        job->error.message);
                if (!m->worst)
                        m->worst = cli_status_of(&job->error);
                return;
        }
        m->n_cut += job->done.finish == CONFAB_FINISH_LENGTH ||
                    job->done.finish == CONFAB_FINISH_CONTEXT;
        m->n_calls += job->done.n_calls > 0;
        cli_total_add(&m->total, &job->done);
}

static int print_item(struct map *m, const struct map_item *item, struct err *e) {
        const struct cli_job *job = &item->job;
        int r;

        if (item->state == MAP_KNOWN)
                return print_known(m, item, e);
        if (m->cli->json)
                r = map_put_json(&m->cli->out, item);
        else if (item->state == MAP_BLANK || job->failed)
                r = print_text(m, "", 0);
        else
                r = print_text(m, (char *)job->reply.data, job->reply.size);
        return r < 0 ? err_no_memory(e) : 0;
}

/* All that nothing before it holds up. */
static void print_ready(struct map *m) {
        struct err e;
        int status;

        while (!list_empty(&m->items)) {
                struct map_item *item = list_entry(m->items.next, struct map_item, link);

                if (item->state == MAP_RUNS || item->state == MAP_LOST)
                        break;
                count(m, item);
                if (print_item(m, item, &e) < 0)
                        stop(m, &e);
                free_item(m, item);
        }
        if (m->cli->out.size == 0)
                return;
        status = cli_flush(m->cli);
        if (!m->stop)
                m->stop = status;
}

/* ---- questions ---- */

/* The reply depends on the line's number only by its seed, which is the same for all. */
static uint64_t hash_of(const struct map *m, const struct question *q) {
        return hash64(q->text, q->size, m->options_hash);
}

/* What is to be done about an item whose question was made with result @r. */
static void begin(struct map *m, struct map_item *item, int r, const struct err *e) {
        if (r < 0) {
                fail(item, err_code_name(e->code), e->msg);
        } else if (!item->question.text) {
                item->state = MAP_BLANK;
        } else {
                item->hash = hash_of(m, &item->question);
                item->known = record_find(&m->record, item->index, item->hash);
                item->job.text = item->question.text;
                item->job.text_size = item->question.size;
                item->state = item->known ? MAP_KNOWN : MAP_RUNS;
                m->n_asked += item->state == MAP_RUNS;
                if (item->state == MAP_RUNS)
                        cli_jobs_start(&m->jobs, &item->job);
        }
}

/* Take the next line, if it is there: 1; 0; or a negative error, which is reported. */
static int take_line(struct map *m) {
        _cleanup_(freep) char *line = NULL;
        struct map_item *item;
        size_t size = 0;
        struct err e;
        int r = lines_next(&m->lines, &line, &size, &e), made = 0;

        if (r <= 0)
                return r < 0 ? (stop(m, &e), r) : 0;
        item = calloc(1, sizeof(*item));
        if (!item) {
                r = err_no_memory(&e);
                stop(m, &e);
                return r;
        }
        item->index = m->next++;
        list_append(&m->items, &item->link);
        m->n_items++;
        if (r == 2)
                made = err_set(&e, ERR_TOO_LARGE, "it is longer than %zu bytes", QUESTION_MAX);
        else
                made = question_make(
                        &item->question, m->template, m->json_lines, line, size, QUESTION_MAX, &e);
        begin(m, item, made, &e);
        return 1;
}

static bool has_room(const struct map *m) {
        return !m->stop && m->jobs.n_running < m->n_at_once &&
               m->n_items < MAX((size_t)WINDOW * m->n_at_once, (size_t)WINDOW_MIN);
}

static void loop(struct map *m) {
        struct err e;

        while (!m->stop) {
                bool wants;
                int r = 0;

                while (has_room(m) && (r = take_line(m)) > 0)
                        ;
                print_ready(m);
                wants = has_room(m) && !lines_end(&m->lines);
                if (m->stop || (m->jobs.n_running == 0 && m->n_items == 0 && !wants))
                        break;
                if (wants && lines_fd(&m->lines) < 0) {
                        if (lines_fill(&m->lines, &e) < 0)
                                stop(m, &e);
                        continue;
                }
                if (!m->stop)
                        m->stop = cli_jobs_step(&m->jobs, wants ? lines_fd(&m->lines) : -1);
                if (wants && !m->stop && lines_fill(&m->lines, &e) < 0)
                        stop(m, &e);
        }
}

/* What standard output does not say. */
static void tell(struct map *m) {
        if (m->n_failed > 0)
                cli_complain(m->cli, "%llu of %llu line%s failed", (unsigned long long)m->n_failed,
                        (unsigned long long)m->next, plural_s(m->next));
        if (m->n_cut > 0)
                cli_complain(m->cli,
                        "%llu %s at the longest that was allowed (--max-tokens), or of the context",
                        (unsigned long long)m->n_cut,
                        m->n_cut == 1 ? "reply ended" : "replies ended");
        if (m->stop && m->stop != CLI_BROKEN_PIPE && m->record.fd >= 0)
                cli_complain(m->cli, "what was answered is recorded: the same command goes on");
        if (cli_get(m->cli, "verbose"))
                cli_tell_total(m->cli, &m->total, clock_monotonic_usec() - m->begun);
}

static int run_map(struct map *m, const struct confab_request *say) {
        int status;

        m->begun = clock_monotonic_usec();
        status = cli_jobs_begin(&m->jobs, m->cli, say);
        m->options_hash = status ? 0 : map_hash_options(&m->jobs, say);
        if (status == 0)
                loop(m);
        cli_jobs_end(&m->jobs);
        if (m->stop != CLI_BROKEN_PIPE)
                print_ready(m);
        while (!list_empty(&m->items))
                free_item(m, list_entry(m->items.next, struct map_item, link));
        if (status)
                return status;
        tell(m);
        return m->stop ? m->stop : m->worst ? m->worst : m->n_calls > 0 ? CLI_CALLS : 0;
}

/* ---- the command ---- */

static int open_record(struct map *m) {
        const struct cli_value *resume = cli_get(m->cli, "resume");
        struct err e;

        if (!resume || record_open(&m->record, resume->s, &e) == 0)
                return 0;
        return stop(m, &e);
}

static int set_up(struct map *m, struct confab_request *say) {
        static const char *const stdin_only[] = {"-"};
        const struct cli_value *at_once = cli_get(m->cli, "jobs");
        bool named = m->cli->n_args > 1;
        int status = cli_ref(m->cli, m->cli->args[0], say);

        if (status)
                return status;
        if (!named && isatty(STDIN_FILENO))
                return cli_usage(m->cli, "no questions: name a FILE, or '-' for the terminal");
        m->n_at_once = at_once ? (size_t)at_once->u : JOBS_DEFAULT;
        m->json_lines = cli_get(m->cli, "json-lines") != NULL;
        lines_init(&m->lines, named ? m->cli->args + 1 : stdin_only, named ? m->cli->n_args - 1 : 1,
                QUESTION_MAX);
        say->verb = CONFAB_CONTINUE;
        say->input = CONFAB_INPUT_MESSAGE;
        status = cli_option_text(
                m->cli, "template", "for the lines", &m->own_template, &m->template);
        return status ? status : open_record(m);
}

static int run(struct cli *cli) {
        struct map m = {.cli = cli,
                .items = LIST_INIT(m.items),
                .record = RECORD_NULL,
                .lines.fd = -1,
                .jobs = {.over = over, .userdata = &m}};
        struct confab_request say = CONFAB_REQUEST_INIT;
        struct generate_options o = {0};
        int status = set_up(&m, &say);

        if (status == 0)
                status = generate_options_init(&o, cli, &say);
        if (status == 0)
                status = run_map(&m, &say);
        generate_options_deinit(&o);
        record_close(&m.record);
        free(m.own_template);
        lines_deinit(&m.lines);
        return status;
}

static const struct cli_option options[] = {
        {"jobs", "N", CLI_UINT, .min = 1, .max_uint = JOBS_MAX, .letter = 'P',
                .help = "so many at once (default: 16)",
                .more = "At most 256. 16 is what the daemon lets generate at once, unless it is "
                        "configured."},
        {"template", "TEXT", CLI_STRING,
                .help = "the question: {} is the line, {NAME} a member of its JSON",
                .more = "Values that are no strings are put in as JSON. Other braces are text; "
                        "{{}} "
                        "stands for {} itself, {{NAME}} for {NAME}."},
        {"json-lines", NULL, CLI_FLAG,
                .help = "each line is a JSON object, with message or text, and perhaps id",
                .more = "The id, of any kind, is told with the result."},
        {"resume", "FILE", CLI_STRING,
                .help = "record answers there, and do not ask again what it has"},
        {.name = NULL},
};

const struct cli_command cmd_map = {
        .name = "map",
        .args = "NAME [FILE...]",
        .min_args = 1,
        .max_args = SIZE_MAX,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Ask a question for each line, each in a fork of NAME that is thrown away",
        .help = "Lines come from the FILEs, or from standard input ('-'), as slowly as they like, "
                "and "
                "there may be any number. Each reply is a line of the output, in the order of the "
                "input, as soon as all before it are there; line breaks in it become spaces. A "
                "blank "
                "line gives a blank line. With --json each result is an object on a line: index "
                "(of "
                "the line, from 0), id, text as it is, reasoning and calls if there are any, "
                "finish, "
                "seed and numbers of tokens; or error.\n\nNAME is neither changed nor held up: all "
                "replies go on from what it is at the beginning, whatever is said to it meanwhile. "
                "Forks are closed when their replies have ended, and as for 'confab ask' if they "
                "could not be.\n\nA line that can't be asked, or whose reply fails, gives an empty "
                "line, and is told on standard error with its number from 1. The others go on, and "
                "the exit status is that of the first failure. What is busy or full is tried again "
                "for five minutes. With --verbose all replies of the run are told together at its "
                "end.\n\nWith --resume FILE a run that was ended by Ctrl-C, a failure "
                "or "
                "kill -9 goes on with the same command, and prints everything from the first line "
                "on. FILE has the objects of --json, in the order in which answers came. input in "
                "them is a hash of the conversation, its revision, the options and the question: "
                "where one of these has changed, the line is asked again. Failures are not "
                "recorded, "
                "and tried again.",
        .examples =
                "confab open house; confab say house --max-tokens 0 @house.txt\n"
                "confab map house --template 'Where is {}?' --resume rec < things.txt > "
                "places.txt\n"
                "confab map house --json-lines --json-schema place.json --json < questions.jsonl",
        .see = "ask say",
        .options = {options, cli_generate_options, cli_sampling_options},
        .run = run,
};
