/* SPDX-License-Identifier: MIT */
/*
 * Throw-away conversations.
 *
 * 1. A question that is to leave nothing behind is said in a fork. It shares the memory of the conversation that it was
 *    made from, so it costs the question's own tokens; and that conversation is neither changed nor held up.
 * 2. The fork is closed when the reply has ended, however it ended: with an error, after Ctrl-C, and when nobody reads the
 *    output any more, too.
 * 3. A program that is killed, or loses its daemon, closes nothing. So each is made with expires_after
 *    (CLI_THROWAWAY_SECONDS): the daemon closes it when nobody has used it for that long, also after a restart. A
 *    reply that is being written is a use, however long it takes.
 * 4. While another reply is being written, a fork has what was said before it. With --wait it is made when that reply has
 *    ended.
 * 5. It has no title, tags and metadata of its origin, so that nobody finds it by them.
 */
#include "client/cli-throwaway.h"
#include "client/cli-closing.h"
#include <poll.h>

#define PAUSE_MSEC 50

const struct confab_about cli_throwaway_about = {
        .title = "",
        .metadata = "",
        .has_tags = true,
        .has_expires_after = true,
        .expires_after = CLI_THROWAWAY_SECONDS,
};

static void take_id(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *(uint64_t *)userdata = event->conversation->id;
}

static void take_busy(void *userdata, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                *(bool *)userdata = event->conversation->busy;
}

int cli_wait_until_free(struct cli *cli, const struct confab_request *r) {
        struct confab_request look = CONFAB_REQUEST_INIT;
        bool busy = cli_get(cli, "wait") != NULL;

        look.conversation = r->conversation;
        look.conversation_id = r->conversation_id;
        while (busy) {
                int status;

                look.verb = CONFAB_GET;
                status = cli_call(cli, &look, take_busy, &busy);
                if (status || !busy)
                        return status;
                /* to the end of the reply; what else holds it, and when, is not told */
                look.verb = CONFAB_ATTACH;
                confab_call(cli->confab, &look, NULL, NULL, NULL);
                poll(NULL, 0, PAUSE_MSEC);
        }
        return 0;
}

/* Let @r name a new one. */
static int make(struct cli *cli, struct confab_request *r, const char *system) {
        struct confab_request to_make = CONFAB_REQUEST_INIT;
        bool forks = r->conversation || r->conversation_id;
        int status = forks ? cli_wait_until_free(cli, r) : 0;
        uint64_t id = 0;

        if (status)
                return status;
        to_make.verb = forks ? CONFAB_FORK : CONFAB_OPEN;
        to_make.conversation = r->conversation;
        to_make.conversation_id = r->conversation_id;
        to_make.has_expect_revision = r->has_expect_revision;
        to_make.expect_revision = r->expect_revision;
        to_make.system = system;
        to_make.about = &cli_throwaway_about;
        status = cli_call(cli, &to_make, take_id, &id);
        if (status)
                return status;
        r->conversation = NULL;
        r->conversation_id = id;
        r->has_expect_revision = false; /* a fork begins at a revision of its own */
        return 0;
}

int cli_generate_throwaway(struct cli *cli, struct confab_request *r, const char *system) {
        struct cli_closings closings;
        struct confab_error e;
        int status = make(cli, r, system);

        if (status)
                return status;
        cli->throwaway = true;
        cli->go_on = "--max-tokens allows more";
        status = cli_generate(cli, r, false);
        /* After a broken pipe the connection is gone, which ends the reply: closed by another one. */
        if (!cli->confab && cli_make_connection(cli, &cli->confab, &e) < 0)
                return status;
        cli_closings_init(&closings, cli->confab);
        cli_closings_add(&closings, r->conversation_id);
        cli_closings_wait(&closings);
        cli_closings_deinit(&closings);
        return status;
}
