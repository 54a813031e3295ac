/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/file.h"
#include "client/cli-commands.h"
#include <errno.h>
#include <string.h>

#define COPY_SIZE (256u << 10)

/* Copy all of @fd to standard output: 0 or a status. */
static int copy_out(struct cli *cli, int fd) {
        static char data[COPY_SIZE];
        struct err e;
        ssize_t n;

        for (;;) {
                n = read(fd, data, sizeof(data));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM,
                                "cannot read the export: %s", strerrordesc_np(errno));
                if (n == 0)
                        return 0;
                if (file_write(STDOUT_FILENO, data, (size_t)n, &e) == 0)
                        continue;
                if (e.sys == EPIPE)
                        return CLI_BROKEN_PIPE;
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot write the export: %s",
                        strerrordesc_np(e.sys));
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
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Write a conversation to standard output, for import",
        .help = "Transcript, tokens and memory, as one file for 'confab import'. Standard output "
                "must not be a terminal. The memory is of use to a daemon with the same model and "
                "kv-type; any other computes it again.",
        .examples = "confab export notes > notes.confab",
        .see = "import",
        .options = {options},
        .binary = true,
        .run = run,
};
