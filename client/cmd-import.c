/* SPDX-License-Identifier: MIT */
#include "base/file.h"
#include "client/cli-commands.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* What the daemon takes: nobody can change the file while it reads. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static void event(void *userdata, const struct confab_event *event) {
        struct cli *cli = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (cli->json) {
                cli_put_conversation(
                        cli, &(struct confab_request)CONFAB_REQUEST_INIT, event->conversation);
                return;
        }
        cli_name(cli, event->conversation->name);
        cli_printf(cli, "\n");
}

/* A daemon is there, and has been greeted: what is to be imported may come for longer than it waits for that. */
static int meet(struct cli *cli) {
        struct confab_error e;
        int status = cli_connect(cli);

        while (status == 0 && !confab_get_server(cli->confab))
                if (confab_wait(cli->confab, -1, &e) < 0)
                        status = cli_fail(cli, &e);
        return status;
}

/* Standard input in a sealed file, which *ret owns. */
static int read_file(struct cli *cli, int *ret) {
        _cleanup_(closep) int fd = memfd_create("confab-import", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int status;

        if (fd < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM,
                        "cannot make room for the import: %s", strerrordesc_np(errno));
        status = cli_copy(cli, STDIN_FILENO, fd, cli_file_rest(STDIN_FILENO), "reading",
                "what is to be imported");
        if (status)
                return status;
        if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot seal the import: %s",
                        strerrordesc_np(errno));
        *ret = TAKE_FD(fd);
        return 0;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        _cleanup_(closep) int fd = -1;
        int status;

        if (isatty(STDIN_FILENO))
                return cli_usage(cli, "what to import is read from standard input: give a file");
        status = meet(cli);
        if (status == 0)
                status = read_file(cli, &fd);
        if (status)
                return status;
        r.verb = CONFAB_IMPORT;
        r.name = cli->n_args ? cli->args[0] : NULL;
        r.has_fd = true;
        r.fd = fd;
        return cli_call(cli, &r, event, cli);
}

const struct cli_command cmd_import = {
        .name = "import",
        .args = "[NEW]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Make a conversation of an export and print its name",
        .help = "A conversation is made of an export, read from standard input. Without NEW it "
                "gets the name it had, or another one if that is taken. Its memory is used if the "
                "daemon's model and settings are the ones that made it, and computed again when it "
                "is needed otherwise. The file may come from anywhere: memory that another daemon "
                "exported is used for this conversation and its forks only.",
        .examples = "confab import copy < notes.confab",
        .see = "export",
        .run = run,
};
