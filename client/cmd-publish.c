/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        if (c->n_published)
                cli_printf(cli, ": all users share the memory of its first %u tokens\n",
                        c->n_published);
        else
                cli_printf(cli, ": not published\n");
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *turns = cli_get(cli, "turns");
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        r.verb = CONFAB_PUBLISH;
        r.off = cli_get(cli, "off") != NULL;
        if (r.off && turns)
                return cli_usage(cli, "--off goes without --turns");
        r.has_at_turn = turns != NULL;
        r.at_turn = turns ? (uint32_t)turns->u : 0;
        return cli_call_conversation(cli, &r, print);
}

static const struct cli_option options[] = {
        {"turns", "N", CLI_UINT, .max_uint = UINT32_MAX - 1,
                .help = "only the first N turns (a system message is one)"},
        {"off", NULL, CLI_FLAG, .help = "share it no longer"},
        {.name = NULL},
};

const struct cli_command cmd_publish = {
        .name = "publish",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_MEMORY,
        .summary = "Share the memory of a beginning with all users",
        .help = "For administrators. Conversations of any user that begin with the same "
                "tokens need not compute them. What is published is no secret: how fast a prompt "
                "is taken in tells others whether it begins like that.",
        .examples = "confab publish handbook --turns 1",
        .see = "fork",
        .options = {options},
        .run = run,
};
