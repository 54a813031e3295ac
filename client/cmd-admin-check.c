/* SPDX-License-Identifier: MIT */
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <string.h>

struct show {
        struct cli *cli;
        bool problems; /* there are some */
};

static void print_problem(struct cli *cli, const struct confab_problem *problem) {
        cli_name(cli, problem->kind);
        cli_printf(cli, ":");
        if (problem->conversation)
                cli_printf(cli, " conversation #%llu%s", (unsigned long long)problem->conversation,
                        problem->record ? "," : ":");
        if (problem->record)
                cli_printf(cli, " record %llu:", (unsigned long long)problem->record);
        cli_printf(cli, " ");
        cli_name(cli, problem->text);
        cli_printf(cli, "%s\n", problem->is_forgotten ? " (forgotten: it is computed again)" : "");
}

static void print(struct cli *cli, const struct confab_checked *checked) {
        char size[16];

        for (size_t i = 0; i < checked->n_problems; i++)
                print_problem(cli, &checked->problems[i]);
        if (checked->n_found > checked->n_problems)
                cli_printf(cli, "and %llu more problem%s\n",
                        (unsigned long long)(checked->n_found - checked->n_problems),
                        plural_s(checked->n_found - checked->n_problems));
        cli_printf(cli, "register: %llu conversation%s, %llu turn%s, %llu token%s\n",
                (unsigned long long)checked->n_conversations, plural_s(checked->n_conversations),
                (unsigned long long)checked->n_turns, plural_s(checked->n_turns),
                (unsigned long long)checked->n_tokens, plural_s(checked->n_tokens));
        cli_printf(cli, "memory:   %llu %s written", (unsigned long long)checked->n_records,
                checked->n_records == 1 ? "record is as it was" : "records are as they were");
        if (checked->n_forgotten)
                cli_printf(cli, ", %llu %s forgotten", (unsigned long long)checked->n_forgotten,
                        checked->n_forgotten == 1 ? "was" : "were");
        if (checked->n_gone)
                cli_printf(cli, ", %llu went meanwhile", (unsigned long long)checked->n_gone);
        if (checked->n_skipped)
                cli_printf(cli, ", %llu are too large to be checked",
                        (unsigned long long)checked->n_skipped);
        cli_printf(cli, "\n%s were read: ", human_size(size, checked->read_size));
        if (checked->n_found)
                cli_printf(cli, "%llu problem%s\n", (unsigned long long)checked->n_found,
                        plural_s(checked->n_found));
        else
                cli_printf(cli, "no problems\n");
}

static void event(void *userdata, const struct confab_event *ev) {
        struct show *show = userdata;
        struct json j;

        if (ev->kind != CONFAB_EVENT_CHECKED)
                return;
        show->problems = ev->checked->n_found > 0;
        if (show->cli->json) {
                json_init(&j, &show->cli->out);
                event_json_checked(&j, ev->checked);
                cli_json_end(show->cli, &j);
        } else {
                print(show->cli, ev->checked);
        }
}

static int run(struct cli *cli) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct cli_value *rate = cli_get(cli, "rate");
        struct show show = {.cli = cli};
        int status;

        r.verb = CONFAB_CHECK;
        r.has_rate = rate != NULL;
        if (rate && strcmp(rate->s, "none") != 0 && !cli_parse_size(rate->s, INT64_MAX, &r.rate))
                return cli_usage(cli, "--rate: bytes, as 100M, or none");
        status = cli_call(cli, &r, event, &show);
        return status == 0 && show.problems ? CLI_PROBLEMS : status;
}

static const struct cli_option options[] = {
        {"rate", "BYTES", CLI_STRING,
                .help = "read so much in a minute (100M; none: as fast as it goes; default: 1G)",
                .more = "The average holds; what is read at a time, a table of the register at "
                        "most, is "
                        "read at full speed."},
        {.name = NULL},
};

const struct cli_command cmd_admin_check = {
        .name = "check",
        .args = "",
        .summary = "Read all that is on disk, and compare it with its checksums",
        .help = "The register, and the memory of all conversations, while the daemon goes on. "
                "Damaged "
                "memory is told and forgotten, and computed again when it is needed; damage of "
                "the register is told. The exit status is 8 if there are problems. Interrupted, "
                "the "
                "check ends. For a daemon that is not running there is 'confab-model fsck'.",
        .options = {options},
        .run = run,
};
