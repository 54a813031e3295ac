/* SPDX-License-Identifier: MIT */
#include "client/cli-admin.h"
#include "client/cli-commands.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_CANCEL;
        r.user_act = CONFAB_USER_CANCEL;
        return admin_act(cli, cli->args[0], true, &r, "cancelled");
}

static const struct cli_option options[] = {
        ADMIN_YES_OPTION,
        ADMIN_DRY_RUN_OPTION,
        {.name = NULL},
};

const struct cli_command cmd_admin_cancel = {
        .name = "cancel",
        .args = "USER|#ID",
        .min_args = 1,
        .max_args = 1,
        .summary = "End what a user is doing",
        .help = "All requests of USER in flight, and of the tenants of USER; of one tenant as "
                "USER:TENANT; or what a "
                "conversation of any user is doing. Replies end where they are, and stay. On a "
                "terminal it asks.",
        .options = {options},
        .run = run,
};
