/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/file.h"
#include "client/cli.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define COPY_SIZE (256u << 10)

uint64_t cli_file_rest(int fd) {
        struct stat st;
        off_t at;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 0;
        at = lseek(fd, 0, SEEK_CUR);
        return at >= 0 && at < st.st_size ? (uint64_t)(st.st_size - at) : 0;
}

/* 0, or a status. */
static int copy(struct cli *cli, struct cli_progress *p, char *data, int from, int to,
        uint64_t total, const char *what) {
        uint64_t done = 0;
        struct err e;
        ssize_t n;

        for (;;) {
                n = read(from, data, COPY_SIZE);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        cli_progress_end(p);
                        return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot read %s: %s", what,
                                strerrordesc_np(errno));
                }
                if (n == 0)
                        return 0;
                if (file_write(to, data, (size_t)n, &e) < 0) {
                        cli_progress_end(p);
                        if (e.sys == EPIPE)
                                return CLI_BROKEN_PIPE;
                        return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot write %s: %s",
                                what, strerrordesc_np(e.sys));
                }
                done += (uint64_t)n;
                cli_progress_bytes(p, done, total);
        }
}

int cli_copy(
        struct cli *cli, int from, int to, uint64_t total, const char *doing, const char *what) {
        _cleanup_(freep) char *data = malloc(COPY_SIZE);
        struct cli_progress p;
        int status;

        if (!data)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        cli_progress_init(&p, cli, NULL, doing);
        status = copy(cli, &p, data, from, to, total, what);
        cli_progress_end(&p);
        return status;
}
