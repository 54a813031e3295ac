/* SPDX-License-Identifier: MIT */
/* Turns in pages, so that a long history is read in pieces, by the command and by the daemon. */
#include "client/cli.h"

int cli_try_page(struct cli *cli, struct confab_request *r, uint32_t *page, confab_event_fn fn,
        void *userdata, struct confab_error *e) {
        r->verb = CONFAB_GET;
        r->want_turns = true;
        for (;;) {
                r->max_turns = *page;
                if (confab_call(cli->confab, r, fn, userdata, e) == 0)
                        return 0;
                if (!confab_error_is(e, CONFAB_LIMIT) || *page <= 1)
                        return -1;
                *page /= 2;
        }
}

int cli_call_page(struct cli *cli, struct confab_request *r, uint32_t *page, confab_event_fn fn,
        void *userdata) {
        struct confab_error e;
        int status = cli_connect(cli);

        if (status)
                return status;
        if (cli_try_page(cli, r, page, fn, userdata, &e) == 0)
                return 0;
        cli_add_near_names(cli, r, &e);
        return cli_fail(cli, &e);
}
