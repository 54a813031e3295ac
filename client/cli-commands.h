/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the confab command: the verbs, one in each cmd-*.c. */
#include "client/cli.h"

extern const struct cli_command cmd_acp, cmd_admin, cmd_ask, cmd_attach, cmd_cancel, cmd_carry,
        cmd_chat, cmd_close, cmd_edit, cmd_evict, cmd_export, cmd_fork, cmd_help, cmd_import,
        cmd_log, cmd_ls, cmd_map, cmd_model, cmd_open, cmd_prune, cmd_publish, cmd_quota,
        cmd_regenerate, cmd_rename, cmd_rewind, cmd_say, cmd_set, cmd_show, cmd_stats, cmd_system,
        cmd_tokenize, cmd_top, cmd_tree, cmd_update, cmd_wait, cmd_warm, cmd_watch;
/* Of "confab admin". */
extern const struct cli_command cmd_admin_backup, cmd_admin_cancel, cmd_admin_check,
        cmd_admin_close, cmd_admin_drain, cmd_admin_evict, cmd_admin_purge, cmd_admin_quota,
        cmd_admin_restore, cmd_admin_settings, cmd_admin_status, cmd_admin_users;
