/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        cli_printf(cli, "\n");
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *tools = NULL;
        struct generate_options o = {0};
        _cleanup_(freep) char *system = NULL;
        int status;

        r.verb = CONFAB_OPEN;
        r.name = cli->n_args ? cli->args[0] : NULL;
        status = cli_option_text(cli, "system", NULL, &system, &r.system);
        if (status == 0)
                status = cli_overflow(cli, &r);
        if (status == 0)
                status = cli_tools(cli, &tools, &r);
        if (status == 0)
                status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = cli_call_conversation(cli, &r, print);
        generate_options_deinit(&o);
        return status;
}

static const struct cli_option options[] = {
        {"system", "TEXT", CLI_STRING, .letter = 's', .help = "system message, the first turn"},
        CLI_TOOLS_OPTION,
        CLI_OVERFLOW_OPTION,
        {.name = NULL},
};

const struct cli_command cmd_open = {
        .name = "open",
        .args = "[NEW]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Open a new conversation and print its name",
        .help = "Without NEW the daemon chooses a name. The sampling options become the "
                "conversation's defaults. A conversation is durable: it is there after a restart "
                "of the daemon, and its memory is in RAM or comes back from files.\n\n--overflow "
                "shift lets it go on at the end of the context: old turns are dropped from what "
                "the model sees, not from the conversation. Without it, what does not fit is an "
                "error.",
        .examples = "name=$(confab open --system 'You are brief.')\n"
                    "confab open notes --system @prompt.txt --temperature 0",
        .see = "say fork close",
        .options = {options, cli_sampling_options},
        .run = run,
};
