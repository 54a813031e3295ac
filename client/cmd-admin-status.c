/* SPDX-License-Identifier: MIT */
/* What an administrator wants to know first, from the answers to four questions. */
#include "client/cli-admin.h"
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <string.h>
#include <time.h>

#define TOP 3 /* users that are told */

struct overview {
        struct cli *cli;
        struct json j;
        uint64_t now; /* realtime, microseconds */
};

static uint64_t figure(const struct confab_stats *s, const char *name) {
        for (size_t i = 0; i < s->n_stats; i++)
                if (strcmp(s->stats[i].name, name) == 0)
                        return s->stats[i].value;
        return 0;
}

static const char *setting(const struct confab_settings *s, const char *name) {
        for (size_t i = 0; i < s->n_settings; i++)
                if (strcmp(s->settings[i].name, name) == 0)
                        return s->settings[i].value ? s->settings[i].value : "";
        return "";
}

static void print_model(struct overview *o, const struct confab_model_info *m) {
        struct cli *cli = o->cli;
        char size[16];

        cli_printf(cli, "model        ");
        cli_name(cli, m->name);
        cli_printf(cli, ", %s, context %u\n             ", human_size(size, m->weights_size),
                m->context);
        cli_name(cli, m->path);
        cli_printf(cli, "\n");
}

static void print_pending(struct cli *cli, const struct confab_settings *s, bool reloadable) {
        const char *between = "";

        for (size_t i = 0; i < s->n_settings; i++) {
                if (!s->settings[i].pending || s->settings[i].reloadable != reloadable)
                        continue;
                cli_printf(cli, "%s",
                        *between     ? between
                        : reloadable ? "settings     wait for a reload: "
                                     : "settings     wait for a restart: ");
                cli_name(cli, s->settings[i].name);
                between = ", ";
        }
        if (*between)
                cli_printf(cli, "\n");
}

static void print_settings(struct overview *o, const struct confab_settings *s) {
        struct cli *cli = o->cli;
        char age[16];

        cli_printf(cli, "daemon       ");
        cli_name(cli, confab_get_server(cli->confab));
        cli_printf(cli, ", up %s\n", human_age(age, s->started_usec, o->now));
        print_pending(cli, s, false);
        print_pending(cli, s, true);
        if (s->files_error) {
                cli_printf(cli, "settings     THE FILES CAN'T BE TAKEN: ");
                cli_name(cli, s->files_error);
                cli_printf(cli, "\n");
        }
        cli_printf(cli,
                "limits       connections %s, requests %s, a user's conversations %s, disk %s\n",
                setting(s, "max-connections"), setting(s, "max-queued"),
                setting(s, "max-conversations"), setting(s, "disk-limit"));
}

/* How busy it is, and how long a client waits for the first token. */
static void print_speed(struct cli *cli, const struct confab_stats *s) {
        const struct confab_histogram *first = NULL;
        char half[16], most[16];

        for (size_t i = 0; i < s->n_histograms; i++)
                if (strcmp(s->histograms[i].name, "first_token") == 0)
                        first = &s->histograms[i];
        for (size_t i = 0; i < s->n_rates; i++)
                if (s->rates[i].seconds == 60)
                        cli_printf(cli,
                                "last minute  %.1f requests/s, %.1f prompt tokens/s, %.1f reply "
                                "tokens/s\n",
                                (double)s->rates[i].requests, (double)s->rates[i].prefilled,
                                (double)s->rates[i].decoded);
        if (first && first->count > 0)
                cli_printf(cli, "first token  %s for half of %llu replies, %s for 99%%\n",
                        human_time(half, confab_histogram_quantile(first, 0.5)),
                        (unsigned long long)first->count,
                        human_time(most, confab_histogram_quantile(first, 0.99)));
}

static void print_stats(struct overview *o, const struct confab_stats *s) {
        struct cli *cli = o->cli;
        char used[16], budget[16], asked[16], disk[16];

        if (figure(s, "draining"))
                cli_printf(cli, "DRAINED      no work is taken: confab admin drain --off\n");
        cli_printf(cli, "memory       %s of %s; conversations in RAM: %llu\n",
                human_size(used, figure(s, "ledger_used")), human_size(budget, figure(s, "budget")),
                (unsigned long long)figure(s, "conversations_resident"));
        if (figure(s, "budget_asked") < figure(s, "budget_max"))
                cli_printf(cli, "PRESSURE     memory is short: the budget should be %s\n",
                        human_size(asked, figure(s, "budget_asked")));
        cli_printf(cli, "disk         %s in %llu file%s\n",
                human_size(disk, figure(s, "spill_disk_bytes")),
                (unsigned long long)figure(s, "spill_files"), plural_s(figure(s, "spill_files")));
        cli_printf(cli,
                "requests     %llu at work, %llu wait for a place, %llu for their turn; "
                "connections: %llu\n",
                (unsigned long long)figure(s, "requests_active"),
                (unsigned long long)figure(s, "requests_queued"),
                (unsigned long long)figure(s, "requests_waiting"),
                (unsigned long long)figure(s, "connections"));
        print_speed(cli, s);
}

static void print_users(struct overview *o, const struct confab_users *users) {
        struct cli *cli = o->cli;
        char name[ADMIN_NAME_SIZE], ram[16];
        size_t n = 0;

        /* Ordered: behind the first one without RAM all others have none either. */
        while (n < users->n_users && users->users[n].ram_size > 0)
                n++;
        for (size_t i = 0; i < n; i++) {
                const struct confab_user *u = &users->users[i];

                cli_printf(cli, "%s", i == 0 ? "most RAM     " : ", ");
                cli_name(cli, admin_user_name(name, u->uid));
                if (u->tenant) {
                        cli_printf(cli, ":");
                        cli_name(cli, u->tenant);
                }
                cli_printf(cli, " %s", human_size(ram, u->ram_size));
        }
        if (n > 0)
                cli_printf(cli, "\n");
}

static void event(void *userdata, const struct confab_event *ev) {
        struct overview *o = userdata;
        bool json = o->cli->json;

        switch (ev->kind) {
        case CONFAB_EVENT_SETTINGS:
                if (json) {
                        json_put_key_string(&o->j, "server", confab_get_server(o->cli->confab));
                        json_put_key(&o->j, "settings");
                        event_json_settings(&o->j, ev->settings);
                } else {
                        print_settings(o, ev->settings);
                }
                break;
        case CONFAB_EVENT_MODEL_INFO:
                if (json) {
                        json_put_key(&o->j, "model");
                        event_json_model(&o->j, ev->model_info);
                } else {
                        print_model(o, ev->model_info);
                }
                break;
        case CONFAB_EVENT_STATS:
                if (json) {
                        json_put_key(&o->j, "stats");
                        event_json_stats(&o->j, ev->stats);
                } else {
                        print_stats(o, ev->stats);
                }
                break;
        case CONFAB_EVENT_USERS:
                if (json) {
                        json_put_key(&o->j, "most_ram");
                        event_json_users(&o->j, ev->users);
                } else {
                        print_users(o, ev->users);
                }
                break;
        default:
                break;
        }
}

static int run(struct cli *cli) {
        static const enum confab_verb verbs[] = {
                CONFAB_SETTINGS, CONFAB_MODEL_INFO, CONFAB_STATS, CONFAB_USERS};
        struct overview o = {.cli = cli};
        struct timespec now;
        int status = 0;

        clock_gettime(CLOCK_REALTIME, &now);
        o.now = (uint64_t)now.tv_sec * 1000000;
        if (cli->json) {
                json_init(&o.j, &cli->out);
                json_object_begin(&o.j);
        }
        for (size_t i = 0; status == 0 && i < ARRAY_SIZE(verbs); i++) {
                struct confab_request r = CONFAB_REQUEST_INIT;

                r.verb = verbs[i];
                r.user_order = CONFAB_USERS_BY_RAM;
                r.limit = TOP;
                status = cli_call(cli, &r, event, &o);
        }
        if (status == 0 && cli->json) {
                json_object_end(&o.j);
                cli_json_end(cli, &o.j);
        }
        return status;
}

const struct cli_command cmd_admin_status = {
        .name = "status",
        .args = "",
        .summary = "Show how the daemon is doing",
        .help = "Version and time up, model, memory, disk, requests, how fast they are, the users "
                "with the most "
                "memory, and what waits for a "
                "reload or a restart. With --json, all settings and figures.",
        .run = run,
};
