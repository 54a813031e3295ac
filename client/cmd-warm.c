/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        r.verb = CONFAB_WARM;
        return status ? status : cli_call_conversation(cli, &r, cli_print_residency);
}

const struct cli_command cmd_warm = {
        .name = "warm",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_MEMORY,
        .summary = "Bring a conversation into RAM ahead of need",
        .help = "The next message then begins at once. The memory is read from the spill files, or "
                "computed again if it is not there.",
        .see = "evict",
        .run = run,
};
