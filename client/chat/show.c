/* SPDX-License-Identifier: MIT */
/* Where the chat is, and what was said there last. */
#include "client/chat/chat.h"
#include <errno.h>
#include <string.h>

struct confab_request chat_request(const struct chat *chat, enum confab_verb verb) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = verb;
        r.conversation_id = chat->id;
        return r;
}

void chat_enter(struct chat *chat, const struct confab_conversation *c) {
        char *name = strdup(c->name);

        chat->id = c->id;
        if (name) {
                free(chat->name);
                chat->name = name;
        }
}

void chat_enter_event(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                chat_enter(userdata, event->conversation);
}

void chat_say_where(struct chat *chat) {
        if (!chat->tty)
                return;
        cli_name(chat->cli, chat->name ? chat->name : "?");
        cli_printf(chat->cli, " (#%llu)\n", (unsigned long long)chat->id);
}

/* As it was shown when it came. */
static void show_part(struct cli *cli, const struct confab_part *part) {
        bool reasoning = part->kind == CONFAB_PART_REASONING;

        if (!cli->markdown || part->kind == CONFAB_PART_CALL) {
                cli_print_parts(cli, part, 1);
                return;
        }
        markdown_begin(cli->markdown, reasoning, reasoning ? WRAP_DIM : 0);
        if (markdown_write(cli->markdown, &cli->out, part->text, part->text_size) < 0 ||
                markdown_end(cli->markdown, &cli->out) < 0)
                cli->out_error = ENOMEM;
}

static void show_turn(struct cli *cli, const struct confab_turn *t) {
        for (size_t i = 0; i < t->n_parts; i++)
                show_part(cli, &t->parts[i]);
        if (t->n_parts > 0)
                return;
        cli_printf(cli, "%s", t->role == CONFAB_ROLE_USER ? CHAT_PROMPT : "");
        cli_text(cli, t->text.data, t->text.size);
        cli_printf(cli, "\n");
}

void chat_show_event(void *userdata, const struct confab_event *event) {
        struct chat *chat = userdata;
        const struct confab_conversation *c = event->conversation;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        chat_enter(chat, c);
        if (!chat->tty)
                return;
        for (size_t i = c->n_turn_list > CHAT_LAST_TURNS ? c->n_turn_list - CHAT_LAST_TURNS : 0;
                i < c->n_turn_list; i++)
                show_turn(chat->cli, &c->turns[i]);
}
