/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct cli_path path = {.n = 0};

        for (size_t i = 0; i < cli->n_args; i++)
                if (!cli_path_add(&path, cli->args[i]))
                        return cli_unknown_command(cli, &path, cli->args[i]);
        cli_help(cli, &path);
        return 0;
}

const struct cli_command cmd_help = {
        .name = "help",
        .args = "[COMMAND...]",
        .max_args = CLI_PATH_MAX,
        .summary = "Show help, of a command if one is given",
        .help = "The same as 'confab COMMAND --help'. The manual page of a command is "
                "confab-COMMAND(1).",
        .run = run,
};
