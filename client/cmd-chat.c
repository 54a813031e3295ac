/* SPDX-License-Identifier: MIT */
/*
 * A conversation line by line. On a terminal lines are edited, and after an error is reported the
 * chat continues, even if the daemon was restarted: each request reconnects if necessary. Without a
 * terminal each line of standard input is a message, and the first failure ends the chat.
 */
#include "client/cli-commands.h"
#include "client/cli-line.h"
#include <string.h>

#define PROMPT "> "
#define LAST_TURNS 2

struct chat {
        struct cli *cli;
        uint64_t id;
        char *name; /* owned */
        bool tty, quit;
        struct generate_options options;
        struct confab_request proto; /* what every message has in common */
        struct line *line;           /* on a terminal */
};

/* ---- where we are ---- */

static void enter(struct chat *chat, const struct confab_conversation *c) {
        char *name = strdup(c->name);

        chat->id = c->id;
        if (name) {
                free(chat->name);
                chat->name = name;
        }
}

static void enter_event(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                enter(userdata, event->conversation);
}

static void say_where(struct chat *chat) {
        if (!chat->tty)
                return;
        cli_name(chat->cli, chat->name ? chat->name : "?");
        cli_printf(chat->cli, " (#%llu)\n", (unsigned long long)chat->id);
}

static void show_event(void *userdata, const struct confab_event *event) {
        struct chat *chat = userdata;
        const struct confab_conversation *c = event->conversation;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        enter(chat, c);
        if (!chat->tty)
                return;
        for (size_t i = c->n_turn_list > LAST_TURNS ? c->n_turn_list - LAST_TURNS : 0;
                i < c->n_turn_list; i++) {
                const struct confab_turn *t = &c->turns[i];

                if (t->n_parts > 0) {
                        cli_print_parts(chat->cli, t->parts, t->n_parts);
                        continue;
                }
                cli_printf(chat->cli, "%s", t->role == CONFAB_ROLE_USER ? PROMPT : "");
                cli_text(chat->cli, t->text.data, t->text.size);
                cli_printf(chat->cli, "\n");
        }
}

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
                if (confab_call(cli->confab, &get, show_event, chat, &e) == 0)
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
        return cli_call(cli, &open, enter_event, chat);
}

/* ---- commands ---- */

/* If the daemon has gone away since, the next request must reconnect. */
static void refresh(struct chat *chat) {
        struct cli *cli = chat->cli;

        if (cli->confab && confab_process(cli->confab, NULL) < 0)
                cli->confab = confab_free(cli->confab);
}

static int chat_fork(struct chat *chat, const char *arg) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status;

        r.verb = CONFAB_FORK;
        r.conversation_id = chat->id;
        r.name = *arg ? arg : NULL;
        status = cli_call(chat->cli, &r, enter_event, chat);
        if (status == 0)
                say_where(chat);
        return status;
}

static int chat_rewind(struct chat *chat, const char *arg) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        uint64_t n = 2;

        if (*arg && (!cli_parse_uint(arg, UINT32_MAX, &n) || n == 0))
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                        "/rewind takes a number of turns, not '%s'", arg);
        r.verb = CONFAB_REWIND;
        r.conversation_id = chat->id;
        r.drop_turns = (uint32_t)n;
        return cli_call(chat->cli, &r, show_event, chat);
}

static int chat_more(struct chat *chat, const char *arg) {
        struct confab_request r = chat->proto;

        r.conversation_id = chat->id;
        r.input = CONFAB_INPUT_NONE;
        return cli_generate(chat->cli, &r, false);
}

/* Both refer to the conversation by id, since it may have been renamed. */
static int chat_replace(struct chat *chat, const char *text) {
        struct confab_request r = chat->proto;
        char number[24];

        snprintf(number, sizeof(number), "#%llu", (unsigned long long)chat->id);
        if (!text)
                return cli_regenerate(chat->cli, number, &r);
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = text;
        r.text_size = strlen(text);
        return cli_edit(chat->cli, number, CLI_LAST_MESSAGE, &r);
}

static int chat_edit(struct chat *chat, const char *arg) {
        if (*arg)
                return chat_replace(chat, arg);
        cli_complain(chat->cli, "/edit takes what is to be said instead");
        return CLI_USAGE;
}

static int chat_regenerate(struct chat *chat, const char *arg) {
        if (!*arg)
                return chat_replace(chat, NULL);
        cli_complain(chat->cli, "/regenerate takes nothing; /edit TEXT says something else");
        return CLI_USAGE;
}

static int chat_quit(struct chat *chat, const char *arg) {
        chat->quit = true;
        return 0;
}

static int chat_help(struct chat *chat, const char *arg);

static const struct chat_command {
        const char *name, *args, *help;
        int (*run)(struct chat *chat, const char *arg);
} chat_commands[] = {
        {"/fork", "[NAME]", "go on in a fork of this conversation", chat_fork},
        {"/edit", "TEXT", "say TEXT instead of what was said last", chat_edit},
        {"/regenerate", "", "drop the last reply and get another", chat_regenerate},
        {"/rewind", "[N]", "take back N turns (2: what was said last, and its reply)", chat_rewind},
        {"/more", "", "let a reply that was cut go on", chat_more},
        {"/quit", "", "leave, as Ctrl-D does", chat_quit},
        {"/help", "", "this", chat_help},
};

static int chat_help(struct chat *chat, const char *arg) {
        for (size_t i = 0; i < ARRAY_SIZE(chat_commands); i++)
                cli_printf(chat->cli, "%-11s %-7s %s\n", chat_commands[i].name,
                        chat_commands[i].args, chat_commands[i].help);
        cli_printf(chat->cli, "A message that begins with a slash is written with two.\n");
        return 0;
}

static int run_command(struct chat *chat, const char *s) {
        for (size_t i = 0; i < ARRAY_SIZE(chat_commands); i++) {
                const struct chat_command *c = &chat_commands[i];
                size_t n = strlen(c->name);

                if (strncmp(s, c->name, n) == 0 && (s[n] == 0 || s[n] == ' '))
                        return c->run(chat, s + n + strspn(s + n, " "));
        }
        return cli_error(
                chat->cli, CLI_USAGE, CLI_CODE_USAGE, "unknown command %s; /help lists them", s);
}

static int one_line(struct chat *chat, const char *s) {
        struct confab_request r = chat->proto;
        int status, flushed;

        if (*s == 0)
                return 0;
        refresh(chat);
        if (s[0] == '/' && s[1] != '/') {
                status = run_command(chat, s);
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

/* ---- lines ---- */

static int on_terminal(struct chat *chat) {
        enum line_outcome outcome = LINE_DONE;
        const char *text;

        chat->line = line_new(PROMPT);
        if (!chat->line)
                return cli_error(
                        chat->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the line editor");
        while (!chat->quit && outcome != LINE_END) {
                outcome = line_read(chat->line, &text);
                if (outcome == LINE_DONE && one_line(chat, text) == CLI_BROKEN_PIPE)
                        return CLI_BROKEN_PIPE;
        }
        return 0;
}

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
        if (status == 0)
                status = begin(&chat);
        if (status == 0 && chat.tty) {
                say_where(&chat);
                cli_printf(cli, "Ctrl-C stops a reply, Ctrl-D leaves, /help tells more.\n");
                status = cli_flush(cli);
        }
        if (status == 0)
                status = chat.tty ? on_terminal(&chat) : from_pipe(&chat);
        line_free(chat.line);
        generate_options_deinit(&chat.options);
        free(chat.name);
        return status;
}

static const struct cli_option options[] = {
        {"system", "TEXT", CLI_STRING, .letter = 's',
                .help = "system message, if the conversation is new"},
        CLI_OVERFLOW_OPTION,
        {.name = NULL},
};

const struct cli_command cmd_chat = {
        .name = "chat",
        .args = "[NAME]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Talk line by line, in NAME or a new conversation",
        .help = "NAME is opened if it does not exist, with --system and --overflow as 'confab "
                "open' takes them; without a NAME a new conversation is opened. On a terminal "
                "lines can be edited and recalled (with the keys of editrc(5), if there is a "
                "~/.editrc), what is pasted is one message whatever newlines it has, Ctrl-C stops "
                "a reply or gives up a line, Ctrl-D leaves, and /help lists the commands (/fork, "
                "/edit, /regenerate, /rewind, /more, /quit). A message that begins with a slash is "
                "written with two.\n\nOtherwise each line of standard input is a message, and the "
                "first failure ends the chat. Lines are said as they are: @ and - mean nothing in "
                "them.",
        .examples = "confab chat notes\n"
                    "confab chat -s 'You are brief.'",
        .see = "say",
        .options = {options, cli_generate_options, cli_sampling_options},
        .run = run,
};
