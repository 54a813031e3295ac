/* SPDX-License-Identifier: MIT */
/* The commands of the chat. What begins with two slashes is a message that begins with one. */
#include "client/chat/chat.h"
#include "client/line/terminal.h"
#include <errno.h>
#include <string.h>

static int chat_help(struct chat *chat, const char *arg);

static int chat_quit(struct chat *chat, const char *arg) {
        chat->quit = true;
        return 0;
}

const struct chat_command chat_commands[] = {
        {"/fork", "[NAME]", "go on in a fork of this conversation",
                "Without NAME the daemon chooses one. /switch leads back.", chat_fork, NULL},
        {"/rewind", "[N]", "take back N turns (2: what was said last, and its reply)",
                "Forks keep what is taken back here.", chat_rewind, NULL},
        {"/edit", "[TEXT]", "say TEXT instead of what was said last",
                "Without TEXT the last message comes back into the line, to be edited.", chat_edit,
                NULL},
        {"/regenerate", "", "drop the last reply and get another", NULL, chat_regenerate, NULL},
        {"/more", "", "let a reply that was cut go on", NULL, chat_more, NULL},
        {"/tree", "", "draw which conversation was forked from which", NULL, chat_tree, NULL},
        {"/switch", "NAME", "go on in another conversation",
                "NAME is a name or a number, as in /tree.", chat_switch, chat_complete_name},
        {"/system", "[TEXT]", "tell the model how to be, or show what it was told",
                "Before anything was said TEXT takes the place of the system message; later it "
                "holds from there on, if the model's chat template takes system messages there.",
                chat_system, NULL},
        {"/set", "[KEY=VALUE]", "change sampling, title and tags of this conversation",
                "Keys: temperature, top-k, top-p, min-p, repetition-penalty, presence-penalty, "
                "frequency-penalty, penalty-last-n, seed; title; tags (between commas); max-tokens "
                "(of this chat). Without a VALUE (KEY=) it is the default again; without "
                "anything they are listed.",
                chat_set, chat_complete_key},
        {"/save", "[-f] FILE", "write the transcript: JSON if FILE ends with .json, else Markdown",
                "With -f a file that is there already is replaced.", chat_save, chat_complete_file},
        {"/stats", "", "context left, tokens, rates, where memory came from", NULL, chat_stats,
                NULL},
        {"/help", "[COMMAND]", "this, or more about a command", NULL, chat_help,
                chat_complete_command},
        {"/quit", "", "leave, as Ctrl-D does", NULL, chat_quit, NULL},
        {.name = NULL},
};

/* The command with this name, of @n bytes with its slash. */
static const struct chat_command *find(const char *name, size_t n) {
        for (const struct chat_command *c = chat_commands; c->name; c++)
                if (strlen(c->name) == n && memcmp(c->name, name, n) == 0)
                        return c;
        return NULL;
}

/* ---- help ---- */

/* On a terminal wrapped at words, behind @hang columns from the second line on. */
static void print_wrapped(struct chat *chat, unsigned hang, const char *s) {
        struct cli *cli = chat->cli;
        struct wrap w = {.out = &cli->out,
                .columns = chat->tty ? terminal_columns() : 0,
                .utf8 = true,
                .hang = hang};

        for (; *s; s++)
                wrap_put(&w, (unsigned char)*s, 0);
        wrap_flush(&w);
        wrap_newline(&w);
        if (w.error)
                cli->out_error = ENOMEM;
}

static void print_usage(struct chat *chat, const struct chat_command *c, int width) {
        _cleanup_(freep) char *line = NULL;
        char usage[48];

        snprintf(usage, sizeof(usage), "%s%s%s", c->name, *c->args ? " " : "", c->args);
        if (asprintf(&line, "%-*s  %s", width, usage, c->help) < 0)
                line = NULL;
        if (line)
                print_wrapped(chat, (unsigned)width + 2, line);
        else
                chat->cli->out_error = ENOMEM;
}

static int help_about(struct chat *chat, const struct chat_command *c) {
        print_usage(chat, c, 0);
        if (c->more)
                print_wrapped(chat, 0, c->more);
        return 0;
}

static int unknown(struct chat *chat, const char *name, size_t n);

static int chat_help(struct chat *chat, const char *arg) {
        char name[32];
        size_t n = (size_t)snprintf(name, sizeof(name), "%s%s", *arg == '/' ? "" : "/", arg);
        const struct chat_command *c = find(name, n);

        if (*arg)
                return c ? help_about(chat, c) : unknown(chat, name, MIN(n, sizeof(name) - 1));
        for (c = chat_commands; c->name; c++)
                print_usage(chat, c, 17);
        print_wrapped(chat, 0, "A message that begins with a slash is written with two.");
        print_wrapped(chat, 0,
                "A line that ends with \\ goes on in the next one, and so does Alt-Enter; what is "
                "pasted is one message.");
        print_wrapped(chat, 0,
                "Ctrl-R searches what was said before, Tab completes commands, Ctrl-X Ctrl-E opens "
                "$EDITOR.");
        return 0;
}

/* ---- names ---- */

static int unknown(struct chat *chat, const char *name, size_t n) {
        _cleanup_(buf_deinit) struct buf near = BUF_NULL;
        _cleanup_(freep) char *word = strndup(name, n);
        struct cli_suggest suggest = {.word = word ? word + 1 : ""};

        for (const struct chat_command *c = chat_commands; c->name; c++)
                cli_suggest_try(&suggest, c->name + 1);
        (void)!cli_suggest_put(&suggest, "/", &near);
        return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                "unknown command '%.*s'%s (/help lists them)", (int)n, name,
                near.data ? (const char *)near.data : "");
}

int chat_command(struct chat *chat, const char *line) {
        size_t n = strcspn(line, " \t\n"), n_arg;
        const struct chat_command *c = find(line, n);
        const char *arg = line + n + strspn(line + n, " \t\n");
        _cleanup_(freep) char *trimmed = NULL;

        if (!c)
                return unknown(chat, line, n);
        if (*arg && !*c->args)
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                        "%s takes nothing; /help %s tells more", c->name, c->name + 1);
        n_arg = strlen(arg);
        while (n_arg > 0 && arg[n_arg - 1] == ' ') /* that completion has left */
                n_arg--;
        trimmed = strndup(arg, n_arg);
        if (!trimmed)
                return cli_error(
                        chat->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the command");
        return c->run(chat, trimmed);
}
