/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        if (!r.conversation_id)
                return cli_usage(cli, "conversations of all users have numbers, as '#12' (confab "
                                      "ls --all-users)");
        r.verb = CONFAB_CLOSE;
        return cli_call_empty(cli, &r);
}

const struct cli_command cmd_admin_close = {
        .name = "close",
        .args = "#ID",
        .min_args = 1,
        .max_args = 1,
        .summary = "Forget a conversation of any user for good",
        .help = "By its number, as confab ls --all-users tells it. Its forks live on.",
        .run = run,
};
