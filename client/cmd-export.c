/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include <errno.h>
#include <string.h>

#define COPY_SIZE (256u << 10)

/* All of @fd to standard output: 0 or a status. */
static int copy_out(struct cli *cli, int fd) {
        static char data[COPY_SIZE];
        ssize_t n, k;

        for (;;) {
                n = read(fd, data, sizeof(data));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        cli_complain(cli, "cannot read the export: %s", strerrordesc_np(errno));
                        return CLI_FAILED;
                }
                if (n == 0)
                        return 0;
                for (ssize_t done = 0; done < n; done += k) {
                        k = write(STDOUT_FILENO, data + done, (size_t)(n - done));
                        if (k < 0 && errno == EPIPE)
                                return CLI_BROKEN_PIPE;
                        if (k < 0 && errno != EINTR) {
                                cli_complain(
                                        cli, "cannot write the export: %s", strerrordesc_np(errno));
                                return CLI_FAILED;
                        }
                        k = k < 0 ? 0 : k;
                }
        }
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(closep) int fd = -1;
        struct confab_error e;
        int status;

        if (cli->out_tty)
                return cli_usage(cli, "an export is not for a terminal: write it to a file");
        status = cli_ref(cli, cli->args[0], &r);
        if (status == 0)
                status = cli_connect(cli);
        if (status)
                return status;
        r.without_memory = cli_get(cli, "without-memory") != NULL;
        if (confab_export(cli->confab, &r, &fd, NULL, &e) < 0)
                return cli_fail(cli, &e);
        return copy_out(cli, fd);
}

static const struct cli_option options[] = {
        {"without-memory", NULL, CLI_FLAG,
                .help = "only transcript and tokens; importing computes the rest again"},
        {.name = NULL},
};

const struct cli_command cmd_export = {
        .name = "export",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .summary = "Write a conversation to standard output, for import",
        .help = "Transcript, tokens and memory. The memory is of use to a daemon with the same "
                "model "
                "and\nkv-type; any other computes it again.",
        .options = {options},
        .binary = true,
        .run = run,
};
