/* SPDX-License-Identifier: MIT */
/*
 * A conversation line by line. On a terminal lines are edited and replies made readable, and after an error is reported
 * the chat continues, even if the daemon was restarted: each request reconnects if necessary. Without a
 * terminal each line of standard input is a message, replies are written byte for byte, and the first failure ends the
 * chat. The commands are in client/chat.
 */
#include "client/chat/chat.h"
#include "client/cli-commands.h"
#include "client/line/terminal.h"
#include <langinfo.h>
#include <string.h>

/* Continue the conversation that was named, or open one. */
static int begin(struct chat *chat) {
        struct confab_request get = CONFAB_REQUEST_INIT, open = CONFAB_REQUEST_INIT;
        struct cli *cli = chat->cli;
        _cleanup_(freep) char *system = NULL;
        struct confab_error e;
        int status = cli_connect(cli);

        if (status)
                return status;
        if (cli->n_args) {
                status = cli_ref(cli, cli->args[0], &get);
                if (status)
                        return status;
                get.verb = CONFAB_GET;
                get.want_turns = get.want_parts = true;
                get.max_turns = CHAT_LAST_TURNS;
                if (confab_call(cli->confab, &get, chat_show_event, chat, &e) == 0)
                        return 0;
                if (get.conversation_id || !confab_error_is(&e, CONFAB_NOT_FOUND))
                        return cli_fail(cli, &e);
        }
        open.verb = CONFAB_OPEN;
        open.name = get.conversation;
        status = cli_option_text(cli, "system", "for what is said", &system, &open.system);
        if (status == 0)
                status = cli_overflow(cli, &open);
        if (status)
                return status;
        return cli_call(cli, &open, chat_enter_event, chat);
}

/* If the daemon has gone away since, the next request must reconnect. */
static void refresh(struct chat *chat) {
        struct cli *cli = chat->cli;

        if (cli->confab && confab_process(cli->confab, NULL) < 0)
                cli->confab = confab_free(cli->confab);
}

static int one_line(struct chat *chat, const char *s) {
        struct confab_request r = chat->proto;
        int status, flushed;

        if (s[strspn(s, " \t\r\n\v\f")] == 0) /* as with say, there is nothing to be said */
                return 0;
        refresh(chat);
        if (s[0] == '/' && s[1] != '/') {
                status = chat_command(chat, s);
        } else {
                r.conversation_id = chat->id;
                r.input = CONFAB_INPUT_MESSAGE;
                r.text = s + (*s == '/');
                r.text_size = strlen(r.text);
                status = cli_generate(chat->cli, &r, false);
        }
        if (status == CLI_CALLS) /* nobody answers them here */
                status = 0;
        flushed = cli_flush(chat->cli);
        return flushed == CLI_BROKEN_PIPE ? flushed : status ? status : flushed;
}

/* ---- on a terminal ---- */

static void take_typed(void *userdata) {
        struct chat *chat = userdata;

        line_take_typed(chat->line);
        chat->cli->beside[0].fd = line_typed_fd(chat->line);
}

/* While a reply is written: the terminal has another size, or the program was stopped and goes on. */
static void take_news(void *userdata) {
        struct chat *chat = userdata;
        unsigned news = terminal_news();

        if (news & TERMINAL_RESIZED)
                markdown_resize(&chat->markdown, terminal_columns());
        if (news & TERMINAL_RESUMED)
                markdown_moved(&chat->markdown);
}

/* The history's file, to be freed, or NULL: there is none to be. */
static char *history_path(const struct cli *cli) {
        const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
        char *path = NULL;
        int n = -1;

        if (cli_get(cli, "no-history"))
                return NULL;
        if (state && *state == '/')
                n = asprintf(&path, "%s/confab/history", state);
        else if (home && *home == '/')
                n = asprintf(&path, "%s/.local/state/confab/history", home);
        return n < 0 ? NULL : path;
}

static int take_terminal(struct chat *chat) {
        struct cli *cli = chat->cli;
        _cleanup_(freep) char *history = history_path(cli);
        const struct markdown_options shown = {.columns = terminal_columns(),
                .colours = cli->color,
                .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
        const struct line_options options = {.prompt = CHAT_PROMPT,
                .history = history,
                .complete = chat_complete,
                .userdata = chat};

        chat->line = line_new(&options);
        if (!chat->line)
                return cli_error(
                        cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the line editor");
        if (!line_edits(chat->line))
                return 0;
        markdown_init(&chat->markdown, &shown);
        if (!cli_get(cli, "plain"))
                cli->markdown = &chat->markdown;
        cli->beside[0] = (struct cli_beside){-1, take_typed, chat};
        cli->beside[1] = (struct cli_beside){terminal_fd(), take_news, chat};
        return 0;
}

static int on_terminal(struct chat *chat) {
        enum line_outcome outcome = LINE_DONE;
        const char *text;
        int status;

        while (!chat->quit && outcome != LINE_END) {
                outcome = line_read(chat->line, &text);
                if (outcome != LINE_DONE)
                        continue;
                markdown_resize(&chat->markdown, terminal_columns());
                chat->cli->beside[0].fd = line_typed_fd(chat->line);
                status = one_line(chat, text);
                if (status == CLI_BROKEN_PIPE)
                        return status;
                if (status == CLI_INTERRUPTED)
                        line_drop_typed(chat->line);
        }
        return 0;
}

/* ---- from a pipe ---- */

static int from_pipe(struct chat *chat) {
        _cleanup_(freep) char *s = NULL;
        size_t capacity = 0;
        int status = 0;
        ssize_t n;

        while (!chat->quit && status == 0 && (n = getline(&s, &capacity, stdin)) >= 0) {
                if (n && s[n - 1] == '\n')
                        s[--n] = 0;
                if (strlen(s) != (size_t)n) {
                        cli_complain(chat->cli, "the text has a NUL byte");
                        return CLI_FAILED;
                }
                status = one_line(chat, s);
        }
        return status;
}

static int run(struct cli *cli) {
        struct chat chat = {
                .cli = cli,
                .tty = isatty(STDIN_FILENO) && cli->out_tty && !cli->json,
                .proto = CONFAB_REQUEST_INIT,
        };
        int status;

        cli->go_on = "/more goes on";
        chat.proto.verb = CONFAB_CONTINUE;
        status = generate_options_init(&chat.options, cli, &chat.proto);
        if (status == 0 && chat.tty)
                status = take_terminal(&chat);
        if (status == 0)
                status = begin(&chat);
        if (status == 0 && chat.tty) {
                chat_say_where(&chat);
                cli_printf(cli, "Ctrl-C stops a reply, Ctrl-D leaves, /help tells more.\n");
                status = cli_flush(cli);
        }
        if (status == 0)
                status = chat.tty ? on_terminal(&chat) : from_pipe(&chat);
        line_free(chat.line);
        cli->markdown = NULL;
        memset(cli->beside, 0, sizeof(cli->beside));
        generate_options_deinit(&chat.options);
        free(chat.name);
        return status;
}

static const struct cli_option options[] = {
        {"system", "TEXT", CLI_STRING, .letter = 's',
                .help = "system message, if the conversation is new"},
        CLI_OVERFLOW_OPTION,
        {"plain", NULL, CLI_FLAG, .help = "replies as they come: Markdown is not made readable"},
        {"no-history", NULL, CLI_FLAG, .help = "lines of earlier chats are not known, nor kept",
                .more = "Else they are in $XDG_STATE_HOME/confab/history "
                        "(~/.local/state/confab/history), for their user alone: about the last "
                        "thousand. A line that begins with a space is not kept."},
        {.name = NULL},
};

const struct cli_command cmd_chat = {
        .name = "chat",
        .args = "[NAME]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Talk line by line, in NAME or a new conversation",
        .help = "NAME is opened if it does not exist, with --system and --overflow as 'confab "
                "open' takes them; without a NAME a new conversation is opened.\n\n"
                "On a terminal lines are edited (with the keys of editrc(5), if there is a "
                "~/.editrc) and known to later chats: the arrows recall them, Ctrl-R searches. A "
                "line that ends with a backslash goes on in the next one, and so does Alt-Enter "
                "(not with vi's keys); "
                "what is pasted is one message whatever newlines it has; Ctrl-X Ctrl-E opens the "
                "text in $VISUAL or $EDITOR. Ctrl-C stops a reply or gives up a line, Ctrl-Z stops "
                "the program, Ctrl-D leaves. What is typed while a reply is written is not seen "
                "and begins the next line, Enter included; Ctrl-C drops it.\n\n"
                "Replies are wrapped at words, and their Markdown is made readable while it comes: "
                "headings, emphasis, code, links, lists, quotes. Code and tables stay as they are, "
                "and so does what is not understood; reasoning is dimmed. NO_COLOR (or --color "
                "never) keeps all but "
                "colours, --plain shows replies as they come, and so does a terminal that knows no "
                "more (TERM=dumb).\n\n"
                "Commands begin with a slash, and Tab completes them, with names of conversations "
                "and files: /fork [NAME], /rewind [N], /edit [TEXT] (without TEXT what was said "
                "last comes back to be edited), /regenerate, /more (let a reply that was cut go "
                "on), /tree, /switch NAME, /system [TEXT], /set [KEY=VALUE] (sampling, title, "
                "tags, max-tokens), /save [-f] FILE (the transcript as JSON or Markdown), /stats, "
                "/quit. /help [COMMAND] tells more. A message that begins with a slash is written "
                "with two.\n\n"
                "Otherwise each line of standard input is a message, replies are written byte for "
                "byte, and the first failure ends the chat. Lines are said as they are: @ and - "
                "mean nothing in them. A line of nothing but white space is passed over.",
        .examples = "confab chat notes\n"
                    "confab chat -s 'You are brief.'",
        .see = "say",
        .options = {options, cli_generate_options, cli_sampling_options},
        .run = run,
};
