/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static void event(void *userdata, const struct confab_event *ev) {
        struct cli *cli = userdata;
        struct json j;

        if (ev->kind != CONFAB_EVENT_STATS)
                return;
        if (!cli->json) {
                for (size_t i = 0; i < ev->stats->n_stats; i++) {
                        cli_name(cli, ev->stats->stats[i].name);
                        cli_printf(cli, " %llu\n", (unsigned long long)ev->stats->stats[i].value);
                }
                return;
        }
        json_init(&j, &cli->out);
        json_object_begin(&j);
        for (size_t i = 0; i < ev->stats->n_stats; i++) {
                json_key(&j, ev->stats->stats[i].name);
                json_u64(&j, ev->stats->stats[i].value);
        }
        json_object_end(&j);
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
        .summary = "Show the daemon's figures",
        .help = "One name and number on each line; the names are listed in docs/protocol.md.",
        .run = run,
};
