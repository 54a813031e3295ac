/* SPDX-License-Identifier: MIT */
/*
 * The text that a command sends: its TEXT argument, standard input, or both.
 *
 * 1. Without a TEXT, or with "-" for it, the text is standard input. A terminal is read for "-"
 *    only: a user who forgot the TEXT gets a usage error, not silence.
 * 2. With a TEXT, standard input comes first and the TEXT after it, with a blank line between:
 *    `confab say x 'Summarise this:' < doc.txt`. Only pipes, sockets and files are joined. A
 *    terminal and /dev/null (cron, services) have nothing to add.
 * 3. A script may pass its own standard input to this program by accident, as in
 *    `while read line; do confab say x "$line"; done < list`. With a file this can be detected: the
 *    loop has read a part of it. Such a file is refused with a TEXT, before anything is read or
 *    sent. With a pipe it cannot be detected. The flag -n (--no-stdin), named like that of ssh(1),
 *    leaves standard input alone.
 * 4. Waiting for a pipe that is neither written to nor closed would be silent: after PATIENCE_MS a
 *    line on standard error tells what the program waits for.
 * 5. A message of white space alone is a usage error, wherever it came from: usually it is an unset
 *    variable or a failed command, and a model would answer it nevertheless.
 */
#include "client/cli.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

/* Longest text that is read: it fits a frame, with room for the rest of the request. */
#define TEXT_MAX ((4u << 20) - (64u << 10))
#define PATIENCE_MS 2000

const struct cli_option cli_text_options[] = {
        {"no-stdin", NULL, CLI_FLAG, .letter = 'n',
                .help = "leave standard input alone, and say only TEXT"},
        {.name = NULL},
};

static int too_long(struct cli *cli) {
        return cli_error(
                cli, CLI_LIMIT, CONFAB_LIMIT, "the text is longer than %u bytes", TEXT_MAX);
}

static int no_memory(struct cli *cli) {
        return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY,
                "no memory for the text of up to %u bytes", TEXT_MAX);
}

static int append(struct cli *cli, struct buf *b, const void *s, size_t n) {
        if (n > TEXT_MAX - b->size)
                return too_long(cli);
        return buf_append(b, s, n) < 0 ? no_memory(cli) : 0;
}

static int read_stdin(struct cli *cli, struct buf *b) {
        for (;;) {
                char chunk[16384];
                ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
                int status;

                if (n == 0)
                        return 0;
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM,
                                "cannot read standard input: %s", strerrordesc_np(errno));
                status = append(cli, b, chunk, (size_t)n);
                if (status)
                        return status;
        }
}

static void drop_newline(struct buf *b) {
        if (b->size && b->data[b->size - 1] == '\n')
                b->data[--b->size] = 0;
}

/* Whether standard input is to be read before a TEXT (rules 2 and 3). 0 or a status. */
static int stdin_joins(struct cli *cli, bool *ret) {
        struct stat st;
        off_t at;

        *ret = false;
        if (fstat(STDIN_FILENO, &st) < 0)
                return 0;
        *ret = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
        if (!S_ISREG(st.st_mode))
                return 0;
        at = lseek(STDIN_FILENO, 0, SEEK_CUR);
        if (at > 0 && at < st.st_size)
                return cli_usage(cli,
                        "standard input is a file of which somebody has read a part: -n leaves it "
                        "alone, and '-' in place of a TEXT says the rest of it");
        *ret = at == 0 && st.st_size > 0;
        return 0;
}

static int read_joined(struct cli *cli, struct buf *b, const char *arg) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        bool joins = false;
        int status = cli_get(cli, "no-stdin") ? 0 : stdin_joins(cli, &joins);

        if (status == 0 && joins && poll(&p, 1, PATIENCE_MS) == 0)
                cli_complain(cli, "waiting for standard input, which is said before the TEXT "
                                  "(-n leaves it alone)");
        if (status == 0 && joins)
                status = read_stdin(cli, b);
        if (status == 0 && b->size) {
                drop_newline(b);
                status = append(cli, b, "\n\n", 2);
        }
        return status ? status : append(cli, b, arg, strlen(arg));
}

static bool is_blank(const char *s, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!strchr(" \t\r\n\v\f", s[i]) || s[i] == 0)
                        return false;
        return true;
}

/* Whether a text of these bytes is to be refused. */
static bool is_nothing(enum cli_text kind, const void *s, size_t n) {
        return kind == CLI_TEXT_MESSAGE ? is_blank(s, n) : kind == CLI_TEXT_RAW && n == 0;
}

int cli_read_text(struct cli *cli, size_t i, enum cli_text kind, char **ret, size_t *ret_size) {
        const char *arg = i < cli->n_args ? cli->args[i] : NULL;
        bool alone = !arg || strcmp(arg, "-") == 0;
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        int status;

        if (!arg && (isatty(STDIN_FILENO) || cli_get(cli, "no-stdin")))
                return cli_usage(cli, "no text given");
        if (alone && cli_get(cli, "no-stdin"))
                return cli_usage(cli, "-n and '-' exclude each other");
        if (!alone && is_nothing(kind, arg, strlen(arg)))
                return cli_usage(cli, "the text is empty");
        status = alone ? read_stdin(cli, &b) : read_joined(cli, &b, arg);
        if (status)
                return status;
        if (alone && kind == CLI_TEXT_MESSAGE)
                drop_newline(&b);
        if (is_nothing(kind, b.data, b.size))
                return cli_usage(cli, "standard input is empty: there is no text");
        *ret = buf_take(&b, ret_size);
        return *ret ? 0 : no_memory(cli);
}
