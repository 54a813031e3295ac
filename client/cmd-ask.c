/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/cli-throwaway.h"

/* Its question and options; *ret_text is to be freed. */
static int prepare(struct cli *cli, struct confab_request *r, char **ret_text) {
        bool named = cli->n_args > 1;
        int status = named ? cli_ref(cli, cli->args[0], r) : 0;

        if (status)
                return status;
        if (named && cli_get(cli, "system"))
                return cli_usage(cli, "NAME has its own system message: leave out --system");
        r->verb = CONFAB_CONTINUE;
        r->input = CONFAB_INPUT_MESSAGE;
        status = cli_read_text(cli, named ? 1 : 0, CLI_TEXT_MESSAGE, ret_text, &r->text_size);
        r->text = *ret_text;
        return status;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(freep) char *text = NULL;
        _cleanup_(freep) char *own_system = NULL;
        const char *system = NULL;
        _cleanup_(freep) char *tools = NULL;
        struct generate_options o = {0};
        int status = cli_tools(cli, &tools, &r);

        if (status == 0)
                status = cli_option_text(cli, "system", "for the question", &own_system, &system);
        if (status == 0)
                status = prepare(cli, &r, &text);
        if (status == 0)
                status = generate_options_init(&o, cli, &r);
        if (status == 0)
                status = cli_generate_throwaway(cli, &r, system);
        generate_options_deinit(&o);
        return status;
}

static const struct cli_option options[] = {
        {"system", "TEXT", CLI_STRING, .letter = 's',
                .help = "system message, where there is no NAME"},
        CLI_TOOLS_OPTION,
        {.name = NULL},
};

const struct cli_command cmd_ask = {
        .name = "ask",
        .args = "[NAME] [TEXT|@FILE|-]",
        .max_args = 2,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Ask something and leave nothing behind",
        .help = "The question is answered in a fork of NAME that is closed afterwards, or, without "
                "NAME, in an empty conversation. NAME is neither changed nor held up, and its "
                "memory "
                "is shared: a question costs its own tokens alone. One argument is the TEXT; to "
                "ask "
                "NAME what standard input has, write 'confab ask NAME -'. TEXT is joined with "
                "standard input, and the reply printed, as 'confab say' does it.\n\nWhile a reply "
                "of "
                "NAME is being written, the fork has what was said before it; with --wait it has "
                "that reply as well. The fork has a name that the daemon chooses, and no title or "
                "tags. If this program is killed, or loses its connection, the daemon closes the "
                "fork two minutes after its last use, also after a restart.",
        .examples = "confab ask notes 'What is my cat called?'\n"
                    "git diff | confab ask 'Is this change right?'\n"
                    "confab ask notes 'Is this about my cat?' < letter.txt",
        .see = "say map fork",
        .options = {options, cli_text_options, cli_generate_options, cli_sampling_options},
        .run = run,
};
