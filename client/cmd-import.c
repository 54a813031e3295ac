/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include <unistd.h>

static void event(void *userdata, const struct confab_event *event) {
        struct cli *cli = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (cli->json) {
                cli_put_conversation(
                        cli, &(struct confab_request)CONFAB_REQUEST_INIT, event->conversation);
                return;
        }
        cli_name(cli, event->conversation->name);
        cli_printf(cli, "\n");
}

static int run(struct cli *cli) {
        struct confab_error e;
        int status;

        if (isatty(STDIN_FILENO))
                return cli_usage(cli, "what to import is read from standard input: give a file");
        status = cli_connect(cli);
        if (status)
                return status;
        if (confab_import(cli->confab, STDIN_FILENO, cli->n_args ? cli->args[0] : NULL, event, cli,
                    &e) < 0)
                return cli_fail(cli, &e);
        return 0;
}

const struct cli_command cmd_import = {
        .name = "import",
        .args = "[NEW]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Make a conversation of an export and print its name",
        .help = "A conversation is made of an export, read from standard input. Without NEW it "
                "gets the name it had, or another one if that is taken. Its memory is used if the "
                "daemon's model and settings are the ones that made it, and computed again when it "
                "is needed otherwise. The file may come from anywhere: memory that another daemon "
                "exported is used for this conversation and its forks only.",
        .examples = "confab import copy < notes.confab",
        .see = "export",
        .run = run,
};
