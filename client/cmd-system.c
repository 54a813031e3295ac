/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/cli-system.h"

static int print(struct cli *cli, const struct confab_request *which) {
        bool found;
        int status = cli_system_print(cli, which, &found);

        if (status == 0 && !found && !cli->json)
                cli_complain(cli, "it has no system message");
        return status;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *text = NULL;
        size_t size;
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        if (cli->n_args == 1)
                return print(cli, &r);
        status = cli_read_text(cli, 1, CLI_TEXT_MESSAGE, &text, &size);
        if (status == 0)
                status = cli_system_give(cli, &r, text, size);
        r.verb = CONFAB_GET;
        return status == 0 && cli->json ? cli_call_conversation(cli, &r, NULL) : status;
}

const struct cli_command cmd_system = {
        .name = "system",
        .args = "NAME [TEXT|@FILE|-]",
        .min_args = 1,
        .max_args = 2,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Print a conversation's system message, or give it one",
        .help = "TEXT becomes the first turn of a conversation without any, or takes the place of "
                "a system "
                "message after which nothing was said. Later it is one more turn, if the model's "
                "chat format has system messages there, and refused if not: what was said is never "
                "written anew.\n\nWithout TEXT nothing is read: '-' stands for standard input. "
                "A pipe or a file beside TEXT is said before it.",
        .examples = "confab system notes 'You are brief.'\n"
                    "confab system notes",
        .see = "open set fork",
        .options = {cli_text_options},
        .run = run,
};
