/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/cli-quota.h"

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        return quota_show(cli, &r);
}

const struct cli_command cmd_quota = {
        .name = "quota",
        .args = "",
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "Show your limits, and what you use of them",
        .help = "FROM tells where a value comes from: the daemon's setting of the same name, or "
                "what "
                "the administrator has set for a group of yours, for you, or for a tenant. A limit "
                "of a "
                "day says when it starts anew. With --tenant, the limits of that tenant.\n"
                "\n"
                "Beyond ram-share-per-user and disk-limit-per-user nothing is refused: memory that "
                "was "
                "used least recently gives way. Beyond the others requests are refused; the "
                "message "
                "says what helps.",
        .see = "ls close stats admin",
        .run = run,
};
