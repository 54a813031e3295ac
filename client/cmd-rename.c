/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        cli_printf(cli, "\n");
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        if (!*cli->args[1])
                return cli_usage(cli, "the new name is empty");
        r.verb = CONFAB_UPDATE;
        r.name = cli->args[1];
        return cli_call_conversation(cli, &r, print);
}

const struct cli_command cmd_rename = {
        .name = "rename",
        .args = "NAME NEW",
        .min_args = 2,
        .max_args = 2,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Give a conversation another name",
        .help = "Prints the new name. Its number stays, and its forks, and whatever runs in it. A "
                "name that is "
                "taken is refused, with exit status 4.",
        .see = "set",
        .run = run,
};
