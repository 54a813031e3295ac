/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the confab command: closing several conversations (close, prune). One thread. */
#include "client/cli-select.h"

/* One run over conversations; cli-close.c has the rules. */
struct cli_close {
        struct cli *cli;
        bool dry_run; /* tell what would be closed, and close nothing */
        bool by_rule; /* the user has not named them: tell each, leave what was changed meanwhile */
        bool keeps;   /* set after init: tell also what is kept, see cli_close_kept() */
        int status;   /* of the first failure */
        uint64_t now_usec;
        struct buf bufs[3]; /* with --json: lists of objects */
        struct json lists[3];
};

void cli_close_init(struct cli_close *x, struct cli *cli, bool dry_run, bool by_rule);
/* Close @item, or tell that it would be. 0, or a status to end with at once after reporting why. */
int cli_close_item(struct cli_close *x, const struct cli_item *item);
/* Close the one that @name, as users type it, means; quietly. The same. Nothing is asked about it before: an administrator
 * may close a conversation of others by its number, and not look at it. */
int cli_close_named(struct cli_close *x, const char *name);
/* Tell that @item stays, and why. */
void cli_close_kept(struct cli_close *x, const struct cli_item *item, const char *why);
/* Whether somebody may have meant more than one conversation by @name: '*', '?' or '[' is in it. */
bool cli_close_is_pattern(const char *name);
/* Report that @name can't be closed. 0, or a status to end with at once. */
int cli_close_failed(
        struct cli_close *x, const char *name, uint64_t id, const struct confab_error *e);
/* The end of the output; frees. The exit status. */
int cli_close_end(struct cli_close *x);
/* The same without output: after a status to end with at once. */
void cli_close_deinit(struct cli_close *x);
