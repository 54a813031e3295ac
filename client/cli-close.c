/* SPDX-License-Identifier: MIT */
/*
 * Closing several conversations.
 *
 * 1. What fails is told, and does not stop the others; the exit status is that of the first failure. Only what
 *    would fail for every other one too, such as a daemon that is gone, ends the run.
 * 2. A conversation that was chosen by a rule is looked at once more just before it is closed: between the list and
 *    now, perhaps while the user was asked, somebody may have used it. Then it stays, and that is a failure. One that
 *    somebody else has closed meanwhile is none.
 * 3. A line for each is printed as soon as it is closed, so that an interrupted run has told what it did.
 */
#include "client/cli-close.h"
#include "base/clock.h"
#include <errno.h>

enum { DONE, FAILED, KEPT };

void cli_close_init(struct cli_close *x, struct cli *cli, bool dry_run, bool by_rule) {
        *x = (struct cli_close){
                .cli = cli,
                .dry_run = dry_run,
                .by_rule = by_rule,
                .now_usec = clock_realtime_usec(),
        };
        for (size_t i = 0; cli->json && i < ARRAY_SIZE(x->lists); i++) {
                json_init(&x->lists[i], &x->bufs[i]);
                json_array_begin(&x->lists[i]);
        }
}

void cli_close_deinit(struct cli_close *x) {
        for (size_t i = 0; i < ARRAY_SIZE(x->bufs); i++)
                buf_deinit(&x->bufs[i]);
}

/* Begin an object in a list; the caller ends it. */
static struct json *put(struct cli_close *x, size_t list, uint64_t id, const char *name) {
        struct json *j = &x->lists[list];

        json_object_begin(j);
        if (id)
                json_put_key_u64(j, "id", id);
        if (name)
                json_put_key_string(j, "name", name);
        return j;
}

static void tell(struct cli_close *x, const struct cli_item *item, const char *what) {
        char age[16];

        cli_printf(x->cli, "%s ", what);
        cli_name(x->cli, item->name);
        cli_printf(x->cli, " (#%llu): %u turn%s, %u token%s, changed %s ago%s%s\n",
                (unsigned long long)item->id, item->n_turns, plural_s(item->n_turns),
                item->n_tokens, plural_s(item->n_tokens),
                human_age(age, item->updated_usec, x->now_usec), item->pinned ? ", pinned" : "",
                item->n_published ? ", published" : "");
}

void cli_close_kept(struct cli_close *x, const struct cli_item *item, const char *why) {
        struct json *j;

        if (!x->cli->json) {
                cli_printf(x->cli, "kept ");
                cli_name(x->cli, item->name);
                cli_printf(x->cli, " (#%llu): %s\n", (unsigned long long)item->id, why);
                return;
        }
        j = put(x, KEPT, item->id, item->name);
        json_put_key_string(j, "why", why);
        json_object_end(j);
}

bool cli_close_is_pattern(const char *name) {
        return strpbrk(name, "*?[") != NULL;
}

int cli_close_failed(
        struct cli_close *x, const char *name, uint64_t id, const struct confab_error *e) {
        struct json *j;

        if (cli_ends_all(e))
                return cli_fail(x->cli, e);
        if (confab_error_is(e, CONFAB_NOT_FOUND)) /* it names it */
                cli_complain(x->cli, "%s%s", e->message,
                        cli_close_is_pattern(name) ? " (--match takes a PATTERN)" : "");
        else
                cli_complain(x->cli, "%s: %s", name, e->message);
        x->status = x->status ? x->status : cli_status_of(e);
        if (!x->cli->json)
                return 0;
        j = put(x, FAILED, id, name);
        json_put_key_string(j, "code", e->code);
        json_put_key_string(j, "message", e->message);
        json_put_key_bool(j, "retry", e->retry);
        json_object_end(j);
        return 0;
}

/* ---- one ---- */

struct look {
        const struct cli_item *item;
        bool changed;
};

static void look_event(void *userdata, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;
        struct look *look = userdata;

        if (event->kind == CONFAB_EVENT_CONVERSATION)
                look->changed = c->revision != look->item->revision ||
                                c->updated_usec != look->item->updated_usec;
}

/* Rule 2. 0; 1: it is closed already; -1 with *e filled. */
static int look_again(struct cli_close *x, const struct cli_item *item, struct confab_error *e) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct look look = {.item = item};

        r.verb = CONFAB_GET;
        r.conversation_id = item->id;
        if (confab_call(x->cli->confab, &r, look_event, &look, e) < 0)
                return confab_error_is(e, CONFAB_NOT_FOUND) ? 1 : -1;
        if (!look.changed)
                return 0;
        *e = (struct confab_error){
                .code = CONFAB_CONFLICT, .message = "it was used since it was chosen, and stays"};
        return -1;
}

int cli_close_item(struct cli_close *x, const struct cli_item *item) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_error e;
        int looked = 0;

        r.verb = CONFAB_CLOSE;
        r.conversation_id = item->id;
        if (!x->dry_run && x->by_rule)
                looked = look_again(x, item, &e);
        if (looked > 0)
                return 0;
        if (looked < 0 || (!x->dry_run && confab_call(x->cli->confab, &r, NULL, NULL, &e) < 0))
                return cli_close_failed(x, item->name, item->id, &e);
        if (x->cli->json) {
                json_object_end(put(x, DONE, item->id, item->name));
                return 0;
        }
        if (x->dry_run || x->by_rule)
                tell(x, item, x->dry_run ? "would close" : "closed");
        return cli_flush(x->cli);
}

int cli_close_named(struct cli_close *x, const char *name) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_error e;
        int status = cli_ref(x->cli, name, &r);

        if (status)
                return status;
        r.verb = CONFAB_CLOSE;
        if (confab_call(x->cli->confab, &r, NULL, NULL, &e) < 0) {
                cli_add_near_names(x->cli, &r, &e);
                return cli_close_failed(x, name, 0, &e);
        }
        if (x->cli->json)
                json_object_end(put(x, DONE, r.conversation_id, r.conversation));
        return 0;
}

/* ---- the end ---- */

int cli_close_end(struct cli_close *x) {
        const char *const keys[] = {x->dry_run ? "would_close" : "closed", "failed", "kept"};
        struct json j;

        if (x->cli->json) {
                json_init(&j, &x->cli->out);
                json_object_begin(&j);
                for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                        json_array_end(&x->lists[i]);
                        if (json_finish(&x->lists[i]) < 0)
                                x->cli->out_error = ENOMEM;
                        if (i == KEPT && !x->keeps)
                                continue;
                        json_put_key(&j, keys[i]);
                        json_put_raw(&j, (const char *)x->bufs[i].data, x->bufs[i].size);
                }
                json_object_end(&j);
                cli_json_end(x->cli, &j);
        }
        cli_close_deinit(x);
        return x->status;
}
