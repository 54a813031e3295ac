/* SPDX-License-Identifier: MIT */
/*
 * edit and regenerate, also as chat's commands: look for a turn, then replace turns from it on, in one request that
 * requires the revision just seen.
 *
 * 1. A history is not read to find a turn: the last page of it tells how many there are, and the user's last message is
 *    looked for page by page from the end.
 * 2. All pages are of one revision. Whoever changes the conversation between two of them makes the search begin anew.
 */
#include "base/err.h"
#include "client/cli.h"
#include <string.h>

#define LAST_TURN (SIZE_MAX - 1)
#define PAGE 32u /* turns, of which one is likely to be the user's */

/* One turn of a conversation; the replacing request refers to it by id and revision. */
struct cli_turn {
        uint64_t id, revision;
        size_t n_turns;
        bool found; /* there is such a turn: */
        size_t n;   /* its number */
        enum confab_role role;
        char *text; /* if it was wanted: owned */
};

struct look {
        struct cli *cli;
        struct confab_request r;
        size_t wanted; /* a number, LAST_TURN or CLI_LAST_MESSAGE */
        bool want_text, changed, no_memory;
        uint32_t page, first; /* of the last answer */
        struct cli_turn *ret;
};

static bool fits(const struct look *look, uint32_t n, const struct confab_turn *t) {
        if (look->wanted == LAST_TURN)
                return true;
        return look->wanted == CLI_LAST_MESSAGE ? t->role == CONFAB_ROLE_USER : n == look->wanted;
}

/* A text is bytes without a NUL behind them. */
static char *copy_text(const struct confab_bytes *text) {
        char *copy = calloc(1, text->size + 1);

        if (copy && text->size > 0)
                memcpy(copy, text->data, text->size);
        return copy;
}

static void take_turn(struct look *look, uint32_t n, const struct confab_turn *t) {
        struct cli_turn *ret = look->ret;

        ret->found = true;
        ret->n = n;
        ret->role = t->role;
        if (!look->want_text)
                return;
        ret->text = copy_text(&t->text);
        look->no_memory = !ret->text;
}

static void look_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        struct look *look = userdata;
        struct cli_turn *ret = look->ret;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        look->changed = ret->id && ret->revision != c->revision;
        ret->id = c->id;
        ret->revision = c->revision;
        ret->n_turns = c->n_turns;
        look->first = c->first_turn;
        for (size_t i = c->n_turn_list; i-- > 0 && !look->changed;) {
                uint32_t n = c->first_turn + (uint32_t)i;

                if (!fits(look, n, &c->turns[i]))
                        continue;
                take_turn(look, n, &c->turns[i]);
                break;
        }
}

/* The page that the turn is in, or the page before: false, there is none. */
static bool look_on(struct look *look) {
        struct confab_request *r = &look->r;
        const struct cli_turn *ret = look->ret;

        r->conversation = NULL; /* it may be renamed meanwhile */
        r->conversation_id = ret->id;
        r->has_before_turn = !look->changed;
        if (look->changed)
                return true;
        if (ret->found || look->first == 0)
                return false;
        if (look->wanted == CLI_LAST_MESSAGE)
                r->before_turn = look->first;
        else if (look->wanted < look->first)
                r->before_turn = (uint32_t)look->wanted + 1;
        else
                return false;
        return true;
}

/* Find turn number @turn, or LAST_TURN, or CLI_LAST_MESSAGE. 0 or a status. */
static int get_turn(
        struct cli *cli, const char *name, size_t turn, bool want_text, struct cli_turn *ret) {
        struct look look = {
                .cli = cli,
                .r = CONFAB_REQUEST_INIT,
                .wanted = turn,
                .want_text = want_text,
                .page = turn == CLI_LAST_MESSAGE ? PAGE : 1,
                .ret = ret,
        };
        struct confab_error e;
        int status = cli_ref(cli, name, &look.r);

        if (status == 0)
                status = cli_connect(cli);
        while (status == 0) {
                if (cli_try_page(cli, &look.r, &look.page, look_event, &look, &e) == 0) {
                        if (!look_on(&look))
                                break;
                } else if (look.r.has_before_turn && confab_error_is(&e, CONFAB_INVALID)) {
                        look.r.has_before_turn = false; /* turns were taken back meanwhile */
                } else {
                        cli_add_near_names(cli, &look.r, &e);
                        status = cli_fail(cli, &e);
                }
        }
        if (status == 0 && look.no_memory)
                status = cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        return status;
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
        int status = get_turn(cli, name, turn, false, &t);

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
                cli_complain(cli,
                        t.n_turns == 1 ? "there is %zu turn, and no number %zu"
                                       : "there are %zu turns, and no number %zu",
                        t.n_turns, turn);
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

int cli_last_message(struct cli *cli, const char *name, char **ret) {
        struct cli_turn t = {0};
        int status = get_turn(cli, name, CLI_LAST_MESSAGE, true, &t);

        if (status == 0)
                *ret = t.text;
        else
                free(t.text);
        return status;
}

static int regenerate_once(
        struct cli *cli, const char *name, struct confab_request *r, bool *again) {
        struct cli_turn t = {0};
        int status = get_turn(cli, name, LAST_TURN, false, &t);

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
