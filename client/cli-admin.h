/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the commands of "confab admin": whom they are about, and what they ask. */
#include "client/cli.h"

/* Whom an act is about: a conversation, or a user (with tenants), or one tenant. */
struct admin_whom {
        char *own; /* owned: what `request` refers to */
        bool is_conversation;
        const char *text; /* as it was given */
};
void admin_whom_deinit(struct admin_whom *whom);
/* Take "#ID", "USER" or "USER:TENANT", where USER is a name or a number, into @r. Without @may_be_conversation the
 * first is refused. 0 or a status after reporting why. */
int admin_whom(struct cli *cli, const char *text, bool may_be_conversation, struct admin_whom *ret,
        struct confab_request *r);
/* The name of @uid, or its number, in @buf. */
#define ADMIN_NAME_SIZE 64
const char *admin_user_name(char buf[ADMIN_NAME_SIZE], uint32_t uid);
/* A line of a table of users, whose head is printed with the @first one. @now: realtime, microseconds. */
void admin_print_user(
        struct cli *cli, const struct confab_user *user, bool first, uint64_t now_usec);
/* Ask a question on the terminal: true if the answer is yes. */
bool admin_ask(const char *question);
/* Run an ActOnUser (r->user_act is set), or for a conversation the verb r->verb, with --yes and --dry-run. @done: what has
 * become of conversations ("evicted"). */
int admin_act(struct cli *cli, const char *whom, bool may_be_conversation, struct confab_request *r,
        const char *done);

#define ADMIN_DRY_RUN_OPTION                                                                       \
        { "dry-run", NULL, CLI_FLAG, .help = "only tell what would be done" }
#define ADMIN_YES_OPTION                                                                           \
        { "yes", NULL, CLI_FLAG, .help = "do not ask" }
