/* SPDX-License-Identifier: MIT */
/*
 * What the word that is being typed may become: "confab __complete SHELL -- WORD...", where the last WORD is the one
 * that is being typed, perhaps empty, and the others stand before it. The scripts of the shells (client/completion) ask
 * this and know nothing of commands and options.
 *
 * 1. The answer is lines. "=WORD" TAB "DESCRIPTION" is a whole word, with its description if it has one. "/PREFIX"
 *    says that the word is PREFIX and then the name of a file, which the shell completes itself.
 * 2. Everything comes from the tables (cli.h): commands, options, the words in small letters that an option takes,
 *    and by the words in capitals: NAME is a conversation, FILE and PATH are files, TEXT may be @FILE, COMMAND a command,
 *    USER and @GROUP are those that the system lists, LIMIT=VALUE begins with the name of a limit, SETTING is one of the
 *    daemon's, #ID a conversation of any user.
 * 3. Names and numbers of conversations are asked from the daemon, latest change first, page by page. Nothing is said if there is
 *    none, or to whom the daemon tells nothing, and SIGALRM ends the program after two seconds, wherever it is (main.c): what came until then is printed.
 * 4. Words from bash are as they were typed, with their quotes; other shells take those away themselves.
 * 5. Standard error is quiet, and nothing that is typed is an error.
 */
#include "base/quota.h"
#include "client/cli.h"
#include <grp.h>
#include <pwd.h>
#include <string.h>

#define PAGE 1000u
#define PAGES_MAX 10

struct completion {
        struct cli *cli;
        const struct cli_option *pending; /* whose argument the word is, or NULL */
        bool literal;                     /* behind "--" */
        size_t n_args;                    /* arguments in front of the word */
        const char *prefix;               /* of the word: it stays, "--system=" */
        size_t prefix_size;
        const char *value; /* what may become something else */
};

/* ---- words as they were typed ---- */

/* Take quotes and backslashes away as bash would, in place. A quote that is open ends with the word. */
static void unquote(char *s) {
        char quote = 0, *to = s;

        for (; *s; s++) {
                if (quote == '\'' ? *s == '\'' : quote == '"' ? *s == '"' : *s == '\'' || *s == '"')
                        quote = quote ? 0 : *s;
                else if (*s == '\\' && s[1] && (!quote || (quote == '"' && strchr("\\\"$`", s[1]))))
                        *to++ = *++s;
                else
                        *to++ = *s;
        }
        *to = 0;
}

/* ---- what stands before ---- */

/* Options that say whom to ask are heeded. */
static void heed(struct completion *c, const struct cli_option *o, const char *arg) {
        for (const struct cli_option *g = cli_global_options; g->name; g++)
                if (g == o && o->arg)
                        (void)!cli_give(c->cli, o, arg);
}

static void take_long(struct completion *c, const char *word) {
        const char *eq = strchr(word, '=');
        const struct cli_option *o = cli_find_option(
                c->cli->command, word + 2, eq ? (size_t)(eq - word - 2) : strlen(word + 2));

        if (o && eq)
                heed(c, o, eq + 1);
        else if (o && o->arg)
                c->pending = o;
}

static void take_short(struct completion *c, const char *word) {
        for (const char *p = word + 1; *p; p++) {
                const struct cli_option *o = cli_find_letter(c->cli->command, *p);

                if (!o || (o->arg && p[1]))
                        return;
                if (o->arg)
                        c->pending = o;
        }
}

/* One word in front: false, if nothing can be said of what follows. */
static bool take(struct completion *c, const char *word) {
        struct cli *cli = c->cli;

        if (c->pending) {
                heed(c, c->pending, word);
                c->pending = NULL;
        } else if (!c->literal && strcmp(word, "--") == 0) {
                c->literal = true;
        } else if (!c->literal && strncmp(word, "--", 2) == 0) {
                take_long(c, word);
        } else if (!c->literal && word[0] == '-' && word[1]) {
                take_short(c, word);
        } else if (cli_path_commands(&cli->path)) {
                if (!cli_path_add(&cli->path, word))
                        return false;
                cli->command = cli->path.at[cli->path.n - 1];
        } else {
                cli->args[cli->n_args++] = word;
        }
        return true;
}

/* ---- answers ---- */

static void put(struct completion *c, const char *word, const char *description) {
        if (strncmp(word, c->value, strlen(c->value)) == 0)
                cli_printf(
                        c->cli, "=%.*s%s\t%s\n", (int)c->prefix_size, c->prefix, word, description);
}

static void put_commands(struct completion *c, const struct cli_path *path) {
        const struct cli_command *const *sub = cli_path_commands(path);

        for (; sub && *sub; sub++)
                put(c, (*sub)->name, (*sub)->summary);
}

/* A file's name behind @extra, "@" or "". */
static void put_files(struct completion *c, const char *extra) {
        if (strncmp(c->value, extra, strlen(extra)) == 0)
                cli_printf(c->cli, "/%.*s%s\n", (int)c->prefix_size, c->prefix, extra);
}

struct names {
        struct completion *c;
        bool numbers;
        char *cursor; /* owned: of the next page, or NULL */
};

static void names_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversations *list = event->conversations;
        struct names *names = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        for (size_t i = 0; i < list->n_items; i++) {
                const struct confab_conversation *item = &list->items[i];
                bool is_option = item->name[0] == '-' && !names->c->literal;
                bool is_line = !strpbrk(item->name, "\t\n");
                char number[24];

                (void)snprintf(number, sizeof(number), "#%llu", (unsigned long long)item->id);
                if (names->numbers)
                        put(names->c, number, is_line ? item->name : "");
                else if (!is_option && is_line)
                        put(names->c, item->name, confab_residency_name(item->residency));
        }
        if (list->more && list->cursor)
                names->cursor = strdup(list->cursor);
}

/* Rule 3. Each page is written at once, since the time may end with the next one. */
static void put_conversations(struct completion *c, bool numbers) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct names names = {.c = c, .numbers = numbers};

        if (cli_make_connection(c->cli, &c->cli->confab, &(struct confab_error){.code = ""}) < 0)
                return;
        r.verb = CONFAB_LIST;
        r.order = CONFAB_ORDER_UPDATED;
        r.all_users = numbers;
        r.limit = PAGE;
        for (int i = 0; i < PAGES_MAX; i++) {
                _cleanup_(freep) char *cursor = TAKE_PTR(names.cursor);
                bool failed;

                r.cursor = cursor;
                failed = confab_call(c->cli->confab, &r, names_event, &names, NULL) < 0;
                if (failed || !names.cursor || cli_flush(c->cli))
                        break;
        }
        free(names.cursor);
}

static void put_numbers(struct completion *c) {
        put_conversations(c, true);
}

static void settings_event(void *userdata, const struct confab_event *event) {
        if (event->kind != CONFAB_EVENT_SETTINGS)
                return;
        for (size_t i = 0; i < event->settings->n_settings; i++)
                put(userdata, event->settings->settings[i].name, "");
}

static void put_settings(struct completion *c) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        if (cli_make_connection(c->cli, &c->cli->confab, &(struct confab_error){.code = ""}) < 0)
                return;
        r.verb = CONFAB_SETTINGS;
        (void)confab_call(c->cli->confab, &r, settings_event, c, NULL);
}

static void put_users(struct completion *c) {
        const struct passwd *pw;

        setpwent();
        while ((pw = getpwent()))
                put(c, pw->pw_name, "");
        endpwent();
}

static void put_groups(struct completion *c) {
        const struct group *gr;
        char word[256];

        setgrent();
        while ((gr = getgrent()))
                if (snprintf(word, sizeof(word), "@%s", gr->gr_name) < (int)sizeof(word))
                        put(c, word, "");
        endgrent();
}

static void put_limits(struct completion *c) {
        char word[64];

        for (size_t i = 0; i < QUOTA_N; i++) {
                snprintf(word, sizeof(word), "%s=", quota_info((enum quota)i)->name);
                put(c, word, quota_info((enum quota)i)->unit);
        }
}

/* @what: one alternative of an argument, of @size bytes (rule 2). */
static void put_kind(struct completion *c, const char *what, size_t size) {
        static const struct {
                const char *name;
                enum { NAME, FILES, AT_FILES, COMMANDS, OTHERS } kind;
                void (*put)(struct completion *c); /* of OTHERS */
        } kinds[] = {
                {"NAME", NAME, NULL},
                {"FILE", FILES, NULL},
                {"PATH", FILES, NULL},
                {"STATE-DIR", FILES, NULL},
                {"TEXT", AT_FILES, NULL},
                {"COMMAND", COMMANDS, NULL},
                {"USER", OTHERS, put_users},
                {"@GROUP", OTHERS, put_groups},
                {"LIMIT=VALUE", OTHERS, put_limits},
                {"SETTING", OTHERS, put_settings},
                {"#ID", OTHERS, put_numbers},
        };
        struct cli_path path = {.n = 0};
        char word[64];

        if (size == 0 || size >= sizeof(word))
                return;
        memcpy(word, what, size);
        word[size] = 0;
        if (*word >= 'a' && *word <= 'z') {
                put(c, word, "");
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(word, kinds[i].name) != 0)
                        continue;
                if (kinds[i].kind == NAME)
                        put_conversations(c, false);
                else if (kinds[i].kind == OTHERS)
                        kinds[i].put(c);
                else if (kinds[i].kind == FILES)
                        put_files(c, "");
                else if (kinds[i].kind == AT_FILES && !c->literal)
                        put_files(c, "@");
                for (size_t k = 0; kinds[i].kind == COMMANDS && k <= c->cli->n_args; k++)
                        if (k == c->cli->n_args)
                                put_commands(c, &path);
                        else if (!cli_path_add(&path, c->cli->args[k]))
                                break;
        }
}

/* "required|TOOL": each of them. */
static void put_alternatives(struct completion *c, const char *s, size_t size) {
        for (const char *end = s + size; s < end;) {
                size_t n = strcspn(s, "|");

                n = MIN(n, (size_t)(end - s));
                put_kind(c, s, n);
                s += n + 1;
        }
}

/* The argument of its verb that the word is, by the verb's usage: "NAME [TEXT|@FILE|-]", "[COMMAND...]". */
static void put_argument(struct completion *c) {
        const char *s = c->cli->command->args;
        size_t i = 0;

        while (*s) {
                size_t n = strcspn(s, " "), from = strspn(s, "["), to = n;
                bool repeats;

                while (to > from && s[to - 1] == ']')
                        to--;
                repeats = to > from + 3 && strncmp(s + to - 3, "...", 3) == 0;
                to -= repeats ? 3 : 0;
                /* "NAME | --all": what is not an argument of its own */
                if (s[from] != '|' && s[from] != '-' &&
                        (i++ == c->cli->n_args || (repeats && i <= c->cli->n_args))) {
                        put_alternatives(c, s + from, to - from);
                        return;
                }
                s += n + strspn(s + n, " ");
        }
}

static void put_options(struct completion *c, const struct cli_option *o) {
        for (; o && o->name; o++) {
                char name[80];

                snprintf(name, sizeof(name), "--%s", o->name);
                put(c, name, o->help);
        }
}

/* ---- the word itself ---- */

static void complete(struct completion *c, const char *word) {
        const struct cli_command *command = c->cli->command;
        const char *eq = strchr(word, '=');

        c->prefix = c->value = word;
        if (!c->pending && !c->literal && strncmp(word, "--", 2) == 0 && eq) {
                c->pending = cli_find_option(command, word + 2, (size_t)(eq - word - 2));
                c->prefix_size = (size_t)(eq + 1 - word);
                c->value = eq + 1;
                if (!c->pending || !c->pending->arg)
                        return;
        }
        if (c->pending) {
                put_alternatives(c, c->pending->arg, strlen(c->pending->arg));
        } else if (!c->literal && *word == '-') {
                for (size_t i = 0; command && i < ARRAY_SIZE(command->options); i++)
                        put_options(c, command->options[i]);
                put_options(c, cli_global_options);
        } else if (cli_path_commands(&c->cli->path)) {
                put_commands(c, &c->cli->path);
        } else {
                put_argument(c);
        }
}

int cli_complete(struct cli *cli, int argc, char **argv) {
        struct completion c = {.cli = cli};

        if (argc < 4 || strcmp(argv[2], "--") != 0)
                return cli_usage(cli, "__complete is for the shells' scripts: SHELL -- WORD...");
        cli->args = calloc((size_t)argc, sizeof(*cli->args));
        if (!cli->args)
                return 0;
        for (int i = 3; strcmp(argv[1], "bash") == 0 && i < argc; i++)
                unquote(argv[i]);
        for (int i = 3; i + 1 < argc; i++)
                if (!take(&c, argv[i]))
                        return 0;
        complete(&c, argv[argc - 1]);
        return 0;
}
