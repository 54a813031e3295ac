/* SPDX-License-Identifier: MIT */
/*
 * A transcript to be read, and to be searched.
 *
 * 1. Turns come in pages, and each is printed before the next is asked for: a transcript of 100,000 turns takes as much
 *    memory as one page. A page that is too large for one answer is asked for again with half as many turns.
 * 2. 'show' tells what a conversation is, all of it at once; 'log' prints what was said, from wherever the reader wants.
 *    Turn numbers are the same.
 * 3. --since goes back from the end, page by page, to the first turn that is old enough, and then forward: what is
 *    older is never asked for.
 * 4. --search in one conversation looks at each turn here, as the daemon does in all (List): every word has to begin a
 *    word of the turn, without case. Without NAME the daemon searches, and tells the newest turn of each conversation.
 */
#include "base/clock.h"
#include "client/cli-commands.h"
#include "client/cli-when.h"
#include "client/cli-words.h"
#include "client/event-json.h"
#include <string.h>

#define PAGE 64 /* turns */

struct log {
        struct cli *cli;
        struct confab_request r; /* whose turns */
        bool times, blank, plain;
        enum cli_reasoning reasoning;
        struct cli_words *words; /* or NULL */
        uint64_t since;          /* microseconds since 1970, or 0 */
        uint32_t page;
        /* of the last answer: */
        uint32_t n_turns, first, n;
        uint32_t n_old;
        bool want_print;
};

/* ---- one turn ---- */

static bool shown(const struct log *log, const struct confab_part *part) {
        if (part->kind == CONFAB_PART_REASONING)
                return log->reasoning != CLI_REASONING_HIDE;
        return log->reasoning != CLI_REASONING_ONLY;
}

static void print_text(struct cli *cli, const void *text, size_t n) {
        cli_text(cli, text, n);
        if (n == 0 || ((const char *)text)[n - 1] != '\n')
                cli_printf(cli, "\n");
}

static void print_turn(struct log *log, const struct confab_conversation *c, size_t i) {
        const struct confab_turn *t = &c->turns[i];
        struct cli *cli = log->cli;
        char when[32];

        cli_printf(cli, "%s[%zu] %s", log->blank ? "\n" : "", c->first_turn + i,
                confab_role_name(t->role));
        log->blank = true;
        if (log->times && t->created_usec)
                cli_printf(cli, "  %s", when_format(when, t->created_usec));
        if (t->finish && t->finish != CONFAB_FINISH_STOP)
                cli_printf(cli, " (%s)", confab_finish_name(t->finish));
        cli_printf(cli, "\n");
        for (size_t k = 0; k < t->n_parts; k++)
                if (shown(log, &t->parts[k]))
                        cli_print_parts(cli, &t->parts[k], 1);
        for (size_t k = 0; k < t->n_results; k++) {
                cli_name(cli, t->results[k].name ? t->results[k].name : "");
                cli_printf(cli, " [");
                cli_name(cli, t->results[k].call_id);
                cli_printf(cli, "]: ");
                print_text(cli, t->results[k].text, strlen(t->results[k].text));
        }
        if (t->n_parts == 0 && t->n_results == 0)
                print_text(cli, t->text.data, t->text.size);
}

static void put_turn(struct log *log, const struct confab_conversation *c, size_t i) {
        struct json j;

        json_init(&j, &log->cli->out);
        event_json_turn(&j, c, i, EVENT_JSON_SEED_NUMBER);
        cli_json_end(log->cli, &j);
}

/* ---- pages ---- */

static void page_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        struct log *log = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        log->n_turns = c->damaged ? MIN(c->damaged_turn, c->n_turns) : c->n_turns;
        log->first = c->first_turn;
        log->n = (uint32_t)c->n_turn_list;
        log->n_old = 0;
        if (c->damaged && log->want_print && log->first + log->n >= c->damaged_turn)
                cli_complain(log->cli, "it is damaged from turn %u on, and cannot be read further",
                        c->damaged_turn);
        for (size_t i = 0; i < c->n_turn_list; i++) {
                const struct confab_turn *t = &c->turns[i];

                if (t->created_usec < log->since)
                        log->n_old = (uint32_t)i + 1;
                if (!log->want_print || (log->words && !words_fit(log->words, t)))
                        continue;
                if (log->cli->json)
                        put_turn(log, c, i);
                else
                        print_turn(log, c, i);
        }
}

/* Ask for a page; log->first and log->n tell what came. 0 or a status. */
static int get_page(struct log *log, uint32_t from, uint32_t before, bool forward, bool print) {
        struct confab_request *r = &log->r;
        struct confab_error e;

        r->has_from_turn = forward;
        r->from_turn = from;
        r->has_before_turn = !forward;
        r->before_turn = before;
        log->want_print = print;
        for (;;) {
                r->want_parts = print && !log->plain;
                if (cli_try_page(log->cli, r, &log->page, page_event, log, &e) == 0)
                        return 0;
                if (confab_error_is(&e, "corrupt") && !log->plain)
                        log->plain = true; /* the parts of damaged turns can't be read */
                else
                        return cli_fail(log->cli, &e);
        }
}

static int print_from(struct log *log, uint32_t from) {
        int status = 0;

        while (status == 0 && from < log->n_turns) {
                status = get_page(log, from, 0, true, true);
                if (status == 0)
                        status = cli_flush(log->cli);
                if (log->n == 0)
                        break; /* damaged from here on, or somebody has taken it back */
                from = log->first + log->n;
        }
        return status;
}

/* The first turn that is not older than log->since, and not before @from. */
static int find_since(struct log *log, uint32_t from, uint32_t *ret) {
        uint32_t before = log->n_turns;
        int status = 0;

        while (status == 0 && before > from) {
                status = get_page(log, 0, before, false, false);
                if (status || log->n == 0)
                        break;
                before = log->first + log->n_old;
                if (log->n_old > 0)
                        break;
        }
        *ret = MAX(from, before);
        return status;
}

static void count_event(void *userdata, const struct confab_event *event) {
        struct log *log = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        log->n_turns = event->conversation->n_turns;
        log->r.conversation = NULL; /* it may be renamed meanwhile */
        log->r.conversation_id = event->conversation->id;
}

static int log_one(struct log *log) {
        const struct cli_value *last = cli_get(log->cli, "last");
        uint32_t from = 0;
        int status = cli_ref(log->cli, log->cli->args[0], &log->r);

        log->r.verb = CONFAB_GET;
        if (status == 0)
                status = cli_call(log->cli, &log->r, count_event, log);
        if (status)
                return status;
        if (last && last->u < log->n_turns)
                from = log->n_turns - (uint32_t)last->u;
        if (log->since)
                status = find_since(log, from, &from);
        return status ? status : print_from(log, from);
}

/* ---- all conversations ---- */

static int hit(void *userdata, const struct confab_conversation *c) {
        struct log *log = userdata;
        struct cli *cli = log->cli;
        char when[32];
        struct json j;

        if (log->since && c->updated_usec < log->since)
                return 0;
        if (cli->json) {
                json_init(&j, &cli->out);
                json_object_begin(&j);
                event_json_conversation(&j, c, EVENT_JSON_SEED_NUMBER);
                json_object_end(&j);
                cli_json_end(cli, &j);
                return cli_flush(cli);
        }
        cli_name(cli, c->name);
        cli_printf(cli, " (#%llu)", (unsigned long long)c->id);
        if (c->has_hit_turn)
                cli_printf(cli, " [%u]", c->hit_turn);
        if (log->times)
                cli_printf(cli, "  %s", when_format(when, c->updated_usec));
        cli_printf(cli, "\n    ");
        cli_name(cli, c->snippet ? c->snippet : "");
        cli_printf(cli, "\n");
        return cli_flush(cli);
}

static int log_all(struct log *log, const char *search) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        if (!search)
                return cli_usage(log->cli, "log needs a NAME, or --search WORDS to look in all");
        if (cli_get(log->cli, "last"))
                return cli_usage(log->cli, "--last goes with a NAME");
        r.search = search;
        return cli_list(log->cli, &r, hit, log);
}

static int run(struct cli *cli) {
        const struct cli_value *search = cli_get(cli, "search"), *since = cli_get(cli, "since");
        struct log log = {
                .cli = cli,
                .r = CONFAB_REQUEST_INIT,
                .times = cli_get(cli, "times") != NULL,
                .page = PAGE,
        };
        int status = cli_reasoning(cli, &log.reasoning);

        if (status)
                return status;
        if (!cli_get(cli, "reasoning"))
                log.reasoning = CLI_REASONING_HIDE;
        if (since && !when_parse(since->s, clock_realtime_usec(), &log.since))
                return cli_usage(cli,
                        "--since: '%s' is no age (as 2h, 30d) and no time (as 2026-11-28, "
                        "'2026-11-28 14:00', 14:00)",
                        since->s);
        if (search && !words_valid(search->s))
                return cli_usage(cli, "--search: there is no word in '%s'", search->s);
        if (cli->n_args == 0)
                return log_all(&log, search ? search->s : NULL);
        if (search && !(log.words = words_new(search->s)))
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        status = log_one(&log);
        words_free(log.words);
        return status;
}

static const struct cli_option options[] = {
        {"last", "N", CLI_UINT, .letter = 'n', .max_uint = UINT32_MAX,
                .help = "the last N turns only (a message and its reply are two)"},
        {"since", "WHEN", CLI_STRING,
                .help = "turns since then: 2h, 30d, 2026-11-28, '2026-11-28 14:00', 14:00",
                .more = "Times are local."},
        {"search", "WORDS", CLI_STRING,
                .help = "turns that have all of these words, or words that begin with them",
                .more = "Upper and lower case are the same; where the daemon searches, accents do "
                        "not "
                        "count either."},
        {"times", NULL, CLI_FLAG, .letter = 't', .help = "when each was said"},
        {"reasoning", "show|hide|only", CLI_STRING,
                .help = "what the model marked as reasoning (hide, unless this says otherwise)"},
        {.name = NULL},
};

const struct cli_command cmd_log = {
        .name = "log",
        .args = "[NAME]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "Read what was said, or search it",
        .help = "Prints the turns of NAME, oldest first, each under its number and role. It reads "
                "them page by "
                "page, so it needs little memory however long the transcript is; 'confab show' "
                "tells in addition what the conversation is, and reads all of it first. With "
                "--json "
                "each turn is an object on a line of its own.\n\n"
                "Without NAME, --search tells which conversations have the words, in one turn, or "
                "in name, title and tags: the number of the newest such turn, and the line around "
                "the first word.",
        .examples = "confab log notes --since 2d | less\n"
                    "confab log --search 'cat tom'",
        .see = "show ls",
        .options = {options},
        .run = run,
};
