/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"

static const struct cli_command *const commands[] = {
        &cmd_admin_status,
        &cmd_admin_settings,
        &cmd_admin_users,
        &cmd_admin_quota,
        &cmd_admin_cancel,
        &cmd_admin_evict,
        &cmd_admin_close,
        &cmd_admin_purge,
        &cmd_admin_drain,
        &cmd_publish,
        &cmd_admin_backup,
        &cmd_admin_restore,
        &cmd_admin_check,
        NULL,
};

const struct cli_command cmd_admin = {
        .name = "admin",
        .purpose = CLI_PURPOSE_RUN,
        .summary = "Look after the daemon and all of its users",
        .help = "For root, the user whom the daemon runs as, and the members of its admin-group. "
                "What is done, not what is looked at, is a line in the daemon's journal.",
        .commands = commands,
};
