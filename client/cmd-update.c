/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        cli_printf(cli, "\n");
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct generate_options o = {0};
        const struct cli_value *name = cli_get(cli, "name");
        bool pin = cli_get(cli, "pin") != NULL, unpin = cli_get(cli, "unpin") != NULL;
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        r.verb = CONFAB_UPDATE;
        r.name = name ? name->s : NULL;
        if (name && !*name->s)
                return cli_usage(cli, "the new name is empty");
        if (pin && unpin)
                return cli_usage(cli, "--pin and --unpin exclude each other");
        r.reset_sampling = cli_get(cli, "reset-sampling") != NULL;
        r.has_pinned = pin || unpin;
        r.pinned = pin;
        status = cli_overflow(cli, &r);
        if (status == 0)
                status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = cli_call_conversation(cli, &r, print);
        generate_options_deinit(&o);
        return status;
}

static const struct cli_option options[] = {
        {"name", "NEW", CLI_STRING, .help = "its new name"},
        CLI_OVERFLOW_OPTION,
        {"pin", NULL, CLI_FLAG,
                .help = "its memory stays in RAM for longest (root, the admin group, the daemon's "
                        "user)",
                .more = "While there is other memory that can go, that goes first."},
        {"unpin", NULL, CLI_FLAG, .help = "its memory goes like that of others"},
        {"reset-sampling", NULL, CLI_FLAG,
                .help = "sampling options that are not given are the daemon's again"},
        {.name = NULL},
};

const struct cli_command cmd_update = {
        .name = "update",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Change a conversation's name and defaults",
        .help = "What is not given stays as it is. The sampling options become the conversation's "
                "defaults.",
        .examples = "confab update notes --name done --overflow shift",
        .see = "set rename open",
        .options = {options, cli_sampling_options},
        .run = run,
};
