/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        cli_printf(cli, ": %u turns, %u tokens\n", c->n_turns, c->n_tokens);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *turns = cli_get(cli, "turns");
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        if (!turns)
                return cli_usage(cli, "--turns is needed");
        r.verb = CONFAB_REWIND;
        r.drop_turns = (uint32_t)turns->u;
        return cli_call_conversation(cli, &r, print);
}

static const struct cli_option options[] = {
        {"turns", "N", CLI_UINT, .max_uint = UINT32_MAX,
                .help = "how many turns to drop from the end (a message and its reply are two)"},
        {.name = NULL},
};

const struct cli_command cmd_rewind = {
        .name = "rewind",
        .args = "NAME --turns N",
        .min_args = 1,
        .max_args = 1,
        .summary = "Take back the last turns of a conversation",
        .options = {options},
        .run = run,
};
