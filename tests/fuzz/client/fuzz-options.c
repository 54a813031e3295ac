/* SPDX-License-Identifier: MIT */
/* Command lines, a word on each line, as somebody types them: to the parser, and behind "complete" and a shell's name as words
 * to complete. What is taken has as many arguments as its verb; what is answered are lines that the shells' scripts know. */
#include "client/cli-commands.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WORDS_MAX 64

static void check_parsed(const struct cli *cli, int status) {
        if (status != 0 && status != CLI_USAGE)
                abort();
        if (status || cli->help || cli->version)
                return;
        if (!cli->command || !cli->command->run || cli->n_args < cli->command->min_args ||
                cli->n_args > cli->command->max_args)
                abort();
}

/* Each line is a word or a file's beginning. */
static void check_completed(const struct cli *cli) {
        const char *s = cli->out.data ? (const char *)cli->out.data : "";

        while (*s) {
                const char *end = strchr(s, '\n');

                if (!end || (*s == '=' ? !memchr(s, '\t', (size_t)(end - s)) : *s != '/'))
                        abort();
                s = end + 1;
        }
}

static void run(int argc, char **argv) {
        struct cli cli = {.out_tty = false};

        if (argc > 3 && strcmp(argv[1], "complete") == 0) {
                cli.socket = "/nonexistent/confab"; /* nobody is asked */
                cli_complete(&cli, argc - 1, argv + 1);
                check_completed(&cli);
        } else {
                check_parsed(&cli, cli_parse(&cli, argc, argv));
                if (cli.help)
                        cli_help(&cli, &cli.path);
        }
        confab_free(cli.confab);
        buf_deinit(&cli.out);
        free(cli.args);
        free(cli.values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static FILE *nowhere;
        FILE *errors = stderr;
        char *copy, *argv[WORDS_MAX + 1] = {NULL}, program[] = "confab";
        int argc = 1;

        if (!nowhere)
                nowhere = fopen("/dev/null", "w");
        copy = text_dup(data, size);
        if (!nowhere || !copy)
                abort();
        argv[0] = program;
        for (char *s = copy; s && argc < WORDS_MAX;) {
                char *end = strchr(s, '\n');

                if (end)
                        *end++ = 0;
                argv[argc++] = s;
                s = end;
        }
        if (!strstr(copy, "--socket")) {
                stderr = nowhere; /* the parser's complaints */
                run(argc, argv);
                stderr = errors;
        }
        free(copy);
        return 0;
}
