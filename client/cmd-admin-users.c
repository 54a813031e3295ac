/* SPDX-License-Identifier: MIT */
#include "client/cli-admin.h"
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <string.h>
#include <time.h>

static const char *const orders[] = {"", "owner", "conversations", "tokens", "ram", "disk",
        "requests", "connections", "prefilled", "decoded", "used"};

struct show {
        struct cli *cli;
        struct json j;
        size_t n, limit; /* printed; 0: no limit */
        uint64_t now;
        char *cursor; /* owned: of the next page, or NULL */
        int error;
};

static void event(void *userdata, const struct confab_event *ev) {
        struct show *show = userdata;

        if (ev->kind != CONFAB_EVENT_USERS)
                return;
        for (size_t i = 0; i < ev->users->n_users; i++) {
                if (show->limit && show->n == show->limit)
                        return;
                if (show->cli->json)
                        event_json_user(&show->j, &ev->users->users[i]);
                else
                        admin_print_user(show->cli, &ev->users->users[i], show->n == 0, show->now);
                show->n++;
        }
        if (!ev->users->more || !ev->users->cursor || (show->limit && show->n == show->limit))
                return;
        show->cursor = strdup(ev->users->cursor);
        show->error = show->cursor ? 0 : CLI_FAILED;
}

static int take_order(struct cli *cli, struct confab_request *r) {
        const struct cli_value *sort = cli_get(cli, "sort");

        for (size_t i = 1; sort && i < ARRAY_SIZE(orders); i++)
                if (strcmp(sort->s, orders[i]) == 0)
                        r->user_order = (enum confab_user_order)i;
        if (sort && !r->user_order)
                return cli_usage(cli,
                        "--sort: owner, conversations, tokens, ram, disk, requests, connections, "
                        "prefilled, decoded or used");
        return 0;
}

/* All pages, as far as they are asked for. */
static int run_pages(struct cli *cli, struct confab_request *r, struct show *show) {
        int status;

        do {
                char *cursor = TAKE_PTR(show->cursor);

                r->cursor = cursor;
                status = cli_call(cli, r, event, show);
                free(cursor);
        } while (status == 0 && show->cursor);
        free(show->cursor);
        return status ? status : show->error;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *limit = cli_get(cli, "limit");
        struct show show = {.cli = cli, .limit = limit ? limit->u : 0};
        struct admin_whom whom = {};
        struct timespec now;
        int status = take_order(cli, &r);

        if (status == 0 && cli->n_args)
                status = admin_whom(cli, cli->args[0], false, &whom, &r);
        if (status == 0 && r.tenant)
                status = cli_usage(cli, "a list has a user with all tenants");
        clock_gettime(CLOCK_REALTIME, &now);
        show.now = (uint64_t)now.tv_sec * 1000000;
        r.verb = CONFAB_USERS;
        r.limit = (uint32_t)MIN(show.limit, (size_t)UINT32_MAX);
        if (status == 0 && cli->json) {
                json_init(&show.j, &cli->out);
                json_object_begin(&show.j);
                json_put_key(&show.j, "users");
                json_array_begin(&show.j);
        }
        if (status == 0)
                status = run_pages(cli, &r, &show);
        if (status == 0 && cli->json) {
                json_array_end(&show.j);
                json_object_end(&show.j);
                cli_json_end(cli, &show.j);
        }
        admin_whom_deinit(&whom);
        return status;
}

static const struct cli_option options[] = {
        {"sort", "COLUMN", CLI_STRING,
                .help = "owner (default), or by a figure, the greatest first: conversations, "
                        "tokens, ram, "
                        "disk, requests, connections, prefilled, decoded, used"},
        {"limit", "N", CLI_UINT, .max_uint = UINT32_MAX, .help = "only the first N"},
        {.name = NULL},
};

const struct cli_command cmd_admin_users = {
        .name = "users",
        .args = "[USER]",
        .max_args = 1,
        .summary = "Show what each user has and does",
        .help = "Users and tenants (USER:TENANT) that have conversations, are connected, or did "
                "something since the "
                "daemon started. RAM and DISK are what their memory takes, REQS and CONNS are now, "
                "PREFILLED and DECODED "
                "are tokens since the start, USED tells how long ago a conversation was changed.",
        .options = {options},
        .run = run,
};
