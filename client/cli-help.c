/* SPDX-License-Identifier: MIT */
/* What --help and usage errors say, from the tables of commands. */
#include "client/cli.h"
#include <errno.h>
#include <string.h>

int cli_usage_line(struct buf *b, const struct cli_path *path) {
        const struct cli_command *c = path->n ? path->at[path->n - 1] : NULL;
        char name[CLI_PATH_NAME_MAX];

        if (!c)
                return buf_append_str(b, "confab [--socket PATH] [--json] COMMAND [ARGUMENTS]");
        cli_path_name(name, path);
        if (c->commands)
                return buf_printf(b, "confab %s COMMAND [ARGUMENTS]", name);
        return buf_printf(b, "confab %s%s%s%s", name, *c->args ? " " : "", c->args,
                c->options[0] ? " [OPTIONS]" : "");
}

static void help_options(struct cli *cli, const struct cli_option *o) {
        for (; o && o->name; o++) {
                char left[48];

                snprintf(left, sizeof(left), "%s%s--%s%s%s", o->letter ? "-" : "",
                        o->letter ? (const char[]){o->letter, ',', ' ', 0} : "", o->name,
                        o->arg ? " " : "", o->arg ? o->arg : "");
                cli_printf(cli, "  %-26s %s%s\n", left, o->help, o->repeat ? " (repeatable)" : "");
        }
}

static void help_line(struct cli *cli, const struct cli_command *c) {
        char left[64];

        snprintf(left, sizeof(left), "%s %s", c->name, c->commands ? "COMMAND" : c->args);
        cli_printf(cli, "  %-26s %s\n", left, c->summary);
}

static void help_purpose(struct cli *cli, enum cli_purpose purpose) {
        static const char *const titles[CLI_N_PURPOSES] = {
                [CLI_PURPOSE_MORE] = "More",
                [CLI_PURPOSE_TALK] = "Talk",
                [CLI_PURPOSE_KEEP] = "Conversations",
                [CLI_PURPOSE_LOOK] = "Look",
                [CLI_PURPOSE_MEMORY] = "Memory",
                [CLI_PURPOSE_RUN] = "The daemon",
        };
        bool titled = false;

        for (const struct cli_command *const *c = cli_commands; *c; c++) {
                if ((*c)->purpose != purpose)
                        continue;
                if (!titled)
                        cli_printf(cli, "%s:\n", titles[purpose]);
                titled = true;
                help_line(cli, *c);
        }
        if (titled)
                cli_printf(cli, "\n");
}

static void help_program(struct cli *cli) {
        cli_printf(cli, "Talk to confabd, the session daemon for local language models.\n\n");
        for (int i = 0; i < CLI_N_PURPOSES; i++) /* "more" at the end */
                help_purpose(cli, (enum cli_purpose)((i + 1) % CLI_N_PURPOSES));
        cli_printf(cli, "Options of every command:\n");
        help_options(cli, cli_global_options);
        cli_printf(cli, "\nNAME is a conversation's name, or its number as 12 or '#12'.\n"
                        "'confab help COMMAND' says more about a command; see also confab(1).\n");
}

static void help_command(struct cli *cli, const struct cli_command *c) {
        cli_printf(cli, "%s.\n", c->summary);
        if (c->help)
                cli_printf(cli, "\n%s\n", c->help);
        if (c->commands) {
                cli_printf(cli, "\nCommands:\n");
                for (size_t i = 0; c->commands[i]; i++)
                        help_line(cli, c->commands[i]);
        }
        if (c->options[0])
                cli_printf(cli, "\nOptions:\n");
        for (size_t i = 0; i < ARRAY_SIZE(c->options); i++)
                help_options(cli, c->options[i]);
        cli_printf(cli, "\nOptions of every command:\n");
        help_options(cli, cli_global_options);
}

void cli_help(struct cli *cli, const struct cli_path *path) {
        _cleanup_(buf_deinit) struct buf line = BUF_NULL;

        if (cli_usage_line(&line, path) < 0)
                cli->out_error = ENOMEM;
        cli_printf(cli, "Usage: %s\n\n", line.data ? (const char *)line.data : "confab");
        if (path->n)
                help_command(cli, path->at[path->n - 1]);
        else
                help_program(cli);
}
