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
 * 6. A TEXT that begins with @ names a file, as in curl(1): always, whether there is such a file or
 *    not, so that no text is taken for another one by what happens to lie in the folder. "@@" is an @
 *    that is said, and behind "--" nothing is special: a script that passes on what others wrote puts
 *    "--" in front of it, or gives it on standard input, which is never looked into. Of a file, as of
 *    standard input, a message has no last newline.
 * 7. The same holds for options with a TEXT (cli_option_text()). Standard input can be one text only.
 */
#include "client/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

/* Longest text that is read: it fits a frame, with room for the rest of the request. */
#define TEXT_MAX ((4u << 20) - (64u << 10))
#define PATIENCE_MS 2000
#define PATH_SHOWN 100 /* bytes of a name in messages, which may be a text by mistake */

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

/* @what: "standard input", or the quoted name of the file. */
static int read_fd(struct cli *cli, struct buf *b, int fd, const char *what) {
        for (;;) {
                char chunk[16384];
                ssize_t n = read(fd, chunk, sizeof(chunk));
                int status;

                if (n == 0)
                        return 0;
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot read %s: %s", what,
                                strerrordesc_np(errno));
                status = append(cli, b, chunk, (size_t)n);
                if (status)
                        return status;
        }
}

static int read_stdin(struct cli *cli, struct buf *b) {
        if (cli->stdin_taken)
                return cli_usage(cli, "'-' twice: standard input can be one text only");
        cli->stdin_taken = true;
        return read_fd(cli, b, STDIN_FILENO, "standard input");
}

/* @arg is "@FILE". Files of any kind, so that @<(command) works as well. */
static int read_file(struct cli *cli, struct buf *b, const char *arg) {
        _cleanup_(closep) int fd = open(arg + 1, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        char what[PATH_SHOWN + 8];

        snprintf(what, sizeof(what), "'%.*s'", PATH_SHOWN, arg + 1);
        if (fd < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM,
                        "cannot read %s: %s (a text that begins with @ names a file; write @@ for "
                        "an @ that is said)",
                        what, strerrordesc_np(errno));
        return read_fd(cli, b, fd, what);
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

/* Append the text that @arg is, or names (rule 6). */
static int append_given(struct cli *cli, struct buf *b, const char *arg, bool literal, bool cut) {
        size_t before = b->size;
        int status;

        if (literal || arg[0] != '@')
                return append(cli, b, arg, strlen(arg));
        if (arg[1] == '@')
                return append(cli, b, arg + 1, strlen(arg + 1));
        status = read_file(cli, b, arg);
        if (status == 0 && cut && b->size > before)
                drop_newline(b);
        return status;
}

/* Standard input, if it joins, in front of @text. */
static int read_joined(struct cli *cli, struct buf *b, const struct buf *text) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        bool joins = false;
        int status = cli_get(cli, "no-stdin") || cli->stdin_taken ? 0 : stdin_joins(cli, &joins);

        if (status == 0 && joins && poll(&p, 1, PATIENCE_MS) == 0)
                cli_note(cli, "waiting for standard input, which is said before the TEXT "
                              "(-n leaves it alone)");
        if (status == 0 && joins)
                status = read_stdin(cli, b);
        if (status == 0 && b->size) {
                drop_newline(b);
                status = append(cli, b, "\n\n", 2);
        }
        return status ? status : append(cli, b, text->data, text->size);
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

/* The text of argument @i, which is not "-", and what joins it. A file is read first: if it is not
 * there, nobody waits for standard input. */
static int read_argument(struct cli *cli, size_t i, enum cli_text kind, struct buf *b) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        const char *arg = cli->args[i];
        int status;

        if (is_nothing(kind, arg, strlen(arg)))
                return cli_usage(cli, "the text is empty");
        status = append_given(cli, &text, arg, i >= cli->first_literal, kind == CLI_TEXT_MESSAGE);
        if (status == 0 && is_nothing(kind, text.data, text.size))
                return cli_usage(cli, "%s is empty: there is no text", arg + 1);
        return status ? status : read_joined(cli, b, &text);
}

/* Standard input alone. */
static int read_all(struct cli *cli, enum cli_text kind, struct buf *b) {
        int status = read_stdin(cli, b);

        if (status)
                return status;
        if (kind == CLI_TEXT_MESSAGE)
                drop_newline(b);
        if (is_nothing(kind, b->data, b->size))
                return cli_usage(cli, "standard input is empty: there is no text");
        return 0;
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
        status = alone ? read_all(cli, kind, &b) : read_argument(cli, i, kind, &b);
        if (status)
                return status;
        *ret = buf_take(&b, ret_size);
        return *ret ? 0 : no_memory(cli);
}

int cli_option_text(struct cli *cli, const char *name, const char *use_of_stdin, char **ret,
        const char **text) {
        const struct cli_value *v = cli_get(cli, name);
        _cleanup_(buf_deinit) struct buf b = BUF_NULL;
        bool alone = v && strcmp(v->s, "-") == 0;
        int status;

        if (!v)
                return 0;
        if (alone && use_of_stdin)
                return cli_usage(cli, "--%s -: standard input is %s; name a file as @FILE", name,
                        use_of_stdin);
        status = alone ? read_stdin(cli, &b) : append_given(cli, &b, v->s, false, true);
        if (status)
                return status;
        if (alone)
                drop_newline(&b);
        if (b.size > 0 && strlen((const char *)b.data) < b.size)
                return cli_error(
                        cli, CLI_FAILED, CONFAB_INVALID, "--%s: the text has a NUL byte", name);
        *ret = buf_take(&b, NULL);
        *text = *ret;
        return *ret ? 0 : no_memory(cli);
}
