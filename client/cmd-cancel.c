/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        r.verb = CONFAB_CANCEL;
        return status ? status : cli_call_empty(cli, &r);
}

const struct cli_command cmd_cancel = {
        .name = "cancel",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Stop what a conversation is doing",
        .help = "A reply that is being generated ends there and is kept.",
        .see = "say",
        .run = run,
};
