/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        r.verb = CONFAB_CLOSE;
        return status ? status : cli_call_empty(cli, &r);
}

const struct cli_command cmd_close = {
        .name = "close",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Forget a conversation for good",
        .help = "What was said is gone, and its memory. Its forks live on.",
        .see = "export",
        .run = run,
};
