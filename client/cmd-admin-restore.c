/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "client/cli-commands.h"
#include "client/cli-interrupt.h"
#include "client/restore.h"
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>

static int take_owner(struct cli *cli, struct restore_owner *ret) {
        const struct cli_value *owner = cli_get(cli, "owner");
        const struct passwd *pw;

        if (!owner)
                return 0;
        pw = getpwnam(owner->s);
        if (!pw)
                return cli_error(
                        cli, CLI_NOT_FOUND, CONFAB_NOT_FOUND, "no user is called '%s'", owner->s);
        *ret = (struct restore_owner){true, pw->pw_uid, pw->pw_gid};
        return 0;
}

static void print(struct cli *cli, const char *dir, const struct restored *restored) {
        struct json j;
        char size[16];

        if (cli->json) {
                json_init(&j, &cli->out);
                json_object_begin(&j);
                json_put_key_string(&j, "folder", dir);
                json_put_key_u64(&j, "conversations", restored->n_conversations);
                json_put_key_u64(&j, "created_usec", restored->created_usec);
                json_put_key_string(&j, "model", restored->model);
                json_put_key_string(&j, "fingerprint", restored->fingerprint);
                json_put_key_string(&j, "version", restored->version);
                json_put_key_u64(&j, "memory_bytes", restored->memory_size);
                json_object_end(&j);
                cli_json_end(cli, &j);
                return;
        }
        cli_name(cli, dir);
        cli_printf(cli, ": %llu conversation%s with model ",
                (unsigned long long)restored->n_conversations, plural_s(restored->n_conversations));
        cli_name(cli, restored->model);
        cli_printf(cli, ", as confab ");
        cli_name(cli, restored->version);
        cli_printf(cli, " had them");
        if (restored->memory_size > 0)
                cli_printf(cli, ", with %s of memory", human_size(size, restored->memory_size));
        cli_printf(cli, "\n");
}

struct watching {
        struct cli_progress progress;
        uint64_t size; /* 0: nobody knows */
};

static bool watch(void *userdata, uint64_t n_read) {
        struct watching *w = userdata;

        cli_progress_bytes(&w->progress, n_read, w->size);
        return !cli_interrupted();
}

/* restore_state(), with progress on a terminal. The first SIGINT ends it, and leaves nothing behind. */
static int restore(struct cli *cli, int fd, const char *dir, const struct restore_owner *owner,
        struct restored *ret, struct err *e) {
        struct watching w = {.size = cli_file_rest(fd)};
        struct sigaction old;
        int r;

        if (cli_interrupts_catch(&old) < 0)
                return err_set(e, ERR_SYS, "cannot catch signals");
        cli_progress_init(&w.progress, cli, NULL, "restoring");
        r = restore_state(fd, dir, owner, &(struct restore_watch){watch, &w}, ret, e);
        cli_progress_end(&w.progress);
        cli_interrupts_release(&old);
        return r;
}

static int run(struct cli *cli) {
        const char *path = cli->args[0], *dir = cli->args[1];
        _cleanup_(closep) int fd = -1;
        struct restore_owner owner = {};
        struct restored restored;
        struct confab_error failure = {};
        struct err e;
        int status = take_owner(cli, &owner), r;

        if (status)
                return status;
        fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot open '%s': %s", path,
                        strerrordesc_np(errno));
        if (restore(cli, fd, dir, &owner, &restored, &e) < 0) {
                (void)snprintf(failure.code, sizeof(failure.code), "%s", err_code_name(e.code));
                (void)snprintf(failure.message, sizeof(failure.message), "%s", e.msg);
                r = cli_fail(cli, &failure);
                return e.code == ERR_CANCELLED ? CLI_INTERRUPTED : r;
        }
        print(cli, dir, &restored);
        return 0;
}

static const struct cli_option options[] = {
        {"owner", "USER", CLI_STRING,
                .help = "whom the folder is to belong to (as root); else its present owner, or "
                        "you"},
        {.name = NULL},
};

const struct cli_command cmd_admin_restore = {
        .name = "restore",
        .args = "FILE|- STATE-DIR",
        .min_args = 2,
        .max_args = 2,
        .summary = "Make a state folder of a backup",
        .help = "Without a daemon. STATE-DIR must be missing or empty. It appears as a whole, when "
                "all of the archive was "
                "read and its checksums agree; on any failure it stays as it is.",
        .options = {options},
        .run = run,
};
