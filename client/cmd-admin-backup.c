/* SPDX-License-Identifier: MIT */
/*
 * The file appears under its name when it is complete and on disk. Until then it has no name, where the file system
 * can do that: nothing stays behind, however the program ends.
 */
#include "base/err.h"
#include "base/file.h"
#include "client/cli-commands.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct writing {
        struct cli *cli;
        int fd;
        struct err err; /* of the first failure to write; code 0: none */
        struct confab_exported exported;
};

static void backup_event(void *userdata, const struct confab_event *event) {
        struct writing *w = userdata;

        if (event->kind == CONFAB_EVENT_EXPORTED)
                w->exported = *event->exported;
        if (event->kind != CONFAB_EVENT_CHUNK || w->err.code)
                return;
        if (file_write(w->fd, event->chunk->data, event->chunk->size, &w->err) < 0)
                confab_cancel(w->cli->confab, event->request, NULL);
}

static int receive(struct cli *cli, int fd, struct confab_exported *ret) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct writing w = {.cli = cli, .fd = fd};
        struct confab_error e;
        int status = cli_connect(cli), k;

        if (status)
                return status;
        r.verb = CONFAB_BACKUP;
        r.with_memory = cli_get(cli, "memory") != NULL;
        k = cli_try_call(cli, &r, backup_event, &w, &e);
        *ret = w.exported;
        if (k == 0 && !w.err.code)
                return 0;
        if (w.err.code && w.err.sys == EPIPE)
                return CLI_BROKEN_PIPE;
        if (w.err.code)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot write the backup: %s",
                        strerrordesc_np(w.err.sys));
        return cli_fail(cli, &e);
}

/* ---- the file ---- */

#define OWN_FD_SIZE 40

/* What a file without a name is reached by. */
static void own_fd(char ret[OWN_FD_SIZE], int fd) {
        (void)snprintf(ret, OWN_FD_SIZE, "/proc/self/fd/%d", fd);
}

static int open_unnamed(const char *path) {
        _cleanup_(freep) char *copy = strdup(path);
        char self[OWN_FD_SIZE];
        int fd = copy ? open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;

        if (fd < 0)
                return -1;
        own_fd(self, fd);
        if (access(self, F_OK) == 0)
                return fd;
        close(fd); /* without /proc it could not get a name */
        return -1;
}

/* For its owner alone, with the name @temporary unless *ret_named is false; or -1 with errno. */
static int open_new(const char *path, char *temporary, bool *ret_named) {
        int fd = open_unnamed(path);

        *ret_named = fd < 0;
        return fd < 0 ? mkostemp(temporary, O_CLOEXEC) : fd;
}

/* A backup takes the place of an older one, but not of a device or a folder. 0 or a status. */
static int look_at(struct cli *cli, const char *path) {
        size_t n = strlen(path);
        struct stat st;

        if (n > 0 && path[n - 1] != '/' && (stat(path, &st) < 0 || S_ISREG(st.st_mode)))
                return 0;
        return cli_usage(
                cli, "'%s' is no regular file: name one, or '-' for standard output", path);
}

/* *named: @fd has the name @temporary. Nothing replaces a file in one step but a rename, which takes a name. 0, or -1 with
 * errno. */
static int put_in_place(int fd, const char *temporary, const char *path, bool *named) {
        char self[OWN_FD_SIZE];

        own_fd(self, fd);
        if (!*named && linkat(AT_FDCWD, self, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) < 0)
                return -1;
        *named = true;
        if (rename(temporary, path) < 0)
                return -1;
        *named = false;
        return 0;
}

static int complete(struct cli *cli, int fd, const char *temporary, const char *path, bool *named) {
        struct err e;

        if (fsync(fd) < 0 || put_in_place(fd, temporary, path, named) < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot write '%s': %s", path,
                        strerrordesc_np(errno));
        if (file_sync_parent(path, &e) < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "%s", e.msg);
        return 0;
}

static int to_file(struct cli *cli, const char *path) {
        _cleanup_(freep) char *temporary = NULL;
        _cleanup_(closep) int fd = -1;
        struct confab_exported exported = {};
        bool named = false;
        char size[16];
        int status = look_at(cli, path);

        if (status)
                return status;
        if (asprintf(&temporary, "%s.%d-XXXXXX", path, getpid()) < 0) {
                temporary = NULL;
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        }
        fd = open_new(path, temporary, &named);
        if (fd < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot make '%s': %s", path,
                        strerrordesc_np(errno));
        status = receive(cli, fd, &exported);
        if (status == 0)
                status = complete(cli, fd, temporary, path, &named);
        if (named)
                unlink(temporary);
        if (status)
                return status;
        if (cli->json) {
                struct json j;

                json_init(&j, &cli->out);
                json_object_begin(&j);
                json_put_key_string(&j, "file", path);
                json_put_key_u64(&j, "size", exported.size);
                json_object_end(&j);
                cli_json_end(cli, &j);
        } else {
                cli_name(cli, path);
                cli_printf(cli, ": %s\n", human_size(size, exported.size));
        }
        return 0;
}

static int run(struct cli *cli) {
        const char *path = cli->args[0];
        struct confab_exported exported;

        if (strcmp(path, "-") != 0)
                return to_file(cli, path);
        if (cli->out_tty)
                return cli_usage(cli, "a backup is not for a terminal: write it to a file");
        return receive(cli, STDOUT_FILENO, &exported);
}

static const struct cli_option options[] = {
        {"memory", NULL, CLI_FLAG,
                .help = "the memory that is on disk, too: a restored folder does not compute it"},
        {.name = NULL},
};

const struct cli_command cmd_admin_backup = {
        .name = "backup",
        .args = "FILE|-",
        .min_args = 1,
        .max_args = 1,
        .summary = "Write all conversations of all users to a tar archive",
        .help = "As of one moment, while the daemon goes on. The archive has transcripts and "
                "tokens, and the key of "
                "exports: keep it secret. Memory is in it only with --memory, since it can be "
                "computed again; "
                "what is in RAM alone is not ('confab admin evict' brings it to disk). FILE is "
                "replaced when "
                "the backup is complete; '-' is standard output.",
        .options = {options},
        .run = run,
};
