/* SPDX-License-Identifier: MIT */
/*
 * Conversations that are named, or those that a rule finds. A rule may find more than its author thought of: so on a
 * terminal the user is shown what it found and asked, and anywhere --dry-run shows it. One that is named is closed
 * like a file that rm(1) removes.
 */
#include "client/cli-close.h"
#include "client/cli-commands.h"
#include <string.h>

#define SHOWN_MAX 20 /* before asking */

static int close_all(
        struct cli *cli, const struct cli_items *items, struct cli_close *x, int unmatched) {
        int status = 0;

        for (size_t i = 0; i < items->n && status == 0; i++)
                status = cli_close_item(x, &items->items[i]);
        if (status)
                return status;
        x->status = x->status ? x->status : unmatched;
        return cli_close_end(x);
}

/* ---- by rule ---- */

/* Whether the user agrees; true where nobody can be asked. */
static bool confirm(struct cli *cli, const struct cli_items *items) {
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        char answer[16] = "";

        if (cli_get(cli, "yes") || items->n < 2 || !isatty(STDIN_FILENO) || !cli->err_tty)
                return true;
        for (size_t i = 0; i < items->n && i < SHOWN_MAX; i++) {
                const struct cli_item *item = &items->items[i];

                (void)!safe_append(&b, item->name, strlen(item->name), false);
                (void)!buf_printf(&b, " (#%llu)\n", (unsigned long long)item->id);
        }
        if (items->n > SHOWN_MAX)
                (void)!buf_printf(&b, "and %zu more\n", items->n - SHOWN_MAX);
        (void)!buf_printf(&b, "Forget these %zu conversations for good? [y/N] ", items->n);
        (void)!fwrite(b.data, 1, b.size, stderr);
        return fgets(answer, sizeof(answer), stdin) && (*answer == 'y' || *answer == 'Y');
}

static int close_found(struct cli *cli, struct cli_selection *s, bool dry_run) {
        _cleanup_(cli_items_deinit) struct cli_items items = {0};
        _cleanup_(cli_close_deinit) struct cli_close x = {0};
        int status = cli_select(cli, s, &items), unmatched;

        if (status)
                return status;
        unmatched = cli_selection_unmatched(cli, s);
        if (unmatched && cli->json)
                return unmatched;
        if (!dry_run && !confirm(cli, &items))
                return cli_error(cli, CLI_FAILED, CONFAB_CANCELLED, "nothing was closed");
        cli_close_init(&x, cli, dry_run, true);
        return close_all(cli, &items, &x, unmatched);
}

static int run_rules(struct cli *cli, bool dry_run) {
        const char **patterns = calloc(cli->n_values + 1, sizeof(*patterns));
        const struct cli_value *v;
        struct cli_selection s;
        size_t it = 0, n = 0;
        int status;

        if (!patterns)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        while ((v = cli_get_each(cli, "match", &it)))
                patterns[n++] = v->s;
        status = cli_selection_init(&s, cli, patterns, n);
        if (status == 0)
                status = close_found(cli, &s, dry_run);
        cli_selection_deinit(&s);
        free(patterns);
        return status;
}

/* ---- by name ---- */

struct named {
        struct cli_items *items;
        int result;
};

static void named_event(void *userdata, const struct confab_event *event) {
        struct named *named = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                named->result = cli_items_add(named->items, event->conversation, false);
}

/* Look for it: 0, also if that failed and was reported, or a status to end with at once. */
static int find(struct cli *cli, const char *name, struct cli_items *items, struct cli_close *x) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct named named = {.items = items};
        struct confab_error e;
        int status = cli_ref(cli, name, &r);

        r.verb = CONFAB_GET;
        if (status)
                return status;
        if (confab_call(cli->confab, &r, named_event, &named, &e) < 0) {
                cli_add_near_names(cli, &r, &e);
                return cli_close_failed(x, name, 0, &e);
        }
        return named.result < 0 ? cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory") : 0;
}

static int run_names(struct cli *cli, bool dry_run) {
        _cleanup_(cli_items_deinit) struct cli_items items = {0};
        _cleanup_(cli_close_deinit) struct cli_close x;
        int status = cli_connect(cli);

        cli_close_init(&x, cli, dry_run, false);
        for (size_t i = 0; i < cli->n_args && status == 0; i++)
                status = dry_run ? find(cli, cli->args[i], &items, &x)
                                 : cli_close_named(&x, cli->args[i]);
        return status ? status : close_all(cli, &items, &x, 0);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        bool rules = cli_get(cli, "match") || cli_selection_given(cli),
             dry_run = cli_get(cli, "dry-run") != NULL;
        int status;

        if (rules == (cli->n_args > 0))
                return cli_usage(cli,
                        cli->n_args > 0
                                ? "NAMEs and options that choose conversations exclude each other"
                                : "close needs NAMEs, or options that choose conversations");
        if (rules)
                return run_rules(cli, dry_run);
        if (cli->n_args > 1 || dry_run || (!cli->json && cli_close_is_pattern(cli->args[0])))
                return run_names(cli, dry_run);
        status = cli_ref(cli, cli->args[0], &r);
        r.verb = CONFAB_CLOSE;
        return status ? status : cli_call_empty(cli, &r);
}

static const struct cli_option options[] = {
        {"match", "PATTERN", CLI_STRING, .repeat = true,
                .help = "those with this name; a glob, quoted from the shell: 'trip-*'"},
        {"dry-run", NULL, CLI_FLAG, .letter = 'n', .help = "only show what would be closed"},
        {"yes", NULL, CLI_FLAG, .letter = 'y', .help = "do not ask"},
        {.name = NULL},
};

const struct cli_command cmd_close = {
        .name = "close",
        .args = "NAME... | --match PATTERN",
        .max_args = SIZE_MAX,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Forget conversations for good",
        .help = "What was said is gone, and its memory. Forks live on. What fails is told and does "
                "not stop "
                "the others; the exit status is that of the first failure.\n\n"
                "In place of names, options choose which. Each is then told, and on a terminal you "
                "are asked before more than one is closed, unless --yes is given; without a "
                "terminal "
                "nobody is asked. One that was used between the choice and its end stays, with "
                "exit "
                "status 4.",
        .examples = "confab close notes drafts\n"
                    "confab close --match 'tmp-*' --older 7d --dry-run",
        .see = "prune export",
        .options = {options, cli_selection_options},
        .run = run,
};
