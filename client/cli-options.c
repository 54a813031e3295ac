/* SPDX-License-Identifier: MIT */
/* Command lines: every verb declares its options in tables, from which the parser works, and --help
 * (cli-help.c). */
#include "client/cli.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

const struct cli_option cli_global_options[] = {
        {"socket", "PATH", CLI_STRING, .help = "socket of the daemon (or set CONFAB_SOCKET)",
                .more = "Otherwise the system's daemon is asked, at /run/confab/confab.sock, if it "
                        "may be used, or else the user's own, at "
                        "$XDG_RUNTIME_DIR/confab/confab.sock."},
        {"as-uid", "UID", CLI_UINT, .max_uint = UINT32_MAX - 1,
                .help = "act for this user, if the daemon trusts you",
                .more = "The command then reaches this user's conversations in place of your own. "
                        "Root may, and those whom the daemon's setting trusted-users names."},
        {"tenant", "LABEL", CLI_STRING, .help = "act for this tenant of the user, likewise",
                .more = "A tenant is a label under which a program keeps one of those apart whom "
                        "it serves. Its conversations are neither the user's nor another "
                        "tenant's."},
        {"color", "auto|always|never", CLI_STRING,
                .help = "colours, bold and dimmed text in the output",
                .more = "auto, which is the default, uses them on a terminal, unless NO_COLOR is "
                        "set or TERM is dumb."},
        {"quiet", NULL, CLI_FLAG, .letter = 'q',
                .help = "neither progress nor hints on standard error",
                .more = "Errors are told all the same."},
        {"json", NULL, CLI_FLAG, .letter = 'j', .help = "print JSON",
                .more = "Commands that print a reply print one object for each event on a line of "
                        "its own, others one object. confab-protocol(7) describes them."},
        {"help", NULL, CLI_FLAG, .letter = 'h', .help = "show help"},
        {"version", NULL, CLI_FLAG, .letter = 'V', .help = "show the version"},
        {.name = NULL},
};

/* ---- values ---- */

static bool parse_float(const char *s, float *ret) {
        char *end;
        float v;

        if (*s == 0 || *s == ' ')
                return false;
        v = strtof(s, &end);
        if (*end || isnan(v))
                return false;
        *ret = v;
        return true;
}

static bool parse_bias(const char *s, struct confab_bias *ret) {
        const char *eq = strchr(s, '=');
        char id[16] = "";
        uint64_t token;
        float bias;

        if (!eq || (size_t)(eq - s) >= sizeof(id))
                return false;
        memcpy(id, s, (size_t)(eq - s));
        if (!cli_parse_uint(id, INT32_MAX, &token) || !parse_float(eq + 1, &bias))
                return false;
        *ret = (struct confab_bias){(int32_t)token, bias};
        return true;
}

static int parse_value(
        struct cli *cli, const struct cli_option *o, const char *s, struct cli_value *ret) {
        struct cli_value v = {.option = o};

        switch (o->type) {
        case CLI_FLAG:
                break;
        case CLI_UINT:
                if (!cli_parse_uint(s, o->max_uint, &v.u) || (double)v.u < o->min)
                        return cli_usage(cli, "--%s: '%s' is not a number from %g to %llu", o->name,
                                s, o->min, (unsigned long long)o->max_uint);
                break;
        case CLI_FLOAT:
                if (!parse_float(s, &v.f) || (double)v.f < o->min || (double)v.f > o->max)
                        return cli_usage(cli, "--%s: '%s' is not a number from %g to %g", o->name,
                                s, o->min, o->max);
                break;
        case CLI_STRING:
                v.s = s;
                break;
        case CLI_BIAS:
                if (!parse_bias(s, &v.bias))
                        return cli_usage(
                                cli, "--%s: '%s' is not TOKEN=BIAS, as in 42=-1.5", o->name, s);
                break;
        }
        *ret = v;
        return 0;
}

/* ---- options ---- */

static const struct cli_option *find_in(
        const struct cli_option *table, const char *name, size_t size) {
        for (; table && table->name; table++)
                if (strncmp(table->name, name, size) == 0 && table->name[size] == 0)
                        return table;
        return NULL;
}

const struct cli_option *cli_find_option(
        const struct cli_command *c, const char *name, size_t size) {
        const struct cli_option *o = find_in(cli_global_options, name, size);

        for (size_t i = 0; !o && c && i < ARRAY_SIZE(c->options); i++)
                o = find_in(c->options[i], name, size);
        return o;
}

static const struct cli_option *find_letter_in(const struct cli_option *table, char letter) {
        for (; table && table->name; table++)
                if (table->letter && table->letter == letter)
                        return table;
        return NULL;
}

const struct cli_option *cli_find_letter(const struct cli_command *c, char letter) {
        const struct cli_option *o = find_letter_in(cli_global_options, letter);

        for (size_t i = 0; !o && c && i < ARRAY_SIZE(c->options); i++)
                o = find_letter_in(c->options[i], letter);
        return o;
}

const struct cli_value *cli_get_each(const struct cli *cli, const char *name, size_t *it) {
        assert(cli_find_option(cli->command, name, strlen(name)));
        while (*it < cli->n_values) {
                const struct cli_value *v = &cli->values[(*it)++];

                if (strcmp(v->option->name, name) == 0)
                        return v;
        }
        return NULL;
}

const struct cli_value *cli_get(const struct cli *cli, const char *name) {
        const struct cli_value *v, *last = NULL;
        size_t it = 0;

        while ((v = cli_get_each(cli, name, &it)))
                last = v;
        return last;
}

int cli_overflow(struct cli *cli, struct confab_request *r) {
        const struct cli_value *v = cli_get(cli, "overflow");

        if (!v)
                return 0;
        for (int i = CONFAB_OVERFLOW_ERROR; i <= CONFAB_OVERFLOW_SHIFT; i++)
                if (strcmp(v->s, confab_overflow_name((enum confab_overflow)i)) == 0) {
                        r->overflow = (enum confab_overflow)i;
                        return 0;
                }
        return cli_usage(cli, "--overflow takes error or shift, not '%s'", v->s);
}

static void set_global(struct cli *cli, const struct cli_value *v) {
        const char *name = v->option->name;

        if (strcmp(name, "socket") == 0)
                cli->socket = v->s;
        else if (strcmp(name, "tenant") == 0)
                cli->tenant = v->s;
        else if (strcmp(name, "as-uid") == 0) {
                cli->has_as_uid = true;
                cli->as_uid = (uint32_t)v->u;
        } else if (strcmp(name, "color") == 0)
                cli->color_asked = v->s;
        else if (strcmp(name, "quiet") == 0)
                cli->quiet = true;
        else if (strcmp(name, "json") == 0)
                cli->json_asked = true;
        else if (strcmp(name, "help") == 0)
                cli->help = true;
        else
                cli->version = true;
}

int cli_give(struct cli *cli, const struct cli_option *o, const char *arg) {
        struct cli_value v;
        int r = parse_value(cli, o, arg, &v);

        if (r)
                return r;
        if (find_in(cli_global_options, o->name, strlen(o->name)))
                set_global(cli, &v);
        else
                cli->values[cli->n_values++] = v;
        return 0;
}

static int unknown_option(struct cli *cli, const char *name, size_t size) {
        _cleanup_(buf_deinit) struct buf near = BUF_NULL;
        char word[CLI_SUGGEST_SIZE + 2];
        struct cli_suggest s = {.word = word};

        snprintf(word, sizeof(word), "%.*s", (int)MIN(size, sizeof(word) - 1), name);
        for (const struct cli_option *o = cli_global_options; o->name; o++)
                cli_suggest_try(&s, o->name);
        for (size_t i = 0; cli->command && i < ARRAY_SIZE(cli->command->options); i++)
                for (const struct cli_option *o = cli->command->options[i]; o && o->name; o++)
                        cli_suggest_try(&s, o->name);
        (void)!cli_suggest_put(&s, "--", &near);
        return cli_usage(cli, "unknown option --%.*s%s", (int)size, name,
                near.data ? (const char *)near.data : "");
}

/* argv[*i] is "--something"; *i moves on past its argument. */
static int take_option(struct cli *cli, int argc, char **argv, int *i) {
        const char *name = argv[*i] + 2, *eq = strchr(name, '='), *arg = NULL;
        size_t size = eq ? (size_t)(eq - name) : strlen(name);
        const struct cli_option *o = cli_find_option(cli->command, name, size);

        if (!o)
                return unknown_option(cli, name, size);
        if (!o->arg && eq)
                return cli_usage(cli, "--%s takes no argument", o->name);
        if (o->arg && eq)
                arg = eq + 1;
        else if (o->arg && *i + 1 < argc)
                arg = argv[++*i];
        if (o->arg && !arg)
                return cli_usage(cli, "--%s needs an argument: %s", o->name, o->arg);
        return cli_give(cli, o, arg);
}

static int unknown_letter(struct cli *cli, const char *word, const char *letter) {
        const char *hint = cli->command && cli->command->args && *cli->command->args
                                   ? "; '--' goes before an argument that begins with a dash"
                                   : "";

        if (letter == word + 1 || (unsigned char)*letter >= 0x80)
                return cli_usage(cli, "unknown option %s%s", word, hint);
        return cli_usage(cli, "unknown option -%c in %s", *letter, word);
}

/* argv[*i] is "-nq", flags, the last of which may be an option with its argument: "-nm5", "-nm 5". */
static int take_letters(struct cli *cli, int argc, char **argv, int *i) {
        const char *word = argv[*i];

        for (const char *p = word + 1; *p; p++) {
                const struct cli_option *o = cli_find_letter(cli->command, *p);
                int r;

                if (!o)
                        return unknown_letter(cli, word, p);
                if (o->arg && !p[1] && *i + 1 == argc)
                        return cli_usage(
                                cli, "-%c (--%s) needs an argument: %s", *p, o->name, o->arg);
                if (o->arg)
                        return cli_give(cli, o, p[1] ? p + 1 : argv[++*i]);
                r = cli_give(cli, o, NULL);
                if (r)
                        return r;
        }
        return 0;
}

const struct cli_command *const *cli_path_commands(const struct cli_path *path) {
        return path->n ? path->at[path->n - 1]->commands : cli_commands;
}

bool cli_path_add(struct cli_path *path, const char *word) {
        const struct cli_command *const *c = cli_path_commands(path);

        for (; c && *c; c++)
                if (strcmp((*c)->name, word) == 0) {
                        assert(path->n < CLI_PATH_MAX); /* tables are not deeper */
                        path->at[path->n++] = *c;
                        return true;
                }
        return false;
}

const char *cli_path_name(char buf[CLI_PATH_NAME_MAX], const struct cli_path *path) {
        size_t size = 0;

        *buf = 0;
        for (size_t i = 0; i < path->n && size < CLI_PATH_NAME_MAX; i++)
                size += (size_t)snprintf(buf + size, CLI_PATH_NAME_MAX - size, "%s%s", i ? " " : "",
                        path->at[i]->name);
        return buf;
}

int cli_unknown_command(struct cli *cli, const struct cli_path *path, const char *word) {
        const struct cli_command *const *c = cli_path_commands(path);
        _cleanup_(buf_deinit) struct buf near = BUF_NULL;
        struct cli_suggest s = {.word = word};
        char name[CLI_PATH_NAME_MAX];

        for (; c && *c; c++)
                cli_suggest_try(&s, (*c)->name);
        (void)!cli_suggest_put(&s, "", &near);
        return cli_usage(cli, "unknown command '%s'%s%s%s", word, path->n ? " of " : "",
                cli_path_name(name, path), near.data ? (const char *)near.data : "");
}

/* A word is the command, as long as that is not a verb, then an argument of the verb. */
static int take_word(struct cli *cli, const char *word) {
        if (cli_path_commands(&cli->path)) {
                if (!cli_path_add(&cli->path, word))
                        return cli_unknown_command(cli, &cli->path, word);
                cli->command = cli->path.at[cli->path.n - 1];
                return 0;
        }
        cli->args[cli->n_args++] = word;
        return 0;
}

/* "-j", "-nj", "-jq" */
static bool is_bundle_of_j(const char *word) {
        const char *letters = word + 1;

        while (word[0] == '-' && isalpha((unsigned char)*letters))
                letters++;
        return word[0] == '-' && *letters == 0 && strchr(word, 'j');
}

/* Look for --json anywhere in the command line, so that even its errors are reported as JSON. (An
 * option's argument may look the same, but such a command line is a strange one.) */
static bool wants_json(int argc, char **argv) {
        for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
                if (strcmp(argv[i], "--json") == 0 || is_bundle_of_j(argv[i]))
                        return true;
        return false;
}

/* Whether to use colours: 0 or CLI_USAGE. */
static int set_color(struct cli *cli) {
        const char *asked = cli->color_asked ? cli->color_asked : "auto", *no = getenv("NO_COLOR");

        if (strcmp(asked, "auto") == 0)
                cli->color = cli->out_tty && cli_terminal_erases() && !(no && *no);
        else if (strcmp(asked, "always") == 0)
                cli->color = true;
        else if (strcmp(asked, "never") != 0)
                return cli_usage(cli, "--color takes auto, always or never, not '%s'", asked);
        return 0;
}

/* At most so many values are in a command line: each letter of a bundle may be one. */
static size_t count_values(int argc, char **argv) {
        size_t n = 1;

        for (int i = 1; i < argc; i++)
                n += argv[i][0] == '-' && argv[i][1] != '-' ? strlen(argv[i]) : 1;
        return n;
}

int cli_parse(struct cli *cli, int argc, char **argv) {
        char name[CLI_PATH_NAME_MAX];
        bool words_only = false;
        int r = 0;

        cli->args = calloc((size_t)argc + 1, sizeof(*cli->args));
        cli->values = calloc(count_values(argc, argv), sizeof(*cli->values));
        if (!cli->args || !cli->values)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        cli->json = wants_json(argc, argv);
        cli->first_literal = SIZE_MAX;
        for (int i = 1; i < argc && r == 0; i++) {
                if (!words_only && strcmp(argv[i], "--") == 0) {
                        words_only = true;
                        cli->first_literal = cli->n_args;
                } else if (!words_only && strncmp(argv[i], "--", 2) == 0)
                        r = take_option(cli, argc, argv, &i);
                else if (!words_only && argv[i][0] == '-' && argv[i][1])
                        r = take_letters(cli, argc, argv, &i);
                else
                        r = take_word(cli, argv[i]);
        }
        if (r)
                return r;
        cli->json = cli->json_asked;
        r = set_color(cli);
        if (r)
                return r;
        if (cli->help || cli->version)
                return 0;
        if (!cli->command)
                return cli_usage(cli, "no command given");
        cli_path_name(name, &cli->path);
        if (cli->command->commands)
                return cli_usage(cli, "%s needs a command", name);
        if (cli->n_args < cli->command->min_args)
                return cli_usage(cli, "%s needs more arguments", name);
        if (cli->n_args > cli->command->max_args)
                return cli_usage(cli, "%s takes fewer arguments (quote what has spaces)", name);
        return 0;
}
