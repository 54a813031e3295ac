/* SPDX-License-Identifier: MIT */
/* Output: what a terminal gets is made harmless (cli-safe.c), pipes and files get everything unchanged. */
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "client/cli.h"
#include "client/event-json.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* ---- standard output ---- */

void cli_printf(struct cli *cli, const char *fmt, ...) {
        char *s = NULL;
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vasprintf(&s, fmt, ap);
        va_end(ap);
        if (n < 0 || buf_append(&cli->out, s, (size_t)n) < 0)
                cli->out_error = ENOMEM;
        if (n >= 0)
                free(s);
}

void cli_text(struct cli *cli, const void *s, size_t n) {
        if ((cli->out_tty ? safe_append(&cli->out, s, n, true) : buf_append(&cli->out, s, n)) < 0)
                cli->out_error = ENOMEM;
}

void cli_name(struct cli *cli, const char *name) {
        if ((cli->out_tty ? safe_append(&cli->out, name, strlen(name), false)
                          : buf_append_str(&cli->out, name)) < 0)
                cli->out_error = ENOMEM;
}

int cli_flush(struct cli *cli) {
        struct err e;

        if (!cli->out_error && file_write(STDOUT_FILENO, cli->out.data, cli->out.size, &e) < 0)
                cli->out_error = e.sys;
        buf_deinit(&cli->out);
        if (!cli->out_error)
                return 0;
        if (cli->out_error == EPIPE)
                return CLI_BROKEN_PIPE;
        if (!cli->out_told)
                cli_complain(cli, "cannot write the output: %s", strerrordesc_np(cli->out_error));
        cli->out_told = true;
        return CLI_FAILED;
}

/* ---- standard error ---- */

__attribute__((format(printf, 2, 0))) static void complain(
        struct cli *cli, const char *fmt, va_list ap) {
        struct buf safe = BUF_NULL;
        char *s = NULL;
        int n = vasprintf(&s, fmt, ap);

        if (n < 0)
                return;
        if (cli->err_tty && safe_append(&safe, s, (size_t)n, true) == 0 && safe.data)
                fprintf(stderr, "confab: %s\n", (char *)safe.data);
        else
                fprintf(stderr, "confab: %s\n", s);
        buf_deinit(&safe);
        free(s);
}

void cli_complain(struct cli *cli, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        complain(cli, fmt, ap);
        va_end(ap);
}

void cli_note(struct cli *cli, const char *fmt, ...) {
        va_list ap;

        if (cli->quiet)
                return;
        va_start(ap, fmt);
        complain(cli, fmt, ap);
        va_end(ap);
}

bool cli_terminal_erases(void) {
        const char *term = getenv("TERM");

        return term && *term && strcmp(term, "dumb") != 0;
}

int cli_status_of(const struct confab_error *e) {
        static const struct {
                const char *code;
                int status;
        } table[] = {
                {CONFAB_NOT_FOUND, CLI_NOT_FOUND},
                {CONFAB_BUSY, CLI_BUSY},
                {CONFAB_MOVED, CLI_BUSY},
                {CONFAB_CONFLICT, CLI_BUSY},
                {CONFAB_EXISTS, CLI_BUSY},
                {CONFAB_LIMIT, CLI_LIMIT},
                {CONFAB_CONTEXT, CLI_LIMIT},
                {CONFAB_NO_DAEMON, CLI_NO_DAEMON},
                {CONFAB_SHUTDOWN, CLI_NO_DAEMON},
                {CONFAB_UNAVAILABLE, CLI_NO_DAEMON},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (confab_error_is(e, table[i].code))
                        return table[i].status;
        return CLI_FAILED;
}

void cli_json_end(struct cli *cli, struct json *j) {
        if (json_finish(j) < 0 || buf_append(&cli->out, "\n", 1) < 0)
                cli->out_error = ENOMEM;
}

int cli_fail(struct cli *cli, const struct confab_error *e) {
        struct confab_event event = {.kind = CONFAB_EVENT_ERROR, .final = true, .error = e};
        struct json j;

        cli_complain(cli, "%s", e->message);
        if (cli->json && !(cli->command && cli->command->binary)) {
                buf_deinit(&cli->out); /* half an answer is none */
                json_init(&j, &cli->out);
                event_json_event(&j, &event, EVENT_JSON_SEED_NUMBER);
                cli_json_end(cli, &j);
        }
        return cli_status_of(e);
}

__attribute__((format(printf, 3, 0))) static void fail(
        struct cli *cli, const char *code, const char *fmt, va_list ap) {
        struct confab_error e = {.code = ""};

        snprintf(e.code, sizeof(e.code), "%s", code);
        vsnprintf(e.message, sizeof(e.message), fmt, ap);
        cli_fail(cli, &e);
}

int cli_error(struct cli *cli, int status, const char *code, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        fail(cli, code, fmt, ap);
        va_end(ap);
        return status;
}

int cli_usage(struct cli *cli, const char *fmt, ...) {
        _cleanup_(buf_deinit) struct buf line = BUF_NULL;
        char name[CLI_PATH_NAME_MAX];
        va_list ap;

        va_start(ap, fmt);
        fail(cli, CLI_CODE_USAGE, fmt, ap);
        va_end(ap);
        if (cli->command && cli_usage_line(&line, &cli->path) == 0)
                fprintf(stderr, "Usage: %s\n", (const char *)line.data);
        cli_path_name(name, &cli->path);
        fprintf(stderr, "Try 'confab %s%s--help'.\n", name, *name ? " " : "");
        return CLI_USAGE;
}

/* ---- figures ---- */

const char *human_size(char buf[16], uint64_t n) {
        static const char units[] = "BKMGTPE";
        double v = (double)n;
        size_t unit = 0;

        for (; v >= 999.5 && unit + 2 < sizeof(units); unit++)
                v /= 1024;
        if (unit == 0)
                snprintf(buf, 16, "%llu", (unsigned long long)n);
        else
                snprintf(buf, 16, v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[unit]);
        return buf;
}

const char *human_time(char buf[16], double usec) {
        double v = usec < 999500 ? usec / 1e3 : usec / 1e6;
        const char *unit = usec < 999500 ? "ms" : "s";

        if (v >= 119.5 && usec >= 999500)
                snprintf(buf, 16, "%.0fm", v / 60);
        else
                snprintf(buf, 16, v < 0.995 ? "%.2f%s" : v < 9.95 ? "%.1f%s" : "%.0f%s", v, unit);
        return buf;
}

const char *human_age(char buf[16], uint64_t since_usec, uint64_t now_usec) {
        uint64_t s = now_usec > since_usec ? (now_usec - since_usec) / 1000000 : 0;

        if (s < 120)
                snprintf(buf, 16, "%us", (unsigned)s);
        else if (s < 120 * 60)
                snprintf(buf, 16, "%um", (unsigned)(s / 60));
        else if (s < 48 * 3600)
                snprintf(buf, 16, "%uh", (unsigned)(s / 3600));
        else
                snprintf(buf, 16, "%ud", (unsigned)(s / 86400));
        return buf;
}
