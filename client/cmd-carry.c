/* SPDX-License-Identifier: MIT */
/* One conversation, or all that were made with another model: what fails does not stop the others. */
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <string.h>

struct one {
        uint64_t id;
        char *name;              /* owned */
        struct confab_error why; /* if it failed */
        bool failed;
};
struct all {
        struct cli *cli;
        struct one *items; /* owned */
        size_t n, capacity;
        struct json j;
};

static void print(struct cli *cli, const struct confab_conversation *c) {
        cli_name(cli, c->name);
        if (!c->carried) {
                cli_printf(cli, ": nothing to do, it has the tokens of this model\n");
                return;
        }
        cli_printf(cli, ": carried over, %u turn%s, %u token%s instead of %u\n", c->n_turns,
                plural_s(c->n_turns), c->n_tokens, plural_s(c->n_tokens), c->n_tokens_before);
        if (c->dropped_to > c->dropped_from)
                cli_printf(cli, "  not in memory: tokens %u to %u, the model does not see them\n",
                        c->dropped_from, c->dropped_to);
        if (c->n_biases_dropped > 0)
                cli_printf(cli,
                        "  %u logit biases were dropped: they named tokens of the other model\n",
                        c->n_biases_dropped);
}

static int add(void *userdata, const struct confab_conversation *c) {
        struct all *a = userdata;

        if (!c->other_vocabulary)
                return 0;
        if (a->n == a->capacity) {
                size_t capacity = a->capacity ? 2 * a->capacity : 64;
                struct one *items = reallocarray(a->items, capacity, sizeof(*items));

                if (!items)
                        return cli_error(a->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
                a->items = items;
                a->capacity = capacity;
        }
        a->items[a->n] = (struct one){.id = c->id, .name = strdup(c->name)};
        if (!a->items[a->n].name)
                return cli_error(a->cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory");
        a->n++;
        return 0;
}

static void answer(void *userdata, const struct confab_event *event) {
        struct all *a = userdata;

        if (event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        if (!a->cli->json) {
                print(a->cli, event->conversation);
                return;
        }
        json_object_begin(&a->j);
        event_json_conversation(&a->j, event->conversation, EVENT_JSON_SEED_NUMBER);
        json_object_end(&a->j);
}

/* 0, or the status to end with at once; *status: of the first that failed. */
static int carry_one(struct all *a, struct one *one, int *status) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_CARRY;
        r.conversation_id = one->id;
        one->failed = confab_call(a->cli->confab, &r, answer, a, &one->why) < 0;
        if (one->failed && cli_ends_all(&one->why))
                return cli_fail(a->cli, &one->why);
        if (one->failed) {
                cli_complain(a->cli, "%s (#%llu): %s", one->name, (unsigned long long)one->id,
                        one->why.message);
                *status = *status ? *status : cli_status_of(&one->why);
        }
        return a->cli->json ? 0 : cli_flush(a->cli); /* the next one may take its time */
}

static void put_failed(struct all *a) {
        json_put_key(&a->j, "failed");
        json_array_begin(&a->j);
        for (size_t i = 0; i < a->n; i++) {
                const struct one *one = &a->items[i];

                if (!one->failed)
                        continue;
                json_object_begin(&a->j);
                json_put_key_u64(&a->j, "id", one->id);
                json_put_key_string(&a->j, "name", one->name);
                json_put_key_string(&a->j, "code", one->why.code);
                json_put_key_string(&a->j, "message", one->why.message);
                json_put_key_bool(&a->j, "retry", one->why.retry);
                json_object_end(&a->j);
        }
        json_array_end(&a->j);
}

static int carry_each(struct all *a) {
        int status = 0;

        if (a->cli->json) {
                json_init(&a->j, &a->cli->out);
                json_object_begin(&a->j);
                json_put_key(&a->j, "conversations");
                json_array_begin(&a->j);
        } else if (a->n == 0) {
                cli_printf(
                        a->cli, "nothing to do: all conversations have the tokens of this model\n");
        }
        for (size_t i = 0; i < a->n; i++) {
                int r = carry_one(a, &a->items[i], &status);

                if (r)
                        return r;
        }
        if (a->cli->json) {
                json_array_end(&a->j);
                put_failed(a);
                json_object_end(&a->j);
                cli_json_end(a->cli, &a->j);
        }
        return status;
}

static int run_all(struct cli *cli) {
        struct all a = {.cli = cli};
        int status = cli_list_each(cli, false, add, &a);

        if (status == 0)
                status = carry_each(&a);
        for (size_t i = 0; i < a.n; i++)
                free(a.items[i].name);
        free(a.items);
        return status;
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        bool all = cli_get(cli, "all") != NULL;
        int status;

        if (all == (cli->n_args > 0))
                return cli_usage(cli, "the name of a conversation, or --all");
        if (all)
                return run_all(cli);
        status = cli_ref(cli, cli->args[0], &r);
        r.verb = CONFAB_CARRY;
        return status ? status : cli_call_conversation(cli, &r, print);
}

static const struct cli_option options[] = {
        {"all", NULL, CLI_FLAG, .letter = 'a',
                .help = "all your conversations that were made with another model"},
        {.name = NULL},
};

const struct cli_command cmd_carry = {
        .name = "carry",
        .args = "NAME | --all",
        .min_args = 0,
        .max_args = 1,
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Carry conversations of another model over to this one",
        .help = "What was said is written anew with this model's tokens and chat format. 'confab "
                "ls' and 'confab show' tell which conversations need it. Until it has succeeded "
                "the conversation stays as it is. What was not stored as text, or has no place in "
                "this model's chat format, or does not fit its context, is refused, and the turn "
                "or the figures are told. A conversation that has this model's tokens stays as it "
                "is, with exit status 0.\n\nWith --all, those that fail are told on standard "
                "error, the others are carried, and the exit status is that of the first failure. "
                "The steps of changing a model, and back, are in docs/models.md (\"Changing the "
                "model\").",
        .see = "model",
        .options = {options},
        .run = run,
};
