/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        cli_printf(cli, "\n");
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *at = cli_get(cli, "at"), *position = cli_get(cli, "at-position");
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        if (at && position)
                return cli_usage(cli, "--at and --at-position exclude each other");
        r.verb = CONFAB_FORK;
        r.name = cli->n_args > 1 ? cli->args[1] : NULL;
        r.has_at_turn = at != NULL;
        r.at_turn = at ? (uint32_t)at->u : 0;
        r.has_at_position = position != NULL;
        r.at_position = position ? (uint32_t)position->u : 0;
        return cli_call_conversation(cli, &r, print);
}

static const struct cli_option options[] = {
        {"at", "TURN", CLI_UINT, .letter = 'a', .max_uint = UINT32_MAX - 1,
                .help = "keep the turns before number TURN, as 'show' counts them"},
        {"at-position", "P", CLI_UINT, .max_uint = UINT32_MAX - 1,
                .help = "keep the first P tokens: up to a turn's end, or into a reply"},
        {.name = NULL},
};

const struct cli_command cmd_fork = {
        .name = "fork",
        .args = "NAME [NEW]",
        .min_args = 1,
        .max_args = 2,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Make a second conversation that begins like NAME",
        .help = "Prints the name of the new one; without NEW the daemon chooses it. Both share the "
                "memory of what they have in common, so a fork costs next to nothing.",
        .examples = "confab fork notes other\n"
                    "confab fork notes --at 4",
        .see = "tree rewind",
        .options = {options},
        .run = run,
};
