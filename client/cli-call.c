/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "client/cli.h"
#include "client/event-json.h"
#include "client/socket-path.h"
#include <string.h>

#define NEAR_NAMES 1000u /* of so many conversations, used last, names are suggested */

char *cli_socket_path(const struct cli *cli) {
        return cli->socket ? strdup(cli->socket) : socket_path_find();
}

int cli_make_connection(const struct cli *cli, struct confab **ret, struct confab_error *e) {
        _cleanup_(freep) char *path = cli_socket_path(cli);
        struct confab *confab;

        if (!path) {
                *e = (struct confab_error){
                        .code = CONFAB_NO_MEMORY, .message = "no memory", .retry = true};
                return -1;
        }
        if (confab_connect(&confab, path, e) < 0)
                return -1;
        if ((cli->has_as_uid || cli->tenant) &&
                confab_act_for(confab, cli->has_as_uid ? cli->as_uid : CONFAB_OWN_UID, cli->tenant,
                        e) < 0) {
                confab_free(confab);
                return -1;
        }
        *ret = confab;
        return 0;
}

int cli_connect(struct cli *cli) {
        struct confab_error e;

        if (cli->confab || cli_make_connection(cli, &cli->confab, &e) == 0)
                return 0;
        return cli_fail(cli, &e);
}

bool cli_move_on(struct cli *cli, const struct confab_error *e) {
        struct confab_error other;
        struct confab *next;

        if (!confab_error_is(e, CONFAB_SHUTDOWN) || !e->retry ||
                cli_make_connection(cli, &next, &other) < 0)
                return false;
        confab_free(cli->confab);
        cli->confab = next;
        return true;
}

/* ---- names that nothing has ---- */

static void near_event(void *userdata, const struct confab_event *event) {
        struct cli_suggest *s = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        for (size_t i = 0; i < event->conversations->n_items; i++)
                cli_suggest_try(s, event->conversations->items[i].name);
}

void cli_add_near_names(struct cli *cli, const struct confab_request *r, struct confab_error *e) {
        struct confab_request list = CONFAB_REQUEST_INIT;
        struct cli_suggest s = {.word = r->conversation};
        _cleanup_(buf_deinit) struct buf near = BUF_NULL;
        size_t size = strlen(e->message);

        if (!cli->err_tty || cli->json || !r->conversation || r->conversation_id ||
                !confab_error_is(e, CONFAB_NOT_FOUND))
                return;
        list.verb = CONFAB_LIST;
        list.order = CONFAB_ORDER_UPDATED;
        list.limit = NEAR_NAMES;
        if (confab_call(cli->confab, &list, near_event, &s, NULL) == 0 &&
                cli_suggest_put(&s, "", &near) == 0 && near.size < sizeof(e->message) - size)
                memcpy(e->message + size, near.data ? (char *)near.data : "", near.size + 1);
}

/* ---- calls ---- */

struct call {
        confab_event_fn fn; /* or NULL */
        void *userdata;
        struct cli_progress progress;
        bool ended, failed, heard; /* heard: there was more than an error */
        struct confab_error error;
};

static void call_event(void *userdata, const struct confab_event *event) {
        struct call *call = userdata;

        cli_progress_event(&call->progress, event);
        call->ended = event->final;
        if (event->kind == CONFAB_EVENT_ERROR) {
                call->failed = true;
                call->error = *event->error;
        } else {
                call->heard = true;
        }
        if (call->fn)
                call->fn(call->userdata, event);
}

static const char *what_happens(enum confab_verb verb) {
        return verb == CONFAB_WARM     ? "bringing its memory back"
               : verb == CONFAB_EXPORT ? "making the export"
               : verb == CONFAB_IMPORT ? "taking the import in"
               : verb == CONFAB_BACKUP ? "copying the register"
               : verb == CONFAB_EVICT  ? "writing its memory to disk"
               : verb == CONFAB_CARRY  ? "writing it anew"
               : verb == CONFAB_CHECK  ? "checking"
                                       : "waiting";
}

static int call_once(struct cli *cli, const struct confab_request *r, struct call *call,
        struct confab_error *e) {
        int status;

        cli_progress_init(&call->progress, cli, r, what_happens(r->verb));
        if (!call->progress.on)
                return confab_call(cli->confab, r, call_event, call, e);
        status = confab_submit(cli->confab, r, call_event, call, NULL, e);
        while (status == 0 && !call->ended) {
                /* a broken connection ends the request with an error event */
                (void)!confab_wait(cli->confab, cli_progress_timeout(&call->progress), NULL);
                cli_progress_tick(&call->progress);
        }
        if (call->failed)
                *e = call->error;
        return status < 0 || call->failed ? -1 : 0;
}

int cli_try_call(struct cli *cli, const struct confab_request *r, confab_event_fn fn,
        void *userdata, struct confab_error *e) {
        struct call call = {.fn = fn, .userdata = userdata};

        if (call_once(cli, r, &call, e) == 0)
                return 0;
        /* Of a file that was read in part the rest is no request. */
        if (call.heard || r->verb == CONFAB_IMPORT || !cli_move_on(cli, e))
                return -1;
        call = (struct call){.fn = fn, .userdata = userdata};
        return call_once(cli, r, &call, e);
}

int cli_call(struct cli *cli, const struct confab_request *r, confab_event_fn fn, void *userdata) {
        struct confab_error e;
        int status = cli_connect(cli);

        if (status)
                return status;
        if (cli_try_call(cli, r, fn, userdata, &e) == 0)
                return 0;
        cli_add_near_names(cli, r, &e);
        return cli_fail(cli, &e);
}

bool cli_ends_all(const struct confab_error *e) {
        return confab_error_is(e, CONFAB_DISCONNECTED) || confab_error_is(e, CONFAB_PROTOCOL) ||
               confab_error_is(e, CONFAB_SHUTDOWN);
}

int cli_ref(struct cli *cli, const char *name, struct confab_request *r) {
        int result = cli_parse_ref(name, r);

        if (result == -ERR_INVALID)
                return cli_usage(cli, "the name of the conversation is empty");
        if (result < 0)
                return cli_usage(cli, "there is no conversation number %s", name + (*name == '#'));
        return 0;
}

/* ---- lists ---- */

struct page {
        struct cli *cli;
        int (*fn)(void *userdata, const struct confab_conversation *c);
        void *userdata;
        bool by_id;
        uint64_t last;
        char *cursor; /* owned; NULL: the first page */
        bool more;
        int status;
};

static int out_of_order(struct page *p) {
        struct confab_error e = {
                .code = CONFAB_PROTOCOL,
                .message = "the daemon's list is out of order",
        };

        return cli_fail(p->cli, &e);
}

/* Where the next page begins, of a list that is not by id. */
static void take_cursor(struct page *p, const char *cursor) {
        char *copy = cursor ? strdup(cursor) : NULL;

        if (cursor && !copy)
                p->status = cli_error(p->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        else if (!cursor || (p->cursor && strcmp(cursor, p->cursor) == 0))
                p->status = out_of_order(p); /* or paging might never end */
        free(p->cursor);
        p->cursor = copy;
}

static void page_event(void *userdata, const struct confab_event *event) {
        struct page *p = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        p->more = event->conversations->more && event->conversations->n_items > 0;
        for (size_t i = 0; i < event->conversations->n_items && p->status == 0; i++) {
                const struct confab_conversation *c = &event->conversations->items[i];

                if (p->by_id && c->id <= p->last) { /* or paging might never end */
                        p->status = out_of_order(p);
                        return;
                }
                p->last = c->id;
                p->status = p->fn(p->userdata, c);
        }
        if (p->status == 0 && p->more && !p->by_id)
                take_cursor(p, event->conversations->cursor);
}

int cli_list(struct cli *cli, const struct confab_request *what,
        int (*fn)(void *userdata, const struct confab_conversation *c), void *userdata) {
        struct page p = {
                .cli = cli, .fn = fn, .userdata = userdata, .by_id = !what->search, .more = true};
        int status = 0;

        while (p.more && p.status == 0 && status == 0) {
                struct confab_request r = *what;

                r.verb = CONFAB_LIST;
                r.after_id = p.by_id ? p.last : 0;
                r.cursor = p.cursor;
                p.more = false;
                status = cli_call(cli, &r, page_event, &p);
        }
        free(p.cursor);
        return status ? status : p.status;
}

int cli_list_each(struct cli *cli, bool all_users,
        int (*fn)(void *userdata, const struct confab_conversation *c), void *userdata) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.all_users = all_users;
        return cli_list(cli, &r, fn, userdata);
}

/* ---- one conversation as the answer ---- */

struct answer {
        struct cli *cli;
        const struct confab_request *r;
        void (*print)(struct cli *cli, const struct confab_conversation *c);
};

void cli_put_conversation(
        struct cli *cli, const struct confab_request *r, const struct confab_conversation *c) {
        struct json j;

        json_init(&j, &cli->out);
        json_object_begin(&j);
        event_json_conversation(&j, c, EVENT_JSON_SEED_NUMBER);
        if (r->want_turns)
                event_json_turns(&j, c, EVENT_JSON_SEED_NUMBER);
        if (r->want_tokens)
                event_json_tokens(&j, c);
        json_object_end(&j);
        cli_json_end(cli, &j);
}

static void answer_event(void *userdata, const struct confab_event *event) {
        struct answer *a = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (a->cli->json)
                cli_put_conversation(a->cli, a->r, event->conversation);
        else if (a->print)
                a->print(a->cli, event->conversation);
}

int cli_call_conversation(struct cli *cli, const struct confab_request *r,
        void (*print)(struct cli *cli, const struct confab_conversation *c)) {
        struct answer a = {cli, r, print};

        return cli_call(cli, r, answer_event, &a);
}

int cli_call_empty(struct cli *cli, const struct confab_request *r) {
        int status = cli_call(cli, r, NULL, NULL);
        struct json j;

        if (status == 0 && cli->json) {
                json_init(&j, &cli->out);
                json_object_begin(&j);
                json_object_end(&j);
                cli_json_end(cli, &j);
        }
        return status;
}

void cli_print_residency(struct cli *cli, const struct confab_conversation *c) {
        char ram[16], disk[16];

        cli_name(cli, c->name);
        cli_printf(cli, ": %s, %s in RAM, %s on disk\n", confab_residency_name(c->residency),
                human_size(ram, c->ram_size), human_size(disk, c->disk_size));
}
