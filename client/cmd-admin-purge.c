/* SPDX-License-Identifier: MIT */
#include "client/cli-admin.h"
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.user_act = CONFAB_USER_PURGE;
        return admin_act(cli, cli->args[0], false, &r, "deleted");
}

static const struct cli_option options[] = {
        ADMIN_YES_OPTION,
        ADMIN_DRY_RUN_OPTION,
        {.name = NULL},
};

const struct cli_command cmd_admin_purge = {
        .name = "purge",
        .args = "USER|USER:TENANT",
        .min_args = 1,
        .max_args = 1,
        .summary = "Delete all that a user has, for good",
        .help = "Ends all requests of USER and of the tenants of USER (of one tenant: "
                "USER:TENANT), and deletes all of their "
                "conversations, with their memory on disk. It asks on a terminal; elsewhere it "
                "needs --yes. After a crash "
                "or an error it can be given again. Who connects afterwards starts with nothing.",
        .options = {options},
        .run = run,
};
