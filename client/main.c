/* SPDX-License-Identifier: MIT */
/* The confab command: find the verb and run it. */
#include "client/cli.h"
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#define COMPLETE_S 2

/* If a standard stream is closed, the socket would get its number and be read or written in its
 * place. So /dev/null gets the number instead, opened for reading: standard input is then empty,
 * and writing fails as on a closed descriptor. */
static int open_standard_streams(void) {
        int fd;

        do
                fd = open("/dev/null", O_RDONLY);
        while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd >= 0)
                close(fd);
        return fd;
}

/* A shell asks while somebody types: in silence, and never for long. */
static int complete(struct cli *cli, int argc, char **argv) {
        const struct itimerval time = {.it_value = {.tv_sec = COMPLETE_S}};
        int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

        /* SIGALRM ends the program, which leaves nothing behind */
        setitimer(ITIMER_REAL, &time, NULL);
        if (fd >= 0) {
                dup2(fd, STDERR_FILENO);
                close(fd);
        }
        return cli_complete(cli, argc, argv);
}

static int run(struct cli *cli, int argc, char **argv) {
        int status;

        if (argc > 1 && strcmp(argv[1], "__complete") == 0)
                return complete(cli, argc - 1, argv + 1);
        status = cli_parse(cli, argc, argv);
        if (status)
                return status;
        if (cli->help)
                cli_help(cli, &cli->path);
        else if (cli->version)
                cli_printf(cli, "confab %s\n", CONFAB_VERSION);
        else
                return cli->command->run(cli);
        return 0;
}

int main(int argc, char **argv) {
        struct cli cli = {.out_tty = isatty(STDOUT_FILENO), .err_tty = isatty(STDERR_FILENO)};
        int status, flushed;

        if (open_standard_streams() < 0)
                return CLI_FAILED;
        setlocale(LC_CTYPE, "");  /* widths of characters; numbers keep their point */
        signal(SIGPIPE, SIG_IGN); /* write() says it as well */
        status = run(&cli, argc, argv);
        flushed = cli_flush(&cli);
        confab_free(cli.confab);
        buf_deinit(&cli.out);
        free(cli.args);
        free(cli.values);
        return status ? status : flushed;
}
