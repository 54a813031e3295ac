/* SPDX-License-Identifier: MIT */
/* What --help and usage errors say, from the tables of commands. */
#include "client/cli-select.h"
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

int cli_usage_line(struct buf *b, const struct cli_path *path) {
        const struct cli_command *c = path->n ? path->at[path->n - 1] : NULL;
        char name[CLI_PATH_NAME_MAX];

        if (!c)
                return buf_append_str(b, "confab [OPTIONS] COMMAND [ARGUMENTS]");
        cli_path_name(name, path);
        if (c->commands)
                return buf_printf(b, "confab %s COMMAND [ARGUMENTS]", name);
        return buf_printf(b, "confab %s%s%s%s", name, *c->args ? " " : "", c->args,
                c->options[0] ? " [OPTIONS]" : "");
}

/* ---- columns ---- */

#define LEFT_COLUMNS 26 /* of options and commands, behind two spaces */
#define WIDTH_MIN 40u
#define WIDTH_MAX 100u /* longer lines are hard to read */
#define WIDTH_PIPE 80u

static size_t width(const struct cli *cli) {
        struct winsize size;

        if (!cli->out_tty || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
                return WIDTH_PIPE;
        return size.ws_col < WIDTH_MIN   ? WIDTH_MIN
               : size.ws_col > WIDTH_MAX ? WIDTH_MAX
                                         : size.ws_col;
}

/* Print the words of @s, to the end of a line, in lines that begin in column @indent; the first one
 * has reached that column. */
static void put_words(struct cli *cli, const char *s, size_t n, size_t indent) {
        size_t end = width(cli), column = indent;

        for (size_t i = 0, size; i < n; i += size) {
                i += strspn(s + i, " \n");
                size = i < n ? MIN(strcspn(s + i, " \n"), n - i) : 0;
                if (size == 0)
                        break;
                if (column > indent && column + 1 + size > end) {
                        cli_printf(cli, "\n%*s", (int)indent, "");
                        column = indent;
                } else if (column > indent) {
                        cli_printf(cli, " ");
                        column++;
                }
                cli_printf(cli, "%.*s", (int)size, s + i);
                column += size;
        }
        cli_printf(cli, "\n");
}

/* Paragraphs, with an empty line between; one that begins with a space is printed as it is. */
static void put_paragraphs(struct cli *cli, const char *s) {
        while (*s) {
                const char *end = strstr(s, "\n\n");
                size_t n = end ? (size_t)(end - s) : strlen(s);

                if (*s == ' ')
                        cli_printf(cli, "%.*s\n", (int)n, s);
                else
                        put_words(cli, s, n, 0);
                s += n;
                if (*s)
                        cli_printf(cli, "\n");
                s += strspn(s, "\n");
        }
}

/* @left, and @right beside it, or below if that is too long. */
static void put_row(struct cli *cli, const char *left, const char *right) {
        bool below = strlen(left) > LEFT_COLUMNS;

        cli_printf(cli, "  %-*s%s%*s", LEFT_COLUMNS, left, below ? "\n" : " ",
                below ? LEFT_COLUMNS + 3 : 0, "");
        put_words(cli, right, strlen(right), LEFT_COLUMNS + 3);
}

/* ---- rows ---- */

static void help_options(struct cli *cli, const struct cli_option *o) {
        for (; o && o->name; o++) {
                char left[64], right[256];

                snprintf(left, sizeof(left), "%s%s--%s%s%s", o->letter ? "-" : "    ",
                        o->letter ? (const char[]){o->letter, ',', ' ', 0} : "", o->name,
                        o->arg ? " " : "", o->arg ? o->arg : "");
                snprintf(right, sizeof(right), "%s%s", o->help, o->repeat ? " (repeatable)" : "");
                put_row(cli, left, right);
        }
}

static void help_line(struct cli *cli, const struct cli_command *c) {
        char left[64];

        snprintf(left, sizeof(left), "%s %s", c->name, c->commands ? "COMMAND" : c->args);
        put_row(cli, left, c->summary);
}

static void put_examples(struct cli *cli, const char *s) {
        cli_printf(cli, "\nExamples:\n");
        while (*s) {
                size_t n = strcspn(s, "\n");

                cli_printf(cli, "  %.*s\n", (int)n, s);
                s += n + (s[n] == '\n');
        }
}

/* ---- pages ---- */

const struct cli_table cli_tables[] = {
        {cli_text_options, "text", "The text", NULL},
        {cli_generate_options, "generate", "The reply", NULL},
        {cli_sampling_options, "sampling", "Choosing tokens",
                "What is not given is the conversation's default, or the daemon's: temperature "
                "0.8, the "
                "40 likeliest tokens, of these the likeliest that make up 0.95, and none below "
                "0.05 "
                "times the likeliest; no penalties, which look back 64 tokens; a seed drawn anew "
                "for "
                "each reply."},
        {cli_selection_options, "choose", "Choosing conversations",
                "All that are given have to hold."},
        {cli_global_options, "global", "Options of every command",
                "Before or after the command's name."},
        {.options = NULL},
};

const struct cli_table *cli_find_table(const struct cli_option *options) {
        for (const struct cli_table *t = cli_tables; t->options; t++)
                if (t->options == options)
                        return t;
        return NULL;
}

const char *cli_purpose_title(enum cli_purpose purpose) {
        static const char *const titles[CLI_N_PURPOSES] = {
                [CLI_PURPOSE_MORE] = "More",
                [CLI_PURPOSE_TALK] = "Talk",
                [CLI_PURPOSE_KEEP] = "Conversations",
                [CLI_PURPOSE_LOOK] = "Look",
                [CLI_PURPOSE_MEMORY] = "Memory",
                [CLI_PURPOSE_RUN] = "The daemon",
        };

        return titles[purpose];
}

static void help_purpose(struct cli *cli, enum cli_purpose purpose) {
        bool titled = false;

        for (const struct cli_command *const *c = cli_commands; *c; c++) {
                if ((*c)->purpose != purpose)
                        continue;
                if (!titled)
                        cli_printf(cli, "%s:\n", cli_purpose_title(purpose));
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

/* The options of all tables without a title, then one list under each title. */
static void help_tables(struct cli *cli, const struct cli_command *c) {
        bool titled = false;

        for (size_t i = 0; i < ARRAY_SIZE(c->options); i++) {
                if (!c->options[i] || cli_find_table(c->options[i]))
                        continue;
                if (!titled)
                        cli_printf(cli, "\nOptions:\n");
                titled = true;
                help_options(cli, c->options[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(c->options); i++) {
                const struct cli_table *t = c->options[i] ? cli_find_table(c->options[i]) : NULL;

                if (!t)
                        continue;
                cli_printf(cli, "\n%s:\n", t->title);
                help_options(cli, c->options[i]);
        }
}

static void help_command(struct cli *cli, const struct cli_command *c) {
        cli_printf(cli, "%s.\n", c->summary);
        if (c->help) {
                cli_printf(cli, "\n");
                put_paragraphs(cli, c->help);
        }
        if (c->commands) {
                cli_printf(cli, "\nCommands:\n");
                for (size_t i = 0; c->commands[i]; i++)
                        help_line(cli, c->commands[i]);
        }
        help_tables(cli, c);
        cli_printf(cli, "\nOptions of every command:\n");
        help_options(cli, cli_global_options);
        if (c->examples)
                put_examples(cli, c->examples);
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
