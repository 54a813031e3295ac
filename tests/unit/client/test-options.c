/* SPDX-License-Identifier: MIT */
/* The parser of command lines, and the help, with a table of commands made up here. */
#include "client/cli.h"
#include "util/test.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

static int run_nothing(struct cli *cli) {
        return 0;
}

static const struct cli_option options[] = {
        {"sort", "KEY", CLI_STRING, .letter = 'k',
                .help = "order of the lines, which is a matter of taste, of "
                        "habit, and of what one is after"},
        {"quick", NULL, CLI_FLAG, .letter = 'z', .help = "no figures that take long"},
        {.name = NULL},
};
static const struct cli_command cmd_users = {.name = "users",
                                        .args = "[USER]",
                                        .max_args = 1,
                                        .summary = "What each user holds",
                                        .options = {options},
                                        .run = run_nothing},
                                cmd_drain = {.name = "drain",
                                        .args = "",
                                        .summary = "Finish, and take nothing new",
                                        .run = run_nothing},
                                cmd_quota_set = {.name = "set",
                                        .args = "USER N",
                                        .min_args = 2,
                                        .max_args = 2,
                                        .summary = "Give a user a limit",
                                        .run = run_nothing};
static const struct cli_command *const quota_commands[] = {&cmd_quota_set, NULL};
static const struct cli_command cmd_quota = {
        .name = "quota", .summary = "Limits of users", .commands = quota_commands};
static const struct cli_command *const admin_commands[] = {
        &cmd_users, &cmd_drain, &cmd_quota, NULL};
static const struct cli_command cmd_admin = {.name = "admin",
                                        .purpose = CLI_PURPOSE_RUN,
                                        .summary = "Look after the daemon",
                                        .help = "For the admin group.",
                                        .commands = admin_commands},
                                cmd_ls = {.name = "ls",
                                        .args = "",
                                        .summary = "List",
                                        .run = run_nothing};

const struct cli_command *const cli_commands[] = {&cmd_admin, &cmd_ls, NULL};

/* ---- one command line ---- */

struct line {
        struct cli cli;
        int status;
        char err[4096]; /* what was said on standard error */
};

/* As from main(); the words outlive the line. */
static void parse(struct line *line, const char *const *words) {
        int saved = dup(STDERR_FILENO), fd = memfd_create("stderr", MFD_CLOEXEC), argc = 1;
        char program[] = "confab", *argv[32] = {program};
        ssize_t n;

        *line = (struct line){.status = -1};
        for (; words[argc - 1]; argc++)
                argv[argc] = (char *)(uintptr_t)words[argc - 1];
        assert_true(saved >= 0 && fd >= 0);
        assert_true(dup2(fd, STDERR_FILENO) >= 0);
        line->status = cli_parse(&line->cli, argc, argv);
        assert_true(dup2(saved, STDERR_FILENO) >= 0);
        n = pread(fd, line->err, sizeof(line->err) - 1, 0);
        assert_true(n >= 0);
        close(fd);
        close(saved);
}
#define PARSE(line, ...) parse((line), (const char *const[]){__VA_ARGS__, NULL})

static void line_end(struct line *line) {
        free(line->cli.args);
        free(line->cli.values);
        buf_deinit(&line->cli.out);
}

static void check_wrong(const char *const *words, const char *err) {
        struct line line;

        parse(&line, words);
        assert_int_equal(line.status, CLI_USAGE);
        if (!strstr(line.err, err))
                print_message("%s", line.err);
        assert_non_null(strstr(line.err, err));
        line_end(&line);
}
#define WRONG(err, ...) check_wrong((const char *const[]){__VA_ARGS__, NULL}, err)

/* ---- commands of commands ---- */

static void test_commands(void **state) {
        char name[CLI_PATH_NAME_MAX];
        struct line line;

        PARSE(&line, "ls");
        assert_int_equal(line.status, 0);
        assert_ptr_equal(line.cli.command, &cmd_ls);
        assert_string_equal(cli_path_name(name, &line.cli.path), "ls");
        line_end(&line);

        PARSE(&line, "--json", "admin", "--tenant", "t", "users", "--sort=ram", "users");
        assert_int_equal(line.status, 0);
        assert_ptr_equal(line.cli.command, &cmd_users);
        assert_true(line.cli.json);
        assert_string_equal(line.cli.tenant, "t");
        assert_string_equal(cli_get(&line.cli, "sort")->s, "ram");
        assert_int_equal(line.cli.n_args, 1); /* no command: an argument of one */
        assert_string_equal(line.cli.args[0], "users");
        line_end(&line);

        PARSE(&line, "admin", "quota", "--", "set", "--all", "5");
        assert_int_equal(line.status, 0);
        assert_ptr_equal(line.cli.command, &cmd_quota_set);
        assert_int_equal(line.cli.n_args, 2);
        assert_string_equal(line.cli.args[0], "--all");
        assert_string_equal(cli_path_name(name, &line.cli.path), "admin quota set");
        line_end(&line);
}

static void test_wrong_commands(void **state) {
        static const char *const none[] = {NULL};

        check_wrong(none, "confab: no command given\nTry 'confab --help'.\n");
        WRONG("confab: admin needs a command\nUsage: confab admin COMMAND [ARGUMENTS]\n"
              "Try 'confab admin --help'.\n",
                "admin");
        WRONG("confab: admin quota needs a command\n"
              "Usage: confab admin quota COMMAND [ARGUMENTS]\n"
              "Try 'confab admin quota --help'.\n",
                "admin", "quota", "--json");
        WRONG("confab: unknown command 'shout' of admin\n", "admin", "shout");
        WRONG("confab: unknown command 'users'\n", "users");
        WRONG("confab: admin quota set needs more arguments\n"
              "Usage: confab admin quota set USER N\nTry 'confab admin quota set --help'.\n",
                "admin", "quota", "set", "a");
        WRONG("confab: admin drain takes fewer arguments", "admin", "drain", "now");
        WRONG("confab: unknown option --sort\n", "admin", "--sort=ram", "users");
        WRONG("confab: unknown option --sort\nUsage: confab admin drain\n", "admin", "drain",
                "--sort=ram");
        WRONG("Usage: confab admin users [USER] [OPTIONS]\n", "admin", "users", "--loud");
}

/* ---- short options, and near misses ---- */

static void check_short(const char *const *words, const char *sort, bool quick) {
        struct line line;

        parse(&line, words);
        assert_int_equal(line.status, 0);
        assert_int_equal(cli_get(&line.cli, "quick") != NULL, quick);
        assert_string_equal(cli_get(&line.cli, "sort")->s, sort);
        line_end(&line);
}
#define SHORT(sort, quick, ...)                                                                    \
        check_short((const char *const[]){"admin", "users", __VA_ARGS__, NULL}, sort, quick)

static void test_letters(void **state) {
        struct line line;

        SHORT("ram", false, "-k", "ram");
        SHORT("ram", false, "-kram");
        SHORT("=ram", false, "-k=ram");
        SHORT("ram", true, "-zk", "ram");
        SHORT("qqq", true, "-zjkqqq");
        SHORT("-q", false, "-k", "-q");
        SHORT("", false, "-k", "");
        SHORT("", false, "--sort=");
        SHORT("b", true, "-ka", "-zzz", "--sort", "b");
        PARSE(&line, "admin", "users", "-zzzzzzzzzzzzzzzz", "-j", "--", "-k");
        assert_int_equal(line.status, 0);
        assert_true(line.cli.json);
        assert_int_equal(line.cli.n_values, 16);
        assert_string_equal(line.cli.args[0], "-k");
        line_end(&line);
        PARSE(&line, "admin", "users", "-"); /* an argument */
        assert_int_equal(line.status, 0);
        assert_string_equal(line.cli.args[0], "-");
        line_end(&line);
}

static void test_wrong_letters(void **state) {
        struct line line;

        WRONG("confab: unknown option -x; '--' goes before an argument that begins with a dash\n",
                "admin", "users", "-x");
        WRONG("confab: unknown option -x\n", "admin", "drain", "-x"); /* it has no arguments */
        WRONG("confab: unknown option -x in -zx\n", "admin", "users", "-zx");
        WRONG("confab: unknown option -\xc3\xa9; '--'", "admin", "users", "-\xc3\xa9");
        WRONG("confab: -k (--sort) needs an argument: KEY\n", "admin", "users", "-zk");
        WRONG("confab: unknown option -k\n", "-k", "ram", "admin", "users"); /* nobody's yet */
        PARSE(&line, "admin", "users", "-zj", "--loud");
        assert_true(line.cli.json);
        line_end(&line);
        PARSE(&line, "-j", "ls", "-x");
        assert_int_equal(line.status, CLI_USAGE);
        assert_non_null(strstr((const char *)line.cli.out.data, "\"code\":\"usage\""));
        line_end(&line);
}

static void test_near_misses(void **state) {
        WRONG("unknown command 'amdin'; did you mean 'admin'?\n", "amdin");
        WRONG("unknown command 'l'; did you mean 'ls'?\n", "l");
        WRONG("unknown command 'user' of admin; did you mean 'users'?\n", "admin", "user");
        WRONG("unknown command 'qu' of admin; did you mean 'quota'?\n", "admin", "qu");
        WRONG("unknown command 'shout'\n", "shout");
        WRONG("unknown command ''\n", "");
        WRONG("unknown option --srot; did you mean '--sort'?\n", "admin", "users", "--srot=x");
        WRONG("unknown option --tenat; did you mean '--tenant'?\n", "--tenat", "x", "ls");
        WRONG("unknown option --sort\n", "ls", "--sort"); /* an option of another verb */
}

/* Whether colours are used, on a terminal of type @term. */
static bool colors(const char *term, const char *no_color, bool terminal, const char *option) {
        struct line line = {.status = -1};
        char program[] = "confab", ls[] = "ls",
             *argv[] = {program, ls, (char *)(uintptr_t)option, NULL};
        bool color;

        assert_int_equal(term ? setenv("TERM", term, 1) : unsetenv("TERM"), 0);
        assert_int_equal(no_color ? setenv("NO_COLOR", no_color, 1) : unsetenv("NO_COLOR"), 0);
        line.cli.out_tty = terminal;
        assert_int_equal(cli_parse(&line.cli, option ? 3 : 2, argv), 0);
        color = line.cli.color;
        line_end(&line);
        return color;
}

static void test_color(void **state) {
        assert_true(colors("xterm", NULL, true, NULL));
        assert_true(
                colors("xterm", "", true, "--color=auto")); /* no-color.org: set, and not empty */
        assert_false(colors("xterm", "1", true, NULL));
        assert_false(colors("xterm", NULL, false, NULL));
        assert_false(colors("dumb", NULL, true, NULL));
        assert_false(colors(NULL, NULL, true, NULL));
        assert_false(colors("", NULL, true, NULL));
        assert_false(colors("xterm", NULL, true, "--color=never"));
        assert_true(colors("dumb", "1", false, "--color=always")); /* it was asked for */
        WRONG("--color takes auto, always or never, not 'on'\n", "ls", "--color", "on");
}

/* What is suggested for @word, of @candidates. */
static void check_suggest(const char *word, const char *const *candidates, const char *want) {
        struct cli_suggest s = {.word = word};
        struct buf b = BUF_NULL;

        for (; *candidates; candidates++)
                cli_suggest_try(&s, *candidates);
        assert_int_equal(cli_suggest_put(&s, "", &b), 0);
        assert_string_equal(b.data ? (const char *)b.data : "", want);
        buf_deinit(&b);
}
#define SUGGEST(word, want, ...) check_suggest(word, (const char *const[]){__VA_ARGS__, NULL}, want)

static void test_suggest(void **state) {
        char longest[CLI_SUGGEST_SIZE + 2] = "";

        SUGGEST("fokr", "; did you mean 'fork'?", "work", "fork", "form");
        SUGGEST("FORK", "; did you mean 'fork'?", "fork");
        SUGGEST("cat", "; did you mean 'bat', 'hat' or 'mat'?", "bat", "hat", "mat", "rat");
        SUGGEST("cat", "; did you mean 'at' or 'cats'?", "at", "dogs", "cats");
        SUGGEST("a", "", "b", "");
        SUGGEST("abcde", "", "abxye");                           /* two of five */
        SUGGEST("abcdef", "; did you mean 'abxyef'?", "abxyef"); /* two of six */
        SUGGEST("abcdefghi", "", "abxyefghz");                   /* three of nine */
        SUGGEST("abcdefghij", "; did you mean 'abxyefghzj'?", "abxyefghzj");
        SUGGEST("re", "; did you mean 'regenerate' or 'rewind'?", "regenerate", "rewind", "say");
        SUGGEST("re", "; did you mean 'red'?", "regenerate", "red", "rewind"); /* rule 2 */
        memset(longest, 'x', CLI_SUGGEST_SIZE + 1);
        SUGGEST(longest, "", longest, "xxx");
        SUGGEST("xx", "", longest);
        longest[CLI_SUGGEST_SIZE] = 0;
        SUGGEST("xx",
                "; did you mean "
                "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'?",
                longest);
        SUGGEST(longest,
                "; did you mean "
                "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'?",
                longest);
}

/* ---- completion, of what needs no daemon ---- */

static void check_complete(const char *const *words, const char *want) {
        char complete[] = "__complete", zsh[] = "zsh", dashes[] = "--";
        char *argv[16] = {complete, zsh, dashes};
        struct cli cli = {.command = NULL};
        int argc = 3;

        for (; *words; words++)
                argv[argc++] = (char *)(uintptr_t)*words;
        assert_int_equal(cli_complete(&cli, argc, argv), 0);
        assert_string_equal(cli.out.data ? (const char *)cli.out.data : "", want);
        free(cli.args);
        buf_deinit(&cli.out);
}
#define COMPLETE(want, ...) check_complete((const char *const[]){__VA_ARGS__, NULL}, want)

static void test_complete(void **state) {
        COMPLETE("=admin\tLook after the daemon\n", "a");
        COMPLETE("=users\tWhat each user holds\n", "admin", "us");
        COMPLETE("=set\tGive a user a limit\n", "admin", "quota", "");
        COMPLETE("=--quick\tno figures that take long\n", "admin", "--json", "users", "--qui",
                "--quic");
        COMPLETE("", "admin", "nobody", "");
        COMPLETE("", "admin", "users", "-k", ""); /* of a KEY nothing is known */
        COMPLETE("=root\t\n", "admin", "quota", "set", "root");
        COMPLETE("", "admin", "quota", "set", "root", ""); /* and of an N */
}

/* ---- help ---- */

static void check_help(const char *const *words, const char *const *wanted) {
        struct line line;

        parse(&line, words);
        assert_int_equal(line.status, 0);
        assert_true(line.cli.help);
        cli_help(&line.cli, &line.cli.path);
        for (; *wanted; wanted++) {
                if (!strstr((const char *)line.cli.out.data, *wanted))
                        print_message("%s", (const char *)line.cli.out.data);
                assert_non_null(strstr((const char *)line.cli.out.data, *wanted));
        }
        line_end(&line);
}

static void test_help(void **state) {
        static const char *const none[] = {"--help", NULL}, *const admin[] = {"admin", "-h", NULL},
                                 *const users[] = {"--help", "admin", "users", NULL};

        check_help(none, (const char *const[]){"Usage: confab [", "\nThe daemon:\n  admin COMMAND",
                                 "\nMore:\n  ls ", "\n      --socket PATH ", NULL});
        check_help(admin,
                (const char *const[]){
                        "Usage: confab admin COMMAND [ARGUMENTS]\n\nLook after the daemon.\n\n"
                        "For the admin group.\n\nCommands:\n  users [USER] ",
                        "\n  quota COMMAND", "\nOptions of every command:\n", NULL});
        check_help(users, (const char *const[]){"Usage: confab admin users [USER] [OPTIONS]\n",
                                  "\nOptions:\n"
                                  "  -k, --sort KEY             order of the lines, which is a "
                                  "matter of taste, of\n"
                                  "                             habit, and of what one is after\n"
                                  "  -z, --quick                no figures",
                                  NULL});
}

/* What "confab help" walks. */
static void test_path(void **state) {
        struct cli_path path = {.n = 0};

        assert_false(cli_path_add(&path, "users"));
        assert_true(cli_path_add(&path, "admin"));
        assert_false(cli_path_add(&path, "admin"));
        assert_true(cli_path_add(&path, "users"));
        assert_null(cli_path_commands(&path));
        assert_false(cli_path_add(&path, "users")); /* a verb has no commands */
        assert_int_equal(path.n, 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_commands),
                cmocka_unit_test(test_wrong_commands),
                cmocka_unit_test(test_letters),
                cmocka_unit_test(test_wrong_letters),
                cmocka_unit_test(test_near_misses),
                cmocka_unit_test(test_suggest),
                cmocka_unit_test(test_color),
                cmocka_unit_test(test_complete),
                cmocka_unit_test(test_help),
                cmocka_unit_test(test_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
