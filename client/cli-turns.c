/* SPDX-License-Identifier: MIT */
/* What edit and regenerate share: look, take back, and go on, with the revision as a guard. */
#include "client/cli.h"

struct look {
        size_t turn;
        struct cli_turn *ret;
};

static void look_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        struct look *look = userdata;
        size_t i = look->turn;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (i == CLI_LAST_TURN)
                i = c->n_turn_list - 1; /* without any turn it is out of range */
        *look->ret =
                (struct cli_turn){.id = c->id, .revision = c->revision, .n_turns = c->n_turn_list};
        if (i >= c->n_turn_list)
                return;
        look->ret->found = true;
        look->ret->role = c->turns[i].role;
        look->ret->start = c->turns[i].start;
        look->ret->end = c->turns[i].end;
}

int cli_get_turn(struct cli *cli, const char *name, size_t turn, struct cli_turn *ret) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct look look = {turn, ret};
        int status = cli_ref(cli, name, &r);

        if (status)
                return status;
        r.verb = CONFAB_GET;
        r.want_turns = true;
        return cli_call(cli, &r, look_event, &look);
}

static void rewound_event(void *userdata, const struct confab_event *event) {
        struct confab_request *r = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                r->expect_revision = event->conversation->revision;
}

int cli_rewind_for(
        struct cli *cli, const struct cli_turn *t, size_t turn, struct confab_request *r) {
        struct confab_request rewind = CONFAB_REQUEST_INIT;
        int status;

        rewind.verb = CONFAB_REWIND;
        rewind.conversation_id = t->id;
        rewind.has_at_turn = true;
        rewind.at_turn = (uint32_t)turn;
        rewind.has_expect_revision = true;
        rewind.expect_revision = t->revision;
        status = cli_call(cli, &rewind, rewound_event, r);
        if (status)
                return status;
        r->conversation_id = t->id;
        r->has_expect_revision = true;
        return 0;
}
