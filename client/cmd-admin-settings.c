/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <string.h>

struct show {
        struct cli *cli;
        const char *name; /* of the one that is asked for, or NULL */
        bool found;
};

static void print_setting(struct cli *cli, const struct confab_setting *s, bool help) {
        cli_name(cli, s->name);
        cli_printf(cli, " = ");
        cli_name(cli, s->value ? s->value : "");
        if (s->origin) {
                cli_printf(cli, "  # ");
                cli_name(cli, s->origin);
        }
        if (s->pending) {
                cli_printf(cli, "%s now ", s->origin ? ", but" : "  #");
                if (*s->pending)
                        cli_name(cli, s->pending);
                else
                        cli_printf(cli, "unset");
                cli_printf(cli, ": needs a %s", s->reloadable ? "reload" : "restart");
        }
        cli_printf(cli, "\n");
        if (!help)
                return;
        if (s->initial) {
                cli_printf(cli, "# default: ");
                cli_name(cli, s->initial);
                cli_printf(cli, "\n");
        }
        cli_printf(cli, "# takes effect with a %s\n# ", s->reloadable ? "reload" : "restart");
        cli_name(cli, s->help);
        cli_printf(cli, "\n");
}

static void event(void *userdata, const struct confab_event *ev) {
        struct show *show = userdata;
        struct cli *cli = show->cli;
        struct json j;

        if (ev->kind != CONFAB_EVENT_SETTINGS)
                return;
        if (cli->json) {
                json_init(&j, &cli->out);
                event_json_settings(&j, ev->settings);
                cli_json_end(cli, &j);
                show->found = true;
                return;
        }
        for (size_t i = 0; i < ev->settings->n_settings; i++) {
                const struct confab_setting *s = &ev->settings->settings[i];

                if (show->name ? strcmp(s->name, show->name) != 0
                               : cli_get(cli, "changed") && !s->origin && !s->pending)
                        continue;
                print_setting(cli, s, show->name != NULL);
                show->found = true;
        }
        if (ev->settings->files_error)
                cli_complain(cli, "the files as they are now can't be taken: %s",
                        ev->settings->files_error);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct show show = {cli, cli->n_args ? cli->args[0] : NULL, false};
        int status;

        r.verb = CONFAB_SETTINGS;
        status = cli_call(cli, &r, event, &show);
        if (status == 0 && show.name && !show.found)
                return cli_error(cli, CLI_NOT_FOUND, CONFAB_NOT_FOUND,
                        "the daemon has no setting '%s'", show.name);
        return status;
}

static const struct cli_option options[] = {
        {"changed", NULL, CLI_FLAG, .help = "only those that are given, or wait to take effect"},
        {.name = NULL},
};

const struct cli_command cmd_admin_settings = {
        .name = "settings",
        .args = "[NAME]",
        .max_args = 1,
        .summary = "Show what the daemon runs with, and where that was given",
        .help = "In the notation of confabd.conf(5), with file and line behind it; and what the "
                "files say now, where "
                "that needs a reload or a restart. With NAME, what this setting means.",
        .options = {options},
        .run = run,
};
