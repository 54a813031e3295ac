/* SPDX-License-Identifier: MIT */
#include "base/quota.h"
#include "client/cli-admin.h"
#include "client/cli-commands.h"
#include "client/cli-quota.h"
#include <grp.h>
#include <string.h>

/* "@GROUP", by name or number. */
static int take_group(struct cli *cli, const char *name, struct confab_quota_subject *s) {
        const struct group *gr;
        uint64_t gid;

        if (cli_parse_uint(name, UINT32_MAX - 1, &gid)) {
                s->gid = (uint32_t)gid;
        } else {
                if (!*name)
                        return cli_usage(cli, "'@' names no group: @GROUP, a name or a number");
                gr = getgrnam(name);
                if (!gr)
                        return cli_error(cli, CLI_NOT_FOUND, CONFAB_NOT_FOUND,
                                "no group is called '%s'", name);
                s->gid = gr->gr_gid;
        }
        s->has_gid = true;
        return 0;
}

/* @whom owns what @s borrows. */
static int take_subject(struct cli *cli, const char *text, struct admin_whom *whom,
        struct confab_quota_subject *s) {
        struct confab_request named = CONFAB_REQUEST_INIT;
        int status;

        if (*text == '@')
                return take_group(cli, text + 1, s);
        if (strchr(text, '='))
                return cli_usage(cli,
                        "whose limit? A user, USER:TENANT, 'USER:*' or @GROUP comes before '%s'",
                        text);
        status = admin_whom(cli, text, false, whom, &named);
        if (status)
                return status;
        s->has_uid = true;
        s->uid = named.uid;
        s->all_tenants = named.tenant && strcmp(named.tenant, "*") == 0;
        s->tenant = s->all_tenants ? NULL : named.tenant;
        return 0;
}

static int take_changes(struct cli *cli, struct confab_quota_change changes[QUOTA_N], size_t *n) {
        for (size_t i = 1; i < cli->n_args; i++) {
                struct confab_quota_change change;
                int status = quota_parse(cli, cli->args[i], &change);

                if (status)
                        return status;
                for (size_t k = 0; k < *n; k++)
                        if (strcmp(changes[k].name, change.name) == 0)
                                return cli_usage(cli, "%s is given twice", change.name);
                changes[(*n)++] = change;
        }
        return 0;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_quota_change changes[QUOTA_N];
        struct confab_quota_subject subject = {};
        _cleanup_(admin_whom_deinit) struct admin_whom whom = {};
        int status;

        if (cli->n_args == 0)
                return quota_show_overrides(cli);
        status = take_subject(cli, cli->args[0], &whom, &subject);
        if (status == 0)
                status = take_changes(cli, changes, &r.n_quota_changes);
        if (status)
                return status;
        r.quota_subject = &subject;
        r.quota_changes = changes;
        return quota_show(cli, &r);
}

const struct cli_command cmd_admin_quota = {
        .name = "quota",
        .args = "[USER|USER:TENANT|USER:*|@GROUP] [LIMIT=VALUE...]",
        .max_args = SIZE_MAX,
        .summary = "Show limits of users, tenants and groups, and set them",
        .help = "Without arguments, all overrides that there are. Of a user or a tenant, each "
                "limit: its "
                "value, what is used, and FROM where it comes: the setting of the same name, or an "
                "override for a group, the user, all tenants of the user (USER:*, in quotes for "
                "the shell), or the tenant. Limits of a user are not for its tenants, which have "
                "their "
                "own. Of groups the most generous holds.\n"
                "\n"
                "LIMIT=VALUE sets an override: all that are given, or none. It holds at once, and "
                "after a restart. VALUE is a number; of disk-limit-per-user it may end with K, M, "
                "G or T, "
                "of ram-share-per-user with %. \"none\" is no limit, 0 leaves nothing, and "
                "\"default\" takes the override away. The limits that hold then are "
                "printed.\n"
                "\n"
                "The limits are max-conversations, max-user-tokens, max-user-tokens-per-day, "
                "ram-share-per-user, disk-limit-per-user, max-user-requests and "
                "max-user-connections; see \"Quotas\" in confab-protocol(7).",
        .examples = "confab admin quota\n"
                    "confab admin quota alice\n"
                    "confab admin quota alice max-conversations=200 disk-limit-per-user=20G\n"
                    "confab admin quota 'web:*' max-user-tokens-per-day=100000\n"
                    "confab admin quota @students ram-share-per-user=10%\n"
                    "confab admin quota alice max-conversations=default",
        .see = "quota",
        .run = run,
};
