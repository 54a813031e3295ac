/* SPDX-License-Identifier: MIT */
#pragma once
/* System messages of a conversation, for the verb and the chat. cli-system.c has the rules. One thread. */
#include "client/cli.h"

/* Print all of the conversation that @which names, as JSON with --json; *ret_found: there are some. 0 or a status after
 * reporting why. */
int cli_system_print(struct cli *cli, const struct confab_request *which, bool *ret_found);
/* Give it @text as one. 0 or a status after reporting why. */
int cli_system_give(
        struct cli *cli, const struct confab_request *which, const char *text, size_t size);
