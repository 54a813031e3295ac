/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

struct evicted {
        struct cli *cli;
        struct confab_request r;
        int status;
};

static void event(void *userdata, const struct confab_event *ev) {
        const struct confab_conversation *c = ev->conversation;
        struct evicted *e = userdata;

        if (ev->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (e->cli->json)
                cli_put_conversation(e->cli, &e->r, c);
        else
                cli_print_residency(e->cli, c);
        if (c->n_not_kept == 0)
                return;
        cli_complain(e->cli, "%u of %u tokens have to be computed again: %s", c->n_not_kept,
                c->n_tokens, c->why_not_kept);
        e->status = CLI_FAILED;
}

static int run(struct cli *cli) {
        struct evicted e = {.cli = cli, .r = CONFAB_REQUEST_INIT};
        int status = cli_ref(cli, cli->args[0], &e.r);

        e.r.verb = CONFAB_EVICT;
        if (status == 0)
                status = cli_call(cli, &e.r, event, &e);
        return status ? status : e.status;
}

const struct cli_command cmd_evict = {
        .name = "evict",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_MEMORY,
        .summary = "Put the memory of a conversation into its spill files",
        .help = "What can't be written there, because the disk is full or a limit is reached, is "
                "dropped: then standard error says how many tokens have to be computed again and "
                "why, and the exit status is 1.",
        .see = "warm",
        .run = run,
};
