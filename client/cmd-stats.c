/* SPDX-License-Identifier: MIT */
/* Figures are printed in groups, by the beginnings of their names; figures that belong to none,
 * from a newer daemon, come last. For programs there is --json, in the daemon's order. */
#include "client/cli-commands.h"
#include "client/event-json.h"
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

static void event(void *userdata, const struct confab_event *ev) {
        struct cli *cli = userdata;
        struct json j;

        if (ev->kind != CONFAB_EVENT_STATS)
                return;
        if (!cli->json) {
                print(cli, ev->stats);
                return;
        }
        json_init(&j, &cli->out);
        event_json_stats(&j, ev->stats);
        cli_json_end(cli, &j);
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_STATS;
        return cli_call(cli, &r, event, cli);
}

const struct cli_command cmd_stats = {
        .name = "stats",
        .args = "",
        .purpose = CLI_PURPOSE_RUN,
        .summary = "Show the daemon's figures",
        .help = "One name and number on each line, in groups whose titles begin with '#'; the "
                "names are listed in confab-protocol(7).",
        .see = "top model",
        .run = run,
};
