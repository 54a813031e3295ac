/* SPDX-License-Identifier: MIT */
/*
 * Wait for replies.
 *
 * 1. Each conversation is attached to, all at once. The end of its reply is the end of the attachment; one that writes
 *    none gives its last reply's end. So it makes no difference whether a reply has ended before the command looks.
 * 2. Then the conversation is looked at: others may have waited to say something ('say --wait'). While it generates, it
 *    is attached to again.
 * 3. A conversation that does not end with a reply answers the Attach with "state". That is success, unless its last
 *    message was left without a reply.
 * The exit status is that of the first of the NAMEs that has not ended well.
 */
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <errno.h>
#include <string.h>

struct wait_all;
struct waited {
        struct wait_all *all;
        const char *name;
        uint64_t id;
        bool unanswered;
        int status;                /* when it has ended, with: */
        enum confab_finish finish; /* CONFAB_FINISH_NONE: there is no reply */
        uint32_t n_generated, n_calls;
        bool failed; /* why: */
        struct confab_error error;
};
struct wait_all {
        struct cli *cli;
        struct waited *items; /* [n] */
        size_t n;
};

static void submit(struct waited *w, enum confab_verb verb);

static void over(struct waited *w) {
        if (w->failed) {
                if (confab_error_is(&w->error, CONFAB_NOT_FOUND)) /* it names it */
                        cli_complain(w->all->cli, "%s", w->error.message);
                else
                        cli_complain(w->all->cli, "%s: %s", w->name, w->error.message);
                w->status = cli_status_of(&w->error);
        } else if (w->finish == CONFAB_FINISH_CANCELLED) {
                cli_complain(w->all->cli, "%s: the reply was cancelled", w->name);
                w->status = CLI_FAILED;
        } else if (w->finish == CONFAB_FINISH_NONE && w->unanswered) {
                cli_complain(w->all->cli, "%s: what was said last has no reply", w->name);
                w->status = CLI_FAILED;
        } else if (w->n_calls > 0) {
                w->status = CLI_CALLS;
        }
}

static void on_event(void *userdata, const struct confab_event *event) {
        struct waited *w = userdata;

        switch (event->kind) {
        case CONFAB_EVENT_DONE:
                w->finish = event->done->finish;
                w->n_generated = event->done->n_generated;
                w->n_calls = event->done->n_calls;
                submit(w, CONFAB_GET);
                break;
        case CONFAB_EVENT_CONVERSATION:
                w->id = event->conversation->id;
                w->unanswered = event->conversation->unanswered;
                if (event->conversation->generating)
                        submit(w, CONFAB_ATTACH);
                else
                        over(w);
                break;
        case CONFAB_EVENT_ERROR:
                if (confab_error_is(event->error, CONFAB_STATE)) {
                        submit(w, CONFAB_GET); /* rule 3 */
                        break;
                }
                w->failed = true;
                w->error = *event->error;
                over(w);
                break;
        default:
                break;
        }
}

static void submit(struct waited *w, enum confab_verb verb) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = verb;
        r.want_parts = verb == CONFAB_ATTACH; /* its end then counts calls */
        if (w->id)
                r.conversation_id = w->id;
        else
                (void)!cli_parse_ref(w->name, &r); /* was tried before */
        if (confab_submit(w->all->cli->confab, &r, on_event, w, NULL, &w->error) == 0)
                return;
        w->failed = true;
        over(w);
}

static void put(struct cli *cli, const struct waited *w) {
        const struct confab_event event = {.kind = CONFAB_EVENT_ERROR, .error = &w->error};
        struct json j;

        json_init(&j, &cli->out);
        json_object_begin(&j);
        json_put_key_string(&j, "name", w->name);
        if (w->failed) {
                json_put_key(&j, "error");
                event_json_event(&j, &event, EVENT_JSON_SEED_NUMBER);
        } else {
                json_put_key_u64(&j, "conversation", w->id);
                json_put_key_string(&j, "finish", w->finish ? confab_finish_name(w->finish) : NULL);
                json_put_key_u64(&j, "n_generated", w->n_generated);
                json_put_key_u64(&j, "n_calls", w->n_calls);
                json_put_key_bool(&j, "unanswered", w->unanswered);
        }
        json_object_end(&j);
        cli_json_end(cli, &j);
}

/* Until all have ended, or the connection has, which ends them. */
static int wait_for_all(struct wait_all *all) {
        struct cli *cli = all->cli;
        int status = cli_connect(cli);

        if (status)
                return status;
        for (size_t i = 0; i < all->n; i++)
                submit(&all->items[i], CONFAB_ATTACH);
        while (confab_get_n_pending(cli->confab) > 0)
                if (confab_wait(cli->confab, -1, NULL) < 0)
                        break;
        for (size_t i = 0; i < all->n; i++) {
                if (cli->json)
                        put(cli, &all->items[i]);
                if (!status)
                        status = all->items[i].status;
        }
        return status;
}

static int run(struct cli *cli) {
        struct wait_all all = {.cli = cli, .n = cli->n_args};
        int status = 0;

        for (size_t i = 0; i < all.n && status == 0; i++) {
                struct confab_request r = CONFAB_REQUEST_INIT;

                status = cli_ref(cli, cli->args[i], &r);
        }
        if (status)
                return status;
        all.items = calloc(all.n, sizeof(*all.items));
        if (!all.items)
                return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        for (size_t i = 0; i < all.n; i++)
                all.items[i] = (struct waited){.all = &all, .name = cli->args[i]};
        status = wait_for_all(&all);
        free(all.items);
        return status;
}

const struct cli_command cmd_wait = {
        .name = "wait",
        .args = "NAME...",
        .min_args = 1,
        .max_args = SIZE_MAX,
        .purpose = CLI_PURPOSE_TALK,
        .summary = "Wait until none of the conversations is writing a reply",
        .help = "The exit status is as 'confab say' would have had it, also if the reply ended "
                "before: "
                "0, 7 if it asks for functions, 1 if it was cancelled or failed, or if what was "
                "said "
                "last has no reply; of several conversations that of the first one whose is not 0. "
                "With --json an object for each NAME. Ctrl-C leaves; the replies go on.",
        .examples = "for q in a b c; do confab say \"$q\" --detach @question.txt; done\n"
                    "confab wait a b c && confab attach a",
        .see = "say attach",
        .run = run,
};
