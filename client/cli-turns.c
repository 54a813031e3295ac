/* SPDX-License-Identifier: MIT */
/* edit and regenerate, also as chat's commands: get the conversation, then replace turns from a
 * given one on, in one request that requires the revision just seen. */
#include "client/cli.h"

#define LAST_TURN (SIZE_MAX - 1)

/* One turn of a conversation; the replacing request refers to it by id and revision. */
struct cli_turn {
        uint64_t id, revision;
        size_t n_turns;
        bool found; /* there is such a turn: */
        size_t n;   /* its number */
        enum confab_role role;
};

struct look {
        size_t turn;
        struct cli_turn *ret;
};

static size_t last_message(const struct confab_conversation *c) {
        for (size_t i = c->n_turn_list; i-- > 0;)
                if (c->turns[i].role == CONFAB_ROLE_USER)
                        return i;
        return SIZE_MAX;
}

static void look_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        struct look *look = userdata;
        size_t i = look->turn;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (i == LAST_TURN)
                i = c->n_turn_list - 1; /* without any turn it is out of range */
        else if (i == CLI_LAST_MESSAGE)
                i = last_message(c);
        *look->ret =
                (struct cli_turn){.id = c->id, .revision = c->revision, .n_turns = c->n_turn_list};
        if (i >= c->n_turn_list)
                return;
        look->ret->found = true;
        look->ret->n = i;
        look->ret->role = c->turns[i].role;
}

/* Find turn number @turn, or LAST_TURN, or CLI_LAST_MESSAGE. 0 or a status. */
static int get_turn(struct cli *cli, const char *name, size_t turn, struct cli_turn *ret) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct look look = {turn, ret};
        int status = cli_ref(cli, name, &r);

        if (status)
                return status;
        r.verb = CONFAB_GET;
        r.want_turns = true;
        return cli_call(cli, &r, look_event, &look);
}

/* A request that waits for another one to end finds another revision when its turn comes: *again is
 * then set, to get the conversation once more. */
static int replace_from(
        struct cli *cli, const struct cli_turn *t, struct confab_request *r, bool *again) {
        r->conversation_id = t->id;
        r->has_at_turn = true;
        r->at_turn = (uint32_t)t->n;
        r->has_expect_revision = true;
        r->expect_revision = t->revision;
        return cli_generate_or_conflict(cli, r, false, r->wait ? again : NULL);
}

static int edit_once(
        struct cli *cli, const char *name, size_t turn, struct confab_request *r, bool *again) {
        struct cli_turn t = {0};
        int status = get_turn(cli, name, turn, &t);

        *again = false;
        if (status)
                return status;
        if (t.found && t.role == CONFAB_ROLE_USER)
                return replace_from(cli, &t, r, again);
        if (turn == CLI_LAST_MESSAGE)
                cli_complain(cli, "nothing was said yet");
        else if (t.found)
                cli_complain(cli, "turn %zu is of the %s: a user's can be edited", turn,
                        confab_role_name(t.role));
        else
                cli_complain(cli, "there are %zu turns, and no number %zu", t.n_turns, turn);
        return CLI_FAILED;
}

int cli_edit(struct cli *cli, const char *name, size_t turn, struct confab_request *r) {
        bool again = false;
        int status;

        do
                status = edit_once(cli, name, turn, r, &again);
        while (again);
        return status;
}

static int regenerate_once(
        struct cli *cli, const char *name, struct confab_request *r, bool *again) {
        struct cli_turn t = {0};
        int status = get_turn(cli, name, LAST_TURN, &t);

        *again = false;
        if (status)
                return status;
        if (t.found && (t.role == CONFAB_ROLE_USER || t.role == CONFAB_ROLE_TOOL)) {
                t.n++; /* the reply to it was cancelled before it began: drop nothing */
        } else if (!t.found || t.n_turns < 2 || t.role == CONFAB_ROLE_SYSTEM) {
                cli_complain(cli, "%s does not end with a reply", name);
                return CLI_FAILED;
        }
        return replace_from(cli, &t, r, again);
}

int cli_regenerate(struct cli *cli, const char *name, struct confab_request *r) {
        bool again = false;
        int status;

        do
                status = regenerate_once(cli, name, r, &again);
        while (again);
        return status;
}
