/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include <string.h>

static void print_turn(struct cli *cli, size_t i, const struct confab_conversation *c) {
        const struct confab_turn *t = &c->turns[i];

        cli_printf(cli, "\n[%zu] %s", i, confab_role_name(t->role));
        if (t->end > c->dropped_from && t->start < c->dropped_to)
                cli_printf(cli, " (not in memory)");
        if (t->finish && t->finish != CONFAB_FINISH_STOP)
                cli_printf(cli, " (%s)", confab_finish_name(t->finish));
        cli_printf(cli, "\n");
        if (t->tools)
                cli_printf(cli, "(told new definitions of tools)\n");
        if (t->n_parts > 0) {
                cli_print_parts(cli, t->parts, t->n_parts);
                return;
        }
        for (size_t k = 0; k < t->n_results; k++) {
                cli_name(cli, t->results[k].name ? t->results[k].name : "");
                cli_printf(cli, " [");
                cli_name(cli, t->results[k].call_id);
                cli_printf(cli, "]: ");
                cli_text(cli, t->results[k].text, strlen(t->results[k].text));
                cli_printf(cli, "\n");
        }
        if (t->n_results > 0)
                return;
        cli_text(cli, t->text.data, t->text.size);
        if (t->text.size == 0 || t->text.data[t->text.size - 1] != '\n')
                cli_printf(cli, "\n");
}

static void print(struct cli *cli, const struct confab_conversation *c) {
        char ram[16], disk[16];

        cli_name(cli, c->name);
        cli_printf(cli, " (#%llu), revision %llu\n", (unsigned long long)c->id,
                (unsigned long long)c->revision);
        cli_printf(cli, "%u token%s in %u turn%s, %s, %s in RAM, %s on disk%s\n", c->n_tokens,
                plural_s(c->n_tokens), c->n_turns, plural_s(c->n_turns),
                confab_residency_name(c->residency), human_size(ram, c->ram_size),
                human_size(disk, c->disk_size),
                c->generating ? ", generating"
                : c->busy     ? ", busy"
                              : "");
        if (c->parent)
                cli_printf(cli, "forked from #%llu at token %u\n", (unsigned long long)c->parent,
                        c->fork_pos);
        if (c->n_published)
                cli_printf(cli, "published: all users share the memory of its first %u tokens\n",
                        c->n_published);
        if (c->pinned)
                cli_printf(cli, "pinned: its memory stays in RAM for longest\n");
        if (c->private_memory)
                cli_printf(cli, "imported from elsewhere: its memory is not shared\n");
        if (c->dropped_to > c->dropped_from)
                cli_printf(cli, "not in memory: tokens %u to %u, the model does not see them\n",
                        c->dropped_from, c->dropped_to);
        if (c->other_vocabulary)
                cli_printf(cli, "made with another model: 'confab carry NAME' lets it go on with "
                                "this one\n");
        if (c->unusable_size > 0)
                cli_printf(cli,
                        "memory of another model: %s on disk, which this model cannot use%s\n",
                        human_size(disk, c->unusable_size),
                        c->other_vocabulary ? "" : ": it is computed again");
        if (c->overflow == CONFAB_OVERFLOW_SHIFT)
                cli_printf(cli, "overflow: shift\n");
        if (c->tools) {
                cli_printf(cli, "tools: ");
                cli_name(cli, c->tools);
                cli_printf(cli, "\n");
        }
        if (c->damaged)
                cli_printf(cli,
                        "damaged from turn %u on: rewind or fork it to there ('confab rewind NAME "
                        "--to-turn %u') to go on\n",
                        c->damaged_turn, c->damaged_turn);
        for (size_t i = 0; i < c->n_turn_list; i++)
                print_turn(cli, i, c);
        for (size_t i = 0; i < c->n_token_list; i++)
                cli_printf(cli, "%s%d", i ? "," : "\n", c->tokens[i]);
        if (c->n_token_list)
                cli_printf(cli, "\n");
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        int status = cli_ref(cli, cli->args[0], &r);

        if (status)
                return status;
        r.verb = CONFAB_GET;
        r.want_turns = r.want_parts = true;
        r.want_tokens = cli_get(cli, "tokens") != NULL;
        return cli_call_conversation(cli, &r, print);
}

static const struct cli_option options[] = {
        {"tokens", NULL, CLI_FLAG, .help = "its tokens as well"},
        {.name = NULL},
};

const struct cli_command cmd_show = {
        .name = "show",
        .args = "NAME",
        .min_args = 1,
        .max_args = 1,
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "Show a conversation with all of its turns",
        .help = "The numbers of the turns are what 'confab fork --at', 'confab rewind --to-turn' "
                "and 'confab edit' take. Turns that the model does not see any more are marked. "
                "Replies are shown in parts: reasoning (dimmed on a terminal), text, and calls of "
                "functions with their ids.\n\nIt also tells whether the conversation was made with "
                "another model, and how much of its memory on disk the present one cannot use.",
        .see = "log ls edit",
        .options = {options},
        .run = run,
};
