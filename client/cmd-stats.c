/* SPDX-License-Identifier: MIT */
/* Figures are printed in groups, by the beginnings of their names; figures that belong to none,
 * from a newer daemon, come last. For programs there is --json, in the daemon's order. */
#include "client/cli-admin.h"
#include "client/cli-commands.h"
#include "client/event-json.h"
#include "client/prometheus.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PREFIXES 12

static const struct group {
        const char *title;
        const char *prefixes[MAX_PREFIXES]; /* the first group that fits counts */
} groups[] = {
        {"Budget of RAM", {"budget", "pressure_", "ledger_", "pool_budget"}},
        {"Blocks and states", {"pool_", "block_", "window_block_", "state_", "blocks_allocated",
                                      "blocks_copied", "blocks_merged", "index_"}},
        {"Conversations and requests",
                {"conversations_", "requests", "forks", "exports", "imports", "steps",
                        "connections", "io_memory", "memory_shifts"}},
        {"Tokens", {"tokens_"}},
        {"Between RAM and disk", {"evict", "restore", "blocks_", "writebehind_", "spill_failures",
                                         "unspilled_", "reclaimed_"}},
        {"Spill files", {"spill_", "bytes_spill_"}},
        {"Remote store", {"remote", "bytes_remote_"}},
        {"Others", {""}},
};

static size_t group_of(const char *name) {
        for (size_t g = 0; g < ARRAY_SIZE(groups); g++)
                for (size_t i = 0; i < MAX_PREFIXES && groups[g].prefixes[i]; i++)
                        if (strncmp(name, groups[g].prefixes[i], strlen(groups[g].prefixes[i])) ==
                                0)
                                return g;
        return ARRAY_SIZE(groups) - 1;
}

static uint64_t find(const struct confab_stats *s, const char *name) {
        for (size_t i = 0; i < s->n_stats; i++)
                if (strcmp(s->stats[i].name, name) == 0)
                        return s->stats[i].value;
        return UINT64_MAX;
}

/* What spill_codec and spill_codec_why say, for a person. Nothing, if an older daemon or a newer one has
 * other numbers. */
static void print_codec(struct cli *cli, const struct confab_stats *s) {
        static const char *const names[] = {"raw", "lz4", "kv"};
        static const char *const reasons[] = {"as it is set",
                "it brings memory back soonest from disk",
                "it seems to bring memory back soonest; the disk was not measured yet",
                "disk-limit is near", "the file system is nearly full",
                "disk-writes-per-day is near"};
        uint64_t codec = find(s, "spill_codec"), why = find(s, "spill_codec_why");

        if (codec >= ARRAY_SIZE(names) || why >= ARRAY_SIZE(reasons))
                return;
        cli_printf(cli, "# New memory is written by codec %s: %s", names[codec], reasons[why]);
        if (why > 0)
                cli_printf(cli, " (a GB in %.2f s by kv, %.2f s raw)",
                        (double)find(s, "spill_kv_usec") / 1e6,
                        (double)find(s, "spill_raw_usec") / 1e6);
        cli_printf(cli, "\n");
}

static void print(struct cli *cli, const struct confab_stats *s) {
        bool first = true;

        for (size_t g = 0; g < ARRAY_SIZE(groups); g++) {
                bool titled = false;

                for (size_t i = 0; i < s->n_stats; i++) {
                        if (group_of(s->stats[i].name) != g)
                                continue;
                        if (!titled)
                                cli_printf(cli, "%s# %s\n", first ? "" : "\n", groups[g].title);
                        if (!titled && strcmp(groups[g].title, "Spill files") == 0)
                                print_codec(cli, s);
                        titled = true;
                        first = false;
                        cli_name(cli, s->stats[i].name);
                        cli_printf(cli, " %llu\n", (unsigned long long)s->stats[i].value);
                }
        }
}

/* ---- the overview ---- */

static void print_rates(struct cli *cli, const struct confab_rates *rates, size_t n) {
        static const struct {
                const char *title;
                size_t at;
        } rows[] = {{"prompt tokens", offsetof(struct confab_rates, prefilled)},
                {"reply tokens", offsetof(struct confab_rates, decoded)},
                {"requests", offsetof(struct confab_rates, requests)}};

        if (n == 0)
                return;
        cli_printf(cli, "\n%-15s", "per second");
        for (size_t i = 0; i < n; i++)
                cli_printf(cli, " %6us", rates[i].seconds);
        cli_printf(cli, "\n");
        for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
                cli_printf(cli, "  %-13s", rows[row].title);
                for (size_t i = 0; i < n; i++) {
                        float rate;

                        memcpy(&rate, (const char *)&rates[i] + rows[row].at, sizeof(rate));
                        cli_printf(cli, rate < 99.95F ? " %7.1f" : " %7.0f", (double)rate);
                }
                cli_printf(cli, "\n");
        }
}

static void print_latencies(struct cli *cli, const struct confab_stats *s) {
        static const double parts[] = {0.5, 0.9, 0.99};

        if (s->n_histograms == 0)
                return;
        cli_printf(cli, "\n%-15s %10s %7s %7s %7s\n", "times", "count", "p50", "p90", "p99");
        for (size_t i = 0; i < s->n_histograms; i++) {
                const struct confab_histogram *h = &s->histograms[i];
                char time[16];

                cli_printf(cli, "  ");
                cli_name(cli, h->name);
                cli_printf(cli, "%*s %10llu", (int)(13 - MIN(strlen(h->name), (size_t)13)), "",
                        (unsigned long long)h->count);
                for (size_t k = 0; k < ARRAY_SIZE(parts) && h->count > 0; k++)
                        cli_printf(cli, " %7s",
                                human_time(time, confab_histogram_quantile(h, parts[k])));
                cli_printf(cli, "\n");
        }
}

static void print_overview(struct cli *cli, const struct confab_stats *s) {
        char age[16];

        if (!s->started_usec)
                return; /* an older daemon */
        cli_printf(cli, "confabd ");
        cli_name(cli, s->version);
        cli_printf(cli, ", up %s; %s\n", human_age(age, 0, s->uptime_usec),
                s->all_users ? "figures of all users" : "figures of one user");
        print_rates(cli, s->rates, s->n_rates);
        print_latencies(cli, s);
        if (s->own || s->n_users > 0)
                cli_printf(cli, "\n");
        for (size_t i = 0; i < s->n_users; i++)
                admin_print_user(cli, &s->users[i], i == 0, s->time_usec);
        if (s->n_users == 0 && s->own)
                admin_print_user(cli, s->own, true, s->time_usec);
        if (s->more_users)
                cli_printf(cli, "(others have less in RAM: confab admin users)\n");
        cli_printf(cli, "\n");
}

/* ---- the command ---- */

struct show {
        struct cli *cli;
        bool prometheus;
        char *model; /* owned: its name */
        int error;
};

static int write_text(struct show *show, const struct confab_stats *s) {
        const struct prometheus_daemon daemon = {
                .model = show->model ? show->model : "", .up = true, .stats = s};
        struct prometheus text = {.out = &show->cli->out};

        prometheus_put_daemons(&text, &daemon, 1);
        return text.r < 0 ? CLI_FAILED : 0;
}

static void event(void *userdata, const struct confab_event *ev) {
        struct show *show = userdata;
        struct cli *cli = show->cli;
        struct json j;

        if (ev->kind == CONFAB_EVENT_MODEL_INFO) {
                show->model = strdup(ev->model_info->name);
                show->error = show->model ? 0 : CLI_FAILED;
        } else if (ev->kind == CONFAB_EVENT_STATS && show->prometheus) {
                show->error = write_text(show, ev->stats);
        } else if (ev->kind == CONFAB_EVENT_STATS && cli->json) {
                json_init(&j, &cli->out);
                event_json_stats(&j, ev->stats);
                cli_json_end(cli, &j);
        } else if (ev->kind == CONFAB_EVENT_STATS) {
                print_overview(cli, ev->stats);
                print(cli, ev->stats);
        }
}

static int ask(struct show *show, struct confab_request *stats) {
        struct confab_request model = CONFAB_REQUEST_INIT;
        int status = 0;

        model.verb = CONFAB_MODEL_INFO;
        if (show->prometheus)
                status = cli_call(show->cli, &model, event, show);
        if (status == 0)
                status = cli_call(show->cli, stats, event, show);
        if (status == 0 && show->error)
                status = cli_error(show->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        return status;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct show show = {.cli = cli, .prometheus = cli_get(cli, "prometheus") != NULL};
        const struct cli_value *user = cli_get(cli, "user");
        struct admin_whom whom = {};
        int status = 0;

        r.verb = CONFAB_STATS;
        r.want_users = show.prometheus || cli_get(cli, "users");
        if (show.prometheus && cli->json)
                status = cli_usage(cli, "--prometheus and --json are two forms: give one");
        else if (user && cli_get(cli, "users"))
                status = cli_usage(cli, "--user is one, --users are all: give one of them");
        else if (user)
                status = admin_whom(cli, user->s, false, &whom, &r);
        if (status == 0)
                status = ask(&show, &r);
        admin_whom_deinit(&whom);
        free(show.model);
        return status;
}

static const struct cli_option options[] = {
        {"users", NULL, CLI_FLAG, .help = "show what each user has and did, at most 1000",
                .more = "Those with the most memory in RAM. Other callers than administrators see "
                        "themselves alone."},
        {"user", "USER", CLI_STRING, .help = "show what this user would be shown",
                .more = "USER is a name or a number; USER:TENANT is one tenant. For "
                        "administrators."},
        {"prometheus", NULL, CLI_FLAG, .help = "write them in Prometheus' text format",
                .more = "As the gateway's /metrics does, for the textfile collector of "
                        "node_exporter, for example. The metrics are listed in docs/http.md."},
        {},
};

const struct cli_command cmd_stats = {
        .name = "stats",
        .args = "",
        .purpose = CLI_PURPOSE_RUN,
        .summary = "Show the daemon's figures",
        .help = "First an overview: version and time up; tokens and requests per second; how long "
                "requests take, with the times that half of them, nine of ten and 99 of 100 did "
                "not exceed; and what you have and did. Administrators see the figures of all "
                "users, others their own.\n\nThen one name and number on each line, in groups "
                "whose titles begin with '#'. The names, and what the times are of, are listed "
                "in confab-protocol(7).",
        .examples = "confab stats --json | jq '.histograms[] | {name, p99_usec}'\n"
                    "confab stats --prometheus >confab.new && mv confab.new confab.prom",
        .see = "top model",
        .options = {options},
        .run = run,
};
