/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include <fcntl.h>

struct export {
        int fd; /* owned; -1: there is none */
        uint64_t size;
};

static void take(void *userdata, const struct confab_event *event) {
        struct export *export = userdata;

        if (event->kind != CONFAB_EVENT_EXPORTED)
                return;
        export->size = event->exported->size;
        export->fd = fcntl(event->exported->fd, F_DUPFD_CLOEXEC, 0);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct export export = {.fd = -1};
        int status;

        if (cli->out_tty)
                return cli_usage(cli, "an export is not for a terminal: write it to a file");
        status = cli_ref(cli, cli->args[0], &r);
        if (status)
                return status;
        r.verb = CONFAB_EXPORT;
        r.without_memory = cli_get(cli, "without-memory") != NULL;
        status = cli_call(cli, &r, take, &export);
        if (status == 0 && export.fd < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot keep the export's file");
        if (status == 0)
                status = cli_copy(
                        cli, export.fd, STDOUT_FILENO, export.size, "writing", "the export");
        if (export.fd >= 0)
                close(export.fd);
        return status;
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
