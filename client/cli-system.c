/* SPDX-License-Identifier: MIT */
/*
 * The system message: printed, or given.
 *
 * 1. History is never written anew. A system message is given as a turn: the first one of a conversation without turns,
 *    else one more at its end, if the model's chat format has such messages there. If not, the refusal says what to do.
 * 2. A conversation of which nothing but its system message was said has no history that depends on it: then the new one
 *    takes its place, in one transaction.
 * 3. Whichever it is was decided by looking: the request has the revision that was seen, so that what somebody says in
 *    between makes it a conflict.
 */
#include "client/cli-system.h"

#define PAGE 256u /* turns */

struct found {
        struct cli *cli;
        struct confab_request r;
        uint64_t revision;
        uint32_t page, n_turns, next, n_found;
        bool only; /* there is one turn, and it is of the system */
        bool print;
        struct json j;
};

static void put(struct found *f, uint32_t turn, struct confab_bytes text) {
        struct cli *cli = f->cli;

        if (cli->json) {
                json_object_begin(&f->j);
                json_put_key_u64(&f->j, "turn", turn);
                json_put_key(&f->j, "text");
                json_put_string_n(&f->j, text.data, text.size);
                json_object_end(&f->j);
                return;
        }
        if (f->n_found > 0)
                cli_printf(cli, "\n");
        cli_text(cli, text.data, text.size);
        if (text.size == 0 || text.data[text.size - 1] != '\n')
                cli_printf(cli, "\n");
}

static void look_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        struct found *f = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        f->r.conversation = NULL;
        f->r.conversation_id = c->id;
        f->revision = c->revision;
        f->n_turns = c->n_turns;
        f->only = c->n_turns == 1 && c->n_turn_list == 1 && c->turns[0].role == CONFAB_ROLE_SYSTEM;
        for (size_t i = 0; f->print && i < c->n_turn_list; i++)
                if (c->turns[i].role == CONFAB_ROLE_SYSTEM) {
                        put(f, c->first_turn + (uint32_t)i, c->turns[i].text);
                        f->n_found++;
                }
        f->next = c->n_turn_list ? c->first_turn + (uint32_t)c->n_turn_list : c->n_turns;
}

/* Look at a page of turns from number @from on. */
static int look(struct found *f, uint32_t from) {
        f->r.has_from_turn = true;
        f->r.from_turn = from;
        return cli_call_page(f->cli, &f->r, &f->page, look_event, f);
}

int cli_system_print(struct cli *cli, const struct confab_request *which, bool *ret_found) {
        struct found f = {.cli = cli, .r = *which, .page = PAGE, .print = true};
        int status;

        if (cli->json) {
                json_init(&f.j, &cli->out);
                json_object_begin(&f.j);
                json_put_key(&f.j, "system");
                json_array_begin(&f.j);
        }
        do {
                status = look(&f, f.next);
        } while (status == 0 && f.next < f.n_turns);
        if (status)
                return status;
        if (cli->json) {
                json_array_end(&f.j);
                json_object_end(&f.j);
                cli_json_end(cli, &f.j);
        }
        *ret_found = f.n_found > 0;
        return 0;
}

/* ---- giving ---- */

int cli_system_give(
        struct cli *cli, const struct confab_request *which, const char *text, size_t size) {
        struct found f = {.cli = cli, .r = *which, .page = PAGE};
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_error e;
        int status = look(&f, 0);

        if (status)
                return status;
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = f.r.conversation_id;
        r.input = CONFAB_INPUT_MESSAGE;
        r.role = CONFAB_ROLE_SYSTEM;
        r.text = text;
        r.text_size = size;
        r.has_max_tokens = true; /* 0: it is taken in, and nothing is generated */
        r.has_expect_revision = true;
        r.expect_revision = f.revision;
        r.has_at_turn = f.only;
        if (confab_call(cli->confab, &r, NULL, NULL, &e) == 0)
                return 0;
        status = cli_fail(cli, &e);
        if (f.n_turns > 0 && !f.only && confab_error_is(&e, CONFAB_STATE))
                cli_complain(cli,
                        "history is not written anew: 'confab fork --at 0' makes an empty "
                        "conversation, which takes a system message; or say it in a "
                        "message");
        return status;
}
