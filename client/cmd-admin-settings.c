/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <stdlib.h>
#include <string.h>

struct show {
        struct cli *cli;
        const char *name; /* of the one that is asked for, or NULL */
        bool found;
        int error;
};

static bool is_asked_for(const struct show *show, const struct confab_setting *s) {
        if (show->name && strcmp(s->name, show->name) != 0)
                return false;
        return !cli_get(show->cli, "changed") || s->origin || s->pending;
}

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

static void print_json(struct cli *cli, const struct confab_settings *settings) {
        struct json j;

        json_init(&j, &cli->out);
        event_json_settings(&j, settings);
        cli_json_end(cli, &j);
}

static void print(struct show *show, const struct confab_settings *settings) {
        for (size_t i = 0; i < settings->n_settings; i++)
                print_setting(show->cli, &settings->settings[i], show->name != NULL);
        if (settings->files_error)
                cli_complain(show->cli, "the files as they are now can't be taken: %s",
                        settings->files_error);
}

static void event(void *userdata, const struct confab_event *ev) {
        _cleanup_(freep) struct confab_setting *kept = NULL;
        struct show *show = userdata;
        struct confab_settings settings;

        if (ev->kind != CONFAB_EVENT_SETTINGS)
                return;
        settings = *ev->settings;
        kept = calloc(settings.n_settings + 1, sizeof(*kept));
        if (!kept) {
                show->error = CLI_FAILED;
                return;
        }
        settings.settings = kept;
        settings.n_settings = 0;
        for (size_t i = 0; i < ev->settings->n_settings; i++) {
                const struct confab_setting *s = &ev->settings->settings[i];

                show->found = show->found || (show->name && strcmp(s->name, show->name) == 0);
                if (is_asked_for(show, s))
                        kept[settings.n_settings++] = *s;
        }
        if (show->name && !show->found)
                return;
        if (show->cli->json)
                print_json(show->cli, &settings);
        else
                print(show, &settings);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct show show = {.cli = cli, .name = cli->n_args ? cli->args[0] : NULL};
        int status;

        r.verb = CONFAB_SETTINGS;
        status = cli_call(cli, &r, event, &show);
        if (status == 0 && show.error)
                return cli_error(cli, show.error, CONFAB_NO_MEMORY, "no memory");
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
        .args = "[SETTING]",
        .max_args = 1,
        .summary = "Show what the daemon runs with, and where that was given",
        .help = "In the notation of confabd.conf(5), with file and line behind it; and what the "
                "files say now, where "
                "that needs a reload or a restart. With SETTING, what it means.",
        .options = {options},
        .run = run,
};
