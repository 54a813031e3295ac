/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct generate_options o = {0};
        int status;

        r.verb = CONFAB_CONTINUE;
        r.input = CONFAB_INPUT_NONE;
        status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = cli_regenerate(cli, cli->args[0], &r);
        generate_options_deinit(&o);
        return status;
}

const struct cli_command cmd_regenerate = {
        .name = "regenerate",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Drop the last reply and give another",
        .help = "The new reply is printed as 'confab say' does. The old one is dropped once the "
                "new one is saved: it stays if the request is refused, or interrupted before the "
                "first token. A message without a reply, because that was cancelled, gets one. A "
                "fork made before keeps the reply.\n\nWith the same --seed and options the reply "
                "is the same again.",
        .examples = "confab regenerate notes --temperature 1.2",
        .see = "edit rewind",
        .options = {cli_generate_options, cli_sampling_options},
        .run = run,
};
