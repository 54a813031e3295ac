/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        cli_printf(cli, ": %u turn%s, %u token%s\n", c->n_turns, plural_s(c->n_turns), c->n_tokens,
                plural_s(c->n_tokens));
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *turns = cli_get(cli, "turns"), *to = cli_get(cli, "to-turn"),
                               *position = cli_get(cli, "to-position");
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        if (!!turns + !!to + !!position != 1)
                return cli_usage(cli, "one of --turns, --to-turn and --to-position is needed");
        r.verb = CONFAB_REWIND;
        r.drop_turns = turns ? (uint32_t)turns->u : 0;
        r.has_at_turn = to != NULL;
        r.at_turn = to ? (uint32_t)to->u : 0;
        r.has_at_position = position != NULL;
        r.at_position = position ? (uint32_t)position->u : 0;
        return cli_call_conversation(cli, &r, print);
}

static const struct cli_option options[] = {
        {"turns", "N", CLI_UINT, .letter = 'n', .max_uint = UINT32_MAX,
                .help = "how many turns to drop from the end (a message and its reply are two)"},
        {"to-turn", "TURN", CLI_UINT, .max_uint = UINT32_MAX - 1,
                .help = "keep the turns before number TURN, as 'show' counts them"},
        {"to-position", "P", CLI_UINT, .max_uint = UINT32_MAX - 1,
                .help = "keep the first P tokens: up to a turn's end, or into a reply"},
        {.name = NULL},
};

const struct cli_command cmd_rewind = {
        .name = "rewind",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Take back the end of a conversation",
        .help = "One of the options says how much. Forks keep what is taken back here. A reply "
                "that is cut in its middle is continued by 'confab say --no-input', and ended by "
                "what is said next.\n\nA model with recurrent or local layers may compute some of "
                "what is kept again with the next message, back to the last place that it can "
                "begin from; 'confab say --json' tells how much.",
        .examples = "confab rewind notes -n 2",
        .see = "fork edit",
        .options = {options},
        .run = run,
};
