/* SPDX-License-Identifier: MIT */
/* Commands of the chat that go to other conversations, or change what was said. */
#include "base/err.h"
#include "client/chat/chat.h"
#include "client/cli-commands.h"
#include "client/cli-system.h"
#include <string.h>

/* ---- other conversations ---- */

int chat_fork(struct chat *chat, const char *arg) {
        struct confab_request r = chat_request(chat, CONFAB_FORK);
        int status;

        r.name = *arg ? arg : NULL;
        status = cli_call(chat->cli, &r, chat_enter_event, chat);
        if (status == 0)
                chat_say_where(chat);
        return status;
}

int chat_switch(struct chat *chat, const char *arg) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status;

        if (cli_parse_ref(arg, &r) < 0)
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                        "/switch takes the name or number of a conversation, not '%s'", arg);
        r.verb = CONFAB_GET;
        r.want_turns = r.want_parts = true;
        r.max_turns = CHAT_LAST_TURNS;
        status = cli_call(chat->cli, &r, chat_show_event, chat);
        if (status == 0)
                chat_say_where(chat);
        return status;
}

/* A verb of the command, without arguments. */
static int run_verb(struct chat *chat, const struct cli_command *verb) {
        struct cli *cli = chat->cli, own = *cli;
        int status;

        own.command = verb;
        own.path = (struct cli_path){{verb}, 1};
        own.args = NULL;
        own.values = NULL;
        own.n_args = own.n_values = 0;
        status = verb->run(&own);
        cli->out = own.out;
        cli->out_error = own.out_error;
        cli->out_told = own.out_told;
        cli->confab = own.confab;
        return status;
}

int chat_tree(struct chat *chat, const char *arg) {
        return run_verb(chat, &cmd_tree);
}

/* ---- what was said ---- */

static void rewound_event(void *userdata, const struct confab_event *event) {
        struct chat *chat = userdata;
        const struct confab_conversation *c = event->conversation;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        chat_enter(chat, c);
        if (chat->tty)
                cli_printf(chat->cli, "%u turn%s, %u token%s are left\n", c->n_turns,
                        plural_s(c->n_turns), c->n_tokens, plural_s(c->n_tokens));
}

int chat_rewind(struct chat *chat, const char *arg) {
        struct confab_request r = chat_request(chat, CONFAB_REWIND);
        uint64_t n = 2;

        if (*arg && (!cli_parse_uint(arg, UINT32_MAX, &n) || n == 0))
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                        "/rewind takes a number of turns, not '%s'", arg);
        r.drop_turns = (uint32_t)n;
        return cli_call(chat->cli, &r, rewound_event, chat);
}

int chat_more(struct chat *chat, const char *arg) {
        struct confab_request r = chat->proto;

        r.conversation_id = chat->id;
        r.input = CONFAB_INPUT_NONE;
        return cli_generate(chat->cli, &r, false);
}

/* The chat's conversation by its number, since it may have been renamed. */
#define NUMBER_SIZE 24
static const char *number_of(const struct chat *chat, char s[NUMBER_SIZE]) {
        snprintf(s, NUMBER_SIZE, "#%llu", (unsigned long long)chat->id);
        return s;
}

int chat_regenerate(struct chat *chat, const char *arg) {
        struct confab_request r = chat->proto;
        char number[NUMBER_SIZE];

        return cli_regenerate(chat->cli, number_of(chat, number), &r);
}

/* Without a text: the last message comes back to be edited, as a command that is not sent yet. */
static int recall_message(struct chat *chat) {
        _cleanup_(freep) char *text = NULL, *line = NULL;
        char number[NUMBER_SIZE];
        int status = cli_last_message(chat->cli, number_of(chat, number), &text);

        if (status)
                return status;
        if (!text) {
                cli_complain(chat->cli, "nothing was said yet");
                return CLI_FAILED;
        }
        if (asprintf(&line, "/edit %s", text) < 0) {
                line = NULL;
                return cli_error(chat->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        }
        line_begin_with(chat->line, line);
        return 0;
}

int chat_edit(struct chat *chat, const char *arg) {
        struct confab_request r = chat->proto;
        char number[NUMBER_SIZE];

        if (!*arg && chat->line && line_edits(chat->line))
                return recall_message(chat);
        if (!*arg)
                return cli_error(chat->cli, CLI_USAGE, CLI_CODE_USAGE,
                        "/edit takes what is to be said instead");
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = arg;
        r.text_size = strlen(arg);
        return cli_edit(chat->cli, number_of(chat, number), CLI_LAST_MESSAGE, &r);
}

int chat_system(struct chat *chat, const char *arg) {
        struct confab_request which = chat_request(chat, CONFAB_GET);
        bool found = true;
        int status;

        if (*arg)
                return cli_system_give(chat->cli, &which, arg, strlen(arg));
        status = cli_system_print(chat->cli, &which, &found);
        if (status == 0 && !found && !chat->cli->json)
                cli_printf(chat->cli, "there is no system message\n");
        return status;
}
