/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        r.verb = CONFAB_EVICT;
        return status ? status : cli_call_conversation(cli, &r, cli_print_residency);
}

const struct cli_command cmd_evict = {
        .name = "evict",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .summary = "Put the memory of a conversation into its spill files",
        .help = "Its next reply brings it back.",
        .run = run,
};
