/* SPDX-License-Identifier: MIT */
/*
 * What the daemon does, live. A sample is asked for at each interval, and drawn when it has come; keys and signals are
 * heard meanwhile. A daemon that goes away is waited for, and the last sample stays on the screen under a line that says
 * so. Without a terminal samples are printed one after the other.
 */
#include "base/clock.h"
#include "client/cli-commands.h"
#include "client/cli-screen.h"
#include "client/cli-top.h"
#include <errno.h>
#include <signal.h>
#include <string.h>

#define USEC 1000000ull
#define INTERVAL 2.0 /* seconds */
#define KEYS "q quit, r reverse; order: a activity, n name, t tokens, m RAM, d disk, u age"

struct live {
        struct top top;
        struct top_view view;
        uint64_t interval_usec, next_usec; /* when the next sample begins, monotonic */
        bool begun;                        /* a sample is under way */
        char problem[320];
        bool leave;
        int signal, status;
};

/* ---- without a screen ---- */

/* Process until the time is over, or (@until 0) the sample is complete. */
static int wait_until(struct top *t, uint64_t until) {
        for (;;) {
                uint64_t now = clock_monotonic_usec();
                int msec = until ? (int)((until - MIN(now, until) + 999) / 1000) : -1;

                if (t->error.code[0])
                        return cli_fail(t->cli, &t->error);
                if (until ? now >= until : top_complete(t))
                        return 0;
                if (confab_wait(t->cli->confab, msec, &t->error) < 0)
                        return cli_fail(t->cli, &t->error);
        }
}

/* @n samples; 0: without end. */
static int plain(struct live *l, uint64_t n) {
        struct cli *cli = l->top.cli;
        int status = 0;

        for (uint64_t i = 0; status == 0 && (n == 0 || i < n); i++) {
                if (i > 0)
                        status = wait_until(&l->top, l->next_usec);
                if (status)
                        break;
                l->next_usec = clock_monotonic_usec() + l->interval_usec;
                top_begin(&l->top);
                status = wait_until(&l->top, 0);
                if (status)
                        break;
                if (i > 0 && !cli->json)
                        cli_printf(cli, "\n");
                if (cli->json)
                        top_put_json(&l->top);
                else
                        top_draw(&l->top, &l->view, "\n");
                status = cli_flush(cli);
        }
        return status;
}

/* ---- on a screen ---- */

static void draw(struct live *l) {
        struct cli *cli = l->top.cli;
        unsigned rows, columns;

        screen_size(&rows, &columns);
        l->view.rows = rows > 1 ? rows - 1 : 1;          /* a last line would scroll */
        l->view.columns = columns > 1 ? columns - 1 : 1; /* and the last column would wrap */
        l->view.problem = l->problem[0] ? l->problem : KEYS;
        cli_printf(cli, "\033[H");
        top_draw(&l->top, &l->view, "\033[K\n");
        cli_printf(cli, "\033[J");
        l->status = cli_flush(cli);
}

/* Whether @key changed what is shown. */
static bool take_key(struct live *l, int key) {
        static const struct {
                char key;
                enum cli_sort sort;
        } orders[] = {{'n', CLI_SORT_NAME}, {'t', CLI_SORT_TOKENS}, {'m', CLI_SORT_RAM},
                {'d', CLI_SORT_DISK}, {'u', CLI_SORT_UPDATED}, {'i', CLI_SORT_ID},
                {'c', CLI_SORT_CREATED}};

        for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
                if (key == orders[i].key) {
                        l->view.by_activity = false;
                        l->view.sort = orders[i].sort;
                        return true;
                }
        if (key == 'a')
                l->view.by_activity = true;
        else if (key == 'r')
                l->view.reverse = !l->view.reverse;
        else if (key == 'q')
                l->leave = true;
        else if (key == ' ')
                l->next_usec = 0; /* a sample at once */
        return key == 'a' || key == 'r';
}

static bool may_come_back(const struct confab_error *e) {
        return confab_error_is(e, CONFAB_DISCONNECTED) || confab_error_is(e, CONFAB_SHUTDOWN) ||
               confab_error_is(e, CONFAB_NO_DAEMON);
}

/* The connection has failed: give it up, and tell; or end. */
static void lose(struct live *l, const struct confab_error *e) {
        snprintf(l->problem, sizeof(l->problem), "no daemon: %s", e->message);
        l->leave = l->leave || !may_come_back(e);
        l->top.cli->confab = confab_free(l->top.cli->confab);
        l->begun = false;
        if (l->leave)
                return; /* the error is told when the screen is given back */
        top_reset(&l->top);
        draw(l);
}

/* It is time for a sample. */
static void begin(struct live *l) {
        struct cli *cli = l->top.cli;
        struct confab_error e;

        l->next_usec = clock_monotonic_usec() + l->interval_usec;
        if (!cli->confab && cli_make_connection(cli, &cli->confab, &e) < 0) {
                l->top.error = e;
                lose(l, &e);
                return;
        }
        top_begin(&l->top);
        l->begun = true;
}

static void step(struct live *l) {
        struct confab *c = l->top.cli->confab;
        uint64_t now = clock_monotonic_usec();
        int key = 0,
            msec = l->begun ? -1 : (int)((l->next_usec - MIN(now, l->next_usec)) / 1000 + 1);
        enum screen_event event =
                screen_wait(c ? confab_get_fd(c) : -1, c ? (short)confab_get_events(c) : 0,
                        l->next_usec <= now && !l->begun ? 0 : msec, &key);

        if (event == SCREEN_SIGNAL)
                l->signal = key;
        if (event == SCREEN_GONE)
                l->leave = true;
        if ((event == SCREEN_KEY && take_key(l, key)) || event == SCREEN_RESIZED)
                draw(l);
        if (c && confab_process(c, &l->top.error) < 0) {
                lose(l, &l->top.error);
                return;
        }
        if (c && l->top.error.code[0]) {
                lose(l, &l->top.error);
                return;
        }
        if (l->begun && top_complete(&l->top)) {
                l->begun = false;
                l->problem[0] = 0;
                draw(l);
        }
        if (!l->begun && !l->leave && clock_monotonic_usec() >= l->next_usec)
                begin(l);
}

static int live(struct live *l) {
        struct cli *cli = l->top.cli;

        if (screen_take() < 0)
                return cli_error(cli, CLI_FAILED, CONFAB_SYSTEM, "cannot take the terminal: %s",
                        strerrordesc_np(errno));
        while (!l->leave && !l->signal && l->status == 0)
                step(l);
        screen_give();
        if (l->signal == SIGINT)
                return CLI_INTERRUPTED;
        if (l->signal) { /* end as if it had not been caught */
                signal(l->signal, SIG_DFL);
                raise(l->signal);
        }
        return l->top.error.code[0] ? cli_fail(cli, &l->top.error) : l->status;
}

static int run(struct cli *cli) {
        const struct cli_value *interval = cli_get(cli, "interval"),
                               *samples = cli_get(cli, "samples"), *order = cli_get(cli, "sort");
        struct live l = {
                .top = {.cli = cli,
                        .all_users = cli_get(cli, "all") != NULL,
                        .want_json = cli->json},
                .view = {.by_activity = true, .reverse = cli_get(cli, "reverse") != NULL},
        };
        bool once = cli_get(cli, "once") != NULL;
        int status;

        l.interval_usec = (uint64_t)((interval ? (double)interval->f : INTERVAL) * USEC);
        if (once && samples)
                return cli_usage(cli, "--once and --samples exclude each other");
        if (order && strcmp(order->s, "activity") != 0) {
                l.view.by_activity = false;
                if (!cli_sort_parse(order->s, &l.view.sort))
                        return cli_usage(
                                cli, "--sort takes activity|" CLI_SORT_ARG ", not '%s'", order->s);
        }
        status = cli_connect(cli);
        if (status)
                return status;
        if (!cli->json && !once && !samples && screen_possible())
                status = live(&l);
        else /* a terminal that cannot be painted on gets one sample below the other */
                status = plain(&l, samples                              ? samples->u
                                   : once || cli->json || !cli->out_tty ? 1
                                                                        : 0);
        top_deinit(&l.top);
        return status;
}

static const struct cli_option options[] = {
        {"interval", "SECONDS", CLI_FLOAT, .letter = 'i', .min = 0.1, .max = 3600,
                .help = "between samples (2)"},
        {"sort", "activity|" CLI_SORT_ARG, CLI_STRING, .letter = 's',
                .help = "what comes first (activity)"},
        {"reverse", NULL, CLI_FLAG, .letter = 'r', .help = "the other way round"},
        {"once", NULL, CLI_FLAG, .help = "print one sample; it has no rates"},
        {"samples", "N", CLI_UINT, .letter = 'n', .max_uint = UINT32_MAX,
                .help = "print N samples one below the other (0: without end)"},
        {"all", NULL, CLI_FLAG, .letter = 'a',
                .help = "conversations of all users (for administrators)"},
        {.name = NULL},
};

const struct cli_command cmd_top = {
        .name = "top",
        .args = "",
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "Watch what the daemon does, live",
        .help = "Memory ('#' is in use, '+' is idle and goes first), what goes to disk and comes "
                "back, tokens per "
                "second, requests at work and in the queue, and the conversations: those that do "
                "something first, with what they do (a reply waits, restores memory, reads the "
                "prompt, writes, ends), or where their memory is.\n\n"
                "Letters order the rows (they are shown), r turns the order round, a blank takes a "
                "sample at once, q leaves. A daemon that goes away is told, and waited for.\n\n"
                "Where standard output is no terminal, and with --json, one sample is printed; on "
                "a terminal that cannot be painted on, one below the other. Users see the figures "
                "that 'confab stats' shows them.",
        .see = "watch stats",
        .options = {options},
        .run = run,
};
