/* SPDX-License-Identifier: MIT */
#include "client/cli-admin.h"
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_EVICT;
        r.user_act = CONFAB_USER_EVICT;
        return admin_act(cli, cli->args[0], true, &r, "evicted");
}

static const struct cli_option options[] = {
        ADMIN_DRY_RUN_OPTION,
        {.name = NULL},
};

const struct cli_command cmd_admin_evict = {
        .name = "evict",
        .args = "USER|#ID",
        .min_args = 1,
        .max_args = 1,
        .summary = "Write the memory of a user to disk now",
        .help = "The memory of all conversations of USER and of the tenants of USER (of one "
                "tenant: USER:TENANT), or of "
                "one conversation of any user, leaves the RAM. Conversations in use stay.",
        .options = {options},
        .run = run,
};
