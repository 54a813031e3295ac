/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the chat (client/cmd-chat.c and client/chat). One thread. */
#include "client/cli.h"
#include "client/line/line.h"
#include "client/markdown/markdown.h"

#define CHAT_PROMPT "> "
#define CHAT_LAST_TURNS 2 /* that are shown of a conversation one comes to */

struct chat {
        struct cli *cli;
        uint64_t id; /* the conversation: */
        char *name;  /* owned */
        bool tty, quit;
        struct generate_options options;
        struct confab_request proto; /* what every message has in common */
        struct line *line;           /* on a terminal */
        struct markdown markdown;    /* cli->markdown, where replies are shown by it */
};

/* A command of the chat: one row makes help, completion and dispatch. */
struct chat_command {
        const char *name; /* with its slash */
        const char *args; /* as in its usage line */
        const char *help; /* one line */
        const char *more; /* further lines, or NULL */
        /* @arg is what follows the name, "" for nothing. An exit status, after reporting why. */
        int (*run)(struct chat *chat, const char *arg);
        /* Words that may stand in place of @arg, or NULL. */
        void (*complete)(struct chat *chat, const char *arg, struct line_words *ret);
};
extern const struct chat_command chat_commands[]; /* its last row has no name */

/* Run a line that begins with a slash. */
int chat_command(struct chat *chat, const char *line);
/* Tab, for line_options.complete; @userdata is the chat. */
void chat_complete(void *userdata, const char *text, struct line_words *ret);

/* The request of @verb about the conversation that the chat is in. */
struct confab_request chat_request(const struct chat *chat, enum confab_verb verb);
/* The chat is in @c from now on. */
void chat_enter(struct chat *chat, const struct confab_conversation *c);
/* The same, for confab_call(); chat_show also shows its last turns, if they are told. */
void chat_enter_event(void *userdata, const struct confab_event *event);
void chat_show_event(void *userdata, const struct confab_event *event);
/* On a terminal: the name of the conversation. */
void chat_say_where(struct chat *chat);

/* Commands, by what they are about. */
int chat_fork(struct chat *chat, const char *arg); /* turns.c */
int chat_switch(struct chat *chat, const char *arg);
int chat_tree(struct chat *chat, const char *arg);
int chat_rewind(struct chat *chat, const char *arg);
int chat_more(struct chat *chat, const char *arg);
int chat_edit(struct chat *chat, const char *arg);
int chat_regenerate(struct chat *chat, const char *arg);
int chat_system(struct chat *chat, const char *arg);
int chat_set(struct chat *chat, const char *arg);   /* settings.c */
int chat_save(struct chat *chat, const char *arg);  /* save.c */
int chat_stats(struct chat *chat, const char *arg); /* stats.c */

void chat_complete_key(struct chat *chat, const char *arg, struct line_words *ret); /* settings.c */
void chat_complete_name(
        struct chat *chat, const char *arg, struct line_words *ret); /* complete.c */
void chat_complete_file(struct chat *chat, const char *arg, struct line_words *ret);
void chat_complete_command(struct chat *chat, const char *arg, struct line_words *ret);
/* "~/x" is in the home folder. To be freed; NULL without memory. */
char *chat_path(const char *arg);
