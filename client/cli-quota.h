/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to "confab quota" and "confab admin quota": limits as people read and write them. One thread. */
#include "client/cli.h"

/* Ask for the limits of r->quota_subject (NULL: the own ones), after the changes in @r, and print them: a table, or
 * JSON. 0 or a status after reporting why. */
int quota_show(struct cli *cli, struct confab_request *r);
/* The same of all overrides that there are, page by page. */
int quota_show_overrides(struct cli *cli);

/* Take "LIMIT=VALUE" into @ret, which may borrow from nothing of @text. 0, or CLI_USAGE after reporting why. */
int quota_parse(struct cli *cli, const char *text, struct confab_quota_change *ret);
