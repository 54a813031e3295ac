/* SPDX-License-Identifier: MIT */
/* The tables of the confab command are as the parser, --help, completion and the manual pages want them. */
#include "client/cli.h"
#include "util/test.h"
#include <ctype.h>
#include <string.h>

/* Two options of a command have neither a name nor a letter in common. */
static void check_pair(
        const char *command, const struct cli_option *a, const struct cli_option *b) {
        if (strcmp(a->name, b->name) == 0 || (a->letter && a->letter == b->letter))
                fail_msg("confab %s: --%s and --%s have a name or a letter in common", command,
                        a->name, b->name);
}

static void check_option(const char *command, const struct cli_option *o) {
        size_t n = o->help ? strlen(o->help) : 0;

        if (n == 0 || o->help[n - 1] == '.' || (isupper(o->help[0]) && islower(o->help[1])))
                fail_msg("confab %s: the help of --%s is no sentence without its beginning and end",
                        command, o->name);
        if ((o->type == CLI_FLAG) != (o->arg == NULL))
                fail_msg("confab %s: --%s has an argument, or a flag's type", command, o->name);
        if (o->letter && !isalpha(o->letter))
                fail_msg("confab %s: the letter of --%s is none", command, o->name);
        if (o->type == CLI_UINT && o->max_uint == 0)
                fail_msg("confab %s: --%s can be 0 alone", command, o->name);
        if (o->more && o->more[strlen(o->more) - 1] != '.')
                fail_msg(
                        "confab %s: what the page adds to --%s has no full stop", command, o->name);
}

static void check_options(const char *name, const struct cli_command *c) {
        const struct cli_option *all[128];
        size_t n = 0;

        for (size_t i = 0; i <= ARRAY_SIZE(c->options); i++) {
                const struct cli_option *o =
                        i < ARRAY_SIZE(c->options) ? c->options[i] : cli_global_options;

                for (; o && o->name; o++) {
                        assert_true(n < ARRAY_SIZE(all));
                        check_option(name, o);
                        for (size_t k = 0; k < n; k++)
                                check_pair(name, all[k], o);
                        all[n++] = o;
                }
        }
}

static void check_command(const struct cli_command *c, struct cli_path path) {
        char name[CLI_PATH_NAME_MAX];

        assert_true(path.n < CLI_PATH_MAX);
        path.at[path.n++] = c;
        cli_path_name(name, &path);
        if (!c->summary || c->summary[strlen(c->summary) - 1] == '.' || !isupper(c->summary[0]))
                fail_msg("confab %s: the summary is no line with a capital and without a full stop",
                        name);
        if ((c->run == NULL) == (c->commands == NULL))
                fail_msg("confab %s: it is neither a verb nor a group, or both", name);
        if (c->commands && (c->args || c->options[0]))
                fail_msg("confab %s: a group has no arguments and options", name);
        if (!c->commands &&
                (!c->args || c->min_args > c->max_args || (*c->args == 0) != (c->max_args == 0)))
                fail_msg("confab %s: its arguments and their number disagree", name);
        if (c->help && (c->help[0] == '\n' || c->help[strlen(c->help) - 1] == '\n'))
                fail_msg("confab %s: its help begins or ends with a line's end", name);
        check_options(name, c);
        for (size_t i = 0; c->commands && c->commands[i]; i++) {
                for (size_t k = 0; k < i; k++)
                        assert_string_not_equal(c->commands[k]->name, c->commands[i]->name);
                check_command(c->commands[i], path);
        }
}

static void test_commands(void **state) {
        for (size_t i = 0; cli_commands[i]; i++) {
                for (size_t k = 0; k < i; k++)
                        assert_string_not_equal(cli_commands[k]->name, cli_commands[i]->name);
                check_command(cli_commands[i], (struct cli_path){.n = 0});
        }
}

/* Verbs that are named as related ones exist. */
static void test_see(void **state) {
        for (size_t i = 0; cli_commands[i]; i++)
                for (const char *s = cli_commands[i]->see; s && *s;) {
                        struct cli_path path = {.n = 0};
                        size_t n = strcspn(s, " ");
                        char word[64] = "";

                        assert_true(n < sizeof(word));
                        memcpy(word, s, n);
                        if (!cli_path_add(&path, word))
                                fail_msg("confab %s: there is no %s to see", cli_commands[i]->name,
                                        word);
                        s += n + strspn(s + n, " ");
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_commands),
                cmocka_unit_test(test_see),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
