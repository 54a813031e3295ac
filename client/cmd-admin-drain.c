/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/event-json.h"

static void event(void *userdata, const struct confab_event *ev) {
        struct cli *cli = userdata;
        struct json j;

        if (ev->kind != CONFAB_EVENT_DRAINED)
                return;
        if (cli->json) {
                json_init(&j, &cli->out);
                event_json_drained(&j, ev->drained);
                cli_json_end(cli, &j);
        } else if (cli_get(cli, "off")) {
                cli_printf(cli, "work is taken again\n");
        } else {
                cli_printf(cli, "drained: nothing runs, and all memory is on disk");
                if (ev->drained->n_requests)
                        cli_printf(cli, "; %llu %s cancelled",
                                (unsigned long long)ev->drained->n_requests,
                                ev->drained->n_requests == 1 ? "request was" : "requests were");
                cli_printf(
                        cli, "\nNo work is taken until 'confab admin drain --off' or a restart.\n");
        }
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *timeout = cli_get(cli, "timeout");

        r.verb = CONFAB_DRAIN;
        r.off = cli_get(cli, "off") != NULL;
        if (r.off && timeout)
                return cli_usage(cli, "--off goes without --timeout");
        r.has_timeout = timeout != NULL;
        r.timeout_usec = timeout ? timeout->u * 1000000 : 0;
        return cli_call(cli, &r, event, cli);
}

static const struct cli_option options[] = {
        {"timeout", "SECONDS", CLI_UINT, .max_uint = 86400,
                .help = "cancel what still runs after so long; else wait for it"},
        {"off", NULL, CLI_FLAG, .help = "take work again"},
        {.name = NULL},
};

const struct cli_command cmd_admin_drain = {
        .name = "drain",
        .args = "",
        .summary = "Take no new work, and bring all memory to disk",
        .help = "Before the daemon is stopped or upgraded. New work is refused with 'shutdown'; "
                "what runs goes on to "
                "its end. The command returns when nothing runs and all memory is on disk. "
                "Interrupted, it leaves "
                "the daemon drained.",
        .options = {options},
        .run = run,
};
