/* SPDX-License-Identifier: MIT */
/* What Tab knows in a chat: commands, conversations, files. What cannot be found out is not offered, and nothing is
 * reported: the line is being edited. */
#include "client/chat/chat.h"
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define PAGES_MAX 16 /* of conversations that are looked at */

static bool begins(const char *s, const char *with) {
        return strncmp(s, with, strlen(with)) == 0;
}

void chat_complete_command(struct chat *chat, const char *arg, struct line_words *ret) {
        for (const struct chat_command *c = chat_commands; c->name; c++)
                if (begins(c->name + (*arg != '/'), arg))
                        line_words_add(ret, c->name + (*arg != '/'));
}

/* ---- conversations ---- */

struct names {
        const char *begin;
        struct line_words *ret;
        uint64_t last;
        bool more;
};

static void names_event(void *userdata, const struct confab_event *event) {
        struct names *names = userdata;
        const struct confab_conversations *list = event->conversations;

        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        names->more = list->more && list->n_items > 0;
        for (size_t i = 0; i < list->n_items; i++) {
                names->last = list->items[i].id;
                if (begins(list->items[i].name, names->begin))
                        line_words_add(names->ret, list->items[i].name);
        }
}

void chat_complete_name(struct chat *chat, const char *arg, struct line_words *ret) {
        struct names names = {.begin = arg, .ret = ret, .more = true};
        struct cli *cli = chat->cli;

        if (!cli->confab && cli_make_connection(cli, &cli->confab, NULL) < 0)
                return;
        for (int i = 0; names.more && i < PAGES_MAX && ret->n < LINE_WORDS_MAX; i++) {
                struct confab_request r = CONFAB_REQUEST_INIT;

                r.verb = CONFAB_LIST;
                r.after_id = names.last;
                names.more = false;
                if (confab_call(cli->confab, &r, names_event, &names, NULL) < 0)
                        return;
        }
}

/* ---- files ---- */

char *chat_path(const char *arg) {
        const char *home = getenv("HOME");
        char *path = NULL;

        if (!begins(arg, "~/") || !home)
                return strdup(arg);
        return asprintf(&path, "%s%s", home, arg + 1) < 0 ? NULL : path;
}

void chat_complete_file(struct chat *chat, const char *arg, struct line_words *ret) {
        const char *slash = strrchr(arg, '/'), *name = slash ? slash + 1 : arg;
        _cleanup_(freep) char *folder = NULL, *path = NULL;
        struct dirent *entry;
        DIR *dir;

        if (asprintf(&folder, "%.*s", (int)(name - arg), arg) < 0)
                folder = NULL;
        path = folder ? chat_path(*folder ? folder : "./") : NULL;
        dir = path ? opendir(path) : NULL;
        while (dir && (entry = readdir(dir)) && ret->n < LINE_WORDS_MAX) {
                _cleanup_(freep) char *word = NULL;
                struct stat st;
                bool is_folder =
                        fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);

                if (!begins(entry->d_name, name) || (*name == 0 && entry->d_name[0] == '.'))
                        continue;
                if (asprintf(&word, "%s%s%s", folder, entry->d_name, is_folder ? "/" : "") < 0)
                        word = NULL;
                if (word)
                        line_words_add(ret, word);
        }
        if (dir)
                closedir(dir);
}

/* ---- a line ---- */

void chat_complete(void *userdata, const char *text, struct line_words *ret) {
        size_t n = strcspn(text, " "), from = n + strspn(text + n, " ");

        if (text[0] != '/' || text[1] == '/')
                return;
        if (text[n] == 0) {
                chat_complete_command(userdata, text, ret);
                return;
        }
        ret->from = from;
        for (const struct chat_command *c = chat_commands; c->name; c++)
                if (strlen(c->name) == n && memcmp(c->name, text, n) == 0 && c->complete)
                        c->complete(userdata, text + from, ret);
}
