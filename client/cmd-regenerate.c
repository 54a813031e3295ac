/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static int regenerate(struct cli *cli, struct confab_request *r) {
        struct cli_turn t = {0};
        int status = cli_get_turn(cli, cli->args[0], CLI_LAST_TURN, &t);

        if (status)
                return status;
        if (!t.found || t.n_turns < 2 || t.role == CONFAB_ROLE_SYSTEM ||
                t.role == CONFAB_ROLE_USER) {
                cli_complain(cli, "%s does not end with a reply", cli->args[0]);
                return CLI_FAILED;
        }
        status = cli_rewind_for(cli, &t, t.n_turns - 1, r);
        return status ? status : cli_generate(cli, r, false);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct generate_options o = {0};
        int status;

        r.verb = CONFAB_CONTINUE;
        r.input = CONFAB_INPUT_NONE;
        status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = regenerate(cli, &r);
        generate_options_deinit(&o);
        return status;
}

const struct cli_command cmd_regenerate = {
        .name = "regenerate",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .summary = "Drop the last reply and give another",
        .help = "A fork made before keeps the reply. Prints as 'say' does. With the same seed and "
                "options\nthe reply is the same again.",
        .options = {cli_generate_options, cli_sampling_options},
        .run = run,
};
