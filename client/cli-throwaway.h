/* SPDX-License-Identifier: MIT */
#pragma once
/* Conversations that nothing is left of: forks of one for a question, and empty ones. cli-throwaway.c tells how. */
#include "client/cli.h"

/* Seconds without use until the daemon closes one whose maker could not. */
#define CLI_THROWAWAY_SECONDS 120

/* What is noted about one: when it goes, and no title, tags and metadata of the one that it was forked from. */
extern const struct confab_about cli_throwaway_about;

/* With --wait: while another request holds the conversation that @r names, wait. 0 or a status. */
int cli_wait_until_free(struct cli *cli, const struct confab_request *r);

/* Fork the conversation that @r, a Continue, names, or open an empty one if it names none, with the system message
 * @system (or NULL); run @r there as cli_generate() does; and close it. @r then names what was closed. An exit
 * status. */
int cli_generate_throwaway(struct cli *cli, struct confab_request *r, const char *system);
