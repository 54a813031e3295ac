/* SPDX-License-Identifier: MIT */
/*
 * What happens to conversations, a line for each notice, until the user has enough.
 *
 * 1. Notices have numbers, people know names: names are listed once, and asked for where a notice tells of a
 *    conversation that is new, or was changed. The name shown is the one that it has when the line is printed.
 * 2. A callback cannot ask: notices are queued, and the loop prints them.
 * 3. When the daemon goes away, that is told on standard error, and the program waits until it is back, and goes on
 *    behind the last notice (its cursor). What was lost meanwhile the daemon tells: "list_again".
 * 4. A watch of one conversation ends when that is closed.
 */
#include "base/clock.h"
#include "client/cli-commands.h"
#include "client/cli-select.h"
#include "client/cli-when.h"
#include "client/event-json.h"
#include <errno.h>
#include <poll.h>
#include <string.h>

#define RETRY_MIN_MSEC 100
#define RETRY_MAX_MSEC 2000

struct name {
        uint64_t id;
        char *name; /* owned */
};
/* A notice, without what is not printed. */
struct line {
        enum confab_notice_kind kind;
        uint32_t uid;
        uint64_t id, parent, budget;
        enum confab_finish finish;
        bool pressed;
        char model[64];
        char tenant[132]; /* "": none */
};
struct watch {
        struct cli *cli;
        struct confab_request r;
        bool all, over, done, seen_model; /* over: the request; done: all of it */
        uint64_t only;                    /* of this conversation; 0: of all */
        char *cursor;                     /* owned: of the last notice */
        struct line *lines;               /* owned: to be printed */
        size_t n_lines, lines_capacity;
        struct name *names; /* owned, ids rise */
        size_t n_names, names_capacity;
        uint64_t listed; /* while names are listed: the last id, and whether more follow */
        bool more;
        struct confab_error error; /* how the watch ended */
        int status;
};

static int no_memory(struct watch *w) {
        w->status = cli_error(w->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        return w->status;
}

/* ---- names ---- */

/* The place of @id, or where it belongs. */
static size_t name_at(const struct watch *w, uint64_t id) {
        size_t from = 0, to = w->n_names;

        while (from < to) {
                size_t mid = from + (to - from) / 2;

                if (w->names[mid].id < id)
                        from = mid + 1;
                else
                        to = mid;
        }
        return from;
}

static struct name *find_name(const struct watch *w, uint64_t id) {
        size_t i = name_at(w, id);

        return i < w->n_names && w->names[i].id == id ? &w->names[i] : NULL;
}

static int put_name(void *userdata, const struct confab_conversation *c) {
        struct watch *w = userdata;
        struct name *known = find_name(w, c->id);
        char *name = strdup(c->name);
        size_t i = name_at(w, c->id);

        if (!name)
                return no_memory(w);
        if (known) {
                free(known->name);
                known->name = name;
                return 0;
        }
        if (w->n_names == w->names_capacity) {
                size_t capacity = w->names_capacity ? 2 * w->names_capacity : 64;
                struct name *names = reallocarray(w->names, capacity, sizeof(*names));

                if (!names) {
                        free(name);
                        return no_memory(w);
                }
                w->names = names;
                w->names_capacity = capacity;
        }
        memmove(&w->names[i + 1], &w->names[i], (w->n_names - i) * sizeof(*w->names));
        w->names[i] = (struct name){c->id, name};
        w->n_names++;
        return 0;
}

static void forget_name(struct watch *w, uint64_t id) {
        size_t i = name_at(w, id);

        if (!find_name(w, id))
                return;
        free(w->names[i].name);
        w->n_names--;
        memmove(&w->names[i], &w->names[i + 1], (w->n_names - i) * sizeof(*w->names));
}

static void name_event(void *userdata, const struct confab_event *event) {
        struct watch *w = userdata;
        uint64_t last = w->listed;

        if (event->kind != CONFAB_EVENT_CONVERSATIONS)
                return;
        for (size_t i = 0; i < event->conversations->n_items && w->status == 0; i++) {
                const struct confab_conversation *c = &event->conversations->items[i];

                put_name(w, c);
                w->listed = MAX(w->listed, c->id);
        }
        w->more = event->conversations->more && w->listed > last;
}

/* List those with ids greater than @id: one, or all. A lost connection is for the loop to see. Not Get: that would
 * refuse an administrator the conversations of others. */
static void list_names(struct watch *w, uint64_t id, bool one) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_LIST;
        r.limit = one;
        r.all_users = w->all;
        w->listed = id;
        do {
                r.after_id = w->listed;
                w->more = false;
        } while (confab_call(w->cli->confab, &r, name_event, w, NULL) == 0 && w->more && !one &&
                 w->status == 0);
}

/* ---- notices ---- */

static void keep_cursor(struct watch *w, const char *cursor) {
        char *copy = cursor && *cursor ? strdup(cursor) : NULL;

        if (!copy)
                return;
        free(w->cursor);
        w->cursor = copy;
}

static bool concerns(const struct watch *w, const struct confab_notice *n) {
        return !w->only || n->conversation == 0 || n->conversation == w->only ||
               n->parent == w->only;
}

static int add_line(struct watch *w, const struct confab_notice *n) {
        if (w->n_lines == w->lines_capacity) {
                size_t capacity = w->lines_capacity ? 2 * w->lines_capacity : 16;
                struct line *lines = reallocarray(w->lines, capacity, sizeof(*lines));

                if (!lines)
                        return no_memory(w);
                w->lines = lines;
                w->lines_capacity = capacity;
        }
        w->lines[w->n_lines] = (struct line){
                .kind = n->kind,
                .uid = n->uid,
                .id = n->conversation,
                .parent = n->parent,
                .budget = n->budget,
                .finish = n->finish,
                .pressed = n->pressed,
        };
        snprintf(w->lines[w->n_lines].model, sizeof(w->lines[0].model), "%s",
                n->model ? n->model : "");
        snprintf(w->lines[w->n_lines].tenant, sizeof(w->lines[0].tenant), "%s",
                n->tenant ? n->tenant : "");
        w->n_lines++;
        return 0;
}

static void watch_event(void *userdata, const struct confab_event *event) {
        struct watch *w = userdata;
        struct json j;

        if (event->final) {
                w->over = true;
                w->error = (struct confab_error){
                        .code = CONFAB_PROTOCOL, .message = "the daemon has ended the watch"};
                if (event->kind == CONFAB_EVENT_ERROR)
                        w->error = *event->error;
        }
        if (event->kind != CONFAB_EVENT_NOTICE)
                return;
        keep_cursor(w, event->notice->cursor);
        if (!concerns(w, event->notice) || add_line(w, event->notice) || !w->cli->json)
                return;
        json_init(&j, &w->cli->out);
        event_json_event(&j, event, EVENT_JSON_SEED_NUMBER);
        cli_json_end(w->cli, &j);
}

static void print_conversation(struct watch *w, const struct line *line, uint64_t id) {
        const struct name *name = find_name(w, id);
        char owner[CLI_OWNER_SIZE];

        cli_printf(w->cli, " ");
        if (name) {
                cli_name(w->cli, name->name);
                cli_printf(w->cli, " ");
        }
        cli_printf(w->cli, "(#%llu)", (unsigned long long)id);
        if (w->all && id == line->id) {
                cli_printf(w->cli, " of ");
                cli_name(w->cli,
                        cli_owner_name(owner, line->uid, *line->tenant ? line->tenant : NULL));
        }
}

static void print_line(struct watch *w, const struct line *line) {
        struct cli *cli = w->cli;
        char when[32], size[16];

        cli_printf(cli, "%s  %-10s", when_format(when, clock_realtime_usec()),
                confab_notice_name(line->kind));
        if (line->id)
                print_conversation(w, line, line->id);
        if (line->kind == CONFAB_NOTICE_FORKED) {
                cli_printf(cli, " from");
                print_conversation(w, line, line->parent);
        }
        if (line->kind == CONFAB_NOTICE_TURN_ENDED)
                cli_printf(
                        cli, ": %s", line->finish ? confab_finish_name(line->finish) : "it failed");
        if (line->kind == CONFAB_NOTICE_MODEL) {
                cli_printf(cli, " ");
                cli_name(cli, line->model);
        }
        if (line->kind == CONFAB_NOTICE_LIST_AGAIN)
                cli_printf(cli, " some notices are lost: 'confab ls' shows how things are");
        if (line->kind == CONFAB_NOTICE_PRESSURE)
                cli_printf(cli, " memory is %s, the budget goes to %s",
                        line->pressed ? "short" : "no longer short",
                        human_size(size, line->budget));
        cli_printf(cli, "\n");
}

/* The conversation that is watched may be closed, and the notice of that lost. */
static void look_whether_closed(struct watch *w) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_error e;

        r.verb = CONFAB_GET;
        r.conversation_id = w->only;
        if (confab_call(w->cli->confab, &r, NULL, NULL, &e) < 0 &&
                confab_error_is(&e, CONFAB_NOT_FOUND)) {
                cli_complain(w->cli, "it is closed");
                w->done = true;
        }
}

/* See to it that the names that @line needs are known. */
static void learn_names(struct watch *w, const struct line *line) {
        if (line->kind == CONFAB_NOTICE_MODEL || line->kind == CONFAB_NOTICE_LIST_AGAIN) {
                while (w->n_names > 0)
                        forget_name(w, w->names[w->n_names - 1].id);
                list_names(w, w->only ? w->only - 1 : 0, w->only != 0);
                return;
        }
        if (line->id && (line->kind == CONFAB_NOTICE_CHANGED || !find_name(w, line->id)))
                list_names(w, line->id - 1,
                        true); /* of one that is closed already the next one comes */
}

static void handle_line(struct watch *w, const struct line *line) {
        if (line->kind == CONFAB_NOTICE_MODEL)
                w->seen_model = true;
        if (!w->cli->json) {
                learn_names(w, line);
                print_line(w, line);
        }
        if (line->kind == CONFAB_NOTICE_CLOSED) {
                forget_name(w, line->id);
                w->done = w->done || (w->only && line->id == w->only);
        }
        if (line->kind == CONFAB_NOTICE_LIST_AGAIN && w->only)
                look_whether_closed(w);
}

/* Print what is queued; more may come while names are asked for. */
static void handle_lines(struct watch *w) {
        for (size_t i = 0; i < w->n_lines && w->status == 0; i++) {
                struct line line = w->lines[i];

                handle_line(w, &line);
        }
        w->n_lines = 0;
        if (w->status == 0)
                w->status = cli_flush(w->cli);
}

/* ---- the daemon comes and goes ---- */

/* Wait until the daemon has something to say, or @msec have passed. False when nobody reads the output any more. */
static bool wait_for(struct watch *w, int msec) {
        struct confab *c = w->cli->confab;
        struct pollfd fds[] = {
                {.fd = STDOUT_FILENO}, /* POLLERR: the reader of a pipe is gone */
                {.fd = c ? confab_get_fd(c) : -1, .events = c ? (short)confab_get_events(c) : 0},
        };

        if (poll(fds, ARRAY_SIZE(fds), msec) < 0 && errno != EINTR)
                return false;
        return !(fds[0].revents & (POLLERR | POLLNVAL));
}

/* One watch, from its request to its end. Its w->error tells how it ended. */
static void watch_once(struct watch *w) {
        struct confab *c = w->cli->confab;

        w->over = w->seen_model = false;
        w->error = (struct confab_error){.code = ""};
        w->r.verb = CONFAB_WATCH;
        w->r.cursor = w->cursor;
        if (confab_submit(c, &w->r, watch_event, w, NULL, &w->error) < 0)
                return;
        while (!w->over && !w->done && w->status == 0) {
                if (!wait_for(w, -1))
                        w->status = CLI_BROKEN_PIPE;
                else if (confab_process(c, NULL) == 0 || w->n_lines > 0)
                        handle_lines(w);
        }
}

static bool may_come_back(const struct confab_error *e) {
        return confab_error_is(e, CONFAB_DISCONNECTED) || confab_error_is(e, CONFAB_SHUTDOWN) ||
               confab_error_is(e, CONFAB_NO_DAEMON);
}

/* Rule 3. */
static void reconnect(struct watch *w, bool tell) {
        int pause = RETRY_MIN_MSEC;
        struct confab_error e;

        w->cli->confab = confab_free(w->cli->confab);
        if (tell)
                cli_complain(w->cli, "the daemon is gone (%s); waiting until it is back",
                        w->error.message);
        while (cli_make_connection(w->cli, &w->cli->confab, &e) < 0) {
                if (!may_come_back(&e)) {
                        w->status = cli_fail(w->cli, &e);
                        return;
                }
                if (!wait_for(w, pause)) {
                        w->status = CLI_BROKEN_PIPE;
                        return;
                }
                pause = MIN(2 * pause, RETRY_MAX_MSEC);
        }
}

static int watch_all(struct watch *w) {
        bool again =
                false; /* a connection that brought nothing is not told, nor made anew at once */

        for (;;) {
                watch_once(w);
                if (w->done || w->status)
                        return w->status;
                if (!may_come_back(&w->error))
                        return cli_fail(w->cli, &w->error);
                if (again && !w->seen_model && !wait_for(w, RETRY_MAX_MSEC))
                        return CLI_BROKEN_PIPE;
                reconnect(w, !again || w->seen_model);
                if (w->status)
                        return w->status;
                again = true;
        }
}

static void only_event(void *userdata, const struct confab_event *event) {
        struct watch *w = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                w->only = event->conversation->id;
}

static int run(struct cli *cli) {
        const struct cli_value *since = cli_get(cli, "since");
        struct watch w = {.cli = cli,
                .r = CONFAB_REQUEST_INIT,
                .all = cli_get(cli, "all") != NULL,
                .cursor = since ? strdup(since->s) : NULL};
        struct confab_request get = CONFAB_REQUEST_INIT;
        int status = cli_connect(cli);

        if (status == 0 && since && !w.cursor)
                status = no_memory(&w);
        if (status == 0 && cli->n_args) {
                status = cli_ref(cli, cli->args[0], &get);
                get.verb = CONFAB_GET;
                if (status == 0)
                        status = cli_call(cli, &get, only_event, &w);
        }
        w.r.all_users = w.all;
        if (status == 0)
                status = watch_all(&w);
        while (w.n_names > 0)
                free(w.names[--w.n_names].name);
        free(w.names);
        free(w.lines);
        free(w.cursor);
        return status;
}

static const struct cli_option options[] = {
        {"since", "CURSOR", CLI_STRING,
                .help = "begin behind the notice with this cursor, as --json shows it"},
        {"all", NULL, CLI_FLAG, .letter = 'a', .help = "of all users (for administrators)"},
        {.name = NULL},
};

const struct cli_command cmd_watch = {
        .name = "watch",
        .args = "[NAME]",
        .max_args = 1,
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "Tell what happens to conversations, as it happens",
        .help = "A line for each notice: when, what, and which conversation; docs/protocol.md "
                "lists them "
                "(\"Watch\"). With NAME of this one alone, until it is closed.\n\n"
                "When the daemon goes away, that is told on standard error, and the command waits "
                "until it is back, and goes on. list_again then says that notices may be lost.",
        .see = "top log",
        .options = {options},
        .run = run,
};
