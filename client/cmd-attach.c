/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        r.verb = CONFAB_ATTACH;
        r.want_parts = true;
        return cli_generate(cli, &r, false);
}

static const struct cli_option options[] = {
        {"reasoning", "show|hide|only", CLI_STRING, .letter = 'R',
                .help = "show: dimmed, or on standard error; only: nothing else"},
        {.name = NULL},
};

const struct cli_command cmd_attach = {
        .name = "attach",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Print the reply that is being written, from its beginning, and follow it",
        .help = "If none is being written, the last one is printed. Whoever asked for it, in "
                "another terminal or with 'confab say --detach', is not disturbed: Ctrl-C leaves, "
                "and "
                "the reply goes on. Prints, and ends, as 'confab say' does.",
        .examples = "confab say notes --detach 'Tell me a long story.'; confab attach notes",
        .see = "say wait cancel",
        .options = {options},
        .run = run,
};
